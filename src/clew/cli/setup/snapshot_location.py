"""Where snapshots are kept: in the store, in a folder, or in a bucket."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

import clew
from clew.base.visible import plain
from clew.cli.exits import InvalidKey
from clew.cli.output.text import bold, warn
from clew.cli.setup.open_store import key_source

if TYPE_CHECKING:
    from clew.snapshots import SnapshotStore

F = TypeVar("F", bound=Callable[..., object])


def place_option(command: F) -> F:
    """Adds `--at` to a command."""
    text = "Use this folder or bucket (s3://…, gs://…, az://…) instead of the store."
    return click.option("--at", "place_name", metavar="PLACE", help=text)(command)


@contextmanager
def place_or(opened: Callable[[], clew.Store], at: str | None) -> Iterator[SnapshotStore]:
    """The given folder or bucket, or else the snapshots of the store."""
    if at is not None:
        yield place(at)
    else:
        with opened() as store:
            yield store.snapshots


def place(at: str) -> SnapshotStore:
    """The folder or bucket, opened with the key of the command line or the settings."""
    from clew.snapshots import FileStore, ObjectStore

    source = key_source()
    key = None if source is None else source.key()
    if key is not None and not isinstance(key, bytes):
        hint = "Use a 32-byte key: --key-file, CLEW_KEY or CLEW_KEYRING."
        raise InvalidKey("a folder or bucket cannot be encrypted with a passphrase", hint=hint)
    logger = logging.Logger("clew.snapshots", logging.WARNING)  # noqa: LOG001 - only for this location
    logger.addHandler(_PrintWarnings())
    if "://" in at:
        return ObjectStore(at, key, logger)
    return FileStore(os.path.expanduser(at), key, logger)


class _PrintWarnings(logging.Handler):
    """Prints which snapshots a list skips because they cannot be opened."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(f"{bold('clew:')} {plain(record.getMessage())}")


def resolve(store: SnapshotStore, typed: str) -> str:
    """The snapshot ID for a full ID or its first digits. NotFound, Ambiguous."""
    from clew.snapshots import InvalidSnapshotID, validate_snapshot_id

    try:
        return validate_snapshot_id(typed)
    except InvalidSnapshotID:
        found = [one.id for one in store.list() if typed and one.id.startswith(typed.lower())]
    if not found:
        raise clew.NotFound("snapshot", typed, hint="List snapshots with: clew snapshot ls")
    if len(found) > 1:
        raise clew.Ambiguous("snapshot", typed, found)
    return found[0]
