"""Changes made from the page, with `--allow-write`. Nothing here deletes permanently."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from clew.checkpoints import Checkpoints, Mode
from clew.errors import Invalid, NotFound
from clew.store.session import Session
from clew.store.store import Store
from clew.store.windows import number_of, window
from clew.web.conversation import NOTES
from clew.web.files import checkpoints
from clew.web.views import PINNED, utc_now

LONGEST = 4_000
"""Characters of a title, a label or a note."""
Values = dict[str, Any]
Change = Callable[[Store, Session, Values], Values]


def rename(store: Store, session: Session, values: Values) -> Values:
    """Changes the title."""
    session.rename(_text(values, "title") or None)
    return {"title": session.title}


def label(store: Store, session: Session, values: Values) -> Values:
    """Adds a label, or removes it."""
    name = _text(values, "label")
    if not name:
        raise Invalid("a label is empty")
    session.label(*([] if values.get("remove") else [name]), remove=[name] if values.get("remove") else [])
    return {"labels": session.labels}


def pin(store: Store, session: Session, values: Values) -> Values:
    """Lists the conversation first, or no longer."""
    pinned = PINNED in session.labels
    session.label(*([] if pinned else [PINNED]), remove=[PINNED] if pinned else [])
    return {"pinned": not pinned}


def note(store: Store, session: Session, values: Values) -> Values:
    """Adds a note to a message; with `remove`, the number of a note from 0, removes that one."""
    node, text, remove = _node(store, session, values), _text(values, "text"), values.get("remove")
    if not text and not isinstance(remove, int):
        raise Invalid("the note is empty")
    with store.transaction():
        session.refresh()
        extra = session.extra
        notes = {**extra.get(NOTES, {})}
        mine = [one for number, one in enumerate(notes.pop(node, [])) if number != remove] + [text] * bool(text)
        session.update(extra={**extra, NOTES: {**notes, **({node: mine} if mine else {})}})
    return {"notes": mine}


def fork(store: Store, session: Session, values: Values) -> Values:
    """Creates a conversation that continues after a message."""
    made = session.fork(at=_node(store, session, values), title=f"{session.title or 'Untitled'} (fork)")
    made.label(remove=[PINNED])
    return {"id": made.id, "url": f"/c/{made.id}"}


def preview_rewind(store: Store, session: Session, values: Values) -> Values:
    """The effects of a rewind, as in `clew rewind --dry-run`: messages kept as a branch, and changed files."""
    target = _node(store, session, values)
    number = number_of(session, target)
    if number is None:
        raise NotFound("message", target, hint="It is not on the current path of the conversation.")
    plan: Values = {"number": number, "left": window(session, 1, 0).total - number, "files": None}
    if checkpoints(session, utc_now()):
        planned = Checkpoints(session, session.cwd or "").rewind(target, mode="both", dry_run=True)
        plan["files"] = {
            "possible": planned.can_rewind, "why": planned.error or "", "changed": planned.files_changed,
            "removed": planned.removed, "insertions": planned.insertions, "deletions": planned.deletions,
            "unchanged": [*planned.unseen, *planned.kept],
        }  # fmt: skip
    return plan


def rewind(store: Store, session: Session, values: Values) -> Values:
    """Makes a message the last one; with `files`, restores the files too. The messages after it stay as a branch."""
    plan = preview_rewind(store, session, values)
    target = _node(store, session, values)
    if session.cwd and os.path.isdir(session.cwd):  # through the checkpoints, so that `clew undo` can undo it
        mode: Mode = "both" if values.get("files") is True else "conversation"
        result = Checkpoints(session, session.cwd).rewind(target, mode=mode)
        if not result.can_rewind:
            raise Invalid(f"the conversation cannot be rewound: {result.error}")
    else:
        session.rewind(to=target)
    return plan


def trash(store: Store, session: Session, values: Values) -> Values:
    """Moves the conversation to the trash; `restore` brings it back."""
    session.trash()
    return {"id": session.id}


CHANGES: dict[str, Change] = {
    "rename": rename,
    "label": label,
    "pin": pin,
    "note": note,
    "fork": fork,
    "preview-rewind": preview_rewind,
    "rewind": rewind,
    "trash": trash,
}
"""By the last part of the URL."""


def _text(values: Values, name: str) -> str:
    value = values.get(name, "")
    if not isinstance(value, str) or len(value) > LONGEST:
        raise Invalid(f"{name} must be text of at most {LONGEST:,} characters")
    return value.strip()


def _node(store: Store, session: Session, values: Values) -> str:
    """The message that a change is about: one of the conversation's tree. NotFound."""
    from clew.web.conversation import find_node

    return find_node(session, _text(values, "message")).id
