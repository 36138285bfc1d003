"""What an answer costs at list price.

`prices.json` has the prices of models per million tokens; `tools/prices.py` makes it from the data of genai-prices, and
THIRD-PARTY.md has its licence. A user's own prices take precedence. A lane without its own price uses the input
price; reasoning uses the output price.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from clew.providers.usage import Lanes

LANES = ("input", "cached", "cache_write", "cache_write_1h", "output")
_FILE = os.path.join(os.path.dirname(__file__), "prices.json")
_WRAPPED = re.compile(r"^(?:[a-z-]+\.)?(?:anthropic|mistral|deepseek|google|meta|amazon)\.|-v\d+(?::\d+)?$|\[[^]]*\]$")
"""What Bedrock puts before and after a model's name, and Claude Code after it: ``[1m]``."""


class Price(NamedTuple):
    """Dollars per million tokens of each lane, with the prices for larger prompts."""

    lanes: Mapping[str, Any]
    """For each lane a price; or a list of a price, and pairs of a prompt's size and the price beyond it."""

    def of(self, lanes: Lanes) -> float:
        """The cost in millionths of a dollar."""
        read = lanes.all_input

        def rate(lane: str, instead: str) -> float:
            found = self.lanes.get(lane, self.lanes.get(instead, 0))
            if not isinstance(found, list):
                return float(found)
            beyond = [price for start, price in found[1:] if read > start]
            return float(beyond[-1] if beyond else found[0])

        hour = min(lanes.cache_write_1h, lanes.cache_write)
        write = "cache_write" if "cache_write" in self.lanes else "input"
        return (
            lanes.input * rate("input", "input")
            + lanes.cached * rate("cached", "input")
            + (lanes.cache_write - hour) * rate("cache_write", "input")
            + hour * rate("cache_write_1h", write)
            + lanes.output * rate("output", "input")
        )


class Prices:
    """The prices of models: a user's own, then the list."""

    def __init__(self, own: Mapping[str, Price] | None = None) -> None:
        self._own = {name.lower(): price for name, price in (own or {}).items()}
        self._list: dict[str, Any] | None = None
        self._known: dict[str, list[tuple[str | None, Price]] | None] = {}

    @property
    def date(self) -> str:
        """The day of the list, as ISO 8601."""
        return str(self._read()["date"])

    def cost(self, lanes: Lanes, model: str, day: str) -> float | None:
        """What these tokens of one answer cost on that day, in millionths of a dollar; None if no price is known."""
        price = self.price(model, day)
        return None if price is None else price.of(lanes)

    def price(self, model: str, day: str) -> Price | None:
        """The price of a model on a day, written as ISO 8601; None if unknown."""
        if model not in self._known:
            self._known[model] = self._find(model.lower())
        found = self._known[model]
        if found is None:
            return None
        return [price for start, price in found if start is None or start <= day or found[0][0] == start][-1]

    def is_own(self, model: str) -> bool:
        """True if the price of a model is the user's own."""
        return self._find_own(model.lower()) is not None

    def _find(self, model: str) -> list[tuple[str | None, Price]] | None:
        own = self._find_own(model)
        if own is not None:
            return [(None, own)]
        names = dict.fromkeys(
            (model, model.rpartition("/")[2], _WRAPPED.sub("", _WRAPPED.sub("", model.rpartition("/")[2])))
        )
        families = self._read()["families"]
        for name in names if model else ():
            fitting = [one for one in families if one["match"] is not None and _matches(one["match"], name)]
            for family in fitting or families:
                for match, periods in family["models"]:
                    if _matches(match, name):
                        return [(start, Price(lanes)) for start, lanes in periods]
        return None

    def _find_own(self, model: str) -> Price | None:
        for name in (model, model.rpartition("/")[2]):
            if name in self._own:
                return self._own[name]
        starts = [name for name in self._own if name.endswith("*") and model.startswith(name[:-1])]
        return self._own[max(starts, key=len)] if starts else None

    def _read(self) -> dict[str, Any]:
        if self._list is None:
            with open(_FILE, "rb") as file:
                self._list = msgspec.json.decode(file.read())
        return self._list


def read_price(text: str) -> Price:
    """A price as users write it: ``input=3 output=15 cached=0.3``, in dollars per million tokens. ValueError."""
    found: dict[str, float] = {}
    for word in text.replace(",", " ").split():
        lane, _, number = word.partition("=")
        if lane not in LANES or not re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", number):
            raise ValueError(f"must be like 'input=3 output=15 cached=0.3', with the lanes {', '.join(LANES)}")
        found[lane] = float(number)
    if not {"input", "output"} <= found.keys():
        raise ValueError("must have a price for input and one for output, like 'input=3 output=15'")
    return Price(found)


def _matches(clause: list[Any], name: str) -> bool:
    kind, *rest = clause
    if kind == "or":
        return any(_matches(one, name) for one in rest)
    if kind == "and":
        return all(_matches(one, name) for one in rest)
    (value,) = rest
    if kind == "regex":
        return re.search(value, name) is not None
    value = value.lower()
    if kind == "equals":
        return bool(name == value)
    if kind == "contains":
        return value in name
    return name.startswith(value) if kind == "startswith" else name.endswith(value)
