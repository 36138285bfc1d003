"""What every format of an application promises, with one sample for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.sources.contract import Source
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
