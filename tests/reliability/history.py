"""What several processes did to one store, and whether it can be so.

Each process writes down every call before it makes it, and how it ended. `check` compares that with what is stored in
the end. There are two kinds of sessions. All processes append to the *shared* ones, and do nothing else to them: so
there is one order of their messages, the stored one, and every read is a beginning of it. A *private* one belongs to
the process that made it, which appends, rewinds and purges: so what it holds is known exactly.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

NEVER = 1 << 62
"""When a call ended that was cut short."""
Outcome = Literal["ok", "fail", "unknown"]


@dataclass
class Op:
    """One call. Times are of the clock that all processes of a machine share."""

    who: str
    kind: str
    """append, read, fork, create, rewind or purge. One in a transaction with several has their parts."""
    parts: dict[str, list[str]]
    """Of each session what was appended to it, one or several messages."""
    called: int
    ended: int = NEVER
    outcome: Outcome = "unknown"
    """`fail` promises that nothing was done; `unknown` may be either."""
    seen: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Of each session that was read how many messages it had, and their digest."""
    keep: int = 0
    """Of a rewind how many messages are left."""
    source: str = ""
    """Of a fork what it was forked from."""


def digest(texts: Iterable[str]) -> str:
    """What is compared of a read, instead of all that was read."""
    return blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()


def load(files: Iterable[Path]) -> list[Op]:
    """The calls in journals. The last line of a process that was killed may be cut short: that call did not begin.

    A call that another process made again, under the same ids, after the first was killed is one with the first.
    """
    ops: list[Op] = []
    again: list[Op] = []
    for file in files:
        known: dict[int, Op] = {}
        for line in file.read_text().splitlines():
            try:
                event: dict[str, Any] = json.loads(line)
            except ValueError:
                break
            if event["event"] == "call":
                op = Op(
                    file.stem, event["kind"], event.get("parts", {}), event["at"],
                    keep=event.get("keep", 0), source=event.get("source", ""),
                )  # fmt: skip
                known[event["number"]] = op
                (again if op.kind == "again" else ops).append(op)
            else:
                op = known[event["number"]]
                op.outcome, op.ended = event["event"], event["at"]
                op.seen = {session: (count, hash) for session, (count, hash) in event.get("seen", {}).items()}
    for one in again:
        if one.outcome == "ok":
            first = next(op for op in ops if op.parts == one.parts)
            first.outcome, first.ended = one.outcome, one.ended
    return ops


def check(ops: Sequence[Op], final: dict[str, list[str] | None], shared: Sequence[str]) -> list[str]:
    """What is wrong with a history, one line each. `final` has the texts of each session at its end; None if gone."""
    wrong: list[str] = []
    lines = {session: _Line(session, final[session] or [], ops, wrong) for session in shared}
    for op in ops:
        parts = [(lines[session], texts) for session, texts in op.parts.items() if session in lines]
        there = [text in line.place for line, texts in parts for text in texts]
        if any(there) and not all(there):
            wrong.append(f"{op.who}: half of {op.parts} is stored")
        elif there and op.outcome == "ok" and not all(there):
            wrong.append(f"{op.who}: {op.parts} was acknowledged, and is lost")
        elif any(there) and op.outcome == "fail":
            wrong.append(f"{op.who}: {op.parts} failed, and is stored")
        if op.outcome == "ok":
            for session, (count, hash) in op.seen.items():
                if op.kind in ("read", "fork") and (line := lines.get(op.source or session)):
                    line.read(op, count, hash)
    _together(ops, lines, wrong)
    _private(ops, final, lines, wrong)
    return wrong


class _Line:
    """A shared session: its messages in stored order, and when each was begun and seen."""

    def __init__(self, session: str, texts: list[str], ops: Sequence[Op], wrong: list[str]) -> None:
        self.session, self.wrong = session, wrong
        self.texts = texts
        self.place = {text: number for number, text in enumerate(texts)}
        if len(self.place) < len(texts):
            twice = [text for number, text in enumerate(texts) if self.place[text] != number]
            wrong.append(f"{session}: stored twice: {twice}")
        self.begun = [NEVER] * len(texts)
        self.done = [NEVER] * len(texts)
        """When each was acknowledged, or read by somebody, whichever was first."""
        last: dict[str, int] = {}
        for op in ops:
            places = [self.place[text] for text in op.parts.get(session, ()) if text in self.place]
            if not places:
                continue
            if places != list(range(places[0], places[0] + len(places))):
                wrong.append(f"{op.who}: {op.parts[session]} is not stored side by side")
            if last.get(op.who, -1) > places[0]:
                wrong.append(f"{op.who}: {op.parts[session]} is stored before what this process appended earlier")
            last[op.who] = places[-1]
            for place in places:
                self.begun[place], self.done[place] = op.called, op.ended
        wrong += [f"{session}: {texts[place]} is from nowhere" for place, at in enumerate(self.begun) if at == NEVER]
        self._latest = list(accumulate((at if at != NEVER else 0 for at in self.begun), max))
        self._see(ops)
        self._in_time()
        hash = blake2b(digest_size=8)
        self.digests = [hash.copy().hexdigest()]
        for number, text in enumerate(texts):
            hash.update(("\n" if number else "").encode() + text.encode())
            self.digests.append(hash.copy().hexdigest())

    def _see(self, ops: Sequence[Op]) -> None:
        """What somebody has read was done by then."""
        first = [NEVER] * (len(self.texts) + 1)
        for op in ops:
            for session, (count, _) in op.seen.items():
                if (op.source or session) == self.session and op.outcome == "ok" and count <= len(self.texts):
                    first[count] = min(first[count], op.ended)
        for place, read in enumerate(list(accumulate(reversed(first), min))[-2::-1]):
            self.done[place] = min(self.done[place], read)
        times = sorted((at, place) for place, at in enumerate(self.done) if at != NEVER)
        self._times = [at for at, _ in times]
        self._highest = list(accumulate((place for _, place in times), max))

    def _in_time(self) -> None:
        """What was done before another began is before it."""
        earliest = NEVER
        for place in reversed(range(len(self.texts))):
            if earliest < self.begun[place] != NEVER:
                self.wrong.append(
                    f"{self.session}: {self.texts[place]} began when something behind it was done already"
                )
            earliest = min(earliest, self.done[place])

    def read(self, op: Op, count: int, hash: str) -> None:
        """A read is a beginning of what is stored, has all that was done before it, and nothing from after it."""
        if count > len(self.texts) or self.digests[count] != hash:
            self.wrong.append(
                f"{op.who}: a {op.kind} of {self.session} saw {count} messages that are not its first ones"
            )
            return
        before = bisect_left(self._times, op.called)
        if before and self._highest[before - 1] >= count:
            missed = self.texts[self._highest[before - 1]]
            self.wrong.append(f"{op.who}: a {op.kind} of {self.session} missed {missed}, which was there already")
        if count and self._latest[count - 1] > op.ended:
            self.wrong.append(f"{op.who}: a {op.kind} of {self.session} saw what had not begun")


def _together(ops: Sequence[Op], lines: dict[str, _Line], wrong: list[str]) -> None:
    """Who reads several sessions at one moment sees of each transaction everything or nothing."""
    pairs = []
    for op in ops:
        places = [
            (session, lines[session].place.get(texts[0]))
            for session, texts in op.parts.items()
            if texts and session in lines
        ]
        if len(places) > 1 and all(place is not None for _, place in places):
            pairs.append((op, places))
    for read in ops:
        if len(read.seen) > 1 and read.outcome == "ok":
            for op, places in pairs:
                if len({place < read.seen[session][0] for session, place in places if place is not None}) > 1:
                    wrong.append(f"{read.who}: saw half of {op.parts}")


def _private(ops: Sequence[Op], final: dict[str, list[str] | None], lines: dict[str, _Line], wrong: list[str]) -> None:
    """Of a session that one process used, what each read saw is what that process did, and so is what is stored."""
    states: dict[str, list[list[str] | None]] = {}
    """Of each what it may hold: one state, or two after a call that was cut short."""
    for op in ops:
        for session in op.parts or op.seen:
            if session in lines:
                continue
            now = states.setdefault(session, [None])
            after = _after(op, session, now[0], lines, final)
            if op.outcome == "ok":
                seen = op.seen.get(session)
                if seen is not None and (after is None or seen != (len(after), digest(after))):
                    wrong.append(f"{op.who}: {op.kind} of {session} saw {seen[0]} messages, not {after}")
                states[session] = [after]
            elif op.outcome == "unknown":
                states[session] = [now[0], after]
    for session, allowed in states.items():
        if final.get(session) not in allowed:
            wrong.append(f"{session}: it holds {final.get(session)}, not one of {allowed}")


def _after(
    op: Op, session: str, held: list[str] | None, lines: dict[str, _Line], final: dict[str, list[str] | None]
) -> list[str] | None:
    """What a private session holds after a call that succeeds."""
    match op.kind:
        case "create":
            return []
        case "fork":
            count = op.seen[session][0] if op.outcome == "ok" else len(final.get(session) or [])
            return lines[op.source].texts[:count]
        case "append":
            return (held or []) + op.parts[session]
        case "rewind":
            return (held or [])[: op.keep]
        case "purge":
            return None
    return held
