"""Checks for any source of histories, of clew or not: does it lose, repeat or change anything, or fail on damage?

::

    outcomes = check(Notes(), Path("samples/monday.notes"), folder)
    assert all(outcome.passed for outcome in outcomes)

Each check uses a store of its own in `folder`. The sample is one file with at least two messages.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from clew.errors import ClewError
from clew.sources import Entry, Found, Skip, Source, import_all, records
from clew.sources.contract import Part
from clew.sources.items import Item, items
from clew.store.store import Store, open

CUTS = 8
"""At how many places the sample is cut off, and how often its bytes are changed at random."""


class SourceOutcome(NamedTuple):
    """The result of one check."""

    name: str
    passed: bool
    why: str = ""
    """What was wrong."""


def check(source: Source, sample: Path, folder: Path, *, whole: bool = True) -> list[SourceOutcome]:
    """Runs every check with a copy of the sample in `folder`.

    With `whole`, the sample is a log, not a database or a JSON document: its records, joined, are the file.
    """
    outcomes = []
    for number, (name, one) in enumerate(_CHECKS.items()):
        if name == "bytes" and not whole:
            continue
        place = folder / f"{number}"
        place.mkdir(parents=True)
        copy = place / sample.name
        copy.write_bytes(sample.read_bytes())
        try:
            one(_Case(source, copy))
        except AssertionError as error:
            outcomes.append(SourceOutcome(name, False, str(error)))
        except Exception as error:  # noqa: BLE001 (it is another package's code)
            outcomes.append(SourceOutcome(name, False, f"{type(error).__name__}: {error}"))
        else:
            outcomes.append(SourceOutcome(name, True))
    return outcomes


class _Case(NamedTuple):
    source: Source
    file: Path

    def item(self) -> Item:
        """The sample as the importer opens it."""
        (found,) = items(str(self.file))
        return found

    def parts(self) -> list[Part]:
        """What the source reads in the sample. ClewError."""
        return list(self.source.read(self.item()))

    def store(self, name: str = "store.db") -> Store:
        """A store beside the sample's folder."""
        return open(self.file.parent.parent / f"{self.file.parent.name}-{name}")

    def bring(self, store: Store) -> int:
        """Imports the sample; the number of new messages."""
        (outcome,) = import_all(store, [Found(self.item(), self.source)], again=True)
        assert outcome.state != "skipped", f"the import ended: {', '.join(outcome.skipped)}"
        return outcome.messages


def _recognised(case: _Case) -> None:
    """The sample is recognised by its first bytes; an empty file, other text and other bytes are not."""
    path = str(case.file)
    assert case.source.recognise(path, case.item().head()), "it does not recognise the sample"
    for other in (b"", b"\0" * 100, b"{}\n", b"[]", b"Some other text.\n"):
        assert not case.source.recognise("/tmp/other", other), f"it recognises {other[:20]!r}"


def _repeatable(case: _Case) -> None:
    """A file that is read twice, or under another name, has the same messages with the same ids."""
    first = _entries(case.parts())
    assert _entries(case.parts()) == first, "a second reading differs"
    assert len([id for id, *_ in first if id is not None]) > 1, "the sample has fewer than two messages"


def _parents_first(case: _Case) -> None:
    """Every message comes after the one that it follows."""
    seen = set[str]()
    for part in case.parts():
        if isinstance(part, Entry) and part.id is not None:
            assert part.parent is None or part.parent in seen, f"{part.key} comes before the message it follows"
            assert part.id not in seen, f"two messages have the id {part.id}"
            seen.add(part.id)


def _once(case: _Case) -> None:
    """A second import stores nothing new."""
    with case.store() as store:
        assert case.bring(store) > 1, "the import stored fewer than two messages"
        before = _contents(store)
        assert case.bring(store) == 0, "a second import stored messages again"
        assert _contents(store) == before, "a second import changed something"


def _same_bytes(case: _Case) -> None:
    """The records of the imported conversations are the bytes of the file."""
    with case.store() as store:
        case.bring(store)
        kept = b"".join(raw for session in store.sessions.list() for raw in records(session, store))
        assert kept == case.file.read_bytes(), "the records are not the bytes of the file"


def _grows(case: _Case) -> None:
    """A file that is imported half-written and again when it is complete is stored as if it had been read at once."""
    data = case.file.read_bytes()
    with case.store("whole.db") as store:
        case.bring(store)
        wanted = _contents(store)
    for number, end in enumerate(_places(data)):
        with case.store(f"{number}.db") as store:
            case.file.write_bytes(data[:end])
            if case.source.recognise(str(case.file), case.item().head()):
                list(import_all(store, [Found(case.item(), case.source)]))
            case.file.write_bytes(data)
            case.bring(store)
            assert _contents(store) == wanted, f"after it was cut at byte {end}, something is missing or differs"


def _damaged(case: _Case) -> None:
    """Whatever bytes a file has, reading it ends: with parts, or with an error of clew's."""
    data, chance = case.file.read_bytes(), random.Random(1)
    for _ in range(CUTS):
        changed = bytearray(data)
        for _ in range(1 + len(data) // 100):
            changed[chance.randrange(len(data))] = chance.randrange(256)
        case.file.write_bytes(changed)
        try:
            case.parts()
        except ClewError:
            continue


def _reads_only(case: _Case) -> None:
    """Reading changes no file and leaves none."""
    before = _files(case.file.parent)
    case.parts()
    assert _files(case.file.parent) == before, "it wrote beside the file"


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _places(data: bytes) -> Iterator[int]:
    return (len(data) * number // (CUTS + 1) for number in range(1, CUTS + 1))


def _entries(parts: list[Part]) -> list[tuple[Any, ...]]:
    return [
        (part.id, part.key, part.parent, part.raw)
        for part in parts
        if isinstance(part, Entry) and not isinstance(part, Skip)
    ]


def _contents(store: Store) -> list[tuple[Any, ...]]:
    return [
        (one.id, one.head_id, [(node.id, node.parent_id, node.text) for node in one.history()])
        for one in sorted(store.sessions.list().all(), key=lambda one: one.id)
    ]


_CHECKS: dict[str, Callable[[_Case], None]] = {
    "recognised": _recognised,
    "repeatable": _repeatable,
    "parents first": _parents_first,
    "once": _once,
    "bytes": _same_bytes,
    "grows": _grows,
    "damaged": _damaged,
    "reads only": _reads_only,
}
