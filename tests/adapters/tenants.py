"""Two tenants use one adapter with keys that look alike: nothing of one reaches the other.

Every call is compared with a plain dictionary that has the whole key, the workspace first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import clew

Key = tuple[str, ...]
UUID = "0190a3c2-7b1e-7c3d-8a5f-0123456789ab"
PARTS = (
    "a", "b", "a/b", "b/a", "/", "a/", "/b", "A", "a\x01b", "a b", '["a","b"]', '["a', 'b"]', "a:b", "a|b", "a/b/c",
    "caf\u00e9", "cafe\u0301", "CAF\u00c9", "\uff41", "\u0430", UUID, UUID.upper(), "%2F", "a\\b", "..",
)  # fmt: skip
"""Names that are easily taken for each other."""
TENANTS = ("", "one", "two", "one/two")


class Tenant(Protocol):
    """One tenant's view of an adapter."""

    def write(self, key: Key, text: str, *, new: bool) -> None:
        """Adds a text. `new` says that the tenant has nothing under the key."""

    def read(self, key: Key) -> list[str] | None:
        """The texts under a key; None or empty if there are none."""

    def delete(self, key: Key) -> None:
        """Deletes what is under a key; nothing happens if there is nothing."""


def keys(arity: int, count: int, dice: random.Random, parts: Sequence[str] = PARTS) -> list[Key]:
    """Keys that look alike: among them splits that give the same text when joined."""
    found = {tuple(dice.choice(parts) for _ in range(arity)) for _ in range(count)}
    if arity > 1:
        for text in ("a/b/a/b", "b/a/b/a/b"):
            words = text.split("/")
            for cut in range(1, len(words)):
                head, tail = "/".join(words[:cut]), "/".join(words[cut:])
                found.add((*("a",) * (arity - 2), head, tail))
                found.add((head, tail, *("a",) * (arity - 2)))
    return sorted(found)


def check(
    stores: dict[str, Any],
    make: Callable[[Any], Tenant],
    arity: int,
    *,
    seed: int,
    steps: int,
    parts: Sequence[str] = PARTS,
    stored: Iterable[tuple[str, Key, list[str]]] = (),
) -> None:
    """Runs random calls on a store of each workspace, and compares each answer with a dictionary.

    `stored` is there before: workspace, key and texts.
    """
    dice = random.Random(seed)
    tenants = {name: make(store) for name, store in stores.items()}
    truth: dict[tuple[str, Key], list[str]] = {(name, key): texts for name, key, texts in stored}
    known = sorted({*keys(arity, steps // 4, dice, parts), *(key for _, key in truth)})
    for step in range(steps):
        name, key = dice.choice(sorted(tenants)), dice.choice(known)
        tenant, mine = tenants[name], truth.get((name, key), [])
        match dice.choice(("write", "write", "read", "delete")):
            case "write":
                tenant.write(key, f"{step} of {name}", new=not mine)
                truth[name, key] = [*mine, f"{step} of {name}"]
            case "read":
                assert (tenant.read(key) or []) == mine, (name, key)
            case "delete":
                tenant.delete(key)
                truth.pop((name, key), None)
    for name, tenant in tenants.items():
        for key in known:
            assert (tenant.read(key) or []) == truth.get((name, key), []), (name, key)
    for store in stores.values():
        assert store.verify().ok


def workspaces(opened: Any, names: Sequence[str] = TENANTS) -> dict[str, Any]:
    """One store, opened for each workspace; `opened` is the fixture."""
    first = opened(clew.open, workspace=names[0])
    options = {} if opened.key is None else {"key": opened.key}
    return {names[0]: first} | {name: clew.open(opened.target, workspace=name, **options) for name in names[1:]}
