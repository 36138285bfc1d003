"""List prices, and a user's own."""

from __future__ import annotations

import pytest

from clew.providers.prices import Price, Prices, read_price
from clew.providers.usage import Lanes

DAY = "2025-11-01"


def dollars(lanes: Lanes, model: str, day: str = DAY, **own: str) -> float | None:
    cost = Prices({name: read_price(text) for name, text in own.items()}).cost(lanes, model, day)
    return None if cost is None else cost / 1_000_000


def test_every_lane_has_its_price() -> None:
    """Input, cached tokens, cache writes for minutes and for an hour, and output; reasoning costs what output costs."""
    lanes = Lanes(1_000_000, 1_000_000, 2_000_000, 1_000_000, 1_000_000, 500_000)
    assert dollars(lanes, "claude-opus-4-5-20251101") == 5 + 0.5 + 6.25 + 10 + 25
    assert dollars(Lanes(cached=1_000_000), "mistral-large-latest") == 2  # no price of its own: that of input


def test_names_of_models() -> None:
    """Prefixes of routers and of Bedrock, dates and marks of agents hide no model; local models have no price."""
    one = Prices().price("claude-sonnet-4-5-20250929", DAY)
    assert one is not None
    for name in ("anthropic/claude-sonnet-4.5", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5[1m]",
                 "openrouter/anthropic/claude-sonnet-4.5"):  # fmt: skip
        assert Prices().price(name, DAY) == one, name
    for name in ("gpt-5.1-codex", "o4-mini", "gemini-2.5-pro", "deepseek-chat", "grok-4", "qwen3-coder-plus"):
        assert Prices().price(name, DAY) is not None, name
    for name in ("", "a-model", "claude-x", "gpt-oss-20b", "qwen3-8b", "llama3.3", "offline"):
        assert Prices().price(name, DAY) is None, name


def test_prices_change_with_the_day_and_the_size() -> None:
    """A later price applies from its day on, and a price for large prompts to the whole of a large one."""
    small, large = Lanes(input=200_000), Lanes(input=100_000, cached=100_001)
    assert dollars(small, "claude-opus-4-6", "2026-03-12") == 1
    assert dollars(large, "claude-opus-4-6", "2026-03-12") == pytest.approx(1 + 0.100001)
    assert dollars(large, "claude-opus-4-6", "2026-03-13") == pytest.approx(0.5 + 0.0500005)
    assert Prices().date > "2026-01-01"


def test_a_users_own_prices_take_precedence() -> None:
    """By the full name, without a router's prefix, or by the beginning of names."""
    lanes = Lanes(1_000_000, 1_000_000, 0, 0, 1_000_000)
    assert dollars(lanes, "claude-opus-4-5", **{"claude-opus-4-5": "input=1, output=2, cached=0.5"}) == 3.5
    assert dollars(lanes, "router/House-1", **{"house-1": "input=1 output=2"}) == 4
    assert dollars(lanes, "house-1", **{"house-*": "input=0 output=0", "h*": "input=9 output=9"}) == 0


@pytest.mark.parametrize("text", ["", "3", "input=3", "input=3 output=-1", "input=3 output=1e9", "in=3 output=4"])
def test_a_price_is_read_strictly(text: str) -> None:
    """A price that is not understood is an error, not a guess."""
    with pytest.raises(ValueError, match="must"):
        read_price(text)
    assert read_price("input=3 output=15") == Price({"input": 3.0, "output": 15.0})
