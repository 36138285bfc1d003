"""`clew append`: what is acknowledged is stored, and what is not understood is said."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.cli.commands import append as module


def stored(db, session):
    with clew.open(db, create=False) as store:
        return [node.text for node in store.sessions.get(session).path()]


def test_a_first_line_begins_a_session(clew_cli, db):
    """Without a session the first message makes one, named on stderr; stdout has the ids of the messages alone."""
    done = clew_cli(
        "append",
        "--title",
        "Words",
        "--label",
        "a",
        "--label",
        "b",
        "--cwd",
        "/src/app/",
        input='{"text": "one"}\n{"text": "two"}\n',
    )
    assert done.code == 0
    assert all(list(line) == ["id"] for line in done.lines)
    with clew.open(db) as store:
        session = store.sessions.get(done.err.split()[1])
        assert (session.title, session.cwd, session.labels) == ("Words", "/src/app", ("a", "b"))
        assert [node.id for node in session.path()] == [line["id"] for line in done.lines]
        assert [node.role for node in session.path()] == ["user", "user"]


def test_a_new_session_belongs_to_the_current_directory(clew_cli, db, tmp_path, monkeypatch):
    """The directory is the current one unless another is named."""
    monkeypatch.chdir(tmp_path)
    clew_cli("append", input='{"text": "one"}')
    with clew.open(db) as store:
        assert store.sessions.latest().cwd == str(tmp_path)


def test_nothing_in_makes_nothing(clew_cli, db):
    """Empty input and blank lines leave no empty session behind."""
    done = clew_cli("append", input="\n  \n")
    assert (done.code, done.out) == (0, "")
    assert clew_cli("ls", "--json").json["sessions"] == []


def test_a_session_is_continued_by_its_handle(clew_cli, db, talk):
    """A handle is enough to go on."""
    session = talk("one")
    handle = clew_cli("ls", "--json").json["sessions"][0]["handle"]
    assert clew_cli("append", handle, "--role", "assistant", input='{"text": "two"}').code == 0
    assert stored(db, session) == ["one", "two"]


def test_every_field_of_a_message_is_kept(clew_cli, db):
    """Blocks, model, usage, label, extra, id and time come back as they were given."""
    line = {
        "id": "0192f0c1-2345-7abc-8def-0123456789ab",
        "created_at": "2024-01-15T10:30:00+01:00",
        "role": "assistant",
        "blocks": [
            {"type": "thinking", "text": "hm", "signature": "s"},
            {"type": "text", "text": "Hi"},
            {"type": "tool_call", "id": "c", "name": "run", "arguments": {"n": 12345678901234567890123}},
        ],
        "model": "m",
        "usage": {"input": 3, "output": 4},
        "label": "l",
        "extra": {"k": [1, None]},
    }
    done = clew_cli("append", input=json.dumps(line))
    assert done.lines == [{"id": line["id"]}]
    shown = clew_cli("show", line["id"], "--jsonl").lines[0]
    assert shown["created_at"] == "2024-01-15T09:30:00.000000Z"
    for name in line.keys() - {"created_at"}:
        assert shown[name] == line[name], name


def test_a_native_message_is_kept_byte_for_byte(clew_cli, db):
    """The provider's JSON arrives as text and comes back with every byte."""
    raw = '{ "content":"Ciao",  "role":"assistant", "n": 1.0e2, "x":12345678901234567890123}'
    clew_cli("append", input=json.dumps({"provider": "anthropic", "raw": raw}))
    with clew.open(db) as store:
        node = store.sessions.latest().path()[0]
        assert node.native == clew.native("anthropic", raw)
        assert (node.role, node.text) == ("assistant", "Ciao")


def test_what_show_writes_append_reads(clew_cli, db, talk):
    """A session copied through a pipe says the same."""
    session = talk(
        "one",
        {"role": "assistant", "text": "two", "model": "m"},
        {"provider": "openai", "raw": '{"role":"user","content":"three"}'},
    )
    lines = [
        json.dumps({k: v for k, v in line.items() if k != "id"}) for line in clew_cli("show", session, "--jsonl").lines
    ]
    copy = clew_cli("append", input="\n".join(lines)).err.split()[1]
    assert stored(db, copy) == stored(db, session) == ["one", "two", "three"]


def test_the_same_id_again_is_stored_once(clew_cli, db):
    """A repeated line is acknowledged again and changes nothing; other words under its id are refused."""
    line = json.dumps({"id": "0192f0c1-2345-7abc-8def-0123456789ab", "text": "one"})
    session = clew_cli("append", input=line).err.split()[1]
    again = clew_cli("append", session, input=line)
    assert again.lines == [{"id": "0192f0c1-2345-7abc-8def-0123456789ab"}]
    other = clew_cli("append", session, input=line.replace("one", "two"))
    assert (other.code, other.out) == (1, "")
    assert "line 1" in other.err
    assert stored(db, session) == ["one"]


BAD: dict[str, str | bytes] = {
    "not json": "{oops",
    "cut short": '{"text": "one',
    "not an object": "[1]",
    "a word": "hello",
    "unknown field": '{"txt": "a"}',
    "unknown role": '{"role": "robot", "text": "a"}',
    "no content": '{"role": "user"}',
    "wrong type": '{"text": 1}',
    "unknown block": '{"blocks": [{"type": "hologram"}]}',
    "text beside blocks": '{"text": "a", "blocks": [{"type": "text", "text": "b"}]}',
    "lone surrogate": '{"text": "\\ud800"}',
    "NUL": '{"text": "a\\u0000b"}',
    "NaN": '{"text": "a", "extra": {"x": NaN}}',
    "bad id": '{"text": "a", "id": "seven"}',
    "bad time": '{"text": "a", "created_at": "yesterday"}',
    "time without zone": '{"text": "a", "created_at": "2024-01-15T10:30:00"}',
    "half native": '{"provider": "anthropic"}',
    "native not json": '{"provider": "anthropic", "raw": "{"}',
    "native with blocks": '{"provider": "a", "raw": "{}", "blocks": []}',
    "too deep": '{"text": "a", "extra": ' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}",
    "not utf-8": b'{"text": "\xff"}',
    "no such blob": '{"blocks": [{"type": "media", "mime_type": "image/png", "modality": "image", "blob": "00"}]}',
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_line_is_named_and_the_lines_before_it_stay(what, clew_cli, db):
    """The error names the line, nothing of it is stored, and what came before is."""
    line = BAD[what]
    bad = line if isinstance(line, bytes) else line.encode()
    done = clew_cli("append", input=b'{"text": "good"}\n\n' + bad + b'\n{"text": "never read"}\n')
    assert done.code == (3 if what == "no such blob" else 1), done.err
    assert len(done.lines) == 1
    session, error = done.err.splitlines()[:2]
    assert error.startswith("clew: line 3")
    assert "Traceback" not in done.err
    assert len(done.err) < 500
    assert stored(db, session.split()[1]) == ["good"]


def test_a_bad_first_line_leaves_no_session(clew_cli, db):
    """A session is made together with its first message, or not at all."""
    assert clew_cli("append", input='{"text": "a", "id": "seven"}').code == 1
    assert clew_cli("ls", "--json").json["sessions"] == []


def test_a_line_without_end_is_refused(clew_cli, db, monkeypatch):
    """A line is held in memory, so it has a limit."""
    monkeypatch.setattr(module, "LONGEST", 1000)
    done = clew_cli("append", input=b'{"text": "good"}\n{"text": "' + b"x" * 5000 + b'"}\n')
    assert (done.code, len(done.lines)) == (1, 1)
    assert "line 2 is longer" in done.err


def test_usage_is_told_apart_from_failure(clew_cli, db, talk):
    """What describes a new session does not go with an old one; an unknown session is not found."""
    session = talk("one")
    for flag in ("--title", "--cwd", "--label"):
        assert clew_cli("append", session, flag, "x", input="").code == 2
    assert clew_cli("append", "--role", "robot", input="").code == 2
    assert clew_cli("append", "zzzzzz", input="").code == 3


def start(db: str, *args: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "clew", "append", *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_an_acknowledged_message_survives_kill_9(db):
    """Once its id line can be read, a message is there whatever happens; lines are taken as they come."""
    with start(db) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stderr is not None
        for number in range(5):
            writer.stdin.write(b'{"text": "message %d"}\n' % number)
            writer.stdin.flush()
            id = json.loads(writer.stdout.readline())["id"]
            with clew.open(db, create=False) as store:
                assert store.nodes.get(id)[0].text == f"message {number}"
        writer.kill()
        assert writer.wait() == -signal.SIGKILL
    with clew.open(db, create=False) as store:
        assert [node.text for node in store.sessions.latest().path()] == [f"message {number}" for number in range(5)]


def test_interrupted_is_130(db):
    """Ctrl-C ends it without a word and with the code shells know."""
    with start(db) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stderr is not None
        writer.stdin.write(b'{"text": "one"}\n')
        writer.stdin.flush()
        writer.stdout.readline()
        writer.send_signal(signal.SIGINT)
        assert writer.wait(timeout=20) == 130
        assert b"Traceback" not in writer.stderr.read()


def test_the_default_store_is_for_its_owner_alone(program, tmp_path: Path):
    """Without --db and CLEW_DB the store is in the data folder, which nobody else may enter."""
    done = program("append", input=b'{"text": "one"}', env={"CLEW_DB": ""})
    assert done.code == 0
    folder = tmp_path / "data" / "clew"
    assert (folder / "clew.db").exists()
    assert os.stat(folder).st_mode & 0o777 == 0o700
