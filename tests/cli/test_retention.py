"""`clew retention preview | sweep | set`, and `clew audit`."""

import getpass
import os
import sqlite3
import subprocess
import sys
import time

import pytest

import clew
from clew.retention import Policy, get_policy
from clew.testing import FakeClock
from tests.reliability.tools import need


@pytest.fixture
def aged(db):
    """Makes sessions that were last active so many days ago; returns their ids."""

    def make(*days, **settings):
        made = []
        for number, ago in enumerate(days):
            clock = FakeClock(int((time.time() - ago * 86_400) * 1e6))
            with clew.open(db, clock=clock, **settings) as store:
                session = store.sessions.create(title=f"title {number}")
                session.append(clew.user("words"))
                made.append(session.id)
        return made

    return make


def test_a_policy_is_set_and_swept_by(clew_cli, aged, db):
    """set keeps the days in the store; preview and sweep need no flags then; what went is printed by id."""
    old, new = aged(20, 3)
    done = clew_cli("retention", "set", "--days", "14")
    assert (done.code, done.out) == (0, "14 days after the last activity, 30 days in the trash\n")
    assert clew_cli("retention", "set", "--trash-days", "10", "--json").json == {
        "days": 14, "trash_days": 10, "records": None,
    }  # fmt: skip
    with clew.open(db) as store:
        assert get_policy(store) == Policy(14, 10)
    shown = clew_cli("retention", "preview")
    assert shown.code == 0
    assert f"{old}  " in shown.out
    assert "title 0  inactive too long" in shown.out
    assert shown.out.endswith("would purge 1 of 2 conversations, with 1 message\n")
    assert [one["session"] for one in clew_cli("retention", "preview", "--jsonl").lines] == [old]
    swept = clew_cli("retention", "sweep")
    assert (swept.code, swept.out.split()) == (0, [old])
    assert "purged 1 of 2 conversations" in swept.err
    assert [one["id"] for one in clew_cli("ls", "--jsonl").lines] == [new]
    assert clew_cli("retention", "sweep").out == ""


def test_without_a_policy_nothing_is_swept(clew_cli, aged):
    """A sweep is by days that are stored: no other, and no default. A preview may try others."""
    (old,) = aged(40)
    for words in (["sweep"], ["sweep", "--dry-run"], ["sweep", "--force"]):
        refused = clew_cli("retention", *words)
        assert (refused.code, refused.out) == (1, "")
        assert "no retention is set" in refused.err
        assert "clew retention set --days 30" in refused.err
    shown = clew_cli("retention", "preview")
    assert (shown.code, shown.out) == (0, "would purge 0 of 1 conversation, with 0 messages\n")
    assert "No retention is set, so nothing expires." in shown.err
    assert clew_cli("retention", "preview", "--days", "30", "--json").json["going"][0]["session"] == old
    assert clew_cli("retention", "preview", "--days", "60", "--json").json["going"] == []
    assert clew_cli("retention", "sweep").code == 1
    clew_cli("retention", "set", "--days", "30")
    assert clew_cli("retention", "sweep", "--jsonl").lines == [{"session": old}]


def test_days_may_be_any_number_or_none(clew_cli, aged, db):
    """A store-wide policy is any number of days, or no limit; records have their own, of 7 to 180."""
    (old,) = aged(400)
    assert clew_cli("retention", "set", "--days", "1000").out.startswith("1,000 days after")
    assert clew_cli("retention", "sweep").out == ""
    done = clew_cli("retention", "set", "--forever", "--record-days", "30")
    assert done.out == "no limit, no limit in the trash, records 30 days\n"
    with clew.open(db) as store:
        assert get_policy(store) == Policy(None, None, records=30)
    assert clew_cli("retention", "sweep", "--force").out == ""
    assert clew_cli("retention", "set", "--days", "1").code == 0
    assert clew_cli("retention", "sweep", "--force").out.split() == [old]


def test_a_dry_run_changes_nothing(clew_cli, aged, db):
    """sweep --dry-run shows what preview shows, and leaves the store as it is."""
    old, _ = aged(40, 1)
    clew_cli("retention", "set", "--days", "30")
    dump = list(sqlite3.connect(db).iterdump())
    done = clew_cli("retention", "sweep", "--dry-run", "--json")
    assert done.code == 0
    assert [one["session"] for one in done.json["going"]] == [old]
    assert clew_cli("retention", "preview", "--days", "30").code == 0
    assert list(sqlite3.connect(db).iterdump()) == dump


def test_it_stops_and_asks(clew_cli, aged):
    """Too large a share, or a clock that seems wrong: exit 1, both counts, nothing gone; --force goes on."""
    ids = aged(*[20] * 11)
    clew_cli("retention", "set", "--days", "14")
    for flags in ([], ["--dry-run"]):
        done = clew_cli("retention", "sweep", *flags)
        assert (done.code, done.out) == (1, "")
        assert "would remove 11 of 11 sessions" in done.err
        assert "force" in done.err
    shown = clew_cli("retention", "preview", "--days", "14")
    assert shown.code == 0
    assert "A sweep would stop and require --force: that is more than 50%." in shown.err
    assert len(clew_cli("retention", "sweep", "--force", "--dry-run", "--jsonl").lines) == 11
    assert set(clew_cli("retention", "sweep", "--force").out.split()) == set(ids)


def test_what_stays_is_told(clew_cli, aged, db):
    """Holds and forks are named in the preview, by the one who keeps it."""
    old, held, owner = aged(40, 40, 40)
    with clew.open(db) as store:
        fork = store.sessions.fork(old)
        ago = FakeClock(int(store.sessions.get(old).updated_at.timestamp() * 1e6))
    with clew.open(db, clock=ago) as store:
        trace = store.sessions.create(agent="a", owner=store.sessions.get(owner)).id
    clew_cli("hold", "add", trace, held)
    clew_cli("retention", "set", "--days", "30")
    done = clew_cli("retention", "preview")
    assert f"kept 1 message of {old}: shared with {fork.id}" in done.out
    assert f"{held}  kept: it is on hold" in done.out
    assert f"{owner}  kept: its {trace} is on hold" in done.out
    spared = clew_cli("retention", "preview", "--json").json["spared"]
    assert spared == [
        {"session": held, "why": "hold", "by": held},
        {"session": owner, "why": "hold", "by": trace},
    ]
    swept = clew_cli("retention", "sweep", "--json")
    assert swept.json["sessions"] == [old]
    assert swept.json["spared"] == spared
    assert (swept.json["messages"], swept.json["failures"], swept.json["pending"]) == (0, [], [])


def test_a_session_gets_its_own(clew_cli, talk):
    """Named sessions get days, a moment, or the store's days again; all of them, or none."""
    one, two = talk("a"), talk("b")
    done = clew_cli("retention", "set", one, two, "--days", "180")
    assert (done.code, done.out.split()) == (0, [one, two])
    assert "or longer if it is continued" in done.err
    kept = clew_cli("retention", "set", one, "--until", "2090-12-31", "--json").json
    assert kept[0]["expires_at"] == "2091-01-01T00:00:00.000000Z"
    assert clew_cli("retention", "set", one, "--default", "--jsonl").lines[0]["expires_at"] is None
    assert "as long as the others" in clew_cli("retention", "set", one, "--default").err
    assert "is kept until 2091-01-01 00:00\n" in clew_cli("retention", "set", one, "--until", "2090-12-31").err
    assert clew_cli("retention", "set", two, "zzzzzz", "--default").code == 3
    assert clew_cli("show", two, "--json").json["session"]["expires_at"] is not None


@pytest.mark.parametrize(
    "words",
    [
        ["set"], ["set", "--days", "0"], ["set", "--days", "36501"], ["set", "--trash-days", "0"], ["set", "--default"],
        ["set", "--record-days", "6"], ["set", "--record-days", "181"], ["set", "--forever", "--days", "9"],
        ["set", "x", "--forever"], ["set", "x", "--record-days", "7"],
        ["set", "--until", "2090-01-01"], ["set", "x", "--days", "7", "--default"], ["set", "x"],
        ["set", "x", "--trash-days", "7"], ["set", "x", "--until", "2d"], ["set", "x", "--until", "2020-01-01"],
        ["sweep", "--days", "30"], ["preview", "--days", "x"], ["none"], [],
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_a_usage_error(clew_cli, talk, words):
    """Out of range, two at once, or a moment that is past: exit 2, and nothing is changed."""
    session = talk("a")
    assert clew_cli("retention", *(session if word == "x" and words[0] == "set" else word for word in words)).code == 2
    assert clew_cli("audit").out == ""


def test_one_that_cannot_go_is_told(clew_cli, aged, monkeypatch):
    """Exit 8 if some went, 1 if none did; the rest is told on stderr."""
    from clew.engine import deletion

    one, two = aged(40, 40)
    real = deletion.delete_ref

    def failing(engine, tx, ref, **settings):
        if clew.base.ids.text(ref.key) == two:
            raise clew.Unavailable("the disk failed")
        return real(engine, tx, ref, **settings)

    monkeypatch.setattr(deletion, "delete_ref", failing)
    clew_cli("retention", "set", "--days", "30")
    assert f"cannot purge  {two}: the disk failed" in clew_cli("retention", "preview").out
    done = clew_cli("retention", "sweep")
    assert (done.code, done.out.split()) == (8, [one])
    assert f"conversation {two} was not purged: the disk failed" in done.err
    assert clew_cli("retention", "sweep").code == 1


def test_traces_that_are_left_are_told(clew_cli, aged, db):
    """A reader that is in the way of clearing them is told of, and the session is gone all the same."""
    (old,) = aged(40)
    clew_cli("retention", "set", "--days", "30")
    reader = sqlite3.connect(db, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM nodes").fetchone()
    done = clew_cli("retention", "sweep")
    reader.close()
    assert (done.code, done.out.split()) == (0, [old])
    assert "left: traces in the write-ahead log" in done.err


def test_the_audit_is_shown(clew_cli, aged, talk):
    """What was done, by which user of the system, as lines or as JSON; by kind and by time."""
    (old,) = aged(40)
    session = talk("a")
    assert (clew_cli("audit").out, clew_cli("audit").err) == ("", "The audit log is empty.\n")
    clew_cli("hold", "add", session, "--reason", "secret")
    clew_cli("retention", "set", "--days", "30")
    clew_cli("retention", "sweep")
    lines = clew_cli("audit").out.splitlines()
    assert [line.split()[2:4] for line in lines[:3]] == [["hold", session], ["retention", "policy"], ["purge", old]]
    assert "retention-expired" in lines[2]
    deeds = clew_cli("audit", "--json").json
    assert [deed["kind"] for deed in deeds] == ["hold", "retention", "purge", "sweep"]
    assert {deed["actor"] for deed in deeds} == {getpass.getuser()}
    assert "secret" not in clew_cli("audit", "--json").out
    assert [deed["subject"] for deed in clew_cli("audit", "--kind", "purge", "--jsonl").lines] == [old]
    assert clew_cli("audit", "--until", "1d", "--jsonl").lines == []
    assert len(clew_cli("audit", "--since", "1d", "--jsonl").lines) == 4
    assert clew_cli("audit", "--kind", "No").code == 1


@pytest.mark.parametrize("user", [KeyError("uid 4711"), "bad\nname", "x" * 200])
def test_a_user_without_a_name_is_nobody(clew_cli, talk, monkeypatch, user):
    """Where the system has no name for the user, or none that can be shown, the deed is noted without one."""

    def getuser():
        if isinstance(user, Exception):
            raise user
        return user

    monkeypatch.setattr(getpass, "getuser", getuser)
    clew_cli("hold", "add", talk("a"))
    assert [deed["actor"] for deed in clew_cli("audit", "--json").json] == [None]
    assert clew_cli("audit").out.split()[-1] == "-"


@pytest.mark.parametrize("words", [["retention", "preview"], ["retention", "sweep"], ["audit"]])
def test_a_store_that_is_not_there_is_not_made(clew_cli, tmp_path, words):
    """There is nothing to sweep in a store that is not there."""
    assert clew_cli(*words, "--db", str(tmp_path / "no.db")).code == 3
    assert not (tmp_path / "no.db").exists()


def test_the_program_under_another_clock(program, talk, db):
    """P14, as people meet it: `clew retention sweep` on a machine whose clock is fifteen days, or ten years, ahead."""
    session = talk("a")

    def at(offset, *words):
        command = [need("faketime"), "-f", offset, sys.executable, "-m", "clew", "retention", *words]
        return subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=60, check=False)

    assert program("retention", "set", "--days", "14").code == 0
    far = at("+3650d", "sweep")
    assert (far.returncode, far.stdout) == (1, "")
    assert "days ago" in far.stderr
    later = at("+15d", "sweep")
    assert (later.returncode, later.stdout.split()) == (0, [session])
