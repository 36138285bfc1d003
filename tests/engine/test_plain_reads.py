"""Short forms of frequent reads in a plain store accept what the general ones accept, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

import clew
from clew.backends import NodeRow, RefRow
from clew.engine import node as nodes
from clew.engine import session_data
from clew.engine.node import Node, RunInfo, node_payload, node_row, parent_key, run_info
from clew.errors import Corrupted
from clew.store.parts import Parts
from clew.store.session import row_of
from clew.store.store import Store


def damaged(value: Any) -> list[Any]:
    """What damage may make of a value: other bits, another length, another type."""
    if isinstance(value, bytes):
        flipped = [value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :] for at in range(len(value))]
        return [*flipped, value[:-1], value + b"\0", b"", value.decode("latin-1"), None]
    if isinstance(value, int):
        return [value + 1, -1, 1 << 70, str(value), None]
    return [other for other in (-1, 0, 1, b"\0", "", "x", None) if other != value]


@pytest.fixture
def second(store: Store) -> Node:
    return store.sessions.create().append([clew.user("first"), clew.user("second")])[1]


def test_a_message_is_read_only_as_it_was_written(store: Store, second: Node) -> None:
    """With any bit, length or type of its row changed, neither form reads a message, one by one or in a loop."""
    handle, run, parent, row = (
        Parts.of(store).engine.node_handle,
        run_info(second),
        parent_key(second),
        node_row(second),
    )
    read = nodes.read_plain(run, parent, row)
    assert read == clew.user("second")
    assert nodes.read_bodies(handle, run, parent, row[0], [row[1:]]) == [read]
    for column in (1, 2, 3):
        for value in damaged(row[column]):
            changed: NodeRow = (*row[:column], value, *row[column + 1 :])
            assert nodes.read_plain(run, parent, changed) is None
            with pytest.raises(Corrupted):
                node_payload(Node(handle, run, parent, changed))
            with pytest.raises(Corrupted):
                nodes.read_bodies(handle, run, parent, row[0], [changed[1:]])


def test_a_message_is_read_only_in_its_place(second: Node) -> None:
    """A body that was moved to another run, parent or position is not read."""
    run, parent, row = run_info(second), parent_key(second), node_row(second)
    others: list[tuple[RunInfo, bytes | None, NodeRow]] = [
        (run._replace(tree=run.tree + 1), parent, row),
        (run._replace(depth=run.depth + 1), parent, row),
        (run, None, row),
        (run, b"\0" * 15, row),
        (run, parent, (row[0] + 1, *row[1:])),
    ]
    assert [nodes.read_plain(*other) for other in others] == [None] * len(others)


BOUND = ("workspace", "kind", "key", "owner", "tree", "created_at", "trashed_at", "expires_at", "hold", "look", "data")


def test_a_session_is_read_only_as_it_was_written(store: Store) -> None:
    """With any of the columns changed that its data is bound to, the short form reads nothing."""
    seed = Parts.of(store).engine.seal.seed
    for cwd in (None, "/src/app"):
        row = row_of(store.sessions.create(title="A title", cwd=cwd))
        data = session_data.read_plain(seed, row)
        assert data == session_data.SessionData("A title", cwd)
        for column in BOUND:
            for value in damaged(getattr(row, column)):
                changed: RefRow = row._replace(**{column: value})
                if column == "look" and not value and cwd is None:
                    continue  # the same as none
                assert session_data.read_plain(seed, changed) is None, (column, value)


def test_other_stores_and_sessions_take_the_general_form(store: Store) -> None:
    """The short form leaves a sealed store, and a session with an end, to the general one."""
    session = store.sessions.create(title="A title")
    session.retain(days=9)
    row, seed = row_of(session), Parts.of(store).engine.seal.seed
    assert session_data.read_plain(None, row) is None
    assert session_data.read_plain(seed, row) is None
    assert session.refresh().title == "A title"
