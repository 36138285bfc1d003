"""One conversation in every way it can be continued, and the request that each ends in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import clew
from clew import chat
from clew.chat import Tool
from clew.chat.recording import SavingMiddleware, resume
from clew.convert import convert, convert_session
from clew.snapshots import FileStore, ObjectStore, Snapshot, generate_key
from clew.testing.providers import ProviderServer, ToolUse

PROVIDERS = ("claude", "openai", "openai-responses", "openai-compatible", "gemini")
KEY = generate_key()
PICTURE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="
_AROUND = {
    "claude": ("system", "tools"),
    "openai": ("tools",),
    "openai-responses": ("tools",),
    "openai-compatible": ("tools",),
    "gemini": ("systemInstruction", "tools"),
}
_MESSAGES = {"claude": "messages", "openai-responses": "input", "gemini": "contents"}


class Turn(NamedTuple):
    """A question, and how the model comes to its answer."""

    question: str
    answer: str
    picture: bool = False
    calls: int = 0
    thinking: str = ""


class Script(NamedTuple):
    """A conversation to be held."""

    provider: str
    system: str = ""
    tools: tuple[str, ...] = ()
    turns: tuple[Turn, ...] = ()


class Way(NamedTuple):
    """A step on the way from where a conversation is to where it is next: a store, a session, another process."""

    kind: str
    place: str = ""


def tool(name: str) -> Tool:
    """A tool whose description and arguments tell it from the others."""
    schema = {"type": "object", "properties": {name: {"type": "string"}}}
    return Tool(lambda **given: f"{name} says {given}", name=name, description=f"It does {name}.", parameters=schema)


def connect(server: ProviderServer, provider: str, **settings: Any) -> chat.Client:
    client = chat.connect(
        provider, "a-model", token="a-token", max_retries=0, base_url=server.base_url(provider), allow_insecure=True,
        **settings,
    )  # fmt: skip
    assert isinstance(client, chat.Client)
    return client


def hold(server: ProviderServer, store: clew.Store, script: Script) -> tuple[chat.Client, clew.Session]:
    """Holds a conversation; the client that held it, and the session it is in."""
    bare = connect(server, script.provider, system=script.system, tools=[tool(name) for name in script.tools])
    saving = SavingMiddleware(store)
    client = saving.wrap(bare)
    for turn in script.turns:
        if turn.calls and script.tools:
            calls = [ToolUse(script.tools[at % len(script.tools)], {"at": at}, f"id{at}") for at in range(turn.calls)]
            server.say("One moment.", thinking=turn.thinking, calls=calls)
        server.say(turn.answer, thinking=turn.thinking)
        client.chat(_question(bare, turn))
    assert saving.session is not None
    return bare, saving.session


def _question(client: chat.Client, turn: Turn) -> Any:
    if not turn.picture:
        return turn.question
    from clew.convert import convert_messages

    shown = clew.Media(mime_type="image/png", modality="image", url=PICTURE)
    return convert_messages([clew.user(clew.Text(text=turn.question), shown)], to=client.provider).natives()[-1]


def request(server: ProviderServer, client: chat.Client) -> dict[str, Any]:
    """The request for one more question of the original client: the expected result."""
    before = len(server.requests)
    server.say("Yes.")
    client.chat("Still there?")
    assert len(server.requests) == before + 1
    asked = server.requests[-1].json
    names = (*_AROUND[client.provider], _MESSAGES.get(client.provider, "messages"))
    return {name: asked.get(name) for name in names}


class Journey:
    """A conversation on its way; it is a session or a snapshot at each moment."""

    def __init__(self, store: clew.Store, folder: Path, session: clew.Session) -> None:
        self.store = store
        self.folder = folder
        self.at: clew.Session | Snapshot = session

    def go(self, way: Way) -> None:
        """Takes a step. One that cannot be taken from here leaves it where it is."""
        if isinstance(self.at, clew.Session):
            self.at = self._from_session(self.at, way)
        else:
            self.at = self._from_snapshot(self.at, way)

    def arrive(self, server: ProviderServer, provider: str, tools: Sequence[str]) -> chat.Client:
        """A new client that has the conversation, with the tools' functions if they are given."""
        client = connect(server, provider)
        if isinstance(self.at, clew.Session):
            resume(client, self.at)
        else:
            client.restore(self.at, convert=True)
        if tools:
            client.set_tools([tool(name) for name in tools])
        return client

    def _from_session(self, session: clew.Session, way: Way) -> clew.Session | Snapshot:
        if way.kind == "take":
            return self.store.snapshots.load(self.store.snapshots.take(session).id)
        if way.kind == "fork":
            return session.fork()
        if way.kind == "convert":
            return convert_session(self.store, session, to=way.place, model="a-model").session
        return session

    def _from_snapshot(self, snapshot: Snapshot, way: Way) -> clew.Session | Snapshot:
        if way.kind == "resume":
            self.store.snapshots.save(snapshot)
            return self.store.snapshots.resume(snapshot.id)
        if way.kind == "store":
            place = PLACES[way.place](self)
            place.save(snapshot)
            return place.load(snapshot.id)  # type: ignore[no-any-return]
        if way.kind == "document":
            return Snapshot.from_json(snapshot.to_json())
        if way.kind == "convert":
            return convert(snapshot, way.place, model="a-model").snapshot
        return snapshot


PLACES: dict[str, Callable[[Journey], Any]] = {
    "folder": lambda journey: FileStore(str(journey.folder / "plain")),
    "sealed": lambda journey: FileStore(str(journey.folder / "sealed"), KEY),
    "bucket": lambda journey: ObjectStore(f"file://{journey.folder}/bucket"),
    "clew": lambda journey: journey.store.snapshots,
}
