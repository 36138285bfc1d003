"""Commands that act on several items: each item succeeds or fails alone; a dry run rolls everything back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import clew
from clew.cli.exits import PARTIAL, code_of, say
from clew.cli.output.json import Form
from clew.cli.output.text import out, out_json, out_jsonl, warn

T = TypeVar("T")


class Success(NamedTuple):
    """The result for one item: a line for scripts, a sentence for people, and JSON."""

    line: str
    sentence: str
    json: dict[str, Any]


class Outcome(NamedTuple):
    """The result for one item of the command line: success or error."""

    asked: str
    result: Success | clew.ClewError

    @property
    def code(self) -> int:
        """The exit code for this item."""
        return code_of(self.result) if isinstance(self.result, clew.ClewError) else 0

    def json(self) -> dict[str, Any]:
        """The outcome as JSON."""
        if isinstance(self.result, Success):
            return {"asked": self.asked, "ok": True, **self.result.json}
        message, hint = self.result.message, self.result.hint
        return {"asked": self.asked, "ok": False, "error": message, "hint": hint, "code": self.code}


def for_each(names: Iterable[str], act: Callable[[str], Success]) -> Iterator[Outcome]:
    """Calls `act` once for each distinct name; a failure does not stop the others."""
    for asked in dict.fromkeys(names):
        try:
            yield Outcome(asked, act(asked))
        except clew.ClewError as error:
            yield Outcome(asked, error)


class _Rollback(Exception):
    """Rolls back the transaction of a dry run."""


def roll_back(store: clew.Store, act: Callable[[], T]) -> T:
    """Calls `act` in a transaction, rolls it back, and returns the result."""
    try:
        with store.transaction():
            result = act()
            raise _Rollback
    except _Rollback:
        return result


def report_outcomes(outcomes: Iterable[Outcome], form: Form) -> int:
    """Prints each outcome as it arrives: lines or JSON to stdout, the rest to stderr. Returns the exit code."""
    documents, codes = list[dict[str, Any]](), list[int]()
    for one in outcomes:
        codes.append(one.code)
        documents.append(one.json())
        if form == "jsonl":
            out_jsonl(documents[-1:])
        if isinstance(one.result, clew.ClewError):
            say(one.result.message, one.result.hint, one.code, kind=type(one.result).__name__)
        elif form == "text":
            out(one.result.line)
            if one.result.sentence:
                warn(one.result.sentence)
    if form == "json":
        out_json(documents)
    return PARTIAL if 0 in codes and any(codes) else codes[0]
