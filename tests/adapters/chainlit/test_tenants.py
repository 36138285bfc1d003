"""Chainlit: steps, elements and feedback keep to their own thread and workspace."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("chainlit.data", reason="chainlit is not installed")

import chainlit as cl
from chainlit.context import init_http_context
from chainlit.types import Pagination, ThreadFilter

import clew
from clew.adapters.chainlit import ClewDataLayer
from tests.adapters.chainlit.apps import liked
from tests.adapters.tenants import check, workspaces


def run(coroutine: Any) -> Any:
    async def within() -> Any:
        init_http_context(thread_id="none")
        return await coroutine

    return asyncio.run(within())


def step(thread, id, text, kind="assistant_message", number=0):
    now = f"2026-01-01T00:{number:02}:00.000Z"
    return {"id": id, "threadId": thread, "name": "bot", "type": kind, "output": text, "createdAt": now, "end": now}


class Threads:
    """Threads with steps, elements and feedback. All tenants have the same ids of these."""

    def __init__(self, store):
        self._layer = ClewDataLayer(store)

    def write(self, key, text, *, new):
        before = run(self._layer.get_thread(key[0]))
        assert (before is None) == new
        number = 0 if new else len(before["steps"])
        id = f"{key[0]} {number}"
        run(self._layer.create_step(step(key[0], id, text, "run" if number % 2 else "assistant_message", number)))
        run(self._layer.create_element(element(key[0], f"e{id}", id, text)))
        run(self._layer.upsert_feedback(liked(id, id=f"f{id}", threadId=key[0], comment=text)))

    def read(self, key):
        found = run(self._layer.get_thread(key[0]))
        if found is None:
            return None
        texts = [one["output"] for one in found["steps"]]
        assert [one["feedback"]["comment"] for one in found["steps"]] == texts
        assert [one["name"] for one in found["elements"]] == texts
        return texts

    def delete(self, key):
        run(self._layer.delete_thread(key[0]))


def element(thread, id, step, text):
    return cl.Text(name=text, content=text, for_id=step, thread_id=thread, id=id)


def test_tenants(opened):
    """No call for one thread reaches another one, in any workspace."""
    stores = workspaces(opened)
    check(stores, Threads, 1, seed=1, steps=60)
    for store in stores.values():
        store.close()


def test_ids_of_another_thread(opened):
    """A step, an element or feedback with the id of another thread's takes nothing from it and changes nothing."""
    (store,) = workspaces(opened, ("",)).values()
    layer = ClewDataLayer(store)
    for id, kind in (("m", "assistant_message"), ("r", "run")):
        run(layer.create_step(step("theirs", id, f"secret {id}", kind)))
    run(layer.create_element(element("theirs", "e", "m", "secret e")))
    run(layer.upsert_feedback(liked("m", id="f", threadId="theirs", comment="secret f")))
    run(layer.create_step(step("mine", "n", "hello")))
    before = run(layer.get_thread("theirs"))
    attempts = [
        layer.create_step({"id": id, "threadId": "mine", "type": kind, "output": None})
        for id in ("m", "r")
        for kind in ("run", "assistant_message")
    ]
    attempts += [
        layer.create_element(element("mine", "e", "n", "taken")),
        layer.create_element(element("mine", "e2", "m", "taken")),
        layer.delete_element("e", "mine"),
        layer.upsert_feedback(liked("m", id="f2", threadId="mine", comment="taken")),
        layer.upsert_feedback(liked("n", id="f", threadId="mine", comment="taken")),
    ]
    for attempt in attempts:
        with pytest.raises(clew.Conflict):
            run(attempt)
    assert run(layer.get_thread("theirs")) == before
    mine = run(layer.get_thread("mine"))
    assert [(one["id"], one["output"], one["feedback"]) for one in mine["steps"]] == [("n", "hello", None)]
    assert mine["elements"] == []
    assert store.verify().ok
    store.close()


def test_a_favorite_that_is_now_a_step_of_another_thread(opened):
    """The favorites of a user have no step of another thread, though it has the id of one that the user had marked."""
    with opened(clew.open) as store:
        layer = ClewDataLayer(store)
        users = [run(layer.create_user(cl.User(identifier=name))).id for name in ("ada", "ADA")]
        run(layer.update_thread("mine", user_id=users[0]))
        run(layer.update_thread("theirs", user_id=users[1]))
        for kind in ("assistant_message", "run"):
            run(layer.create_step({**step("mine", kind, "mine", kind), "metadata": {"favorite": True}}))
            assert [one["output"] for one in run(layer.get_favorite_steps(users[0]))] == ["mine"]
            run(layer.delete_step(kind))
            run(layer.create_step(step("theirs", kind, "secret", kind)))
            assert run(layer.get_favorite_steps(users[0])) == []
            assert run(layer.get_favorite_steps(users[1])) == []


def test_a_label_of_another_program(opened):
    """A session that is no thread does not disturb a user's lists, though it has the label of the user's threads."""
    with opened(clew.open) as store:
        layer = ClewDataLayer(store)
        user = run(layer.create_user(cl.User(identifier="ada"))).id
        run(layer.update_thread("mine", user_id=user))
        store.sessions.create(labels=[f"chainlit:{user}"])
        found = run(layer.list_threads(Pagination(first=10), ThreadFilter(userId=user)))
        assert [one["id"] for one in found.data] == ["mine"]
        assert run(layer.get_favorite_steps(user)) == []
