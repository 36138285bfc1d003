"""C40: a store in the default folder is kept out of sync tools."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Done, Run


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clew_cli: Run) -> Path:
    """The default folder, as nobody has named a store."""
    monkeypatch.delenv("CLEW_DB")
    return tmp_path / "data" / "clew"


def say(clew_cli: Run, *args: str) -> Done:
    return clew_cli("append", *args, input='{"text": "a"}')


@pytest.mark.checklist("C40")
def test_c40_our_folder_has_markers(clew_cli: Run, ours: Path) -> None:
    """The folder of the default store says to sync tools that it is not for them, and not to backups."""
    assert clew_cli("ls").code == 0
    assert not ours.exists()
    assert say(clew_cli).code == 0
    names = {file.name for file in ours.iterdir()}
    assert {".nosync", ".stignore", "clew.db"} <= names
    assert "CACHEDIR.TAG" not in names
    assert "*" in (ours / ".stignore").read_text().splitlines()
    assert all(stat.S_IMODE((ours / name).stat().st_mode) == 0o600 for name in (".nosync", ".stignore"))
    try:
        os.setxattr(ours, "user.test", b"1")
    except OSError:
        return
    assert os.getxattr(ours, "user.com.dropbox.ignored") == b"1"


def test_c40_what_the_user_changed_stays(clew_cli: Run, ours: Path) -> None:
    """Markers are made with the store, and never again; one that is there, or a link, is left as it is."""
    ours.mkdir(parents=True)
    (ours / ".stignore").symlink_to(ours / "elsewhere")
    say(clew_cli)
    assert not (ours / "elsewhere").exists()
    (ours / ".nosync").unlink()
    say(clew_cli)
    assert not (ours / ".nosync").exists()


def test_c40_a_folder_that_was_named_is_not_marked(clew_cli: Run, ours: Path, tmp_path: Path) -> None:
    """Where a person wants a store, nothing else is put."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    say(clew_cli, "--db", str(theirs / "chats.db"))
    assert {file.name for file in theirs.iterdir()} == {"chats.db", "chats.db-lock", "chats.db-reserve"}
    assert clew_cli("append", input='{"text": "a"}', env={"CLEW_DB": str(theirs / "other.db")}).code == 0
    assert not any(file.name.startswith(".") for file in theirs.iterdir())
    with pytest.raises(OSError):
        os.getxattr(theirs, "user.com.dropbox.ignored")
    assert not ours.exists()
