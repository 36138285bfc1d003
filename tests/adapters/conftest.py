"""What the tests of adapters share: a store of each kind, and a program that is killed.

`make test-adapters` runs each folder whose framework is not in .venv in an environment of its own. Where a framework is
missing, the tests of its folder are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

KEY = bytes(range(32))
Open = Callable[..., Any]


@pytest.fixture(scope="session")
def pg_server() -> Iterator[Any]:
    """A PostgreSQL server for the tests of a run."""
    from tests.backends.postgres.server import started

    server = started()
    yield server
    server.stop()


@pytest.fixture(params=["plain", "sealed", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Calls a class with the path or URL of a new store, plain, sealed or on a server.

    Its attribute `target` is that path or URL, and `key` the key of the store.
    """

    def make(kind: Any, *args: Any, **options: Any) -> Any:
        made: Any = make
        made.target = tmp_path / f"chats{len(list(tmp_path.glob('*.db')))}.db"
        made.key = KEY if request.param == "sealed" else None
        if request.param == "postgres":
            made.target = request.getfixturevalue("pg_server").url()
        if made.key is not None:
            options["key"] = made.key
        return kind(made.target, *args, **options)

    return make


@pytest.fixture
def killed(tmp_path: Path) -> Callable[[str], str]:
    """Runs a program that kills itself with SIGKILL, and returns its output."""

    def run(source: str) -> str:
        script = tmp_path / "killed.py"
        script.write_text(source, encoding="utf-8")
        root = Path(__file__).parents[2]
        done = subprocess.run(
            [sys.executable, str(script), str(tmp_path / "chats.db")],
            env={**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"},
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == -9, done.stderr.decode()
        return done.stdout.decode()

    return run
