"""Keys are compared whole: what every adapter shares."""

from __future__ import annotations

import json
import random

import pytest

import clew
from clew.adapters.assembling import Assembler, ModelCall
from clew.adapters.documents import Documents
from clew.adapters.keyed import Keyed
from clew.base import ids
from clew.base.messages import Native
from clew.engine.append import append_chain
from clew.engine.session_data import SessionData
from clew.sources.contract import join_names
from clew.store.parts import Parts
from clew.store.session import row_of
from tests.adapters.tenants import PARTS, check, keys, workspaces


class Sessions:
    """Sessions by their names, as adapters use them, and a document of the same names."""

    def __init__(self, store):
        self._keyed = Keyed(store, "made-up", {})
        self._documents = Documents(self._keyed)

    def write(self, key, text, *, new):
        keyed = self._keyed

        def work(unit):
            assert (keyed.session(unit, *key, trashed=True) is None) == new
            session = keyed.ensure(unit, *key)
            self._documents.put(unit, key, text, owner=session)
            return session

        session = keyed.write(work)
        id = keyed.read(lambda unit: keyed.message_id(unit, "message", *key, str(len(session.path()))))
        session.append(clew.user(text), id=id)

    def read(self, key):
        found = self._keyed.find(*key)
        texts = None if found is None else [node.text for node in found.path()]
        assert self._documents.value(self._documents.find(*key)) == (texts[-1] if texts else None)
        return texts

    def delete(self, key):
        self._keyed.purge(*key)


class Calls:
    """Named conversations that are put together from model calls."""

    def __init__(self, store):
        self._keyed = Keyed(store, "made-up", {})

    def write(self, key, text, *, new):
        # All tenants begin alike.
        asked = ["hello", text] if new else [text]
        natives = [Native("openai", json.dumps({"role": "user", "content": one}).encode()) for one in asked]
        Assembler(self._keyed).store(ModelCall(natives, (), conversation=key[0], continues=True))

    def read(self, key):
        found = self._keyed.find("conversation", key[0])
        return None if found is None else [node.text for node in found.path()][1:]

    def delete(self, key):
        self._keyed.purge("conversation", key[0])


def test_calls(opened):
    """No call of a model in one named conversation reaches another one, in any workspace."""
    stores = workspaces(opened)
    check(stores, Calls, 1, seed=4, steps=60)
    for store in stores.values():
        store.close()


@pytest.mark.parametrize("arity", [1, 2, 3])
def test_tenants(opened, arity):
    """No read, write, delete or existence check of one key reaches another one, in any workspace."""
    stores = workspaces(opened)
    check(stores, Sessions, arity, seed=arity, steps=60)
    for store in stores.values():
        store.close()


@pytest.mark.parametrize("seed", range(20))
def test_tenants_at_length(opened, seed):
    """No read, write, delete or existence check of one key reaches another one: many runs."""
    stores = workspaces(opened)
    check(stores, Sessions, 1 + seed % 3, seed=100 + seed, steps=400)
    for store in stores.values():
        store.close()


def test_joined_names_differ():
    """The text for several names is that of no others."""
    dice = random.Random(1)
    for arity in (2, 3):
        found = keys(arity, 3000, dice, (*PARTS, ""))
        assert len({join_names(*key) for key in found}) == len(found)
    assert join_names("app", "user", "1") == "app/user/1"  # as it was always stored


def test_an_insertion_point_of_another_workspace_is_refused(opened):
    """Nothing is stored after a message of another workspace, and no session at one: by a unit, and by the engine."""
    stores = workspaces(opened, ("one", "two"))
    theirs = stores["one"].sessions.create()
    message = theirs.append(clew.user("secret of one"))
    keyed, parts = Keyed(stores["two"], "made-up", {}), Parts.of(stores["two"])
    engine, refs = parts.engine, parts.refs
    point = engine.read(lambda tx: tx.insert_point(ids.parse(message.id)))
    draft, mine = keyed.draft(clew.user("hello")), keyed.ensured("a")
    row = row_of(mine)

    for work in (
        lambda unit: keyed.ensure(unit, "b", at=message.id),
        lambda unit: unit.append(mine, [draft], after=message.id),
        lambda unit: unit.branch(mine, message.id),
        lambda unit: unit.rebase(mine, message.id),
    ):
        with pytest.raises(clew.NotFound):
            keyed.write(work)
    for work in (
        lambda tx: append_chain(engine, tx, point, [draft]),
        lambda tx: parts.table.add_at(tx, SessionData(), keyed.key("b"), "session", at=point, owner=None),
        lambda tx: refs.branch(tx, row.ref, point),
        lambda tx: refs.append_at(tx, row, refs.head_state(tx, row), point, [draft]),
    ):
        with pytest.raises(clew.NotFound):
            engine.write(work)
    assert [one.path() for one in stores["two"].sessions.list().items] == [[]]
    assert [node.text for node in theirs.path()] == ["secret of one"]
    for store in stores.values():
        assert store.verify().ok
        store.close()
