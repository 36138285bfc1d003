"""`ClewSessionStore`: the SDK's suite, and what it does not test."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")

from claude_agent_sdk import (
    fork_session_via_store,
    get_session_messages_from_store,
    list_sessions_from_store,
    project_key_for_directory,
)
from claude_agent_sdk.testing import run_session_store_conformance

import clew
from clew.adapters.claude import ClewSessionStore
from clew.sources.import_all import import_all
from clew.sources.registry import find
from tests.adapters.claude.entries import SESSION, entry, id, key
from tests.adapters.commands import QUESTION, expect_weather
from tests.adapters.processes import run_together


def test_conformance(opened):
    """All 14 contracts of the SDK's suite hold, and the stores are sound."""
    made = []

    def make():
        made.append(opened(ClewSessionStore))
        return made[-1]

    asyncio.run(run_session_store_conformance(make))
    for one in made:
        assert one.store.verify().ok
        one.close()


def test_a_transcript_is_a_conversation(opened):
    """A transcript is a session under its own id, with roles; other entries come back too, in their place."""
    with opened(ClewSessionStore) as store:
        said = [entry(0, "Why is it red?"), {"type": "queue-operation", "n": 1}, entry(1, "A test fails.")]
        asyncio.run(store.append(key(), said))
        session = store.store.sessions.get(SESSION)
        assert [node.role for node in session.path()] == ["user", "assistant"]
        assert session.cwd == "/work/app"
        assert session.extra["source"]["tool"] == "claude-code"
        assert [node.id for node in session.path()] == [id(0), id(1)]
        assert asyncio.run(store.load(key())) == said
        assert len(store.store.search("red")) == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_whose_answer_is_lost(pg_server, when):
    """Every entry is stored once, also one without a uuid, and the caller never hears of it."""
    from tests.backends.postgres.proxy import Proxy

    proxy = Proxy(pg_server)
    with ClewSessionStore(proxy.url(), timeout=10) as store:
        said = [entry(0, "a"), {"type": "queue-operation", "n": 1}, entry(1, "b"), {"type": "queue-operation", "n": 2}]
        for batch in (said[:2], said[2:]):
            proxy.cut_at(b"COMMIT", when)
            asyncio.run(store.append(key(), batch))
        assert proxy.cuts == 2
        assert asyncio.run(store.load(key())) == said
        assert store.store.verify().ok
    proxy.close()


def test_the_same_uuid_twice(opened):
    """An entry that is sent again is stored once, in one batch, in another, and by another store object."""
    with opened(ClewSessionStore) as store:
        first, second = entry(0, "a"), entry(1, "b")
        asyncio.run(store.append(key(), [first, first]))
        asyncio.run(store.append(key(), [first, second]))
        asyncio.run(ClewSessionStore(store.store).append(key(), [first, second, entry(2, "c")]))
        asyncio.run(store.append(key(), [second, entry(2, "c"), entry(3, "d")]))
        assert [one["uuid"] for one in asyncio.run(store.load(key()))] == [id(number) for number in range(4)]
        assert len(store.store.sessions.get(SESSION).path()) == 4


def test_entries_without_uuid_are_always_stored(opened):
    """Equal entries without a uuid are different entries."""
    with opened(ClewSessionStore) as store:
        asyncio.run(store.append(key(), [{"type": "x"}, {"type": "x"}]))
        asyncio.run(store.append(key(), [{"type": "x"}]))
        assert asyncio.run(store.load(key())) == [{"type": "x"}] * 3


def test_an_import_of_the_file_changes_nothing(tmp_path):
    """The file that Claude Code writes and the mirror of the SDK are the same session with the same messages."""
    said = [entry(0, "héllo"), {"type": "summary", "summary": "s", "leafUuid": id(0)}, entry(1, "b"), entry(2, "c")]
    folder = tmp_path / "projects" / "-work-app"
    folder.mkdir(parents=True)
    lines = [json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in said]
    (folder / f"{SESSION}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with ClewSessionStore(tmp_path / "c.db") as store:
        asyncio.run(store.append(key(), said))
        before = asyncio.run(store.load(key()))
        list(import_all(store.store, find([str(folder)])))
        assert asyncio.run(store.load(key())) == before == said
        assert len(store.store.sessions.list().items) == 1
        asyncio.run(store.append(key(), [entry(3, "d")]))
        assert [node.id for node in store.store.sessions.get(SESSION).path()] == [id(n) for n in range(4)]


def test_a_subagent_is_a_trace(opened):
    """The transcript of a subagent is a trace of the session, also if it comes first."""
    with opened(ClewSessionStore) as store:
        asyncio.run(store.append(key(subpath="subagents/agent-a1"), [entry(10, "look"), entry(11, "found")]))
        assert asyncio.run(store.load(key())) is None
        asyncio.run(store.append(key(), [entry(0, "go")]))
        (trace,) = store.store.sessions.get(SESSION).subagents()
        assert trace.agent == "a1"
        assert len(trace.path()) == 2
        assert store.store.verify().ok


def test_the_helpers_of_the_sdk(tmp_path):
    """Listing, reading and forking with the SDK's own helpers work."""
    directory = str(tmp_path)
    where = {**key(), "project_key": project_key_for_directory(directory)}
    with ClewSessionStore(tmp_path / "c.db") as store:
        asyncio.run(store.append(where, [entry(0, "hello"), entry(1, "hi")]))
        (found,) = asyncio.run(list_sessions_from_store(store, directory=directory))
        assert found.session_id == SESSION
        assert len(asyncio.run(get_session_messages_from_store(store, SESSION, directory=directory))) == 2
        fork = asyncio.run(fork_session_via_store(store, SESSION, directory=directory))
        assert len(asyncio.run(get_session_messages_from_store(store, fork.session_id, directory=directory))) == 2


def test_deleted_transcripts_leave_nothing(tmp_path):
    """After a deletion no file beside the store has a word of the transcript."""
    with ClewSessionStore(tmp_path / "c.db") as store:
        asyncio.run(store.append(key(), [entry(number, f"needle {number}") for number in range(50)]))
        asyncio.run(store.delete(key()))
        assert not [one for one in tmp_path.iterdir() if b"needle" in one.read_bytes()]


def test_a_cancelled_append_is_stored(tmp_path):
    """A task that is cancelled while it appends has stored its entries."""

    async def cancel(store):
        task = asyncio.create_task(store.append(key(), [entry(0, "a")]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with ClewSessionStore(tmp_path / "c.db") as store:
        asyncio.run(cancel(store))
        assert len(asyncio.run(store.load(key()))) == 1


KILLED = """
import asyncio, os, signal, sys
from clew.adapters.claude import ClewSessionStore
from tests.adapters.claude.entries import entry, key
store = ClewSessionStore(sys.argv[1])
async def main():
    await store.append(key(), [entry(0, "a"), entry(1, "b")])
    asyncio.get_running_loop().call_later(0.0005, os.kill, os.getpid(), signal.SIGKILL)
    for number in range(2, 1000, 2):
        await store.append(key(), [entry(number, "c"), entry(number + 1, "d")])
        print(number, flush=True)
asyncio.run(main())
"""


def test_killed_between_batches(killed, tmp_path):
    """Of a killed program every acknowledged batch is there, each batch whole, and the next one continues."""
    acknowledged = killed(KILLED).split()
    with ClewSessionStore(tmp_path / "chats.db") as store:
        found = asyncio.run(store.load(key()))
        assert len(found) % 2 == 0
        assert len(found) >= 2 + 2 * len(acknowledged)
        assert [one["uuid"] for one in found] == [id(number) for number in range(len(found))]
        asyncio.run(store.append(key(), [entry(len(found), "more")]))
        assert len(store.store.sessions.get(SESSION).path()) == len(found) + 1
        assert store.store.verify().ok


def mirror(path, start):
    """Appends twenty batches of one entry without parents."""
    with ClewSessionStore(path) as store:
        for number in range(start, start + 20):
            asyncio.run(store.append(key(), [{**entry(number, "x"), "parentUuid": None}, {"type": "mark"}]))


def test_two_processes(tmp_path):
    """Two processes that append to one transcript lose nothing, and each keeps its order."""
    path = run_together(mirror, tmp_path / "c.db", (0, 100))
    with ClewSessionStore(path) as store:
        found = asyncio.run(store.load(key()))
        assert len(found) == 80
        said = [one["uuid"] for one in found if "uuid" in one]
        for start in (0, 100):
            mine = [id(number) for number in range(start, start + 20)]
            assert [one for one in said if one in mine] == mine
        assert store.store.verify().ok


def test_trash(tmp_path):
    """A transcript in the trash is not appended to: nothing is lost by mistake."""
    with ClewSessionStore(tmp_path / "c.db") as store:
        asyncio.run(store.append(key(), [entry(0, "a")]))
        store.store.sessions.trash(SESSION)
        with pytest.raises(clew.ClewError):
            asyncio.run(store.append(key(), [entry(1, "b")]))


def test_in_the_command_line(opened):
    """A transcript with a tool call is listed, found, shown, redacted and purged."""
    call = {"type": "tool_use", "id": "1", "name": "weather", "input": {"city": "Turin"}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": "sunny"}
    said = [entry(0, QUESTION), entry(1, ""), entry(2, "", role="user"), entry(3, "It is sunny.")]
    said[1]["message"]["content"] = [call]
    said[2]["message"]["content"] = [result]
    with opened(ClewSessionStore) as store:
        asyncio.run(store.append(key(), said))
    expect_weather(opened)


def test_an_import_before_the_mirror(tmp_path):
    """A session that was imported is continued by the mirror, and a resumed copy of it shares its messages."""
    said = [entry(0, "a"), entry(1, "b")]
    folder = tmp_path / "projects" / "-work-app"
    folder.mkdir(parents=True)
    (folder / f"{SESSION}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in said), encoding="utf-8")
    with ClewSessionStore(tmp_path / "c.db") as store:
        list(import_all(store.store, find([str(folder)])))
        asyncio.run(store.append(key(), [*said, entry(2, "c")]))
        assert asyncio.run(store.load(key())) == [*said, entry(2, "c")]
        copy = {"project_key": "-work-app", "session_id": "8d9f2c58-1d0f-4a57-9a57-0f5a3c1f2b10"}
        asyncio.run(store.append(copy, [*said, {**entry(3, "other"), "parentUuid": id(1)}]))
        assert len(store.store.nodes.list().items) == 4
        assert [node.id for node in store.store.sessions.get(copy["session_id"]).path()] == [id(0), id(1), id(3)]
        assert [node.id for node in store.store.sessions.get(SESSION).path()] == [id(0), id(1), id(2)]
        assert store.store.verify().ok
