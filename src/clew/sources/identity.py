"""Finds the session of a conversation, and the ids of its messages.

An import changes nothing that is not its own. A file chooses the ids of its conversation and of its messages, so it can
name those of any other. A conversation continues a session only if this session was imported from the same tool under
the same id, is not on hold, and does not come from another file that has other words. A message is a stored one only if
role, content and the message before it are equal. Otherwise both get new ids, which are derived from their names; those
of messages also from the content.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

import msgspec

from clew.base import codec, ids
from clew.base.messages import ATTACHED, REDACTION, AnyMessage, Native
from clew.engine.node import Node, is_clean_version, node_payload, parent_key
from clew.engine.session_data import SOURCE
from clew.providers.neutral import neutral
from clew.sources.contract import ENVELOPE, Entry, Source, derived_id
from clew.sources.layout import WHOLE, FileName, record_id, record_origin, renamed_entry, renaming
from clew.sources.values import storable
from clew.sources.writing import session_id
from clew.store.session import Session, tree_of
from clew.store.store import Store
from clew.store.unit import Draft, Unit

_FILE = "file"
"""In a session's origin, if its id is a derived one: the file that it came from."""


class Claim(NamedTuple):
    """A session that a conversation may be stored in."""

    id: str
    session: Session | None
    """None if it does not exist yet."""
    note: str | None = None
    """For a new session: why the conversation does not continue the one with its own id."""


class Claims(NamedTuple):
    """The sessions that a conversation may be stored in, best first; the last one is new."""

    free: list[Claim]
    held: frozenset[str]
    """Those that came from the same conversation and are on hold."""
    redacted: bool = False
    """True if a secret was removed from one of those on hold."""


def find_session(unit: Unit, id: str) -> Session | None:
    """The session with this id, or the subagent's trace; also in the trash."""
    return unit.session(id, subagent=None, trashed=True)


def claims(unit: Unit, source: str, name: str, file: FileName) -> Claims:
    """Where a conversation of a file may be stored: what came from this file first. Corrupted.

    The place of a purged session is free, but does not end the search: a session of this file may come after it.
    """
    own, other, held, redacted = list[Claim](), list[Claim](), set[str](), False
    new: Claim | None = None
    why = "its id is that of another conversation"
    for id in _session_ids(source, name):
        session = find_session(unit, id)
        if session is None:
            note = None if id == session_id(source, name) else f"{why}: imported as a new conversation"
            new = new or Claim(id, None, note)
            if unit.purged([id]):
                continue
            return Claims([*own, *other, new], frozenset(held), redacted)
        extra = session.data.extra or {}
        origin = extra.get(SOURCE)
        if not isinstance(origin, dict) or not _is_of(origin, source, name):
            continue
        if is_held(unit, session):
            held.add(id)
            redacted = redacted or REDACTION in extra
            why = "the conversation with its id is on hold"
        elif origin.get(_FILE) == file_label(file):
            own.append(Claim(id, session))
        elif new is None:
            other.append(Claim(id, session))
    raise AssertionError("the ids never end")


def is_held(unit: Unit, session: Session) -> bool:
    """True for a session on hold, and for a trace that belongs to one. Corrupted."""
    owner = session.owner_id
    above = None if owner is None else find_session(unit, owner)
    return session.held or (above is not None and is_held(unit, above))


def file_label(file: FileName) -> str:
    """A file, as the origin of a session names it."""
    return f"{file.folder}/{file.name}"


def _session_ids(source: str, name: str) -> Iterator[str]:
    """The id of a conversation's session, then those that it has if that one is taken."""
    yield session_id(source, name)
    for number in count(1):
        yield derived_id(source, name, f"\0session {number}")


def _is_of(origin: dict[str, object], source: str, name: str) -> bool:
    before = origin.get("id")
    same = isinstance(before, str) and session_id(source, before) == session_id(source, storable(name))
    return same and origin.get("tool") == source


# -- messages


class Placed(NamedTuple):
    """A new message of the same transaction."""

    draft: Draft
    parent: bytes | None
    tree: int | str
    """The tree that it is in, or the session that gets a new one."""


class Decided(NamedTuple):
    """A message with the ids under which it and the one before it are stored."""

    entry: Entry
    draft: Draft
    known: bool
    """True if it is stored already."""
    same: bool
    """True if its bytes are those that are stored."""


class MessageIds:
    """The ids under which one session stores the messages of its file, if they are not those that the file gives.

    The session's log has an entry for each: so a file that has grown finds the messages before its new ones.
    """

    def __init__(self, store: Store, session: str) -> None:
        self._store = store
        self.session = session
        self._now: dict[bytes, bytes] = {}
        """The id in the store for an id in the file, where these differ or once did."""
        self._logged: dict[bytes, tuple[bytes, int]] = {}
        """What the log says of an id in the file, and the number of the next entry for it."""
        self._stored: dict[bytes, Node | None] = {}
        """The messages that were looked up; None for one of another workspace."""
        self._batch: set[bytes] = set()
        self._tree: int | str | None = None
        """The tree that the session's messages are in; None as long as it can be any."""
        self.redacted = False
        """True if a stored message was redacted and the file still has the secret."""
        self.clashes = 0
        """New messages of this batch whose ids other messages have."""

    def current(self, id: str) -> str:
        """The id in the store for an id in the file."""
        found = _key(id)
        return id if found is None or found not in self._now else ids.text(self._now[found])

    def begin(self, session: Session | None, entries: Sequence[Entry], head: str | None) -> bool:
        """Looks up what a batch needs, by reads alone. True if the ids of some of its messages are stored already."""
        given = [one for entry in entries for one in (entry.id, entry.parent, entry.derived)]
        given += [head, *(entry.copies.message for entry in entries if entry.copies is not None)]
        names = {key for one in given if (key := _key(one)) is not None}
        self._batch, self.clashes = set(), 0

        def work(unit: Unit) -> None:
            empty = session is None or (session.head_id is None and not len(session.log))
            self._tree = None if session is None or empty else tree_of(session)
            if session is not None:
                self._load(unit, session, names - {*self._now})
            self._stored = _messages(unit, [*names, *(self._now[one] for one in names if one in self._now)])

        if names:
            self._store.read(work)
        return any(_key(entry.id) in self._stored for entry in entries)

    def contradicts(self, entry: Entry, laid: set[str]) -> bool:
        """True if the session has a message under the id of this one, and its content is another. Corrupted."""
        id = _key(entry.id)
        if id is None or entry.message is None or (id := self._now.get(id, id)) not in self._stored:
            return False
        node = self._stored[id]
        if node is None or ids.text(id) not in laid or len(entry.raw) >= self._store.max_body:
            return False
        before, now = node.said, self._store.redacted(entry.message)
        if WHOLE in (before.extra or {}) or is_clean_version(node, now):
            return False
        return _content(before, ()) != _content(now, ())

    def decide(self, entry: Entry, draft: Draft, placed: dict[bytes, Placed], laid: set[str]) -> Decided:
        """Whether a message is stored already, and the ids it has; adds a new one to `placed`. Corrupted.

        `laid` has the ids of the messages that the session has already.
        """
        parent, given, clash = self._parent(entry, placed), draft.id, False
        for id in self._candidates(draft):
            if id not in placed and id not in self._stored:
                self._tree = self._tree or self.session
                placed[id] = Placed(draft, parent, self._tree)
                self.clashes += clash
                known, same = False, True
                break
            own = entry.inherited or id in self._batch or ids.text(id) in laid
            fits = self._fits(id, draft, parent, placed, own=own)
            if fits is not None:
                known, same = True, fits
                break
            clash = clash or id in placed or self._stored[id] is not None
        self._batch.add(id)
        if id != self._now.get(given, given):
            self._now[given] = id
        if self._now:
            above, derived = entry.parent, entry.derived
            entry = msgspec.structs.replace(
                entry,
                id=ids.text(id),
                parent=None if above is None else self.current(above),
                derived=None if derived is None else self.current(derived),
            )
            draft = msgspec.structs.replace(draft, id=id)
        return Decided(entry, draft, known, same)

    def log_entries(self) -> list[tuple[bytes, bytes]]:
        """What the session's log must say of new ids."""
        found = []
        for given, id in self._now.items():
            before, number = self._logged.get(given, (given, 0))
            if before != id:
                found.append((self._log_id(given, number), renamed_entry(ids.text(given), ids.text(id))))
        return found

    def take_over(self) -> None:
        """Takes over that the log has these entries, after the commit."""
        for given, id in self._now.items():
            before, number = self._logged.get(given, (given, 0))
            if before != id:
                self._logged[given] = id, number + 1

    # -- inside

    def _load(self, unit: Unit, session: Session, names: set[bytes]) -> None:
        first = {self._log_id(name, 0): name for name in names}
        for found in unit.logged(None, first) if first else ():
            given = first[found]
            for number in count():
                data = unit.entry(session, self._log_id(given, number))
                if data is None:
                    break
                self._now[given] = ids.parse(renaming(data)[1])
                self._logged[given] = self._now[given], number + 1

    def _log_id(self, given: bytes, number: int) -> bytes:
        workspace = self._store.workspace.encode()  # another one may have a session with this id
        return record_id(ids.parse(self.session), "\0renamed", given + number.to_bytes(4, "big") + workspace)

    def _parent(self, entry: Entry, placed: dict[bytes, Placed]) -> bytes | None:
        """The stored id of the message before this one; None if that is not stored."""
        found = _key(entry.parent)
        found = None if found is None else self._now.get(found, found)
        return found if found in self._batch or found in placed or self._stored.get(found or b"") else None

    def _candidates(self, draft: Draft) -> Iterator[bytes]:
        """The ids that a message may have: the one that it has had, its own, and those derived from its content."""
        given, store = draft.id, self._store
        before = self._now.get(given)
        if before is not None and before in self._stored:
            yield before
        yield given
        content = msgspec.msgpack.encode(_content(codec.decode(draft.encoded.payload, "")))
        for number in count():
            parts = self.session.encode(), given, number.to_bytes(4, "big"), content
            id = record_id(store.lookup_hash("import-message", b"\0".join(parts)), store.workspace, b"")
            if id not in self._stored:
                self._stored |= store.read(partial(_messages, names=[id]))
            yield id

    def _fits(
        self, id: bytes, draft: Draft, parent: bytes | None, placed: dict[bytes, Placed], *, own: bool
    ) -> bool | None:
        """None if the message under this id is another one; else whether it has the same bytes. Corrupted.

        A redacted version of the message stays, and counts as the same bytes. A message that the conversation has
        (`own`) may follow another one than before, because more of the history is there; but not a new version of it.
        """
        again, clean = placed.get(id), False
        if again is not None:
            payload, tree, above = again.draft.encoded.payload, again.tree, again.parent
        else:
            node = self._stored[id]
            if node is None:
                return None
            payload, tree, above = node_payload(node), tree_of(node), parent_key(node)
            clean = is_clean_version(node, codec.decode(draft.encoded.payload, ""))
        if self._tree not in (None, tree):
            return None
        if above != parent and (not own or parent in self._now.values()):
            return None
        same = _is_same(payload, draft)
        if not same and not clean:
            before, now = (codec.decode(one, ids.text(id)) for one in (payload, draft.encoded.payload))
            if _content(before) != _content(now):
                return None
        self._tree = tree
        self.redacted = self.redacted or (clean and not same)
        return same or clean


def _messages(unit: Unit, names: Sequence[bytes]) -> dict[bytes, Node | None]:
    """Those of these ids that messages have, with the messages; None for one of another workspace."""
    return {name: unit.node(name) for name in map(ids.parse, unit.known(names))}


def _key(id: str | None) -> bytes | None:
    return None if id is None else ids.maybe(id)


def _content(message: AnyMessage, more: Sequence[str] = (ATTACHED, WHOLE)) -> tuple[object, ...]:
    """Role and content of a message, and what its free data says of its content."""
    view, extra = neutral(message), message.extra or {}
    return view.role, view.blocks, *(extra.get(name) for name in more)


def _is_same(payload: bytes, draft: Draft) -> bool:
    """True if two messages come from the same record. Token counts, for example, may have been added later."""
    if payload == draft.encoded.payload:
        return True
    where = ids.text(draft.id)
    before, now = codec.decode(payload, where), codec.decode(draft.encoded.payload, where)
    if not isinstance(before, Native) or not isinstance(now, Native):
        return False
    old, new = (one.extra or {} for one in (before, now))
    return before.raw == now.raw and all(old.get(name) == new.get(name) for name in (ENVELOPE, ATTACHED))


def stored_name(store: Store, source: Source, name: str, file: FileName) -> str:
    """The name of a conversation in the store.

    An older version stored names with slashes joined by slashes: such a session keeps its name, if it has all of these
    names. A session of another database, which names its sessions as this one does, keeps its name too: then this
    conversation is named after its database, also after the other one was deleted.
    """
    if name.startswith("["):
        names = _names(name)
        session = _session(store, source, "/".join(names))
        own = None if session is None else session.extra.get(source.name)
        return "/".join(names) if isinstance(own, dict) and own.get("names") == names else name
    if getattr(source, "names_per_file", False):
        own = f"{name} ({file.name} {file.folder})"
        if _is_from(_session(store, source, own), file):
            return own
        session = _session(store, source, name)  # the import leaves one in the trash alone
        if session is not None and session.trashed_at is None and not _is_from(session, file):
            return own
    return name


def _session(store: Store, source: Source, name: str) -> Session | None:
    id = session_id(source.name, name)
    return store.read(lambda unit: unit.session(id, trashed=True), single=True)


def _is_from(session: Session | None, file: FileName) -> bool:
    return session is not None and file in record_origin(session).files


def _names(name: str) -> list[str]:
    try:
        return msgspec.json.decode(name, type=list[str])
    except msgspec.MsgspecError:  # a name of another kind
        return []
