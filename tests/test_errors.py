"""Errors carry their fields and a hint, and no content."""

from __future__ import annotations

import inspect

import pytest

import clew
import clew.providers.errors
import clew.snapshots.errors
from clew import errors, providers, snapshots
from clew.store.store import Store


def every_error() -> list[type[Exception]]:
    """The errors of the package, wherever they are defined."""
    modules = (errors, providers.errors, snapshots.errors)
    found = {kind for module in modules for _, kind in inspect.getmembers(module, inspect.isclass)}
    return [kind for kind in found if issubclass(kind, Exception)]


def test_every_error_is_a_clew_error() -> None:
    """One except clause catches everything that clew raises on purpose."""
    found = every_error()
    assert len(found) >= 12
    assert all(issubclass(kind, clew.ClewError) and kind.__doc__ for kind in found)
    assert all(getattr(clew, kind.__name__) is kind for kind in found)


def test_the_tree_is_drawn_as_it_is() -> None:
    """The docstring of the module names every error, under its parent."""
    drawn = errors.__doc__ or ""
    assert all(kind.__name__ in drawn for kind in every_error())
    assert issubclass(clew.NotAStore, clew.Invalid)
    assert issubclass(clew.StorageFull, clew.Unavailable)
    assert issubclass(clew.ReadOnly, clew.Unavailable)
    assert issubclass(clew.WrongKey, clew.Sealed)


def test_fields_and_hint() -> None:
    """An error says what, which and what to do, in fields and in its text."""
    missing = clew.NotFound("session", "k3m9qa", hint="Create one first.")
    assert (missing.what, missing.key, missing.hint) == ("session", "k3m9qa", "Create one first.")
    assert str(missing) == "session 'k3m9qa' not found. Create one first."
    assert clew.SchemaTooNew("a.db", 2, 1).found == 2
    assert clew.Corrupted("node x").where == "node x"
    wrong = clew.WrongKey("a.db", [b"\x01" * 8], b"\xab" * 8)
    assert (wrong.path, wrong.expected, wrong.given) == ("a.db", (b"\x01" * 8,), b"\xab" * 8)
    assert wrong.message == "a.db is sealed with key 0101010101010101, not with key abababababababab"
    many = clew.Ambiguous("node", "k", [str(n) for n in range(20)])
    assert len(many.candidates) == 20
    assert "…" in str(many)


def test_keys_are_clipped_and_printable() -> None:
    """A key from outside cannot flood or forge a log line."""
    text = str(clew.NotFound("node", "x" * 10_000 + "\n"))
    assert len(text) < 120
    forged = str(clew.NotFound("node", "a\n\x1b[31mERROR\u202e"))
    assert "\n" not in forged
    assert "\x1b" not in forged
    assert "\u202e" not in forged


def test_no_error_or_repr_shows_what_was_said(store: Store) -> None:
    """Words of a message appear in no error, and in no repr of a stored thing."""
    session = store.sessions.create(title="canary title")
    node = session.append(clew.user("canary", extra={"canary": 1}), id="00000000-0000-4000-8000-000000000001")
    for bad in (
        lambda: session.append(clew.user("canary2"), id=node.id),
        lambda: session.append(clew.user("canary", extra={"canary": float("nan")})),
        lambda: session.append(clew.user("canary\0")),
        lambda: session.append(clew.native("x", b'{"canary":}')),
        lambda: store.nodes.save(clew.NewNode(clew.user("canary"), id=node.id)),
    ):
        with pytest.raises(clew.ClewError) as caught:
            bad()
        assert "canary" not in str(caught.value)
    assert "canary" not in repr([store, session, node])
