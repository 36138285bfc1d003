"""A throw-away home in which a program writes its history, with a scripted model on loopback.

Programs are installed below `PROGRAMS`, never in the repository::

    npm install --prefix /tmp/samples-npm/gemini-cli @google/gemini-cli@0.61.0
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from clew.testing.providers import ProviderServer, QueuedResponse, Request, Wire

PROGRAMS = Path(os.environ.get("SAMPLE_PROGRAMS", "/tmp/samples-npm"))
SAMPLES = Path(__file__).parents[2] / "tests" / "sources" / "samples"
HOME = "/home/user"
"""What the path of the throw-away home becomes in a sample."""


class AnyServer(ProviderServer):
    """A server that answers requests which the real provider would refuse: some programs send those after a resume."""

    def answer(self, request: Request, wire: Wire) -> QueuedResponse:
        return super().answer(request, wire._replace(refuses=lambda asked: None))


class Workbench:
    """A home, a project in it, and a server that answers as it is told."""

    def __init__(self, home: Path, server: ProviderServer) -> None:
        self.home = home
        self.server = server
        self.work = home / "work"
        self.work.mkdir()
        (self.work / "a.txt").write_text("alpha\n")
        self.env = {"PATH": os.environ["PATH"], "HOME": str(home), "NO_COLOR": "1", "CI": "1", "TZ": "UTC"}

    def install(self, program: str, *packages: str) -> Path:
        """The folder of a program, installed from npm if it is not there."""
        folder = PROGRAMS / program
        if not (folder / "node_modules").is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", folder, *packages], check=True)
        return folder / "node_modules"

    def run(self, *command: str | Path, timeout: float = 120, **env: str) -> subprocess.CompletedProcess[str]:
        """Runs a program in the project to its end, and prints how it ended. After `timeout` seconds it is killed."""
        given = [str(word) for word in command]
        process = subprocess.Popen(
            given, cwd=self.work, env={**self.env, **env}, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            out, err = process.communicate()
        print(f"{' '.join(given[1:])[:120]}: {process.returncode}\n{out[-400:]}\n{err[-1200:]}")
        return subprocess.CompletedProcess(given, process.returncode, out, err)

    def clean(self, data: bytes, removed: Mapping[str, str] | None = None) -> bytes:
        """A file without the paths of this machine, and with `removed` texts replaced."""
        data = data.replace(str(self.home)[1:].encode(), HOME[1:].encode())
        data = data.replace(str(self.home).replace("/", "-").encode(), HOME.replace("/", "-").encode())
        for text, other in (removed or {}).items():
            data = data.replace(text.encode(), other.encode())
        return data

    def save(self, source: str, files: Mapping[str, bytes]) -> None:
        """Replaces the sample of a source."""
        folder = SAMPLES / source
        shutil.rmtree(folder, ignore_errors=True)
        for name, data in files.items():
            file = folder / self.clean(name.encode()).decode()
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.clean(data))
            print(f"{file}: {len(data):,} bytes")


def dump(database: Path, tables: tuple[str, ...]) -> bytes:
    """Some tables of a SQLite database as SQL. The file and its -wal stay as they are."""
    copy = database.with_name("copy.db")
    for ending in ("", "-wal"):
        if (beside := database.with_name(database.name + ending)).exists():
            shutil.copy(beside, copy.with_name(copy.name + ending))
    with closing(sqlite3.connect(copy)) as connection:
        wanted = tuple(f'CREATE TABLE "{name}"' for name in tables) + tuple(f"CREATE TABLE {name}" for name in tables)
        wanted += tuple(f"CREATE TABLE `{name}`" for name in tables)
        wanted += tuple(f'INSERT INTO "{name}"' for name in tables)
        return "".join(f"{line}\n" for line in connection.iterdump() if line.startswith(wanted)).encode()


@contextmanager
def workbench(server: ProviderServer | None = None) -> Iterator[Workbench]:
    """A workbench that is gone afterwards."""
    folder = tempfile.TemporaryDirectory(prefix="clew-sample-", ignore_cleanup_errors=True)
    with folder as home, server or AnyServer() as running:
        yield Workbench(Path(home), running)
