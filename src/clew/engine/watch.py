"""Watching a session: new messages as any process appends them."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, Self

from clew.backends import MAX_SEQ, SEQ_BITS, RefRow, RunRow, Tx, creation_counter
from clew.base import ids
from clew.engine import paths
from clew.engine.engine import Engine
from clew.engine.node import Node
from clew.errors import Corrupted, Invalid, NotFound

Start = Node | str | Literal[False] | None
"""The message to start after: None before the first, False after the current last one."""


class Trail:
    """Tracks which messages of a session were returned, and finds the next ones."""

    def __init__(self, engine: Engine, here: Callable[[Tx], RefRow], after: Start) -> None:
        self._engine = engine
        self._here = here
        self._after = after
        self._given: dict[int, int] | None = None
        """The highest seq returned of each run. Everything before it was returned too: nodes never move."""
        self._limit = paths.FIRST_PAGE

    def poll(self) -> list[Node]:
        """The next messages, a page at most; none if there is nothing new. Invalid inside a transaction. NotFound."""
        if self._engine.backend.in_transaction():
            raise Invalid("a session cannot be watched inside a transaction", hint="Watch it after the transaction.")
        after = self._after if self._given is None else None
        target = self._engine.resolve_node(after) if isinstance(after, str | Node) else None
        given, nodes = self._engine.read(lambda tx: self._next(tx, target))
        self._given = given
        return nodes

    def _next(self, tx: Tx, target: bytes | None) -> tuple[dict[int, int], list[Node]]:
        row = self._here(tx)
        given = self._start(tx, row, target) if self._given is None else self._given
        found = self._new(tx, row.head, given)
        if found is None:
            return given, []
        run, low, upto = found
        nodes, self._limit = paths.piece(self._engine, tx, run, low, upto, self._limit)
        return {**given, run.run: low + len(nodes) - 1}, nodes

    def _start(self, tx: Tx, row: RefRow, target: bytes | None) -> dict[int, int]:
        """The position to start after."""
        pos = row.head if self._after is False else None
        if target is not None:
            point = tx.insert_point(target)
            if point is None or point.tree != row.tree:
                raise NotFound("node", ids.text(target), hint="It is not a message of the session's tree.")
            pos = point.pos
        heads = paths.origins(self._engine, tx, pos)
        return {run.run: upto for head in heads for run, upto in paths.lineage(tx, head)}

    def _new(self, tx: Tx, pos: int | None, given: dict[int, int]) -> tuple[RunRow, int, int] | None:
        """The first part of the history up to `pos` that was not returned yet: run, first and last seq."""
        found = None
        while pos is not None and pos & MAX_SEQ > given.get(pos >> SEQ_BITS, -1):
            run = paths.run_of(self._engine, tx, pos)
            low = given.get(run.run, -1) + 1
            found = run, low, pos & MAX_SEQ
            if low:
                break
            pos = run.derived if run.parent is None else run.parent
            # The check stops loops in damaged rows.
            if pos is not None and creation_counter(pos >> SEQ_BITS) >= creation_counter(run.run):
                raise Corrupted(f"run {run.run}", "it follows a newer run")
        return found


class WatchState:
    """The progress of a watch, and its subscription to changes. It never waits: `Watch` and its async twin do."""

    def __init__(
        self, engine: Engine, ref: int, here: Callable[[Tx], RefRow], after: Start, timeout: float | None
    ) -> None:
        if timeout is not None and (not isinstance(timeout, int | float) or not timeout >= 0):
            raise Invalid("timeout must be a number of seconds", hint="Omit it to wait without a limit.")
        if not (after is None or after is False or isinstance(after, str | Node)):
            raise Invalid(
                f"after must be the id of a message, not {type(after).__name__}",
                hint="Pass None to start before the first message, or omit it to start now.",
            )
        self._engine = engine
        self.trail = Trail(engine, here, after)
        self._stop: weakref.finalize[Any, Any] | None = None
        self.ref = ref
        self.timeout = timeout
        """Seconds to wait for the next message; None for no limit."""
        self.ready: deque[Node] = deque()
        """Messages that were read and not yet returned."""
        self.closed = False

    def fetch(self) -> None:
        """Reads the next messages, unless some are ready. Invalid inside a transaction; NotFound."""
        if not self.ready:
            self.ready.extend(self.trail.poll())

    def subscribe(self, notify: Callable[[], object]) -> None:
        """Calls `notify` after each change, until `unsubscribe` or until the state is garbage. Idempotent."""
        if self._stop is None:
            self._stop = weakref.finalize(self, self._engine.backend.watch(self.ref, notify))
            self._stop.atexit = False

    def unsubscribe(self) -> None:
        """Ends the subscription. Idempotent."""
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()


class Watch:
    """An iterator over the messages of a session that waits for new ones. See `Session.watch`.

    It starts when entered as a context manager, or else at the first `next`. After an error, the next call
    continues at the same message. Only one thread may iterate; any thread may close it.
    """

    def __init__(self, state: WatchState) -> None:
        self._state = state
        self._changed = threading.Event()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Node:
        state = self._state
        until = None if state.timeout is None else time.monotonic() + state.timeout
        try:
            while not state.closed:
                if state.ready:
                    return state.ready.popleft()
                state.subscribe(self._changed.set)
                self._changed.clear()
                state.fetch()
                if not state.ready and not self._changed.wait(None if until is None else until - time.monotonic()):
                    self.close()
        except BaseException:
            state.unsubscribe()
            raise
        raise StopIteration

    def close(self) -> None:
        """Stops the watch, also while another thread waits for a message. Idempotent."""
        self._state.closed = True
        self._state.unsubscribe()
        self._changed.set()

    def __enter__(self) -> Self:
        if not self._state.closed:
            self._state.fetch()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Watch of ref {self._state.ref}>"


def state_of(watch: Watch) -> WatchState:
    """The state of a watch, for the async twin."""
    return watch._state
