"""Logs that grow: only what is new is read, and the store is as if all had been read at once."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

import pytest

import clew
from clew import exports
from clew.cli.agent_hook.transcript import TranscriptImport
from clew.providers.neutral import neutral
from clew.sources import claude_code, find, import_all
from clew.sources.claude_code import ClaudeCode
from clew.sources.imported_files import ImportedFiles
from clew.sources.importer import import_item
from clew.sources.items import Item
from tests.sources.made import SESSION, an_id, claude_line, jsonl
from tests.sources.samples import SAMPLES, Sample
from tests.sources.test_every_format import contents, source

LOGS = [sample for sample in SAMPLES if sample.source in ("claude-code", "codex")]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks for every log, however small it is."""
    monkeypatch.setattr("clew.sources.lines.LARGE", 1)


@contextmanager
def reads() -> Iterator[list[int]]:
    """The sizes of what is read of histories meanwhile."""
    sizes: list[int] = []
    before = Item.open

    class Counting:
        def __init__(self, file: IO[bytes]) -> None:
            self._file = file

        def read(self, size: int = -1) -> bytes:
            return self._note(self._file.read(size))

        def readline(self, size: int = -1) -> bytes:
            return self._note(self._file.readline(size))

        def _note(self, data: bytes) -> bytes:
            sizes.append(len(data))
            return data

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Item, "open", lambda item: Counting(before(item)))
        yield sizes


def take(store: clew.Store, path: Path) -> Any:
    (outcome,) = import_all(store, find([str(path)]))
    return outcome


def log_of(count: int, size: int = 1000) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [
        claude_line(n, n - 1 or None, roles[n % 2 == 0], f"{n} " + "x" * size, message={"id": f"m{n}"} if n % 2 else {})
        for n in range(1, count + 1)
    ]  # fmt: skip


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    """Of a log of 5 MB that has grown by a line, an import reads less than 100 KB; so does a call of the hook."""
    path = tmp_path / f"{SESSION}.jsonl"
    lines = log_of(5003)
    path.write_bytes(jsonl(lines[:5000]))
    assert path.stat().st_size > 5_000_000
    with clew.open(tmp_path / "s.db") as store:
        take(store, path)
        for number, line in enumerate(lines[5000:]):
            with path.open("ab") as file:
                file.write(jsonl([line]))
            with reads() as sizes:
                if number < 2:
                    assert take(store, path).messages == 1
                else:
                    TranscriptImport(store).take(str(path))
            assert sum(sizes) < 100_000
        session = store.sessions.get(SESSION)
        assert session.head_id == an_id(5003)
        assert session.path(last=5)[0].id == an_id(4999)
        assert b"".join(exports.native(store, session)) == path.read_bytes()


def test_a_torn_line_waits_for_its_end(tmp_path: Path, small: None) -> None:
    """An unfinished line is not stored, is not skipped, and is a message once it is whole."""
    path = tmp_path / f"{SESSION}.jsonl"
    first, second, third = (jsonl([line]) for line in log_of(3))
    with clew.open(tmp_path / "s.db") as store:
        for data, new in ((first, 1), (second[:50], 0), (second[50:200], 0), (second[200:], 1), (third, 1)):
            _append(path, data)
            done = take(store, path)
            assert (done.messages, done.skipped) == (new, ())
        assert b"".join(exports.native(store, store.sessions.get(SESSION))) == first + second + third


@pytest.mark.parametrize("how", ["shrank", "replaced", "rewritten", "touched"])
def test_a_file_that_did_not_just_grow(how: str, tmp_path: Path, small: None) -> None:
    """A log that was cut, replaced or rewritten is read whole: what is new comes in, and what is gone stays here."""
    path = tmp_path / f"{SESSION}.jsonl"
    lines = log_of(6, 20)
    other = {**claude_line(2, 1, "assistant", "another branch"), "uuid": an_id(77)}
    path.write_bytes(jsonl(lines))
    with clew.open(tmp_path / "s.db") as store:
        take(store, path)
        if how == "shrank":
            os.truncate(path, len(jsonl(lines[:3])))
            _append(path, jsonl([other]))
        elif how == "replaced":
            (tmp_path / "new").write_bytes(jsonl([lines[0], other, *lines[1:]]))
            os.replace(tmp_path / "new", path)
        elif how == "rewritten":
            with path.open("r+b") as file:
                file.write(jsonl([lines[0], other, *lines[1:]]))
        else:
            os.utime(path, (1, 1))
        done = take(store, path)
        assert done.state == "imported"
        assert done.messages == (0 if how == "touched" else 1)
        ids = {an_id(n) for n in range(1, 7)} | (set() if how == "touched" else {an_id(77)})
        assert all(store.nodes.get(id) for id in ids)
        assert take(store, path).state == "unchanged"
        assert store.verify().damage == []


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_skipped_line_is_still_reported(tmp_path: Path, small: None) -> None:
    """A line that cannot be read is named each time that its file is imported, as if the file had been read whole."""
    path = tmp_path / f"{SESSION}.jsonl"
    first, second = (jsonl([line]) for line in log_of(2))
    path.write_bytes(first + b"no JSON\n")
    with clew.open(tmp_path / "s.db") as store:
        assert len(take(store, path).skipped) == 1
        _append(path, second)
        done = take(store, path)
        assert (done.messages, [why[:7] for why in done.skipped]) == (1, ["line 2:"])
        assert len(take(store, path).skipped) == 1


@pytest.mark.parametrize("window", [2, 200])
@pytest.mark.parametrize("sample", LOGS, ids=repr)
def test_it_is_as_if_all_had_been_read_at_once(
    sample: Sample, window: int, small: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Imported line by line, a log gives the store and the file that it gives whole; also if marks know little."""
    monkeypatch.setattr(claude_code, "WINDOW", window)
    chance = random.Random(7)
    for number, name in enumerate(sample.files):
        with clew.open(tmp_path / f"{number}-a.db") as whole, clew.open(tmp_path / f"{number}-b.db") as parts:
            sample.write(tmp_path)
            (item,) = (one.item for one in find([str(tmp_path / name)]))
            import_item(whole, source(sample.source), item, history=ImportedFiles(whole))
            data = sample.files[name]
            at = data.index(b"\n") + 1
            (tmp_path / name).write_bytes(data[:at])
            while True:
                (item,) = (one.item for one in find([str(tmp_path / name)]))
                import_item(parts, source(sample.source), item, history=ImportedFiles(parts))
                if at >= len(data):
                    break
                step = chance.choice([100, 1000, 3000])
                _append(tmp_path / name, data[at : at + step])
                at += step
            assert contents(parts) == contents(whole)
            assert native(parts) == native(whole)
            assert parts.verify().damage == []


@pytest.mark.parametrize("seed", range(6))
def test_random_trees_that_grow(seed: int, small: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Forks, calls, split answers, compactions and attachments: in any pieces, the store is that of the whole file."""
    monkeypatch.setattr(claude_code, "WINDOW", 4)
    chance = random.Random(seed)
    lines = random_log(chance, 60)
    path = tmp_path / f"{SESSION}.jsonl"
    with clew.open(tmp_path / "a.db") as parts, clew.open(tmp_path / "b.db") as whole:
        path.write_bytes(b"")
        while lines:
            count = chance.randint(1, 6)
            _append(path, jsonl(lines[:count]))
            lines = lines[count:]
            take(parts, path)
        take(whole, path)
        assert contents(parts) == contents(whole)
        assert usage(parts) == usage(whole)
        for store in (parts, whole):
            assert b"".join(exports.native(store, store.sessions.get(SESSION))) == path.read_bytes()


def native(store: clew.Store) -> list[bytes]:
    """The files of a native export."""
    found = exports.native_files(store, list(store.sessions.list()))
    return sorted(b"".join(one.parts()) for one in found)


def usage(store: clew.Store) -> Any:
    """The tokens that each message counts."""
    return [(node.id, neutral(node.said).usage) for node in store.sessions.get(SESSION).history()]


def random_log(chance: random.Random, count: int) -> list[dict[str, Any]]:
    """Lines of Claude Code that hang on earlier ones, mostly on the last."""
    lines: list[dict[str, Any]] = []
    for number in range(1, count + 1):
        near = chance.random() < 0.85
        above = None if number == 1 else number - 1 if near else chance.randint(1, number - 1)
        kind = chance.random()
        if kind < 0.15:
            line = claude_line(number, above, "user", "")
            del line["message"]
            line |= {"type": "attachment", "attachment": {"type": "file"}}
        elif kind < 0.4:
            use = {"usage": {"input_tokens": 5, "output_tokens": number}, "id": f"m{number // 3}"}
            call = {"type": "tool_use", "id": f"t{number}", "name": "ls", "input": {}}
            line = claude_line(number, above, "assistant", [call], message=use)
        elif kind < 0.55:
            result = {"type": "tool_result", "tool_use_id": f"t{chance.randint(1, number)}", "content": "ok"}
            line = claude_line(number, above, "user", [result])
        elif kind < 0.6:
            line = claude_line(number, None, "user", "Summary", isCompactSummary=True)
            line["logicalParentUuid"] = an_id(above or 1)
        else:
            line = claude_line(number, above, chance.choice(["user", "assistant"]), f"Text {number}")
        lines.append(line)
        if chance.random() < 0.1:
            lines.append({"type": "ai-title", "aiTitle": f"Title {number}", "sessionId": SESSION})
    return lines


def test_a_mark_is_kept_for_large_logs_only(tmp_path: Path) -> None:
    """What a mark knows takes little room: none for small logs, and a fraction of a large one."""
    small, large = tmp_path / f"{an_id(9000)}.jsonl", tmp_path / f"{SESSION}.jsonl"
    small.write_bytes(jsonl([{**claude_line(9001, None, "user", "Hello"), "sessionId": an_id(9000)}]))
    large.write_bytes(jsonl(log_of(1100)))
    with clew.open(tmp_path / "s.db") as store:
        list(import_all(store, find([str(tmp_path)])))
        marks = {Path(one.file.path).name: one.file.mark for one in ImportedFiles(store).files()}
    assert marks[small.name] is None
    mark = marks[large.name]
    assert mark is not None
    assert mark.mark.offset == large.stat().st_size
    assert len(json.dumps(mark.mark.state)) < 40_000


def test_the_source_continues_from_a_mark(tmp_path: Path, small: None) -> None:
    """From a mark on, a source gives what it gives for the rest of the file when it reads all of it."""
    path = tmp_path / f"{SESSION}.jsonl"
    lines = log_of(10, 10)
    path.write_bytes(jsonl(lines[:6]))
    item = Item(str(path), 0, 0)
    reading = ClaudeCode().read_on(item, None)
    before = []
    try:
        while True:
            before.append(next(reading))
    except StopIteration as end:
        mark = end.value
    path.write_bytes(jsonl(lines))
    entries = [part for part in ClaudeCode().read_on(item, mark) if hasattr(part, "raw")]
    assert entries == [part for part in ClaudeCode().read(item) if hasattr(part, "raw")][6:]
