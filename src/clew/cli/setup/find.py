"""Finds the conversation or message that a user names: by id, handle, beginning of an id or title, or position.

| typed | means |
|---|---|
| `01890a5d-…`, `k3m9qa` | an id or a handle |
| `01890a5d`, `5f2c`, `k3m9` | the beginning of an id, in clew or in the tool it was imported from, or of a handle |
| `aB3xY9` | the id of a message imported from CPE, never its conversation |
| `Build fa` | the beginning of a title |
| `@last`, `@-2` | the conversation that was active last, the one before it |
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress

import click

import clew
from clew.base.visible import plain
from clew.cli.output.text import clip
from clew.errors import Ambiguous, NotFound

NAMES = "clew.names"
"""Key in the context for ids of another program's file, mapped to ids of clew."""
MOST = 8
"""Conversations that an error lists."""
CPE_FILE = ".cpeconvo"
"""The file in which CPE keeps the conversations of a directory."""
_CPE_ID = re.compile(r"[A-Za-z0-9]{6}")
_CPE_IDS = "clew.cpe_ids"
"""Key in the context for the imported messages of CPE, which are read once."""
_POSITION = re.compile(r"@(last|-[1-9][0-9]{0,6})")
_ID = re.compile(r"[0-9a-f-]{1,36}", re.IGNORECASE)
SHORTEST = 4
"""Characters of an id or a handle that are enough, if they are unique."""


def find(store: clew.Store, typed: str) -> clew.Session | clew.Node:
    """The session or message that is meant. NotFound, with similar ones; Ambiguous."""
    typed = _in_file(typed)
    session = node = None
    with suppress(NotFound):
        session = store.sessions.get(typed)
    with suppress(NotFound):
        node = store.nodes.get(typed)[0]
    if session is not None and node is not None and session.id != node.id:
        raise Ambiguous("handle", typed, [f"conversation {session.id}", f"message {node.id}"])
    return session or node or _message_of_cpe(store, typed) or _search(store, typed, "conversation or message")


def find_session(store: clew.Store, typed: str | None) -> clew.Session:
    """The session that is meant; without a name, the latest of the current directory. NotFound, Ambiguous.

    The id of a message never stands for its session: NotFound, and the hint names the session.
    """
    if typed is None:
        try:
            return store.sessions.latest(os.getcwd())
        except NotFound:
            hint = "Name one: 'clew ls' lists them, and @last is the latest of all directories."
            raise NotFound("conversation of this directory", "", hint=hint) from None
    with suppress(NotFound):
        return store.sessions.get(typed)
    try:
        return _search(store, typed, "conversation")
    except NotFound as error:
        with suppress(NotFound):
            error.hint = _message_hint(store, typed, find_message(store, typed))
        raise


def find_message(store: clew.Store, typed: str) -> clew.Node:
    """The message with this id, handle or CPE id. NotFound, Ambiguous."""
    typed, node = _in_file(typed), None
    with suppress(NotFound):
        node = store.nodes.get(typed)[0]
    known = _message_of_cpe(store, typed)
    if node is not None and known is not None and node.id != known.id:
        raise Ambiguous("message", typed, [node.id, known.id])
    if node is None and known is None:
        hint = _cpe_hint(typed) or "'clew show CONVERSATION' shows the IDs of messages."
        raise NotFound("message", typed, hint=hint)
    return node or known  # type: ignore[return-value]


def find_point(store: clew.Store, typed: str | None) -> tuple[clew.Session, str | None]:
    """A session; for a message, its session and its id. Otherwise like `find_session`. NotFound, Ambiguous."""
    found = find_session(store, None) if typed is None else find(store, typed)
    if isinstance(found, clew.Session):
        return found, None
    session = store.sessions.with_message(found, branches=True)
    if session is None:
        raise NotFound("conversation of message", str(typed), hint="The message belongs to no conversation.")
    return session, found.id


def message_id(store: clew.Store, typed: str) -> str:
    """The id of a message imported from CPE; anything else as it was typed, for the library to resolve."""
    with suppress(NotFound):
        store.nodes.get(typed)
        return typed
    known = _message_of_cpe(store, typed)
    return typed if known is None else known.id


def find_trashed(store: clew.Store, typed: str) -> str:
    """The id of the session in the trash that has this message of CPE; anything else as it was typed."""
    if not _CPE_ID.fullmatch(typed):
        return typed
    from clew.agents.cpe.reader import imported_ids

    for session in imported_ids(store, trashed=True).get(typed, {}).values():
        return session.id
    return typed


def describe_session(store: clew.Store, id: str) -> str:
    """The handle and title of a conversation, in the trash or not; its id if it is damaged."""
    try:
        session = store.sessions.find_anywhere(id)
        handle, title = session.handle, session.title
    except clew.ClewError:
        return id
    return f"{handle} ({plain(clip(title, 60))})" if title else f"{handle} (untitled)"


def act_on(store: clew.Store, act: Callable[[str], clew.Session]) -> Callable[[str], clew.Session]:
    """`act`, which takes ids and handles, for everything that a user can type. NotFound, Ambiguous."""

    def do(typed: str) -> clew.Session:
        try:
            return act(typed)  # knows handles of conversations in the trash, too
        except NotFound:
            return act(find_session(store, typed).id)

    return do


def _search(store: clew.Store, typed: str, what: str) -> clew.Session:
    """The session at a position, or whose id or title begins so. NotFound, Ambiguous."""
    if position := _POSITION.fullmatch(typed):
        return _at(store, 1 if position[1] == "last" else -int(position[1]))
    wanted, found = typed.casefold().strip(), list[clew.Session]()
    names: dict[str, clew.Session] = {}
    for session in _all(store):
        title = (session.title or "").casefold()
        if wanted and (title.startswith(wanted) or _has_id(session, wanted)):
            found.append(session)
        names[session.handle] = session
        for name in (title, title[: len(wanted) + 1]):  # all of it, or as much as was typed
            if name:
                names.setdefault(name, session)
    if len(found) == 1:
        return found[0]
    if found:
        raise Ambiguous("conversation", typed, [_describe(one) for one in found[:MOST]])
    if (hint := _cpe_hint(typed)) is not None:
        raise NotFound(what, typed, hint=hint)
    from difflib import get_close_matches  # not every command looks for near matches

    near = dict.fromkeys(names[name] for name in get_close_matches(wanted, names, n=4, cutoff=0.6))
    hint = f"Did you mean {' or '.join(map(_describe, near))}?" if near else "'clew ls' lists conversations."
    raise NotFound(what, typed, hint=hint)


def _in_file(typed: str) -> str:
    """The id for the id of another program's file."""
    names: dict[str, str] = click.get_current_context().meta.get(NAMES, {})
    return names.get(typed, typed)


def _message_of_cpe(store: clew.Store, typed: str) -> clew.Node | None:
    """The imported message with this id in CPE. Ambiguous if two files had one."""
    if not _CPE_ID.fullmatch(typed):
        return None
    from clew.agents.cpe.reader import imported_ids

    meta = click.get_current_context().meta
    if _CPE_IDS not in meta:
        meta[_CPE_IDS] = imported_ids(store)
    found = list(meta[_CPE_IDS].get(typed, ()))
    if len(found) > 1:
        raise Ambiguous("message", typed, found)
    with suppress(NotFound):  # this command may have deleted it
        return store.nodes.get(found)[0] if found else None
    return None


def _message_hint(store: clew.Store, typed: str, node: clew.Node) -> str:
    """What to type instead of the id of a message, where a conversation is expected."""
    session = store.sessions.with_message(node, branches=True)
    of = "" if session is None else f" of conversation {_describe(session)}; to act on all of it, use {session.handle}"
    return f"{plain(typed)} is a message{of}. Delete only the message with: clew conversation delete {plain(typed)}"


def _cpe_hint(typed: str) -> str | None:
    """What to do, if this is the id of a message in the CPE file of the current directory."""
    if not _CPE_ID.fullmatch(typed) or not os.path.exists(CPE_FILE):
        return None
    from clew.agents.cpe.reader import has_message

    if not has_message(CPE_FILE, typed):
        return None
    read = f"clew --db {CPE_FILE} show {typed}"
    return f"It is a message in {CPE_FILE}. Import that file: clew import {CPE_FILE}. Or read it there: {read}"


def _all(store: clew.Store) -> Iterator[clew.Session]:
    for session in store.sessions.list(limit=500).all():
        with suppress(clew.Corrupted):
            _ = session.data
            yield session


def _has_id(session: clew.Session, wanted: str) -> bool:
    """True if its id, its handle, or the id that its tool gave it, begins so."""
    if len(wanted) < SHORTEST:
        return False
    if session.handle.startswith(wanted):
        return True
    if not _ID.fullmatch(wanted):
        return False
    from clew.store.origin import origin_of  # loads the store, which not every command needs

    origin = origin_of(session)  # an id of CPE is that of a message
    return session.id.startswith(wanted) or (origin.tool != "cpe" and origin.id.casefold().startswith(wanted))


def _at(store: clew.Store, number: int) -> clew.Session:
    for position, session in enumerate(store.sessions.list(limit=min(number, 500)).all(), 1):
        if position == number:
            return session
    raise NotFound("conversation", f"@-{number}", hint=f"There are fewer than {number:,}.")


def _describe(session: clew.Session) -> str:
    return f"{session.handle} ({plain(session.title or 'untitled')[:40]})"
