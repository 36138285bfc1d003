"""What `clew chat -c` continues: exactly what is named, with the model and at the address it was held with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import clew
from clew.store.setup import Setup, setup_of, with_setup
from clew.testing.providers import ProviderServer

KEYS = {"claude": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}
ADDRESSES = {"claude": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL", "gemini": "GOOGLE_GEMINI_BASE_URL"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    """A provider of each kind that the environment names."""
    with ProviderServer() as server:
        for provider, variable in KEYS.items():
            monkeypatch.setenv(variable, "a-token")
            monkeypatch.setenv(ADDRESSES[provider], server.base_url(provider))
        yield server


def said(db: str, key: str) -> list[str]:
    with clew.open(db) as store:
        return [node.text for node in store.sessions.get(key).path()]


def handle(err: str) -> str:
    """The session that a command names on stderr."""
    return next(line.split()[1] for line in err.splitlines() if line.startswith("conversation "))


def words(server: ProviderServer) -> list[str]:
    """The texts of the last request to Claude."""
    found = []
    for message in server.requests[-1].json["messages"]:
        content = message["content"]
        found += [content] if isinstance(content, str) else [block["text"] for block in content]
    return found


def test_it_continues_from_exactly_the_message_named(clew_cli, db, server):
    """A question that is named is sent and kept before the next one, in a session whose handle is printed."""
    first = handle(clew_cli("chat", "-m", "claude/m", "-s", "Be brief.", "One").err)
    clew_cli("chat", "-c", first, "Two")
    shown = clew_cli("show", first, "--json").json["messages"]
    question = next(one for one in shown if one["text"] == "Two")
    done = clew_cli("chat", "-c", question["handle"], "More of it")
    assert done.code == 0, done.err
    assert words(server) == ["One", "You said: One", "Two", "More of it"]
    assert server.requests[-1].json["system"] == "Be brief."
    made = handle(done.err)
    assert said(db, made) == ["Be brief.", "One", "You said: One", "Two", "More of it", done.out.strip()]
    assert said(db, first) == ["Be brief.", "One", "You said: One", "Two", "You said: Two"]
    with clew.open(db) as store:
        assert store.sessions.get(made).path()[:4] == store.sessions.get(first).path()[:4]
        assert store.sessions.get(made).forked_from == store.sessions.get(first).id


def test_the_first_question_can_be_named(clew_cli, db, server):
    """It is not dropped, and the conversation does not begin anew."""
    first = handle(clew_cli("chat", "-m", "claude/m", "One").err)
    question = clew_cli("show", first, "--json").json["messages"][0]
    made = handle(clew_cli("chat", "-c", question["handle"], "More of it", "-m", "claude/m").err)
    assert words(server) == ["One", "More of it"]
    assert said(db, made)[:2] == ["One", "More of it"]


def test_a_last_question_that_is_named_is_kept(clew_cli, db, server):
    """One that got no answer is continued from in its own session."""
    server.fail(401)
    clew_cli("chat", "-m", "claude/m", "Lost")
    with clew.open(db) as store:
        (session,) = store.sessions.list().items
        question = session.path()[-1].handle
    assert clew_cli("chat", "-m", "claude/m", "-c", question, "Again").code == 0
    assert words(server) == ["Lost", "Again"]
    assert said(db, session.id)[:2] == ["Lost", "Again"]


def test_a_rewind_to_a_question_keeps_it(clew_cli, db, server):
    """What /rewind names is continued from, too."""
    from clew.cli.chat import models
    from clew.cli.chat.conversation import ChatSession
    from clew.cli.chat.interrupts import Interrupts

    with clew.open(":memory:") as store:
        talk = ChatSession(store, models.parse("claude/m"), Interrupts())
        for question in ("One", "Two"):
            list(talk.ask(question))
        talk.rewind(talk.questions()[-1].id)
        list(talk.ask("More of it"))
        assert words(server) == ["One", "You said: One", "Two", "More of it"]
        talk.close()


@pytest.mark.parametrize("provider", KEYS)
def test_offline_never_answers_for_a_model(clew_cli, db, server, provider, monkeypatch):
    """A session that was held with a model is not continued without its API key, which the error names."""
    first = handle(clew_cli("chat", "-m", f"{provider}/m", "One").err)
    before = said(db, first)
    question = clew_cli("show", first, "--json").json["messages"][0]["handle"]
    for variable in KEYS.values():
        monkeypatch.delenv(variable)
    for args in ([], ["-c", first], ["-c", question], ["-m", "offline"], ["-m", "offline", "-c", first]):
        done = clew_cli("chat", *args, "Two")
        assert (done.code, done.out) == (1, ""), args
        assert KEYS[provider] in done.err
    assert said(db, first) == before
    with clew.open(db) as store:
        assert len(store.sessions.list().items) == 1  # not even a fork
    assert clew_cli("chat", "-n", "Two").out == "You said: Two\n"


def test_a_session_continues_with_its_own_provider(clew_cli, server):
    """Also if another one's API key would be found first, and whatever the settings say."""
    first = handle(clew_cli("chat", "-m", "gemini/m", "One").err)
    clew_cli("chat", "-n", "-m", "openai/m", "Other")
    assert clew_cli("chat", "-c", first, "Two", env={"CLEW_MODEL": "claude/x"}).code == 0
    assert "/models/m:" in server.requests[-1].path


def test_a_session_continues_at_its_own_address(clew_cli, server, monkeypatch):
    """One that was held with a server of one's own goes there and nowhere else; one with the provider stays there."""
    for variable in (*KEYS.values(), *ADDRESSES.values()):
        monkeypatch.delenv(variable, raising=False)
    there = {"CLEW_BASE_URL": server.base_url("openai-compatible")}
    first = handle(clew_cli("chat", "-m", "openai-compatible/m", "One", env=there).err)
    assert clew_cli("chat", "-c", first, "Two", env=there).code == 0
    assert len(server.requests) == 2
    for other in ({}, {"CLEW_BASE_URL": "https://models.internal/v1"}):
        done = clew_cli("chat", "-c", first, "Three", env=other)
        assert (done.code, done.out) == (1, "")
        assert f"CLEW_BASE_URL={server.base_url('openai-compatible')}" in done.err
    with ProviderServer() as another:
        there = {"CLEW_BASE_URL": another.base_url("openai-compatible")}
        assert clew_cli("chat", "-c", first, "-m", "openai-compatible/n", "Three", env=there).code == 0
        assert clew_cli("chat", "-c", first, "Four", env=there).code == 0
        assert [request.json["model"] for request in another.requests] == ["n", "n"]


def test_a_store_does_not_say_where_requests_go(clew_cli, db, server, monkeypatch):
    """An address in a session is compared with the settings, and gets neither a question nor an API key by itself."""
    first = handle(clew_cli("chat", "-m", "claude/m", "One").err)
    with ProviderServer() as hostile:
        with clew.open(db) as store:
            session = store.sessions.get(first)
            session.update(extra=with_setup(session.extra, Setup(provider="claude", base_url=hostile.url)))
            assert setup_of(session.refresh()).base_url == hostile.url
        done = clew_cli("chat", "-c", first, "Two")
        assert done.code == 1
        assert "at another address" in done.err
        assert hostile.requests == []
    assert len(server.requests) == 1


def test_http_in_a_private_network(clew_cli, server, monkeypatch):
    """A flag allows it, and the error names the flag; no setting does."""
    url = server.base_url("openai-compatible").replace("127.0.0.1", "127.1")
    monkeypatch.setenv("CLEW_BASE_URL", url)
    monkeypatch.setenv("CLEW_ALLOW_INSECURE", "1")
    asked = ["-n", "-m", "openai-compatible/m", "Hello"]
    done = clew_cli("chat", *asked)
    assert (done.code, done.out) == (1, "")
    assert "--allow-insecure" in done.err
    assert url not in done.err
    assert clew_cli("chat", "--allow-insecure", *asked).out == "You said: Hello\n"
    assert clew_cli("run", "--as", "a", "--allow-insecure", *asked[1:]).out == "You said: Hello\n"
    assert clew_cli("config", "set", "allow_insecure", "true").code != 0


def test_what_a_provider_refuses_is_shown(clew_cli, server):
    """The provider's explanation is on the screen, without what a terminal would obey."""
    server.fail(400, "Rate limit\x1b[31m of your plan")
    done = clew_cli("chat", "-m", "claude/m", "Hello")
    assert "Rate limit [31m of your plan" in done.err


@pytest.mark.parametrize("provider", KEYS)
def test_a_chat_is_saved_and_restored(clew_cli, server, provider):
    """The system prompt goes along: chat, snapshot, session, chat send the same."""
    first = handle(clew_cli("chat", "-m", f"{provider}/m", "-s", "Be brief.", "One").err)
    done = clew_cli("snapshot", "save", first)
    assert done.code == 0, done.err
    assert clew_cli("snapshot", "ls", "--json").json[0]["provider"] == provider
    session = clew_cli("snapshot", "restore", done.out.strip()).out.strip()
    for key in (first, session):
        assert clew_cli("chat", "-c", key, "Two").code == 0
    one, two = (request.json for request in server.requests[-2:])
    assert one == two
    assert "Be brief." in server.requests[-1].body.decode()


def test_a_session_of_several_providers_is_converted(clew_cli, server):
    """The error names the flag that makes a snapshot of it."""
    first = handle(clew_cli("chat", "-m", "claude/m", "-s", "Be brief.", "One").err)
    clew_cli("chat", "-c", first, "-m", "gemini/m", "Two")
    done = clew_cli("snapshot", "save", first)
    assert done.code == 1
    assert done.err.endswith("with --to: for example, --to claude\n")
    done = clew_cli("snapshot", "save", first, "--to", "openai")
    assert done.code == 0, done.err
    shown = clew_cli("snapshot", "show", done.out.strip()).out
    assert shown.count("Be brief.") == 1
    assert [word in shown for word in ("One", "Two")] == [True, True]
    assert len(clew_cli("ls", "--json").json["sessions"]) == 1


def test_anthropic_is_claude(clew_cli, server, monkeypatch):
    """By either name it is the same provider: of a model, of a setting, of messages."""
    first = handle(clew_cli("chat", "-m", "anthropic/m", "One").err)
    assert clew_cli("chat", "-n", "Two", env={"CLEW_PROVIDER": "anthropic"}).code == 0
    assert [request.path for request in server.requests] == ["/v1/messages"] * 2
    line = (
        '{"provider": "anthropic", "raw": "{\\"role\\":\\"assistant\\",\\"content\\":\\"Yes.\\",\\"model\\":\\"m\\"}"}'
    )
    assert clew_cli("append", first, input=line).code == 0
    assert clew_cli("snapshot", "save", first).code == 0


def test_a_wrong_address_is_named_before_a_missing_api_key(clew_cli, monkeypatch):
    """A base URL with a user in it is the error, also where no API key is set."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    done = clew_cli("chat", "-m", "claude/m", "Hello", env={"CLEW_BASE_URL": "https://user@api.anthropic.test"})
    assert done.code != 0
    assert "contains a user name" in done.err
    assert "ANTHROPIC_API_KEY" not in done.err
