"""A question is stored before it is sent, an answer before it is handed over, and what broke off is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew import chat
from clew.chat.recording import SavingMiddleware, resume
from clew.store.setup import setup_of
from clew.testing.providers import ProviderServer, ToolUse

PROVIDERS = ("claude", "openai", "openai-responses", "openai-compatible", "gemini")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "chats.db") as store:
        yield store


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer() as server:
        yield server
    while _made:
        _made.pop().close()


_made: list[Any] = []


def connect(server: ProviderServer, provider: str = "claude", **settings: Any) -> Any:
    client = chat.connect(
        provider=provider, model="a-model", token="a-token", base_url=server.base_url(provider), allow_insecure=True,
        max_retries=0, **settings,
    )  # fmt: skip
    _made.append(client)
    return client


def said(session: clew.Session) -> list[tuple[str, str]]:
    return [(node.role, node.text) for node in session.path()]


def weather(city: str) -> str:
    """The weather."""
    return f"clear in {city}"


@pytest.mark.checklist("D18")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_questions_and_answers_are_stored_as_they_were_sent(
    store: clew.Store, server: ProviderServer, provider: str
) -> None:
    """Each message is stored in its provider's own JSON, with its model and cost; totals are known."""
    server.say("Rome.", tokens=(10, 5))
    server.say("By train.", tokens=(20, 7))
    saving = SavingMiddleware(store, cwd="/src/app")
    client = saving.wrap(connect(server, provider))
    assert client.chat("Where are we going?") == "Rome."
    assert client.chat("How?") == "By train."
    session = saving.session
    assert said(session) == [
        ("user", "Where are we going?"), ("assistant", "Rome."), ("user", "How?"), ("assistant", "By train."),
    ]  # fmt: skip
    assert [node.native.raw for node in session.path()] == [one.raw for one in client.history]
    assert (session.title, session.cwd, session.model) == ("Where are we going?", "/src/app", "a-model")
    counters = session.counters
    assert (counters.tokens_in, counters.tokens_out, counters.tokens_known) == (30, 12, True)
    assert session.path()[1].message.model == "a-model"


@pytest.mark.checklist("D18")
def test_the_question_is_stored_before_it_is_sent(store: clew.Store, server: ProviderServer) -> None:
    """When the provider gets the question, the store has it; if it fails, the question stays."""
    saving = SavingMiddleware(store)
    client = saving.wrap(connect(server))
    server.fail(500)
    with pytest.raises(chat.ProviderError):
        client.chat("Hello?")
    assert said(saving.session) == [("user", "Hello?")]
    server.say("Yes?")
    client.chat("Anyone?")
    assert said(saving.session) == [("user", "Anyone?"), ("assistant", "Yes?")]
    (branch,) = saving.session.branches()
    assert store.nodes.get(branch.head_id)[0].text == "Hello?"


def test_the_same_question_again_is_stored_once(store: clew.Store, server: ProviderServer) -> None:
    """Asking an unanswered question again continues from the stored question."""
    saving = SavingMiddleware(store)
    client = saving.wrap(connect(server))
    server.fail(500)
    with pytest.raises(chat.ProviderError):
        client.chat("Hello?")
    server.say("Yes?")
    client.chat("Hello?")
    assert said(saving.session) == [("user", "Hello?"), ("assistant", "Yes?")]
    assert saving.session.branches() == []


@pytest.mark.checklist("D19")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_interrupted_answer_is_kept_and_marked(store: clew.Store, server: ProviderServer, provider: str) -> None:
    """If the caller stops early, the partial answer is stored and marked, and the conversation continues from it."""
    server.say("One two three four five six")
    saving = SavingMiddleware(store)
    client = saving.wrap(connect(server, provider))
    events = client.stream("Count")
    heard = [next(events).text, next(events).text]
    events.close()
    last = saving.session.path()[-1]
    assert last.role == "assistant"
    assert last.text == "".join(heard) == "One two"
    assert last.message.extra == {"model": "a-model", "interrupted": True}
    server.say("Three.")
    client.chat("Go on")
    assert [text for _, text in said(saving.session)] == ["Count", "One two", "Go on", "Three."]
    assert saving.session.path()[-1].message.extra.get("interrupted") is None


def test_an_answer_that_breaks_off_is_kept_and_marked(store: clew.Store, server: ProviderServer) -> None:
    """A connection that is cut is an interruption, too."""
    server.say("One two three four", cut=6)
    saving = SavingMiddleware(store)
    client = saving.wrap(connect(server))
    with pytest.raises(chat.ProviderError):
        client.chat("Count")
    assert saving.session.path()[-1].message.extra["interrupted"] is True


def test_thoughts_without_words_are_kept(store: clew.Store, server: ProviderServer) -> None:
    """Thinking that its provider would refuse is stored in a branch, and the conversation continues without it."""
    server.say("Rome.", thinking="A capital, surely.")
    saving = SavingMiddleware(store)
    client = saving.wrap(connect(server))
    events = client.stream("Where?")
    assert isinstance(next(events), clew.Thinking)
    events.close()
    last = saving.session.path()[-1]
    assert last.message.blocks == (clew.Thinking(text="A"),)
    assert last.message.extra == {"interrupted": True}
    client.chat("Where?")
    assert len(saving.session.path()) == 2


def test_a_tool_call_is_stored_before_the_tool_runs(store: clew.Store, server: ProviderServer) -> None:
    """While a tool runs, the store has the call; the costs of each step are counted once."""
    seen: list[list[str]] = []

    def look(city: str) -> str:
        """Looks."""
        seen.append([node.role for node in saving.session.path()])
        return "clear"

    server.say("I look.", calls=[ToolUse("look", {"city": "Rome"})], tokens=(10, 5))
    server.say("Clear skies.", tokens=(20, 7))
    saving = SavingMiddleware(store)
    client = saving.wrap(connect(server, tools=[look]))
    assert client.chat("How is it?") == "Clear skies."
    assert seen == [["user", "assistant"]]
    assert [node.role for node in saving.session.path()] == ["user", "assistant", "tool", "assistant"]
    counters = saving.session.counters
    assert (counters.tokens_in, counters.tokens_out, counters.tokens_known) == (30, 12, True)


def test_an_interrupted_tool_leaves_no_call_without_its_result(store: clew.Store, server: ProviderServer) -> None:
    """A tool that is interrupted has a result that says so, marked."""

    def stop() -> str:
        """Stops."""
        raise KeyboardInterrupt

    server.say(calls=[ToolUse("stop")])
    saving = SavingMiddleware(store)
    client = saving.wrap(connect(server, tools=[stop]))
    with pytest.raises(KeyboardInterrupt):
        client.chat("Stop")
    last = saving.session.path()[-1]
    assert (last.role, last.message.extra) == ("tool", {"interrupted": True})


@pytest.mark.checklist("D18")
def test_what_cannot_be_saved_is_not_sent(store: clew.Store, server: ProviderServer) -> None:
    """A failing save is fatal, says so, and no request is made."""
    saving = SavingMiddleware(store)
    client = saving.wrap(connect(server))
    store.close()
    with pytest.raises(clew.Closed, match="the conversation could not be saved"):
        client.chat("Hello?")
    assert server.requests == []


def test_a_reply_whose_save_fails_is_saved_again(
    store: clew.Store, server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller gets the error of the first save; the reply is in the store, marked as interrupted."""
    append, calls = clew.Session.append, []

    def full_once(session: clew.Session, *args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise clew.StorageFull("no space")
        return append(session, *args, **options)

    monkeypatch.setattr(clew.Session, "append", full_once)
    server.say("Rome.")
    saving = SavingMiddleware(store)
    client = saving.wrap(connect(server))
    with pytest.raises(clew.StorageFull):
        client.chat("Where?")
    assert said(saving.session) == [("user", "Where?"), ("assistant", "Rome.")]
    assert saving.session.path()[-1].message.extra["interrupted"] is True
    client.chat("And now?")
    assert [role for role, _ in said(saving.session)] == ["user", "assistant", "user", "assistant"]


def test_an_answer_without_a_last_event_is_kept_and_marked(store: clew.Store) -> None:
    """The pieces of a stream that ends without a reply are stored if the client does not remember them."""

    class Client:
        history: tuple[clew.Message, ...] = ()
        usage = chat.UsageTotal()

        def chat(self, prompt: str) -> str:
            raise NotImplementedError

        def stream(self, prompt: str) -> Iterator[clew.Text]:
            yield clew.Text(text="One ")
            yield clew.Text(text="two")

    saving = SavingMiddleware(store)
    assert len(list(saving.wrap(Client()).stream("Count"))) == 2
    assert said(saving.session) == [("user", "Count"), ("assistant", "One two")]
    assert saving.session.path()[-1].message.extra == {"interrupted": True}


def test_a_system_prompt_is_stored_first(store: clew.Store, server: ProviderServer) -> None:
    """Whether its provider has it among the messages or not."""
    for provider in PROVIDERS:
        saving = SavingMiddleware(store)
        saving.wrap(connect(server, provider, system="Be brief.")).chat("Hello")
        assert said(saving.session)[0] == ("system", "Be brief.")
        again = connect(server, provider)
        resume(again, saving.session)
        assert again.system == "Be brief."


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_session_is_gone_on_in_by_another_client(store: clew.Store, server: ProviderServer, provider: str) -> None:
    """A client without messages gets those of the session byte for byte, including tool calls."""
    server.say(calls=[ToolUse("weather", {"city": "Rome"})])
    server.say("Clear.")
    first = SavingMiddleware(store)
    first.wrap(connect(server, provider, tools=[weather])).chat("How is it?")
    before = [node.native.raw for node in first.session.path()]
    second = SavingMiddleware(store, session=store.sessions.get(first.session.id))
    client = second.wrap(connect(server, provider))
    server.say("Still clear.")
    assert client.chat("And now?") == "Still clear."
    raw = [node.native.raw for node in second.session.path()]
    assert raw[: len(before)] == before
    assert raw == [one.raw for one in client.history]
    assert second.session == first.session


def test_a_session_is_gone_on_in_with_another_provider(store: clew.Store, server: ProviderServer) -> None:
    """Messages of another provider are converted for the model and stay unchanged in the store."""
    first = SavingMiddleware(store)
    server.say("Rome.")
    first.wrap(connect(server, "claude")).chat("Where?")
    second = SavingMiddleware(store, session=first.session)
    server.say("By train.")
    second.wrap(connect(server, "gemini")).chat("How?")
    assert [node.native.provider for node in second.session.path()] == ["claude", "claude", "gemini", "gemini"]
    assert [one["role"] for one in server.requests[-1].json["contents"]] == ["user", "model", "user"]


def test_a_question_without_an_answer_is_left_behind(store: clew.Store, server: ProviderServer) -> None:
    """Going on in a session begins after its last answer; the open question becomes a branch."""
    session = store.sessions.create()
    session.append([clew.user("One"), clew.assistant("1"), clew.user("Two")])
    saving = SavingMiddleware(store, session=session)
    server.say("3")
    saving.wrap(connect(server)).chat("Three")
    assert [text for _, text in said(saving.session)] == ["One", "1", "Three", "3"]
    assert len(session.branches()) == 1
    assert len(server.requests[0].json["messages"]) == 3


def test_two_talks_in_one_session_lose_nothing(store: clew.Store, server: ProviderServer) -> None:
    """The second writer continues in a fork; both conversations are complete."""
    session = store.sessions.create()
    session.append([clew.user("One"), clew.assistant("1")])
    left, right = (SavingMiddleware(store, session=store.sessions.get(session.id)) for _ in range(2))
    one, two = left.wrap(connect(server)), right.wrap(connect(server))
    one.chat("Left")
    two.chat("Right")
    one.chat("Left again")
    assert left.session == session
    assert right.session.forked_from == session.id
    assert [text for role, text in said(left.session) if role == "user"] == ["One", "Left", "Left again"]
    assert [text for role, text in said(right.session) if role == "user"] == ["One", "Right"]


def test_a_client_that_talked_before_is_stored_whole(store: clew.Store) -> None:
    """Earlier messages of the client are stored with the next question, also after a restore."""
    bare = chat.connect(provider="offline")
    bare.chat("One")
    saving = SavingMiddleware(store)
    client = saving.wrap(bare)
    client.add("Two")
    client.chat("Three")
    assert [text for _, text in said(saving.session)] == ["One", "You said: One", "Two", "Three", "You said: Three"]
    first = saving.session
    client.restore(client.save())
    client.chat("Four")
    assert saving.session != first
    assert len(saving.session.path()) == 7


def test_a_value_is_stored_as_the_answer_it_was(store: clew.Store) -> None:
    """`ask` stores question and answer."""
    saving = SavingMiddleware(store)
    assert saving.wrap(chat.connect(provider="offline")).ask("[1, 2]", list[int]) == [1, 2]
    assert said(saving.session) == [("user", "[1, 2]"), ("assistant", "[1, 2]")]


def test_a_subagent_has_a_linear_trace_of_its_own(store: clew.Store) -> None:
    """Every message of a subagent is labelled; its trace belongs to its parent and is never the latest session."""
    parent = store.sessions.create(cwd="/src")
    parent.append([clew.user("Review it"), clew.assistant("I ask for help.")])
    saving = SavingMiddleware(store, label="subagent:code-review:a1b2c3d4", parent=parent, cwd="/src")
    client = saving.wrap(chat.connect(provider="offline"))
    client.chat("One")
    client.chat("Two")
    trace = saving.session
    assert (trace.agent, trace.labels, trace.owner_id) == ("code-review", ("subagent:code-review:a1b2c3d4",), parent.id)
    assert trace.extra == {"called_at": parent.head_id}
    nodes = trace.path()
    assert [node.message.label for node in nodes] == ["subagent:code-review:a1b2c3d4"] * 4
    assert [node.parent_id for node in nodes] == [None, *(node.id for node in nodes[:-1])]
    assert store.sessions.latest(cwd="/src") == parent
    assert parent.subagents() == [trace]


@pytest.mark.parametrize("label", ["subagent:", "subagent:x", "subagent::1", "subagent:x:", "subagent:x:1:2"])
def test_a_subagent_is_labelled_whole(store: clew.Store, label: str) -> None:
    """A label that begins like a subagent's has a name and a run."""
    with pytest.raises(clew.Invalid, match="subagent:NAME:RUN"):
        SavingMiddleware(store, label=label)


def test_only_a_subagent_has_a_parent(store: clew.Store) -> None:
    """And a parent is a session."""
    with pytest.raises(clew.Invalid, match="parent"):
        SavingMiddleware(store, label="topic", parent=store.sessions.create())
    with pytest.raises(clew.Invalid, match="is a Session, not str"):
        SavingMiddleware(store, session="k3m9qa")


def test_saved_clients_can_do_what_the_client_can(store: clew.Store) -> None:
    """A client that cannot be saved does not look as if it could."""
    saved = SavingMiddleware(store).wrap(chat.connect(provider="offline"))
    assert saved.model == "offline"
    assert isinstance(saved, chat.PersistentChatClient)
    assert isinstance(saved, chat.StreamingChatClient)
    assert not isinstance(
        SavingMiddleware(store).wrap(chat.connect(provider="claude-local")), chat.PersistentChatClient
    )


def test_saves_are_shielded(store: clew.Store) -> None:
    """The caller's shield is entered around every save, and only there."""
    entered: list[str] = []

    class Shield:
        def __enter__(self) -> None:
            entered.append("in")

        def __exit__(self, *_: object) -> None:
            entered.append("out")

    client = SavingMiddleware(store, shield=Shield).wrap(chat.connect(provider="offline"))
    for event in client.stream("Hello"):
        entered.append(type(event).__name__)
    assert entered == ["in", "out", "Text", "Text", "Text", "in", "out", "Reply"]


KILLED = """
import sys, clew
from clew import chat
from clew.chat.recording import SavingMiddleware
with clew.open(sys.argv[1]) as store:
    client = SavingMiddleware(store).wrap(chat.connect(
        provider="claude", model="m", token="t", base_url=sys.argv[2], allow_insecure=True))
    for event in client.stream("Will you remember?"):
        print(event.text, flush=True)
"""


@pytest.mark.checklist("D19")
def test_a_kill_in_the_middle_of_an_answer_leaves_the_question(tmp_path: Path, server: ProviderServer) -> None:
    """The store is clean, has the question, and the conversation can be continued."""
    server.say("One two three", stalls=5)
    path = str(tmp_path / "chats.db")
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, path, server.base_url("claude")], stdout=subprocess.PIPE, env=os.environ
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"One\n"
        running.send_signal(signal.SIGKILL)
    with clew.open(path) as store:
        assert store.verify().ok
        session = store.sessions.latest()
        assert said(session) == [("user", "Will you remember?")]
        SavingMiddleware(store, session=session).wrap(connect(server)).chat("Again")
        assert store.verify().ok


def test_a_session_notes_the_tools_it_is_held_with() -> None:
    """The session stores the current tools, even if there are none; other free data stays."""

    def lookup(word: str) -> str:
        """Looks a word up."""
        return word

    with clew.open(":memory:") as store:
        saving = SavingMiddleware(store)
        client = saving.wrap(chat.connect(provider="offline", tools=[lookup]))
        client.chat("One")
        assert [tool.name for tool in setup_of(saving.session).tools] == ["lookup"]
        saving.session.update(extra={"mine": 1})
        client.chat("Two")
        assert [tool.name for tool in setup_of(saving.session.refresh()).tools] == ["lookup"]
        assert saving.session.refresh().extra["mine"] == 1
        client.set_tools([])
        client.chat("Three")
        assert setup_of(saving.session.refresh()).tools == ()
        assert saving.session.refresh().extra["mine"] == 1
