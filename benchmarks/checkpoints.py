"""A captured work tree beside `git status`, and what a rewind of many files takes."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator

import clew
from benchmarks.bench import Bench
from benchmarks.measure import Figure, Side, interleave, missing, once, ratio
from clew.checkpoints import Checkpoints
from clew.checkpoints.tree_scan import RACY


def tree(bench: Bench) -> Iterator[Figure]:
    """A work tree in which nothing has changed is captured again, against `git status`; and 500 files are rewound."""
    git = shutil.which("git")
    if git is None:
        yield missing("capture of an unchanged tree", "git is not installed")
        return
    count, changed = bench.sizes.long // 5, max(5, bench.sizes.long // 200)
    work = tempfile.mkdtemp(prefix="tree-", dir=bench.disk)
    files = furnish(work, count)
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all"],
    ):
        subprocess.run([git, *command], cwd=work, check=True)
    time.sleep(RACY / 1e9)  # until then every file could have changed unseen
    status = [git, "--no-optional-locks", "status", "--porcelain"]
    with clew.open(bench.file(bench.disk)) as store:
        session = store.sessions.create()
        message = session.append(clew.user("go"))
        start = time.perf_counter()
        Checkpoints(session, work).capture_tree(message)
        first = time.perf_counter() - start
        sides: dict[str, Side] = {
            "floor": once(lambda: subprocess.run(status, cwd=work, check=True, capture_output=True)),
            "clew": once(lambda: Checkpoints(session, work).capture_tree(message)),
        }
        times = interleave(sides, rounds=bench.sizes.rounds)
        yield ratio(f"capture of {count:,} unchanged files", times, at_most=3.0)
        yield Figure(f"first capture of {count:,} files", first, " s", detail=f"{count / first:,.0f} files a second")
        for number, path in enumerate(random.Random(2).sample(files, changed)):
            with open(path, "ab") as file:
                file.write(b"changed\n")
            if number % 5 == 0:
                os.chmod(path, 0o755)
        start = time.perf_counter()
        done = Checkpoints(session, work).rewind(message)
        took = time.perf_counter() - start
        assert len(done.files_changed) == changed, done
        yield Figure(f"rewind of {changed} changed files", took, " s", detail=f"{took / changed * 1000:.1f} ms a file")


def furnish(work: str, count: int) -> list[str]:
    """A work tree of files of source: their paths."""
    chance, files = random.Random(1), list[str]()
    for number in range(count):
        folder = os.path.join(work, f"pkg{number % 20}", f"mod{number // 20 % 20}", f"sub{number % 3}")
        os.makedirs(folder, exist_ok=True)
        lines = (f"x{chance.getrandbits(30)} = {chance.getrandbits(30)}\n" for _ in range(chance.randint(10, 100)))
        files.append(os.path.join(folder, f"f{number}.py"))
        with open(files[-1], "w", encoding="utf-8") as file:
            file.writelines(lines)
    with open(os.path.join(work, ".gitignore"), "w", encoding="utf-8") as file:
        file.write("*.pyc\nbuild/\n")
    return files
