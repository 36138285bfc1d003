"""`clew doctor`: checks the environment of the store. `clew verify` checks its content."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import Literal, NamedTuple

import click

import clew
from clew.base.files import exists
from clew.base.visible import many, plain
from clew.cli.exits import FAILED, code_of
from clew.cli.options import examples
from clew.cli.output.json import Form, json_options, out_lines, out_values
from clew.cli.output.progress import size
from clew.cli.output.text import bold, dim, pad, style
from clew.cli.setup import settings
from clew.cli.setup.open_store import location, open_untouched, store_option
from clew.engine.mirrors import PENDING
from clew.errors import install_hint

LOG, SPACE = 64 << 20, 200 << 20
"""Size of the write-ahead log to warn about, and minimum free disk space, in bytes."""
_SYNCED = ("Dropbox", "OneDrive", "Google Drive", "Mobile Documents", "Nextcloud", "Syncthing")
EXTRAS = {
    "postgres": "psycopg",
    "objects": "obstore",
    "anthropic": "anthropic",
    "openai": "openai",
    "gemini": "google.genai",
    "otel": "opentelemetry",
}
_COLOURS = {"ok": "1;32", "note": "1;33", "wrong": "1;31"}


class Check(NamedTuple):
    """The result of one check."""

    name: str
    state: Literal["ok", "note", "wrong"]
    what: str
    hint: str = ""


@click.command(
    epilog=examples(
        "clew doctor", "clew doctor --json | jq '.items[] | select(.state != \"ok\")'", "clew doctor --quick"
    )
)
@click.option("--quick", is_flag=True, help="Only open the store and read one row: for readiness probes.")
@json_options
@store_option
@click.pass_context
def doctor(ctx: click.Context, form: Form, quick: bool) -> None:
    """Check the environment of the store: packages, settings, permissions, disk space, interrupted work.

    Changes nothing and reads no conversation; use 'clew verify' for that. Exit code 1 if something is wrong; if the
    store cannot be opened, the exit code of that error.
    """
    checks, code = [] if quick else list(_programs()), 0
    for name, look in (("store", _quick),) if quick else (("settings", _settings), ("store", _store)):
        code = code or _add_checks(name, look, checks)
    if form == "text":
        out_lines(_lines(checks))
    else:
        out_values((one._asdict() for one in checks), form)
    ctx.exit(code or (FAILED if any(one.state == "wrong" for one in checks) else 0))


def _add_checks(name: str, look: Callable[[], Iterable[Check]], checks: list[Check]) -> int:
    """Adds the results of a check, or the error it raises; returns the exit code."""
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
        hint = "Let only one program at a time write to the store, or use a Python with SQLite 3.51.3 or newer."
        yield Check(
            "sqlite",
            "note",
            "this SQLite version has the WAL-reset bug, which can corrupt a store with several writers",
            hint,
        )
    installed, missing = list[str](), list[str]()
    for extra, module in sorted(EXTRAS.items()):
        (installed if _exists(module) else missing).append(extra)
    yield Check("extras", "ok", f"installed: {', '.join(installed) or 'none'}")
    if missing:
        yield Check(
            "extras", "note", f"not installed: {', '.join(missing)}", install_hint(f"clew[{','.join(missing)}]")
        )


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package above it is missing
        return False


def resets_badly(version: tuple[int, ...]) -> bool:
    """True for a SQLite version that can corrupt a database if a commit resets the log during a checkpoint."""
    return version < (3, 51, 3) and not (3, 50, 7) <= version < (3, 51) and not (3, 44, 6) <= version < (3, 45)


def _settings() -> Iterator[Check]:
    here = settings.current()
    db = here.find("db")
    origin = f"set by {db.origin}" if db.source != "default" else "default location"
    yield Check("settings", "ok", f"Store: {origin}")
    for file in here.files:
        unknown = [settings.describe_unknown(name) for name in file.unknown]
        yield Check("file", "note" if unknown else "ok", "; ".join([file.path, *unknown]))


def _store() -> Iterator[Check]:
    """Checks the files of the store, then opens it and checks its state."""
    path, named = location()
    if not named and not exists(path):
        yield Check("store", "note", f"{path} does not exist yet", "The first message creates it.")
        return
    if os.path.isfile(path):
        yield from _file(os.path.realpath(path))
    with open_untouched() as store:
        if "://" in path:
            yield Check("store", "ok", f"{store.path}, on a server")
            if store.unencrypted:
                hint = "Add sslmode=verify-full to the URL."
                yield Check(
                    "tls", "note", "the connection to the server on another host is not encrypted (no TLS)", hint
                )
        yield from _work(store)
        yield from _objects(store)


def _quick() -> Iterator[Check]:
    """Opens the store and reads one row."""
    began = time.monotonic()
    with open_untouched() as store:
        store.ping()
        yield Check("store", "ok", f"{store.path} answered in {1000 * (time.monotonic() - began):.0f} ms")


def _file(path: str) -> Iterator[Check]:
    info = os.stat(path)
    mode = info.st_mode & 0o777
    if mode & 0o077:
        hint = f"chmod 600 {shlex.quote(path)}"
        yield Check("store", "wrong", f"other users can access {path} (mode {mode:03o})", hint)
    else:
        yield Check("store", "ok", f"{path}, {size(info.st_size)}, private")
    if info.st_nlink > 1:
        hint = "Remove the other hard links, or use a copy of the file."
        yield Check("names", "wrong", f"the file has {info.st_nlink} hard links, so it is opened read-only", hint)
    for beside in (f"{path}-{name}" for name in ("wal", "shm", "lock")):
        # Left by readers from a time when the store was read-only.
        if mode & 0o200 and os.path.exists(beside) and not os.stat(beside).st_mode & 0o200:
            hint = f"chmod 600 {shlex.quote(beside)}"
            yield Check("beside", "wrong", f"{beside} is read-only, so the store cannot be written", hint)
    synced = next((name for name in _SYNCED if name in os.path.abspath(path).split(os.sep)), None)
    if synced is not None:
        hint = "Synchronising a store while it is written can corrupt it. Move it to another folder."
        yield Check("folder", "wrong", f"the folder seems to be synchronised by {synced}", hint)
    log = f"{path}-wal"
    log_size = os.path.getsize(log) if os.path.exists(log) else 0
    if log_size > LOG:
        hint = "A long-running reader prevents its cleanup. End that program."
        yield Check("log", "note", f"the write-ahead log has {size(log_size)}", hint)
    free = shutil.disk_usage(os.path.dirname(os.path.abspath(path))).free
    hint = "" if free >= SPACE else "Free some space: a purge, a backup or a key rotation needs it."
    yield Check("space", "ok" if free >= SPACE else "wrong", f"{size(free)} free", hint)


def _objects(store: clew.Store) -> Iterator[Check]:
    """Checks the object storage, if the store uses it."""
    count = store.blobs.objects()
    if not count:
        return
    if store.blobs.bucket is None:
        hint = "Set it with --blobs, CLEW_BLOBS, or 'clew config set blobs'."
        yield Check(
            "objects", "wrong", f"{many(count, 'attachment')} in object storage, but its location is not set", hint
        )
        return
    try:
        store.blobs.check_bucket()
        gone = store.blobs.sweep(dry_run=True)
    except clew.Unavailable as error:
        yield Check("objects", "wrong", error.message, error.hint)
        return
    yield Check("objects", "ok", f"{count:,} in {store.blobs.bucket}")
    if gone.objects:
        about = many(gone.objects, "unused object")
        yield Check("leftovers", "note", about, "Remove them with: clew gc")


def _work(store: clew.Store) -> Iterator[Check]:
    """Checks for interrupted work, pending cleanup and quarantined messages."""
    status = store.key_status()
    if status.state in ("plain", "sealed"):
        yield Check("key", "ok", f"the store is {status.state}")
    else:
        hint = "See 'clew key status'. Run the same 'clew key' command again to continue."
        yield Check("key", "wrong", f"{status.state} was interrupted", hint)
    if status.state == "sealed":
        for folder in filter(os.path.isdir, store.mirrors()):
            hint = "Remove it if you do not need it."
            yield Check("mirror", "note", f"{plain(folder)} contains conversations in clear text", hint)
    hint = "The next command that writes clears them, if no other program has the store open."
    pending = [receipt.pending for receipt in store.sessions.receipts() if receipt.pending]
    for mirror in sorted({what for left in pending for what in left if what.startswith(PENDING)}):
        about = f"files of purged conversations remain in the {plain(mirror)}, which cannot be reached"
        yield Check("purges", "note", about, "The next purge removes them if the folder is available.")
    traces = sum(any(not what.startswith(PENDING) for what in left) for left in pending)
    if traces:
        yield Check("purges", "note", f"{many(traces, 'purge')} left traces that are not cleared yet", hint)
    elif status.unclean and status.state in ("plain", "sealed"):
        yield Check("traces", "note", "the files may contain traces of the state before sealing or rotation", hint)
    aside = len(store.quarantine.list())
    if aside:
        about = f"{many(aside, 'damaged message')} in quarantine"
        yield Check("quarantine", "note", about, "List them with: clew quarantine ls")
