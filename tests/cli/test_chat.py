"""`clew chat`: where a question goes, who answers, and what is stored whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import clew
from clew.cli.chat import models
from clew.testing.providers import ProviderServer

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    """A provider that the environment names, as people name theirs."""
    with ProviderServer() as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "a-token")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        yield server


def talks(db: str) -> list[list[str]]:
    """What each session says, last active first."""
    with clew.open(db) as store:
        return [[node.text for node in one.path()] for one in store.sessions.list().items]


def test_without_a_model_offline_answers(clew_cli, db):
    """The answer is data, and how to set up a model is told beside it."""
    done = clew_cli("chat", "Hello")
    assert (done.code, done.out) == (0, "You said: Hello\n")
    assert "Using `offline`" in done.err
    assert "ANTHROPIC_API_KEY" in done.err
    assert "Using `offline`" not in clew_cli("chat", "-m", "offline", "Hello").err
    assert "Using `offline`" not in clew_cli("chat", "-G", "Hello", env={"CLEW_MODEL": "offline"}).err
    assert talks(db) == [["Hello", "You said: Hello"] * 2]


@pytest.mark.checklist("D12", "D13")
def test_it_goes_on_in_the_same_directory(clew_cli, db, tmp_path, monkeypatch):
    """Without a flag the last answered session of this directory goes on; elsewhere another begins."""
    clew_cli("chat", "One")
    clew_cli("chat", "Two")
    monkeypatch.chdir(tmp_path)
    clew_cli("chat", "Elsewhere")
    assert [len(talk) for talk in talks(db)] == [2, 4]


@pytest.mark.checklist("D13")
@pytest.mark.parametrize("flag", ["-n", "--new"])
def test_new_begins_a_session(clew_cli, db, flag):
    """Whatever there is."""
    clew_cli("chat", "One")
    done = clew_cli("chat", flag, "--title", "Other", "Two")
    assert len(talks(db)) == 2
    assert clew_cli("ls", "--json").json["sessions"][0]["title"] == "Other"
    assert done.err.splitlines()[-1].startswith("conversation ")


@pytest.mark.checklist("D13")
@pytest.mark.parametrize("flag", ["-c", "--continue"])
def test_a_session_is_named(clew_cli, db, flag):
    """By its id or its handle."""
    clew_cli("chat", "One")
    first = clew_cli("ls", "--json").json["sessions"][0]
    clew_cli("chat", "-n", "Two")
    clew_cli("chat", flag, first["handle"], "Three")
    assert talks(db)[0] == ["One", "You said: One", "Three", "You said: Three"]
    assert clew_cli("chat", flag, "nothing", "Three").code == 3


def test_a_message_is_named(clew_cli, db, talk):
    """The last message of a session goes on in it; another one begins a fork, and the session stays as it is."""
    id = talk("One", {"role": "assistant", "text": "1"}, "Two", {"role": "assistant", "text": "2"})
    nodes = [node["handle"] for node in clew_cli("show", id, "--json").json["messages"]]
    clew_cli("chat", "-c", nodes[-1], "Three")
    assert talks(db) == [["One", "1", "Two", "2", "Three", "You said: Three"]]
    clew_cli("chat", "-c", nodes[1], "Other")
    assert talks(db)[0] == ["One", "1", "Other", "You said: Other"]
    assert clew_cli("ls", "--json").json["sessions"][0]["forked_from"] == id


@pytest.mark.checklist("D12", "D20")
def test_it_goes_on_from_the_newest_answer(db, clew_cli, here):
    """Never from a question, never in a subagent's trace; a tool's result is an answer."""
    with clew.open(db) as store:
        tool = store.sessions.create(cwd=here)
        call = clew.ToolCall(id="1", name="look")
        tool.append([clew.user("Look"), clew.assistant(call), clew.tool("clear", call_id="1")])
        asked = store.sessions.create(cwd=here)
        asked.append(clew.user("Nobody answered"))
        trace = store.sessions.create(cwd=here, agent="helper", owner=tool)
        trace.append([clew.user("Sub"), clew.assistant("sub")])
    clew_cli("chat", "And now?")
    assert talks(db)[0] == ["Look", "", "clear", "And now?", "You said: And now?"]


@pytest.mark.checklist("D12")
def test_an_open_question_is_left_behind(db, clew_cli, talk):
    """A question that got no answer is not asked with the next one, and stays in the tree."""
    id = talk("One", {"role": "assistant", "text": "1"}, "Lost")
    clew_cli("chat", "Two")
    assert talks(db) == [["One", "1", "Two", "You said: Two"]]
    assert "Lost" in clew_cli("tree", id).out


@pytest.mark.checklist("D13")
@pytest.mark.parametrize("flag", ["-G", "--incognito"])
def test_incognito_opens_no_store(clew_cli, db, flag, tmp_path, monkeypatch):
    """There is no file afterwards, and one that cannot be opened is no matter."""
    assert clew_cli("chat", flag, "Hello").out == "You said: Hello\n"
    assert not os.path.exists(db)
    Path(db).write_text("not a store")
    assert clew_cli("chat", flag, "Hello").code == 0
    assert clew_cli("chat", "Hello").code == 1
    assert Path(db).read_text() == "not a store"
    assert sorted(os.listdir(tmp_path)) == ["chats.db", "here", "project"]


def test_a_pipe_is_the_prompt_or_goes_before_it(clew_cli):
    """As a filter, and as context."""
    assert clew_cli("chat", input="Hello\n").out == "You said: Hello\n"
    assert clew_cli("chat", "Why?", input="log line\n").out == "You said: log line\n\nWhy?\n"


@pytest.mark.parametrize("args", [["h\udcffi\0"], []])
def test_bytes_that_are_no_letters(clew_cli, db, args):
    """They are replaced, and the question is asked all the same."""
    done = clew_cli("chat", *args, input=None if args else b"h\xffi\0")
    assert (done.code, done.out) == (0, "You said: h\ufffdi\ufffd\n"), done.err
    assert clew_cli("verify").code == 0


def test_two_talks_in_one_directory(clew_cli, db, server, monkeypatch):
    """If another one goes on while this one waits, it goes on in a fork, and says so; nothing is lost."""
    from clew.cli.commands import chat

    clew_cli("chat", "One")
    answer = chat.answer_once

    def meanwhile(*args):
        monkeypatch.setattr(chat, "answer_once", answer)
        with clew.open(db) as store:
            store.sessions.latest().append([clew.user("Between"), clew.assistant("Yes.")])
        return answer(*args)

    monkeypatch.setattr(chat, "answer_once", meanwhile)
    done = clew_cli("chat", "Two")
    assert done.code == 0
    assert "was changed by another program" in done.err
    assert talks(db) == [["One", "You said: One", "Two", "You said: Two"], ["One", "You said: One", "Between", "Yes."]]


def test_files_go_with_the_question(clew_cli, db, server, here):
    """A text goes into it, a picture beside it, as the provider wants it; what cannot be read is told."""
    (here / "notes.txt").write_text("the notes")
    (here / "chart.png").write_bytes(PNG)
    done = clew_cli("chat", "-a", "notes.txt", "-a", "chart.png", "What is this?")
    assert done.code == 0, done.err
    content = server.requests[0].json["messages"][0]["content"]
    assert [block["type"] for block in content] == ["text", "image", "text"]
    assert content[0]["text"] == '<file name="notes.txt">\nthe notes\n</file>'
    assert content[1]["source"]["media_type"] == "image/png"
    assert content[2]["text"] == "What is this?"
    assert clew_cli("chat", "-a", "missing", "x").code == 1
    assert len(server.requests) == 1


def test_json_for_scripts(clew_cli, server):
    """One document with the answer and where it is; or every event on a line."""
    server.say("Rome.", thinking="A capital.")
    done = clew_cli("chat", "--json", "Where?")
    assert (done.json["text"], done.json["usage"]["input"]) == ("Rome.", 10)
    assert clew_cli("show", done.json["id"]).code == 0
    server.say("Rome.", thinking="A capital.")
    kinds = [event["type"] for event in clew_cli("chat", "--jsonl", "Where?").lines]
    assert kinds == ["thinking", "thinking", "text", "reply"]


def test_the_system_prompt(clew_cli, server):
    """It is told first, stored, and goes on unless another is given."""
    clew_cli("chat", "-s", "Be brief.", "One")
    clew_cli("chat", "Two")
    clew_cli("chat", "--system", "Be long.", "Three")
    assert [request.json["system"] for request in server.requests] == ["Be brief.", "Be brief.", "Be long."]
    clew_cli("chat", "-n", "Four", env={"CLEW_SYSTEM": "From the settings."})
    assert server.requests[-1].json["system"] == "From the settings."


@pytest.mark.parametrize(
    "args",
    [["-c", "x", "-n", "y"], ["-n", "-G", "y"], ["-c", "x", "-G", "y"], [], ["--json"], ["--json", "--jsonl", "y"]],
)
def test_what_cannot_be_meant_is_2(clew_cli, args, db):
    """And nothing is stored."""
    assert clew_cli("chat", *args).code == 2
    assert not os.path.exists(db)


@pytest.mark.parametrize(
    ("typed", "provider", "meant"),
    [
        ("sonnet", None, ("claude", "claude-sonnet-5-5")),
        ("claude", None, ("claude", "claude-sonnet-5-5")),
        ("claude-opus-9", None, ("claude", "claude-opus-9")),
        ("gpt-9", None, ("openai", "gpt-9")),
        ("o9-mini", None, ("openai", "o9-mini")),
        ("gemini-9", None, ("gemini", "gemini-9")),
        ("openai-compatible/llama/70b", None, ("openai-compatible", "llama/70b")),
        ("llama/70b", "openai-compatible", ("openai-compatible", "llama/70b")),
        ("claude-opus-9", "openai-compatible", ("openai-compatible", "claude-opus-9")),
        ("haiku", "openai-compatible", ("claude", "claude-haiku-5-5")),
        ("offline", "claude", ("offline", "offline")),
        ("claude-local", None, ("claude-local", "")),
    ],
)
def test_models_as_people_write_them(typed, provider, meant, monkeypatch):
    """An alias, a provider, a name, or both with a slash."""
    if provider:
        monkeypatch.setenv("CLEW_PROVIDER", provider)
    assert models.parse(typed)[:2] == meant


def test_a_server_of_ones_own_knows_its_models(monkeypatch):
    """With an address, a name that nobody else is known for is passed on as it is."""
    with pytest.raises(clew.Invalid):
        models.parse("llama/70b")
    monkeypatch.setenv("CLEW_BASE_URL", "http://127.0.0.1:8080/v1")
    assert models.parse("llama/70b")[:2] == ("openai-compatible", "llama/70b")
    assert models.parse("claude-opus-9")[:2] == ("claude", "claude-opus-9")


def test_short_names_are_of_models_that_their_makers_know():
    """Each is in the list of models that its maker's SDK has."""
    from typing import get_args

    from anthropic.types import ModelParam
    from google.genai.interactions import ModelParam as GeminiModel
    from openai.types.shared import ChatModel

    known = {"claude": get_args(get_args(ModelParam)[0]), "openai": get_args(ChatModel)}
    known["gemini"] = get_args(get_args(GeminiModel)[0])
    for name in (*models.ALIASES, "claude", "openai", "gemini"):
        provider, model, _ = models.parse(name)
        assert model in known[provider], name


def test_who_answers_without_being_asked_for(monkeypatch):
    """The settings, then whoever has a token."""
    assert models.choose()[:2] == ("offline", "offline")
    monkeypatch.setenv("GOOGLE_API_KEY", "k")
    assert models.choose().provider == "gemini"
    monkeypatch.setenv("CLEW_PROVIDER", "openai")
    assert models.choose()[:2] == ("openai", "gpt-6-sol")
    monkeypatch.setenv("CLEW_MODEL", "sonnet")
    assert models.choose().provider == "claude"
    assert models.choose("offline").provider == "offline"


def test_a_session_goes_on_with_its_own_model(clew_cli, db, server, monkeypatch):
    """Unless another is asked for. Without its API key it does not continue, and nothing is stored."""
    clew_cli("chat", "-m", "claude/model-a", "One")
    clew_cli("chat", "Two", env={"CLEW_MODEL": "claude/model-b"})
    clew_cli("chat", "-m", "claude/model-c", "Three")
    assert [request.json["model"] for request in server.requests] == ["model-a", "model-a", "model-c"]
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    done = clew_cli("chat", "Four")
    assert (done.code, done.out) == (1, "")
    assert "ANTHROPIC_API_KEY" in done.err
    echo = clew_cli("chat", "-m", "offline", "Four")
    assert (echo.code, "`offline` cannot continue" in echo.err, "choose a real model" in echo.err) == (1, True, True)
    assert [len(talk) for talk in talks(db)] == [6]
    assert len(server.requests) == 3


def test_what_is_missing_is_told(clew_cli):
    """A model nobody knows, a token that is not there, an address that is not safe."""
    for args, hint in (["-m", "llama"], "PROVIDER/MODEL"), (["-m", "opus"], "ANTHROPIC_API_KEY"):
        done = clew_cli("chat", *args, "Hello")
        assert done.code == 1
        assert hint in done.err
    env = {"ANTHROPIC_API_KEY": "k", "CLEW_BASE_URL": "http://models.internal"}
    told = clew_cli("chat", "Hello", env=env).err
    assert "is not https" in told
    assert "--allow-insecure" in told


def test_a_provider_that_fails(clew_cli, db, server):
    """Exit code 1, and the question is stored."""
    server.fail(401)
    done = clew_cli("chat", "Hello")
    assert (done.code, done.out) == (1, "")
    assert "the API key was refused" in done.err
    assert talks(db) == [["Hello"]]


def test_what_cannot_be_saved_is_not_sent(clew_cli, db, server):
    """A failing save is fatal, and says so."""
    clew_cli("chat", "One")
    with clew.open(db) as store, store.transaction():
        store.sessions.create()
        done = clew_cli("chat", "Two", env={"CLEW_TIMEOUT": "0.1"})
    assert done.code == 5
    assert "the conversation could not be saved" in done.err
    assert len(server.requests) == 1


def test_control_characters_do_not_reach_the_terminal(clew_cli, server):
    """Neither from words nor from anything else."""
    server.say("Red: \x1b[31malert\x07")
    assert clew_cli("chat", "Hello").out == "Red: \\x1b[31malert\\x07\n"


@contextmanager
def started(*args: str) -> Iterator[subprocess.Popen[bytes]]:
    """`clew chat`, which Ctrl+C reaches also where the tests themselves run in the background."""
    with subprocess.Popen(
        [sys.executable, "-m", "clew", "chat", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as running:  # fmt: skip
        try:
            yield running
        finally:
            running.kill()


def test_ctrl_c_keeps_what_arrived(db, server):
    """The answer so far is stored, marked as interrupted; exit code 130."""
    server.say("One two three", stalls=5)
    with started("Count") as running:
        assert running.stdout is not None
        assert running.stdout.read(7) == b"One two"
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
    with clew.open(db) as store:
        last = store.sessions.latest().path()[-1]
        assert (last.text, (last.message.extra or {})["interrupted"]) == ("One two", True)
        assert store.verify().ok


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_whoever_closes_the_terminal_keeps_what_arrived(db, server, number):
    """The program ends by the signal, and the answer so far is stored, marked as interrupted."""
    server.say("One two three", stalls=5)
    with started("Count") as running:
        assert running.stdout is not None
        assert running.stdout.read(7) == b"One two"
        running.send_signal(number)
        running.send_signal(number)
        assert running.wait(30) == -number
    with clew.open(db) as store:
        last = store.sessions.latest().path()[-1]
        assert (last.text, (last.message.extra or {})["interrupted"]) == ("One two", True)
        assert store.verify().ok


def test_a_kill_leaves_the_question_and_a_clean_store(db, server, clew_cli):
    """Whatever had arrived of the answer; and the talk goes on."""
    server.say("One two three", stalls=5)
    with started("Count") as running:
        assert running.stdout is not None
        assert running.stdout.read(3) == b"One"
        running.kill()
    with clew.open(db) as store:
        assert store.verify().ok
    assert talks(db) == [["Count"]]
    assert clew_cli("verify").code == 0
    assert clew_cli("chat", "Again").code == 0


def test_interrupted_is_shown(clew_cli, talk):
    """In text, Markdown, HTML and JSON."""
    id = talk("Count", {"role": "assistant", "text": "One", "extra": {"interrupted": True}})
    for args in [], ["--as", "markdown"], ["--as", "html"], ["--json"]:
        assert "interrupted" in clew_cli("show", id, *args).out.lower()
    assert json.loads(clew_cli("show", id, "--as", "raw").out.splitlines()[1])["extra"] == {"interrupted": True}
