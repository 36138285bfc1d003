"""Writes `src/clew/providers/prices.json`, the prices of models, from the data of the package genai-prices (MIT).

    python -m venv /tmp/prices && /tmp/prices/bin/pip install -U genai-prices
    /tmp/prices/bin/python tools/prices.py

The package itself is too large to load for one line of a status bar. What is kept: prices per million tokens of the
providers whose models the imported histories name, with the dates and prompt sizes that they depend on. Left out:
prices by time of day, batch and fast modes, audio, images and searches.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import pathlib
import re
from datetime import UTC, datetime
from typing import Any

TARGET = pathlib.Path(__file__).resolve().parent.parent / "src/clew/providers/prices.json"
PROVIDERS = (
    "anthropic", "openai", "google", "mistral", "deepseek", "x-ai", "moonshotai", "zai", "minimax",
)  # fmt: skip
"""In the order in which they are searched. Companies that host open models are left out: they also run at home."""
QWEN = re.compile(r"qwen/(.*(?:max|plus|turbo|flash)[^:]*)")
"""Alibaba's own models are in the data only as OpenRouter sells them."""
LANES = {
    "input": "input_mtok", "cached": "cache_read_mtok", "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok", "output": "output_mtok",
}  # fmt: skip


def clause(match: Any) -> Any:
    """A clause as a list: its kind, and what it compares with."""
    (value,) = vars(match).values()
    kind = type(match).__name__.removeprefix("Clause").lower()
    return [kind, *map(clause, value)] if isinstance(value, list) else [kind, value]


def number(value: Any) -> float | int:
    """A price as JSON writes it, without a point where it is whole."""
    return int(value) if value == int(value) else float(value)


def price(prices: Any) -> dict[str, Any]:
    """The price of each lane: a number, or the base and the pairs of a prompt size and the price beyond it."""
    found: dict[str, Any] = {}
    for lane, name in LANES.items():
        value = getattr(prices, name)
        if value is not None and hasattr(value, "tiers"):
            found[lane] = [number(value.base), *([tier.start, number(tier.price)] for tier in value.tiers)]
        elif value is not None:
            found[lane] = number(value)
    return found


def periods(model: Any) -> list[list[Any]]:
    """The prices of a model, each with the day from which it applies, or null."""
    listed = model.prices if isinstance(model.prices, list) else [model]
    found = []
    for one in listed:
        constraint = getattr(one, "constraint", None)
        if constraint is None or hasattr(constraint, "start_date"):
            lanes = price(one.prices)
            if "input" in lanes or "output" in lanes:
                found.append([None if constraint is None else constraint.start_date.isoformat(), lanes])
    return found


def main() -> None:
    """Writes the file."""
    data = importlib.import_module("genai_prices.data").providers
    by_id = {one.id: one for one in data}
    families: list[dict[str, Any]] = []
    for family in map(by_id.__getitem__, PROVIDERS):
        own = [model for model in family.models if not model.id.startswith("gpt-oss")]  # also runs at home
        models = [[clause(model.match), known] for model in own if (known := periods(model))]
        families.append({"match": clause(family.model_match) if family.model_match else None, "models": models})
    sold = [(named[1], model) for model in by_id["openrouter"].models if (named := QWEN.fullmatch(model.id))]
    models = [[["equals", name], known] for name, model in sold if (known := periods(model))]
    families.append({"match": ["startswith", "qwen"], "models": models})
    today = datetime.now(UTC).date().isoformat()
    days = [one for one in re.findall(r"\b20\d\d-\d\d-\d\d\b", repr(data)) if one <= today]
    package = f"genai-prices {importlib.metadata.version('genai-prices')}"
    text = json.dumps({"source": package, "date": max(days), "families": families}, separators=(",", ":"))
    TARGET.write_text(text.replace('{"match"', '\n{"match"') + "\n", encoding="utf-8")
    print(f"{TARGET.name}: {sum(len(one['models']) for one in families)} models, {len(text):,} bytes, {max(days)}")


if __name__ == "__main__":
    main()
