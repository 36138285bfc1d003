"""Watching a session: its messages as they come, whoever appends them."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, Self

from clew import ids, paths
from clew.backends import MAX_SEQ, SEQ_BITS, RefRow, RunRow, Tx, born
from clew.engine import Engine
from clew.errors import Invalid, NotFound, Tampered
from clew.node import Node

Start = str | Literal[False] | None
"""After which message it begins: None before the first, False after what is last when it begins."""


class Trail:
    """Which messages of a session were given, and which come next."""

    def __init__(self, engine: Engine, here: Callable[[Tx], RefRow], after: Start) -> None:
        self._engine = engine
        self._here = here
        self._after = after
        self._given: dict[int, int] | None = None
        """The highest seq that was given of each run, with everything before: nodes never move, nor does a seq go
        back."""
        self._limit = paths.FIRST_PAGE

    def look(self) -> list[Node]:
        """The next messages, a page at most; none if there is nothing new. Invalid inside a transaction. NotFound."""
        if self._engine.backend.in_transaction():
            raise Invalid("a session cannot be watched inside a transaction", hint="Watch it after its end.")
        after = self._after if self._given is None else None
        target = self._engine.resolve_node(after) if isinstance(after, str) else None
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
        """Everything up to where it begins."""
        pos = row.head if self._after is False else None
        if target is not None:
            ground = tx.ground(target)
            if ground is None or ground.tree != row.tree:
                raise NotFound("node", ids.text(target), hint="It is not a message of the session's tree.")
            pos = ground.pos
        heads = paths.origins(self._engine, tx, pos)
        return {run.run: upto for head in heads for run, upto in paths.lineage(tx, head)}

    def _new(self, tx: Tx, pos: int | None, given: dict[int, int]) -> tuple[RunRow, int, int] | None:
        """The first stretch on the way to `pos`, also before compactions, that was not given: run, and from, up to."""
        found = None
        while pos is not None and pos & MAX_SEQ > given.get(pos >> SEQ_BITS, -1):
            run = paths.run_of(self._engine, tx, pos)
            low = given.get(run.run, -1) + 1
            found = run, low, pos & MAX_SEQ
            if low:
                break
            pos = run.derived if run.parent is None else run.parent
            if pos is not None and born(pos >> SEQ_BITS) >= born(run.run):  # damage must not lead in circles
                raise Tampered(f"run {run.run}", "it comes after a later one")
        return found


class Watch:
    """The messages of a session as they come: an iterator that waits for the next one. See `Session.watch`.

    It begins when it is entered as a context manager, or else when the first message is asked for. An error leaves it
    where it was: asked again, it goes on from there. It is one thread's, but any may close it.
    """

    def __init__(
        self, engine: Engine, ref: int, here: Callable[[Tx], RefRow], after: Start, timeout: float | None
    ) -> None:
        if timeout is not None and (not isinstance(timeout, int | float) or not timeout >= 0):
            raise Invalid("a timeout is a number of seconds", hint="Leave it out to wait for ever.")
        if not (after is None or after is False or isinstance(after, str)):
            raise Invalid(
                f"a watch begins after a message's id, not {type(after).__name__}",
                hint="None begins before the first message; without it, a watch begins now.",
            )
        self._engine = engine
        self._ref = ref
        self._trail = Trail(engine, here, after)
        self._timeout = timeout
        self._ready: deque[Node] = deque()
        self._told = threading.Event()
        self._stop: weakref.finalize[Any, Any] | None = None
        self._over = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Node:
        until = None if self._timeout is None else time.monotonic() + self._timeout
        try:
            while not self._over:
                if self._ready:
                    return self._ready.popleft()
                self._listen(self._told.set)
                self._told.clear()
                self._look()
                if not self._ready and not self._told.wait(None if until is None else until - time.monotonic()):
                    self.close()
        except BaseException:
            self._let_go()
            raise
        raise StopIteration

    def close(self) -> None:
        """Ends it, also while someone waits for its next message. Idempotent."""
        self._over = True
        self._let_go()
        self._told.set()

    def __enter__(self) -> Self:
        if not self._over:
            self._look()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Watch of ref {self._ref}>"

    # -- inside, and for the async face

    def _look(self) -> None:
        if not self._ready:
            self._ready.extend(self._trail.look())

    def _listen(self, tell: Callable[[], object]) -> None:
        """Asks to be told of changes; whoever forgets about it without a close is told no more."""
        if self._stop is None:
            self._stop = weakref.finalize(self, self._engine.backend.watch(self._ref, tell))
            self._stop.atexit = False

    def _let_go(self) -> None:
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()
