"""Titles made from the first question, and their removal when it is deleted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from clew.backends import MAX_SEQ, POS, SEQ_BITS, RefRow, Tx
from clew.base import ids
from clew.base.messages import RECORD, AnyMessage, Message
from clew.engine.deletion import BATCH, RunCut
from clew.engine.engine import Engine
from clew.engine.receipts import Failure
from clew.engine.refs import Refs
from clew.engine.session_data import AGAIN, SOURCE, SessionData, note_changes, pack, unpack
from clew.errors import Corrupted
from clew.providers.view import view

LONGEST = 60
_ELLIPSIS = "…"


def title_of(said: Iterable[AnyMessage]) -> str | None:
    """The first words of the first question, on one line."""
    for one in said:
        words = _words(one)
        if words:
            return words if len(words) <= LONGEST else words[: LONGEST - 1].rstrip() + _ELLIPSIS
    return None


def renewed(title: str | None, old: AnyMessage, new: AnyMessage) -> str | None:
    """`title`; if it was made from a message that has a new version, a title made from that."""
    words = _words(old)
    return title_of([new]) if title and words and _made_of(title, {words}) else title


def of_cuts(engine: Engine, tx: Tx, cuts: Sequence[RunCut]) -> set[str]:
    """The first words of all questions in these cuts, to find titles made from them."""
    found: set[str] = set()
    for cut in cuts:
        at, last = (cut.run.run << SEQ_BITS | cut.first) - 1, cut.run.run << SEQ_BITS | MAX_SEQ
        while places := [place for place in tx.maintenance.places_after(at, BATCH) if place.row[POS] <= last]:
            at = places[-1].row[POS]
            for place in places:
                node = engine.node(place)
                try:
                    words = _words(node.said) if node.role == "user" else ""
                except Corrupted:  # a damaged message cannot be compared
                    continue
                if words:
                    found.add(words)
    return found


def clear(refs: Refs, tx: Tx, row: RefRow, words: set[str]) -> Failure | None:
    """Removes a session's title if it was made of these words. A failure if a record's summary may repeat them."""
    now = tx.ref_at(row.ref)
    if now is None:
        return None
    try:
        data = unpack(refs.data(refs.verify(now)))
    except Corrupted:
        return Failure(ids.text(row.key), "its title cannot be read, and may repeat what was deleted")
    title = None if data.title is not None and _made_of(data.title, words) else data.title
    cleared = msgspec.structs.replace(data, title=title, extra=_without(data.extra, words))
    if cleared != data:
        data = note_changes(data, cleared, now.version + 1, ())
        refs.change(tx, now, pack(data), look=now.look)
    return Failure(ids.text(row.key), "its summary may repeat what was deleted") if _summarised(data) else None


def _without(extra: dict[str, Any] | None, words: set[str]) -> dict[str, Any] | None:
    """Free data whose origin repeats none of these words, and lets no import bring them back."""
    origin = (extra or {}).get(SOURCE)
    if extra is None or not isinstance(origin, dict):
        return extra
    title = origin.get("title")
    left = {AGAIN, "title"} if isinstance(title, str) and _made_of(title, words) else {AGAIN}
    return {**extra, SOURCE: {name: value for name, value in origin.items() if name not in left}}


def _made_of(title: str, words: set[str]) -> bool:
    if title in words:
        return True
    cut = title.removesuffix(_ELLIPSIS)
    return cut != title and any(one.startswith(cut) for one in words)


def _summarised(data: SessionData) -> bool:
    kept = (data.extra or {}).get(RECORD)
    return isinstance(kept, dict) and kept.get("summary") is not None


def _words(said: AnyMessage) -> str:
    """The start of a user message on one line, as long as a title needs; empty for other messages."""
    message = said if isinstance(said, Message) else view(said)
    return " ".join(message.text[:400].split()) if message.role == "user" else ""
