"""What every format of an application promises, with one sample for each."""

from __future__ import annotations

import copy
import json
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew
from clew.base.messages import Native
from clew.errors import ClewError, Invalid
from clew.providers.neutral import encode, neutral
from clew.sources.contract import About, Entry, Skip, Source
from clew.sources.importer import import_item, records
from clew.sources.items import items
from clew.sources.registry import find, sources
from tests.sources.samples import APPS, Sample

LINES = [sample for sample in APPS if all(path.endswith(".jsonl") for path in sample.histories)]
JSON = [sample for sample in APPS if all(path.endswith((".jsonl", ".json")) for path in sample.histories)]
DATABASES = [sample for sample in APPS if sample.databases]


def named(sample: Sample) -> str:
    return sample.name


def source(name: str) -> Source:
    return next(one for one in sources() if one.name == name)


def bring(store: clew.Store, folder: Path, names: list[str], sample: Sample) -> None:
    for name in names:
        (item,) = items(str(folder / name))
        outcome = import_item(store, source(sample.source), item)
        assert not outcome.skipped


def contents(store: clew.Store) -> dict[str, Any]:
    """Everything that an import puts into a store."""
    found = {}
    for session in all_sessions(store):
        found[session.id] = (
            session.title,
            session.cwd,
            session.model,
            session.agent,
            session.head_id,
            [(node.id, node.parent_id, node.text, node.created_at) for node in session.history()],
            sorted(branch.head_id or "" for branch in session.branches()),
            sorted(records(session, store)),
        )
    return found


def all_sessions(store: clew.Store) -> Iterator[Any]:
    for session in store.sessions.list():
        yield session
        yield from session.subagents()


@pytest.mark.parametrize("sample", APPS, ids=named)
def test_it_is_recognised(sample: Sample, tmp_path: Path) -> None:
    """Each file is recognised by its content, and by no other source."""
    sample.write(tmp_path)
    found = {str(Path(one.item.path).relative_to(tmp_path)): one.source for one in find([str(tmp_path)])}
    assert {name: one.name for name, one in found.items() if one is not None} == dict.fromkeys(
        sample.histories, sample.source
    )


@pytest.mark.parametrize("sample", APPS, ids=named)
def test_again_and_in_any_order(sample: Sample, tmp_path: Path) -> None:
    """Imported once, twice, or from the last file to the first, the store is the same."""
    sample.write(tmp_path)
    with clew.open(tmp_path / "a.db") as one, clew.open(tmp_path / "b.db") as other:
        bring(one, tmp_path, sample.histories, sample)
        first = contents(one)
        bring(one, tmp_path, sample.histories, sample)
        bring(other, tmp_path, sample.histories[::-1], sample)
        assert first
        assert contents(one) == first
        assert contents(other) == first
        assert one.verify().damage == []


@pytest.mark.parametrize("sample", LINES, ids=named)
def test_every_line_is_kept(sample: Sample, tmp_path: Path) -> None:
    """The records of all conversations are the lines of the files."""
    sample.write(tmp_path)
    with clew.open(tmp_path / "a.db") as store:
        bring(store, tmp_path, sample.histories, sample)
        kept = [record for session in all_sessions(store) for record in records(session, store) if record]
    lines = [line for name in sample.histories for line in (tmp_path / name).read_bytes().splitlines(keepends=True)]
    assert sorted(kept) == sorted(lines)


@pytest.mark.parametrize("sample", LINES, ids=named)
def test_a_file_that_is_cut_in_its_last_line(sample: Sample, tmp_path: Path) -> None:
    """Cut at any byte of the last line, the file gives everything before that line and no complaint."""
    sample.write(tmp_path)
    name = sample.histories[-1]
    data = (tmp_path / name).read_bytes()
    start = data.rindex(b"\n", 0, -1) + 1

    def read(end: int) -> list[Any]:
        (tmp_path / name).write_bytes(data[:end])
        (item,) = items(str(tmp_path / name))
        return list(source(sample.source).read(item._replace(modified=10**18)))

    expected = read(start)
    for end in range(start, len(data)):
        assert read(end) == expected, f"cut at byte {end}"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


@pytest.mark.parametrize("sample", JSON, ids=named)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_hostile_values(sample: Sample, data: st.DataObject) -> None:
    """Any value in any place gives parts or an error of clew, and messages that can be stored or are refused."""
    name = data.draw(st.sampled_from(sample.histories))
    text = sample.files[name].decode()
    documents = [json.loads(line) for line in text.splitlines()] if name.endswith(".jsonl") else [json.loads(text)]
    for _ in range(data.draw(st.integers(1, 3))):
        mutate(documents, data)
    with tempfile.TemporaryDirectory() as folder:
        sample.write(Path(folder))
        file = Path(folder) / name
        file.write_text("".join(json.dumps(document) + "\n" for document in documents))
        check(sample, str(file))


@pytest.mark.parametrize("sample", DATABASES, ids=named)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_hostile_rows(sample: Sample, data: st.DataObject) -> None:
    """Any value in any row, or inside the JSON of any row, gives the same."""
    with tempfile.TemporaryDirectory() as folder:
        sample.write(Path(folder))
        file = Path(folder) / next(iter(sample.databases))
        with closing(sqlite3.connect(file)) as database:
            names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
            table = data.draw(st.sampled_from([name for (name,) in names]))
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            column = data.draw(st.sampled_from(columns))
            count = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            at = data.draw(st.integers(0, max(count - 1, 0)))
            for rowid, value in database.execute(f"SELECT rowid, {column} FROM {table} LIMIT 1 OFFSET {at}").fetchall():
                database.execute(
                    f"UPDATE OR REPLACE {table} SET {column} = ? WHERE rowid = ?", (changed(value, data), rowid)
                )
            database.commit()
        check(sample, str(file))


def changed(value: Any, data: st.DataObject) -> Any:
    """Another value for a column: one of any type, or its JSON with a value changed."""
    try:
        root = [json.loads(value)]
    except (TypeError, ValueError):
        root = []
    if not root or data.draw(st.booleans()):
        return data.draw(
            st.none() | st.integers(-(2**62), 2**62) | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
        )
    mutate(root, data)
    text = json.dumps(root[0] if root else None)
    return text.encode() if isinstance(value, bytes) else text


def mutate(root: list[Any], data: st.DataObject) -> None:
    """Replaces, removes or repeats a value somewhere below the root."""
    at: Any = root
    while True:
        if not at:
            return
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        inner = at[key]
        if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
            at = inner
            continue
        how = data.draw(st.sampled_from(["replace", "remove", "repeat"]))
        if how == "replace":
            at[key] = data.draw(VALUES)
        elif how == "remove":
            del at[key]
        elif isinstance(at, list):
            at.append(copy.deepcopy(inner))
        return


def check(sample: Sample, path: str) -> None:
    (item,) = items(path)
    given: set[str | None] = set()
    try:
        for part in source(sample.source).read(item):
            assert isinstance(part, About | Entry | Skip)
            if isinstance(part, Entry) and part.message is not None:
                assert part.id is not None
                assert part.parent != part.id
                given.add(part.id)
                try:
                    encode(part.message)
                except Invalid:
                    assert isinstance(part.message, Native)
                    neutral(part.message)
    except ClewError:
        pass
