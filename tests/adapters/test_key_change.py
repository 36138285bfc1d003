"""P19: an adapter loses nothing while the key of the store changes, whichever moment of a write that hits."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import clew
from clew.store.parts import Parts
from clew.upkeep import rekey

EXAMPLES = Path(__file__).parents[2] / "examples"
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
"""No shrinking: the threads make each run another one."""
KEYS = [bytes([n]) * 32 for n in range(40)]


class Rotation:
    """Key changes of one store, a step at a time."""

    def __init__(self, store: clew.Store) -> None:
        self._engine = Parts.of(store).engine
        self._lock = threading.Lock()
        self._kind: str | None = None
        self.key = 0
        """The number of the key that opens the store."""
        self.errors: list[Exception] = []

    def step(self, kind: Literal["rotate", "deep"]) -> None:
        """Begins a change, makes the next step of it, or ends it."""
        with self._lock:
            try:
                if not self._kind:
                    rekey.begin(self._engine, kind, KEYS[self.key + 1])
                    self._kind = kind
                elif self._engine.write(lambda tx: rekey._step(self._engine, tx)) is None:
                    rekey.finish(self._engine)
                    self._kind, self.key = None, self.key + 1
            except Exception as error:
                self.errors.append(error)


class Clock:
    """Starts a step of the rotation when it is asked for the time, which a unit does in the middle of its write."""

    def __init__(self) -> None:
        self.steps: list[Any] = []
        """What to start, in the order of the calls; None starts nothing."""
        self._running: list[threading.Thread] = []

    def __call__(self) -> int:
        step = self.steps.pop(0) if self.steps else None
        if step is not None:
            self._running.append(threading.Thread(target=step))
            self._running[-1].start()
        return time.time_ns() // 1000

    def join(self) -> None:
        """Waits until all steps are done."""
        self.steps.clear()
        while self._running:
            self._running.pop().join()


CALLS = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 4)),
    st.tuples(st.sampled_from(["pop", "state", "again", "search"]), st.just(0)),
)
STEPS = st.lists(st.sampled_from([None, "rotate", "deep"]), min_size=2, max_size=6)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The class of examples/adapter.py, an adapter with public names alone."""
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    monkeypatch.setattr(rekey, "BATCH", 2)
    from adapter import Memory

    return Memory


@settings(max_examples=25, deadline=None, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(CALLS, STEPS), max_size=12))
def test_a_write_in_the_middle_of_a_key_change(memory: Any, calls: list[tuple[Any, list[str | None]]]) -> None:
    """Items and state are those of a list and a value, after each call, and for a program that has the last key."""
    with TemporaryDirectory() as folder:
        path, clock = Path(folder, "s.db"), Clock()
        items: list[dict[str, Any]] = []
        state: Any = None
        with clew.open(path, key=KEYS[0], clock=clock) as store, clew.open(path, key=KEYS[0]) as other:
            rotation, one = Rotation(other), memory(store, "someone", "talk")
            for number, ((what, count), steps) in enumerate(calls):
                clock.steps = [kind and (lambda kind=kind: rotation.step(kind)) for kind in steps]
                if what == "add":
                    new = [{"id": f"{number} {n}", "role": "user", "content": f"{number} {n}"} for n in range(count)]
                    one.add(new)
                    items += new
                elif what == "again" and items:
                    one.add(items[-1:])
                elif what == "pop":
                    assert one.pop() == (items.pop() if items else None)
                elif what == "state":
                    one.state = state = {"call": number}
                elif what == "search" and items:
                    assert items[-1]["content"] in [hit.node.text for hit in store.search(items[-1]["content"])]
                clock.join()
                assert rotation.errors == []
                assert (one.get(), one.state) == (items, state)
            assert store.verify().ok
        with clew.open(path, key=KEYS[rotation.key]) as store:
            one = memory(store, "someone", "talk")
            assert (one.get(), one.state) == (items, state)
            assert store.verify().ok
