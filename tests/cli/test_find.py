"""How people name conversations, commands and times: by a beginning, a position, another word."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import clew
from tests.cli.conftest import Run


def title(run: Run, name: str) -> str | None:
    done = run("show", name, "--json")
    return done.json["session"]["title"] if done.code == 0 else None


def test_a_unique_beginning_names_a_conversation(clew_cli: Run, db: str) -> None:
    """The beginning of its id, of its handle, of the id that its tool gave it, or of its title, in any case."""
    with clew.open(db) as store:
        made = store.sessions.create(title="Build fails", id="01890a5d-ac96-774b-bcce-b302099a8057")
        made.append(clew.user("Why?"))
        handle = made.handle
        other = store.sessions.create(title="Bundle size", extra={"source": {"tool": "codex", "id": "77aa12f0-x"}})
        other.append(clew.user("How?"))
    for name in ("01890a5d", handle[:4], "build", "Build f", "01890a5d-ac96-774b-bcce-b302099a8057"):
        assert title(clew_cli, name) == "Build fails", name
    assert title(clew_cli, "77aa12") == "Bundle size"
    done = clew_cli("show", "bu")
    assert done.code == 4
    assert "Build fails" in done.err
    assert "Bundle size" in done.err


def test_near_matches_are_listed(clew_cli: Run, talk: Callable[..., str]) -> None:
    """A name that fits none is answered with similar ones, or with where to look."""
    talk("a", title="Build fails")
    for command in ("show", "rename"):
        done = clew_cli(command, "buld fails", *(["x"] if command == "rename" else []))
        assert done.code == 3
        assert "Did you mean" in done.err
        assert "(Build fails)" in done.err
    assert "(Build fails)" in clew_cli("show", "bild").err
    assert "'clew ls' lists conversations." in clew_cli("show", "entirely else").err


def test_positions(clew_cli: Run, talk: Callable[..., str]) -> None:
    """@last is the conversation that was active last, @-2 the one before it; @-9 says how many there are."""
    for name in ("one", "two", "three"):
        talk("a", title=name)
    assert [title(clew_cli, name) for name in ("@last", "@-1", "@-2", "@-3")] == ["three", "three", "two", "one"]
    done = clew_cli("show", "@-9")
    assert done.code == 3
    assert "There are fewer than 9." in done.err


def test_a_beginning_works_where_conversations_are_named(clew_cli: Run, talk: Callable[..., str]) -> None:
    """Not only show: also rename, label, fork, rm, hold, release, purge, tree and append."""
    talk("a", title="Build fails")
    for command in (
        ["label", "build", "work"], ["fork", "build", "--title", "Other"], ["hold", "add", "build"],
        ["hold", "release", "build"],
        ["tree", "build"], ["retention", "set", "build", "--days", "30"], ["rename", "build", "Fixed"], ["rm", "fix"],
        ["purge", "other", "--yes"],
    ):  # fmt: skip
        done = clew_cli(*command)
        assert done.code == 0, (command, done.err)
    assert clew_cli("ls", "--json").json["sessions"] == []


def test_other_words_for_commands(clew_cli: Run, talk: Callable[..., str]) -> None:
    """`trash` and `resume` work; -n without a command is that of chat; an unknown word is never sent."""
    session = talk("a", title="Build fails")
    assert clew_cli("rm", session).code == 0
    assert "Build fails" in clew_cli("trash").out
    clew_cli("trash", "restore", session)
    assert clew_cli("resume", "build", "-m", "offline", "more").code == 0
    assert "more" in clew_cli("show", session).out
    assert clew_cli("-n", "-m", "offline", "Hello").code == 0
    assert len(clew_cli("ls", "--json").json["sessions"]) == 2
    done = clew_cli("serch", "lint")
    assert (done.code, done.err.splitlines()[0]) == (2, "clew: unknown command 'serch'; did you mean search or serve?")
    assert "to ask a model, use: clew chat PROMPT" in clew_cli("fix my tests").err
    assert clew_cli("hello").code == 2
    assert len(clew_cli("ls", "--json").json["sessions"]) == 2


def test_bare_config_shows_the_settings(clew_cli: Run) -> None:
    """As `config show` does."""
    done = clew_cli("config")
    assert (done.code, done.out) == (0, clew_cli("config", "show").out)


def test_append_takes_role_and_content(clew_cli: Run, talk: Callable[..., str]) -> None:
    """A message as chat programs write it."""
    session = talk("a")
    line = json.dumps({"role": "assistant", "content": "Of course"})
    assert clew_cli("append", session, input=line).code == 0
    last = clew_cli("show", session, "--jsonl").lines[-1]
    assert (last["role"], last["text"]) == ("assistant", "Of course")


@pytest.mark.parametrize("when", ["yesterday", "2 weeks", "3 days ago", "today", "1 month", "2h"])
def test_times_as_people_say_them(clew_cli: Run, talk: Callable[..., str], when: str) -> None:
    """A day or an age in words works as a time."""
    talk("a lint step")
    assert len(clew_cli("search", "lint", "-n", "5", "--since", when, "--json").json) == 1
