"""What it costs to have clew at hand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

import pytest

BARE = "import sqlite3, json"
DOOR = "import clew; clew.open"
"""Names of clew are loaded when they are asked for."""
LIMIT = 3.5
"""Times bare Python with sqlite3 and json. About 2 on a quiet machine; msgspec is half of it."""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def seconds(code: str) -> float:
    began = perf_counter()
    run(code)
    return perf_counter() - began


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules are compiled once, as when they are installed, whatever this environment says."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", os.fspath(tmp_path))
    run(f"{DOOR}; {BARE}")


@pytest.mark.usefixtures("compiled")
def test_importing_is_cheap() -> None:
    """Starting Python with clew takes at most 3.5 times as long as with sqlite3 and json (medians, interleaved)."""
    for _ in range(3):  # a machine that is busy for a moment gets another try
        pairs = [(seconds(BARE), seconds(DOOR)) for _ in range(7)]
        ratio = median(clew for _, clew in pairs) / median(bare for bare, _ in pairs)
        if ratio <= LIMIT:
            return
    raise AssertionError(f"import clew takes {ratio:.1f} times as long as {BARE!r}")


def test_nothing_heavy_is_imported() -> None:
    """The door opens without event loops, the command line, hashes, network or test tools."""
    code = "import sys, {}; print(*sorted(sys.modules))"
    known = set(run(code.format("msgspec, sqlite3, json")).split())
    added = set(run(code.format("clew; clew.open")).split()) - known
    heavy = (
        "asyncio anyio trio click hashlib dataclasses inspect logging tempfile shutil subprocess socket ssl uuid random"
    )
    heavy += " pytest hypothesis platformdirs concurrent.futures multiprocessing email http urllib importlib.metadata"
    assert {name for name in added if name.split(".")[0] in heavy.split() or name in heavy.split()} == set()
    assert not {"clew.aio", "clew.cli", "clew.testing", "clew.keys", "clew.redaction"} & added


def test_keys_are_there_when_asked_for() -> None:
    """`clew.keys` needs no import of its own, and brings neither cryptography nor keyring; other names are errors."""
    code = "import sys, clew; clew.keys.key_id(clew.keys.generate()); print('clew.keys' in sys.modules)"
    assert run(f"{code}; print({{'cryptography', 'keyring'}} & set(sys.modules))") == "True\nset()\n"
    assert run("import clew; print(hasattr(clew, 'kees'))") == "False\n"


def test_opening_imports_nothing_heavy_either() -> None:
    """A program that opens a store, appends and reads does so without an event loop or the command line."""
    work = "s = clew.open(':memory:').sessions.create(); s.append(clew.user('x')); s.path()"
    code = f"import sys, clew; {work}; print(*sys.modules)"
    loaded = set(run(code).split())
    assert not {"asyncio", "anyio", "click", "clew.cli", "clew.aio", "socket", "ssl"} & loaded


def test_reading_waits_for_nothing_but_what_it_needs(tmp_path: Path) -> None:
    """A program that reads the latest session loads nothing that writes, watches, attaches, deletes or audits."""
    store = f"clew.open({os.fspath(tmp_path / 'a.db')!r})"
    run(f"import clew; {store}.sessions.create().append(clew.user('x'))")
    read = f"assert [node.text for node in {store}.sessions.latest().path()] == ['x']"
    loaded = set(run(f"import sys, clew; {read}; print(*sys.modules)").split())
    parts = "engine.audit store.attachments engine.blobs engine.deletion engine.log store.nodes engine.blob_objects "
    parts += "store.search.query engine.trash engine.watch"
    inner = "migrate cleaning listener"
    idle = {f"clew.{name}" for name in parts.split()} | {f"clew.backends.sqlite.{name}" for name in inner.split()}
    known = set(run("import sys, msgspec, sqlite3, threading; print(*sys.modules)").split())
    assert not (idle | {"queue", "weakref", "hashlib"}) & (loaded - known)


def test_the_testing_module_needs_no_pytest() -> None:
    """`clew.testing` can be imported where pytest is not installed."""
    assert run("import sys; sys.modules['pytest'] = None; import clew.testing; print('ok')") == "ok\n"


def test_help_waits_for_no_store() -> None:
    """`clew --help` loads the names of the commands, and nothing that stores or reads."""
    done = "import sys; sys.argv = ['clew', '--help']; from clew.cli import main; main(); print(*sys.modules)"
    loaded = set(run(done).splitlines()[-1].split())
    assert "clew.cli.root" in loaded
    assert (
        not {"msgspec", "sqlite3", "json", "rich", "clew.store.store", "clew.base.messages", "clew.cli.commands.chat"}
        & loaded
    )


def test_every_public_name_is_loaded_when_asked_for() -> None:
    """Each by itself, in a program that has asked for nothing else; and once it was, it is there for good."""
    code = "import clew; [getattr(clew, name) for name in clew.__all__]; print({*clew.__all__} <= {*vars(clew)})"
    assert run(code) == "True\n"
    assert run("from clew import Session; print(Session.__module__)") == "clew.store.session\n"
    assert set(run("import clew, sys; print(*sys.modules)").split()).isdisjoint(
        {"msgspec", "sqlite3", "clew.store.store"}
    )
