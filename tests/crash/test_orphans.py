"""P18: no helper outlives its lock. Whoever starts one is killed at any of its steps, and another process writes on."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

import clew
from clew.backends.sqlite import scrub
from clew.keys import key_id
from clew.store.session import delete_session
from tests.reliability.tools import need, output, python

KEY, OTHER_KEY = bytes(range(32)), bytes(range(1, 33))
SESSIONS, APPENDED = 45, 60
LIVE = int(os.environ.get("CLEW_ORPHANS", "500"))
"""How many callers the longest form kills while their helper lives."""

WORK = {
    "purge": "store.sessions.purge([one.id for one in store.sessions.list(limit=99).items if one.title == 'gone'])",
    "seal": "store.seal(bytes(range(32)))",
    "rotate": "store.rotate(bytes(range(1, 33)), deep=True)",
}
"""What starts a helper."""
START = (
    "import sys, clew\nstore = clew.open(sys.argv[1], key=bytes.fromhex(sys.argv[2]) or None)\n{work}\nstore.close()"
)
APPEND = """
import sys, clew
with clew.open(sys.argv[1], key=bytes.fromhex(sys.argv[2]) or None) as store:
    session = store.sessions.create(title="late")
    for number in range(60):
        session.append(clew.user(f"late {number} " * 20))
"""


@pytest.fixture(scope="session")
def stopper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that stops a process before one of its calls."""
    need("gcc")
    built = tmp_path_factory.mktemp("stopper") / "stop.so"
    source = Path(__file__).with_name("stop.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", built, source, "-ldl"], check=True)
    return built


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """For each kind of work a store with much that was deleted or will be, so that there is much to clear."""
    return {kind: prepare(tmp_path_factory.mktemp(kind), kind) for kind in WORK}


def prepare(folder: Path, kind: str, seed: int = 0) -> Path:
    """A folder with a store for one kind of work. Each seed gives messages of other lengths, so other pages."""
    chance = random.Random(seed)
    key = KEY if kind == "rotate" else None
    with clew.open(folder / "s.db", key=key, durability="relaxed") as store:
        for number in range(SESSIONS):
            session = store.sessions.create(title=("stays", "gone", "deleted")[number % 3])
            for turn in range(30):  # one by one: rows of many sessions share pages
                length = chance.randint(1, 40) if seed else 1 + turn * 7 % 40
                session.append(clew.user(f"{number} {turn} " * length))
        for one in store.sessions.list(limit=99).items:
            if one.title == "deleted":
                delete_session(store.sessions.get(one.id))
    return folder


class Run:
    """One piece of work whose helper, or which itself, is stopped before its nth call."""

    def __init__(self, prepared: dict[str, Path], folder: Path, stopper: Path, kind: str, at: int, who: str) -> None:
        self.path = Path(shutil.copytree(prepared[kind], folder)) / "s.db"
        self.kind, self.pid = kind, 0
        mark = Path(f"{folder}.pid")
        env = {**os.environ, "LD_PRELOAD": str(stopper), "STOP_ROOT": str(folder), "STOP_AT": str(at)}
        env |= {"STOP_IN": who, "STOP_FILE": str(mark), "PYTHONPATH": str(Path(clew.__file__).parents[1])}
        command = [sys.executable, "-c", START.format(work=WORK[kind]), str(self.path)]
        key = KEY.hex() if kind == "rotate" else ""
        self.process = subprocess.Popen([*command, key], env=env, stderr=subprocess.PIPE)
        while self.process.poll() is None and not self.pid:
            time.sleep(0.002)
            if mark.exists() and (said := mark.read_text()).endswith("\n"):
                self.pid = int(said)
                while state(self.pid) not in "TZ":
                    time.sleep(0.001)

    @property
    def reached(self) -> bool:
        """False if the work was done before it came to this call."""
        return bool(self.pid)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def go_on(self) -> None:
        """Lets the helper, if it is still there, run to its end."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)
        until = time.monotonic() + 30
        while state(self.pid) != "Z":
            assert time.monotonic() < until
            time.sleep(0.002)

    def key(self) -> bytes | None:
        """The key that the store is kept with by now."""
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as conn:
            (id,) = conn.execute("SELECT key_id FROM epoch").fetchone()
        return next((key for key in (KEY, OTHER_KEY) if key_id(key) == id), None)

    def sound(self) -> None:
        """Nothing is damaged, and whatever was said and not purged is there."""
        with clew.open(self.path, key=self.key()) as store:
            assert store.verify().damage == []
            listed = store.sessions.list(limit=99).items
            stays = [one for one in listed if one.title == "stays"]
            (late,) = [one for one in listed if one.title == "late"]
            assert len(stays) == SESSIONS // 3
            assert [len(one.path()) for one in (*stays, late)] == [30] * len(stays) + [APPENDED]


def state(pid: int) -> str:
    """The state of a process, as the kernel has it; Z if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def queued(path: Path) -> bool:
    """True if somebody waits for this lock."""
    inode = f":{path.stat().st_ino} "
    return any("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


def attack(run: Run, *, at_once: bool = False) -> bool:
    """Kills the caller of the helper, and appends from another process. True if that process waited for the helper.

    With `at_once` the helper goes on while the other process starts, instead of after that process waits for it.
    """
    run.kill()
    waited, until = False, time.monotonic() + 10
    key = (run.key() or b"").hex()
    if at_once:
        os.kill(run.pid, signal.SIGCONT)
    other = python(APPEND, run.path, key)
    while not at_once and other.poll() is None and not waited and state(run.pid) != "Z" and time.monotonic() < until:
        waited = queued(run.path.with_name("s.db-lock"))
        time.sleep(0.002)
    run.go_on()
    output(other)
    run.sound()
    return waited


def sweep(prepared: dict[str, Path], folder: Path, stopper: Path, kind: str, who: str, step: int) -> list[bool]:
    """Every so many-th call of the helper, or of the work itself, to the last."""
    waited = []
    for at in range(1, 10_000, step):
        run = Run(prepared, folder / f"{kind}-{at}", stopper, kind, at, who)
        if not run.reached:
            said = run.process.communicate()
            assert run.process.returncode == 0, said
            break
        waited.append(attack(run))
        shutil.rmtree(run.path.parent)
    return waited


@pytest.mark.parametrize("kind", WORK)
def test_a_helper_whose_caller_is_killed(tmp_path: Path, stopper: Path, prepared: dict[str, Path], kind: str) -> None:
    """A helper whose caller is killed in the middle of its writes keeps other writers waiting, and damages nothing."""
    run = Run(prepared, tmp_path / "run", stopper, kind, 20, "scrub.py")
    assert run.reached
    assert attack(run)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("who", ["scrub.py", "import sys, clew"])
@pytest.mark.parametrize("kind", WORK)
def test_killed_at_every_call(tmp_path: Path, stopper: Path, prepared: dict[str, Path], kind: str, who: str) -> None:
    """The same at every call of the helper that locks, writes or syncs, and at every one of whoever starts it."""
    waited = sweep(prepared, tmp_path, stopper, kind, who, 1 if who == "scrub.py" else 5)
    assert len(waited) > 40
    assert any(waited) == (who == "scrub.py")


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_killed_many_times(tmp_path: Path, stopper: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Until so many callers are killed while their helper lives, on ever other stores, nothing is damaged."""
    live, waited, seed = dict.fromkeys(WORK, 0), 0, 0
    while sum(live.values()) < LIVE:
        for kind in WORK:
            source = tmp_path / "source"
            source.mkdir()
            stores = {kind: prepare(source, kind, seed)}
            for at in range(1, 10_000):
                run = Run(stores, tmp_path / "run", stopper, kind, at, "scrub.py")
                if not run.reached:
                    run.process.communicate()
                    shutil.rmtree(run.path.parent)
                    break
                assert state(run.pid) == "T"
                os.kill(run.process.pid, signal.SIGKILL)
                run.process.wait()
                live[kind] += state(run.pid) != "Z"  # the helper outlives its caller
                waited += attack(run, at_once=bool((at + seed) % 2))
                shutil.rmtree(run.path.parent)
                Path(f"{run.path.parent}.pid").unlink()
            shutil.rmtree(source)
            with capsys.disabled():
                print(f"\nset {seed}: {live} callers killed with a live helper, {waited} appends waited", flush=True)
        seed += 1


LIST = "import sys; from clew.cli import main; sys.argv = ['clew', '--db', sys.argv[1], 'ls']; main()"
OPEN = "import sys, clew; store = clew.open(sys.argv[1]); store.sessions.list(); store.close()"


@pytest.mark.parametrize("code", [LIST, OPEN], ids=["clew ls", "open and close"])
def test_reading_while_a_helper_is_stopped(tmp_path: Path, stopper: Path, prepared: dict[str, Path], code: str) -> None:
    """While another process clears traces, a program that only reads waits neither to read nor to close."""
    run = Run(prepared, tmp_path / "run", stopper, "purge", 20, "scrub.py")
    assert run.reached
    try:
        began = time.monotonic()
        output(python(code, run.path))
        assert time.monotonic() - began < 30  # of 60 that a write would wait
    finally:
        os.kill(run.pid, signal.SIGCONT)
    run.process.communicate(timeout=30)
    assert run.process.returncode == 0
    with clew.open(run.path) as store:
        assert store.verify().ok
        assert not store.key_status().unclean


LOCKED = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"


def test_the_lock_is_sqlites(tmp_path: Path, stopper: Path, prepared: dict[str, Path]) -> None:
    """While a helper writes, also a program that knows nothing of clew is told that the database is locked."""
    path = Path(shutil.copytree(prepared["purge"], tmp_path / "run")) / "s.db"
    env = {**os.environ, "LD_PRELOAD": str(stopper), "STOP_ROOT": str(tmp_path), "STOP_AT": "20"}
    env |= {"STOP_IN": "scrub.py", "STOP_FILE": str(tmp_path / "pid")}
    helper = subprocess.Popen([sys.executable, "-I", "-S", scrub.__file__, path, "--write"], env=env)
    while state(helper.pid) not in "TZ":
        time.sleep(0.002)
    other = subprocess.run([sys.executable, "-c", LOCKED, path], capture_output=True, text=True, check=False)
    assert "database is locked" in other.stderr
    helper.send_signal(signal.SIGCONT)
    assert helper.wait() == 0
    subprocess.run([sys.executable, "-c", LOCKED, path], check=True)
