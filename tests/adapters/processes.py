"""Processes that write to one store at once."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable
from typing import Any


def run_together(work: Callable[..., object], path: str | os.PathLike[str], each: Iterable[Any] = ("a", "b")) -> str:
    """Calls `work` with the path of a store and one of `each`, in a process of its own for each. Returns the path."""
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(os.fspath(path), one)) for one in each]
    for one in workers:
        one.start()
    for one in workers:
        one.join(120)
        assert one.exitcode == 0
    return os.fspath(path)
