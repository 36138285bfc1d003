"""The tree itself, beyond what the contract of every backend says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.store.session import delete_session
from clew.store.store import Store
from clew.testing import FakeClock


def said(count: int) -> list[clew.Message]:
    return [clew.user(str(number)) for number in range(count)]


@pytest.mark.checklist("D22")
def test_odd_content_comes_back(store: Store) -> None:
    """Special characters, messages without blocks, and many blocks in order are read back unchanged."""
    messages = [
        clew.user("'; DROP TABLE nodes; -- \u2028\u0085 \"\\ \t\r\n 🧵"),
        clew.user(),
        clew.user(*[str(number) for number in range(200)]),
        clew.user(
            clew.Media(mime_type="application/pdf", modality="document", url="x:y", name="a.pdf", extra={"p": 1})
        ),
    ]
    nodes = store.nodes.save(messages)
    assert [node.message for node in store.nodes.get([node.id for node in nodes])] == messages


@pytest.mark.checklist("D7")
def test_saving_is_all_or_none(store: Store) -> None:
    """Nodes come back in the order given, whatever their parents; if one cannot be saved, none is."""
    root = store.nodes.save(clew.user("root"))[0]
    given = [clew.NewNode(clew.user(text), parent=root.id) for text in ("c", "a", "b")]
    assert [node.text for node in store.nodes.save(given)] == ["c", "a", "b"]
    nobody = "00000000-0000-4000-8000-000000000001"
    with pytest.raises(clew.NotFound):
        store.nodes.save([clew.user("new"), clew.NewNode(clew.user("lost"), parent=nobody)])
    assert len(store.nodes.list().items) == 4


@pytest.mark.checklist("D8")
def test_getting_by_id(store: Store) -> None:
    """Nodes come in the order asked for, also twice, with their blocks in order; one that is missing is an error."""
    call = clew.ToolCall(id="c", name="run", arguments={"x": 1})
    one, two = store.nodes.save([clew.user("a", "b"), clew.assistant(clew.Thinking(text="hm"), "yes", call)])
    found = store.nodes.get([two.id, one.id, two.id])
    assert [node.message for node in found] == [two.message, one.message, two.message]
    assert store.nodes.get([]) == []
    with pytest.raises(clew.NotFound):
        store.nodes.get([one.id, "00000000-0000-4000-8000-000000000001"])


@pytest.mark.checklist("D9")
def test_listing_from_an_offset(store: Store) -> None:
    """The newest node comes first, or the oldest; an offset beyond the last gives an empty list."""
    nodes = store.nodes.save([clew.user(str(number), extra={"n": number}) for number in range(4)])
    assert store.nodes.list().items == nodes[::-1]
    found = store.nodes.list(offset=1, ascending=True).items
    assert [node.message for node in found] == [node.message for node in nodes[1:]]
    assert store.nodes.list(offset=4).items == []


@pytest.mark.checklist("D10")
def test_deleting_by_id(store: Store) -> None:
    """A node with children goes only with them, all ids go or none, and unknown ids are ignored."""
    root, middle, leaf = store.nodes.save(said(3))
    other = store.nodes.save(said(1))[0]
    with pytest.raises(clew.Conflict):
        store.nodes.delete([other.id, middle.id])
    assert len(store.nodes.list().items) == 4
    assert store.nodes.delete([other.id, "00000000-0000-4000-8000-000000000001"]).messages == 1
    assert store.nodes.delete(middle.id, recursive=True).messages == 2
    assert store.nodes.list().items == [root]
    with pytest.raises(clew.NotFound):
        store.nodes.get(leaf.id)


def test_a_path_never_has_descendants(store: Store) -> None:
    """The dialog of a node in the middle of a chain ends there; that of a root is the root."""
    nodes = store.nodes.save(said(5))
    assert store.nodes.path(nodes[2].id) == nodes[:3]
    assert store.nodes.path(nodes[0].handle) == nodes[:1]
    assert store.nodes.path(nodes[4].id, last=2) == nodes[3:]
    with pytest.raises(clew.NotFound):
        store.nodes.path("00000000-0000-4000-8000-000000000001")


@pytest.mark.checklist("D6")
def test_trees_have_many_roots_and_branches(store: Store) -> None:
    """Roots are many, and branches leave from any message, also from one in the middle."""
    one, two = store.nodes.save(said(3)), store.nodes.save(said(2))
    side = store.nodes.save(said(2), parent=one[1].id)
    assert (one[0].parent_id, two[0].parent_id, side[0].parent_id) == (None, None, one[1].id)
    assert store.nodes.children(one[1].id) == [one[2], side[0]]
    assert store.nodes.path(side[1].id) == [*one[:2], *side]
    assert set(store.nodes.subtree(one[1].id)) == {one[1], one[2], *side}


def test_messages_of_one_moment_keep_their_order(path: Path) -> None:
    """Times that are equal, or that run backwards, do not disturb the order of the list."""
    clock = FakeClock()
    with clew.open(path, clock=clock) as store:
        nodes = [store.nodes.save(message)[0] for message in said(10)]
        clock.advance(-(10**9))
        nodes += [store.nodes.save(message)[0] for message in said(10)]
        assert store.nodes.list(ascending=True).items == nodes
        assert store.nodes.list().items == nodes[::-1]


@pytest.mark.checklist("D4")
def test_a_time_can_be_given(store: Store) -> None:
    """A message may have its own time, to the microsecond, also before 1970."""
    for moment in (
        datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC),
        datetime(1913, 1, 1, tzinfo=UTC),
    ):
        assert store.nodes.save(clew.NewNode(clew.user("x"), created_at=moment))[0].created_at == moment


def test_saving_twice_is_saving_once(store: Store) -> None:
    """A chain saved again under its ids is returned as it is; a changed link or text in it is a Conflict."""
    names = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(3)]
    saves = [clew.NewNode(message, id=name) for message, name in zip(said(3), names, strict=True)]
    first = store.nodes.save(saves)
    assert store.nodes.save(saves) == store.nodes.save(saves[:2] + saves[2:]) == first
    with pytest.raises(clew.Conflict):
        store.nodes.save([saves[0]._replace(message=clew.user("other")), *saves[1:]])
    with pytest.raises(clew.Conflict):
        store.nodes.save([saves[0], saves[2]])
    assert store.nodes.list().items == first[::-1]


def test_a_stored_node_after_a_new_one_is_a_conflict(store: Store) -> None:
    """A new message cannot be put between stored ones; nothing is stored then."""
    a, b = store.nodes.save(said(2))
    with pytest.raises(clew.Conflict):
        store.nodes.save([clew.NewNode(clew.user("new"), parent=a.id), clew.NewNode(b.message, id=b.id)])
    assert len(store.nodes.list().items) == 2


def test_what_is_saved_beside_a_session_goes_without_it(store: Store, sound: Callable[[Store], None]) -> None:
    """Saving a message after a session's last, and deleting it, does not keep the session's own from going with it."""
    session = store.sessions.create()
    session.append(said(3))
    assert session.head_id is not None
    aside = store.nodes.save(clew.user("aside"), parent=session.head_id)[0]
    store.nodes.delete(aside.id)
    assert delete_session(session).messages == 3
    assert store.nodes.list().items == []
    sound(store)


def test_what_a_deleted_message_leaves_of_a_branch_goes_with_its_session(
    store: Store, sound: Callable[[Store], None]
) -> None:
    """A branch that loses its last message keeps the rest within reach, and the session's end is theirs too."""
    session = store.sessions.create()
    nodes = session.append(said(4))
    session.rewind(nodes[0].id)
    store.nodes.delete(nodes[3].id)
    assert [branch.head_id for branch in session.branches()] == [nodes[2].id]
    store.nodes.delete([nodes[1].id], recursive=True)
    assert delete_session(session).messages == 1
    assert store.nodes.list().items == []
    sound(store)


def test_what_a_compaction_stands_for_outlives_it(store: Store, sound: Callable[[Store], None]) -> None:
    """Messages deleted from before a summary are missing from the history alone; without it the rest is back."""
    session = store.sessions.create()
    nodes = session.append(said(3))
    summary = session.compact(clew.system("summary"))
    store.nodes.delete(nodes[2].id)
    assert list(session.history()) == [*nodes[:2], *summary]
    sound(store)
    store.nodes.delete(summary[0].id)
    assert session.path() == nodes[:2]
    assert delete_session(session).messages == 2
    sound(store)


def test_a_held_place_is_not_given_again(store: Store, sound: Callable[[Store], None]) -> None:
    """Nodes saved after the end of a chain was deleted get a new position; deleted nodes stay deleted."""
    a, b = store.nodes.save(said(2))
    store.nodes.delete(b.id)
    (c,) = store.nodes.save(clew.user("c"), parent=a.id)
    assert store.nodes.path(c.id) == [a, c]
    with pytest.raises(clew.NotFound):
        store.nodes.get(b.id)
    sound(store)


@pytest.mark.checklist("D22")
def test_a_long_chain_has_no_limit_of_depth(path: Path) -> None:
    """5,000 messages deep, a path is read in few steps, its end quickly, and it is deleted whole."""
    with clew.open(path, durability="relaxed") as store:
        nodes = store.nodes.save(said(5000))
        assert store.nodes.path(nodes[-1].id) == nodes
        assert nodes[-1].depth == 4999
        assert store.nodes.path(nodes[-1].id, last=1) == nodes[-1:]
        assert store.nodes.delete(nodes[0].id, recursive=True).messages == 5000


def test_a_path_with_many_bends(path: Path) -> None:
    """A path that bends at every message is read whole, to its end, and in pages alike."""
    with clew.open(path, durability="relaxed") as store:
        session = store.sessions.create()
        session.append(clew.user("root"))
        expected = ["root"]
        for number in range(120):
            head = session.head_id
            assert head is not None
            store.nodes.save(clew.user("side"), parent=head)
            session.append(clew.user(str(number)))
            expected.append(str(number))
        assert [node.text for node in session.path()] == [node.text for node in session.iter()] == expected
        assert [node.text for node in session.path(last=50)] == expected[-50:]


@pytest.mark.checklist("D22")
def test_an_iterator_may_be_left(store: Store) -> None:
    """A reader that stops early holds nothing: the store can be written and closed."""
    session = store.sessions.create()
    session.append(said(100))
    walk = session.iter()
    assert next(walk).text == "0"
    session.append(clew.user("more"))
    store.nodes.save(said(1))
    assert sum(1 for _ in walk) == 99


def test_nodes_compare_by_id(store: Store) -> None:
    """Two reads of a node are equal; its repr has no content."""
    (node,) = store.nodes.save(clew.user("secret"))
    again = store.nodes.get(node.id)[0]
    assert (node, hash(node)) == (again, hash(again))
    assert node != "secret"
    assert store.nodes.handles([node.id]) == [node.handle]


@pytest.mark.checklist("D9")
@given(
    times=st.lists(st.integers(-5, 5), max_size=12), ascending=st.booleans(), limit=st.integers(1, 5),
    offset=st.integers(0, 4),
)  # fmt: skip
def test_order_by_time(times: list[int], ascending: bool, limit: int, offset: int) -> None:
    """With order="created", nodes are listed by their time, then as they were stored, in pages without gaps."""
    with clew.open(":memory:") as store:
        start = datetime(1970, 1, 1, tzinfo=UTC)  # earlier times are possible too
        new = [clew.NewNode(clew.user(str(at)), None, created_at=start + timedelta(hours=at)) for at in times]
        stored = store.nodes.save(new) if new else []
        expected = sorted(stored, key=lambda node: (node.created_at, stored.index(node)), reverse=not ascending)
        first = store.nodes.list(order="created", ascending=ascending, limit=limit, offset=offset)
        assert first.items == expected[offset : offset + limit]
        assert list(first.all()) == expected[offset:]
        visible = store.nodes.list(order="created", ascending=ascending, limit=limit, trashed=False)
        assert list(visible.all()) == expected


def test_a_wrong_order_or_cursor() -> None:
    """An unknown order, and a cursor of another list, are refused."""
    with clew.open(":memory:") as store:
        for wrong in ({"order": "x"}, {"order": "created", "cursor": "n5"}, {"order": "created", "cursor": "t5"}):
            with pytest.raises(clew.Invalid):
                store.nodes.list(**wrong)  # type: ignore[arg-type]
