"""Where snapshots are kept: in the store, in a folder, or in a bucket."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

import clew
from clew.cli.exits import NoKey
from clew.cli.place import given
from clew.cli.text import bold, plain, warn

if TYPE_CHECKING:
    from clew.snapshots import SnapshotStore

F = TypeVar("F", bound=Callable[..., object])


def place_option(command: F) -> F:
    """Adds `--at` to a command."""
    text = "A folder, or the URL of a bucket (s3://…, gs://…, az://…), in place of the store."
    return click.option("--at", "place_name", metavar="PLACE", help=text)(command)


@contextmanager
def place_or(opened: Callable[[], clew.Store], at: str | None) -> Iterator[SnapshotStore]:
    """The place that was named, or else the snapshots of the store."""
    if at is not None:
        yield place(at)
    else:
        with opened() as store:
            yield store.snapshots


def place(at: str) -> SnapshotStore:
    """The folder or the bucket of that name, with the key that was given."""
    from clew.snapshots import FileStore, ObjectStore

    source = given()
    key = None if source is None else source.key()
    if key is not None and not isinstance(key, bytes):
        hint = "Give a key of 32 bytes: --key-file, CLEW_KEY or CLEW_KEYRING."
        raise NoKey("a folder or a bucket has no passphrase", hint=hint)
    logger = logging.Logger("clew.snapshots", logging.WARNING)  # noqa: LOG001 - for this place alone
    logger.addHandler(_Told())
    if "://" in at:
        return ObjectStore(at, key, logger)
    return FileStore(os.path.expanduser(at), key, logger)


class _Told(logging.Handler):
    """Tells on stderr what a list passes over because it does not open."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(f"{bold('clew:')} {plain(record.getMessage())}")


def resolve(store: SnapshotStore, typed: str) -> str:
    """The id that is meant: itself, or the one that begins so. NotFound, Ambiguous."""
    from clew.snapshots import InvalidSnapshotID, validate_snapshot_id

    try:
        return validate_snapshot_id(typed)
    except InvalidSnapshotID:
        found = [one.id for one in store.list() if typed and one.id.startswith(typed.lower())]
    if not found:
        raise clew.NotFound("snapshot", typed, hint="'clew snapshot ls' lists them.")
    if len(found) > 1:
        raise clew.Ambiguous("snapshot", typed, found)
    return found[0]
