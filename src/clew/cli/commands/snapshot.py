"""`clew snapshot ls | show | save | restore | convert | rm`: whole conversations, in the store or elsewhere."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import click
import msgspec

import clew
from clew.base.visible import many, plain
from clew.cli.commands.purge import remaining_lines
from clew.cli.exits import InvalidKey
from clew.cli.options import Group, dry_run_option, examples
from clew.cli.output.conversation import message_lines
from clew.cli.output.json import Form, iso, json_options, out_lines, out_value, out_values, session_json
from clew.cli.output.outcomes import Success, for_each, report_outcomes
from clew.cli.output.text import bold, dim, out, out_document, role_style, style, warn
from clew.cli.output.times import ago, local
from clew.cli.setup.find import find_point
from clew.cli.setup.open_store import key_source, open_existing, open_for_reading, open_or_create, store_option
from clew.convert import ConvertedSnapshot, Report, convert_session
from clew.convert import convert as convert_snapshot
from clew.engine.receipts import Receipt
from clew.engine.titles import title_of
from clew.providers import registry
from clew.providers.neutral import neutral
from clew.store.session import delete_session

if TYPE_CHECKING:
    from clew.snapshots import Snapshot, SnapshotStore, SnapshotSummary
    from clew.store.snapshots import Snapshots


F = TypeVar("F", bound=Callable[..., object])
NEUTRAL = "clew"
"""The provider of a snapshot in clew's own form."""
_SHORT = 8
"""Minimum number of digits of an ID in a list."""


def place_option(command: F) -> F:
    """Adds `--at` to a command."""
    text = "Use this folder or bucket (s3://…, gs://…, az://…) instead of the store."
    return click.option("--at", "place_name", metavar="PLACE", help=text)(command)


@click.group(cls=Group, epilog=examples("clew snapshot save k3m9qa", "clew snapshot ls --at ~/snapshots"))
@store_option
def snapshot() -> None:
    """Save whole conversations as snapshots: in the store, in a folder, or in a bucket.

    A snapshot ID can be shortened to its first digits. For an encrypted folder or bucket, give the key as for a sealed
    store.
    """


@snapshot.command(epilog=examples("clew snapshot ls", "clew snapshot ls --at ~/snapshots --jsonl | jq -r .id"))
@place_option
@json_options
@store_option
def ls(place_name: str | None, form: Form) -> None:
    """List snapshots, newest first: ID, age, messages, estimated tokens, provider, model."""
    with place_or(open_for_reading, place_name) as store:
        found = store.list()
    if form != "text":
        out_values(map(_json, found), form)
        return
    out_lines(_table(found))
    if not found:
        warn("No snapshots. Create one with: clew snapshot save CONVERSATION")


@snapshot.command(epilog=examples("clew snapshot show 7d444840", "clew snapshot show 7d444840 --json > snapshot.json"))
@click.argument("snapshot_id", metavar="ID")
@place_option
@json_options
@store_option
def show(snapshot_id: str, place_name: str | None, form: Form) -> None:
    """Show a snapshot as text. With --json, print the document that 'clew snapshot save --file' reads."""
    with place_or(open_for_reading, place_name) as store:
        found = store.load(resolve(store, snapshot_id))
        if form == "text":
            out_lines(_text(found))
        else:
            out_document(found.to_json().decode())


@snapshot.command(
    epilog=examples(
        "clew snapshot save k3m9qa",
        "clew snapshot save k3m9qa --at s3://team/snapshots",
        "clew snapshot save --file snapshot.json",
    ),
)
@click.argument("session", required=False, metavar="[CONVERSATION]")
@click.option("--file", "file", type=click.File("rb"), help="Read the snapshot from this JSON file; - is stdin.")
@click.option("--system", "system_prompt", metavar="TEXT", help="System prompt.  [default: that of the conversation]")
@click.option(
    "--to", type=click.Choice(registry.names()), metavar="PROVIDER",
    help=f"Convert the messages for this provider: {', '.join(registry.names())}.",
)  # fmt: skip
@place_option
@json_options
@store_option
def save(
    session: str | None,
    file: IO[bytes] | None,
    system_prompt: str | None,
    to: str | None,
    place_name: str | None,
    form: Form,
) -> None:
    """Save CONVERSATION with its system prompt and tools as a snapshot, and print the snapshot's ID.

    With a message in place of CONVERSATION, saves the messages up to it.
    A conversation with messages of several providers needs --to; 'clew snapshot convert' shows what a conversion
    changes. With --file, saves a snapshot document and replaces a snapshot with the same ID.
    """
    if (session is None) == (file is None):
        raise click.UsageError("give either CONVERSATION or --file")
    if session is not None:
        with open_existing() as store, store.transaction():
            made = _take(store, *find_point(store, session), system_prompt, to)
            if place_name is not None:
                store.snapshots.delete(made.id)
        if place_name is not None:
            place(place_name).save(made)
        _print_saved(made, form)
        return
    from clew.snapshots import Snapshot

    assert file is not None
    made = Snapshot.from_json(file.read())
    with place_or(open_or_create, place_name) as where:
        where.save(made)
        _print_saved(made, form)


@snapshot.command(
    epilog=examples("clew snapshot restore 7d444840", "clew snapshot restore 7d444840 --at ~/snapshots --title Again")
)
@click.argument("snapshot_id", metavar="ID")
@click.option("--title", help="Title of the new conversation.")
@place_option
@json_options
@store_option
def restore(snapshot_id: str, title: str | None, place_name: str | None, form: Form) -> None:
    """Start a new conversation from a snapshot, with its system prompt and tools, and print its ID.

    The snapshot is kept. Without --title, the first prompt becomes the title.
    """
    from clew.snapshots import new_snapshot

    with open_existing() if place_name is None else open_or_create() as store:
        if place_name is None:
            session = store.snapshots.resume(resolve(store.snapshots, snapshot_id), title=title)
        else:
            elsewhere = place(place_name)
            found = elsewhere.load(resolve(elsewhere, snapshot_id))
            with store.transaction():
                passing = found.replace(id=new_snapshot(provider=found.provider).id)
                store.snapshots.save(passing)
                session = store.snapshots.resume(passing.id, title=title)
                store.snapshots.delete(passing.id)
        if first := title_of(node.message for node in session.path()) if session.title is None else None:
            session.rename(first)
        if form != "text":
            out_value(session_json(session), form)
            return
        out(session.id)
        warn(f"conversation {session.handle} created from the snapshot; resume with: clew chat -c {session.handle}")


@snapshot.command(epilog=examples("clew snapshot rm --dry-run 7d444840", "clew snapshot rm 7d444840 --at ~/snapshots"))
@click.argument("snapshot_ids", nargs=-1, required=True, metavar="ID...")
@dry_run_option
@click.option("--purge", is_flag=True, help="Also clear all traces in the files of the store.")
@place_option
@json_options
@store_option
@click.pass_context
def rm(
    ctx: click.Context, snapshot_ids: tuple[str, ...], dry_run: bool, purge: bool, place_name: str | None, form: Form
) -> None:
    """Delete snapshots. Messages shared with conversations are kept. Exit code 8 if only some were deleted.

    Without --purge, traces remain in the store's files until they are overwritten; 'clew receipts' lists them.
    """
    if purge and place_name is not None:
        raise click.UsageError("--purge cannot be used with --at")
    with place_or(open_existing, place_name) as store:
        ctx.exit(report_outcomes(for_each(snapshot_ids, lambda asked: _remove(store, asked, dry_run, purge)), form))


def _take(
    store: clew.Store, session: clew.Session, until: str | None, system_prompt: str | None, to: str | None
) -> Snapshot:
    """Takes a snapshot of a session, or of its messages up to `until`; with `to`, of a temporary converted copy."""
    taken = session if until is None else session.fork(at=until)
    try:
        if to is not None:
            converted = convert_session(store, taken, to=to).session
            made = store.snapshots.take(converted, system_prompt=system_prompt)
            delete_session(converted)
        else:
            made = store.snapshots.take(taken, system_prompt=system_prompt)
    except clew.Invalid as error:
        if "several providers" in error.message:
            error.hint = f"Convert them for one of {', '.join(registry.names())}, with --to: for example, --to claude"
        raise
    if until is not None:
        delete_session(taken)
    return made


def _remove(store: SnapshotStore, asked: str, dry_run: bool, purge: bool) -> Success:
    id = resolve(store, asked)
    sentence = f"snapshot {id} {'would be deleted' if dry_run else 'deleted'}"
    if dry_run:
        store.load(id)
        return Success(id, sentence, {"snapshot": id})
    receipt = cast("Snapshots", store).purge(id) if purge else store.delete(id)
    if not isinstance(receipt, Receipt):  # a folder or a bucket
        return Success(id, sentence, {"snapshot": id})
    sentence = "\n".join((sentence, *remaining_lines(receipt)))
    kept = [one._asdict() for one in receipt.kept]
    return Success(id, sentence, {"snapshot": id, "kept": kept, "pending": receipt.pending})


# -- output


def _print_saved(made: Snapshot, form: Form) -> None:
    if form == "text":
        out(made.id)
        warn(f"saved snapshot {made.id} with {many(made.message_count, 'message')}")
    else:
        out_value({"id": made.id, "provider": made.provider, "message_count": made.message_count}, form)


def _json(one: SnapshotSummary) -> dict[str, Any]:
    return {**msgspec.to_builtins(one), "created_at": iso(one.created_at)}


def _table(found: Iterable[SnapshotSummary]) -> Iterator[str]:
    rows, now = list(found), datetime.now(UTC)
    size = _SHORT
    while size < 36 and len({one.id[:size] for one in rows}) < len(rows):
        size += 1
    for one in rows:
        counts = f"{one.message_count:>6} messages  ~{one.token_count:>7} tokens"
        about = " ".join(plain(word) for word in (one.provider, one.model) if word)
        yield f"{style(one.id[:size], '33')}  {ago(one.created_at, now):>8}  {counts}  {about}"


def _text(found: Snapshot) -> Iterator[str]:
    about = [style(found.id, "33"), local(found.created_at), plain(found.provider), plain(found.model)]
    yield bold("# Snapshot")
    yield dim(" · ").join(part for part in about if part)
    if found.system_prompt and not _begins_with_prompt(found):
        yield ""
        yield role_style("system", "## system")
        yield ""
        yield from message_lines(clew.system(found.system_prompt))
    for raw in found.parts:
        try:
            message = _view(found.provider, raw)
        except (clew.Invalid, msgspec.MsgspecError, RecursionError):
            message = clew.user(clew.Opaque(kind="message", data=raw.decode()))
        yield ""
        yield role_style(message.role, f"## {message.role}")
        yield ""
        yield from message_lines(message)


def _begins_with_prompt(found: Snapshot) -> bool:
    """True if the first message is the system prompt, as some providers have it."""
    try:
        return bool(found.parts) and _view(found.provider, found.parts[0]).text == found.system_prompt
    except (clew.Invalid, msgspec.MsgspecError, RecursionError):
        return False


def _view(provider: str, raw: bytes) -> clew.Message:
    if provider == NEUTRAL:
        return msgspec.json.decode(raw, type=clew.Message)
    return neutral(clew.native(provider, raw))


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


@snapshot.command(
    epilog=examples(
        "clew snapshot convert 7d444840 --to openai", "clew snapshot convert 7d444840 --to gemini --dry-run"
    ),
)
@click.argument("snapshot_id", metavar="ID")
@click.option(
    "--to", required=True, type=click.Choice(registry.names()), metavar="PROVIDER",
    help=f"Provider of the new snapshot: {', '.join(registry.names())}.",
)  # fmt: skip
@click.option("--model", default="", help="Model of the new snapshot.")
@click.option("--drop-thinking", is_flag=True, help="Drop reasoning.  [default: convert it to text]")
@dry_run_option
@place_option
@json_options
@store_option
def convert(
    snapshot_id: str, to: str, model: str, drop_thinking: bool, dry_run: bool, place_name: str | None, form: Form
) -> None:
    """Convert a snapshot for another provider into a new snapshot, and print its ID. Keeps the old one.

    Lists on stderr what could not be converted: position and kind, without content.
    """
    with place_or(open_existing, place_name) as store:
        before = store.load(resolve(store, snapshot_id))
        found = convert_snapshot(before, to, model=model, thinking="drop" if drop_thinking else "text")
        if not dry_run:
            store.save(found.snapshot)
    if form != "text":
        out_value(_converted_json(found, dry_run), form)
        return
    if not dry_run:
        out(found.snapshot.id)
    for loss in found.report.losses:
        warn(str(loss))
    warn(_conversion_line(found, dry_run))


def _converted_json(found: ConvertedSnapshot, dry_run: bool) -> dict[str, object]:
    return {
        "id": None if dry_run else found.snapshot.id,
        "converted_from": found.snapshot.metadata["converted_from"],
        "provider": found.snapshot.provider,
        "messages": found.snapshot.message_count,
        "losses": [{"detail": "", **msgspec.to_builtins(loss)} for loss in found.report.losses],
    }


def _conversion_line(found: ConvertedSnapshot, dry_run: bool) -> str:
    count = found.snapshot.message_count
    verb = "would be converted" if dry_run else "converted"
    return f"{many(count, 'message')} {verb} for {found.snapshot.provider}: {_losses(found.report)}"


def _losses(report: Report) -> str:
    counts = [(report.count(kind), kind) for kind in ("dropped", "changed", "moved", "merged", "added")]
    return ", ".join(f"{count} {kind}" for count, kind in counts if count) or "nothing was lost"
