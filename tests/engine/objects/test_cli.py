"""Object storage from the command line: by flag, variable and setting."""

from __future__ import annotations

from pathlib import Path

import pytest

import clew
from clew.base.buckets import Bucket
from clew.store.session import delete_session
from tests.cli.conftest import Run, clew_cli, db, surroundings
from tests.engine.objects.server import NodeLocation
from tests.engine.objects.test_outside import LARGE, attached

__all__ = ["clew_cli", "db", "surroundings"]  # fixtures


@pytest.fixture(autouse=True)
def credentials(place: NodeLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the tools of the provider have them."""
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def session(db: str, place: NodeLocation) -> clew.Session:
    """One that shows a blob in the bucket."""
    with clew.open(db, blobs=Bucket(place.url, over=1000)) as store:
        return attached(store)[0]


def test_flag_variable_and_setting(clew_cli: Run, place: NodeLocation, session: clew.Session) -> None:
    """Each says where attachments are; without any of them verify says that it has not read them."""
    done = clew_cli("verify")
    assert (done.code, "1 attachment in object storage not checked" in done.err) == (0, True)
    for how in (["--blobs", place.url], []):
        done = clew_cli("verify", *how, "--json", env={} if how else {"CLEW_BLOBS": place.url})
        assert (done.code, done.json["counts"].get("unread"), done.err) == (0, None, "")
    assert clew_cli("config", "set", "blobs", place.url).code == 0
    place.delete(place.names()[0])
    done = clew_cli("verify", "--json")
    assert (done.code, [one["what"] for one in done.json["damage"]]) == (7, ["blob"])


def test_a_project_does_not_say_where(clew_cli: Run, place: NodeLocation, session: clew.Session) -> None:
    """Whoever wrote it would get the attachments."""
    Path(".clew.toml").write_text(f'blobs = "{place.url}"\n')
    done = clew_cli("verify")
    assert (done.code, "CLEW_BLOBS" in done.err) == (1, True)


def test_purge_and_gc(clew_cli: Run, place: NodeLocation, session: clew.Session) -> None:
    """A purge without the bucket is pending, and says why; gc removes what is left, once it is let."""
    done = clew_cli("purge", "--yes", session.id)
    assert (done.code, "pending" in done.out, "--blobs" in done.out) == (8, True, True)
    assert (clew_cli("doctor").code, clew_cli("gc").code) == (1, 5)
    for dry in (["--dry-run"], []):
        done = clew_cli("gc", "--blobs", place.url, *dry, "--json")
        assert (done.code, done.json["objects"], done.json["bytes"] > len(LARGE)) == (0, 1, True)
    assert place.names() == []
    assert clew_cli("gc", "--blobs", place.url).out == "0 objects (0 bytes) removed\n"
    assert clew_cli("gc").code == 0
    (receipt,) = clew_cli("receipts", "--json").json
    assert (receipt["pending"], receipt["beyond"]) == ([], ["versions", "replicas"])


def test_doctor(clew_cli: Run, db: str, place: NodeLocation, session: clew.Session) -> None:
    """It says whether the bucket is there, and what is left in it."""

    def said(*flags: str) -> dict[str, str]:
        return {one["name"]: one["state"] for one in clew_cli("doctor", "--json", *flags).json}

    assert said()["objects"] == "wrong"
    assert said("--blobs", place.url)["objects"] == "ok"
    assert said("--blobs", f"s3://{place.name}/elsewhere")["objects"] == "wrong"
    with clew.open(db, tidy=False) as store:
        delete_session(store.sessions.get(session.id))
    assert said("--blobs", place.url)["leftovers"] == "note"


def test_copy(clew_cli: Run, db: str, place: NodeLocation, session: clew.Session, tmp_path: Path) -> None:
    """A copy takes them into itself, or into a bucket of its own; not without being told where they are."""
    assert clew_cli("copy", db, str(tmp_path / "none.db")).code == 5
    assert clew_cli("copy", db, str(tmp_path / "two.db"), "--blobs", place.url).code == 0
    there = f"s3://{place.name}/copy"
    done = clew_cli("copy", db, str(tmp_path / "three.db"), "--target-blobs", there, env={"CLEW_BLOBS": place.url})
    assert done.code == 0, done.err
    for name, flags in (("two", []), ("three", ["--blobs", there])):
        done = clew_cli("verify", "--json", "--db", str(tmp_path / f"{name}.db"), *flags)
        assert (done.json["ok"], done.json["counts"].get("unread"), done.err) == (True, None, "")
