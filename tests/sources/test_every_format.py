"""What every format promises, with a sample of each."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.base.messages import Native
from clew.providers.neutral import neutral
from clew.sources.contract import Entry, Skip, Source
from clew.sources.importer import import_item, records
from clew.sources.items import items
from clew.sources.registry import find, sources
from clew.sources.sqlite import quote_name, record_row
from tests.sources.samples import APPS, SAMPLES, Sample
from tests.sources.samples.recorded import RECORDED

LINES = [sample for sample in SAMPLES if not sample.databases and all(n.endswith(".jsonl") for n in sample.histories)]
DATABASES = [sample for sample in SAMPLES if sample.databases]


def named(sample: Sample) -> str:
    return sample.name


def source(name: str) -> Source:
    """A source that has seen nothing yet."""
    return type(next(one for one in sources() if one.name == name))()


def bring(store: clew.Store, folder: Path, names: list[str], sample: Sample) -> list[str]:
    """Imports files; the ids of their sessions."""
    reader = source(sample.source)
    found: list[str] = []
    for name in names:
        (item,) = items(str(folder / name))
        outcome = import_item(store, reader, item)
        assert not outcome.skipped
        found += [one.session for one in outcome.conversations]
    return found


def all_sessions(store: clew.Store) -> Iterator[clew.Session]:
    yield from store.sessions.list()
    yield from store.sessions.list(subagents=True)


def contents(store: clew.Store, *, times: bool = True) -> dict[str, Any]:
    """What an import puts into a store, but for the order in which it came."""
    return {
        session.id: (
            session.title,
            session.cwd,
            session.model,
            session.agent,
            session.head_id,
            [(node.id, node.parent_id, node.text, times and node.created_at) for node in session.history()],
            sorted(branch.head_id or "" for branch in session.branches() if branch.head_id != session.head_id),
        )
        for session in all_sessions(store)
    }


@pytest.fixture
def store(tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "store.db") as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "source"


@pytest.mark.parametrize("sample", SAMPLES, ids=named)
def test_it_is_recognised(sample: Sample, folder: Path) -> None:
    """Each file is recognised by its content, and by no other source."""
    sample.write(folder)
    found = {str(Path(one.item.path).relative_to(folder)): one.source for one in find([str(folder)])}
    assert {name: one.name for name, one in found.items() if one} == dict.fromkeys(sample.histories, sample.source)


@pytest.mark.parametrize("sample", SAMPLES, ids=named)
def test_each_message_comes_after_its_parent(sample: Sample, folder: Path) -> None:
    """Ids are unique in a file, parents come first, and every message can be shown."""
    sample.write(folder)
    for name in sample.histories:
        (item,) = items(str(folder / name))
        parts = list(source(sample.source).read(item))
        assert not [part for part in parts if isinstance(part, Skip)]
        told = [part for part in parts if isinstance(part, Entry) and part.id is not None]
        seen: dict[str, set[str | None]] = {}
        for entry in told:
            before = seen.setdefault(entry.conversation, {None})
            assert entry.parent in before
            assert entry.id not in before
            before.add(entry.id)
            assert entry.message is not None
            assert neutral(entry.message).role


@pytest.mark.parametrize("sample", SAMPLES, ids=named)
def test_twice_and_in_two_orders(sample: Sample, folder: Path, tmp_path: Path, store: clew.Store) -> None:
    """Importing again changes nothing, and the order of the files does not matter."""
    sample.write(folder)
    bring(store, folder, sample.histories, sample)
    first = contents(store, times=not sample.restamps)
    written = {session.id: list(records(session, store)) for session in all_sessions(store)}
    bring(store, folder, sample.histories, sample)
    assert contents(store, times=not sample.restamps) == first
    assert {session.id: list(records(session, store)) for session in all_sessions(store)} == written
    assert store.verify().damage == []
    for seed in range(3):
        names = list(reversed(sample.histories)) if seed == 0 else random.Random(seed).sample(
            sample.histories, len(sample.histories)
        )  # fmt: skip
        with clew.open(tmp_path / f"other{seed}.db") as other:
            bring(other, folder, names, sample)
            assert contents(other, times=not sample.restamps) == first


TITLES = {
    "claude-code": ["Run both", "Run both", "Search", "Two commands"],
    "codex": [
        "Count the files", "Let an agent count the files", "Two commands and a pixel", "Two commands and a pixel",
        "Wait a minute",
    ],
    "gemini-cli": [
        "Kill me", "Send an agent", "Where are we going?",
        "Your task is to do a deep investigation of the codebase to find all relevant fi…",
    ],
    "pi": ["A journey", "A journey", "This one fails"],
    "qwen-code": ["Kill me", "This one fails", "Where are we going?", "Where are we going?"],
    "aider": [
        "#### Is this a heading? > and this a quotation?", "Change a.txt", "This one fails", "Where are we going?",
    ],
}  # fmt: skip
"""What the conversations of some samples are called: by the tool, or by their first prompt."""


@pytest.mark.parametrize("sample", [*SAMPLES, *RECORDED, *APPS], ids=named)
def test_every_conversation_has_a_title(sample: Sample, folder: Path, store: clew.Store) -> None:
    """That of the tool, or the first prompt; never a text that the tool itself put before it."""
    sample.write(folder)
    bring(store, folder, sample.histories, sample)
    found = sorted(session.title or "" for session in all_sessions(store))
    assert found
    assert all(title and not title.startswith("<") for title in found)
    if sample.name in TITLES:
        assert found == TITLES[sample.name]


FORKS = {"claude-code": 2, "codex": 1, "codex-old": 1, "llm": 1, "opencode": 1, "pi": 1, "qwen-code": 1}


@pytest.mark.parametrize("order", [1, -1], ids=["as written", "reversed"])
@pytest.mark.parametrize("sample", [*SAMPLES, *RECORDED], ids=named)
def test_forks_are_marked(sample: Sample, order: int, folder: Path, store: clew.Store) -> None:
    """A fork names the conversation that it continues: by the tool's own pointer, or by the messages that both have."""
    sample.write(folder)
    bring(store, folder, sample.histories[::order], sample)
    forks = [session for session in all_sessions(store) if session.forked_from is not None]
    unknown = (sample.name, order) == ("claude-code", -1)  # no pointers: the first copy is taken for the original
    assert len(forks) == FORKS.get(sample.name, 0) - unknown
    for fork in forks:
        shared = {node.id for node in store.sessions.get(fork.forked_from or "").history()}
        assert shared & {node.id for node in fork.history()}


@pytest.mark.parametrize("sample", LINES, ids=named)
def test_the_bytes_of_a_file_come_back(sample: Sample, folder: Path, tmp_path: Path) -> None:
    """Each file alone, written out again, has the bytes it had."""
    sample.write(folder)
    for number, name in enumerate(sample.histories):
        with clew.open(tmp_path / f"{number}.db") as one:
            (session,) = bring(one, folder, [name], sample)
            assert b"".join(records(one.sessions.get(session), one)) == sample.files[name]


@pytest.mark.parametrize("sample", LINES, ids=named)
def test_a_file_that_is_cut_in_its_last_record(sample: Sample, folder: Path, tmp_path: Path) -> None:
    """Wherever the last record is cut, it is left for the next import, and then the file is whole."""
    sample.write(folder)
    name = max(sample.histories, key=lambda name: len(sample.files[name]))
    data = sample.files[name]
    start = data.rindex(b"\n", 0, -1) + 1
    reader = source(sample.source)
    (item,) = items(str(folder / name))
    expected = [part for part in reader.read(item) if isinstance(part, Entry)]
    for cut in range(start, len(data)):
        (folder / name).write_bytes(data[:cut])
        parts = list(reader.read(item))
        assert not [part for part in parts if isinstance(part, Skip)]
        assert [part for part in parts if isinstance(part, Entry)] == expected[:-1]
    for cut in (start, len(data) - 1):
        with clew.open(tmp_path / f"{cut}.db") as one:
            for end in (cut, len(data)):
                (folder / name).write_bytes(data[:end])
                (session,) = bring(one, folder, [name], sample)
            assert b"".join(records(one.sessions.get(session), one)) == data


@pytest.mark.parametrize("sample", LINES, ids=named)
def test_records_that_are_repeated(sample: Sample, folder: Path, store: clew.Store, tmp_path: Path) -> None:
    """A file in which every line is there twice has the same messages."""
    sample.write(folder)
    bring(store, folder, sample.histories, sample)
    for name, data in sample.files.items():
        (folder / name).write_bytes(b"".join(line + line for line in data.splitlines(keepends=True)))
    with clew.open(tmp_path / "twice.db") as twice:
        bring(twice, folder, sample.histories, sample)
        assert contents(twice, times=not sample.restamps) == contents(store, times=not sample.restamps)


@pytest.mark.parametrize("sample", DATABASES, ids=named)
def test_the_rows_of_a_database_come_back(sample: Sample, folder: Path, store: clew.Store) -> None:
    """Every row of a message, and of what is around it, is in a record."""
    sample.write(folder)
    bring(store, folder, sample.histories, sample)
    found = [record for session in all_sessions(store) for record in records(session, store)]
    for name in sample.databases:
        with closing(sqlite3.connect(folder / name)) as database:
            database.row_factory = sqlite3.Row
            for table in ("messages", "turns", "threads"):
                rows = [dict(row) for row in database.execute(f"SELECT * FROM {quote_name(table)}")]
                kept = [record_row(record) for record in found if b'"row"' in record]
                assert all((table, row) in kept for row in rows)


@pytest.mark.parametrize("sample", SAMPLES, ids=named)
def test_calls_have_results_and_answers_are_counted_once(sample: Sample, folder: Path, store: clew.Store) -> None:
    """Each result names a call before it, and no answer counts tokens that another has counted."""
    sample.write(folder)
    bring(store, folder, sample.histories, sample)
    for session in all_sessions(store):
        calls: set[str] = set()
        for node in session.history():
            said = neutral(node.said) if isinstance(node.said, Native) else node.said
            calls |= {block.id for block in said.blocks if isinstance(block, clew.ToolCall)}
            assert {block.call_id for block in said.blocks if isinstance(block, clew.ToolResult)} <= calls
