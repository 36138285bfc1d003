"""P13: verify writes nothing, neither to the database nor to its write-ahead log."""

from __future__ import annotations

import hashlib
import os
import re
import signal
from pathlib import Path

import pytest

from tests.reliability import sample
from tests.reliability.tools import need_strace, output, python

VERIFY = """
import sys
from pathlib import Path
from tests.reliability import sample
with sample.opened(Path(sys.argv[1])) as store:
    report = store.verify()
    print(report.ok, report.counts["nodes"])
"""

WRITE = """
import sys, time
from pathlib import Path
from tests.reliability import sample
store = sample.opened(Path(sys.argv[1]))
sample.fill(store, words=5)
print("ready", flush=True)
time.sleep(60)
"""

WRITING = (
    "write,writev,pwrite64,pwritev,pwritev2,truncate,ftruncate,fallocate,unlink,unlinkat,rename,renameat,renameat2,"
    "link,linkat,copy_file_range,sendfile,chmod,fchmod,fchmodat"
)


@pytest.fixture(params=sample.KEYS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where a store may be made, plain or sealed."""
    return tmp_path / f"{request.param}.db"


def hashes(path: Path) -> dict[str, str]:
    """The data files of a store; the shared memory beside them is not data, and neither is a log without a byte."""
    files = [path, path.with_name(path.name + "-wal")]
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.exists() and file.stat().st_size
    }


def crashed(path: Path) -> Path:
    """A store whose writer was killed: everything is still in the write-ahead log."""
    writer = python(WRITE, path)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate()
    assert path.with_name(path.name + "-wal").stat().st_size > 0
    return path


def closed(path: Path) -> Path:
    """A store that was closed as it should be."""
    sample.make(str(path), words=5, key=sample.KEYS[path.stem])
    return path


def damaged(path: Path) -> Path:
    """A store with a flipped bit in every twentieth page."""
    content = bytearray(closed(path).read_bytes())
    for at in range(5 * 4096 + 3000, len(content), 20 * 4096):
        content[at] ^= 1
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("make", [crashed, closed, damaged])
def test_verify_leaves_every_byte_as_it_was(path: Path, make: object) -> None:
    """The hashes of database and write-ahead log are the same before and after, also when the writer was killed."""
    assert callable(make)
    make(path)
    before = hashes(path)
    assert len(before) == (2 if make is crashed else 1)
    out = output(python(VERIFY, path))
    assert hashes(path) == before
    assert out.startswith("True") or make is damaged


@pytest.mark.parametrize("make", [crashed, closed])
def test_verify_calls_nothing_that_writes(path: Path, tmp_path: Path, make: object) -> None:
    """Under strace no call that writes, cuts, renames or removes names the database or its write-ahead log.

    Opening a closed store asks for an exclusive lock, for which SQLite makes an empty log and removes it.
    """
    assert callable(make)
    strace, trace = need_strace(), tmp_path / "trace"
    make(path)
    wrap = (strace, "-f", "-qq", "-y", "-o", str(trace), "-e", f"trace={WRITING},openat")
    out = output(python(VERIFY, path, wrap=wrap))
    assert out.startswith("True")
    lines = trace.read_text().splitlines()
    assert any(f"{path}" in line for line in lines), "strace has not seen the database"
    data = re.compile(re.escape(str(path)) + r'(-wal)?["\\>]')
    writes = [line for line in lines if data.search(line) and "openat(" not in line]
    made = 1 if make is closed else 0
    assert [line for line in writes if "unlink(" not in line or f'"{path}-wal"' not in line] == []
    assert len(writes) == made
    opened = [line for line in lines if f'"{path}"' in line and "openat(" in line and "= -1" not in line]
    assert len([line for line in opened if "O_RDONLY" not in line]) == made
    assert len(opened) > made


def test_the_trace_would_show_a_write(path: Path, tmp_path: Path) -> None:
    """The same trace of a program that appends does show writes: the test above can fail."""
    strace, trace = need_strace(), tmp_path / "trace"
    closed(path)
    code = "import clew, sys\nfrom pathlib import Path\nfrom tests.reliability import sample\n"
    code += "with sample.opened(Path(sys.argv[1])) as s: s.sessions.latest().append(clew.user('x'))"
    output(python(code, path, wrap=(strace, "-f", "-qq", "-y", "-o", str(trace), "-e", f"trace={WRITING}")))
    assert re.search(re.escape(str(path)) + r"(-wal)?>", trace.read_text())


def test_a_crashed_store_verifies_and_is_whole(path: Path) -> None:
    """What a killed writer had acknowledged is there, and sound, when it is read without being repaired first."""
    crashed(path)
    with sample.opened(path) as store:
        assert store.verify().ok
        read = sample.readings(store)
    assert sample.errors(read) == set()
    assert len(read["nodes"]) > 90
