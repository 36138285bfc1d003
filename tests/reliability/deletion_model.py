"""What a store may have after each step: plain sets of words, read from the lines of an export.

It uses nothing of clew. Every message has a word of its own, so a set of words says what is stored.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

Words = Collection[str]


class Seen(NamedTuple):
    """A store as its export shows it."""

    sessions: dict[str, set[str]]
    """The words in the messages of each session and of each trace of a subagent, with their branches."""
    refs: dict[str, dict[str, Any]]
    """Their lines."""
    said: set[str]
    """The words in messages."""
    text: set[str]
    """The words anywhere: also in titles, labels, free data and logs."""
    below: dict[str, set[str]]
    """The words of each message and of all that follow it."""
    with_node: dict[str, set[str]]
    """The sessions that have a message, in a branch, too."""

    def with_owned(self, sessions: Words) -> set[str]:
        """These sessions, and those that belong to them."""
        return {*sessions, *(id for id, line in self.refs.items() if _owner(line) in sessions)}


def look(lines: Iterable[bytes], words: Words) -> Seen:
    """Reads an export."""
    found = [(json.loads(line), _text(line)) for line in lines]
    text = "\n".join(one for _, one in found)
    there = {word for word in words if word in text}
    nodes = {line["id"]: (line.get("parent"), _in(one, there)) for line, one in found if line["type"] == "node"}
    refs = {line["id"]: line for line, _ in found if line["type"] == "ref" and line["kind"] in ("session", "subagent")}
    sessions: dict[str, set[str]] = {id: set() for id in refs}
    below: dict[str, set[str]] = defaultdict(set)
    for id, (_, own) in nodes.items():
        for above in _path(nodes, id):
            below[above] |= own
    with_node: dict[str, set[str]] = defaultdict(set)
    for line, _ in found:
        name = line["id"] if line.get("id") in refs else _owner(line)
        if line["type"] == "ref" and name in sessions:
            for id in _path(nodes, line.get("head")):
                sessions[name] |= nodes[id][1]
                with_node[id].add(name)
    return Seen(sessions, refs, {word for _, own in nodes.values() for word in own}, there, below, with_node)


class Model:
    """What was deleted, and what must stay."""

    def __init__(self) -> None:
        self.deleted: set[str] = set()
        """Words that no message may have."""
        self.back: set[str] = set()
        """Words that an import has brought back because it was told to; an undo deletes them again."""
        self.purged: set[str] = set()
        """Words that may be nowhere."""
        self.repeated: set[str] = set()
        """Words of single messages that were deleted, which titles and records of their files still repeated."""
        self.had: dict[str, set[str]] = defaultdict(set)
        """The words of each purged session: it may not have them again, even if a fork still has them."""
        self.held: set[str] = set()
        self.retained: set[str] = set()

    def came(self, before: Seen, now: Seen, new: Words, *, again: bool = False) -> None:
        """A step that stores: it removes nothing, and adds only these words."""
        self._stays(before, now, ())
        assert now.said - before.said <= {*new}, "a word came from nowhere"
        if again:
            back = self.deleted & {*new} & now.said
            self.back |= back
            self.deleted -= back
            self.purged -= {*new} & now.text
            for id, words in self.had.items():
                words -= now.sessions.get(id, set())
        self.check(now)

    def went(self, before: Seen, now: Seen, gone: Words, lost: Words = (), *, whole: bool = True) -> None:
        """A step that purges these sessions, or these words from all sessions; `whole` if no trace may stay."""
        gone = before.with_owned(gone)
        assert gone.isdisjoint(self.held), "a held session went"
        assert gone.isdisjoint(now.sessions), "a session that was named is still there"
        self._stays(before, now, lost, gone)
        for id in gone:
            self.had[id] |= before.sessions[id]
        self.retained -= gone
        away = before.said - now.said
        assert {*lost} & before.said <= away, "a message that was named is still there"
        self.deleted |= away
        self.back -= away
        self.purged |= before.text - now.text
        if whole:
            self.purged |= away - self.repeated
        else:
            self.repeated |= away & now.text
        self.check(now)

    def undone(self, before: Seen, now: Seen, gone: Words, added: Words) -> None:
        """A step that takes an import back: it removes nothing but what that has added, and forgets no purge."""
        gone = before.with_owned(gone)
        assert gone.isdisjoint(self.held), "a held session went"
        assert gone.isdisjoint(now.sessions), "a session that was named is still there"
        self._stays(before, now, added, gone)
        away = before.said - now.said
        assert away <= {*added}, "an undo removed what its import had not added"
        self.deleted |= away & self.back
        self.back -= away
        self.check(now)

    def check(self, now: Seen) -> None:
        """What holds after every step."""
        assert self.deleted.isdisjoint(now.said), "a deleted message came back"
        assert self.purged.isdisjoint(now.text), f"purged words came back: {self.purged & now.text}"
        kept = {word for id in self.held for word in now.sessions.get(id, ())}  # an import continues what is held
        for id, words in self.had.items():
            assert now.sessions.get(id, set()) & words <= kept, f"the purged session {id} came back"
        assert {*now.sessions} >= self.held | self.retained, "a held or retained session went"
        self.purged |= self.deleted - now.text

    def _stays(self, before: Seen, now: Seen, lost: Words, gone: Words = ()) -> None:
        for id, words in before.sessions.items():
            if id not in gone:
                assert id in now.sessions, f"session {id} went"
                assert words - {*lost} <= now.sessions[id], f"session {id} lost messages"


def _path(nodes: dict[str, Any], id: str | None) -> Iterable[str]:
    while id in nodes:
        yield id
        id = nodes[id][0]


def _owner(line: dict[str, Any]) -> str | None:
    return (line.get("owner") or (None, None))[1]


def _in(text: str, words: Words) -> set[str]:
    return {word for word in words if word in text}


def _text(line: bytes) -> str:
    """A line with what it has in base64 as text."""
    data = json.loads(line).get("data")
    return line.decode() + (b64decode(data["base64"]).decode(errors="replace") if isinstance(data, dict) else "")
