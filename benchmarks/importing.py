"""What an import costs: logs of Claude Code beside the floor, its memory, and files that have not changed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from time import perf_counter, process_time, sleep

from benchmarks.bench import Bench, texts
from benchmarks.measure import Figure

EACH = 5_000_000
"""Bytes of one log."""
IDLE = 60
"""Seconds for which an idle watch is measured."""
SETTLE = 2
"""Seconds after the first import that are not measured."""

_FLOOR = """
import glob, msgspec, sqlite3, sys, time
db = sqlite3.connect(sys.argv[2])
db.execute("PRAGMA journal_mode=WAL")
db.execute("CREATE TABLE m (id TEXT PRIMARY KEY, parent TEXT, body BLOB)")
began = time.perf_counter(), time.process_time()
for path in glob.glob(sys.argv[1] + "/**/*.jsonl", recursive=True):
    with open(path, "rb") as file:
        db.execute("BEGIN")
        for line in file:
            read = msgspec.json.decode(line)
            db.execute("INSERT INTO m VALUES (?, ?, ?)", (read.get("uuid"), read.get("parentUuid"), line))
        db.commit()
print(time.perf_counter() - began[0], time.process_time() - began[1], 0)
"""
"""Each line parsed by msgspec, and inserted by bare sqlite3."""

_IMPORT = """
import sys, time, clew
from clew.sources import find, import_all
with clew.open(sys.argv[2]) as store:
    began = time.perf_counter(), time.process_time()
    for outcome in import_all(store, find([sys.argv[1]])):
        assert outcome.state == "imported", outcome
    took = time.perf_counter() - began[0], time.process_time() - began[1]
with open("/proc/self/status") as file:  # `getrusage` would include the memory of the process that started this one
    print(*took, next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1000)
"""


def importing(bench: Bench) -> Iterator[Figure]:
    """An import of large logs in a process of its own, and one of many small logs that was done before."""
    size = bench.sizes.long * 10_000  # 1 GB, or 100 MB
    folder = os.path.join(bench.disk, "logs", "projects", "p")
    _write_logs(folder, max(1, size // EACH), min(EACH, size))
    floor = _run(_FLOOR, folder, bench.file(bench.disk))
    ours = _run(_IMPORT, folder, bench.file(bench.disk))
    megabytes = f"{size / 1e6:,.0f} MB"
    detail = f"{megabytes} in {ours[0]:.2f} s, the floor in {floor[0]:.2f} s; processor time {ours[1] / floor[1]:.2f}x"
    yield Figure("import of logs", ours[0] / floor[0], at_most=2.5, detail=detail)
    yield Figure("memory of an import", ours[2], " MB", at_most=250, detail=megabytes)
    yield _unchanged(bench)
    yield _grown(bench)


def _unchanged(bench: Bench) -> Figure:
    import clew
    from clew.sources import find, import_all
    from clew.sources.imported_files import ImportedFiles

    count = bench.sizes.path
    folder = os.path.join(bench.disk, "small", "projects", "p")
    _write_logs(folder, count, 1000)
    path = bench.file(bench.disk)
    with clew.open(path) as store:
        assert all(one.state == "imported" for one in import_all(store, find([folder])))
    began = perf_counter()
    with clew.open(path) as store:
        found = find([folder], known=ImportedFiles(store).unchanged_source)
        assert all(one.state == "unchanged" for one in import_all(store, found))
    return Figure("import of unchanged files", perf_counter() - began, " s", at_most=1, detail=f"{count:,} files")


def _grown(bench: Bench) -> Figure:
    """The cost of one line that is added to a large log, next to a whole import."""
    import clew
    from clew.sources import find, import_all

    folder = os.path.join(bench.disk, "grown", "projects", "p")
    size = bench.sizes.long * 1000  # 100 MB, or 10 MB
    _write_logs(folder, 1, size)
    (name,) = os.listdir(folder)
    path = os.path.join(folder, name)
    with open(path, "rb") as file:
        last = next(line for line in map(json.loads, reversed(file.readlines())) if "uuid" in line)
    with clew.open(bench.file(bench.disk)) as store:
        began = process_time()
        assert all(one.state == "imported" for one in import_all(store, find([folder])))
        whole = process_time() - began
        took = []
        for _ in range(5):
            last = {**last, "uuid": str(uuid.uuid4()), "parentUuid": last["uuid"]}
            with open(path, "a") as file:
                file.write(json.dumps(last) + "\n")
            began = process_time()
            (outcome,) = import_all(store, find([folder]))
            took.append(process_time() - began)
            assert outcome.messages == 1
    detail = f"{size / 1e6:,.0f} MB; all of it takes {whole:.2f} s of processor time"
    return Figure("a line added to a log", min(took) * 1000, " ms", at_most=50, detail=detail)


def watching(bench: Bench) -> Iterator[Figure]:
    """The processor time of an idle `clew import --watch`, and how soon it stores a message."""
    import clew

    folder = os.path.join(bench.disk, "watched", "projects", "p")
    _write_logs(folder, bench.sizes.path, 1000)
    path = bench.file(bench.disk)
    command = [sys.executable, "-m", "clew", "--db", path, "import", "--watch", "--jsonl", folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        for _ in range(bench.sizes.path):
            running.stdout.readline()
        assert "Watching" in running.stderr.readline()
        sleep(SETTLE)
        before = _processor_time(running.pid)
        sleep(IDLE)
        used = (_processor_time(running.pid) - before) * 600 / IDLE
        detail = f"{bench.sizes.path:,} files; {IDLE} s, times {600 // IDLE}"
        yield Figure("watching, ten idle minutes", used, " s", at_most=0.2, detail=detail)
        session = str(uuid.uuid4())
        line = {"parentUuid": None, "sessionId": session, "type": "user", "uuid": str(uuid.uuid4()),
                "message": {"role": "user", "content": "Hello"}, "timestamp": "2026-01-01T10:00:00.000Z"}  # fmt: skip
        with open(os.path.join(folder, f"{session}.jsonl"), "w") as file:
            file.write(json.dumps(line) + "\n")
        began = perf_counter()
        running.stdout.readline()
        took = perf_counter() - began
        with clew.open(path) as store:
            assert store.sessions.get(session).head_id
        running.send_signal(signal.SIGINT)
        assert running.wait(10) == 0
    yield Figure("a message that is watched for", took, " s", at_most=2, detail="from its line to the store")


def _processor_time(process: int) -> float:
    """Seconds of processor time that all threads of a process have used."""
    total = 0
    for task in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def _run(code: str, *arguments: str) -> list[float]:
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return [float(word) for word in done.stdout.split()]


def _write_logs(folder: str, files: int, size: int) -> None:
    """Logs as Claude Code writes them, with a record that is no message after every ten."""
    os.makedirs(folder)
    chance, said = random.Random(5), texts(500)

    def new() -> str:
        return str(uuid.UUID(int=chance.getrandbits(128), version=4))

    for _ in range(files):
        session, parent, number, written = new(), None, 0, 0
        with open(os.path.join(folder, f"{session}.jsonl"), "wb") as file:
            while written < size:
                id, role = new(), "assistant" if number % 2 else "user"
                text = "\n".join(chance.choices(said, k=chance.choice((1, 1, 3, 8))))
                message: dict[str, object] = {"role": role, "content": [{"type": "text", "text": text}]}
                if number % 2:
                    usage = {"input_tokens": 10, "output_tokens": number % 100}
                    message |= {"id": f"msg_{session}_{number}", "model": "claude-x", "usage": usage}
                line = {
                    "parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/src/app",
                    "sessionId": session, "version": "2.1", "gitBranch": "main", "type": role, "message": message,
                    "uuid": id, "timestamp": "2026-01-01T10:00:00.000Z",
                }  # fmt: skip
                written += file.write(json.dumps(line).encode() + b"\n")
                parent, number = id, number + 1
                if number % 10 == 0:
                    record = {"type": "file-history-snapshot", "messageId": id, "sessionId": session, "snapshot": {}}
                    written += file.write(json.dumps(record).encode() + b"\n")
