"""Simple values that every room takes: the clock, and numbers of its callers."""

from __future__ import annotations

from collections.abc import Callable

from clew.errors import Invalid, clip

Clock = Callable[[], int]
"""Returns microseconds since 1970."""


def whole_number(name: str, value: object, least: int) -> int:
    """`value`, if it is an integer of at least `least`. Invalid."""
    if not isinstance(value, int) or not least <= value <= 1 << 60:
        raise Invalid(f"{name} must be a whole number of at least {least}, not {clip(str(value))}")
    return value
