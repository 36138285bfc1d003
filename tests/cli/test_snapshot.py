"""Snapshots from the command line: of sessions and of documents, in the store, in folders, in buckets."""

import json
from pathlib import Path

import pytest

import clew
from clew.snapshots import FileStore, new_snapshot

KEY = "00" * 32


@pytest.fixture
def native(talk):
    """A session with a provider's own messages."""
    raw = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": [{"type": "text", "text": "Lint."}]}]
    return talk(*({"provider": "claude", "raw": json.dumps(one)} for one in raw), title="Build")


def test_a_session_is_saved_and_restored(native, clew_cli):
    """save prints an id, ls lists it, show shows it, restore begins a session, rm deletes it."""
    done = clew_cli("snapshot", "save", native, "--system", "Be brief.")
    assert done.code == 0, done.err
    id = done.out.strip()
    listed = clew_cli("snapshot", "ls", "--json").json
    assert [(one["id"], one["provider"], one["message_count"]) for one in listed] == [(id, "claude", 2)]
    table = clew_cli("snapshot", "ls").out
    assert table.startswith(id[:8] + " ")
    assert "2 messages" in table
    shown = clew_cli("snapshot", "show", id[:8])
    assert shown.code == 0
    assert [line for line in shown.out.splitlines() if line] == [
        "# Snapshot", shown.out.splitlines()[1], "## system", "Be brief.", "## user", "Why?", "## assistant", "Lint.",
    ]  # fmt: skip
    again = clew_cli("snapshot", "restore", id[:8], "--title", "Again", "--json").json
    assert (again["title"], again["messages"]) == ("Again", 3)
    assert clew_cli("snapshot", "rm", "--dry-run", id).out.strip() == id
    assert clew_cli("snapshot", "rm", id).out.strip() == id
    assert clew_cli("snapshot", "ls").err == "No snapshots. Create one with: clew snapshot save CONVERSATION\n"
    assert clew_cli("show", again["id"]).code == 0


def test_a_document(clew_cli, tmp_path):
    """What show --json prints, save --file reads, also from stdin; the messages stay byte for byte."""
    snapshot = new_snapshot(provider="claude", messages=b'[ {"role":"user","content":"x","n":1234567890123456789012} ]')
    (tmp_path / "talk.json").write_bytes(snapshot.to_json())
    assert clew_cli("snapshot", "save", "--file", str(tmp_path / "talk.json")).out.strip() == snapshot.id
    printed = clew_cli("snapshot", "show", snapshot.id, "--json").out
    assert printed.encode().strip() == snapshot.to_json()
    assert clew_cli("snapshot", "save", "--file", "-", "--jsonl", input=printed).json["id"] == snapshot.id
    assert clew_cli("snapshot", "save", "--file", "-", input="{}").code == 1


def test_a_folder(native, clew_cli, tmp_path):
    """With --at everything happens in a folder, encrypted if there is a key; only restore needs the store."""
    folder = str(tmp_path / "talks")
    key = {"CLEW_KEY": KEY}
    (tmp_path / "plain.db").touch()
    saved = clew_cli("snapshot", "save", native, "--at", folder)
    id = saved.out.strip()
    assert FileStore(folder).load(id).message_count == 2
    assert clew_cli("snapshot", "ls").out == ""
    document = clew_cli("snapshot", "show", id, "--at", folder, "--json").out
    sealed = str(tmp_path / "sealed")
    assert clew_cli("snapshot", "save", "--file", "-", "--at", sealed, input=document, env=key).code == 0
    assert clew_cli("snapshot", "ls", "--at", sealed).code == 6
    assert clew_cli("snapshot", "ls", "--at", sealed, "--jsonl", env=key).json["id"] == id
    assert clew_cli("snapshot", "ls", "--at", sealed, env={"CLEW_PASSPHRASE": "words"}).code == 6
    again = clew_cli("snapshot", "restore", id[:10], "--at", folder)
    assert again.code == 0, again.err
    assert "Lint." in clew_cli("show", again.out.strip()).out
    assert clew_cli("snapshot", "ls").out == ""
    assert clew_cli("snapshot", "rm", id, "--at", folder, "--json").json == [{"asked": id, "ok": True, "snapshot": id}]
    assert FileStore(folder).list() == []


def test_a_purge(native, clew_cli, db, tmp_path):
    """With --purge no trace is left in the store's files, and there is a receipt; elsewhere it is a usage error."""
    document = new_snapshot(provider="claude", system_prompt="canary", messages=b'["a canary"]')
    assert clew_cli("snapshot", "save", "--file", "-", input=document.to_json().decode()).code == 0
    done = clew_cli("snapshot", "rm", "--purge", document.id)
    assert (done.code, done.out.strip()) == (0, document.id)
    assert clew_cli("receipts", "--json").json[0]["sessions"] == [document.id]
    assert b"canary" not in b"".join(path.read_bytes() for path in Path(db).parent.glob("*.db*"))
    assert clew_cli("snapshot", "rm", "--purge", document.id, "--at", str(tmp_path)).code == 2


def test_what_a_list_passes_over_is_told(clew_cli, tmp_path):
    """A damaged snapshot, or one that is not encrypted where there is a key, is named on stderr."""
    folder, snapshot = tmp_path / "talks", new_snapshot(provider="claude")
    FileStore(folder).save(snapshot)
    (folder / "notes.txt").write_text("")
    for at in (str(folder), f"file://{folder}"):
        told = clew_cli("snapshot", "ls", "--at", at, env={"CLEW_KEY": KEY})
        assert (told.code, told.out) == (0, "")
        assert f"snapshot {snapshot.id} is skipped" in told.err
        assert "it is not encrypted, and the store has a key" in told.err
        assert "notes" not in told.err
        assert "skipped" not in clew_cli("snapshot", "ls", "--at", at).err


def test_a_bucket(clew_cli, tmp_path):
    """A URL names a bucket."""
    url = f"file://{tmp_path}/bucket"
    snapshot = new_snapshot(provider="claude")
    document = snapshot.to_json().decode()
    assert clew_cli("snapshot", "save", "--file", "-", "--at", url, input=document).code == 0
    assert clew_cli("snapshot", "ls", "--at", url, "--jsonl").json["id"] == snapshot.id
    assert clew_cli("snapshot", "ls", "--at", "ftp://x/y").code == 1


def test_ids(clew_cli, db):
    """The first digits are enough if they mean one snapshot; else the exit code tells."""
    with clew.open(db) as store:
        for digit in "01":
            store.snapshots.save(
                new_snapshot(provider="claude").replace(id=f"7d444840-9dc0-41d1-b245-5ffdce74fad{digit}")
            )
    assert clew_cli("snapshot", "show", "7d4").code == 4
    assert clew_cli("snapshot", "show", "8").code == 3
    assert clew_cli("snapshot", "show", "").code == 3
    assert clew_cli("snapshot", "show", "00000000-0000-0000-0000-000000000000").code == 3
    first, second = clew_cli("snapshot", "ls").out.splitlines()
    assert {first.split()[0], second.split()[0]} == {f"7d444840-9dc0-41d1-b245-5ffdce74fad{digit}" for digit in "01"}
    assert clew_cli("snapshot", "rm", "--dry-run", "00000000-0000-0000-0000-000000000000").code == 3
    done = clew_cli("snapshot", "rm", first.split()[0], "nothing", "--jsonl")
    assert done.code == 8
    assert [line["ok"] for line in done.lines] == [True, False]
    assert "clew snapshot ls" in done.err


def test_usage(clew_cli, native):
    """A session or a file, one of them; a session of several providers is refused."""
    assert clew_cli("snapshot", "save").code == 2
    assert clew_cli("snapshot", "save", native, "--file", "-", input="{}").code == 2
    assert clew_cli("snapshot").code == 2
    assert clew_cli("append", native, input='{"text": "neutral"}').code == 0
    refused = clew_cli("snapshot", "save", native)
    assert (refused.code, "for example, --to claude" in refused.err) == (1, True)
    assert clew_cli("snapshot", "save", native, "--to", "claude").code == 0


def test_what_is_no_message(clew_cli):
    """A snapshot of an unknown provider shows what can be shown; a neutral one shows as a session does."""
    snapshot = new_snapshot(provider="other", messages=b'[1,{"role":"user","content":{"a":1}}]')
    clew_cli("snapshot", "save", "--file", "-", input=snapshot.to_json())
    shown = clew_cli("snapshot", "show", snapshot.id)
    assert shown.code == 0
    assert "[message]" in shown.out


def test_a_neutral_session(clew_cli, talk):
    """Messages in clew's own form can be saved, shown and restored, too."""
    id = clew_cli("snapshot", "save", talk("Hello")).out.strip()
    assert "Hello" in clew_cli("snapshot", "show", id).out
    again = clew_cli("snapshot", "restore", id).out.strip()
    assert "Hello" in clew_cli("show", again).out


def test_a_restored_conversation_is_named_by_its_first_prompt(native, clew_cli):
    """So that lists do not show it as untitled."""
    id = clew_cli("snapshot", "save", native).out.strip()
    assert clew_cli("snapshot", "restore", id, "--json").json["title"] == "Why?"
