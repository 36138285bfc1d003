"""Autosave: after each answer, at the end, and when the program fails."""

from __future__ import annotations

import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import pytest

import clew
from clew import chat
from clew.chat import aio
from clew.chat.recording import autosave
from clew.errors import Invalid, StorageFull
from clew.snapshots import FileStore, Messages, Snapshot, SnapshotStore, new_snapshot
from clew.snapshots.file_store import MemoryFiles
from tests.reliability.tools import output, python


@runtime_checkable
class Talks(Protocol):
    def chat(self, prompt: str) -> str: ...
    def save(self) -> Snapshot: ...

    @property
    def usage(self) -> int: ...


class Client:
    """A client that echoes its input; without an id, it creates one at each save."""

    def __init__(self, id: str | None = None) -> None:
        self.id = id
        self.messages = Messages()
        self.system = ""
        self.left = False

    def _say(self, role: str, text: str) -> None:
        self.messages.append(b'{"role":"%s","content":"%s"}' % (role.encode(), text.encode()))

    @property
    def usage(self) -> int:
        return len(self.messages)

    def add(self, prompt: str) -> None:
        self._say("user", prompt)

    def chat(self, prompt: str) -> str:
        self._say("user", prompt)
        if prompt == "fail":
            raise RuntimeError("no answer")
        self._say("assistant", prompt)
        return prompt

    def stream(self, prompt: str) -> Iterator[str]:
        self._say("user", prompt)
        got = ""
        try:
            for letter in prompt:
                got += letter
                yield letter
        finally:
            self._say("assistant", got)

    def save(self) -> Snapshot:
        made = new_snapshot(provider="claude", system_prompt=self.system, messages=self.messages)
        return made if self.id is None else made.replace(id=self.id)

    def restore(self, snapshot: Snapshot) -> None:
        self.messages = Messages(snapshot.parts)
        self.id = None if self.id is None else snapshot.id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.left = True


class AsyncClient(Client):
    async def chat(self, prompt: str) -> str:  # type: ignore[override]
        return super().chat(prompt)

    async def stream(self, prompt: str) -> AsyncIterator[str]:  # type: ignore[override]
        pieces = super().stream(prompt)
        try:
            for letter in pieces:
                yield letter
        finally:
            pieces.close()  # type: ignore[attr-defined]


@pytest.fixture
def store() -> FileStore:
    return FileStore("/talks", fs=MemoryFiles())


@pytest.fixture(params=[None, "7d444840-9dc0-41d1-b245-5ffdce74fad2"])
def client(request: pytest.FixtureRequest) -> Client:
    return Client(request.param)


def saved(store: SnapshotStore) -> list[int]:
    """The number of messages of each snapshot."""
    return [one.message_count for one in store.list()]


def offline() -> chat.Client:
    """A client that needs no key."""
    made = chat.connect(provider="offline")
    assert isinstance(made, chat.Client)
    return made


def test_each_answer_is_saved(client: Client, store: FileStore) -> None:
    """A conversation has one snapshot, even if its client creates a new id at each save."""
    talk = autosave(client, store)
    assert saved(store) == []
    for turn in range(1, 4):
        assert talk.chat("hello") == "hello"
        assert saved(store) == [2 * turn]
    if client.id is not None:
        assert store.list()[0].id == client.id


def test_an_id_of_ones_own(client: Client, store: FileStore) -> None:
    """The snapshot has the id that is asked for."""
    id = str(uuid.uuid4())
    talk = autosave(client, store, id=id)
    talk.chat("hello")
    talk.restore(new_snapshot(provider="claude", messages=b"[1]"))
    talk.chat("hello")
    assert [one.id for one in store.list()] == [id]


def test_every_so_many(client: Client, store: FileStore) -> None:
    """With every=3 each third answer is saved, and the rest at the end of the block."""
    with autosave(client, store, every=3) as talk:
        seen = []
        for _ in range(7):
            talk.chat("hello")
            seen.append(saved(store))
    assert seen == [[], [], [6], [6], [6], [12], [12]]
    assert saved(store) == [14]
    assert client.left


def test_a_block_without_answers_saves_nothing(client: Client, store: FileStore) -> None:
    """A client that was not asked anything leaves no snapshot behind."""
    with autosave(client, store):
        pass
    assert saved(store) == []


def test_a_stream_is_saved_at_its_end(client: Client, store: FileStore) -> None:
    """A stream that is not read to its end is saved as far as it arrived."""
    talk = autosave(client, store)
    assert "".join(talk.stream("hello")) == "hello"
    assert saved(store) == [2]
    pieces = talk.stream("again")
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    assert store.load(store.list()[0].id).parts[-1] == b'{"role":"assistant","content":"a"}'


def test_what_was_said_before_an_error_is_saved(client: Client, store: FileStore) -> None:
    """The caller hears of the error of the answer."""
    talk = autosave(client, store)
    with pytest.raises(RuntimeError, match="no answer"):
        talk.chat("fail")
    assert saved(store) == [1]


def test_a_save_that_fails(client: Client) -> None:
    """The error is raised, the answer stays in the conversation, and the next save has both."""

    class Full(FileStore):
        full = True

        def save(self, snapshot: Snapshot) -> None:
            if self.full:
                raise StorageFull("no space")
            super().save(snapshot)

    store = Full("/talks", fs=MemoryFiles())
    talk = autosave(client, store)
    with pytest.raises(StorageFull):
        talk.chat("one")
    with pytest.raises(RuntimeError, match="no answer"):
        talk.chat("fail")
    store.full = False
    talk.chat("two")
    assert saved(store) == [5]


def test_a_restore_is_followed(client: Client, store: FileStore) -> None:
    """After another conversation was restored, that one is saved, under its own id."""
    talk = autosave(client, store)
    talk.chat("one")
    other = new_snapshot(provider="claude", messages=b'[{"role":"user","content":"earlier"}]')
    store.save(other)
    talk.restore(other)
    talk.chat("two")
    talk.chat("three")
    assert sorted(saved(store)) == [2, 5]
    assert store.load(other.id).message_count == 5


def test_it_is_the_client_in_all_else(client: Client, store: FileStore) -> None:
    """It has the client's names, passes what is set on to it, and is what the client is to isinstance."""
    talk = autosave(client, store)
    assert isinstance(talk, Talks)
    talk.add("hello")
    assert talk.usage == client.usage == 1
    talk.system = "Be brief."
    assert client.system == "Be brief."
    assert saved(store) == []
    assert repr(talk) == f"<SavedClient {client!r}>"
    with pytest.raises(AttributeError):
        _ = talk.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", [{"every": 0}, {"every": "daily"}, {"id": "../x"}])
def test_what_it_takes(client: Client, store: FileStore, wrong: dict[str, Any]) -> None:
    """A client that can be saved, and a number of answers."""
    with pytest.raises(Invalid):
        autosave(client, store, **wrong)
    with pytest.raises(Invalid, match="cannot be saved"):
        autosave(object(), store)  # type: ignore[type-var]
    with pytest.raises(Invalid, match="cannot store snapshots"):
        autosave(client, None)  # type: ignore[arg-type]


# -- async


@pytest.mark.anyio
@pytest.mark.parametrize("id", [None, "7d444840-9dc0-41d1-b245-5ffdce74fad2"])
async def test_an_async_client(store: FileStore, id: str | None) -> None:
    """Answers that are awaited are saved, too, in a thread; so are streams, and the rest at the end of the block."""
    async with autosave(AsyncClient(id), store, every=2) as talk:  # type: ignore[attr-defined]
        assert await talk.chat("one") == "one"
        assert saved(store) == []
        assert "".join([piece async for piece in talk.stream("two")]) == "two"
        assert saved(store) == [4]
        with pytest.raises(RuntimeError):
            await talk.chat("fail")
    assert saved(store) == [5]


@pytest.mark.anyio
async def test_an_async_stream_that_nobody_hears_out(store: FileStore) -> None:
    """The partial answer is saved."""
    pieces = autosave(AsyncClient(), store).stream("hello")
    assert await anext(pieces) == "h"
    await pieces.aclose()  # type: ignore[attr-defined]
    assert store.load(store.list()[0].id).parts[-1] == b'{"role":"assistant","content":"h"}'


@pytest.mark.anyio
async def test_an_async_store(store: FileStore) -> None:
    """A store that is awaited is awaited; and it has the same methods as the one in threads."""
    from clew.aio.snapshots import InThreads

    threads = InThreads(store)
    talk = autosave(AsyncClient(), threads)
    await talk.chat("one")
    (one,) = await threads.list()
    assert (await threads.load(one.id)).message_count == 2
    await threads.delete(one.id)
    assert await threads.list() == []
    assert repr(threads) == "<async <FileStore /talks>>"
    with pytest.raises(Invalid, match="async"):
        autosave(Client(), threads).chat("hello")


@pytest.mark.anyio
async def test_a_cancelled_answer(store: FileStore) -> None:
    """A task that is cancelled in the middle of an answer has saved what arrived."""
    import anyio

    class Slow(AsyncClient):
        async def chat(self, prompt: str) -> str:  # type: ignore[override]
            self._say("user", prompt)
            await anyio.sleep_forever()
            return ""

    talk = autosave(Slow(), store)
    with anyio.move_on_after(0.05):
        await talk.chat("hello")
    assert saved(store) == [1]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# -- with a client of clew.chat


def test_a_stream_is_saved_before_its_reply_is_seen(store: FileStore) -> None:
    """A caller that has the whole answer finds it in the store, even if the program ends there."""
    talk = autosave(offline(), store)
    for event in talk.stream("hello"):
        assert saved(store) == ([2] if isinstance(event, chat.Reply) else [])
    stream = talk.stream("again")
    assert isinstance(next(stream), clew.Text)
    stream.close()
    assert saved(store) == [4]


def test_a_reply_that_cannot_be_saved(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is raised in place of the reply; the answer stays in the conversation."""
    talk = autosave(offline(), store)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryFiles, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "no space")))
        with pytest.raises(StorageFull):
            list(talk.stream("hello"))
    assert len(talk.history) == 2
    talk.chat("and on")
    assert saved(store) == [4]


@pytest.mark.anyio
async def test_an_async_stream_is_one_of_the_clients(store: FileStore) -> None:
    """It is a context manager, too; and its reply is saved before it is seen."""
    async with autosave(aio.connect(provider="offline"), store) as talk:
        async with talk.stream("hello") as events:
            async for event in events:
                assert saved(store) == ([2] if isinstance(event, chat.Reply) else [])
        async with talk.stream("a longer one") as events:
            assert isinstance(await anext(events), clew.Text)
        assert saved(store) == [4]
        assert isinstance(talk, chat.AsyncStreamingChatClient)


# -- whatever becomes of the program

PROGRAM = """
import sys
import clew
from clew.chat.recording import autosave
from clew.snapshots import FileStore
from tests.snapshots.test_autosave import Client

kind, path, every = sys.argv[1:4]
store = clew.open(path).snapshots if kind == "store" else FileStore(path)
talk = autosave(Client(), store, every=int(every), id="7d444840-9dc0-41d1-b245-5ffdce74fad2")
for number in range(int(sys.argv[4])):
    talk.chat(str(number))
    print(number, flush=True)
"""


@pytest.mark.parametrize("kind", ["files", "store"])
def test_a_killed_program(tmp_path: Path, kind: str) -> None:
    """Every answer that was seen before the program was killed is in the snapshot."""
    path = tmp_path / "talks.db"
    for _ in range(3):
        running = python(PROGRAM, kind, path, "1", "1000000")
        assert running.stdout is not None
        heard = [int(running.stdout.readline()) for _ in range(20)][-1]
        running.send_signal(signal.SIGKILL)
        rest = running.communicate()[0].split()
        heard = int(rest[-1]) if rest else heard
        opened = clew.open(path) if kind == "store" else None
        store: SnapshotStore = FileStore(path) if opened is None else opened.snapshots
        answers = store.load("7d444840-9dc0-41d1-b245-5ffdce74fad2").parts[1::2]
        assert len(answers) >= heard + 1
        assert answers[heard] == b'{"role":"assistant","content":"%d"}' % heard
        if opened is not None:
            assert not opened.verify().damage
            opened.close()


def test_a_program_that_ends(tmp_path: Path) -> None:
    """Unsaved answers are saved when the program ends, also without a block."""
    assert output(python(PROGRAM, "files", tmp_path, "100", "7")).split()[-1] == "6"
    assert saved(FileStore(tmp_path)) == [14]
