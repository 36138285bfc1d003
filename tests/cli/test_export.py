"""`clew export`: conversations as files."""

import json
import stat
from pathlib import Path

import clew
from clew.base.messages import Text, Thinking, ToolCall, ToolResult
from clew.exports import restore
from tests.sources.made import SESSION, claude_line, jsonl

LINES = jsonl([claude_line(1, None, "user", "Fix <b>it</b>"), claude_line(2, 1, "assistant", "Done")])


def test_everything_as_jsonl(clew_cli, talk, db: str, tmp_path: Path):
    """A whole store goes to one file, which only its owner can read, and comes back."""
    talk("One", title="First")
    talk("Two", title="Second")
    done = clew_cli("export", "-o", str(tmp_path / "all.jsonl"))
    assert (done.code, done.out.strip()) == (0, str(tmp_path / "all.jsonl"))
    assert stat.S_IMODE((tmp_path / "all.jsonl").stat().st_mode) == 0o600
    with clew.open(tmp_path / "other.db") as other, open(tmp_path / "all.jsonl", "rb") as file:
        assert restore(other, file).sessions == 2
    assert clew_cli("export").out.splitlines()[-1] == (tmp_path / "all.jsonl").read_text().splitlines()[-1]


def test_one_as_markdown(clew_cli, talk, tmp_path: Path):
    """Facts in front, then the messages; --detail leaves out what it says."""
    call = {"type": "tool_call", "id": "c", "name": "Bash", "arguments": {"command": "npm test", "timeout": 3}}
    session = talk(
        "Why?",
        {
            "role": "assistant",
            "blocks": [{"type": "thinking", "text": "Let me see"}, {"type": "text", "text": "So."}, call],
        },
        {"role": "tool", "blocks": [{"type": "tool_result", "call_id": "c", "content": []}]},
        title='A "title": x',
    )
    full = clew_cli("export", session, "--as", "markdown").out
    assert full.startswith('---\ntitle: "A \\"title\\": x"\nid: ')
    assert "**Bash** `npm test`" in full
    short = clew_cli("export", session, "--as", "markdown", "--detail", "conversation").out
    assert "⚙ Bash: npm test" in short
    assert "aha" not in short
    assert "## tool" not in short
    prompts = clew_cli("export", session, "--as", "markdown", "--detail", "prompts").out
    assert "Why?" in prompts
    assert "So." not in prompts


def test_several_are_a_folder(clew_cli, talk, tmp_path: Path):
    """A file for each, named by day, title and handle, with nothing in a name that leads elsewhere."""
    one, two = talk("One", title="../../etc/passwd"), talk("Two", title="Zwei: é?")
    done = clew_cli("export", one, two, "--as", "html", "-o", str(tmp_path / "pages"), "--json")
    names = sorted(path.name for path in (tmp_path / "pages").iterdir())
    assert done.code == 0
    assert len(names) == 2
    assert all(name.endswith(".html") for name in names)
    assert any("etc-passwd" in name for name in names)
    assert sorted(done.json["files"]) == sorted(str(tmp_path / "pages" / name) for name in names)
    assert clew_cli("export", one, two, "--as", "html").code == 2


def test_native_is_what_was_imported(clew_cli, talk, tmp_path: Path):
    """An imported conversation goes out byte for byte; one that was not imported is refused."""
    file = tmp_path / f"{SESSION}.jsonl"
    file.write_bytes(LINES)
    assert clew_cli("import", str(file)).code == 0
    out = tmp_path / "again.jsonl"
    assert clew_cli("export", SESSION, "--as", "native", "-o", str(out)).code == 0
    assert out.read_bytes() == LINES
    refused = clew_cli("export", talk("One"), "--as", "native")
    assert (refused.code, "was not imported" in refused.err) == (1, True)


def test_what_must_not_leave_stays(clew_cli, talk, db: str, tmp_path: Path):
    """A conversation that is marked as not to be exported is left out, and the exit code says that."""
    talk("Public")
    secret = talk("Secret")
    with clew.open(db) as store:
        session = store.sessions.get(secret)
        session.update(extra={"clew.record": {"exportable": False}})
    assert clew_cli("export", secret, "--as", "markdown").code != 0
    done = clew_cli("export", "--as", "markdown", "-o", str(tmp_path / "out"))
    assert done.code == 8
    assert len(list((tmp_path / "out").iterdir())) == 1
    whole = clew_cli("export", "-o", str(tmp_path / "all.jsonl"))
    assert whole.code == 8
    assert "Secret" not in (tmp_path / "all.jsonl").read_text()


def test_a_full_disk_leaves_no_half_file(clew_cli, talk, tmp_path: Path):
    """A file is written whole or not at all, and the one that was there stays."""
    session = talk("One")
    target = tmp_path / "out.md"
    target.write_text("before")
    (tmp_path / "folder").mkdir()
    done = clew_cli("export", session, "--as", "markdown", "-o", str(tmp_path / "missing" / "x.md"))
    assert done.code != 0
    assert target.read_text() == "before"


def test_filters(clew_cli, talk, tmp_path: Path):
    """Only a project, or only since a time; not together with ids."""
    one = talk("One", cwd="/src/app")
    talk("Two", cwd="/src/other")
    lines = clew_cli("export", "--project", "/src/app").out.splitlines()
    assert [json.loads(line)["id"] for line in lines if '"type":"ref"' in line] == [one]
    assert clew_cli("export", one, "--project", "/src/app").code == 2
    assert '"refs":0' in clew_cli("export", "--since", "2999-01-01").out


def test_a_compaction_in_an_export(clew_cli, talk, db: str):
    """Markdown and HTML have the messages that a compaction replaced, and a line where it was made."""
    session = talk("First question", "second")
    with clew.open(db) as store:
        store.sessions.get(session).compact(clew.user("The summary"))
    for kind in ("markdown", "html"):
        text = clew_cli("export", session, "--as", kind).out
        assert text.index("First question") < text.index("Compacted here.") < text.index("The summary")


LONG = 150_000


def long_parts(db: str) -> str:
    """A conversation with long parts of every kind, each with the word END as its last."""
    long, lines = "x y " * (LONG // 4), "+line\n" * 30_000
    calls = {
        "Bash": {"command": f"{long}END"},
        "Edit": {"file_path": "a.py", "old_string": f"{long}END", "new_string": f"{lines}END"},
        "Write": {"file_path": "b.py", "content": f"{long}END"},
        "apply_patch": {"patch": f"*** Begin Patch\n@@\n{lines}+END"},
        "Task": {"prompt": f"{long}END"},
        "WebFetch": {"url": "https://example.org/", "prompt": f"{long}END"},
        "Other": {"value": f"{long}END"},
        "Read": {"file_path": "c.py"},
    }
    blocks = [ToolCall(id=name, name=name, arguments=given) for name, given in calls.items()]
    results = [
        ToolResult(call_id=name, content=(Text(f"{long}END"),))
        for name in calls
        if name not in ("Edit", "Write", "apply_patch")
    ]
    with clew.open(db) as store:
        session = store.sessions.create()
        session.append(clew.user(f"{long}END"))
        session.append(clew.Message("assistant", (Thinking(text=f"{long}END"), Text(f"{long}END"), *blocks)))
        session.append(clew.Message("tool", tuple(results)))
        return session.id


def test_full_is_uncut(clew_cli, db: str):
    """`--detail full` cuts nothing, however long; HTML of other details says how much it left out of each text."""
    session = long_parts(db)
    html = clew_cli("export", session, "--as", "html").out
    assert html.count("END") == 16
    assert "more characters" not in html
    assert "more lines" not in html
    assert clew_cli("export", session, "--as", "markdown").out.count("END") == 16
    short = clew_cli("export", session, "--as", "html", "--detail", "conversation").out
    assert short.count("END") < 16
    assert f"{LONG + 3 - 100_000:,} more characters that are not in this file" in short
    assert "more lines that are not in this file" in short
    assert "raw form" not in short
