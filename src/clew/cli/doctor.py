"""`clew doctor`: whether everything around the store is as it should be. What is in it, `clew verify` reads."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import Literal, NamedTuple

import click

import clew
from clew.cli import settings
from clew.cli.exits import FAILED, code_of
from clew.cli.forms import Form, json_options, out_lines, out_values
from clew.cli.place import location, looking, store_option
from clew.cli.text import bold, dim, many, pad, plain, style
from clew.mirrors import PENDING

LOG, SPACE = 64 << 20, 200 << 20
"""Bytes of a write-ahead log that somebody keeps from being emptied; bytes that should be free."""
_SYNCED = ("Dropbox", "OneDrive", "Google Drive", "Mobile Documents", "Nextcloud", "Syncthing")
_EXTRAS = {
    "checkpoints": "pathspec",
    "crypto": "cryptography",
    "keyring": "keyring",
    "redaction": "re2",
    "mcp": "mcp",
    "aio": "anyio",
    "postgres": "psycopg",
    "objects": "obstore",
}
_COLOURS = {"ok": "1;32", "note": "1;33", "wrong": "1;31"}


class Check(NamedTuple):
    """Something that was looked at."""

    name: str
    state: Literal["ok", "note", "wrong"]
    what: str
    hint: str = ""


@click.command(
    short_help="Check the surroundings of the store.",
    epilog="\b\nExamples:\n  clew doctor\n  clew doctor --json | jq '.[] | select(.state != \"ok\")'",
)
@json_options
@store_option
@click.pass_context
def doctor(ctx: click.Context, form: Form) -> None:
    """Checks what is around the store: programs, settings, permissions, space, work that was cut short.

    It changes nothing, and reads no conversation: 'clew verify' does that. Exit code 1 if something is wrong; if the
    store does not open, the one that says why.
    """
    checks, code = list(_programs()), 0
    for name, look in (("settings", _settings), ("store", _store)):
        code = code or _looked(name, look, checks)
    if form == "text":
        out_lines(_lines(checks))
    else:
        out_values((one._asdict() for one in checks), form)
    ctx.exit(code or (FAILED if any(one.state == "wrong" for one in checks) else 0))


def _looked(name: str, look: Callable[[], Iterable[Check]], checks: list[Check]) -> int:
    """Adds what is found; if that is an error, the error, and returns its exit code."""
    try:
        checks.extend(look())
    except clew.ClewError as error:
        checks.append(Check(name, "wrong", error.message, error.hint))
        return code_of(error)
    return 0


def _lines(checks: list[Check]) -> Iterator[str]:
    wide = max(len(one.name) for one in checks)
    for one in checks:
        yield f"{style(pad(one.state, 5), _COLOURS[one.state])}  {bold(pad(one.name, wide))}  {plain(one.what)}"
        if one.hint:
            yield dim(f"{' ' * (wide + 9)}{plain(one.hint)}")


def _programs() -> Iterator[Check]:
    yield Check("clew", "ok", f"{clew.__version__}, Python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}")
    if os.name == "nt" and resets_badly(sqlite3.sqlite_version_info):
        hint = "Let one program at a time write to the store, or use a Python with SQLite 3.51.3 or newer."
        yield Check("sqlite", "note", "this SQLite has the WAL-reset bug, and Windows has no turnstile", hint)
    missing = [extra for extra, module in _EXTRAS.items() if find_spec(module) is None]
    if missing:
        hint = f"pip install 'clew[{','.join(missing)}]' brings them."
        yield Check("extras", "note", f"not installed: {', '.join(missing)}", hint)


def resets_badly(version: tuple[int, ...]) -> bool:
    """True for a SQLite that can corrupt a database when a commit resets the log in the middle of a checkpoint."""
    return version < (3, 51, 3) and not (3, 50, 7) <= version < (3, 51) and not (3, 44, 6) <= version < (3, 45)


def _settings() -> Iterator[Check]:
    here = settings.current()
    db = here.find("db")
    yield Check(
        "settings", "ok", f"the store is named by {db.origin if db.source != 'default' else 'nobody: the default'}"
    )
    for file in here.files:
        strange = [settings.strange(name) for name in file.strange]
        yield Check("file", "note" if strange else "ok", "; ".join([file.path, *strange]))


def _store() -> Iterator[Check]:
    """What is around the store, then what it says itself once it is open."""
    path, named = location()
    if not named and not os.path.exists(path):
        yield Check("store", "note", f"{path} is not there yet", "The first message makes it.")
        return
    if os.path.isfile(path):
        yield from _file(os.path.realpath(path))
    with looking() as store:
        if "://" in path:
            yield Check("store", "ok", f"{store.path}, on a server")
            if store._engine.backend.unencrypted:  # type: ignore[attr-defined]
                hint = "Add sslmode=verify-full to the URL."
                yield Check("tls", "note", "the server is on another host, and the connection has no TLS", hint)
        yield from _work(store)
        yield from _objects(store)


def _file(path: str) -> Iterator[Check]:
    said = os.stat(path)
    mode = said.st_mode & 0o777
    if mode & 0o077:
        hint = f"chmod 600 {shlex.quote(path)}"
        yield Check("store", "wrong", f"{path} can be used by others: its mode is {mode:03o}", hint)
    else:
        yield Check("store", "ok", f"{path}, {said.st_size:,} bytes, for its owner alone")
    if said.st_nlink > 1:
        hint = "Remove the other names, or use a copy of the file."
        yield Check("names", "wrong", f"it has {said.st_nlink} names (hard links), so it is only read", hint)
    for beside in (f"{path}-{name}" for name in ("wal", "shm", "lock")):
        # Readers of a file that could not be written for a while have made it so.
        if mode & 0o200 and os.path.exists(beside) and not os.stat(beside).st_mode & 0o200:
            hint = f"chmod 600 {shlex.quote(beside)}"
            yield Check("beside", "wrong", f"{beside} cannot be written, and so the store", hint)
    synced = next((name for name in _SYNCED if name in os.path.abspath(path).split(os.sep)), None)
    if synced is not None:
        hint = "A program that copies files while they are written can spoil them: keep the store elsewhere."
        yield Check("folder", "wrong", f"it seems to be copied by {synced}", hint)
    log = f"{path}-wal"
    size = os.path.getsize(log) if os.path.exists(log) else 0
    if size > LOG:
        hint = "A program that keeps reading for long keeps it from being emptied: end it."
        yield Check("log", "note", f"the write-ahead log has {size:,} bytes", hint)
    free = shutil.disk_usage(os.path.dirname(os.path.abspath(path))).free
    hint = "" if free >= SPACE else "Free some: a purge, a backup or an exchange of keys needs room."
    yield Check("space", "ok" if free >= SPACE else "wrong", f"{free:,} bytes are free", hint)


def _objects(store: clew.Store) -> Iterator[Check]:
    """Where large attachments are, if some are not in the store."""
    from clew import outside

    engine = store._engine
    count = engine.read(lambda tx: tx.sizes())["objects"]
    if not count:
        return
    if engine.bucket is None:
        hint = "Say where: --blobs, CLEW_BLOBS, or 'clew config set blobs'."
        yield Check("objects", "wrong", f"{many(count, 'attachment')} in object storage, and nothing says where", hint)
        return
    try:
        outside.reachable(engine.bucket, engine.store_id)
        gone = store.blobs.sweep(dry_run=True)
    except clew.Unavailable as error:
        yield Check("objects", "wrong", error.message, error.hint)
        return
    yield Check("objects", "ok", f"{count:,} in {engine.bucket.name}")
    if gone.objects:
        about = f"{many(gone.objects, 'object')} that nothing needs"
        yield Check("leftovers", "note", about, "'clew gc' removes them.")


def _work(store: clew.Store) -> Iterator[Check]:
    """What was begun and not finished, and what was put aside."""
    status = store.key_status()
    if status.state in ("plain", "sealed"):
        yield Check("key", "ok", f"the store is {status.state}")
    else:
        hint = "'clew key status' says how far it is; the same command again goes on."
        yield Check("key", "wrong", f"it was cut short while it was {status.state}", hint)
    if status.state == "sealed":
        for folder in filter(os.path.isdir, store._purger.mirrors.folders()):
            yield Check(
                "mirror", "note", f"{plain(folder)} has sessions in clear text", "Remove it if it is not needed."
            )
    hint = "The next command that writes clears them, once no other program has the store open."
    pending = [receipt.pending for receipt in store.sessions.receipts() if receipt.pending]
    for mirror in sorted({what for left in pending for what in left if what.startswith(PENDING)}):
        about = f"files of purged sessions are left in the {plain(mirror)}, which cannot be reached"
        yield Check("purges", "note", about, "The next purge removes them once the folder is there.")
    traces = sum(any(not what.startswith(PENDING) for what in left) for left in pending)
    if traces:
        yield Check("purges", "note", f"{traces:,} left traces that are still to be cleared", hint)
    elif status.unclean and status.state in ("plain", "sealed"):
        yield Check("traces", "note", "its files may hold traces of how things were kept before", hint)
    aside = len(store.quarantine.list())
    if aside:
        about = f"{many(aside, 'damaged message')} put aside"
        yield Check("quarantine", "note", about, "'clew quarantine ls' names them.")
