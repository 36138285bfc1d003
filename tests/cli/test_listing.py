"""`clew ls`: sessions, last active first."""

import re

import pytest

import clew
from tests.sources.made import SESSION, claude_line, jsonl


def titles(done):
    return [session["title"] for session in done.json["sessions"]]


def test_last_active_first(clew_cli, talk):
    """A session that goes on comes to the top."""
    first = talk("a", title="first")
    talk("b", title="second")
    clew_cli("append", first, input='{"text": "c"}')
    assert titles(clew_cli("ls", "--json")) == ["first", "second"]


def test_a_line_says_what_one_wants_to_know(clew_cli, talk):
    """Handle, time, messages, title, directory; a session without a title shows its first words."""
    session = talk("a", "b", title="Build fails", cwd="/src/app")
    talk("Why\nis it so?", cwd="/src/app")
    lines = clew_cli("ls").out.splitlines()
    assert lines[0][6:] == "  just now  1  Why is it so?  /src/app"
    assert lines[1][6:] == "  just now  2  Build fails    /src/app"
    assert clew_cli("show", lines[1][:6], "--json").json["session"]["id"] == session


def test_filters(clew_cli, talk, tmp_path, monkeypatch):
    """By directory, by the current one, by label, by words of the title."""
    monkeypatch.chdir(tmp_path)
    talk("a", title="here")
    talk("b", title="There", cwd="/src/app", label="work")
    assert titles(clew_cli("ls", "--json")) == ["There", "here"]
    assert titles(clew_cli("ls", "--json", "--here")) == ["here"]
    assert titles(clew_cli("ls", "--json", "--cwd", "/src/app/")) == ["There"]
    assert titles(clew_cli("ls", "--json", "--label", "work")) == ["There"]
    assert titles(clew_cli("ls", "--json", "--title", "there")) == ["There"]
    assert titles(clew_cli("ls", "--json", "--title", "nowhere")) == []
    assert clew_cli("ls", "--here", "--cwd", "/").code == 2


def test_filters_by_time(clew_cli, talk):
    """Only those active in a span, which a page of one conversation fills too; the advice names the options."""
    talk("new one", title="New")
    assert "New" in clew_cli("ls", "--since", "1h").out
    assert "New" in clew_cli("ls", "--until", "2999-01-01", "-n", "1").out
    none = clew_cli("ls", "--until", "2d")
    assert (none.out, "Leave out --until" in none.err) == ("", True)
    assert clew_cli("trash", "ls", "--since", "1h").code == 2


def test_a_conversation_without_messages_is_hidden(clew_cli, talk, db):
    """Unless it is asked for; then its time, which is that of an import, is not shown as its own."""
    talk("hello", title="Full")
    with clew.open(db) as store:
        store.sessions.create(title="Empty one")
    assert "Empty one" not in clew_cli("ls").out
    assert [one["title"] for one in clew_cli("ls", "--json").json["sessions"]] == ["Full"]
    (line,) = (line for line in clew_cli("ls", "--empty").out.splitlines() if "Empty one" in line)
    assert "just now" not in line


def test_pages(clew_cli, talk):
    """A page says where the next begins; --all reads them all; the person is told that there are more."""
    for number in range(5):
        talk("x", title=str(number))
    page = clew_cli("ls", "--json", "--limit", "2")
    assert titles(page) == ["4", "3"]
    rest = clew_cli("ls", "--json", "--limit", "9", "--cursor", page.json["next_cursor"])
    assert (titles(rest), rest.json["next_cursor"]) == (["2", "1", "0"], None)
    assert titles(clew_cli("ls", "--json", "--all")) == ["4", "3", "2", "1", "0"]
    assert [session["title"] for session in clew_cli("ls", "--jsonl", "--all").lines] == ["4", "3", "2", "1", "0"]
    cut = clew_cli("ls", "--limit", "2")
    assert (len(cut.out.splitlines()), "more" in cut.err) == (2, True)
    assert clew_cli("ls", "--cursor", "nonsense").code == 1


def test_json_has_every_field(clew_cli, talk, db):
    """A session as JSON carries its counters and where it came from."""
    session = talk("a", {"role": "assistant", "text": "b", "usage": {"input": 3, "output": 4, "cost": 5}}, label="l")
    got = clew_cli("ls", "--jsonl").lines[0]
    assert (got["id"], got["messages"], got["turns"], got["tokens_in"], got["tokens_out"], got["cost"]) == (
        session,
        2,
        1,
        3,
        4,
        5,
    )
    assert got["labels"] == ["l"]
    assert got["updated_at"].endswith("Z")
    with clew.open(db) as store:
        assert got["head_id"] == store.sessions.get(session).head_id


def test_an_empty_store_says_what_to_do(clew_cli, program, tmp_path):
    """Looking makes no file; a store that was named and is not there is not found."""
    done = program("ls", env={"CLEW_DB": ""})
    assert (done.code, done.out) == (0, "")
    assert "clew chat" in done.err
    assert program("ls", "--json", env={"CLEW_DB": ""}).json == {"sessions": [], "next_cursor": None}
    missing = clew_cli("ls", "--db", str(tmp_path / "no.db"))
    assert missing.code == 3
    assert not (tmp_path / "no.db").exists()
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("wide", [40, 60, 80])
def test_lines_fit_the_terminal(clew_cli, talk, wide):
    """Where COLUMNS says how wide it is, no line is wider, wide letters counted as two."""
    from clew.cli.output.text import width

    talk(
        "x",
        title="A title that goes on for quite some time, longer than any line",
        cwd="/a/directory/with/a/long/name/app",
    )
    talk(
        "x",
        title="設定ファイルを読み込めない場合の対処方法について教えてください。長い題名です",
        cwd="/home/me/プロジェクトの長い名前/アプリ",
    )
    lines = clew_cli("ls", env={"COLUMNS": str(wide)}).out.splitlines()
    assert all(width(line) <= wide for line in lines), lines
    assert len(lines) == 2


def test_many_are_listed_as_one_is(clew_cli, db):
    """Pages are read together: each line has the handle and the count that its session itself has."""
    with clew.open(db, durability="relaxed") as store:
        with store.transaction():
            for number in range(1203):
                session = store.sessions.create(title=f"session {number}")
                session.append([clew.user("x")] * (number % 4))
            for near in (1, 2):  # their handles begin alike
                store.sessions.create(title=f"near {near}", id=f"00000000-0000-7000-8000-0{near}0000000000")
            fork = session.fork(title="a fork")
        wanted = {one.title: (one.handle, str(one.counters.messages)) for one in (session, fork)}
        cursor = None
        while True:
            page = store.sessions.list(limit=500, cursor=cursor)
            wanted |= {one.title: (one.handle, str(one.counters.messages)) for one in page.items}
            cursor = page.next_cursor
            if cursor is None:
                break
    lines = clew_cli("ls", "--all", "--empty").out.splitlines()
    shown = {words[3].removeprefix("⑂ "): (words[0], words[2]) for words in (re.split(r"  +", line) for line in lines)}
    assert len(lines) == 1206
    assert shown == wanted


def test_a_conversation_without_a_title_is_named_by_what_was_typed(clew_cli, db):
    """Instructions and context that a tool puts before the first prompt do not name it."""
    with clew.open(db) as store:
        session = store.sessions.create()
        session.append([clew.system("Be brief."), clew.user("<context>x</context>"), clew.user("Why does it fail?")])
        store.sessions.create().append(clew.user("<only this>"))
    shown = clew_cli("ls").out
    assert "Why does it fail?" in shown and "<only this>" in shown
    assert "Be brief" not in shown and "<context>" not in shown


def test_a_conversation_of_commands_alone(clew_cli, db, tmp_path):
    """Where nothing was typed, a line has the command and not the tags around it."""
    file = tmp_path / "projects" / "p" / f"{SESSION}.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(jsonl([claude_line(1, None, "user", "<command-name>/clear</command-name>")]))
    assert clew_cli("import", str(file)).code == 0
    assert "  /clear  " in clew_cli("ls").out
