"""Many changes under one message, captured by path, against a copy of the folder."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import clew
from clew.checkpoints import Checkpoints

NAMES = ("a", "d", "d/a", "d/e", "d/e/a", "f/a", "f/g/a")


def _tree(work: Path) -> dict[str, bytes | None]:
    return {str(one.relative_to(work)): one.read_bytes() if one.is_file() else None for one in work.rglob("*")}


@pytest.mark.checklist("B25")
def test_a_folder_that_became_a_file(checkpoints: Checkpoints, work: Path, say: Callable[..., str]) -> None:
    """A folder that was replaced by a file under the same message comes back with what was in it."""
    (work / "d").mkdir()
    (work / "d/one").write_text("1")
    message = say()
    with checkpoints.guard(message, ["d/one"]):
        shutil.rmtree(work / "d")
    with checkpoints.guard(message, ["d"]):
        (work / "d").write_text("a file now")
    done = checkpoints.rewind(message)
    assert (done.can_rewind, done.error) == (True, None)
    assert _tree(work) == {"d": None, "d/one": b"1"}
    with pytest.raises(clew.Invalid, match="is a folder"):
        checkpoints.capture(say(), ["d"])


@pytest.mark.checklist("B25")
@pytest.mark.parametrize("seed", range(40))
def test_files_and_folders_in_any_order(
    checkpoints: Checkpoints, work: Path, say: Callable[..., str], seed: int
) -> None:
    """Whatever files and folders become under one message, a rewind restores them all."""
    chance = random.Random(seed)

    def remove(path: Path) -> None:
        inside = [one for one in path.rglob("*") if one.is_file()] if path.is_dir() else [path]
        with checkpoints.guard(message, [str(one) for one in inside]):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def write(path: Path, text: str, guarded: bool) -> None:
        for one in (path, *path.parents):
            if one != work and work in one.parents and (one.is_dir() if one == path else one.is_file()):
                remove(one)
        if guarded:
            with checkpoints.guard(message, [str(path)]):
                write(path, text, False)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    for name in chance.sample(NAMES, 3):
        if not any((work / name).is_relative_to(one) or one.is_relative_to(work / name) for one in work.rglob("*")):
            write(work / name, name, False)
    before, message = _tree(work), say()
    for number in range(8):
        path = work / chance.choice(NAMES)
        if path.exists() and chance.random() < 0.4:
            remove(path)
        else:
            write(path, str(number), True)
    done = checkpoints.rewind(message, force=True)  # empty folders were removed, which no guard can name
    assert (done.can_rewind, done.error) == (True, None)
    assert _tree(work) == before
