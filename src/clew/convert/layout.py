"""Puts pieces in the order that every provider requires, and divides them into messages.

Calls come first, then their results, then everything else.

A call without a result gets an error as its result. A result without a call becomes text. Ids and names that the target
would refuse are replaced; the same id or name always by the same one.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain, count, groupby

import msgspec

from clew.base.messages import Media, Text, ToolCall, ToolResult
from clew.convert.report import Notes
from clew.providers.target import Piece, Target

NO_RESULT = "Error: the call was not finished, and has no result."
NO_CALL = "[result of a tool call that is not here]"


class Names:
    """Maps names of tools to names that the target accepts, one for each tool.

    Those of the `known` names that are valid stay unchanged.
    """

    def __init__(self, target: Target, known: Iterable[str]) -> None:
        self._target = target
        self._given = {name: name for name in known if target.tool_name.fullmatch(name)}
        self._taken = set(self._given)

    def fit(self, name: str) -> str:
        """The name for a tool."""
        if name not in self._given:
            self._given[name] = self._new(name)
            self._taken.add(self._given[name])
        return self._given[name]

    def _new(self, name: str) -> str:
        pattern = self._target.tool_name
        cleaned = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:56] or "tool"
        if not pattern.fullmatch(cleaned):
            cleaned = f"tool_{cleaned}"[:56]
        numbered = (f"{cleaned}_{number}" for number in count(2))
        return next(one for one in chain([cleaned], numbered) if one not in self._taken)


def lay_out(pieces: Sequence[Piece], target: Target, names: Names, notes: Notes) -> list[Piece]:
    """The pieces in the order that the target requires, with results and valid names for all calls."""
    answers, orphans = _pair(pieces)
    laid = _Laying(_rename(pieces, answers, target, names, notes), answers, notes)
    for at, piece in enumerate(pieces):
        if at in orphans:
            notes.add(piece.message, piece.block, "changed", "result without a call")
            laid.say(at, _as_text(piece))
        else:
            laid.take(at)
    return laid.done(len(pieces))


def _pair(pieces: Sequence[Piece]) -> tuple[dict[int, int], set[int]]:
    """Matches results to calls, and finds results without a call. Each call has one result, after it."""
    waiting: dict[str, deque[int]] = defaultdict(deque)
    named: dict[str, deque[int]] = defaultdict(deque)
    answers: dict[int, int] = {}
    orphans: set[int] = set()
    for at, piece in enumerate(pieces):
        if isinstance(call := piece.what, ToolCall):
            waiting[call.id].append(at)
            named[call.name].append(at)
        elif isinstance(result := piece.what, ToolResult):
            call_at = _first(waiting[result.call_id], answers)
            if call_at is None:  # a result of Gemini may have only the name of the function
                call_at = _first(named[result.call_id], answers)
            if call_at is None:
                orphans.add(at)
            else:
                answers[call_at] = at
    return answers, orphans


def _first(calls: deque[int], answers: dict[int, int]) -> int | None:
    while calls and calls[0] in answers:
        calls.popleft()
    return calls[0] if calls else None


def _rename(
    pieces: Sequence[Piece], answers: dict[int, int], target: Target, names: Names, notes: Notes
) -> list[Piece]:
    """The pieces with ids and names that the target accepts, in calls and in their results."""
    found = list(pieces)
    calls = [(at, piece, piece.what) for at, piece in enumerate(pieces) if isinstance(piece.what, ToolCall)]
    taken = {call.id for _, piece, call in calls if piece.own}
    number = 0
    for at, piece, call in calls:
        ident, name = call.id, call.name
        if not piece.own:
            name = names.fit(call.name)
            while ident in taken or not target.call_id.fullmatch(ident):
                number += 1
                ident = f"call_{number}"
            taken.add(ident)
            if ident != call.id:
                notes.add(piece.message, piece.block, "changed", "call id")
            if name != call.name:
                notes.add(piece.message, piece.block, "changed", "tool name")
            found[at] = piece._replace(what=msgspec.structs.replace(call, id=ident, name=name))
        if (answer := answers.get(at)) is not None:
            result = found[answer]
            assert isinstance(result.what, ToolResult)
            what = result.what if result.own else msgspec.structs.replace(result.what, call_id=ident)
            found[answer] = result._replace(what=what, tool=name)
    return found


class _Laying:
    """Builds a conversation turn by turn."""

    def __init__(self, pieces: Sequence[Piece], answers: dict[int, int], notes: Notes) -> None:
        self._pieces = pieces
        self._answers = answers
        self._notes = notes
        self._laid: list[Piece] = []
        self._calls: list[int] = []
        self._asides: list[Piece] = []
        self._speaking = False
        spoken = (not isinstance(piece.what, ToolResult) and not piece.aside for piece in pieces)
        self._said = list(accumulate(spoken, initial=0))
        """How many pieces before each are neither results nor set aside."""

    def take(self, at: int) -> None:
        """Adds the next piece at its place. Results come after their calls."""
        piece = self._pieces[at]
        if isinstance(piece.what, ToolResult):
            self._close(at)
        elif piece.aside and self._speaking:
            self._asides.append(piece)
        elif piece.role == "assistant":
            self._speaking = True
            self._laid.append(piece)
            if isinstance(piece.what, ToolCall):
                self._calls.append(at)
        else:
            self.say(at, [piece])

    def say(self, at: int, pieces: Iterable[Piece]) -> None:
        """Adds a piece that is not the assistant's."""
        self._close(at)
        self._laid.extend(pieces)

    def done(self, at: int) -> list[Piece]:
        """The complete conversation."""
        self._close(at)
        return self._laid

    def _close(self, at: int) -> None:
        """Ends the assistant's turn, if there is one, with the results of its calls."""
        if not self._speaking:
            return
        for answer in sorted(self._answers[call] for call in self._calls if call in self._answers):
            piece = self._pieces[answer]
            if self._said[answer] > self._said[at]:
                self._notes.add(piece.message, piece.block, "moved", "result")
            self._laid.append(piece)
        for call in self._calls:
            if call not in self._answers:
                self._laid.append(self._error_result(self._pieces[call]))
        self._laid.extend(self._asides)
        self._calls, self._asides, self._speaking = [], [], False

    def _error_result(self, piece: Piece) -> Piece:
        call = piece.what
        assert isinstance(call, ToolCall)
        self._notes.add(piece.message, piece.block, "added", "result")
        result = ToolResult(call_id=call.id, content=(Text(text=NO_RESULT),), is_error=True)
        return Piece(piece.message, None, "tool", result, tool=call.name)


def _as_text(piece: Piece) -> list[Piece]:
    """A result without a call, as text of the user. In the target's format it is a whole message: see `cut`."""
    result = piece.what
    assert isinstance(result, ToolResult)
    shown = [one for one in result.content if isinstance(one, Text | Media)]
    block = None if piece.own else piece.block
    return [piece._replace(what=what, role="user", block=block) for what in (Text(text=NO_CALL), *shown)]


Unit = list[Piece]
"""The pieces of one message; in formats of items, of several items."""


def cut(laid: Sequence[Piece], sizes: Mapping[int, int], target: Target) -> tuple[list[Unit], set[int]]:
    """The units, and those messages in the target's format that must be converted after all.

    `sizes` has the number of pieces of each message in the target's format.
    """
    units: list[Unit] = []
    broken: set[int] = set()
    for _, stretch in groupby(laid, key=side):
        run = list(stretch)
        segments = [list(group) for _, group in groupby(run, key=lambda piece: piece.message if piece.own else -1)]
        own = {piece.message for piece in run if piece.own}
        broken.update(one[0].message for one in segments if one[0].own and not _whole(one, sizes))
        united = _must_unite(run, target)
        if united and len(segments) > 1 and _must_be_one(segments, target):
            broken |= own
        for segment in segments:
            units.extend([segment] if united or segment[0].own else _apart(segment))
    return units, broken


def side(piece: Piece) -> str:
    """The side that a piece belongs to; results of tools belong to the user."""
    return "user" if piece.role == "tool" else piece.role


def note(unit: Unit, target: Target, notes: Notes) -> None:
    """Reports the changes that these pieces undergo when they become one message of the target."""
    spoken = [piece.message for piece in unit if isinstance(piece.what, Text | Media) and not piece.aside]
    for message in list(dict.fromkeys(spoken))[1:]:
        notes.add(message, None, "merged", "messages")
    call = next((piece for piece in unit if isinstance(piece.what, ToolCall)), None)
    if call is not None and target.signs_calls:
        notes.add(call.message, call.block, "added", "placeholder signature")


def _must_unite(run: Unit, target: Target) -> bool:
    if target.unites == "calls":
        return any(isinstance(piece.what, ToolCall) for piece in run)
    return target.unites == "turns"


def _must_be_one(segments: Sequence[Unit], target: Target) -> bool:
    """True if the target would refuse these messages.

    Nothing may come between calls and their results. If a turn must be one message, its results must be, too.
    """
    if target.unites == "calls":
        return any(isinstance(piece.what, ToolCall) for segment in segments[:-1] for piece in segment)
    run = [piece for segment in segments for piece in segment]
    return any(isinstance(piece.what, ToolResult) for piece in run) and not all(piece.own for piece in run)


def _whole(segment: Unit, sizes: Mapping[int, int]) -> bool:
    return [piece.block for piece in segment] == list(range(sizes[segment[0].message]))


def _apart(segment: Unit) -> list[Unit]:
    """A unit for each message, and for each result."""

    def key(piece: Piece) -> tuple[int, str, int]:
        return piece.message, piece.role, id(piece) if isinstance(piece.what, ToolResult) else 0

    return [list(group) for _, group in groupby(segment, key=key)]
