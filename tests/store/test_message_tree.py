"""The narrow interfaces of the message tree, and `dialog`."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import clew
from clew.store.message_tree import MessageDeleter, MessageGetter, MessageLister, MessageSaver, dialog
from clew.store.store import Store


class Row(NamedTuple):
    """A message of another program."""

    id: str
    parent_id: str | None


class Rows:
    """Another program's store, which can only read."""

    def __init__(self, **parents: str | None) -> None:
        self._rows = {id: Row(id, parent) for id, parent in parents.items()}

    def get(self, ids: list[str], /) -> list[Row]:
        try:
            return [self._rows[id] for id in ids]
        except KeyError as error:
            raise clew.NotFound("message", str(error)) from None


@pytest.mark.checklist("D11")
def test_a_dialog_over_any_getter(store: Store) -> None:
    """It has the messages from the root to the one named, never descendants; of a store as of any other getter."""
    rows = Rows(a=None, b="a", c="b", d="b")
    assert [one.id for one in dialog(rows, "c")] == ["a", "b", "c"]
    assert [one.id for one in dialog(rows, "a")] == ["a"]
    with pytest.raises(clew.NotFound):
        dialog(rows, "x")
    with pytest.raises(clew.NotFound):
        dialog(Rows(b="a"), "b")
    with pytest.raises(clew.Corrupted, match="follows itself"):
        dialog(Rows(a="c", b="a", c="b"), "c")
    nodes = store.nodes.save([clew.user("1"), clew.assistant("2"), clew.user("3")])
    assert dialog(store.nodes, nodes[1].handle) == store.nodes.path(nodes[1].id) == nodes[:2]


@pytest.mark.checklist("D11")
def test_four_interfaces(store: Store) -> None:
    """`store.nodes` has all four interfaces; an object with one method has that one."""
    getter: MessageGetter[clew.Node] = store.nodes
    saver: MessageSaver = store.nodes
    lister: MessageLister = store.nodes
    deleter: MessageDeleter = store.nodes
    (saved,) = saver.save([clew.user("x")])
    assert [*getter.get([saved.id])] == lister.list().items == [saved]
    deleter.delete([saved.id])
    assert lister.list().items == []
    found = [kind for kind in (MessageGetter, MessageSaver, MessageLister, MessageDeleter) if isinstance(Rows(), kind)]
    assert found == [MessageGetter]
