"""The checker of histories sees each thing that can be wrong with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.reliability.actor import Actor
from tests.reliability.history import NEVER, Op, check, digest, load

A, B, P = "a", "b", "p"


def said(who: str, called: int, ended: int, outcome: Any = "ok", **parts: list[str]) -> Op:
    return Op(who, "append", parts, called, ended, outcome)


def looked(who: str, called: int, ended: int, **seen: list[str]) -> Op:
    return Op(who, "read", {}, called, ended, "ok", {name: (len(texts), digest(texts)) for name, texts in seen.items()})


def forked(called: int, ended: int, *texts: str) -> Op:
    return Op("x", "fork", {P: []}, called, ended, "ok", {P: (len(texts), digest(texts))}, source=A)


SOUND: list[tuple[list[Op], dict[str, list[str] | None]]] = [
    (
        [said("x", 1, 2, a=["1", "2"]), said("y", 1, 3, a=["3"]), looked("x", 4, 5, a=["3", "1", "2"])],
        {A: ["3", "1", "2"]},
    ),
    ([said("x", 1, NEVER, "unknown", a=["1"]), said("y", 2, 3, a=["2"])], {A: ["2"]}),
    ([said("x", 1, NEVER, "unknown", a=["1"]), said("y", 2, 3, a=["2"])], {A: ["2", "1"]}),
    ([said("x", 1, 2, a=["1"], b=["2"]), looked("y", 1, 3, a=[], b=[])], {A: ["1"], B: ["2"]}),
    ([said("x", 1, 2, a=["1"]), forked(3, 4, "1"), said("x", 5, 6, p=["2"])], {A: ["1"], P: ["1", "2"]}),
    ([said("x", 1, 2, a=["1"]), Op("x", "fork", {P: []}, 3, source=A)], {A: ["1"], P: ["1"]}),
    ([Op("x", "create", {P: []}, 1, 2, "ok"), Op("x", "purge", {P: []}, 3)], {A: [], P: []}),
    ([Op("x", "create", {P: []}, 1, 2, "ok"), Op("x", "purge", {P: []}, 3)], {A: [], P: None}),
]
WRONG: list[tuple[str, list[Op], dict[str, list[str] | None]]] = [
    ("lost", [said("x", 1, 2, a=["1"])], {A: []}),
    ("twice", [said("x", 1, 2, a=["1"])], {A: ["1", "1"]}),
    ("failed, and is stored", [said("x", 1, 2, "fail", a=["1"])], {A: ["1"]}),
    ("nowhere", [], {A: ["1"]}),
    ("half", [said("x", 1, NEVER, "unknown", a=["1", "2"])], {A: ["1"]}),
    ("half", [said("x", 1, NEVER, "unknown", a=["1"], b=["2"])], {A: ["1"], B: []}),
    ("side by side", [said("x", 1, 9, a=["1", "2"]), said("y", 1, 9, a=["3"])], {A: ["1", "3", "2"]}),
    ("earlier", [said("x", 1, 2, a=["1"]), said("x", 3, 4, a=["2"])], {A: ["2", "1"]}),
    ("done already", [said("x", 1, 2, a=["1"]), said("y", 3, 4, a=["2"])], {A: ["2", "1"]}),
    ("missed", [said("x", 1, 2, a=["1"]), looked("y", 3, 4, a=[])], {A: ["1"]}),
    ("missed", [said("x", 1, 9, a=["1"]), looked("y", 2, 3, a=["1"]), looked("z", 4, 5, a=[])], {A: ["1"]}),
    ("first ones", [said("x", 1, 2, a=["1"]), looked("y", 3, 4, a=["2"])], {A: ["1"]}),
    ("not begun", [looked("y", 1, 2, a=["1"]), said("x", 3, 4, a=["1"])], {A: ["1"]}),
    ("saw half", [said("x", 1, 9, a=["1"], b=["2"]), looked("y", 1, 9, a=["1"], b=[])], {A: ["1"], B: ["2"]}),
    ("missed", [said("x", 1, 2, a=["1"]), forked(3, 4)], {A: ["1"], P: []}),
    ("it holds", [forked(1, 2), said("x", 3, 4, p=["1"])], {A: [], P: []}),
    ("it holds", [Op("x", "create", {P: []}, 1, 2, "ok"), Op("x", "purge", {P: []}, 3, 4, "ok")], {A: [], P: []}),
    ("not", [Op("x", "create", {P: []}, 1, 2, "ok"), looked("x", 3, 4, p=["1"])], {A: [], P: []}),
    (
        "it holds",
        [
            Op("x", "create", {P: []}, 1, 2, "ok"),
            said("x", 3, 4, p=["1", "2"]),
            Op("x", "rewind", {P: []}, 5, 6, "ok", keep=1),
        ],
        {A: [], P: ["1", "2"]},
    ),
]


def shared(final: dict[str, list[str] | None]) -> list[str]:
    return [name for name in (A, B) if name in final]


@pytest.mark.parametrize(("ops", "final"), SOUND)
def test_histories_that_can_be(ops: list[Op], final: dict[str, list[str] | None]) -> None:
    """Calls at the same time may be stored in either order, and a call that was cut short may be done or not."""
    assert check(ops, final, shared(final)) == []


@pytest.mark.parametrize(("what", "ops", "final"), WRONG)
def test_histories_that_cannot_be(what: str, ops: list[Op], final: dict[str, list[str] | None]) -> None:
    """What is lost, doubled, torn, out of order, or read too early or too late is found and named."""
    assert [line for line in check(ops, final, shared(final)) if what in line]


def test_a_call_that_was_made_again(tmp_path: Path) -> None:
    """A call that another process makes again under the same ids is one with the first; a torn line did not begin."""
    first = {"event": "call", "number": 1, "at": 1, "kind": "append", "parts": {A: ["1"]}, "ids": ["i"]}
    again = {**first, "kind": "again", "at": 5}
    done = {"event": "ok", "number": 1, "at": 6}
    (tmp_path / "x.jsonl").write_text(json.dumps(first) + "\n" + json.dumps(done)[:9])
    (tmp_path / "y.jsonl").write_text(json.dumps(again) + "\n" + json.dumps(done) + "\n")
    (op,) = load(sorted(tmp_path.iterdir()))
    assert (op.called, op.ended, op.outcome) == (1, 6, "ok")
    assert check([op], {A: ["1"]}, [A]) == []
    assert check([op], {A: []}, [A])


@pytest.mark.parametrize("source", [True, False], ids=["fork", "create"])
def test_a_session_that_is_made_before_the_keys_change(
    path: Path, tmp_path: Path, source: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that was made, and could not be read because the keys changed, is not written down as failed."""
    with clew.open(path) as store:
        shared = store.sessions.create()
        shared.append(clew.user("1"))
    actor = Actor(str(path), str(tmp_path / "x.jsonl"), [shared.id])

    def look(store: clew.Store, session: str) -> tuple[int, str]:
        raise clew.Sealed(str(path), [])

    monkeypatch.setattr(actor, "look", look)
    monkeypatch.setattr(actor.chance, "choice", lambda given: shared.id if source else "")
    actor.create()
    ops = load([tmp_path / "x.jsonl"])
    assert [op.outcome for op in ops] == ["unknown"]
    (made,) = ops[0].parts
    final: dict[str, list[str] | None] = {shared.id: ["1"], made: ["1"] if source else []}
    assert check([said("y", 1, 2, **{shared.id: ["1"]}), *ops], final, [shared.id]) == []
    actor.store.close()
