"""Ids and handles."""

from __future__ import annotations

import threading
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.base import ids
from clew.store.store import Store
from clew.testing import FakeClock, SequentialIds

STORED = st.binary(min_size=16, max_size=16)


def as_uuid(stored: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=stored[::-1])


def test_new_ids_are_version_7_and_of_now() -> None:
    """A new id is a UUID of version 7 whose first 48 bits are the time."""
    made = as_uuid(ids.Uuid7(lambda: 1_700_000_000_123_456_789)())
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == 1_700_000_000_123


def test_ids_grow_while_the_clock_stands_or_steps_back() -> None:
    """Ids only grow within a process: many in one millisecond, and after the clock was set back."""
    clock = FakeClock(10**18)
    source = ids.Uuid7(clock)
    made = []
    for step in (0, 0, 5_000_000, -3_600 * 10**9, 1):
        clock.advance(step)
        made += [as_uuid(source()) for _ in range(5000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert {one.version for one in made} == {7}


def test_ids_of_many_threads_are_distinct() -> None:
    """Threads that share a source never get the same id, and each sees its own grow."""
    source = ids.Uuid7()
    made: list[list[uuid.UUID]] = [[] for _ in range(6)]

    def work(own: list[uuid.UUID]) -> None:
        own.extend(as_uuid(source()) for _ in range(2000))

    threads = [threading.Thread(target=work, args=(own,)) for own in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(own == sorted(own) for own in made)
    # The time and count alone differ: no two rely on chance.
    assert len({one.int >> 64 for own in made for one in own}) == 12_000


@given(STORED)
def test_text_and_back(stored: bytes) -> None:
    """Every sixteen bytes have a canonical text, which `uuid` reads the same, and which is read back."""
    text = ids.text(stored)
    assert text == str(as_uuid(stored))
    assert ids.parse(text) == ids.parse(text.upper()) == ids.parse(text.replace("-", "")) == stored


@pytest.mark.parametrize(
    "bad",
    [
        "", "x", "..", "../../etc/passwd",
        "00000000-0000-0000-0000-00000000000", "00000000-0000-0000-0000-0000000000000",
        "00000000-0000-0000-0000-000000000000\n", " 00000000-0000-0000-0000-000000000000", "{" + "0" * 34 + "}",
        "0000000-00000-0000-0000-000000000000", "-" * 36,
        "0" * 31 + "g", "0" * 31 + "٣", "0" * 31 + "\0", "0" * 31 + "_",
    ],
)  # fmt: skip
def test_what_is_no_uuid_is_invalid(bad: str) -> None:
    """A text that only looks like an id is refused: wrong lengths, a trailing newline, digits of other scripts."""
    with pytest.raises(clew.Invalid):
        ids.parse(bad)


@given(STORED, st.integers(6, 26))
def test_a_handle_means_what_it_begins(stored: bytes, length: int) -> None:
    """The ids that a handle may mean include the one it was made of, in either case, with look-alikes typed."""
    handle = ids.handle(stored, length)
    assert len(handle) == length
    for typed in (
        handle,
        handle.upper(),
        handle.replace("1", "l").replace("0", "o"),
        handle.replace("1", "I").replace("0", "O"),
    ):
        span = ids.span(typed)
        assert span is not None
        assert span[0] <= stored <= span[1]


@given(STORED, STORED)
def test_shared_letters(one: bytes, other: bytes) -> None:
    """`common_letters` counts the letters that two handles have in common."""
    if one != other:
        count = ids.common_letters(one, other)
        assert ids.handle(one, count) == ids.handle(other, count)
        assert ids.handle(one, count + 1) != ids.handle(other, count + 1)


@pytest.mark.parametrize("bad", ["", "abcde", "abcdeu", "a" * 27, "abc-ef", "abcdef\n", "\x01" * 6, "abcdé2", "漢" * 6])
def test_what_is_no_handle(bad: str) -> None:
    """Too short, too long, a letter outside the alphabet, a control character: no handle."""
    assert ids.span(bad) is None


def test_a_handle_has_no_letter_that_is_misread() -> None:
    """Handles never have i, l, o or u."""
    assert len(ids.ALPHABET) == 32
    assert not set("ilou") & set(ids.ALPHABET)


def twin(letters: int, last: int) -> str:
    """An id whose handle begins like all others made here, and differs after so many letters."""
    return ids.text((last << (125 - 5 * letters)).to_bytes(16, "big"))


@pytest.mark.checklist("D2")
def test_handles_grow_until_they_are_unique(store: Store) -> None:
    """A handle has six letters, and more where another node's begins with the same six."""
    session = store.sessions.create()
    session.append([clew.user("x")] * 3, id=[twin(0, 1), twin(9, 2), twin(9, 3)])
    handles = [node.handle for node in session.path()]
    assert [len(handle) for handle in handles] == [6, 10, 10]
    assert [store.nodes.resolve(handle) for handle in handles] == [node.id for node in session.path()]


@given(st.sets(st.binary(min_size=1, max_size=4), min_size=1))
def test_handles_of_all_are_those_of_each(ends: set[bytes]) -> None:
    """The handles that need more than six letters are the same for all ids at once as for each beside the others."""
    found = sorted(bytes(5) + end.ljust(11, b"\0") for end in ends)
    found = sorted({*found, *(id[5:] + id[:5] for id in found)})
    longer = ids.longer_handles(found)
    for id in found:
        wanted = ids.handle_beside(id, [other for other in found if other != id])
        assert ids.handle(id, longer.get(id, ids.SHORTEST)) == wanted


@pytest.mark.checklist("D2")
def test_an_ambiguous_handle_lists_its_candidates(store: Store) -> None:
    """The error names handles that each mean one node."""
    session = store.sessions.create()
    nodes = session.append([clew.user("x")] * 3, id=[twin(7, 1), twin(7, 2), twin(8, 1)])
    with pytest.raises(clew.Ambiguous) as caught:
        store.nodes.get("0000000")
    assert caught.value.key == "0000000"
    assert {store.nodes.resolve(handle) for handle in caught.value.candidates} == {node.id for node in nodes}
    assert all(handle in str(caught.value) for handle in caught.value.candidates)


def test_sessions_have_handles_of_their_own(store: Store) -> None:
    """A session's handle is told apart from other sessions', not from nodes'."""
    one, two = store.sessions.create(id=twin(6, 1)), store.sessions.create(id=twin(6, 2))
    one.append(clew.user("x"), id=twin(6, 1))
    assert (one.handle, two.handle) == ("0000004", "0000008")
    assert store.sessions.get("oOoOoO8") == two
    with pytest.raises(clew.Ambiguous):
        store.sessions.get("000000")


def test_sequential_ids_are_ids() -> None:
    """The ids of `clew.testing` count up, and are the same in every run."""
    source = SequentialIds()
    assert [ids.text(source()) for _ in range(2)] == [f"00000000-0000-7000-8000-00000000000{n}" for n in (1, 2)]
