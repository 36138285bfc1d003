"""Shapes: which parts of a provider's JSON its neutral view carries.

A mapping takes the fields it lists, a list takes lists of its element, a type its instances, `ANY` everything, `NONE`
nothing; a function picks the shape for a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Shape = Any
ANY: Shape = object
"""The view carries it, or no other provider can use it: ids, token counts and stop reasons of an answer."""
NONE: Shape = ()


def either(element: Shape) -> Callable[[object], Shape]:
    """Text, or a list."""
    return lambda value: [element] if isinstance(value, list) else str


def role(value: object) -> Shape:
    """A role that the neutral view knows."""
    known = ("system", "developer", "user", "assistant", "model", "tool", "function")
    return str if value in known else NONE


def kind_of(value: object) -> str:
    """The ``type`` of an object; empty if it has none."""
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else ""
