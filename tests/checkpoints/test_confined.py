"""Nothing outside the root is read or written, even if folders change meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import count
from pathlib import Path

import msgspec
import pytest

import clew
from clew.checkpoints import Checkpoints
from clew.checkpoints.root import PathBlocked, RootFolder

SWAP = """
import os, sys, time
work, outside = sys.argv[1:3]
print("ready", flush=True)
number = 0
while True:
    for name in ("a", "a/b"):
        time.sleep(0.001)
        path = os.path.join(work, name)
        aside = os.path.join(work, f"aside-{number}")
        number += 1
        try:
            os.rename(path, aside)
            os.symlink(outside, path)
            os.unlink(path)
            os.rename(aside, path)
            if len(sys.argv) > 3:
                for file in ("a/file", "a/b/new"):
                    with open(os.path.join(work, file), "w") as other:
                        other.write(f"changed {number}")
        except OSError:
            pass
"""


def race(work: Path, outside: Path, rounds: int) -> None:
    """Reads and writes while another process puts links in the place of folders, until enough went well and failed."""
    (outside / "b").mkdir(parents=True)
    for folder in (outside, outside / "b"):
        (folder / "file").write_text("outside")
    (work / "a" / "b").mkdir(parents=True)
    for path in ("a/file", "a/b/file"):
        (work / path).write_text("original")
    root = RootFolder(work, max_file=1 << 20)
    swapper = subprocess.Popen([sys.executable, "-c", SWAP, str(work), str(outside)], stdout=subprocess.PIPE)
    assert swapper.stdout is not None
    well = failed = 0
    try:
        swapper.stdout.readline()
        for number in count():
            if number >= rounds and min(well, failed) > rounds // 70:  # on a busy machine one of the two may be late
                break
            path = ("a/file", "a/b/file", "a/new", "a/b/new")[number % 4]
            try:
                seen = root.observe(path)
                assert seen.data != b"outside"
                state = seen.state if seen.state.kind == "file" else clew.checkpoints.FileState("file", 0o644)
                part = ".clew-" + "0" * 24 + ".part"
                fd = root.stage(path, state, b"inside", part)
                assert fd is not None
                os.close(fd)
                root.swap(path, part, seen.stamp)
                well += 1
            except (PathBlocked, OSError, clew.ClewError):
                failed += 1
    finally:
        swapper.kill()
        swapper.wait()
        swapper.stdout.close()
    found = {str(path.relative_to(outside)): path.is_dir() or path.read_text() for path in outside.rglob("*")}
    assert found == {"b": True, "file": "outside", "b/file": "outside"}


def test_links_put_in_the_place_of_folders(work, tmp_path):
    """Folders are exchanged for links that lead out, all the time: nothing outside is read or written."""
    race(work, tmp_path / "outside", 2_000)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_links_put_in_the_place_of_folders_ten_thousand_times(work, tmp_path):
    """The same 10,000 times."""
    race(work, tmp_path / "outside", 10_000)


@pytest.mark.parametrize("rounds", [40, pytest.param(400, marks=pytest.mark.soak)])
def test_whole_rewinds_in_the_race(session, work, say, tmp_path, rounds):
    """Captures and rewinds under the same attack end in a result or an error, and change nothing outside."""
    outside = tmp_path / "outside"
    (outside / "b").mkdir(parents=True)
    (outside / "b" / "file").write_text("outside")
    (outside / "file").write_text("outside")
    (work / "a" / "b").mkdir(parents=True)
    message = say()
    for path in ("a/file", "a/b/file"):
        (work / path).write_text("original")
    checkpoints = Checkpoints(session, work)
    checkpoints.capture(message, ["a/file", "a/b/file", "a/b/new"])
    told = Counter[bool | None]()
    command = [sys.executable, "-c", SWAP, str(work), str(outside), "and change"]
    swapper = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert swapper.stdout is not None
    try:
        swapper.stdout.readline()
        for _ in range(rounds):
            try:
                done = checkpoints.rewind(message, force=True)
                told[done.can_rewind] += 1
                checkpoints.capture_tree(say())
            except clew.ClewError:
                told[None] += 1
    finally:
        swapper.kill()
        swapper.wait()
        swapper.stdout.close()
    found = {str(path.relative_to(outside)): path.is_dir() or path.read_text() for path in outside.rglob("*")}
    assert told[True]
    assert found == {"b": True, "file": "outside", "b/file": "outside"}


def test_a_link_in_the_way_of_a_restored_path(checkpoints, work, say, tmp_path):
    """A folder became a link that leads out: a rewind is refused, and what is outside stays."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("outside")
    (work / "a").mkdir()
    (work / "a" / "file").write_text("original")
    message = say()
    checkpoints.capture(message, ["a/file"])
    (work / "a" / "file").unlink()
    (work / "a").rmdir()
    (work / "a").symlink_to(outside)
    done = checkpoints.rewind(message, force=True)
    assert (done.can_rewind, "not a folder" in (done.error or "")) == (False, True)
    assert (outside / "file").read_text() == "outside"


@pytest.mark.checklist("B31")
def test_a_manifest_that_leads_out_is_refused(store, checkpoints, repository, work, say, tmp_path):
    """A forged manifest may contain any path; nothing outside the root is written."""
    (work / "a").write_text("original")
    message = say()
    checkpoints.capture(message, ["a"])
    kept = repository.read(lambda tx: repository.get(tx, message))
    for path in ("../escaped", "x/../../escaped", "/tmp/../escaped", "a/./b", ""):
        entry = msgspec.structs.replace(kept.manifest.files[0], path=path)
        manifest = msgspec.structs.replace(kept.manifest, files=(entry,))
        kept = kept._replace(
            document=store.write(lambda unit: repository._put(unit, "checkpoint", "", manifest, kept.document))
        )
        with pytest.raises(clew.Corrupted):
            checkpoints.rewind(message)
    assert not (tmp_path / "escaped").exists()
