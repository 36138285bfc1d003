"""`clew import`: imports conversations from the histories of other programs, and from files, into the store."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import click

import clew
from clew.base.outside import open_outside
from clew.base.visible import many, plain
from clew.cli.exits import PARTIAL
from clew.cli.importing.found import HISTORY, choose, json_rows, table, tell_unreadable, this_home
from clew.cli.importing.run_import import MOST, StopSwitch, file_row, import_files
from clew.cli.options import dry_run_option, examples, yes_option
from clew.cli.output.json import Form, home_short, iso, json_options, out_lines
from clew.cli.output.text import bold, dim, note, out_json, out_jsonl, warn
from clew.cli.output.times import local, parse_since
from clew.cli.setup.ask import can_ask
from clew.cli.setup.open_store import is_cpe, open_for_reading, open_or_create, store_option
from clew.errors import ClewError
from clew.sources.import_all import UNWRITABLE, FileOutcome, import_all
from clew.sources.import_log import ImportRecorder, list_runs, run_handle
from clew.sources.registry import Found, find, places, source_named, sources
from clew.sources.watching import watch

if TYPE_CHECKING:
    from clew.sources.contract import Source


class _Asked(NamedTuple):
    """What to import, and how."""

    only: Source | None
    since: datetime | None
    project: str | None
    exclude: tuple[str, ...]
    dry_run: bool
    again: bool
    force: bool
    form: Form


@click.command(
    name="import",
    epilog=examples(
        "clew import",
        "clew import --yes --from claude-code",
        "clew import ~/.claude/projects --since 30d",
        "clew import chatgpt-export.zip --dry-run",
        "clew import --watch",
        "clew import --undo k3m9qa",
        "clew import .cpeconvo",
        more="Mirrors of clew.agents can be imported, too. To read a .cpeconvo file, the\n"
        "database of the agent CPE, without importing it: clew ls --db .cpeconvo",
    ),
)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(readable=False))
@click.option("--from", "source", metavar="NAME", help="Only this source: see 'clew sources'.")
@click.option(
    "--since", callback=parse_since, metavar="TIME", help="Only files changed since: a date, or an age like 2d, 3h."
)
@click.option("--project", metavar="DIR", type=click.Path(), help="Only conversations of this directory.")
@click.option("--exclude", metavar="PATTERN", multiple=True, help="Leave out paths that match; may be repeated.")
@click.option("--again", is_flag=True, help="Read unchanged files, too: brings back what was deleted here.")
@click.option("--force", is_flag=True, help="Import even if there seems to be too little disk space.")
@click.option("--watch", is_flag=True, help="Import what is new as it is written, until Ctrl-C.")
@click.option(
    "--undo", metavar="RUN", help="Remove the conversations that an import added and that did not change since."
)
@click.option("--runs", is_flag=True, help="List past imports.")
@yes_option
@dry_run_option
@json_options
@store_option
@click.pass_context
def import_(
    ctx: click.Context,
    paths: tuple[str, ...],
    source: str | None,
    since: datetime | None,
    project: str | None,
    exclude: tuple[str, ...],
    again: bool,
    force: bool,
    watch: bool,
    undo: str | None,
    runs: bool,
    yes: bool,
    dry_run: bool,
    form: Form,
) -> None:
    """Import conversations of other programs. Messages already stored do not change.

    Without PATH, list the histories on this machine and ask which to import; without a terminal, import them only
    with --yes. PATH is a file, a folder, a zip archive, or the URL of a PostgreSQL database of LangGraph, which is
    only read. 'clew sources' lists the formats; clew recognises them by their content.

    Parts that cannot be read are skipped and listed on stderr; the exit code is then 8. Ctrl-C stops after the
    current conversation; the same command imports the rest. If there is too little disk space, nothing is imported.
    If the disk becomes full, the import stops and reports what is stored.

    --watch imports what is new, and then each message within two seconds after it is written. It prints a line for
    each conversation that grew.
    """
    if undo is not None or runs:
        if paths:
            raise click.UsageError("--undo and --runs take no PATH")
        ctx.exit(_list_runs(form) if undo is None else _undo(undo, dry_run, form))
    only = None if source is None else source_named(source)
    asked = _Asked(only, since, project, exclude, dry_run, again, force, form)
    if watch:
        if dry_run or again or form == "json":
            raise click.UsageError("--watch cannot be used with --dry-run, --again or --json; --jsonl can")
        ctx.exit(_watch(paths, asked))
    ctx.exit(_import_paths(paths, asked) if paths else _import_found(asked, yes=yes))


def _import_found(asked: _Asked, *, yes: bool) -> int:
    """Lists the histories on this machine, and imports those that were chosen; returns the exit code."""
    from clew.sources.survey import survey

    home = this_home()
    tried = tuple(sources()) if asked.only is None else (asked.only,)
    unreadable: dict[str, str] = {}
    found = [] if yes else survey(home, only=asked.only, unreadable=unreadable)
    code = tell_unreadable(unreadable)
    if not yes and not found:
        if code:
            return code
        raise _no_history()
    if not yes and asked.form != "text":
        (out_json if asked.form == "json" else out_jsonl)(json_rows(found))
        return code
    chosen = list(tried)
    if not yes:
        out_lines(table(found), paged=False)
        if not can_ask():
            note("Import what is new with: clew import --yes")
            return code
        names = {one.source for one in choose(found)}
        chosen = [one for one in tried if one.name in names]
        if not chosen:
            note("Nothing was imported. Run 'clew import' again at any time.")
            return 0
    return _import_sources(chosen, asked)


def _no_history() -> clew.NotFound:
    hint = "Name a file or a folder: clew import PATH. 'clew sources' lists where clew looks."
    return clew.NotFound(HISTORY, "", hint=hint)


def _import_sources(chosen: list[Source], asked: _Asked) -> int:
    home = this_home()
    with _store(asked.dry_run) as store:
        by_path: dict[tuple[str, str | None], Found] = {}  # several sources may be looked for in one closed folder
        for source in chosen:
            for one in _find(store, places(source, home), asked._replace(only=source)):
                by_path.setdefault((one.item.name, None if one.source is None else one.source.name), one)
        found = list(by_path.values())
        if not found:
            raise _no_history()
        used = {one.source.name for one in found if one.source is not None}
        names = [source.title for source in chosen if source.name in used]
        return import_files(
            store, found, names, asked.form, dry_run=asked.dry_run, again=asked.again, force=asked.force
        )


def _import_paths(paths: tuple[str, ...], asked: _Asked) -> int:
    """Imports what is at these paths; returns the exit code."""
    from clew.cli.importing.other_files import from_cpe_file
    from clew.sources.langgraph import is_url, without_password

    codes: list[int] = []
    found: list[Found] = []
    with _store(asked.dry_run) as store:
        for path in paths:
            if asked.only is None and is_cpe(path):
                codes.append(from_cpe_file(store, path, asked.dry_run, asked.again, asked.form))
                continue
            here = _find(store, [path], asked)
            closed = not os.path.isdir(path) and any(one.unreadable for one in here)
            if closed or any(one.source is not None for one in here) or asked.only is not None:
                found += here
            else:
                codes.append(_import_other(store, path, here, asked))
        if found:
            where = [without_password(path) if is_url(path) else os.path.abspath(path) for path in paths]
            codes.append(
                import_files(
                    store, found, where, asked.form, dry_run=asked.dry_run, again=asked.again, force=asked.force
                )
            )
    if not codes:
        raise clew.NotFound("history", ", ".join(paths), hint="Nothing there matches the options.")
    return max(codes)


def _watch(paths: tuple[str, ...], asked: _Asked) -> int:
    """Imports what is new at these paths, or in the histories on this machine, until Ctrl-C; returns the exit code."""
    from clew.sources.langgraph import is_url

    if any(map(is_url, paths)):
        raise click.UsageError("--watch takes files and folders, not a URL")
    home = this_home()
    tried = tuple(sources()) if asked.only is None else (asked.only,)

    def where() -> list[str]:
        return list(paths) or [path for source in tried for path in places(source, home)]

    for path in paths:
        if not os.path.exists(path):
            raise clew.NotFound("file", path, hint="Check the path.")
    with open_or_create() as store:
        return LiveImport(store, where, lambda path: _find(store, [path], asked, where()), asked.form).run()


def _find(store: clew.Store, paths: list[str], asked: _Asked, roots: Sequence[str] = ()) -> list[Found]:
    from clew.sources.filtering import OfProject
    from clew.sources.imported_files import ImportedFiles
    from clew.sources.langgraph import find_on_server, is_url

    history = ImportedFiles(store)
    files = [path for path in paths if not is_url(path)]
    found = list(find(files, only=asked.only, exclude=asked.exclude, known=history.unchanged_source, roots=roots))
    if asked.since is not None:
        edge = asked.since.timestamp() * 1e9
        found = [one for one in found if one.item.modified >= edge]
    found += [find_on_server(path) for path in paths if is_url(path)]
    if asked.project is not None:
        folder = asked.project
        found = [
            one._replace(source=OfProject(one.source, folder), partial=True) if one.source else one for one in found
        ]
    return found


def _import_other(store: clew.Store, path: str, found: list[Found], asked: _Asked) -> int:
    """Imports a file or folder that no source recognises; returns the exit code."""
    from clew.cli.importing.other_files import from_export, from_runtime_folder
    from clew.store.jsonl import FIRST

    if not os.path.isfile(path):
        unreadable = {one.item.path: one.why for one in found if one.unreadable}
        return from_runtime_folder(store, path, unreadable, asked.dry_run, asked.again, asked.form)
    with open_outside(path) as file:
        head = file.read(64)
    if head.startswith(FIRST):
        return from_export(store, path, asked.dry_run, asked.again, asked.form)
    why = next((one.why for one in found if one.why), "the file is empty")
    raise clew.Invalid(f"{plain(path)} was not imported: {why}", hint="'clew sources' lists the formats.")


def _list_runs(form: Form) -> int:
    with open_for_reading() as store:
        found = [(run_handle(store, one.id), one) for one in list_runs(store)]
    if form != "text":
        rows = [{**one._asdict(), "handle": handle, "started_at": iso(one.started_at)} for handle, one in found]
        (out_json if form == "json" else out_jsonl)(rows)
        return 0
    for handle, one in found:
        what = plain(", ".join(one.paths))
        counts = f"{many(one.messages, 'message')} in {many(one.sessions, 'conversation')}"
        undone = dim("  undone") if one.undone else ""
        out_lines([f"{handle}  {local(one.started_at)}  {counts}  {what}{undone}"], paged=False)
    if not found:
        note("Nothing was imported yet.")
    return 0


def _undo(run: str, dry_run: bool, form: Form) -> int:
    """Takes back an import and prints what went and what stays; returns the exit code."""
    from clew.sources.undo import undo

    with open_or_create() as store:
        done = undo(store, run, dry_run=dry_run)
    if form != "text":
        left = [one._asdict() for one in done.left]
        receipt = None if done.receipt is None else done.receipt.id
        row = {"run": done.run, "sessions": done.sessions, "messages": done.messages, "left": left, "receipt": receipt}
        (out_json if form == "json" else lambda value: out_jsonl([value]))(row)
        return PARTIAL if done.left else 0
    for one in done.left:
        warn(f"{bold('left')} {one.session}: {plain(one.why)}")
    verb = "would be removed" if dry_run else "removed"
    counts = f"{many(done.messages, 'message')} and {many(len(done.sessions), 'conversation')} {verb}"
    out_lines([counts + ("" if done.receipt is None or dry_run else f"; receipt {done.receipt.id}")])
    return PARTIAL if done.left else 0


def _store(dry_run: bool) -> clew.Store:
    """The store; a dry run does not create one, and uses an empty store instead."""
    if not dry_run:
        return open_or_create()
    try:
        return open_for_reading()
    except clew.NotFound:
        return clew.open(":memory:")


class LiveImport:
    """One run of `clew import --watch`. `places` are watched; `find` says what is at a path."""

    def __init__(
        self,
        store: clew.Store,
        places: Callable[[], Sequence[str]],
        find: Callable[[str], list[Found]],
        form: Form,
    ) -> None:
        self._store = store
        self._places, self._find = places, find
        self._form = form
        self._stop = StopSwitch()
        self._run = ImportRecorder(store)
        self._failed: set[str] = set()
        """Paths that could not be read; they are tried once more."""
        self._told: set[tuple[str, str]] = set()
        self._new = 0
        self._full = False
        """True while the store cannot be written, which is said once."""

    def run(self) -> int:
        """Imports until Ctrl-C; returns the exit code."""
        with self._stop.listening():
            first = True
            for changed in watch(self._places, stop=self._stop):
                began = time.monotonic()
                self._import(changed, summary=first)
                sys.stdout.flush()
                if first:
                    note(f"Watching {self._names()}. Ctrl-C ends it.")
                    first = False
                    continue
                # some files are read whole when they have changed: a large one takes half of the processor at most
                self._pause(time.monotonic() - began)
        if self._new:
            note(f"Undo with: clew import --undo {run_handle(self._store, self._run.id)}")
        return 0

    def _names(self) -> str:
        places = [plain(home_short(path)) for path in self._places()]
        return ", ".join(places) if len(places) <= 3 else many(len(places), "place")

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stop() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))

    def _import(self, changed: Iterable[str], *, summary: bool) -> None:
        again, self._failed = self._failed, set()
        found: dict[str, Found] = {}
        for path in {**dict.fromkeys(changed), **dict.fromkeys(again)}:
            try:
                found |= {one.item.name: one for one in self._find(path) if one.source or one.unreadable}
            except ClewError:  # it went away
                continue
        messages = conversations = 0
        waiting = dict(found)
        try:
            for outcome in import_all(self._store, found.values(), stop=self._stop, recorder=self._run):
                messages += outcome.messages
                conversations += len(outcome.conversations)
                path = waiting.pop(outcome.path).item.path
                if outcome.state == "stopped" or (outcome.state == "skipped" and path not in again):
                    self._failed.add(path)
                self._tell(outcome, quiet=summary)
            self._full = self._full and not found
        except UNWRITABLE as error:
            if not self._full:
                warn(f"clew: {plain(error.message)}. {error.hint} The next change is imported with the rest.")
            self._full = True
            self._failed |= again | {one.item.path for one in waiting.values()}
        self._new += messages
        if summary and self._form == "text":
            out_lines(
                [f"{many(messages, 'new message')} in {many(conversations, 'conversation')} imported"], paged=False
            )

    def _tell(self, outcome: FileOutcome, *, quiet: bool) -> None:
        """Prints what is new in a file; `quiet` leaves out the lines for people."""
        if outcome.state in ("unchanged", "empty"):
            return
        for why in outcome.skipped[:MOST]:
            if (outcome.path, why) not in self._told:
                self._told.add((outcome.path, why))
                warn(f"{bold('skipped')} {plain(outcome.path)}: {plain(why)}")
        if self._form != "text":
            out_jsonl([file_row(outcome)])
            return
        for one in () if quiet else outcome.conversations:
            if one.messages:
                session = self._store.sessions.get(one.session)
                now = dim(datetime.now().astimezone().strftime("%H:%M:%S"))
                line = f"{now}  {session.handle}  {many(one.messages, 'new message')}  {plain(session.title or '')}"
                out_lines([line.rstrip()], paged=False)
