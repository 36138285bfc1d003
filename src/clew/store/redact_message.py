"""Removes secrets from a message that is stored: a new version takes its place, and the old one is deleted."""

from __future__ import annotations

from typing import NamedTuple

from clew import redaction
from clew.backends import MAX_POS
from clew.base import ids
from clew.engine.node import Node, run_info
from clew.engine.receipts import Receipt
from clew.errors import Conflict
from clew.redaction import Finding, Rules
from clew.store.parts import Parts
from clew.store.session import Session
from clew.store.session_table import SESSION, SUBAGENT
from clew.store.store import Store


class RedactedMessage(NamedTuple):
    """What `redact_message` did."""

    old: str
    new: str | None
    """The id of the new version; None if nothing was found, and nothing was changed."""
    findings: tuple[Finding, ...]
    sessions: tuple[str, ...]
    """The sessions that have the new version."""
    copied: int
    """Messages after it, which were stored again after the new version."""
    receipt: Receipt | None


def redact_message(store: Store, node: Node, rules: Rules, *, dry_run: bool = False) -> RedactedMessage:
    """Replaces a message by one without what the rules find in it, in the session that has it.

    Messages that follow it are stored again under new ids, with their times. The old ones are deleted, and the files
    are cleared of their traces. All or nothing, up to the clearing. Conflict if several sessions have the message, if
    its session is in the trash or has compacted it away, if messages follow on another branch, or if a hold or a
    snapshot needs one.
    """
    clean = redaction.redact(node.said, rules)
    if not clean.findings:
        return RedactedMessage(node.id, None, (), (), 0, None)
    holders = _holders(store, node)
    if len(holders) > 1:
        named = ", ".join(f"{one.handle} ({one.title or 'untitled'})" for one in holders)
        hint = "Purge all of them but one, then try again."
        raise Conflict(f"{len(holders)} conversations share the message: {named}", hint=hint)
    below = store.nodes.subtree(node.id)
    _refuse_unseen(holders, below, node)
    names = tuple(session.id for session in holders)
    if dry_run:
        return RedactedMessage(node.id, None, clean.findings, names, len(below) - 1, None)
    new = {one.id: ids.text(Parts.of(store).engine.new_id()) for one in below}
    with store.transaction():
        for session in holders:
            for one in _leave(session, node):
                said = clean.said if one.id == node.id else one.said
                session.append(said, id=new[one.id], created_at=one.created_at)
            title = session.title or ""
            if (better := redaction.redact_bytes(title.encode(), rules).decode()) != title:
                session.rename(better)
        gone = store.nodes.delete(node.id, recursive=True)
    receipt = store.sessions.create().purge()  # a purge clears the files of what was deleted before
    receipt = receipt._replace(messages=gone.messages, bytes=gone.bytes, blobs=gone.blobs, failures=gone.failures)
    return RedactedMessage(node.id, new[node.id], clean.findings, names, len(below) - 1, receipt)


def _holders(store: Store, node: Node) -> list[Session]:
    """The sessions that show a message. Conflict if one of them cannot be changed."""
    tree = run_info(node).tree
    parts = Parts.of(store)
    rows = parts.engine.read(lambda tx: list(tx.refs_in_tree(tree, 0, MAX_POS)))
    found = []
    for session in (Session(parts, row) for row in rows if row.kind in (SESSION, SUBAGENT)):
        if any(one.id == node.id for one in session.path()):
            if session.trashed_at is not None:
                hint = "Restore or purge it first."
                raise Conflict(f"session {session.id} in the trash has the message, too", hint=hint)
            found.append(session)
        elif any(one.id == node.id for one in session.history()):
            hint = "Purge the session, or delete the message and what follows it."
            raise Conflict(f"session {session.id} has left the message behind in a compaction", hint=hint)
    return found


def _refuse_unseen(holders: list[Session], below: list[Node], node: Node) -> None:
    """Conflict if messages follow that no session shows: they would be lost."""
    shown = {one.id for session in holders for one in session.path()}
    unseen = [one.handle for one in below if one.id not in shown and one.id != node.id]
    if unseen:
        hint = f"Delete them first: clew conversation delete --cascade {unseen[0]}"
        raise Conflict(f"{len(unseen)} messages on a branch follow it, from {unseen[0]} on", hint=hint)


def _leave(session: Session, node: Node) -> list[Node]:
    """Moves the head before a message, and gives the messages from it on."""
    path = session.path()
    at = next(at for at, one in enumerate(path) if one.id == node.id)
    session.rewind(path[at - 1].id if at else None)
    return path[at:]
