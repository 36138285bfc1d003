"""What a store takes: bytes on disk, time to start, memory to read."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec

import msgspec

import clew
from benchmarks import peers
from benchmarks.bench import Bench, encoded, messages, texts
from benchmarks.floor import Floor, session_id
from benchmarks.measure import Figure, Side, interleave, once, ratio, span

SESSIONS = 100
START = 1_000
"""Messages in the session that a start loads."""

FLOOR_START = """
import sqlite3, json
conn = sqlite3.connect({path!r})
(session,) = conn.execute("SELECT id FROM sessions ORDER BY updated DESC LIMIT 1").fetchone()
rows = conn.execute("SELECT body FROM messages WHERE session = ? ORDER BY id", (session,))
assert len([json.loads(body)["blocks"][0]["text"] for (body,) in rows]) == {count}
"""
CLEW_START = """
import clew
store = clew.open({path!r})
assert len([node.text for node in store.sessions.latest().path()]) == {count}
"""
WALK = """
import clew

def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))

session = clew.open({path!r}).sessions.latest()
before = status("VmRSS")
count = sum(1 for node in session.iter() if node.message)
print(count, status("VmHWM") - before)
"""


def space(bench: Bench) -> Iterator[Figure]:
    """Bytes of the closed file for each message, a hundred sessions written by turns."""
    each = bench.sizes.each
    said = messages(each)
    theirs, ours = bench.file(bench.memory), bench.file(bench.memory)
    with closing(Floor(theirs)) as floor:
        names = [session_id() for _ in range(SESSIONS)]
        for body in encoded(said):
            for name in names:
                floor.append(name, body)
    with clew.open(ours) as store:
        sessions = [store.sessions.create() for _ in range(SESSIONS)]
        for message in said:
            for session in sessions:
                session.append(message)
    count = SESSIONS * each
    floor_bytes, clew_bytes = os.path.getsize(theirs) / count, os.path.getsize(ours) / count
    others = {}
    for kind in peers.installed(bench):
        path = bench.file(bench.memory)
        with closing(kind(path)) as peer:
            peer.append([peer.say(text) for text in texts(START // 4)])
        size = os.path.getsize(path) / (START // 4)
        others[kind.label] = f"{size / floor_bytes:6.1f}x   {size:,.0f} bytes, one session of {START // 4}"
    detail = f"floor {floor_bytes:,.0f} bytes, clew {clew_bytes:,.0f}, over {count:,} messages"
    yield Figure("bytes a message", clew_bytes / floor_bytes, at_most=1.35, detail=detail, peers=others)


def start(bench: Bench) -> Iterator[Figure]:
    """A process that imports, opens, and reads the latest session of a thousand messages.

    Both sides run where nothing but clew is installed, and what it cannot do without; and, in the detail, here.
    """
    ours, theirs, _ = bench.long_session(bench.disk, START)
    floor, reader = FLOOR_START.format(path=theirs, count=START), CLEW_START.format(path=ours, count=START)
    python = _installed(bench)
    sides: dict[str, Side] = {
        "floor": _process(bench, floor, python),
        "clew": _process(bench, reader, python),
        "python": _process(bench, "pass", python),
        "floor here": _process(bench, floor),
        "clew here": _process(bench, reader),
    }
    times = interleave(sides, rounds=bench.sizes.starts)
    others = {}
    for kind in peers.installed(bench):
        path = bench.file(bench.disk)
        with closing(kind(path)) as peer:
            peer.fill(texts(START))
        process = _process(bench, kind.start.format(path=path, count=START))
        took = interleave({"peer": process}, rounds=2).median("peer")
        others[kind.label] = f"{took / times.median('floor here'):6.1f}x   {span(took)}"
    more = f"; python alone {span(times.median('python'))}"
    if find_spec("typing_extensions"):
        here = times.ratio("clew here", "floor here")
        more += f"; where typing_extensions is installed msgspec imports it: {here:.2f}x"
    yield ratio(f"cold start, {START:,} messages", times, at_most=1.6, peers=others, more=more)


def memory(bench: Bench) -> Iterator[Figure]:
    """How far a process grows while it reads a long session message by message."""
    ours, *_ = bench.long_session(bench.disk, bench.sizes.long)
    done = _run(bench, WALK.format(path=ours))
    count, grown = map(int, done.split())
    assert count == bench.sizes.long
    yield Figure(
        f"memory to iterate {count:,}", grown / 1024, unit=" MB", at_most=50, detail="resident, above the start"
    )


def _installed(bench: Bench) -> str:
    """The Python of an environment with clew and msgspec, which is all that installing clew brings, and no more."""
    folder = os.path.join(bench.disk, "installed")
    venv.create(folder, symlinks=True)
    packages = sysconfig.get_path("purelib", "venv", {"base": folder, "platbase": folder})
    for package in (clew, msgspec):
        os.symlink(os.path.abspath(package.__path__[0]), os.path.join(packages, package.__name__))
    return os.path.join(folder, "bin", "python")


def _process(bench: Bench, code: str, python: str | None = None) -> Side:
    return once(lambda: _run(bench, code, python))


def _run(bench: Bench, code: str, python: str | None = None) -> str:
    """What a new process prints. It may keep compiled modules, as an installed program may, in a folder of its own."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = os.path.join(bench.disk, "pycache")
    if python is not None:
        env.pop("PYTHONPATH", None)  # the way to this clew may be a way to other packages
    command = [python or sys.executable, "-c", code]
    return subprocess.run(command, check=True, cwd=bench.disk, env=env, stdout=subprocess.PIPE, text=True).stdout
