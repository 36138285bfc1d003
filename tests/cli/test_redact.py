"""`clew redact --scan`, and `clew append --redact`."""

import json
import os

import pytest

import clew
import clew.store.scan
from clew.records import RecordService
from clew.redaction import Rules, builtin
from clew.snapshots import new_snapshot

from .test_upkeep import damage

CANARY = "ghp_" + "a1B2" * 9
OTHER = "AKIA" + "ABCD2345" * 2


def test_what_is_stored_is_found(clew_cli, talk):
    """Exit 1, counts by rule, session and message; the values are never shown."""
    session = talk("hello", f"it is {CANARY}, and {CANARY}", f"and {OTHER} too", title=f"about {OTHER}")
    done = clew_cli("redact", "--scan")
    assert done.code == 1
    lines = done.out.splitlines()
    assert [line.split() for line in lines[:2]] == [["aws-access-key", "2"], ["github-token", "2"]]
    handles = [node["handle"] for node in clew_cli("show", session, "--jsonl").lines]
    assert any(line.startswith(f"message {handles[1]} in conversation ") and "github-token 2" in line for line in lines)
    assert any(line.startswith(f"session {session}") and "aws-access-key 1" in line for line in lines)
    assert lines[-2:] == [
        "remove them from messages with: clew redact --apply ID, or --apply --all",
        "scanned 3 messages, 1 conversation",
    ]
    found = clew_cli("redact", "--scan", "--json")
    assert found.code == 1
    assert found.json["counts"] == {"aws-access-key": 2, "github-token": 2}
    assert found.json["read"] == {"messages": 3, "sessions": 1, "log entries": 0, "snapshots": 0}
    assert found.json["found"][0]["session"] == session
    assert found.json["found"][0]["findings"] == [{"rule": "github-token", "block": 0, "kind": "text", "count": 2}]
    lines = clew_cli("redact", "--scan", "--jsonl")
    assert (lines.code, lines.lines) == (1, found.json["found"])
    for shown in (done, found, lines):
        assert CANARY not in shown.out + shown.err
        assert OTHER not in shown.out + shown.err


def test_every_corner_is_looked_into(clew_cli, talk, db):
    """Logs, branches, forks, subagents, snapshots, the trash, messages on their own; what is shared counts once."""
    with clew.open(db) as store:
        session = store.sessions.create()
        first = session.append(clew.user(f"one {CANARY}"))
        session.append(clew.user(f"two {CANARY}"))
        session.rewind(first.id)
        session.fork()
        session.log.append([f"log {CANARY}".encode(), b"clean", b"\xff"])
        store.sessions.create(agent="helper", owner=session).append(clew.native("x", json.dumps({"c": CANARY})))
        store.nodes.save(clew.user(CANARY))
        trashed = store.sessions.create(title=CANARY)
        trashed.append(clew.user(CANARY))
        trashed.trash()
        store.snapshots.save(new_snapshot(provider="claude", system_prompt=CANARY, metadata={CANARY: "a"}))
    found = clew_cli("redact", "--scan", "--json").json
    assert found["counts"] == {"github-token": 10}  # a snapshot's system prompt is a message, too
    assert sorted(one["what"] for one in found["found"]) == ["log", *["message"] * 6, "session", "snapshot"]
    assert found["read"] == {"messages": 6, "sessions": 4, "log entries": 3, "snapshots": 1}
    assert clew_cli("redact", "--scan").code == 1


def test_snapshots_of_records_are_looked_into(clew_cli, talk, db):
    """What is said with a snapshot stands beside the messages until it is committed; it is found there."""
    at = "2025-10-21T12:00:00.000Z"
    snapshot = {
        "conversationId": "talk", "sessionId": "s", "lastInteractionAt": at, "updatedAt": at, "pendingMessages": [],
        "summary": {"synopsis": CANARY, "lastUpdatedAt": at, "keywords": []},
    }  # fmt: skip
    with clew.open(db) as store, RecordService(store, redact=False) as service:
        service.commit_snapshot(snapshot)
    (spot,) = clew_cli("redact", "--scan", "--json").json["found"]
    assert spot["what"] == "recovery"
    assert "recovery" in clew_cli("redact", "--scan").out


def test_a_clean_store(clew_cli, talk):
    """Exit 0; personal data counts only if it is asked for."""
    talk("write to ada@example.com")
    done = clew_cli("redact", "--scan")
    assert (done.code, done.out) == (0, "scanned 1 message, 1 conversation\n")
    assert clew_cli("redact", "--scan", "--also", "email", "--json").json["counts"] == {"email": 1}
    assert clew_cli("redact", "--scan", "--also", "name").code == 2


def test_what_cannot_be_read_is_told(clew_cli, talk, db):
    """A damaged message may hold anything: exit 7, and it is named."""
    talk("a", "a secret", "c")
    damage(db)
    done = clew_cli("redact", "--scan")
    assert done.code == 7
    assert "cannot be read and was not scanned" in done.err
    assert len(clew_cli("redact", "--scan", "--json").json["unreadable"]) == 1


def test_how_it_is_asked(clew_cli, db):
    """It scans unless told otherwise; a store that is not there is not made."""
    assert clew_cli("redact").code == clew_cli("redact", "--scan").code == 3
    assert not os.path.exists(db)


def test_append_with_redaction(clew_cli, db):
    """What is found never reaches the store; each line says by which rules."""
    lines = [{"text": "hello"}, {"text": f"{CANARY} ada@example.com"}]
    given = "\n".join(json.dumps(line) for line in lines)
    done = clew_cli("append", "--redact", "--also", "email", "--title", CANARY, input=given)
    assert done.code == 0
    assert [line.get("redacted") for line in done.lines] == [None, ["email", "github-token"]]
    assert CANARY not in done.out + done.err
    with open(db, "rb") as file:
        assert CANARY.encode() not in file.read()
    assert clew_cli("redact", "--scan", "--also", "email").code == 0
    assert clew_cli("append", "--also", "email", input=given).code == 2


@pytest.mark.parametrize("command", [["redact", "--help"], ["append", "--help"]])
def test_help_names_every_kind(clew_cli, command):
    """What can be asked for besides secrets is what there is."""
    from clew.redaction import PERSONAL

    assert f"[{'|'.join(PERSONAL)}]" in clew_cli(*command).out
    assert set(PERSONAL) <= Rules(builtin(*PERSONAL)).ids


def test_the_settings_redact_whatever_is_stored(clew_cli, talk, db, tmp_path, monkeypatch):
    """Every command that stores goes by them; a project cannot switch it off, and who only reads needs no rules."""
    assert clew_cli("config", "set", "redact", "secrets, email").code == 0
    assert clew_cli("config", "show", "--json").json["settings"]["redact"] == "secrets email"
    done = clew_cli("append", "--title", f"T {CANARY}", input=json.dumps({"text": f"x {CANARY} a@example.org"}))
    assert done.lines[0]["redacted"] == ["email", "github-token"]
    session = done.err.split()[1]
    clew_cli("label", session, f"l-{CANARY}")
    clew_cli("fork", session, "--title", f"F {CANARY}")
    clew_cli("run", "--as", "x", f"say {CANARY}")
    (tmp_path / "talk.json").write_bytes(new_snapshot(provider="claude", system_prompt=CANARY).to_json())
    clew_cli("snapshot", "save", "--file", str(tmp_path / "talk.json"))
    with clew.open(db) as store:
        assert len(store.sessions.list(subagents=True).items) == 1
        assert not clew.scan.scan(store, Rules(builtin("email"))).spots
    with open(".clew.toml", "w") as file:
        file.write("redact = 'off'\n")
    refused = clew_cli("append", input='{"text": "b"}')
    assert (refused.code, "could cause your secrets to be stored" in refused.err) == (1, True)
    os.unlink(".clew.toml")
    assert clew_cli("append", input=json.dumps({"text": CANARY}), env={"CLEW_REDACT": "off"}).lines[0].keys() == {"id"}
    assert clew_cli("append", input="", env={"CLEW_REDACT": "most"}).code == 2
    monkeypatch.setattr("clew.cli.setup.open_store.rules", None)
    assert [clew_cli(*args).code for args in (["ls"], ["show", session], ["verify"], ["doctor"])] == [0, 0, 0, 0]


def test_a_secret_is_removed_from_one_message(clew_cli, talk, db, tmp_path):
    """A new version takes its place under the same id, and the old bytes are gone from every file. As for a purge, off
    a terminal it takes --yes."""
    session = talk("hello", f"it is {CANARY}", "and then", title="Keys")
    node = clew_cli("show", session, "--jsonl").lines[1]
    would = clew_cli("redact", "--apply", node["handle"], "--dry-run")
    assert (would.code, f"would remove github-token 1 from message {node['handle']}" in would.out) == (0, True)
    refused = clew_cli("redact", "--apply", node["handle"])
    assert (refused.code, "use --yes to confirm" in refused.err) == (2, True)
    assert clew_cli("redact").code == 1
    done = clew_cli("redact", "--apply", node["handle"], "--yes", "--json").json
    assert (done["message"], done["counts"], done["sessions"]) == (node["id"], {"github-token": 1}, [session])
    (receipt,) = clew_cli("receipts", "--json").json
    assert (receipt["id"], receipt["redacted"]) == (done["receipt"], [session])
    assert "old version of 1 message, 1 conversation" in clew_cli("receipts").out
    texts = [line["text"] for line in clew_cli("show", session, "--jsonl").lines]
    assert [texts[0], texts[2]] == ["hello", "and then"]
    assert CANARY not in texts[1]
    assert clew_cli("redact").code == clew_cli("verify").code == 0
    assert not [file for file in tmp_path.glob("chats.db*") if CANARY.encode() in file.read_bytes()]
    assert "Nothing found" in clew_cli("redact", "--apply", node["handle"], "--yes").err


def test_a_shared_message_is_redacted_everywhere(clew_cli, talk):
    """Forks and branches have the new version; what would change, and what did, names the conversations."""
    session = talk(f"it is {CANARY}", "and then", title="Keys")
    first = clew_cli("show", session, "--jsonl").lines[0]["id"]
    fork = clew_cli("fork", session, "--title", "Other", "--json").json["handle"]
    clew_cli("rewind", session, first)
    clew_cli("append", session, input='{"text": "otherwise"}')
    would = clew_cli("redact", "--apply", first, "--dry-run")
    assert f"  in {fork} (Other)" in would.out and "(Keys)" in would.out
    clew_cli("hold", "add", fork)
    held = clew_cli("redact", "--apply", first, "--yes")
    assert (held.code, "is held" in held.err) == (1, True)
    clew_cli("hold", "release", fork)
    done = clew_cli("redact", "--apply", first, "--yes")
    assert (done.code, f"  in {fork} (Other)" in done.out, "receipt" in done.out) == (0, True, True)
    for one in (session, fork):
        assert CANARY not in clew_cli("show", one).out
    assert clew_cli("redact").code == clew_cli("verify").code == 0


def test_an_unknown_message(clew_cli, talk):
    """It is not found, and the hint says where the IDs are."""
    talk("hello")
    done = clew_cli("redact", "--apply", "zzzzzz", "--yes")
    assert (done.code, "conversation or message" in done.err) == (3, True)


def test_a_part_of_the_store_is_scanned_and_redacted(clew_cli, talk):
    """IDs limit both; --apply needs IDs or --all; and all messages are redacted after one preview."""
    one = talk(f"the key is {OTHER}", f"again {OTHER}", title="One")
    two = talk(f"the key is {OTHER} here", title="Two")
    assert len(clew_cli("redact", one, "--json").json["found"]) == 2
    assert clew_cli("redact", "--apply", "--yes").code == 2
    assert clew_cli("redact", "--all").code == 2
    assert clew_cli("redact", "--apply", "--all", one, "--yes").code == 2
    preview = clew_cli("redact", "--apply", "--all", "--dry-run").out
    assert "from 3 messages" in preview
    assert "One" in preview
    assert "Two" in preview
    assert clew_cli("redact").code == 1
    assert clew_cli("redact", "--apply", two, "--yes").code == 0
    assert OTHER not in clew_cli("show", two).out
    done = clew_cli("redact", "--apply", "--all", "--yes")
    assert (done.code, "removed" in done.out, "from 2 messages" in done.out) == (0, True, True)
    assert clew_cli("redact").code == 0
    assert "Nothing found" in clew_cli("redact", "--apply", "--all", "--yes").err
