"""Files that an export brings along: pictures, recordings, documents, in its archive or beside its JSON."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from clew.base.outside import names_in
from clew.errors import ClewError
from clew.sources.contract import Attachment, uuid_or_none
from clew.sources.items import Item, items

_ID = re.compile(r"file[-_][A-Za-z0-9]{6,}")
MOST = 200_000
"""Names that are read in each folder of an export."""


def file_id(reference: str) -> str | None:
    """The id of a file in a reference to it, or in its name: ``file-service://file-abc`` and ``file-abc-cat.png``."""
    found = _ID.search(os.path.basename(reference))
    return None if found is None else found[0]


class ExportFiles:
    """The files of one export, by their ids. Looked up when the first is asked for."""

    def __init__(self, item: Item) -> None:
        self._item = item
        self._found: dict[str, Item] | None = None

    def attachment(self, reference: str, name: str | None, mime_type: str | None) -> Attachment | None:
        """The file that a message refers to; None if the export does not have it."""
        id = file_id(reference)
        if id is None:
            return None
        if self._found is None:
            self._found = {}
            with suppress(ClewError, OSError, zipfile.BadZipFile):
                for one in self._items():
                    if (named := _ID.match(os.path.basename(one.member or one.path))) is not None:
                        self._found.setdefault(named[0], one)
        found = self._found.get(id)
        return None if found is None else Attachment(reference, name, mime_type, found.open)

    def _items(self) -> Iterator[Item]:
        if self._item.member is not None:
            yield from items(self._item.path, self._item.root)
            return
        folder = os.path.dirname(self._item.path)
        root = self._item.root or folder
        for place in (folder, *(os.path.join(folder, name) for name in self._folders(folder, root))):
            with suppress(OSError):
                for name in islice(names_in(place, root), MOST):
                    if _ID.match(name):
                        yield Item(os.path.join(place, name), 0, 0, root=root)

    def _folders(self, folder: str, root: str) -> Iterator[str]:
        """The folders in which an export has files."""
        for name in islice(names_in(folder, root), MOST):
            if name == "dalle-generations" or name.startswith("user-"):
                yield name
            elif uuid_or_none(name) is not None:
                yield os.path.join(name, "audio")
