"""Files that are one JSON document."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import msgspec

from clew.errors import Invalid
from clew.sources.contract import Part, Skip
from clew.sources.items import BOM, Item
from clew.sources.json_array import LARGEST


def read_document(item: Item, read: Callable[[bytes], Iterator[Part]]) -> Iterator[Part]:
    """What `read` makes of the bytes of a file; one that is too large or is not the JSON it should be is skipped."""
    with item.open() as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(LARGEST + 1) if size <= LARGEST else b""
    if max(size, len(data)) > LARGEST:
        yield Skip(None, f"the file has {size:,} bytes, more than {LARGEST:,}")
        return
    try:
        yield from read(data.removeprefix(BOM))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        yield Skip(None, f"not JSON: {type(error).__name__}")
    except Invalid as error:
        yield Skip(None, error.message)
