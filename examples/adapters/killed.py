"""Runs an example twice: a process that is killed, and then this one, which resumes with what is stored."""

import asyncio
import inspect
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from clew import Store


def kill_and_resume(main: Callable[[str, bool], Any]) -> None:
    """Calls `main` with the path of a store, and with True if it is to kill its process."""
    if len(sys.argv) > 1:
        _call(main, sys.argv[1], True)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "chats.db")
        subprocess.run([sys.executable, sys.argv[0], path], check=False)
        print("The program was killed. It resumes:")
        _call(main, path, False)


def print_latest(store: Store) -> None:
    """Prints the conversation that was active last."""
    session = store.sessions.latest()
    assert session is not None
    for node in session.path():
        print(f"{node.role}: {node.message.text or node.message.blocks}")


def _call(main: Callable[[str, bool], Any], path: str, killed: bool) -> None:
    if inspect.iscoroutinefunction(main):
        asyncio.run(main(path, killed))
    else:
        main(path, killed)
