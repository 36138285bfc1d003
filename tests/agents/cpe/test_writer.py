"""Files for CPE: what clew writes, CPE's schema takes and CPE's reader reads."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew
from clew import exports
from clew.agents import cpe
from clew.base.messages import Media, Text, Thinking, ToolCall, ToolResult
from clew.errors import Conflict
from tests.agents.cpe.files import SCHEMA, Convo, sample

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
extras = st.one_of(st.none(), st.dictionaries(words, words, min_size=1, max_size=2))
contents = st.one_of(
    st.tuples(st.just("content"), st.just(0), st.just("text/plain"), words, st.none(), extras),
    st.tuples(st.just("content"), st.just(1), st.just("image/png"), st.just("aGVsbG8="), st.none(), extras),
    st.tuples(st.just("content"), st.just(2), st.just("audio/wav"), st.just("no base64!"), st.none(), extras),
    st.tuples(st.just("thinking"), st.just(0), st.just("text/plain"), words, st.none(), extras),
    st.tuples(st.just("odd"), st.integers(0, 3), st.just("text/x"), words, st.one_of(st.none(), words), extras),
)
calls = st.builds(
    lambda name, arguments, call: ("tool_call", 0, "application/json", _call(name, arguments), call, None),
    words, st.dictionaries(words, words, max_size=2), st.sampled_from(["c1", "c2"]),
)  # fmt: skip
results = st.tuples(st.just("content"), st.just(0), st.just("text/plain"), words, st.sampled_from(["c1", "c2"]), extras)
rows = st.one_of(
    st.tuples(st.just("user"), st.booleans().map(lambda _: False), st.lists(contents, max_size=3)),
    st.tuples(st.just("assistant"), st.just(False), st.lists(st.one_of(contents, calls), max_size=3)),
    st.tuples(st.just("tool_result"), st.booleans(), st.lists(results, min_size=1, max_size=3)),
)
trees = st.lists(
    st.tuples(rows, st.integers(0, 9), st.one_of(st.none(), st.sampled_from(["Label", "subagent:review:a1"]))),
    min_size=1, max_size=8,
)  # fmt: skip


def _call(name: str, arguments: dict[str, str]) -> str:
    return json.dumps({"name": name, "parameters": arguments})


def _value(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def everything(path: Path) -> dict[str, Any]:
    """What a file has, by message: JSON as values, times as instants."""
    found: dict[str, Any] = {}
    with closing(sqlite3.connect(path)) as conn:
        for id, parent, title, role, failed, at in conn.execute("SELECT * FROM messages"):
            blocks = conn.execute(
                "SELECT id, block_type, modality_type, mime_type, content, extra_fields FROM blocks"
                " WHERE message_id = ? ORDER BY sequence_order",
                [id],
            ).fetchall()
            values = [
                (call, kind, modality, mime, _value(content) if kind == "tool_call" else content, _value(extra))
                for call, kind, modality, mime, content, extra in blocks
            ]
            found[id] = parent, title, role, bool(failed), at[:19], values
    return found


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(made=trees)
def test_there_and_back(tmp_path_factory: pytest.TempPathFactory, made: Any) -> None:
    """A file that was imported is written out with the same ids, trees, titles, times and blocks."""
    folder = tmp_path_factory.mktemp("cpe")
    file = Convo(folder / ".cpeconvo")
    for number, ((role, failed, blocks), above, title) in enumerate(made):
        parent = None if above == 0 or number == 0 else f"Msg{(above - 1) % number:03}"
        file.say(f"Msg{number:03}", parent, role, *blocks, title=title, error=failed)
    file.close()
    with clew.open(":memory:") as store:
        assert not cpe.import_file(store, folder / ".cpeconvo").skipped
        exports.write(store, folder / "out", form="cpeconvo")
    assert everything(folder / "out") == everything(folder / ".cpeconvo")


def test_the_sample(tmp_path: Path, store: clew.Store) -> None:
    """Branches, a subagent's trace, media and unknown blocks are as CPE wrote them."""
    sample(tmp_path / ".cpeconvo").close()
    cpe.import_file(store, tmp_path / ".cpeconvo")
    done = exports.write(store, tmp_path / "out", form="cpeconvo")
    assert (done.conversations, done.damaged, done.refused) == (3, (), ())
    assert everything(tmp_path / "out") == everything(tmp_path / ".cpeconvo")
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o600
    assert sorted(one.name for one in tmp_path.iterdir() if "export" in one.name) == []


def test_the_schema_is_that_of_cpe(tmp_path: Path, store: clew.Store) -> None:
    """Tables, columns, keys and indexes are those that CPE makes, and CPE's own statements work on them."""
    store.sessions.create().append(clew.user("x"))
    exports.write(store, tmp_path / "out", form="cpeconvo")

    def shape(conn: sqlite3.Connection) -> list[Any]:
        names = ("messages", "blocks")
        return [
            [conn.execute(f"PRAGMA {what}({name})").fetchall() for what in ("table_info", "foreign_key_list")]
            for name in names
        ] + sorted(conn.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"))

    with closing(sqlite3.connect(tmp_path / "out")) as conn, closing(sqlite3.connect(":memory:")) as theirs:
        theirs.executescript(SCHEMA)
        assert shape(conn) == shape(theirs)
        conn.executescript(SCHEMA)  # as CPE does when it opens a file
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert conn.execute("PRAGMA foreign_key_check").fetchall() == []


def test_conversations_made_in_clew(tmp_path: Path, store: clew.Store) -> None:
    """Tool results become messages of their own; a system prompt is left out; forks and compactions are one tree."""
    session = store.sessions.create(title="Build")
    session.append([clew.system("Be brief."), clew.user("Look")])
    call = ToolCall(id="c1", name="run", arguments={"cmd": "ls"})
    session.append(clew.assistant(Thinking(text="Hm", signature="s"), call))
    mixed = (
        ToolResult(call_id="c1", content=(Text(text="a"),)), ToolResult(call_id="c2", is_error=True), Text(text="Go on")
    )  # fmt: skip
    session.append(clew.user(*mixed))
    digest = session.blobs.put(b"%PDF").digest
    session.append(clew.user(Media(mime_type="application/pdf", modality="document", blob=digest, name="a.pdf")))
    fork = session.fork(at=session.path()[1].id, title="Other")
    fork.append(clew.assistant("No"))
    session.compact(clew.system("They looked."))
    session.append(clew.assistant("Done"))
    trace = store.sessions.create(agent="helper", owner=session, title="trace")
    trace.append(clew.user("Task"))
    exports.write(store, tmp_path / ".cpeconvo", form="cpeconvo")
    with cpe.view(tmp_path / ".cpeconvo").store as back:
        (tree,) = back.sessions.list().items
        (branch,) = tree.branches()
        texts = [(node.role, node.text) for node in tree.path()]
        assert texts == [
            ("user", "Look"), ("assistant", ""), ("tool", "a"), ("tool", ""), ("user", "Go on"), ("user", ""),
            ("assistant", "Done"),
        ]  # fmt: skip
        assert [node.text for node in back.nodes.path(branch.head_id)] == ["Look", "No"]
        failed = [
            block.is_error for node in tree.path() for block in node.message.blocks if isinstance(block, ToolResult)
        ]
        assert failed == [False, True]
        (pdf,) = tree.path()[5].message.blocks
        assert isinstance(pdf, Media) and (pdf.modality, pdf.name) == ("document", "a.pdf")
        assert tree.blobs.get(pdf.blob or "") == b"%PDF"
        assert (tree.title, [one.agent for one in back.sessions.list(subagents=True).items]) == ("Build", ["helper"])


def test_a_file_that_is_there_stays(tmp_path: Path, store: clew.Store) -> None:
    """A file of CPE is never replaced."""
    sample(tmp_path / ".cpeconvo").close()
    before = (tmp_path / ".cpeconvo").read_bytes()
    with pytest.raises(Conflict, match="exists"):
        exports.write(store, tmp_path / ".cpeconvo", form="cpeconvo")
    assert (tmp_path / ".cpeconvo").read_bytes() == before
