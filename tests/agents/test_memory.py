"""The memory of a project, independent of its sessions."""

from __future__ import annotations

from datetime import timedelta

import pytest

import clew
from clew import agents
from clew.agents.memory import LIMIT
from clew.agents.store import store_of
from clew.testing import FakeClock

DAY = timedelta(days=1)


def test_a_memory_is_kept_for_each_project(sessions):
    """It is empty at first, is written over, and belongs to one directory."""
    memory = sessions.memory("/src/app")
    assert (memory.read(), memory.version()) == ("", 0)
    assert memory.write("# One\n") == 1
    assert memory.write("# Two\n", expect=1) == 2
    with pytest.raises(clew.Conflict):
        memory.write("# Three\n", expect=1)
    assert sessions.memory("/src/app/").read() == "# Two\n"
    assert sessions.memory("/src").read() == ""
    with pytest.raises(clew.Invalid):
        memory.write("x" * LIMIT)
    with pytest.raises(clew.Invalid):
        memory.write(b"x")
    assert store_of(sessions).verify().ok


@pytest.mark.checklist("B1", "B33")
def test_nothing_that_clears_up_touches_it(tmp_path, root):
    """Cleanup, purge of everything and a rebuilt mirror leave it where it is, in the store and in the file."""
    clock = FakeClock()
    with agents.open(tmp_path / "s.db", mirror=root, clock=clock) as sessions:
        sessions.memory("/src").write("keep me")
        assert sessions.mirror is not None
        file = root / agents.project_hash("/src") / "memory" / "summary.md"
        old, held = sessions.create(cwd="/src"), sessions.create(cwd="/src")
        old.append_and_save(clew.user("old words"))
        held.conversation.hold("a court")
        clock.advance(29 * DAY)
        young = sessions.create(cwd="/src")
        assert sessions.cleanup().deleted == ()
        clock.advance(2 * DAY)
        would = sessions.cleanup(dry_run=True)
        assert would.deleted == (old.id,)
        assert sessions.load(old.id).messages
        done = sessions.cleanup()
        assert (done.deleted, [id for id, _ in done.failures]) == ((old.id,), [held.id])
        assert done.bytes_freed == would.bytes_freed > 0
        assert {one.id for one in sessions.list()} == {held.id, young.id}
        assert {one.name for one in root.glob("*/sessions/*")} == {held.id, young.id}
        held.conversation.release()
        sessions.cleanup(older_than=timedelta(0))
        store_of(sessions).sessions.purge(everything=True)
        sessions.rebuild_mirror()
        assert sessions.list() == []
        assert sessions.memory("/src").read() == file.read_text() == "keep me"
        assert file.stat().st_mode & 0o777 == 0o600


def test_a_file_that_someone_has_edited_is_not_lost(mirrored, root):
    """The store's text replaces an edited file, which is moved aside every time."""
    memory = mirrored.memory("/src")
    memory.write("one")
    mirrored.flush()
    file = root / memory.project / "memory" / "summary.md"
    for number in (1, 2):
        file.write_text(f"edited by hand {number}")
        memory.write(f"two {number}")
        mirrored.flush()
        assert file.read_text() == f"two {number}"
        assert (file.parent / f"summary.edited-{number}.md").read_text() == f"edited by hand {number}"
    memory.write("three")
    mirrored.flush()
    assert len(list(file.parent.glob("summary*.md"))) == 3


def test_a_sealed_store_does_not_tell_which_projects_it_has(tmp_path):
    """The files reveal neither the text nor the project, not even by hashing directories."""
    key = clew.keys.generate()
    with agents.open(tmp_path / "s.db", key=key) as sessions:
        sessions.memory("/src/orchard").write("zephyr words")
        sessions.create(cwd="/src/orchard").append_event({"type": "zephyr"})
    raw = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    project = agents.project_hash("/src/orchard")
    for word in (b"zephyr", b"orchard", project.encode(), bytes.fromhex(project)):
        assert word not in raw
    with agents.open(tmp_path / "s.db", key=key) as sessions:
        assert sessions.memory("/src/orchard").read() == "zephyr words"
        store_of(sessions).rotate(clew.keys.generate(), deep=True)
        assert sessions.memory("/src/orchard").read() == "zephyr words"
        assert store_of(sessions).verify().ok
