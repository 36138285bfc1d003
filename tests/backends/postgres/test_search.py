"""Search on a server: words in a table for a plain store, in memory for a sealed one."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

import clew
from clew.backends.postgres.tx import SQL, columns, homes_of
from clew.store.parts import Parts
from clew.store.search.text import excerpt, query, vector, words
from clew.store.session import delete_session, row_of
from tests.backends.postgres.server import Server

KEY = bytes(range(32))
SAID = [
    "The lint step fails on Monday",
    "Café déjà vu, naïve",
    "it's a 'quoted' \\ back-slash & | ! ( ) <-> :* thing",
    "漢字 and 日本語テキスト",
    "step by step",
    "prefixes and prefixed",
]


@pytest.fixture(params=[None, KEY], ids=["plain", "sealed"])
def store(request: pytest.FixtureRequest, url: str) -> Any:
    with clew.open(url, key=request.param) as store:
        store.sessions.create().append([clew.user(text) for text in SAID])
        yield store


@pytest.mark.parametrize(
    ("typed", "mode", "found"),
    [
        ("lint", "words", [0]),
        ("STEP", "words", [0, 4]),
        ("cafe deja", "words", [1]),
        ("pre*", "words", [5]),
        ("prefix", "words", []),
        ('"step by step"', "words", [4]),
        ('"by lint"', "words", []),
        ("quoted thing", "words", [2]),
        ("漢字", "words", [3]),
        ("' \\ : * & | ! <->", "words", []),
        ("本語テ", "substring", [3]),
        ("INT ST", "substring", [0]),
        ("on", "substring", [0]),
        ("'quoted' \\", "substring", [2]),
        ("xyzzy", "substring", []),
    ],
)
def test_what_is_found(store: clew.Store, typed: str, mode: Any, found: list[int]) -> None:
    """The same is found whether the index is on the server or in memory, and what is typed is never an error."""
    texts = [hit.node.text for hit in store.search(typed, mode=mode)]
    assert sorted(texts) == sorted(SAID[number] for number in found)


def test_marks_and_filters(store: clew.Store) -> None:
    """A snippet says where it matched; role, session and time narrow the search."""
    (hit,) = store.search("fails")
    assert [hit.snippet[low:high] for low, high in hit.marks] == ["fails"]
    assert store.search("fails", role="assistant") == []
    other = store.sessions.create()
    other.append(clew.assistant("fails too"))
    assert [hit.node.text for hit in store.search("fails", session=other)] == ["fails too"]
    assert [hit.node.text for hit in store.search("fails", role="assistant")] == ["fails too"]
    assert len(store.search("fails", since=hit.node.created_at)) == 2
    assert store.search("fails", until=hit.node.created_at) == []
    assert len(store.search("step", limit=1)) == 1


def test_the_newest_first(store: clew.Store) -> None:
    """However well others match: the picker asks so."""
    session = store.sessions.create()
    session.append([clew.user("walnut walnut walnut"), clew.assistant("a walnut among many other words")])
    first, last = session.path()
    assert [hit.node.id for hit in store.search("walnut")] == [first.id, last.id]
    assert [hit.node.id for hit in Parts.of(store).search("walnut", newest=True)] == [last.id, first.id]


def test_words_go_with_their_messages(store: clew.Store) -> None:
    """What was deleted is not found, and what came since is."""
    session = store.sessions.list().items[0]
    assert store.search("lint")
    session.append(clew.user("xyzzy"))
    assert [hit.node.text for hit in store.search("xyzzy")] == ["xyzzy"]
    delete_session(session)
    assert store.search("lint") == store.search("xyzzy") == []


def test_a_sealed_store_sends_no_words(server: Server) -> None:
    """Of a sealed store the server has no word; of one that was sealed it has none left."""
    url = server.url()
    with server.connect() as conn:
        with clew.open(url, key=KEY) as store:
            store.sessions.create().append(clew.user("Ariadne"))
            assert store.search("Ariadne")
            conn.execute(f"SET search_path = {url.partition('schema=')[2]}")
            assert conn.execute("SELECT count(*) FROM search").fetchone() == (0,)
            store.unseal()
            assert store.search("Ariadne")
            assert conn.execute("SELECT count(*) FROM search").fetchone() == (1,)
            store.seal(KEY)
            assert conn.execute("SELECT count(*) FROM search").fetchone() == (0,)
            assert store.search("Ariadne")


def test_nothing_is_passed_over_while_others_write(url: str) -> None:
    """However many append while others search, in the end every message is found."""
    with clew.open(url, durability="relaxed") as store:
        done = threading.Event()

        def talk(number: int) -> None:
            session = store.sessions.create()
            for step in range(30):
                session.append(clew.user(f"word{number}x{step}"))

        def look() -> None:
            while not done.is_set():
                store.search("nothing")

        talkers = [threading.Thread(target=talk, args=(number,)) for number in range(4)]
        looker = threading.Thread(target=look)
        for thread in (*talkers, looker):
            thread.start()
        for thread in talkers:
            thread.join()
        done.set()
        looker.join()
        for number in range(4):
            for step in range(30):
                assert len(store.search(f"word{number}x{step}")) == 1


def test_a_search_beside_a_long_transaction(url: str) -> None:
    """While someone keeps a transaction open, what was said before is found, and what it adds is found after it."""
    with clew.open(url) as one, clew.open(url) as two:
        session = one.sessions.create()
        session.append(clew.user("before"))
        with one.transaction():
            session.append(clew.user("inside"))
            assert [hit.node.text for hit in two.search("before")] == ["before"]
            assert two.search("inside") == []
        session.append(clew.user("after"))
        assert [len(two.search(word)) for word in ("before", "inside", "after")] == [1, 1, 1]


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_what_is_committed_late_is_found(url: str, key: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that has its number before another, and is committed after that was searched for, is found, too."""
    with clew.open(url, key=key) as one, clew.open(url, key=key) as two:
        slow, fast = one.sessions.create(), two.sessions.create()
        fast.append(clew.user("first"))
        slow.append(clew.user("first"))
        backend: Any = Parts.of(one).engine.backend
        held: list[Any] = []

        def hold(append: Any) -> bool:
            held.append(append)
            return True

        monkeypatch.setattr(backend._appends, "send", hold)
        slow.append(clew.user("late"))
        with backend._connections.take() as conn:
            conn.execute("BEGIN")
            store = backend._turns.store
            values = (store, homes_of(store), *columns(held))
            assert conn.execute(SQL["extend_all"], values).fetchone() == ([row_of(slow).ref],)
            fast.append(clew.user("early"))
            with suppress(clew.Unavailable):  # in memory, an index waits until nothing is on its way
                assert [hit.node.text for hit in two.search("early")] == ["early"]
            conn.execute("COMMIT")
        assert [len(two.search(word)) for word in ("early", "late")] == [1, 1]


def test_words_as_the_server_writes_them() -> None:
    """Quotes and backslashes are escaped; places are counted; an excerpt marks phrases and beginnings."""
    assert words("Café it's naïve_x") == ["cafe", "it", "s", "naive", "x"]
    assert vector(["a'b", "c\\d"], places=True) == "'a''b':1 'c\\\\d':2"
    assert query([("step by", False), ("pre", True)]) == "('step' <-> 'by') & ('pre':*)"
    text = "one two three four five six seven eight nine ten eleven twelve thirteen Fourteen fifteen"
    shown, marks = excerpt(text, [("fourt", True)], 6)
    assert [shown[low:high] for low, high in marks] == ["Fourteen"]
    assert shown.startswith("…ten")
