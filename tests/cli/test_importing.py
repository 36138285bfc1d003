"""`clew import`."""

import json

import pytest

import clew
from clew import agents

A = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture
def tree(tmp_path):
    """A mirror of two sessions, one with a torn line."""
    with agents.open(tmp_path / "from.db", mirror=tmp_path / "projects") as sessions:
        session = sessions.create(cwd="/src", id=A)
        session.append_and_save(clew.user("Why does it fail?"))
        session.append_event({"type": "x"})
        sessions.create(cwd="/src").append_and_save(clew.user("Other"))
        sessions.memory("/src").write("remember")
    (file,) = (tmp_path / "projects").glob(f"*/sessions/{A}/messages.jsonl")
    with file.open("a") as torn:
        torn.write('{"harbour')
    return tmp_path / "projects"


def test_importing(clew_cli, tree, tmp_path):
    """Sessions and what was skipped are told; the exit code says that something was; a look leaves nothing behind."""
    would = clew_cli("import", str(tree), "--dry-run")
    assert (would.code, "2 conversations would be imported, 1 item skipped" in would.out) == (8, True)
    assert not (tmp_path / "chats.db").exists()
    done = clew_cli("import", str(tree))
    assert done.code == 8
    assert f"{A}  1 message  1 event" in done.out
    assert "memory of" in done.out
    assert "messages.jsonl, line 2: this is not JSON; the file ends within it" in done.err
    assert "harbour" not in done.out + done.err
    assert clew_cli("show", A, "--json").code == 0
    again = clew_cli("import", str(tree))
    assert f"{A}  0 messages  0 events  2 already stored" in again.out


def test_json(clew_cli, tree):
    """The same as data: one document, or one line for each thing."""
    told = clew_cli("import", str(tree), "--json", "--dry-run").json
    assert {one["id"] for one in told["sessions"]} >= {A}
    assert [(one["line"], one["why"]) for one in told["skipped"]] == [(2, "this is not JSON; the file ends within it")]
    lines = clew_cli("import", str(tree), "--jsonl").lines
    assert [next(iter(line)) for line in lines] == ["session", "session", "skipped"]
    json.dumps(lines)


def test_nothing_to_import(clew_cli, tmp_path):
    """A folder that is not there, or has no sessions, is not found; the hint says what to name."""
    for path, hint in ((tmp_path / "none", "Check the path"), (tmp_path, "sessions/")):
        done = clew_cli("import", str(path))
        assert done.code == 3
        assert hint in done.err


def test_all_is_well(clew_cli, tree):
    """Without anything skipped the exit code is 0."""
    (file,) = tree.glob(f"*/sessions/{A}/messages.jsonl")
    file.write_bytes(file.read_bytes().rpartition(b"\n")[0] + b"\n")
    done = clew_cli("import", str(tree))
    assert (done.code, done.err) == (0, "")
