"""Records model calls on a thread of its own: the program that makes them never waits, and never sees an error."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from clew.adapters.assembling import Assembler, ModelCall
from clew.adapters.keyed import Keyed, Target
from clew.base.worker import Worker
from clew.store.store import Store

LIMIT = 1000
"""Calls that may wait to be stored. Beyond that, new ones are dropped: memory must stay bounded."""
AT_EXIT = 5.0
"""Seconds that the end of the program waits for calls to be stored."""
log = logging.getLogger(__name__)


class CallRecorder:
    """Stores calls in a store: a path, a URL or an open `Store`. It is opened by the first call.

    Errors are logged with their type alone, because their text could quote the conversation.
    """

    def __init__(self, target: Target, tool: str, options: dict[str, Any]) -> None:
        self._target, self._tool, self._options = target, tool, options
        self._worker = Worker("clew-recorder", at_exit=AT_EXIT)
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._opening = threading.Lock()
        self._keyed: Keyed | None = None
        self.dropped = 0
        """Calls that were not stored because too many were waiting."""
        self.failed = 0
        """Calls that could not be stored."""

    def record(self, call: Callable[[], ModelCall | None]) -> None:
        """Queues a call to store: `call` returns it, or None if there is nothing to store."""
        if self._process != os.getpid():  # a forked process has neither the thread nor the store of its parent
            self._start()
        if len(self._worker) >= LIMIT:
            self.dropped += 1
            if self.dropped == 1:
                log.warning("clew: %d model calls wait to be stored; further ones are dropped", LIMIT)
            return
        self._worker.add(partial(self._store, call))

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until all calls so far are stored. False if that takes longer than `timeout` seconds."""
        return self._worker.flush(timeout)

    def close(self) -> None:
        """Stores pending calls, and closes the store, unless it was made with an open one."""
        self._worker.close()
        if self._keyed is not None and self._process == os.getpid():
            self._keyed.close()

    def keyed(self) -> Keyed:
        """The sessions in the store, which is opened if it is not open yet."""
        with self._opening:
            if self._keyed is None:
                self._keyed = Keyed(self._target, self._tool, self._options)
            return self._keyed

    def _store(self, call: Callable[[], ModelCall | None]) -> None:
        try:
            made = call()
            if made is not None:
                Assembler(self.keyed()).store(made)
        except Exception as error:  # noqa: BLE001  recording must not end the thread
            self.failed += 1
            log.warning("clew: a model call was not stored (%s)", type(error).__name__)


class Recording:
    """Common to adapters that record calls: the store, and how to wait for it and close it."""

    _recorder: CallRecorder

    @property
    def store(self) -> Store:
        """The store that has the conversations."""
        return self._recorder.keyed().store

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until all calls so far are stored. False if that takes longer than `timeout` seconds."""
        return self._recorder.flush(timeout)

    def close(self) -> None:
        """Stores pending calls, and closes the store, unless the adapter was made with an open one."""
        self._recorder.close()
