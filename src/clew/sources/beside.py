"""Small files beside a history that say more about it: its title, its folder."""

from __future__ import annotations

import os
import posixpath

from clew.errors import ClewError
from clew.sources.items import Item

LARGEST = 1 << 20
"""Bytes at most that are read."""


def read_beside(item: Item, name: str) -> bytes:
    """The bytes of a file, by its path relative to the folder of `item`; empty if there is none."""
    if item.member is None:
        other = item.at(os.path.normpath(os.path.join(os.path.dirname(item.path), name)))
    else:
        other = item._replace(member=posixpath.normpath(posixpath.join(posixpath.dirname(item.member), name)))
    try:
        with other.open() as file:
            return file.read(LARGEST)
    except (ClewError, KeyError):  # KeyError: the archive has no such member
        return b""
