"""File systems that take A.py and a.py for the same file, as those of macOS do."""

from __future__ import annotations

import os

import pytest

from clew.checkpoints import Checkpoints
from tests.checkpoints.conftest import picture

CALLS = ("stat", "lstat", "open", "unlink", "rename", "readlink", "mkdir", "rmdir", "symlink")


@pytest.fixture
def careless(work, monkeypatch):
    """Every call finds a name in any spelling, as such a file system does; what is there keeps its own.

    It is played, for want of one: gives the call that renames to exactly what it is told.
    """
    real = {name: getattr(os, name) for name in CALLS}
    listdir = os.listdir

    def there(folder, name):
        names = listdir(folder)
        return name if name in names else next((one for one in names if one.casefold() == name.casefold()), name)

    def found(path, dir_fd):
        if dir_fd is not None:
            return there(dir_fd, path)
        text = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
        if not isinstance(text, str) or not text.startswith(f"{work}/"):
            return path
        at = str(work)
        for part in text.removeprefix(f"{work}/").split("/"):
            at = os.path.join(at, there(at, part) if os.path.isdir(at) else part)
        return at

    def careless_call(name):
        def call(*args, **rest):
            first = 1 if name == "symlink" else 0
            many = list(args)
            many[first] = found(many[first], rest.get("src_dir_fd", rest.get("dir_fd")))
            if name == "rename":
                many[1] = found(many[1], rest.get("dst_dir_fd"))
            return real[name](*many, **rest)

        return call

    for name in CALLS:
        call = careless_call(name)
        monkeypatch.setattr(os, name, call)
        monkeypatch.setattr(os, "supports_dir_fd", os.supports_dir_fd | {call})
    return real["rename"]


@pytest.fixture
def checkpoints(careless, session, work):
    return Checkpoints(session, work)


@pytest.mark.parametrize(
    ("old", "new"), [("a.py", "A.py"), ("deep/in", "Deep/in"), ("Deep/x/y", "deep/X/Y"), ("caf\u00c9", "caf\u00e9")]
)
def test_a_name_that_is_only_spelled_otherwise(checkpoints, careless, work, say, old, new):
    """A command renames a file or a folder to the same name in another spelling: going back loses nothing."""
    (work / old).parent.mkdir(exist_ok=True, parents=True)
    (work / old).write_text("one")
    (work / "other").write_text("other")
    before = picture(work)
    message = say()
    checkpoints.capture_tree(message)
    for one, other in zip(reversed(list(split(old))), reversed(list(split(new))), strict=True):
        careless(work / one, (work / one).with_name(other.rpartition("/")[2]))
    after = picture(work)
    assert checkpoints.rewind(message).can_rewind
    assert picture(work) == before
    assert checkpoints.undo().can_rewind
    assert picture(work) == after


def test_one_file_by_two_spellings(checkpoints, work, say):
    """An agent names a file now so and now so: its first state counts."""
    (work / "src").mkdir()
    (work / "src" / "a.py").write_text("one")
    message = say()
    checkpoints.capture(message, ["SRC/a.py", "src/NEW"])
    (work / "src" / "a.py").write_text("two")
    (work / "src" / "NEW").write_text("new")
    kept = checkpoints.capture(message, ["src/A.PY", "Src/new"])
    assert sorted(kept.states) == ["src/NEW", "src/a.py"]
    assert checkpoints.rewind(message).can_rewind
    assert (work / "src" / "a.py").read_text() == "one"
    assert os.listdir(work / "src") == ["a.py"]


def split(path):
    """Each folder of a path, and the path."""
    parts = path.split("/")
    return ("/".join(parts[: number + 1]) for number in range(len(parts)))
