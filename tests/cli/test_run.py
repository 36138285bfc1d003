"""`clew run`: a subagent's trace, linked to its parent and apart from the talks of people."""

from __future__ import annotations

import pytest

import clew


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.checklist("D20")
def test_a_trace(clew_cli, db, talk, here):
    """It has the label on every message, belongs to its parent, is shown under it, and is not gone on with."""
    parent = talk("Review it", {"role": "assistant", "text": "I ask."}, cwd=str(here))
    done = clew_cli("run", "--as", "code-review", "--run", "a1b2", "--parent", parent, "Anything wrong?")
    assert (done.code, done.out) == (0, "You said: Anything wrong?\n")
    assert "subagent:code-review:a1b2: conversation " in done.err
    with clew.open(db) as store:
        (trace,) = store.sessions.list(subagents=True).items
        assert (trace.agent, trace.owner_id) == ("code-review", parent)
        assert [node.message.label for node in trace.path()] == ["subagent:code-review:a1b2"] * 2
    assert "↳ code-review: Anything wrong?" in clew_cli("tree", parent).out
    clew_cli("chat", "Go on")
    assert len(clew_cli("show", parent, "--json").json["messages"]) == 4


def test_the_parent_may_be_in_the_environment(clew_cli, db, talk):
    """So a program that calls subagents sets it once; a run has an id of its own."""
    parent = talk("One")
    for _ in range(2):
        assert clew_cli("run", "--as", "x", input="Look", env={"CLEW_PARENT": parent}).code == 0
    assert clew_cli("run", "--as", "alone", "Look", env={"CLEW_PARENT": ""}).code == 0
    with clew.open(db) as store:
        assert len(store.sessions.get(parent).subagents()) == 2
        labels = {session.labels for session in store.sessions.list(subagents=True).items}
        assert len(labels) == 3


@pytest.mark.parametrize(
    ("args", "code"),
    [(["x"], 2), (["--as", "a:b", "x"], 2), (["--as", "a", "--run", "", "x"], 0), (["--as", "a"], 2),
     (["--as", "a", "--parent", "nothing", "x"], 3)],
)  # fmt: skip
def test_exit_codes(clew_cli, args, code):
    """What cannot be meant is 2, a parent that is not there 3."""
    assert clew_cli("run", *args).code == code


def test_json(clew_cli):
    """As for a chat."""
    assert clew_cli("run", "--as", "a", "--json", "Look").json["text"] == "You said: Look"
