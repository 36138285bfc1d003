"""The Claude Agent SDK: a project reaches its own transcripts only, imported ones included."""

from __future__ import annotations

import asyncio
import json
import uuid

import pytest

pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")

from claude_agent_sdk import project_key_for_directory

import clew
from clew.adapters.claude import ClewSessionStore
from clew.adapters.keyed import Keyed
from clew.sources.importer import import_item
from clew.sources.items import items
from clew.sources.registry import find
from tests.adapters.claude.entries import SESSION, entry
from tests.adapters.tenants import check, workspaces


def names(key):
    found = {"project_key": key[0], "session_id": key[1]}
    return found if len(key) == 2 else {**found, "subpath": key[2]}


class Transcripts:
    """Transcripts by project and session. All tenants have the same ids of entries."""

    def __init__(self, store):
        self._store = ClewSessionStore(store)

    def write(self, key, text, *, new):
        before = asyncio.run(self._store.load(names(key)))
        assert (before is None) == new
        at = str(uuid.uuid5(uuid.NAMESPACE_OID, str(len(before or ()))))
        line = {**entry(0, text), "uuid": at, "parentUuid": before[-1]["uuid"] if before else None}
        asyncio.run(self._store.append(names(key), [line]))

    def read(self, key):
        found = asyncio.run(self._store.load(names(key)))
        listed = [one["session_id"] for one in asyncio.run(self._store.list_sessions(key[0]))]
        assert (key[1] in listed) == (found is not None)
        assert {one["session_id"] for one in asyncio.run(self._store.list_session_summaries(key[0]))} == {*listed}
        return None if found is None else [one["message"]["content"] for one in found]

    def delete(self, key):
        asyncio.run(self._store.delete(names(key)))


class Subagents(Transcripts):
    """Transcripts of subagents, each by project, session and subpath."""

    def read(self, key):
        found = asyncio.run(self._store.load(names(key)))
        assert (key[2] in asyncio.run(self._store.list_subkeys(names(key[:2])))) == (found is not None)
        return None if found is None else [one["message"]["content"] for one in found]


PATHS = ["a", "subagents/agent-a", "subagents/x/agent-a", "a (2)", "subagents/a", "A", "agent-a"]


@pytest.mark.parametrize("seed", range(3))
def test_tenants(opened, seed):
    """No call for one project and session reaches those of another one, in any workspace."""
    stores = workspaces(opened)
    check(stores, Transcripts, 2, seed=seed, steps=60)
    for store in stores.values():
        store.close()


def test_subagents(opened):
    """No call for one subagent reaches another one."""
    stores = workspaces(opened, ("", "two"))
    check(stores, Subagents, 3, seed=3, steps=100, parts=PATHS)
    for store in stores.values():
        store.close()


def test_another_project_does_not_reach_imported_and_native_sessions(opened, tmp_path):
    """The UUID of an imported or a native session gives another project nothing; its own project has the import."""
    stores = workspaces(opened, ("",))
    store, work = stores[""], tmp_path / "app"
    work.mkdir()
    file = tmp_path / "projects" / "x" / f"{SESSION}.jsonl"
    file.parent.mkdir(parents=True)
    lines = [{**entry(number, f"secret {number}"), "cwd": str(work)} for number in range(3)]
    file.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    ((item,), (found,)) = items(str(file)), find([str(file)])
    import_item(store, found.source, item)
    chat = store.sessions.create()
    chat.append(clew.user("private"))
    adapter = ClewSessionStore(store)

    async def run():
        for id in (SESSION, chat.id):
            other = {"project_key": "evil-project", "session_id": id}
            assert await adapter.load(other) is None
            await adapter.delete(other)
            await adapter.append(other, [{**entry(9, "injected"), "parentUuid": None}])
            assert [one["message"]["content"] for one in await adapter.load(other)] == [
                [{"type": "text", "text": "injected"}]
            ]
            await adapter.delete(other)
            assert await adapter.list_subkeys(other) == []
        own = {"project_key": project_key_for_directory(work), "session_id": SESSION}
        assert len(await adapter.load(own)) == 3
        await adapter.append(own, [{**entry(3, "more"), "cwd": str(work)}])
        assert len(await adapter.load(own)) == 4

    asyncio.run(run())
    assert [node.text for node in chat.path()] == ["private"]
    assert chat.extra == {}
    assert [node.text for node in store.sessions.get(SESSION).path()][-1] == "more"
    assert store.verify().ok
    store.close()


def line(text):
    return {**entry(0, text), "uuid": str(uuid.uuid4())}


def test_a_transcript_is_found_after_another_was_deleted(opened):
    """A transcript that got another id, because its own was taken, is found whatever is deleted or written later."""
    (store,) = workspaces(opened, ("",)).values()
    adapter = ClewSessionStore(store)
    for read, keys in (
        (Transcripts(store).read, [("p", SESSION), ("q", SESSION), ("q", SESSION.upper())]),
        (Subagents(store).read, [("p", "s", one) for one in ("subagents/agent-a", "subagents/x/agent-a", "a")]),
    ):
        for key in keys:
            asyncio.run(adapter.append(names(key), [line(str(key))]))
        for gone in keys[:2]:
            asyncio.run(adapter.delete(names(gone)))
            assert read(keys[2]) == [str(keys[2])]
        asyncio.run(adapter.append(names(keys[0]), [line("again")]))
        assert read(keys[0]) == ["again"]
        assert read(keys[1]) is None
        assert read(keys[2]) == [str(keys[2])]
    assert store.verify().ok
    store.close()


def test_a_subagent_without_a_name(opened):
    """A subagent whose path ends with no name is not the main transcript."""
    with opened(ClewSessionStore) as adapter:
        asyncio.run(adapter.append(names(("p", "s")), [line("main")]))
        asyncio.run(adapter.append(names(("p", "s", "subagents/agent-")), [line("agent")]))
        assert Transcripts(adapter.store).read(("p", "s")) == ["main"]
        assert Subagents(adapter.store).read(("p", "s", "subagents/agent-")) == ["agent"]


def test_a_session_with_the_id_of_a_transcript(opened):
    """A session that another program stored under the id of a transcript is neither read nor changed."""
    (store,) = workspaces(opened, ("",)).values()
    chat = store.sessions.create(id=Keyed(store, "claude-code", {}).id("p", "s"))
    chat.append(clew.user("private"))
    adapter = ClewSessionStore(store)
    for call in (adapter.append(names(("p", "s")), [line("x")]), adapter.load(names(("p", "s")))):
        with pytest.raises(clew.Conflict):
            asyncio.run(call)
    assert [node.text for node in chat.path()] == ["private"]
    store.close()
