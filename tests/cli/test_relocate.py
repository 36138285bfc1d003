"""`clew relocate`."""

from __future__ import annotations

from pathlib import Path

import clew
from clew import agents
from clew.checkpoints import Checkpoints
from tests.cli.conftest import Run


def places(db: str) -> dict[str | None, str | None]:
    with clew.open(db) as store:
        return {session.title: session.cwd for session in store.sessions.list().items}


def test_a_moved_project_keeps_its_history(clew_cli: Run, db: str) -> None:
    """Its sessions and those below it go along, subagents' too; others, also with a like name, stay."""
    with clew.open(db) as store:
        for cwd in ("/src/app", "/src/app/lib", "/src/apple", "/src", None):
            store.sessions.create(title=str(cwd), cwd=cwd)
        owner = store.sessions.create(title="owner", cwd="/src/app")
        trace = store.sessions.create(agent="x", owner=owner, cwd="/src/app")
        times = {session.title: session.updated_at for session in store.sessions.list().items}
        order = [session.id for session in store.sessions.list().items]
    would = clew_cli("relocate", "/src/app", "/work/new", "--dry-run", "--json").json["sessions"]
    assert places(db)["/src/app"] == "/src/app"
    done = clew_cli("relocate", "/src/app/", "/work/new")
    assert (done.code, "4 conversations moved to /work/new" in done.err) == (0, True)
    assert [line.split()[0] for line in done.out.splitlines()] == [one["id"] for one in would]
    assert places(db) == {
        "/src/app": "/work/new", "/src/app/lib": "/work/new/lib", "/src/apple": "/src/apple", "/src": "/src",
        "None": None, "owner": "/work/new",
    }  # fmt: skip
    with clew.open(db) as store:
        assert store.sessions.latest(cwd="/work/new").title == "owner"
        assert store.sessions.get(trace.id).cwd == "/work/new"
        assert {session.title: session.updated_at for session in store.sessions.list().items} == times
        assert [session.id for session in store.sessions.list().items] == order
        assert store.verify().ok
    assert clew_cli("relocate", "/src/app", "/work/new").code == 3
    assert clew_cli("relocate", "/src", "/src/").code == 2


def test_what_an_agent_remembers_comes_along(clew_cli: Run, db: str) -> None:
    """The memory of the project, and the project that its sessions say they are of."""
    with agents.open(db) as sessions:
        made = sessions.create(cwd="/src/app")
        made.append_and_save(clew.user("hello"))
        sessions.memory("/src/app").write("use make")
    assert clew_cli("relocate", "/src/app", "/work/app").code == 0
    with agents.open(db) as sessions:
        assert sessions.memory("/work/app").read() == "use make"
        assert sessions.memory("/src/app").read() == ""
        found = sessions.load_latest("/work/app")
        assert (found.id, found.metadata.project_hash) == (made.id, agents.project_hash("/work/app"))


def test_many_sessions_in_one_go(clew_cli: Run, db: str) -> None:
    """More than a page of them, and each once."""
    with clew.open(db, durability="relaxed") as store, store.transaction():
        for _ in range(1100):
            store.sessions.create(cwd="/src/app")
    assert len(clew_cli("relocate", "/src/app", "/w", "--jsonl").lines) == 1100
    with clew.open(db) as store:
        assert store.sessions.list(limit=1, cwd="/w", total=True).total == 1100


def test_checkpoints_follow_a_moved_project(clew_cli: Run, db: str, tmp_path: Path) -> None:
    """Those of the project and of a folder in it are found in the new place, by a fork too, and files go back."""
    old, new, third = (tmp_path / name for name in ("old", "new", "third"))
    (old / "lib").mkdir(parents=True)
    (old / "a").write_text("one")
    (old / "lib" / "b").write_text("one")
    with clew.open(db) as store:
        session = store.sessions.create(cwd=str(old))
        message = session.append(clew.user("go")).id
        for root, name in ((old / "lib", "b"), (old, "a")):
            with Checkpoints(session, root).guard(message):
                (root / name).write_text("two")
    for before, after in ((old, new), (new, third), (third, old)):
        before.rename(after)
        assert clew_cli("relocate", str(before), str(after)).code == 0
        with clew.open(db) as store:
            session = store.sessions.get(session.id)
            assert session.cwd == str(after)
            for one, root in ((session, after), (session.fork(), after), (session, after / "lib")):
                assert message in [kept.message for kept in Checkpoints(one, root).list()]
            assert Checkpoints(session, after).rewind(message).can_rewind
            assert (after / "a").read_text() == "one"
            assert Checkpoints(session, after).undo().can_rewind
            assert (after / "a").read_text() == "two"
            store.verify()
