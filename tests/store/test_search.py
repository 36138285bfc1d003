"""Search finds messages for any query, and follows what is stored and deleted."""

from __future__ import annotations

import os
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.backends.fts_tables import FtsTables
from clew.engine.receipts import Receipt
from clew.store.parts import Parts
from clew.store.search import text as words
from clew.store.search.index import BATCH, Index
from clew.store.session import delete_session
from clew.testing import FakeClock


@pytest.fixture
def store(tmp_path: Path):
    with clew.open(tmp_path / "s.db") as opened:
        yield opened


def snippets(store: clew.Store, query: str, **filters):
    return [hit.snippet for hit in store.search(query, **filters)]


def shown(hit):
    return [hit.snippet[start:end] for start, end in hit.marks]


def test_finds_words_in_any_order(store):
    """All words must match, in any order; case and accents do not matter."""
    session = store.sessions.create(title="Build")
    session.append([clew.user("The lint step fails in the café"), clew.user("the step")])
    assert snippets(store, "STEP Lint") == ["The lint step fails in the café"]
    assert snippets(store, "cafe") == ["The lint step fails in the café"]
    assert snippets(store, "lint missing") == []


def test_marks_what_matched(store):
    """The marks of a hit point at the words that matched, and at nothing else."""
    session = store.sessions.create()
    session.append(clew.user("a lint step, and another lint"))
    (hit,) = store.search("lint")
    assert shown(hit) == ["lint", "lint"]
    assert hit.marks == ((2, 6), (25, 29))
    assert hit.session == session
    assert hit.node.text == "a lint step, and another lint"


def test_snippets_are_made_when_they_are_read(store, monkeypatch):
    """A search makes no snippet, and a hit makes its own once; those of a message purged meanwhile can be read."""
    session = store.sessions.create()
    session.append([clew.user(f"a lint step {n}") for n in range(5)])
    made = []
    excerpt = words.excerpt

    def noted(text, *rest):
        made.append(text)
        return excerpt(text, *rest)

    monkeypatch.setattr(words, "excerpt", noted)
    hits = store.search("lint")
    assert made == []
    assert (hits[2].marks, hits[2].snippet) == (((2, 6),), hits[2].node.text)
    assert made == [hits[2].node.text]
    store.sessions.purge(session.id)
    assert hits[0].snippet == hits[0].node.text
    assert (hits[0].session, hits[0].sessions) == (None, [])


def test_the_sessions_of_a_hit(store, monkeypatch):
    """A hit names the session where its message was written, and all that have it, which are read once for all hits."""
    first = store.sessions.create()
    shared = first.append([clew.user("word shared"), clew.user("word left")])[0]
    fork = first.fork(at=shared.id)
    fork.append(clew.user("word fork"))
    first.compact(clew.system("summary"))
    fork.append(clew.user("later"))
    store.sessions.create().append(clew.user("word lone"))
    hits = {hit.node.text: hit for hit in store.search("word")}
    engine, reads = Parts.of(store).engine, []
    read = engine.read

    def noted(work, **how):
        reads.append(work)
        return read(work, **how)

    monkeypatch.setattr(engine, "read", noted)
    assert hits["word shared"].sessions == [first, fork]
    assert hits["word left"].sessions == [first]
    assert hits["word fork"].sessions == [fork]
    assert [hits[f"word {text}"].session for text in ("shared", "left", "fork")] == [first, first, fork]
    assert len(reads) == 1
    monkeypatch.undo()
    first.delete()
    assert [hit.session for hit in store.search("shared")] == [fork]


def test_the_session_of_a_message_that_its_writer_left(store):
    """After a rewind, a hit names the oldest session that still has the message, and none for a branch."""
    first = store.sessions.create()
    ground, shared = first.append([clew.user("ground"), clew.user("word shared")])
    first.append(clew.user("word left"))
    fork = first.fork(at=shared)
    first.rewind(ground)
    found = {hit.node.text: (hit.session, hit.sessions) for hit in store.search("word")}
    assert found == {"word shared": (fork, [fork]), "word left": (None, [])}
    first.rewind(None)
    first.append(clew.user("word again"), expect_head=None)
    assert [hit.session for hit in store.search("ground")] == [fork]


@pytest.mark.parametrize("query", ["lint", "x*"])
def test_a_snippet_stays_short_beside_a_long_word(store, query):
    """A file in base64 is one word; what is shown has at most a few hundred characters, and the match among them."""
    text = "x" * 20_000 + " lint " + "y" * 20_000
    store.sessions.create().append(clew.user(text))
    (hit,) = store.search(query)
    assert len(hit.snippet) <= 402
    assert hit.snippet.strip("…") in text
    assert {word[0] for word in shown(hit)} == {query[0]}
    assert query != "lint" or shown(hit) == ["lint"]


def test_phrases_and_prefixes(store):
    """Quotes make a phrase, a star a beginning."""
    session = store.sessions.create()
    session.append([clew.user("step by step"), clew.user("by a step"), clew.user("linting")])
    assert snippets(store, '"by step"') == ["step by step"]
    assert snippets(store, "lint*") == ["linting"]
    assert snippets(store, "lint") == []
    assert snippets(store, '"by st"*') == ["step by step"]


def test_ranks_the_better_match_first(store):
    """A message that is about a word comes before one that only mentions it."""
    session = store.sessions.create()
    session.append([clew.user("needle " + "hay " * 200), clew.user("needle needle")])
    assert snippets(store, "needle")[0] == "needle needle"
    scores = [hit.score for hit in store.search("needle")]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("mode", ["words", "substring"])
def test_few_and_many_are_ranked_alike(store, mode):
    """The best are the same, with the same scores, whether more match than are asked for or not."""
    session = store.sessions.create()
    session.append([clew.user("needle " * (1 + n % 4) + "hay " * (7 * n % 30)) for n in range(30)])
    found = [(hit.node.id, hit.snippet, hit.marks, hit.score) for hit in store.search("needle", limit=30, mode=mode)]
    assert len(found) == 30
    for limit in (1, 7, 29):
        best = store.search("needle", limit=limit, mode=mode)
        assert [(hit.node.id, hit.snippet, hit.marks, hit.score) for hit in best] == found[:limit]


@pytest.mark.parametrize("mode", ["words", "substring"])
def test_a_topic_that_fills_a_part_is_found_first(store, small_parts, mode):
    """Where a conversation fills parts of the index with its topic, it still comes before passing mentions."""
    talk, topic = store.sessions.create(), store.sessions.create()
    talk.append([clew.user(f"by the way a zeppelin {n}" if n % 5 == 0 else f"hay and straw {n}") for n in range(150)])
    topic.append([clew.user(f"zeppelin {n}, the zeppelin") for n in range(90)])
    talk.append([clew.user(f"by the way a zeppelin {n}" if n % 5 == 0 else f"hay and straw {n}") for n in range(300)])
    found = store.search("zeppelin", limit=50, mode=mode)
    assert [hit.node.text.count("zeppelin") for hit in found] == [2] * 50
    both = store.search("zeppelin the", limit=50, mode=mode)
    assert sum(hit.node.text.count("zeppelin") == 2 for hit in both) >= 45


@pytest.mark.parametrize("query", ["common", "rare", "com*"])
def test_parts_score_like_one_table(store, monkeypatch, query):
    """Messages of one length have the scores that an index in one part gives them."""
    session = store.sessions.create()
    texts = [["common", "common", "rare", "hay"][: 1 + n * n % 4] * (n % 7 < 1 + n // 50) for n in range(200)]
    session.append([clew.user(" ".join([*some, *["hay"] * (4 - len(some)), str(n)])) for n, some in enumerate(texts)])
    expected = {hit.node.id: hit.score for hit in store.search(query, limit=200)}
    monkeypatch.setattr("clew.backends.fts_tables.PART", 30)
    Parts.of(store).search.remove()
    found = {hit.node.id: hit.score for hit in store.search(query, limit=200)}
    assert found == pytest.approx(expected, rel=0.01)
    few = store.search(query, limit=3, since=session.path()[100].created_at)
    assert [hit.score for hit in few] == pytest.approx([found[hit.node.id] for hit in few])


def test_a_part_of_long_messages_does_not_come_first(store, small_parts):
    """A mention in a long message comes after one in a short message, also where all messages of a part are long."""
    session = store.sessions.create()
    for size in (400, 1):
        hay = "hay " * size
        session.append([clew.user(f"{hay}needle {n}" if n % 3 == 0 else f"{hay}straw {n}") for n in range(30)])
    assert [len(hit.node.text) < 20 for hit in store.search("needle", limit=20)] == [True] * 10 + [False] * 10


def test_filters(tmp_path: Path):
    """Role, time and session narrow a search."""
    clock = FakeClock()
    with clew.open(tmp_path / "s.db", clock=clock) as store:
        one, two = store.sessions.create(), store.sessions.create()
        one.append([clew.user("word one"), clew.assistant("word answer")])
        clock.advance(3600 * 1_000_000)
        two.append(clew.user("word two"))
        noon = two.path()[0].created_at
        assert snippets(store, "word", role="assistant") == ["word answer"]
        assert snippets(store, "word", since=noon) == ["word two"]
        assert sorted(snippets(store, "word", until=noon)) == ["word answer", "word one"]
        assert sorted(snippets(store, "word", session=one)) == ["word answer", "word one"]
        assert snippets(store, "word", session=two.id, until=noon) == []
        assert len(store.search("word", limit=2)) == 2


def test_session_filter_follows_the_path(store):
    """A session filter covers its messages and those it compacted, not those of a rewind or a fork."""
    session = store.sessions.create()
    first = session.append(clew.user("word start"))
    session.append(clew.user("word left"))
    session.rewind(to=first.id)
    fork = session.fork()
    fork.append(clew.user("word fork"))
    session.append(clew.user("word on"))
    session.compact(clew.system("word summary"))
    assert sorted(snippets(store, "word", session=session)) == ["word on", "word start", "word summary"]
    assert sorted(snippets(store, "word", session=fork)) == ["word fork", "word start"]


def test_finds_tool_calls_results_and_native_messages(store):
    """Arguments and results of tools, and a provider's own JSON, are searched too."""
    session = store.sessions.create()
    session.append(
        [
            clew.assistant(clew.ToolCall(id="1", name="grep", arguments={"pattern": "haystack"})),
            clew.tool("found a needle", call_id="1"),
            clew.native("anthropic", b'{"role": "assistant", "content": [{"type": "text", "text": "native pin"}]}'),
        ]
    )
    assert [hit.node.role for hit in store.search("haystack")] == ["assistant"]
    assert [hit.node.role for hit in store.search("needle")] == ["tool"]
    assert snippets(store, "pin") == ["native pin"]


def test_substrings_for_languages_without_spaces(store):
    """Chinese, Japanese and code are found by any run of characters; scripts without spaces in either mode."""
    session = store.sessions.create()
    session.append([clew.user("北京是中国的首都"), clew.user("コードを検索する"), clew.user("foo_bar(x) == 100%")])
    for query, text in [("北京", "北京是中国的首都"), ("首都", "北京是中国的首都"), ("国的首", "北京是中国的首都"),
                        ("検索", "コードを検索する"), ("o_b", "foo_bar(x) == 100%"), ("0%", "foo_bar(x) == 100%"),
                        ("BAR(", "foo_bar(x) == 100%")]:  # fmt: skip
        (hit,) = store.search(query, mode="substring")
        assert hit.snippet == text
        assert [word.lower() for word in shown(hit)] == [query.lower()]
    assert snippets(store, "検索", mode="words") == ["コードを検索する"]
    assert store.search("上海", mode="substring") == []
    assert snippets(store, "foo 100", mode="substring") == ["foo_bar(x) == 100%"]
    assert snippets(store, "foo x", mode="substring") == ["foo_bar(x) == 100%"]


@pytest.mark.parametrize("mode", ["words", "substring"])
@pytest.mark.parametrize(
    "query",
    ["", "   ", '"', '""', "*", "(", ")", "a AND", "NEAR(", "NOT", "OR OR", "col:word", "^", "-x", "a*b",
     "'; DROP TABLE x", "\0", "\ud800", "%", "_", "\\", "{", "+", "a" * 5000, "🧵", "text : x", '"a" "b', "e\u0301"],
)  # fmt: skip
def test_odd_input_is_never_an_error(store, query, mode):
    """Every query finds matches or nothing."""
    store.sessions.create().append(clew.user("plain words"))
    assert isinstance(store.search(query, mode=mode), list)


@settings(max_examples=100, deadline=None)
@given(query=st.text(max_size=40), mode=st.sampled_from(["words", "substring"]))
def test_any_text_is_a_query(query, mode):
    """No query is a syntax error."""
    with clew.open(":memory:") as store:
        store.sessions.create().append(clew.user("plain words"))
        assert isinstance(store.search(query, mode=mode), list)


@pytest.mark.parametrize("bad", [{"limit": 0}, {"mode": "fuzzy"}, {"role": "boss"}, {"since": datetime(2026, 1, 1)}])
def test_bad_filters_are_invalid(store, bad):
    """An invalid filter is refused."""
    with pytest.raises(clew.Invalid):
        store.search("x", **bad)


def test_keeps_up_with_appends_and_deletes(store):
    """A search sees what was stored since the last one, and not what was deleted."""
    session = store.sessions.create()
    for number in range(3):
        node = session.append(clew.user(f"word {number}"))
        assert len(store.search("word")) == number + 1
    store.nodes.delete(node.id)
    assert len(store.search("word")) == 2
    delete_session(session)
    assert store.search("word") == []
    index = sqlite3.connect(f"{store.path}-search")
    assert index.execute("SELECT count(*) FROM messages").fetchone() == (0,)
    index.close()


def test_short_substrings_after_deleting(store):
    """A substring of two characters is found newest first, and not in messages that were deleted since."""
    gone, kept = store.sessions.create(), store.sessions.create()
    gone.append([clew.user(f"apple {number}") for number in range(2)])
    kept.append([clew.user(f"apple {number}") for number in range(2, 5)])
    assert len(store.search("ap", mode="substring")) == 5
    delete_session(gone)
    assert snippets(store, "ap", mode="substring") == ["apple 4", "apple 3", "apple 2"]
    assert snippets(store, "ap", mode="substring", limit=2) == ["apple 4", "apple 3"]


def test_positions_are_not_mixed_up_after_deleting(store):
    """A message that comes after a deleted one is found as itself."""
    session = store.sessions.create()
    first = session.append(clew.user("keep"))
    last = session.append(clew.user("apple"))
    assert snippets(store, "apple") == ["apple"]
    store.nodes.delete(last.id)
    session.append(clew.user("pear"))
    assert snippets(store, "apple") == []
    assert snippets(store, "pear") == ["pear"]
    assert [node.text for node in session.path()] == ["keep", "pear"]
    assert first.id == session.path()[0].id


def test_the_index_can_be_deleted_or_broken(tmp_path: Path):
    """The index is disposable: if it is missing, damaged or of another store, it is rebuilt."""
    path = tmp_path / "s.db"
    with clew.open(path) as store:
        store.sessions.create().append(clew.user("word"))
        assert len(store.search("word")) == 1
    os.unlink(f"{path}-search")
    with clew.open(path) as store:
        assert len(store.search("word")) == 1
    Path(f"{path}-search").write_bytes(b"not a database at all" * 100)
    with clew.open(path) as store:
        assert len(store.search("word")) == 1
    with clew.open(tmp_path / "other.db") as other:
        other.sessions.create().append(clew.user("alien"))
        other.search("alien")
    os.replace(tmp_path / "other.db-search", f"{path}-search")
    with clew.open(path) as store:
        assert len(store.search("word")) == 1
        assert store.search("alien") == []


def test_what_is_read_at_once_becomes_one_segment(store):
    """After much was read the index is in one piece, and what comes later is found as well."""
    session = store.sessions.create()
    session.append([clew.user(f"word {n}") for n in range(3 * BATCH)])
    assert len(store.search("word", limit=4 * BATCH)) == 3 * BATCH
    index = sqlite3.connect(f"{store.path}-search")
    assert index.execute("SELECT count(DISTINCT segid) FROM words_1_idx").fetchone() == (1,)
    index.close()
    session.append([clew.user(f"word {n} again") for n in range(BATCH)])
    assert len(store.search("again", limit=4 * BATCH)) == BATCH
    assert len(store.search("word", limit=5 * BATCH)) == 4 * BATCH


def test_an_index_that_another_process_empties_is_filled_again(store, monkeypatch):
    """A purge elsewhere empties a part between its being filled and its being asked: nothing is missed."""
    session, gone = store.sessions.create(), store.sessions.create()
    session.append([clew.user(f"word {n}") for n in range(50)])
    gone.append(clew.user("word to purge"))
    fill = Index._catch_up
    purged: list[Receipt] = []
    with clew.open(store.path) as other:
        monkeypatch.setattr(Parts.of(other).search, "refill", lambda: None)

        def interrupted(self, *given):
            done = fill(self, *given)
            if not purged:
                purged.append(other.sessions.purge(gone.id))
            return done

        monkeypatch.setattr(Index, "_catch_up", interrupted)
        assert len(store.search("word", limit=100)) == 50
        assert purged[0].pending == ()


@pytest.fixture
def small_parts(monkeypatch):
    """An index with ten messages in a part, so that a few messages have many."""
    monkeypatch.setattr("clew.backends.fts_tables.PART", 10)


def test_many_parts_are_one_index(store, small_parts):
    """Whatever part a message is in, it is found: by rank, newest first, by substring, with filters, page by page."""
    sessions = [store.sessions.create() for _ in range(3)]
    for number in range(95):
        sessions[number % 3].append(clew.user(f"word {'needle ' * (number % 7)}{number:03}"))
        if number in (40, 70):
            assert len(store.search("word", limit=200)) == number + 1
    assert {hit.node.text[-3:] for hit in store.search("word", limit=200)} == {f"{n:03}" for n in range(95)}
    found = store.search("needle", limit=200)
    assert len(found) == sum(n % 7 > 0 for n in range(95))
    assert [hit.node.id for hit in store.search("needle", limit=9)] == [hit.node.id for hit in found][:9]
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    index = sqlite3.connect(f"{store.path}-search")
    assert index.execute("SELECT count(*), max(low), min(done - low) FROM parts").fetchone() == (9, 81, 9)
    index.close()
    newest = Parts.of(store).search("word", limit=40, newest=True)
    assert [hit.node.text[-3:] for hit in newest] == [f"{n:03}" for n in range(94, 54, -1)]
    assert {hit.node.text[-2:] for hit in store.search("09", mode="substring", limit=99)} == {
        "09",
        *map(str, range(90, 95)),
    }
    assert len(store.search("word", session=sessions[1], limit=99)) == 32
    assert store.verify().ok


def test_a_damaged_number_does_not_stop_the_index(store, small_parts):
    """A message whose number in commit order is far too high is found without a part for each number before it."""
    store.sessions.create().append([clew.user(f"word {number}") for number in range(25)])
    for number in (1 << 31, 1 << 61):
        with sqlite3.connect(store.path) as conn:
            conn.execute("UPDATE nodes SET ord = ? WHERE ord = (SELECT max(ord) FROM nodes)", (number,))
        conn.close()
        assert len(store.search("word", limit=50)) == 25
    index = sqlite3.connect(f"{store.path}-search")
    assert index.execute("SELECT count(*) < 6 FROM parts").fetchone() == (1,)
    index.close()
    with sqlite3.connect(store.path) as conn:
        conn.execute("UPDATE nodes SET ord = ? WHERE ord = (SELECT max(ord) FROM nodes)", ((1 << 63) - 1,))
    conn.close()
    with pytest.raises(clew.errors.Corrupted):
        store.search("word")


def test_a_purge_fills_one_part_again(store, small_parts, monkeypatch):
    """A purge erases the words of its part alone, and fills that part; the other parts stay as they are."""
    kept, gone = store.sessions.create(), store.sessions.create()
    kept.append([clew.user(f"word {n}") for n in range(33)])
    gone.append([clew.user("word zanzibar"), clew.user("zanzibar again")])
    kept.append([clew.user(f"word {n}") for n in range(33, 95)])
    for mode in ("words", "substring"):
        assert len(store.search("zanzibar", mode=mode)) == 2
    filled: list[str] = []
    fill = FtsTables.fill

    def noted(self, part, *rest):
        filled.append(part.table)
        fill(self, part, *rest)

    monkeypatch.setattr(FtsTables, "fill", noted)
    assert store.sessions.purge(gone.id).pending == ()
    assert filled == ["words_31", "substring_31"]
    for file in Path(store.path).parent.iterdir():
        assert b"zanzi" not in file.read_bytes(), file
    for mode in ("words", "substring"):
        assert store.search("zanzibar", mode=mode) == []
        assert len(store.search("word", mode=mode, limit=200)) == 95
    assert filled == ["words_31", "substring_31"]
    assert store.verify().ok


def test_a_deleted_message_is_erased_by_the_next_purge(store, small_parts):
    """Words of a message that was deleted, and not purged, stay in the file until a purge of anything."""
    kept, gone, other = (store.sessions.create() for _ in range(3))
    kept.append([clew.user(f"word {n}") for n in range(60)])
    gone.append(clew.user("zanzibar"))
    other.append(clew.user("other"))
    assert len(store.search("zanzibar")) == 1
    delete_session(gone)
    assert store.search("zanzibar") == []
    assert b"zanzibar" in Path(f"{store.path}-search").read_bytes() + Path(f"{store.path}-search-wal").read_bytes()
    assert store.sessions.purge(other.id).pending == ()
    assert [file for file in Path(store.path).parent.iterdir() if b"zanzi" in file.read_bytes()] == []
    assert len(store.search("word", limit=99)) == 60


def test_an_index_of_an_earlier_version_is_replaced(tmp_path: Path):
    """An index that another version of clew wrote is replaced by a new one, and none of its words stay."""
    path = tmp_path / "s.db"
    with clew.open(path) as store:
        store.sessions.create().append(clew.user("word"))
        store.search("word")
    index = sqlite3.connect(f"{path}-search", isolation_level=None)
    index.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")
    index.execute("INSERT INTO words VALUES ('zanzibar')")
    index.execute("PRAGMA user_version = 1")
    index.close()
    with clew.open(path) as store:
        assert store.verify().ok
        assert len(store.search("word")) == 1
    assert b"zanzi" not in Path(f"{path}-search").read_bytes()


def test_a_search_that_failed_is_made_again(tmp_path: Path):
    """Damage to the store is reported as such; after its repair, search works as before."""
    path = tmp_path / "s.db"
    with clew.open(path) as store, sqlite3.connect(path) as raw:
        store.sessions.create().append([clew.user("word a"), clew.user("word b")])
        assert len(store.search("word")) == 2
        (facts,) = raw.execute("SELECT facts FROM nodes ORDER BY pos LIMIT 1").fetchone()
        raw.execute("UPDATE nodes SET facts = CAST(x'ff' AS TEXT) WHERE facts = ?", (facts,))
        raw.commit()
        for _ in range(2):
            with pytest.raises(clew.errors.Corrupted):
                store.search("word")
        raw.execute("UPDATE nodes SET facts = ? WHERE facts = CAST(x'ff' AS TEXT)", (facts,))
        raw.commit()
        assert len(store.search("word")) == 2
    raw.close()


def test_someone_elses_file_is_left_alone(tmp_path: Path):
    """A database of another program that has the index's name is not touched."""
    other = sqlite3.connect(tmp_path / "s.db-search")
    other.execute("CREATE TABLE precious (x)")
    other.commit()
    other.close()
    before = (tmp_path / "s.db-search").read_bytes()
    with clew.open(tmp_path / "s.db") as store:
        store.sessions.create().append(clew.user("word"))
        with pytest.raises(clew.Invalid, match="in the way"):
            store.search("word")
    assert (tmp_path / "s.db-search").read_bytes() == before


def test_a_restored_backup_is_indexed_anew(tmp_path: Path):
    """An index that has read messages which a restored store does not have does not hide what that store has."""
    path = tmp_path / "s.db"
    with clew.open(path) as store:
        session = store.sessions.create()
        session.append(clew.user("shared word"))
        store.backup(tmp_path / "copy.db")
        session.append([clew.user(f"lost word {n}") for n in range(5)])
        assert len(store.search("word")) == 6
    for end in ("", "-wal", "-shm"):
        if os.path.exists(f"{path}{end}"):
            os.unlink(f"{path}{end}")
    os.replace(tmp_path / "copy.db", path)
    with clew.open(path) as store:
        session = store.sessions.latest()
        session.append([clew.user(f"new word {n}") for n in range(9)])
        assert len(store.search("word")) == 10
        assert store.search("lost") == []


def test_a_disk_that_fills_up_does_not_end_searching(store):
    """If the index file cannot grow, search uses memory; a purge still clears the file."""
    session = store.sessions.create()
    session.append(clew.user("zanzibar first"))
    assert len(store.search("zanzibar")) == 1
    index = Parts.of(store).search.index
    assert isinstance(index, Index)
    conn = index.open()
    conn.execute(f"PRAGMA max_page_count = {conn.execute('PRAGMA page_count').fetchone()[0]}")
    session.append([clew.user(f"zanzibar {n} {'word ' * 500}") for n in range(40)])
    assert len(store.search("zanzibar", limit=100)) == 41
    assert len(store.search("zanzibar", limit=100)) == 41
    file = Path(f"{store.path}-search")
    assert b"zanzibar" in file.read_bytes()
    assert store.sessions.purge(session.id).pending == ()
    assert store.search("zanzibar") == []
    store.close()
    assert [one.name for one in file.parent.iterdir() if b"zanzibar" in one.read_bytes()] == []


def test_progress_and_several_modes(store):
    """Indexing tells how far it is, in each mode on its own."""
    store.sessions.create().append([clew.user(f"word {n}") for n in range(1200)])
    seen: list[tuple[int, int]] = []
    assert len(store.search("word", progress=lambda done, total: seen.append((done, total)))) == 20
    assert seen[-1] == (1200, 1200)
    assert len(seen) == 3
    having = sum("11" in str(number) for number in range(1200))
    assert len(store.search("ord 11", mode="substring", limit=500)) == having


def test_two_stores_share_an_index(tmp_path: Path):
    """Two openings of one store use one index, and each sees what the other wrote."""
    with clew.open(tmp_path / "s.db") as one, clew.open(tmp_path / "s.db") as two:
        session = one.sessions.create()
        session.append(clew.user("first word"))
        assert len(two.search("word")) == 1
        session.append(clew.user("second word"))
        assert len(one.search("word")) == 2
        assert len(two.search("word")) == 2


def test_a_damaged_message_does_not_stop_the_index(tmp_path: Path):
    """Words of a message whose bytes are damaged are not found; all others are."""
    path = tmp_path / "s.db"
    with clew.open(path) as store:
        store.sessions.create().append([clew.user("word a"), clew.user("word b"), clew.user("word c")])
    raw = sqlite3.connect(path)
    raw.execute("UPDATE nodes SET body = x'01000000007b7d' WHERE pos & 16777215 = 1")
    raw.commit()
    raw.close()
    with clew.open(path) as store:
        assert sorted(snippets(store, "word")) == ["word a", "word c"]


def test_workspaces_do_not_see_each_other(tmp_path: Path):
    """A search in one workspace finds nothing of another's, however much of it there is."""
    with clew.open(tmp_path / "s.db", workspace="a") as a, clew.open(tmp_path / "s.db", workspace="b") as b:
        a.sessions.create().append([clew.user(f"word {n}") for n in range(80)])
        b.sessions.create().append(clew.user("word of b"))
        assert snippets(b, "word") == ["word of b"]
        assert len(a.search("word", limit=100)) == 80


def test_a_store_in_memory_is_searched_in_memory(tmp_path: Path):
    """A store in memory is searched in memory."""
    with clew.open(":memory:") as store:
        store.sessions.create().append(clew.user("word"))
        assert len(store.search("word")) == 1
    assert list(tmp_path.iterdir()) == []


def test_verify_compares_the_index(tmp_path: Path):
    """An index whose words differ from the store's is named, and deleting it mends that."""
    path = tmp_path / "s.db"
    with clew.open(path) as store:
        store.sessions.create().append([clew.user("word a"), clew.user("word b")])
        store.search("word")
        assert store.verify().ok
    index = sqlite3.connect(f"{path}-search")
    index.execute("INSERT INTO words_1 (words_1, rowid, text) VALUES ('delete', 2, 'word b')")
    index.commit()
    index.close()
    with clew.open(path) as store:
        report = store.verify()
        assert [damage.what for damage in report.damage] == ["search"]
        assert "delete the file" in report.damage[0].why
    os.unlink(f"{path}-search")
    with clew.open(path) as store:
        assert store.verify().ok


def test_the_append_path_writes_no_index(tmp_path: Path):
    """Appending does not touch the search database; it is not even there before the first search."""
    with clew.open(tmp_path / "s.db") as store:
        store.sessions.create().append(clew.user("word"))
        assert not (tmp_path / "s.db-search").exists()
        store.search("word")
        assert (tmp_path / "s.db-search").stat().st_mode & 0o777 == 0o600


def test_relative_age_of_hits(store):
    """The message of a hit has its time."""
    session = store.sessions.create()
    yesterday = datetime.now(UTC) - timedelta(days=1)
    session.append(clew.user("old word"), created_at=yesterday)
    (hit,) = store.search("word", until=yesterday + timedelta(hours=1))
    assert hit.node.created_at == yesterday
