"""`clew fork | rename | tag`."""


def texts(clew_cli, id):
    return [node["text"] for node in clew_cli("show", id, "--jsonl").lines]


def test_a_fork_goes_its_own_way(clew_cli, talk):
    """It prints the id of a session that shares what came before, and changes nothing in the first."""
    session = talk("a", "b", "c", title="One")
    at = clew_cli("show", session, "--jsonl").lines[1]["handle"]
    done = clew_cli("fork", session, "--at", at, "--title", "Other")
    fork = done.out.strip()
    assert "shares 2 messages" in done.err
    clew_cli("append", fork, input='{"text": "d"}')
    assert texts(clew_cli, fork) == ["a", "b", "d"]
    assert texts(clew_cli, session) == ["a", "b", "c"]
    assert clew_cli("show", fork, "--json").json["session"]["title"] == "Other"


def test_a_fork_as_json(clew_cli, talk):
    """--json has the new session."""
    session = talk("a", title="One")
    made = clew_cli("fork", session, "--json").json
    assert (made["forked_from"], made["title"], made["messages"]) == (session, "One", 1)
    assert clew_cli("fork", session, "--jsonl").lines[0]["forked_from"] == session


def test_a_fork_needs_what_it_names(clew_cli, talk):
    """An unknown session or message is not found, and so is one of another tree."""
    session, other = talk("a"), talk("b")
    elsewhere = clew_cli("show", other, "--jsonl").lines[0]["id"]
    assert clew_cli("fork", "zzzzzz").code == 3
    assert clew_cli("fork", session, "--at", "zzzzzz").code == 3
    assert clew_cli("fork", session, "--at", elsewhere).code == 3
    assert clew_cli("fork").code == 0  # the latest of this directory


def test_a_fork_without_a_name_is_of_the_latest_conversation_here(clew_cli, talk, tmp_path, monkeypatch):
    """fork and show without an ID mean the latest of the current directory, and say so if it has none."""
    talk("older")
    latest = talk("latest")
    assert clew_cli("fork", "--json").json["forked_from"] == latest
    assert "latest" in clew_cli("show").out
    monkeypatch.chdir(tmp_path)
    for command in ("fork", "show"):
        done = clew_cli(command)
        assert (done.code, done.out) == (3, "")
        assert done.err.startswith("clew: conversation of this directory not found\n")


def test_a_session_gets_another_title_and_labels(clew_cli, talk):
    """rename and tag change what a session says of itself."""
    session = talk("a")
    assert clew_cli("rename", session, "New", "--json").json["title"] == "New"
    assert clew_cli("label", session, "b", "a", "--json").json["labels"] == ["a", "b"]
    assert ": b" in clew_cli("label", session, "--remove", "a").err
    assert clew_cli("label", session).code == 2
    assert clew_cli("rename", "zzzzzz", "x").code == 3
