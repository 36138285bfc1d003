"""The changes of a conversion: place, kind of change and kind of data; never content."""

from __future__ import annotations

from typing import Literal

import msgspec

from clew.providers.leftovers import What

Kind = Literal["dropped", "changed", "moved", "merged", "added"]


class Loss(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of a conversion: its place and its kind, without content."""

    message: int | None
    """The index of the message; None for data outside the messages."""
    block: int | None
    """The index of the block in the neutral view; None for the whole message."""
    kind: Kind
    what: What
    detail: str = ""
    """The name of the field or the type of the block, if providers document it."""

    def __str__(self) -> str:
        place = "the conversation" if self.message is None else f"message {self.message}"
        block = "" if self.block is None else f", block {self.block}"
        return f"{place}{block}: {self.what}{f' ({self.detail})' if self.detail else ''} {self.kind}"


class Report(msgspec.Struct, frozen=True):
    """Everything that a conversion dropped, changed, moved, merged or added, in the order of the messages."""

    source: str
    to: str
    losses: tuple[Loss, ...] = ()

    def count(self, kind: Kind, what: What | None = None) -> int:
        """The number of entries of this kind, and of this thing."""
        return sum(loss.kind == kind and what in (None, loss.what) for loss in self.losses)

    def __bool__(self) -> bool:
        """True if anything changed."""
        return bool(self.losses)


class Notes:
    """Builds a report. Lists each thing once per place."""

    def __init__(self) -> None:
        self._losses: dict[Loss, None] = {}

    def add(self, message: int | None, block: int | None, kind: Kind, what: What, detail: str = "") -> None:
        """Adds an entry."""
        self._losses[Loss(message, block, kind, what, detail)] = None

    def report(self, source: str, to: str) -> Report:
        """The finished report."""
        return Report(source, to, tuple(sorted(self._losses, key=_place)))


def _place(loss: Loss) -> tuple[int, int]:
    return (-1 if loss.message is None else loss.message, -1 if loss.block is None else loss.block)
