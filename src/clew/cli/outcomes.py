"""Commands that do the same to several things: each is done by itself, each is told, and a look undoes them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import clew
from clew.cli.exits import PARTIAL, code_of, say
from clew.cli.forms import Form
from clew.cli.text import out, out_json, out_jsonl, warn

T = TypeVar("T")


class Done(NamedTuple):
    """What was done to one of them: for a script that reads lines, for a person, and as JSON."""

    line: str
    sentence: str
    json: dict[str, Any]


class Outcome(NamedTuple):
    """What became of one that was named."""

    asked: str
    done: Done | clew.ClewError

    @property
    def code(self) -> int:
        """The exit code that tells it."""
        return code_of(self.done) if isinstance(self.done, clew.ClewError) else 0

    def json(self) -> dict[str, Any]:
        """It as JSON."""
        if isinstance(self.done, Done):
            return {"asked": self.asked, "ok": True, **self.done.json}
        message, hint = self.done.message, self.done.hint
        return {"asked": self.asked, "ok": False, "error": message, "hint": hint, "code": self.code}


def each(names: Iterable[str], act: Callable[[str], Done]) -> Iterator[Outcome]:
    """Does it to one after the other, each once; one that fails does not keep the others from it."""
    for asked in dict.fromkeys(names):
        try:
            yield Outcome(asked, act(asked))
        except clew.ClewError as error:
            yield Outcome(asked, error)


class _Undo(Exception):
    """Ends a transaction whose changes nobody wants."""


def undone(store: clew.Store, act: Callable[[], T]) -> T:
    """What would come of it: it is done in a transaction, and the transaction is undone."""
    try:
        with store.transaction():
            found = act()
            raise _Undo
    except _Undo:
        return found


def told(outcomes: Iterable[Outcome], form: Form) -> int:
    """Each outcome as it comes: lines or JSON to stdout, the rest to stderr. Returns the exit code."""
    shown, codes = list[dict[str, Any]](), list[int]()
    for one in outcomes:
        codes.append(one.code)
        shown.append(one.json())
        if form == "jsonl":
            out_jsonl(shown[-1:])
        if isinstance(one.done, clew.ClewError):
            say(one.done.message, one.done.hint, one.code)
        elif form == "text":
            out(one.done.line)
            if one.done.sentence:
                warn(one.done.sentence)
    if form == "json":
        out_json(shown)
    return PARTIAL if 0 in codes and any(codes) else codes[0]
