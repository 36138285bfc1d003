"""Documents of a framework: JSON values under its own keys, beside its conversations, such as a user's settings.

Its key, and its labels, which are the groups it belongs to, are keyed hashes. So a look-up is one indexed read, and the
list of a group is an index scan. Its log can hold bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from clew.adapters.keyed import Keyed
from clew.errors import Conflict, Corrupted
from clew.store.unit import Document, Target, Unit

DOCUMENT = "document"
"""Kind of the documents that hold a framework's own values."""


class Documents:
    """The documents of one framework. Methods with `unit` are steps of the caller's unit of work."""

    def __init__(self, keyed: Keyed) -> None:
        self._keyed = keyed

    # -- reading

    def get(self, unit: Unit, *names: str) -> Document | None:
        """A document; None if it does not exist, or if its session is in the trash."""
        return unit.document(DOCUMENT, self._keyed.key(DOCUMENT, *names))

    def find(self, *names: str) -> Document | None:
        """`get`, in a read of its own."""
        return self._keyed.read(lambda unit: self.get(unit, *names), single=True)

    def value(self, document: Document | None, default: Any = None) -> Any:
        """The value of a document; `default` if there is none. Corrupted."""
        if document is None:
            return default
        try:
            return msgspec.json.decode(document.data)
        except msgspec.MsgspecError as error:
            raise Corrupted("a document", f"its data does not decode ({type(error).__name__})") from None

    def group(self, *names: str) -> Iterator[Document]:
        """The documents of a group, the newest first. Read a page at a time."""
        return self._keyed.store.documents(DOCUMENT, label=self._group_key(names))

    def group_in(self, unit: Unit, *names: str) -> Iterator[Document]:
        """`group`, in the caller's unit of work."""
        label, after = self._group_key(names), None
        while found := unit.documents(DOCUMENT, label=label, after=after):
            yield from found
            after = found[-1]

    def entry(self, document: Document, number: int) -> bytes:
        """The bytes that were added as entry `number`. Corrupted if they are missing."""
        for entry in document.log.read(number, number + 1):
            return entry.data[1:]
        raise Corrupted(f"entry {number} of a document", "it is missing")

    # -- writing

    def put(
        self,
        unit: Unit,
        names: Sequence[str],
        value: Any,
        *,
        groups: Sequence[Sequence[str]] = (),
        owner: Target | None = None,
        before: Document | None = None,
        labels: Sequence[str] = (),
    ) -> Document:
        """Stores a value, or replaces the one under these names.

        With `owner` it is deleted with that session or document; without, it has the labels of the adapter, and
        `labels`. The groups, the labels and the owner are those of the first value.
        `before` is the stored document, if the caller has read it in this unit of work.
        """
        hashes = self._labels(groups, () if owner is not None else (*self._keyed.labels, *labels))
        key, data = self._keyed.key(DOCUMENT, *names), msgspec.json.encode(value)
        return unit.put(DOCUMENT, key, data, labels=hashes, owner=owner, before=before)

    def set_groups(self, unit: Unit, document: Document, groups: Sequence[Sequence[str]]) -> None:
        """Moves a document to other groups."""
        unit.label(document, self._labels(groups, () if document.owner is not None else self._keyed.labels))

    def add_entry(self, unit: Unit, document: Document, data: bytes) -> None:
        """Adds bytes to a document, exactly as they are."""
        unit.log(document, [(None, b"\x01" + data)], exact=True)

    def purge(self, *names: str) -> bool:
        """Deletes a document, and clears every trace of it. False if there is none. Conflict if its session is held."""
        found = self.find(*names)
        if found is not None:
            for failure in found.purge().failures:
                raise Conflict(failure.error)
        return found is not None

    def _labels(self, groups: Sequence[Sequence[str]], labels: Sequence[str]) -> list[str | bytes]:
        return [*map(self._group_key, groups), *labels]

    def _group_key(self, names: Sequence[str]) -> bytes:
        return self._keyed.key("group", *names)
