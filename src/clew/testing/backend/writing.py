"""Appends, transactions and close; deletion, trash and holds; log, blobs and quarantine."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from clew.base.buckets import Bucket
from clew.base.messages import Media, assistant, user
from clew.errors import Closed, Conflict, Invalid, NotFound
from clew.store.session import delete_session
from clew.testing.contract import Contract, FakeClock, OpenStore, an_id, raises, search_texts, skip, texts, titles


class Appending(Contract):
    """Appends: results, repeated calls, and conflicts."""

    def test_append_returns_what_was_stored(self, open_store: OpenStore) -> None:
        """`append` returns a node with an id, a parent, a time and the content."""
        with open_store(clock=FakeClock(1_000_000)) as store:
            session = store.sessions.create()
            first, second = session.append(user("hello")), session.append(assistant("hi", model="m"))
            assert (first.parent_id, second.parent_id) == (None, first.id)
            assert [node.message for node in session.path()] == [user("hello"), assistant("hi", model="m")]
            assert (first.role, first.depth, second.depth) == ("user", 0, 1)
            assert first.created_at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
            assert session.head_id == second.id

    def test_append_goes_on_from_what_is_there_now(self, open_store: OpenStore) -> None:
        """An append takes into account every change since the last one, however it was made."""
        with open_store() as store:
            session = store.sessions.create()
            first = session.append(user("a"))
            beside = store.nodes.save(user("beside"), parent=first.id)[0]
            session.append(user("b"))
            assert texts(session.path()) == ["a", "b"]
            assert store.nodes.path(beside.id) == [first, beside]

            last = session.append(user("c"))
            gone = store.nodes.save(user("gone"), parent=last.id)[0]
            store.nodes.delete(gone.id)
            session.append(user("d"))
            assert texts(session.path()) == ["a", "b", "c", "d"]

            other = store.sessions.create()
            assert store.sessions.latest() == other
            session.append(user("e"))
            assert store.sessions.latest() == session

            session.rewind(first.id)
            session.append(user("f"))
            assert texts(session.path()) == ["a", "f"]

            with suppress(ZeroDivisionError), store.transaction():
                session.append(user("undone"))
                raise ZeroDivisionError
            session.append(user("g"))
            assert texts(session.path()) == ["a", "f", "g"]

            delete_session(session)
            with raises(NotFound):
                session.append(user("h"))

    def test_many_are_one(self, open_store: OpenStore) -> None:
        """Several messages are appended in order, or not at all."""
        with open_store() as store:
            session = store.sessions.create()
            session.append([user("a"), assistant("b"), user("c")])
            with raises(Invalid):
                session.append([user("d"), user("\ud800")])
            assert session.append([]) == []
            assert texts(session.path()) == ["a", "b", "c"]

    def test_same_id_is_stored_once(self, open_store: OpenStore) -> None:
        """Repeating an append with the same id changes nothing; other content with that id raises Conflict."""
        with open_store() as store:
            session = store.sessions.create()
            first = session.append(user("a"), id=an_id(1))
            session.append(user("b"))
            version = session.version
            assert session.append(user("a"), id=an_id(1)) == first
            with raises(Conflict):
                session.append(user("other"), id=an_id(1))
            with raises(Conflict):
                store.sessions.create().append(user("a"), id=an_id(1))
            assert texts(session.path()) == ["a", "b"]
            assert session.refresh().version == version

    def test_half_known_is_a_conflict(self, open_store: OpenStore) -> None:
        """If only some of several messages are stored already, none is stored, in any order."""
        with open_store() as store:
            session = store.sessions.create()
            session.append(user("a"), id=an_id(1))
            for texts_given, names in (("ba", [2, 1]), ("ab", [1, 2])):
                with raises(Conflict):
                    session.append([user(text) for text in texts_given], id=[an_id(name) for name in names])
            assert len(store.nodes.list().items) == 1

    def test_repeat_after_rewind(self, open_store: OpenStore) -> None:
        """Repeating an append that was rewound raises Conflict and stores nothing."""
        with open_store() as store:
            session = store.sessions.create()
            root = session.append(user("a"))
            session.append(user("b"), id=an_id(1))
            session.rewind(root.id)
            assert session.append(user("b"), id=an_id(1)).id == an_id(1)
            assert texts(session.path()) == ["a"]
            assert delete_session(session).messages == 2
            assert store.nodes.list().items == []

    def test_any_uuid_is_an_id(self, open_store: OpenStore) -> None:
        """UUIDs of any version are accepted as ids."""
        names = [f"00000000-0000-{version:x}000-8000-0000000000{version:02x}" for version in range(16)]
        with open_store() as store:
            session = store.sessions.create(id="ffffffff-ffff-ffff-ffff-ffffffffffff")
            session.append([user("x")] * 16, id=names)
            assert [node.id for node in session.path()] == names
            assert store.sessions.get(session.id).id == "ffffffff-ffff-ffff-ffff-ffffffffffff"

    def test_expect_head_raises(self, open_store: OpenStore) -> None:
        """With `expect_head`, the message is stored only if that is the head."""
        with open_store() as store:
            session = store.sessions.create()
            first = session.append(user("a"), expect_head=None)
            session.append(user("b"), expect_head=first.id)
            for wrong in (first.id, None, an_id(9)):
                with raises(Conflict):
                    session.append(user("c"), expect_head=wrong)
            assert texts(session.path()) == ["a", "b"]

    def test_expect_head_branches(self, open_store: OpenStore) -> None:
        """With ``on_conflict="branch"``, a late append becomes a branch at the expected head."""
        with open_store() as store:
            session = store.sessions.create()
            first = session.append(user("a"))
            session.append(user("b"))
            lost = session.append(user("c"), id=an_id(1), expect_head=first.id, on_conflict="branch")
            assert session.append(user("c"), id=an_id(1), expect_head=first.id, on_conflict="branch") == lost
            assert lost.parent_id == first.id
            assert [branch.head_id for branch in session.branches()] == [lost.id]
            assert texts(session.path()) == ["a", "b"]
            assert texts(store.nodes.path(lost.id)) == ["a", "c"]

    def test_stale_objects_append_at_the_end(self, open_store: OpenStore) -> None:
        """Without `expect_head`, a message is appended after the current last one."""
        with open_store() as store:
            one = store.sessions.create()
            two = store.sessions.get(one.id)
            for number, session in enumerate((one, two, one, two)):
                session.append(user(str(number)))
            assert texts(one.path()) == ["0", "1", "2", "3"]

    def test_threads_lose_nothing(self, open_store: OpenStore) -> None:
        """Concurrent appends of several threads are all stored; each thread's messages keep their order."""
        with open_store(durability="relaxed") as store:
            session = store.sessions.create()

            def work(writer: int) -> None:
                mine = store.sessions.get(session.id)
                for number in range(20):
                    mine.append(user(f"{writer} {number}"))

            threads = [threading.Thread(target=work, args=(writer,)) for writer in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            found = texts(session.path())
            for writer in range(4):
                own = [text for text in found if text.startswith(f"{writer} ")]
                assert own == [f"{writer} {number}" for number in range(20)]
            assert len(found) == 80


class Lasting(Contract):
    """Transactions, close, and visibility to others."""

    def test_transaction_is_all_or_none(self, open_store: OpenStore) -> None:
        """A transaction is atomic; an error that is caught inside it undoes only its own step."""
        with open_store() as store:
            session = store.sessions.create(title="old")
            with store.transaction():
                session.append(user("a"), id=an_id(1))
                session.rename("new")
                with raises(Conflict):
                    session.append([user("b"), user("c")], id=[an_id(2), an_id(1)])
                with store.transaction():
                    session.append(user("d"))
            assert (session.refresh().title, texts(session.path())) == ("new", ["a", "d"])
            with raises(NotFound), store.transaction():
                session.append(user("e"))
                lost = store.sessions.create()
                session.rewind(an_id(9))
            assert texts(session.path()) == ["a", "d"]
            store.sessions.create()
            with raises(NotFound):
                lost.append(user("x"))

    def test_closed_is_closed(self, open_store: OpenStore) -> None:
        """Every call on a closed store raises Closed; closing it again does nothing."""
        store = open_store()
        session = store.sessions.create()
        store.close()
        store.close()
        for work in (
            lambda: session.append(user("x")),
            session.path,
            store.sessions.list,
            lambda: store.nodes.save(user("x")),
        ):
            with raises(Closed):
                work()

    def test_what_was_stored_is_there_again(self, open_store: OpenStore) -> None:
        """A reopened store has everything that was stored."""
        if not self.reopens:
            skip("this store is lost on close")
        with open_store() as store:
            session = store.sessions.create(title="t", cwd="/src", model="m", labels=["x"], extra={"k": 1})
            session.append([user("a"), assistant("b"), user("c")])
            session.rewind(session.path()[1].id)
            session.log.append(b"entry")
            blob = session.blobs.put(b"bytes")
        with open_store() as store:
            again = store.sessions.latest("/src")
            assert again == session
            assert again.data == session.data
            assert (again.version, again.counters.messages) == (session.version, 2)
            assert texts(again.path()) == ["a", "b"]
            assert len(again.branches()) == len(again.log) == 1
            assert again.blobs.get(blob.digest) == b"bytes"

    def test_append_goes_on_from_what_others_left(self, open_store: OpenStore) -> None:
        """An append takes into account every change of another opener since the last one, in any session."""
        if not self.reopens:
            skip("this store cannot be opened twice")
        with open_store() as here, open_store() as there:
            session = here.sessions.create(agent="scout")
            session.append(user("a"))
            there.sessions.get(session.id).append(user("b"))
            session.append(user("c"))
            assert texts(session.path()) == ["a", "b", "c"]

            fork = there.sessions.get(session.id).fork()
            fork.append(user("elsewhere"))
            session.append(user("d"))
            assert texts(session.path()) == ["a", "b", "c", "d"]
            assert texts(fork.path()) == ["a", "b", "c", "elsewhere"]

            fork = there.sessions.get(session.id).fork()
            fork.append(user("gone"))
            delete_session(fork)
            session.append(user("e"))
            assert texts(session.path()) == ["a", "b", "c", "d", "e"]
            assert here.verify().ok

    def test_two_stores_on_one_file(self, open_store: OpenStore) -> None:
        """Two openers see each other's writes at once."""
        if not self.reopens:
            skip("this store cannot be opened twice")
        with open_store() as one, open_store() as two:
            here = one.sessions.create()
            there = two.sessions.get(here.id)
            for number, session in enumerate((here, there, there, here)):
                session.append(user(str(number)))
            assert texts(here.path()) == texts(there.path()) == ["0", "1", "2", "3"]

    def test_workspaces_are_apart(self, open_store: OpenStore) -> None:
        """A session of one workspace cannot be found or listed in another."""
        if not self.reopens:
            skip("this store cannot be opened twice")
        with open_store(workspace="a") as one, open_store(workspace="b") as two:
            mine = one.sessions.create(title="mine")
            assert two.sessions.list(total=True).total == 0
            with raises(NotFound):
                two.sessions.get(mine.id)
            with raises(NotFound):
                two.sessions.latest()


class Deleting(Contract):
    """Deletion, trash and holds."""

    # -- deleting sessions

    def test_delete_keeps_what_others_need(self, open_store: OpenStore) -> None:
        """Deleting a session deletes every message that no other session, branch or saved message needs."""
        with open_store() as store:
            session = store.sessions.create()
            nodes = session.append([user("a"), user("b"), user("c")])
            fork = session.fork(at=nodes[1].id)
            fork.append(user("f"))
            saved = store.nodes.save(user("s"), parent=nodes[0].id)[0]
            assert delete_session(session).messages == 1
            assert texts(fork.path()) == ["a", "b", "f"]
            assert delete_session(fork).messages == 2
            assert texts(store.nodes.path(saved.id)) == ["a", "s"]
            for gone in (session, fork):
                with raises(NotFound):
                    store.sessions.get(gone.id)
                with raises(NotFound):
                    gone.append(user("x"))

    def test_delete_takes_all_that_is_owned(self, open_store: OpenStore) -> None:
        """Deleting a session deletes its branches, compacted history, log, attachments and subagents' traces."""
        with open_store() as store:
            session = store.sessions.create()
            shown = session.attach(b"bytes", mime_type="text/plain")
            first = session.append([user("a", shown), user("b")])[0]
            session.rewind(first.id)
            session.append(user("c"))
            session.compact(user("d"))
            session.log.append(b"entry")
            trace = store.sessions.create(agent="x", owner=session)
            trace.append(user("e"))
            assert delete_session(store.sessions.get(session.id)).messages == 5
            assert store.nodes.list().items == []
            assert store.sessions.list(subagents=True).items == []
            for hang in (lambda: session.log.append(b"late"), lambda: session.blobs.put(b"late")):
                with raises(NotFound):
                    hang()

    # -- the trash

    def test_what_is_in_the_trash_is_out_of_sight(self, open_store: OpenStore) -> None:
        """A session in the trash cannot be found, listed, searched, continued or changed."""
        with open_store() as store:
            session, other = store.sessions.create(title="t", cwd="/a", labels=["l"]), store.sessions.create()
            node = session.append(user("lint"))
            stale, handle, id = store.sessions.get(session.id), session.handle, session.id
            assert session.trash() is session
            assert [one.trashed_at is None for one in (session, stale)] == [False, True]
            page = store.sessions.list(total=True)
            assert (page.items, page.total, store.sessions.latest()) == ([other], 1, other)
            assert store.sessions.list(label="l").items == store.sessions.list(title="t").items == []
            assert store.search("lint") == store.search("int", mode="substring") == []
            for hidden in (
                lambda: store.sessions.get(id),
                lambda: store.sessions.get(handle),
                lambda: store.sessions.latest("/a"),
                lambda: store.sessions.get(id).rename("x"),
                lambda: store.sessions.hold(id),
                lambda: delete_session(store.sessions.get(id)),
                lambda: store.search("lint", session=id),
                lambda: store.sessions.create(agent="a", owner=session),
                lambda: session.append(user("x")),
                lambda: session.append(user("x"), expect_head=node.id),
                lambda: session.rewind(None),
                lambda: session.compact(user("x")),
                session.fork,
                lambda: session.log.append(b"x"),
                lambda: session.blobs.put(b"x"),
                lambda: stale.append(user("x")),
                stale.path,
                stale.refresh,
            ):
                with raises(NotFound):
                    hidden()
            with raises(Conflict):
                store.sessions.create(id=id)
            with raises(NotFound):
                store.sessions.trash(an_id(1))
            assert store.verify().ok

    def test_the_trash_is_listed_last_first(self, open_store: OpenStore) -> None:
        """`trashed` lists sessions last trashed first, in stable pages; they can be read."""
        clock = FakeClock()
        with open_store(clock=clock) as store:
            made = [store.sessions.create(title=str(number)) for number in range(7)]
            for session in made:
                session.append(user(f"said in {session.title}"))
            assert store.sessions.trashed().items == []
            for number in (3, 0, 5, 1, 6):
                store.sessions.trash(made[number].id)
                clock.advance(timedelta(seconds=number % 2))  # some of them at the same time
            page = store.sessions.trashed(limit=2)
            assert titles(page.items) == ["6", "1"]
            store.sessions.restore(made[5].id)
            clock.advance()
            store.sessions.trash(made[2].id)
            rest = store.sessions.trashed(limit=2, cursor=page.next_cursor)
            assert titles(rest.items) == ["0", "3"]
            assert (rest.next_cursor, store.sessions.trashed().items[0]) == (None, made[2])
            assert texts(rest.items[0].path()) == texts(rest.items[0].iter()) == ["said in 0"]
            assert rest.items[0].counters.messages == 1
            for cursor in (store.sessions.list(limit=1).next_cursor, "x"):
                with raises(Invalid):
                    store.sessions.trashed(cursor=cursor)

    def test_restore_brings_all_of_it_back(self, open_store: OpenStore) -> None:
        """`restore` restores everything: messages, branches, labels, log, and the place in the list."""
        clock = FakeClock()
        with open_store(clock=clock) as store:
            session = store.sessions.create(title="t", cwd="/a", labels=["l"])
            nodes = session.append([user("a"), user("b")])
            session.rewind(nodes[0].id)
            session.log.append(b"entry")
            store.sessions.create(title="later").append(user("x"))
            handle, moved, branches = session.handle, session.updated_at, session.branches()
            clock.advance(timedelta(days=1))
            assert store.sessions.trash(handle) == store.sessions.trash(handle) == session
            first = store.sessions.trash(session.id).trashed_at
            assert first == moved + timedelta(days=1)
            back = store.sessions.restore(handle)
            assert back == session
            assert (back.trashed_at, back.updated_at, back.branches()) == (None, moved, branches)
            assert titles(store.sessions.list().items) == ["later", "t"]
            assert store.sessions.list(label="l").items == [store.sessions.latest("/a")] == [session]
            assert [entry.data for entry in back.log.read()] == [b"entry"]
            assert [hit.node for hit in store.search("b")] == [nodes[1]]
            back.append(user("c"))
            assert texts(session.refresh().path()) == ["a", "c"]
            assert store.sessions.latest() == session
            for missing in (session.id, handle, an_id(1), "zzzzzz"):
                with raises(NotFound):
                    store.sessions.restore(missing)
            assert store.verify().ok

    def test_restored_sessions_take_their_place(self, open_store: OpenStore) -> None:
        """Sessions active while another was in the trash, or after its restore, are listed before it."""
        clock = FakeClock()
        with open_store(clock=clock) as store:
            one, two = store.sessions.create(title="one"), store.sessions.create(title="two")
            two.trash()
            three = store.sessions.create(title="three")  # at the same time: it may get the place of the second
            store.sessions.restore(two.id)
            assert store.sessions.latest() == three
            two.refresh().append(user("x"))
            assert store.sessions.latest() == two
            two.trash()
            three.trash()
            clock.advance(timedelta(hours=1))
            one.append(user("x"))
            store.sessions.restore(two.id)
            store.sessions.restore(three.id)
            assert titles(store.sessions.list().items) == ["one", "two", "three"]

    def test_the_trash_takes_what_is_owned(self, open_store: OpenStore) -> None:
        """Traces are trashed and restored with their owner; one trashed before stays in the trash."""
        with open_store(clock=FakeClock()) as store:
            session = store.sessions.create()
            first, second = (store.sessions.create(agent=name, owner=session) for name in ("first", "second"))
            inner = store.sessions.create(agent="inner", owner=first)
            inner.append(user("lint"))
            second.trash()
            assert (session.subagents(), store.sessions.list(subagents=True).items) == ([first], [inner, first])
            session.trash()
            assert store.sessions.trashed().items == [session]
            assert (store.sessions.list(subagents=True).items, store.search("lint")) == ([], [])
            for trace in (first, second, inner):
                with raises(NotFound):
                    store.sessions.get(trace.id)
                with raises(Conflict):
                    store.sessions.restore(trace.id)
            store.sessions.restore(session.id)
            assert (session.refresh().subagents(), first.refresh().subagents()) == ([first], [inner])
            assert store.sessions.trashed().items == [second]
            assert [hit.session for hit in store.search("lint")] == [inner]
            store.sessions.restore(second.id)
            assert session.subagents() == [first, second]
            assert store.verify().ok

    def test_the_trash_spares_what_is_shared(self, open_store: OpenStore) -> None:
        """Messages that a fork, a compaction or a save still needs stay visible; all others are hidden."""
        with open_store() as store:
            session = store.sessions.create()
            nodes = session.append([user("lint a"), user("lint b"), user("lint c")])
            fork = session.fork(at=nodes[1].id)
            session.rewind(nodes[1].id)
            session.append(user("lint d"))
            saved = store.nodes.save(user("lint s"), parent=nodes[0].id)[0]
            session.trash()
            assert search_texts(store, "lint") == ["lint a", "lint b", "lint s"]
            assert [hit.session for hit in store.search('"lint b"')] == [fork]
            fork.compact(user("lint sum"))
            assert texts(fork.history()) == ["lint a", "lint b", "lint sum"]
            assert search_texts(store, "lint") == ["lint a", "lint b", "lint s", "lint sum"]
            fork.trash()
            assert search_texts(store, "lint") == ["lint a", "lint s"]
            assert texts(store.nodes.path(saved.id)) == ["lint a", "lint s"]
            store.sessions.restore(session.id)
            assert search_texts(store, "lint") == ["lint a", "lint b", "lint c", "lint d", "lint s"]
            assert delete_session(session.refresh()).messages == 2
            assert texts(store.sessions.restore(fork.id).history()) == ["lint a", "lint b", "lint sum"]

    def test_sessions_in_the_trash_follow_deleted_heads(self, open_store: OpenStore) -> None:
        """Messages of a trashed session that are deleted by id are missing after its restore."""
        with open_store() as store:
            session = store.sessions.create()
            a, b, _ = session.append([user("a"), user("b"), user("c")])
            session.rewind(b.id)
            session.trash()
            assert store.nodes.delete(b.id, recursive=True).messages == 2
            assert store.sessions.restore(session.id).path() == [a]
            assert delete_session(session.refresh()).messages == 1
            assert store.nodes.list().items == []

    # -- holds

    def test_what_is_held_is_not_deleted(self, open_store: OpenStore) -> None:
        """A held session cannot be deleted or trashed until it is released; it can be changed."""
        with open_store() as store:
            session = store.sessions.create(title="t")
            first = session.append([user("a"), user("b")])[0]
            assert (session.held, session.hold_reason) == (False, None)
            assert session.hold("a lawsuit") is session
            assert (session.held, session.hold_reason) == (True, "a lawsuit")
            session.rename("u").label("l").hold()
            session.append(user("c"))
            session.rewind(first.id)
            again = store.sessions.get(session.id)
            assert (again.held, again.hold_reason, again.title, again.labels) == (True, "a lawsuit", "u", ("l",))
            for call in (
                partial(delete_session, session),
                session.trash,
                lambda: delete_session(store.sessions.get(session.id)),
                lambda: store.sessions.trash(session.handle),
                lambda: store.nodes.delete(first.id, recursive=True),
            ):
                with raises(Conflict, naming=session.id):
                    call()
            assert (len(store.nodes.list().items), session.path()) == (3, [first])
            assert store.sessions.release(session.handle) == session
            assert (session.refresh().held, session.hold_reason) == (False, None)
            assert store.sessions.hold(session.id, "for a day").hold_reason == "for a day"
            session.release().trash()
            assert delete_session(store.sessions.restore(session.id)).messages == 3

    def test_a_hold_covers_all_that_a_session_reaches(self, open_store: OpenStore) -> None:
        """No message of a held session's path, branches, compacted history or subagents can be deleted by id."""
        with open_store() as store:
            session = store.sessions.create()
            a, b, left = session.append([user("a"), user("b"), user("left")])
            session.rewind(b.id)
            old = session.append(user("c"))
            session.compact(user("sum"))
            session.append(user("d"))
            trace = store.sessions.create(agent="x", owner=session)
            traced = trace.append(user("e"))
            beside = store.nodes.save(user("beside"), parent=a.id)[0]
            fork = session.fork(at=b.id)
            other = fork.append(user("f"))
            session.hold()
            for held in (a, b, left, old, traced, *session.path()):
                with raises(Conflict, naming=session.id):
                    store.nodes.delete(held.id, recursive=True)
            for call in (partial(delete_session, trace), trace.trash):
                with raises(Conflict, naming=session.id):
                    call()
            assert store.nodes.delete([beside.id, other.id]).messages == 2
            assert len(store.nodes.list().items) == 7
            session.release()
            assert store.nodes.delete(b.id, recursive=True).messages == 3
            assert store.verify().ok

    def test_a_hold_keeps_owners_and_frees_forks(self, open_store: OpenStore) -> None:
        """An owner of a held trace cannot be deleted; a fork of a held session can, without shared messages."""
        with open_store() as store:
            session = store.sessions.create()
            trace = store.sessions.create(agent="x", owner=session)
            trace.append(user("e"))
            trace.hold()
            for call in (partial(delete_session, session), session.trash):
                with raises(Conflict, naming=trace.id):
                    call()
            assert store.sessions.list(total=True).total == 1
            trace.release()
            assert delete_session(session).messages == 1

            held = store.sessions.create()
            nodes = held.append([user("a"), user("b")])
            held.hold()
            fork = held.fork()
            assert not fork.held
            fork.append(user("c"))
            fork.trash()
            assert delete_session(store.sessions.restore(fork.id)).messages == 1
            assert held.path() == nodes


class Beside(Contract):
    """Log, blobs and quarantine."""

    def test_log(self, open_store: OpenStore) -> None:
        """Log entries are numbered in order, read by range, and stored once per id; they are never parents."""
        with open_store() as store:
            session = store.sessions.create()
            session.log.append([b"a", b"b"])
            session.log.append(b"c", id=an_id(1))
            assert session.log.append(b"c", id=an_id(1))[0].number == 2
            for data, name in ((b"other", an_id(1)), ([b"d", b"c"], [an_id(2), an_id(1)])):
                with raises(Conflict):
                    session.log.append(data, id=name)
            assert [(entry.number, entry.data) for entry in session.log.read()] == [(0, b"a"), (1, b"b"), (2, b"c")]
            assert [entry.data for entry in session.log.read(1, 2)] == [b"b"]
            assert len(session.log) == 3
            assert list(store.sessions.create().log.read()) == session.path() == []

    def test_blobs(self, open_store: OpenStore) -> None:
        """A blob is addressed by its content, stored once per tree, streamed, and not found in other trees."""
        with open_store(durability="relaxed") as store:
            session = store.sessions.create()
            content = bytes(range(256)) * 3000
            blob = session.blobs.put(content[at : at + 1000] for at in range(0, len(content), 1000))
            assert session.blobs.put(content) == blob
            assert blob.size == len(content)
            assert b"".join(session.blobs.open(blob.digest)) == session.blobs.get(blob.digest) == content
            assert session.fork().blobs.get(blob.digest) == content
            with raises(NotFound):
                store.sessions.create().blobs.get(blob.digest)
            with raises(NotFound):
                store.sessions.create().append(user(Media(mime_type="a/b", modality="document", blob=blob.digest)))

    def test_blobs_outside(self, open_store: OpenStore, tmp_path: Path) -> None:
        """Large blobs are stored in object storage, and removed from there only after permanent deletion."""
        with open_store(blobs=Bucket((tmp_path / "outside").as_uri(), over=1000), durability="relaxed") as store:

            def outside() -> int:
                return sum(path.name != "clew" for path in (tmp_path / "outside").rglob("*") if path.is_file())

            session, content = store.sessions.create(), bytes(range(256)) * 3000
            blob, small = session.blobs.put(content), session.blobs.put(content[:999])
            session.append(user(Media(mime_type="a/b", modality="document", blob=blob.digest)))
            assert session.blobs.put(content) == blob
            assert (outside(), store.verify().counts["chunks"]) == (1, 1)
            assert b"".join(session.fork().blobs.open(blob.digest)) == session.blobs.get(blob.digest) == content
            assert session.blobs.get(small.digest) == content[:999]
            with raises(NotFound), store.transaction():
                delete_session(session)
                session.rewind(an_id(9))
            assert store.blobs.sweep().objects == 0
            assert session.blobs.get(blob.digest) == content
            assert store.verify().ok
            receipt = store.sessions.purge(everything=True)
            assert (receipt.blobs, receipt.pending, receipt.outside > len(content), outside()) == (2, (), True, 0)

    def test_a_sound_store_has_an_empty_quarantine(self, open_store: OpenStore) -> None:
        """A quarantine sweep of an intact store moves nothing; then nothing can be restored or purged."""
        with open_store() as store:
            session = store.sessions.create(title="t")
            session.append([user("a"), user("b", session.attach(b"bytes", mime_type="image/png", modality="image"))])
            session.log.append([b"one", b"two"])
            swept = store.quarantine.sweep(strict=True)
            assert (swept.bodies, swept.moved, swept.left, swept.receipt) == (6, (), (), None)
            assert store.quarantine.list() == []
            with raises(NotFound):
                store.quarantine.restore(session.path()[0].id)
            with raises(NotFound):
                store.quarantine.purge(session.path()[0].id)
            assert store.quarantine.purge(everything=True).messages == 0
            assert texts(session.path())[0] == "a"
