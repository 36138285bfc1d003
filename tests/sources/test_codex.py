"""Codex's rollouts: samples of the genuine program, and older forms."""

from __future__ import annotations

import builtins
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard

import clew
from clew.errors import MissingPackage, install_hint
from clew.sources.codex import Codex
from clew.sources.contract import Entry, Skip
from clew.sources.items import Item
from tests.sources.made import about, an_id, jsonl, messages, path, view
from tests.sources.samples import SAMPLES
from tests.sources.samples.old_codex import BARE, FILES, FORK, THREAD, said, turn

GENUINE = next(sample for sample in SAMPLES if sample.name == "codex")


def texts(found: dict[str, Entry], leaf: str) -> list[str]:
    return [text for id in path(found, leaf) if (text := view(found[id]).text) and not text.startswith("<")]


def file_with(words: bytes) -> str:
    """The name of the genuine rollout in which a text was said first."""
    return next(name for name, data in GENUINE.files.items() if words in data)


def read_file(folder: Path, name: str) -> list[Any]:
    return list(Codex().read(Item(str(folder / name), 0, 0)))


def test_calls_failures_and_tokens(tmp_path: Path) -> None:
    """A result is an error if the exit code says so, and an answer of several items is counted with its last."""
    GENUINE.write(tmp_path)
    parts = read_file(tmp_path, file_with(b"Run both"))
    seen = [view(entry) for entry in messages(parts).values()]
    results = [block for one in seen for block in one.blocks if isinstance(block, clew.ToolResult)]
    assert [(one.call_id, one.is_error) for one in results] == [("call_a", True), ("call_b", False)]
    counted = [one.usage.output for one in seen if one.usage is not None]
    assert counted == [5, 5, 5, 5]
    assert about(parts, "title") == ["Two commands and a pixel"]


def test_a_rewind_and_a_fork_continue_another_file(tmp_path: Path) -> None:
    """What a file continues is read from the file that has it, and is inherited; a compaction begins a new root."""
    GENUINE.write(tmp_path)
    rewound = messages(read_file(tmp_path, file_with(b"How many is that, exactly?")))
    *_, last = rewound
    assert texts(rewound, last)[-5:] == [
        "What is this?", "A red pixel.", "How many is that, exactly?", "Forty-two.", "This request fails",
    ]  # fmt: skip
    assert "How many is that?" not in texts(rewound, last)
    fork = messages(read_file(tmp_path, file_with(b"Where are we?")))
    own = [entry for entry in fork.values() if not entry.inherited]
    assert view(own[0]).text == "Where are we?"
    assert set(fork) - {entry.id for entry in own} < set(rewound)
    (root,) = [entry for entry in own if entry.derived is not None]
    assert view(root).text.endswith("SUMMARY: both ran, a pixel, forty-two.")
    assert texts(fork, list(fork)[-1])[1:] == ["And now?", "After the compaction."]


def test_an_old_file_of_a_thread_points_at_the_newest(tmp_path: Path) -> None:
    """After a rewind, the head is in the newer file, whichever is read."""
    GENUINE.write(tmp_path)
    rewound = read_file(tmp_path, file_with(b"How many is that, exactly?"))
    old = read_file(tmp_path, file_with(b'"text":"How many is that?"'))
    assert about(old, "head") == about(rewound, "head") == [list(messages(rewound))[-1]]


def test_a_file_that_continues_a_missing_one(tmp_path: Path) -> None:
    """Its own messages are given, with a note."""
    name = file_with(b"Where are we?")
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_bytes(GENUINE.files[name])
    first = next(iter(messages(read_file(tmp_path, name)).values()))
    assert first.parent is None
    assert "missing" in (first.note or "")


def test_a_subagent_has_its_owner(tmp_path: Path) -> None:
    """The thread that was started names the one that started it."""
    GENUINE.write(tmp_path)
    name = next(name for name, data in GENUINE.files.items() if b'"thread_spawn"' in data)
    parts = read_file(tmp_path, name)
    (owner,) = about(parts, "owner")
    assert owner in GENUINE.files[name].decode()
    assert about(parts, "agent")


def old(tmp_path: Path, thread: str) -> list[Any]:
    for name, data in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    return read_file(tmp_path, next(name for name in FILES if thread in name))


def test_a_rollback_is_a_branch(tmp_path: Path) -> None:
    """The prompt after a rollback follows the answer before the turns that were taken back."""
    parts = old(tmp_path, THREAD)
    found = messages(parts)
    assert texts(found, list(found)[-1])[-3:] == ["It failed.", "Try another way", "It works."]
    assert about(parts, "branch") == ["main"]
    assert [one.usage.input for entry in found.values() if (one := view(entry)).usage] == [7, 7, 7, 7]


def test_an_old_fork_shares_what_it_copied(tmp_path: Path) -> None:
    """A copied message has the id it has in the original, though its time was changed."""
    first, fork = messages(old(tmp_path, THREAD)), messages(old(tmp_path, FORK))
    shared = [view(first[id]).text for id in fork if id in first]
    assert [text for text in shared if text and not text.startswith("<")] == ["Run it", "Output:\n", "It failed."]
    assert texts(fork, list(fork)[-1])[-2:] == ["In the fork", "Yes."]


def test_bare_items(tmp_path: Path) -> None:
    """The first versions wrote items without an envelope."""
    parts = old(tmp_path, BARE)
    assert [view(entry).text for entry in messages(parts).values()] == ["Hello", "Hi"]
    assert about(parts, "prompt")[-1] == "Hello"


def test_compressed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compressed rollout reads the same; without the package, the error names the extra."""
    name = next(name for name in FILES if THREAD in name)
    plain = messages(old(tmp_path, THREAD))
    packed = tmp_path / "packed" / f"{name}.zst"
    packed.parent.mkdir(parents=True)
    packed.write_bytes(zstandard.ZstdCompressor().compress(FILES[name]))
    assert Codex().recognise(str(packed), packed.read_bytes()[:100])
    assert messages(Codex().read(Item(str(packed), 0, 0))) == plain
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "zstandard":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingPackage) as refused:
        list(Codex().read(Item(str(packed), 0, 0)))
    assert refused.value.hint == install_hint("zstandard")


def test_names_from_the_database(tmp_path: Path) -> None:
    """The newest database of the program has the names of threads; it is not changed."""
    old(tmp_path, THREAD)
    for number, given in ((4, "Old"), (5, "Given")):
        with closing(sqlite3.connect(tmp_path / f"state_{number}.sqlite")) as database:
            database.execute("CREATE TABLE threads (id TEXT, title TEXT, name TEXT)")
            database.execute("INSERT INTO threads VALUES (?, 'Run it', ?)", (THREAD, given))
            database.commit()
    before = sorted(file.name for file in tmp_path.iterdir())
    assert about(read_file(tmp_path, next(name for name in FILES if THREAD in name)), "title") == ["Given"]
    assert sorted(file.name for file in tmp_path.iterdir()) == before


def test_lines_that_cannot_be_read(tmp_path: Path) -> None:
    """They are skipped by number, and the rest is read."""
    name = f"rollout-2025-10-01T10-00-00-{an_id(7)}.jsonl"
    data = b"not json\n" + jsonl([turn(1, 1), said(2, "user", "Hello")]) + b"[" * 5000 + b"\n"
    (tmp_path / name).write_bytes(data)
    parts = read_file(tmp_path, name)
    assert [view(entry).text for entry in messages(parts).values()] == ["Hello"]
    assert [part.line for part in parts if isinstance(part, Skip)] == [1, 4]
