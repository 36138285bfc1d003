"""What happens in memory when a transaction ends: objects are reset on a rollback, and other work can begin."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager

Step = Callable[[], object]


class _Local(threading.local):
    """Per thread, the steps of its current transaction."""

    steps: dict[int, Step] | None = None
    after: dict[Hashable, Step]


class RollbackSteps:
    """The transactions of one store, and for each thread the steps to run on a rollback, and at the end."""

    def __init__(self, begin: Callable[[], AbstractContextManager[None]]) -> None:
        self._begin = begin
        self._local = _Local()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Backend.transaction`."""
        outer = self._local.steps
        steps: dict[int, Step] = {}
        self._local.steps = steps
        if outer is None:
            self._local.after = {}
        try:
            with self._begin():
                yield
        except BaseException:
            self._local.steps = outer
            for step in steps.values():
                step()
            raise
        finally:
            self._local.steps = outer
            if outer is None:
                for step in self._local.after.values():
                    step()
        if outer is not None:
            outer.update({what: step for what, step in steps.items() if what not in outer})

    def on_rollback(self, what: object, step: Callable[[], Step]) -> None:
        """Inside a transaction: runs the result of `step` on a rollback, unless `what` already has one.

        `what` must live as long as its step.
        """
        steps = self._local.steps
        if steps is not None and id(what) not in steps:
            steps[id(what)] = step()

    def after(self, what: Hashable, step: Step) -> None:
        """Runs a step now, or at the end of this thread's transaction: once for each `what`, also after a rollback."""
        if self._local.steps is None:
            step()
        else:
            self._local.after[what] = step
