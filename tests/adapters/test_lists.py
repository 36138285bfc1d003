"""Lists that a framework hands over whole: each message is stored once, and every list is read as it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew
from clew.adapters.keyed import Keyed
from clew.adapters.lists import Slice, load_list, raw_message, store_list
from clew.base.messages import Native


def native(text):
    return Native("made-up", json.dumps({"role": "user", "content": text}).encode())


class Lists:
    """The lists of one session."""

    def __init__(self, keyed):
        self.keyed = keyed
        self.last = Slice()

    def store(self, texts):
        def work(unit):
            return store_list(unit, self.keyed.ensure(unit, "s"), self.last, [native(text) for text in texts])

        self.last = self.keyed.write(work)
        return self.last

    def load(self, at):
        nodes = self.keyed.read(lambda unit: load_list(unit, at))
        return [json.loads(raw_message(node))["content"] for node in nodes]

    @property
    def session(self):
        return self.keyed.find("s")


@pytest.fixture
def lists(tmp_path):
    keyed = Keyed(tmp_path / "c.db", "made-up", {})
    yield Lists(keyed)
    keyed.close()


def test_a_list_that_grows(lists):
    """Messages are added to the conversation; none is stored twice."""
    for count in range(1, 6):
        lists.store("abcde"[:count])
    assert [node.text for node in lists.session.path()] == list("abcde")
    assert lists.session.branches() == []


def test_a_window_that_moves(lists):
    """A list that lost its beginning shares the rest: the conversation has all messages."""
    for start in range(4):
        at = lists.store("abcdefg"[start : start + 3])
        assert lists.load(at) == list("abcdefg"[start : start + 3])
    assert [node.text for node in lists.session.path()] == list("abcdef")
    assert lists.session.branches() == []


def test_a_list_that_changed(lists):
    """A list that changed in the middle is a branch; what it leaves stays."""
    lists.store("abc")
    lists.store("abx")
    assert [node.text for node in lists.session.path()] == list("abx")
    assert len(lists.session.branches()) == 1
    lists.store("")
    assert lists.session.path() == []


def test_deleted_messages(lists):
    """A list whose messages were deleted is not found."""
    at = lists.store("ab")
    lists.keyed.purge("s")
    with pytest.raises(clew.NotFound):
        lists.load(at)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(given=st.lists(st.lists(st.sampled_from("abc"), max_size=5), min_size=1, max_size=8))
def test_any_lists(given, tmp_path_factory):
    """Whatever lists follow each other, each is read back as it was, also after the others."""
    keyed = Keyed(tmp_path_factory.mktemp("lists") / "c.db", "made-up", {})
    lists = Lists(keyed)
    stored = [(texts, lists.store(texts)) for texts in given]
    for texts, at in stored:
        assert lists.load(at) == texts
    assert keyed.store.verify().ok
    keyed.close()
