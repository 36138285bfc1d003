"""The command line as people start it, and the picker between two keys."""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator

import clew
from benchmarks.bench import Bench
from benchmarks.checkpoints import furnish
from benchmarks.measure import Figure, Side, interleave, missing, once, span
from benchmarks.reading import _sessions
from clew.checkpoints.tree_scan import RACY

ROWS = (
    "SELECT hex(key), datetime(active_at / 1000000, 'unixepoch'), data FROM refs "
    "WHERE workspace = '' AND kind = 'session' AND trashed_at IS NULL ORDER BY rank DESC"
)
"""What a list shows of a session, as stored; clew also checks it, counts its messages, and shortens its id."""
START = "import clew, clew.cli.root, clew.cli.commands.ls; clew.open"
"""Python's start, with what `clew ls` imports."""


def program(bench: Bench) -> Iterator[Figure]:
    """`clew --help`; and `clew ls`, beside the program sqlite3 printing the same rows."""
    count = bench.sizes.sessions
    ours, _ = bench.once(f"sessions {count}", lambda: _sessions(bench, count))

    def runs(*args: str) -> Side:
        return once(lambda: _quiet(bench, *args))

    python = sys.executable
    sides = {"help": runs(python, "-m", "clew", "--help"), "start": runs(python, "-c", START)}
    if shutil.which("sqlite3") is None:
        yield missing("clew ls", "the program sqlite3 is not installed")
    else:
        sides["ls"] = runs(python, "-m", "clew", "--db", ours, "ls")
        sides["sqlite3"] = runs("sqlite3", ours, f"{ROWS} LIMIT 20")
    times = interleave(sides, rounds=bench.sizes.starts)
    yield Figure("clew --help", times.median("help") * 1000, unit=" ms", at_most=150)
    if "ls" in sides:
        allowed = 2 * times.median("sqlite3") + times.median("start")
        parts = f"clew ls {span(times.median('ls'))}, sqlite3 {span(times.median('sqlite3'))}"
        yield Figure(
            f"clew ls of {count:,}, of what it may take", times.median("ls") / allowed, at_most=1.0,
            detail=f"{parts}, Python's start {span(times.median('start'))}",
        )  # fmt: skip
        yield _everything(bench, ours, count)


def hook(bench: Bench) -> Iterator[Figure]:
    """The processor time of `clew hook` before a command, in a project of 1,000 files that have not changed."""
    work = tempfile.mkdtemp(prefix="hook-", dir=bench.disk)
    furnish(work, 1000)
    event = {
        "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "make"}, "cwd": work,
        "session_id": str(uuid.uuid4()), "prompt_id": str(uuid.uuid4()), "transcript_path": os.path.join(work, "none"),
    }  # fmt: skip
    # as installed: with modules that are compiled already
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": os.path.join(bench.disk, "compiled")}
    command = [sys.executable, "-m", "clew", "--db", bench.file(bench.disk), "hook"]
    took: list[float] = []
    for number in range(bench.sizes.starts + 2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, input=json.dumps(event).encode(), env=env, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if number == 0:
            time.sleep(RACY / 1e9)  # until then every file could have changed unseen
        elif number > 1:
            took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    detail = f"the best of {len(took)} {min(took) * 1000:.0f} ms"
    yield Figure("clew hook, processor time", statistics.median(took) * 1000, " ms", at_most=150, detail=detail)


def _everything(bench: Bench, path: str, count: int) -> Figure:
    """All rows: no target, because nobody waits for that many; scripts do."""
    took = {}
    for name, command in (
        ("clew", (sys.executable, "-m", "clew", "--db", path, "ls", "--all")),
        ("sqlite3", ("sqlite3", path, ROWS)),
    ):
        start = time.perf_counter()
        _quiet(bench, *command)
        took[name] = time.perf_counter() - start
    detail = f"clew {span(took['clew'])}, sqlite3 {span(took['sqlite3'])}"
    return Figure(f"clew ls --all of {count:,}", took["clew"] / took["sqlite3"], detail=detail)


def picker(bench: Bench) -> Iterator[Figure]:
    """What is typed in the picker, letter by letter: the slowest answer, of titles and of contents."""
    try:
        from clew.cli.picker.catalog import Catalog
    except ImportError:
        yield missing("picker", "the packages of the command line are not installed")
        return
    count = bench.sizes.sessions
    path = bench.once(f"talks {count}", lambda: _talks(bench, count))
    with clew.open(path) as store:
        catalog = Catalog(store, "/src/project-3")
        start = time.perf_counter()
        for number, _ in enumerate(catalog.load()):
            if not number:
                first = time.perf_counter() - start
        loaded = time.perf_counter() - start
        catalog.contents("nothing", "everything", set())  # indexes
        titles, contents = [], []
        typed = "harbour light 12"
        for end in range(1, len(typed) + 1):
            for scope in catalog.scopes:
                start = time.perf_counter()
                found = catalog.find(typed[:end], scope)
                titles.append(time.perf_counter() - start)
            start = time.perf_counter()
            catalog.contents(typed[:end], "everything", {row.id for row in found.rows})
            contents.append(time.perf_counter() - start)
    detail = f"the first page is there after {span(first)}, all after {span(loaded)}"
    name = f"typing among {count:,} sessions"
    yield Figure(f"{name}: titles", max(titles) * 1000, unit=" ms", at_most=100, detail=detail)
    yield Figure(f"{name}: contents", max(contents) * 1000, unit=" ms", at_most=100)


def _talks(bench: Bench, count: int) -> str:
    """Sessions with titles and words in common, as people's have."""
    path = bench.file(bench.disk)
    words = ("harbour", "light", "house", "build", "lint", "page")
    with clew.open(path, durability="relaxed") as store:
        for start in range(0, count, 500):
            with store.transaction():
                for number in range(start, min(start + 500, count)):
                    title = f"{words[number % 6]} {words[number // 6 % 6]} {number}"
                    session = store.sessions.create(title=title, cwd=f"/src/project-{number % 300}")
                    session.append(
                        [clew.user(f"About the {title}?"), clew.assistant(f"The {words[number % 5]} it is.")]
                    )
    return path


def _quiet(bench: Bench, *command: str) -> None:
    """Runs a program. It may keep compiled modules, as an installed one may, in a folder of its own."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = os.path.join(bench.disk, "pycache")
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
