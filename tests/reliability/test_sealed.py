"""P4: sealed means sealed. No readable word reaches the disk, in whatever guise, at any moment."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from tests.reliability import life
from tests.reliability.canaries import canary, content, files, found
from tests.reliability.tools import ROOT, need_strace

WRITING = (
    "write,writev,pwrite64,pwritev,pwritev2,sendfile,copy_file_range,splice,vmsplice,memfd_create,"
    "open,openat,creat,mkdir,mkdirat,mknod,mknodat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,setxattr,"
    "fsetxattr"
)
"""Calls by which bytes or names reach a file."""
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_SHARED = re.compile(r"mmap\(.*PROT_WRITE.*MAP_SHARED.*<(.*)>")


def unhex(shown: str) -> bytes:
    """A string as strace shows it, as bytes."""
    return bytes.fromhex(shown.replace("\\x", ""))


def words(seed: int) -> dict[str, str]:
    chance = random.Random(seed)
    return {name: canary(chance) for name in life.WORDS}


class Traced:
    """A program run under strace: how it ended, all that it wrote, and what it mapped to write through memory."""

    def __init__(self, folder: Path, *args: str | Path, said: dict[str, str]) -> None:
        trace = folder / f"trace-{os.urandom(4).hex()}"
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(clew.__file__).parents[1]), str(ROOT)])}
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        command = [need_strace(), "-f", "-qq", "-y", "-xx", "-s", str(1 << 26), "-o", str(trace)]
        command += ["-e", f"trace={WRITING},mmap", sys.executable, "-m", "tests.reliability.life", *map(str, args)]
        done = subprocess.run(command, input=json.dumps(said), text=True, capture_output=True, env=env, cwd=folder)
        self.code, self.errors = done.returncode, done.stderr
        text = trace.read_text()
        trace.unlink()
        strings = _STRING.findall(text)
        assert not any(cut for _, cut in strings), "strace has not shown everything"
        self.written = b"".join(unhex(string) for string, _ in strings)
        self.mapped = {unhex(name).decode() for name in _SHARED.findall(text)}


def lives(folder: Path, kept: str, seed: int) -> tuple[dict[str, str], bytes]:
    """A store's whole life: its words, and every byte that was ever written, with every name."""
    said = words(seed)
    path = folder / "s.db"
    first = Traced(folder, path, "begin", kept, said=said)
    assert first.code == -signal.SIGKILL, first.errors
    crashed = content(path)
    second = Traced(folder, path, "go_on", kept, said=said)
    assert second.code == 0, second.errors
    for mapped in first.mapped | second.mapped:
        assert mapped.endswith("-shm"), f"{mapped} is written to in a way that is not seen here"
    return said, b"".join((first.written, crashed, second.written, content(path)))


def test_nothing_readable_is_ever_written(tmp_path: Path) -> None:
    """Of a sealed store's life, with a crash in it, every byte of every write call is free of what was said."""
    said, written = lives(tmp_path, "sealed", seed=int.from_bytes(os.urandom(4)))
    assert len(written) > 500_000
    assert found(said, written) == []


def test_the_same_life_of_a_plain_store_would_be_seen(tmp_path: Path) -> None:
    """Of a plain store's life the same look finds every word, but the one that was only searched for."""
    said, written = lives(tmp_path, "plain", seed=2)
    seen = {one.removesuffix(" as raw") for one in found(said, written) if one.endswith(" as raw")}
    assert seen == set(life.WORDS) - {"query"}


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_many_lives(tmp_path: Path, seed: int) -> None:
    """The same with other words."""
    said, written = lives(tmp_path, "sealed", seed)
    assert found(said, written) == []


def test_every_guise_is_known() -> None:
    """The look itself sees a word in each of its guises, wherever it stands, and nothing in noise."""
    import base64
    import zlib

    said = words(1)
    word = said["text"]
    noise = random.Random(3).randbytes(300_000)
    assert found(said, noise) == []
    for before in range(6):
        plain = b"." * before + f"a {word} b".encode()
        for guise in (
            plain,
            plain.upper(),
            plain.decode().encode("utf-16-le"),
            plain.decode().encode("utf-16-be"),
            base64.b64encode(plain),
            base64.urlsafe_b64encode(plain),
            plain.hex().encode(),
            plain.hex().upper().encode(),
            "".join(f"\\u{byte:04x}" for byte in plain).encode(),
            zlib.compress(plain),
            zlib.compress(plain, 9),
            plain[:-15],
        ):
            assert found(said, noise[:1000] + guise + noise[1000:2000]), guise


def plain_store(path: Path, said: dict[str, str]) -> None:
    """A plain store with a search index in which every word was said, and that was not closed."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(clew.__file__).parents[1]), str(ROOT)])}
    command = [sys.executable, "-m", "tests.reliability.life", str(path), "begin", "plain"]
    done = subprocess.run(command, input=json.dumps(said), text=True, capture_output=True, env=env)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (path.parent / f"{path.name}.backup").unlink()


def test_a_store_that_is_sealed_in_place(path: Path) -> None:
    """After a plain store was sealed nothing that was said is in its file, its log, or beside it; while it is open."""
    said = words(5)
    plain_store(path, said)
    before = found(said, content(path))
    assert len({one.rpartition(" as ")[0] for one in before}) > 20
    assert any(one.name.endswith("-search") for one in files(path))
    with clew.open(path) as store:
        store.seal(life.FIRST)
        assert found(said, content(path)) == []
        assert not any("-search" in one.name for one in files(path))
        life.searches(store, said)
        store.sessions.latest().append(clew.user(said["last"]))
        assert found(said, content(path)) == []
        assert store.sessions.latest().title == said["new title"]
    assert found(said, content(path)) == []
    with clew.open(path, key=life.FIRST) as store:
        assert store.verify().ok
