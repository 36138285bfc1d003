"""Whatever is done to a store, and in whatever order, it holds what a plain model holds."""

from __future__ import annotations

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import clew
from clew.store.session import Session, delete_session
from clew.testing import FakeClock, SequentialIds
from tests.properties.model import Model, Talk

TEXT = st.text("abc é漢", min_size=1, max_size=5)
TITLE = TEXT.map("title {}".format)
"""No message has such words: a title that repeats a deleted question goes with it, as `test_deletion` shows."""
ROLE = st.sampled_from(["user", "assistant", "system"])
SAID = st.tuples(TEXT, ROLE)
PICK = st.integers(0, 10_000)
CWD = st.sampled_from([None, "/a", "/a/b"])
LABELS = ("red", "green", "blue")


def message(said: tuple[str, str]) -> clew.Message:
    text, role = said
    if role == "assistant":
        size = len(text)
        return clew.assistant(text, usage=clew.Usage(input=size, output=2 * size, cost=3 * size))
    return clew.user(text) if role == "user" else clew.system(text)


class StoreMachine(RuleBasedStateMachine):
    """Does the same to a store and to the model, and compares them after every step."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="clew-property-"))
        self.clock, self.ids = FakeClock(), SequentialIds()
        self.model = Model()
        self.store = self.open()
        self.last: tuple[str, list[str], list[clew.Message]] | None = None

    def open(self) -> clew.Store:
        return clew.open(self.folder / "chats.db", durability="relaxed", clock=self.clock, ids=self.ids)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            report = self.store.verify()
            self.store.close()
            shutil.rmtree(self.folder)
            assert report.ok, report.damage

    # -- choosing

    def talk(self, pick: int) -> tuple[Session, Talk]:
        id = sorted(self.model.recent)[pick % len(self.model.recent)]
        return self.store.sessions.get(id), self.model.talks[id]

    def trash(self) -> list[str]:
        return sorted(id for id, talk in self.model.talks.items() if talk.trashed)

    def node(self, pick: int) -> str:
        return sorted(self.model.nodes)[pick % len(self.model.nodes)]

    def has_talks(self) -> bool:
        return bool(self.model.recent)

    def has_trash(self) -> bool:
        return bool(self.trash())

    def has_nodes(self) -> bool:
        return bool(self.model.nodes)

    # -- sessions

    @rule(title=TITLE, cwd=CWD)
    def create(self, title: str, cwd: str | None) -> None:
        session = self.store.sessions.create(title=title, cwd=cwd)
        self.model.talks[session.id] = Talk(None, title, cwd)
        self.model.touch(session.id)

    @precondition(has_talks)
    @rule(pick=PICK, said=st.lists(SAID, min_size=1, max_size=4))
    def append(self, pick: int, said: list[tuple[str, str]]) -> None:
        session, talk = self.talk(pick)
        messages = [message(one) for one in said]
        nodes = session.append(messages)
        for node, (text, role) in zip(nodes, said, strict=True):
            self.model.add(node.id, text, role, talk.head)
            talk.head = node.id
        self.model.touch(session.id)
        self.last = session.id, [node.id for node in nodes], messages

    @precondition(lambda self: self.last is not None)
    @rule()
    def append_again(self) -> None:
        """A retry stores nothing and moves nothing, as long as what it stored is there."""
        assert self.last is not None
        id, names, messages = self.last
        if id in self.model.recent and all(name in self.model.nodes for name in names):
            assert [node.id for node in self.store.sessions.get(id).append(messages, id=names)] == names

    @precondition(has_talks)
    @rule(pick=PICK, at=PICK, said=SAID)
    def append_late(self, pick: int, at: int, said: tuple[str, str]) -> None:
        """An append after a head that is no more becomes a branch there."""
        session, talk = self.talk(pick)
        steps = self.model.path(talk.head)
        if not steps or (expected := steps[at % len(steps)]) == talk.head:
            return
        node = session.append(message(said), expect_head=expected, on_conflict="branch")
        self.model.add(node.id, *said, expected)
        talk.branches.append(node.id)

    @precondition(has_talks)
    @rule(pick=PICK, at=PICK)
    def fork(self, pick: int, at: int) -> None:
        session, talk = self.talk(pick)
        steps = self.model.history(talk.head)
        where = steps[at % len(steps)] if steps else None
        made = session.fork(at=where)
        self.model.talks[made.id] = Talk(where, talk.title, talk.cwd, set(talk.labels))
        self.model.touch(made.id)

    @precondition(has_talks)
    @rule(pick=PICK, to=PICK)
    def rewind(self, pick: int, to: int) -> None:
        session, talk = self.talk(pick)
        steps = [None, *self.model.path(talk.head)]
        where = steps[to % len(steps)]
        left = session.rewind(where)
        assert (left is None) == (where == talk.head)
        if left is not None:
            assert left.head_id == talk.head
            talk.branches.append(left.head_id)
            talk.head = where
            self.model.touch(session.id)

    @precondition(has_talks)
    @rule(pick=PICK, said=SAID)
    def compact(self, pick: int, said: tuple[str, str]) -> None:
        session, talk = self.talk(pick)
        if talk.head is None:
            with pytest.raises(clew.Invalid):
                session.compact(message(said))
            return
        (node,) = session.compact(message(said))
        self.model.add(node.id, *said, None, derived=talk.head)
        talk.head = node.id
        self.model.touch(session.id)

    @precondition(has_talks)
    @rule(pick=PICK)
    def delete_session(self, pick: int) -> None:
        session, talk = self.talk(pick)
        if talk.held:
            with pytest.raises(clew.Conflict, match=session.id):
                delete_session(session)
            return
        assert delete_session(session).messages == self.model.delete_talk(session.id)

    @precondition(has_talks)
    @rule(pick=PICK)
    def put_in_trash(self, pick: int) -> None:
        session, talk = self.talk(pick)
        if talk.held:
            with pytest.raises(clew.Conflict, match=session.id):
                session.trash()
            return
        session.trash()
        talk.trashed = True
        self.model.recent.remove(session.id)

    @precondition(has_trash)
    @rule(pick=PICK)
    def restore(self, pick: int) -> None:
        """It comes back somewhere in the list; the others keep their order."""
        id = self.trash()[pick % len(self.trash())]
        self.store.sessions.restore(id)
        self.model.talks[id].trashed = False
        listed = [session.id for session in self.store.sessions.list(limit=500).items]
        assert [one for one in listed if one != id] == self.model.recent
        self.model.recent = listed

    @precondition(has_talks)
    @rule(pick=PICK, held=st.booleans())
    def hold(self, pick: int, held: bool) -> None:
        session, talk = self.talk(pick)
        assert (session.hold() if held else session.release()).held is held
        talk.held = held

    @precondition(has_talks)
    @rule(pick=PICK, title=TITLE)
    def rename(self, pick: int, title: str) -> None:
        session, talk = self.talk(pick)
        session.rename(title)
        talk.title = title

    @precondition(has_talks)
    @rule(pick=PICK, add=st.sets(st.sampled_from(LABELS)), remove=st.sets(st.sampled_from(LABELS)))
    def label(self, pick: int, add: set[str], remove: set[str]) -> None:
        session, talk = self.talk(pick)
        session.label(*add, remove=tuple(remove))
        talk.labels = (talk.labels | add) - remove

    # -- nodes

    @rule(pick=PICK, root=st.booleans(), said=st.lists(SAID, min_size=1, max_size=3))
    def save(self, pick: int, root: bool, said: list[tuple[str, str]]) -> None:
        parent = None if root or not self.model.nodes else self.node(pick)
        for node, (text, role) in zip(
            self.store.nodes.save([message(one) for one in said], parent=parent), said, strict=True
        ):
            self.model.add(node.id, text, role, parent, saved=True)
            parent = node.id

    @precondition(has_nodes)
    @rule(pick=PICK, also=PICK, recursive=st.booleans())
    def delete_nodes(self, pick: int, also: int, recursive: bool) -> None:
        targets = {self.node(pick), self.node(also)}
        going = set().union(*map(self.model.subtree, targets)) if recursive else targets
        held = self.model.reached(talk for talk in self.model.talks.values() if talk.held)
        if going & held or any(child not in going for node in going for child in self.model.children(node)):
            with pytest.raises(clew.Conflict):
                self.store.nodes.delete(targets, recursive=recursive)
            return
        before = len(self.model.nodes)
        moved = self.model.delete_nodes(going)
        assert self.store.nodes.delete(targets, recursive=recursive).messages == before - len(self.model.nodes)
        # Sessions that moved at once are all at the top; which is first there is the store's choice.
        top = [session.id for session in self.store.sessions.list(limit=max(1, len(moved))).items] if moved else []
        assert sorted(top) == sorted(moved)
        self.model.recent = top + [id for id in self.model.recent if id not in moved]

    @rule(letter=st.sampled_from("abc漢"))
    def search(self, letter: str) -> None:
        hits = self.store.search(letter, mode="substring", limit=5000)
        wanted = [id for id in self.model.in_sight() if letter in self.model.nodes[id].text]
        assert sorted(hit.node.id for hit in hits) == sorted(wanted)

    # -- the world

    @rule(seconds=st.integers(-100, 100))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.open()

    # -- comparing

    @invariant()
    def same_sessions(self) -> None:
        if not hasattr(self, "store"):
            return
        page = self.store.sessions.list(limit=500, total=True)
        assert [session.id for session in page.items] == self.model.recent
        assert page.total == len(self.model.recent)
        for session in page.items:
            talk = self.model.talks[session.id]
            assert (session.head_id, session.title, set(session.labels)) == (talk.head, talk.title, talk.labels)
            assert session.held is talk.held
            assert [node.id for node in session.path()] == self.model.path(talk.head)
            assert [node.id for node in session.path(last=3)] == self.model.path(talk.head)[-3:]
            assert [node.id for node in session.history()] == self.model.history(talk.head)
            assert session.counters == self.model.counters(talk.head)
            assert [branch.head_id for branch in session.branches()] == talk.branches
        for label in LABELS:
            labelled = [id for id in self.model.recent if label in self.model.talks[id].labels]
            assert [session.id for session in self.store.sessions.list(label=label, limit=500).items] == labelled

    @invariant()
    def same_trash(self) -> None:
        if not hasattr(self, "store"):
            return
        trashed = {session.id: session for session in self.store.sessions.trashed(limit=500).items}
        assert sorted(trashed) == self.trash()
        for id, session in trashed.items():
            assert [node.id for node in session.history()] == self.model.history(self.model.talks[id].head)

    @invariant()
    def same_latest(self) -> None:
        if not hasattr(self, "store"):
            return
        for cwd in (None, "/a", "/a/b"):
            fitting = [id for id in self.model.recent if cwd in (None, self.model.talks[id].cwd)]
            if fitting:
                assert self.store.sessions.latest(cwd).id == fitting[0]
            else:
                with pytest.raises(clew.NotFound):
                    self.store.sessions.latest(cwd)

    @invariant()
    def same_nodes(self) -> None:
        if not hasattr(self, "store"):
            return
        listed = self.store.nodes.list(limit=5000, ascending=True).items
        assert [node.id for node in listed] == list(self.model.nodes)
        assert [node.parent_id for node in listed] == [said.parent for said in self.model.nodes.values()]
        assert [node.text for node in listed] == [said.text for said in self.model.nodes.values()]
        seen, sight = self.store.nodes.list(limit=5000, ascending=True, trashed=False).items, self.model.in_sight()
        assert [node.id for node in seen] == [id for id in self.model.nodes if id in sight]


LARGE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def test_a_store_is_its_model() -> None:
    """Paths, histories, counters, branches, lists and latest are those of the model after every step."""
    short = settings(max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=LARGE)
    run_state_machine_as_test(StoreMachine, settings=short)


@pytest.mark.soak
def test_a_store_is_its_model_for_long() -> None:
    """The same, over long sequences and many of them."""
    long = settings(max_examples=1500, stateful_step_count=80, deadline=None, suppress_health_check=LARGE)
    run_state_machine_as_test(StoreMachine, settings=long)
