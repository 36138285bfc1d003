"""Windows of a conversation by number, and the branches that leave it."""

from __future__ import annotations

import pytest

import clew
from clew.store import windows


def talk(store: clew.Store, count: int = 10) -> clew.Session:
    session = store.sessions.create()
    session.append([clew.user(f"m{n}") for n in range(1, count + 1)])
    return session


def texts(window: windows.Window) -> list[str]:
    return [node.text for node in window.nodes]


def test_a_window_is_a_part_of_the_path(store: clew.Store) -> None:
    """Messages by number, across forks and compactions, as the history has them."""
    session = talk(store)
    fork = session.fork(at=session.path()[4].id)
    fork.append([clew.user("f6"), clew.user("f7")])
    fork.compact(clew.user("summary"))
    fork.append(clew.user("after"))
    history = [node.text for node in fork.history()]
    for first in range(1, 11):
        for last in range(first, 12):
            window = windows.window(fork, first, last)
            assert texts(window) == history[first - 1 : last]
            assert window.total == len(history)
            assert [node.counters.messages for node in window.nodes] == list(range(first, min(last, 9) + 1))
    assert [windows.number_of(fork, node.id) for node in fork.history()] == list(range(1, len(history) + 1))
    assert windows.number_of(fork, session.path()[6].id) is None


def test_a_window_of_a_branch(store: clew.Store) -> None:
    """The path to any message of the tree can be read by number; of another tree, it is not found."""
    session = talk(store, 5)
    left = session.rewind(session.path()[1].id)
    session.append(clew.user("new"))
    assert left is not None
    assert texts(windows.window(session, 1, 9)) == ["m1", "m2", "new"]
    assert texts(windows.window(session, 2, 4, head=left.head_id)) == ["m2", "m3", "m4"]
    with pytest.raises(clew.NotFound):
        windows.window(session, 1, 2, head=talk(store).head_id)


def test_where_branches_leave(store: clew.Store) -> None:
    """A branch, a fork and a fork of a fork are found where they leave the path; one in the trash is not."""
    session = talk(store, 6)
    ids = [node.id for node in session.path()]
    fork = session.fork(at=ids[2])
    fork.append([clew.user("f4"), clew.user("f5")])
    gone = session.fork(at=ids[1])
    gone.append(clew.user("gone"))
    gone.trash()
    session.rewind(ids[3])
    session.append(clew.user("n5"))
    found = windows.leaving(session)
    assert [(one.after, one.first.text, one.messages) for one in found] == [(3, "f4", 2), (4, "m5", 2)]
    assert [one.session and one.session.id for one in found] == [fork.id, None]
    assert [(one.place, one.ways) for one in found] == [(2, 2), (1, 2)]
    assert [one.first.text for one in windows.leaving(session, head=found[1].head_id)] == ["f4", "n5"]
    assert windows.end_below(session, store.nodes.get(ids[5])[0]) == ids[5]


def test_a_message_of_another_conversation_is_not_found(store: clew.Store) -> None:
    """A session gives out messages of its own tree alone, and none that is only in the trash."""
    session, other = talk(store), talk(store)
    fork = session.fork()
    mine = fork.append(clew.user("mine"))
    assert windows.message_of(session, mine.id).text == "mine"
    fork.trash()
    for id in (mine.id, other.head_id):
        with pytest.raises(clew.NotFound):
            windows.message_of(session, str(id))
