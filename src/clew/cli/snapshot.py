"""`clew snapshot ls | show | save | restore | convert | rm`: conversations saved whole, in the store or elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, cast

import click
import msgspec

import clew
from clew import codec
from clew.cli.convert import convert
from clew.cli.exits import show_help
from clew.cli.forms import Form, iso, json_options, out_lines, out_value, out_values, session_json
from clew.cli.moments import ago, local
from clew.cli.outcomes import Done, each, told
from clew.cli.place import existing, reading, store_option, writing
from clew.cli.places import place, place_option, place_or, resolve
from clew.cli.purge import left
from clew.cli.show import said_lines
from clew.cli.text import bold, dim, many, out, out_document, plain, role_style, style, warn
from clew.convert import convert_session
from clew.convert.tongues import PROVIDERS
from clew.receipts import Receipt

if TYPE_CHECKING:
    from clew.snapshots import Snapshot, SnapshotStore, SnapshotSummary
    from clew.snapshots.stored import Snapshots

NEUTRAL = "clew"
"""The provider of a snapshot in clew's own form."""
_SHORT = 8
"""Digits of an id that a list shows at least."""


@click.group(
    short_help="Save conversations whole, and restore them.",
    invoke_without_command=True,
    epilog="\b\nExamples:\n  clew snapshot save k3m9qa\n  clew snapshot ls --at ~/talks",
)
@store_option
@click.pass_context
def snapshot(ctx: click.Context) -> None:
    """Keeps conversations with a provider as they stood at a moment: in the store, in a folder, or in a bucket.

    A snapshot is named by its id, or by the first digits of it. The key of an encrypted folder or bucket is given like
    that of a sealed store.
    """
    if ctx.invoked_subcommand is None:
        show_help(ctx)


@snapshot.command(
    short_help="List snapshots, newest first.",
    epilog="\b\nExamples:\n  clew snapshot ls\n  clew snapshot ls --at ~/talks --jsonl | jq -r .id",
)
@place_option
@json_options
@store_option
def ls(place_name: str | None, form: Form) -> None:
    """Lists snapshots, newest first: id, when, messages, tokens (about), provider, model."""
    with place_or(reading, place_name) as store:
        found = store.list()
    if form != "text":
        out_values(map(_json, found), form)
        return
    out_lines(_table(found))
    if not found:
        warn("No snapshots.")


@snapshot.command(
    short_help="Show a snapshot.",
    epilog="\b\nExamples:\n  clew snapshot show 7d444840\n  clew snapshot show 7d444840 --json > talk.json",
)
@click.argument("snapshot_id", metavar="ID")
@place_option
@json_options
@store_option
def show(snapshot_id: str, place_name: str | None, form: Form) -> None:
    """Shows a snapshot as text; with --json its document, which 'clew snapshot save --file' reads."""
    with place_or(reading, place_name) as store:
        found = store.load(resolve(store, snapshot_id))
        if form == "text":
            out_lines(_text(found))
        else:
            out_document(found.to_json().decode())


@snapshot.command(
    short_help="Save a session, or a document, as a snapshot.",
    epilog="\b\nExamples:\n  clew snapshot save k3m9qa\n  clew snapshot save k3m9qa --at s3://team/talks\n"
    "  clew snapshot save --file talk.json",
)
@click.argument("session", required=False)
@click.option("--file", "file", type=click.File("rb"), help="A snapshot's document; - is stdin.")
@click.option("--system", "system_prompt", metavar="TEXT", help="The system prompt.  [default: the session's]")
@click.option("--to", type=click.Choice(PROVIDERS), help="Convert the messages to this provider's.")
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
    """Saves SESSION as it is now, with its system prompt and tools, and prints the id of the snapshot.

    A session with messages of several providers needs --to: 'clew snapshot convert' tells what a conversion changes.
    With --file it saves a document, in place of a snapshot with the same id.
    """
    if (session is None) == (file is None):
        raise click.UsageError("name a session, or give --file")
    if session is not None:
        with existing() as store, store.transaction():
            made = _taken(store, session, system_prompt, to)
            if place_name is not None:
                store.snapshots.delete(made.id)
        if place_name is not None:
            place(place_name).save(made)
        _tell(made, form)
        return
    from clew.snapshots import Snapshot

    assert file is not None
    made = Snapshot.from_json(file.read())
    with place_or(writing, place_name) as where:
        where.save(made)
        _tell(made, form)


@snapshot.command(
    short_help="Begin a session with what a snapshot holds.",
    epilog="\b\nExamples:\n  clew snapshot restore 7d444840\n"
    "  clew snapshot restore 7d444840 --at ~/talks --title Again",
)
@click.argument("snapshot_id", metavar="ID")
@click.option("--title", help="The title of the new session.")
@place_option
@json_options
@store_option
def restore(snapshot_id: str, title: str | None, place_name: str | None, form: Form) -> None:
    """Begins a session with what a snapshot holds, system prompt and tools too, and prints its id. It stays."""
    from clew.snapshots import new_snapshot

    with existing() if place_name is None else writing() as store:
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
        if form != "text":
            out_value(session_json(session), form)
            return
        out(session.id)
        warn(f"session {session.handle} continues from the snapshot; 'clew show {session.handle}' shows it")


@snapshot.command(
    short_help="Delete snapshots.",
    epilog="\b\nExamples:\n  clew snapshot rm --dry-run 7d444840\n  clew snapshot rm 7d444840 --at ~/talks",
)
@click.argument("snapshot_ids", nargs=-1, required=True, metavar="ID...")
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
@click.option("--purge", is_flag=True, help="Also clear every trace in the files of the store.")
@place_option
@json_options
@store_option
@click.pass_context
def rm(
    ctx: click.Context, snapshot_ids: tuple[str, ...], dry_run: bool, purge: bool, place_name: str | None, form: Form
) -> None:
    """Deletes each snapshot, and what only it needed. What sessions share stays. Exit code 8 if only some could go.

    In a store that leaves traces until they are overwritten, unless --purge clears them: 'clew receipts' tells.
    """
    if purge and place_name is not None:
        raise click.UsageError("--purge is for the snapshots of the store")
    with place_or(existing, place_name) as store:
        ctx.exit(told(each(snapshot_ids, lambda asked: _remove(store, asked, dry_run, purge)), form))


snapshot.add_command(convert)


def _taken(store: clew.Store, session: str, system_prompt: str | None, to: str | None) -> Snapshot:
    """A snapshot of a session; with `to` of a converted one, which does not stay."""
    if to is not None:
        converted = convert_session(store, session, to=to).session
        made = store.snapshots.take(converted, system_prompt=system_prompt)
        converted.delete()
        return made
    try:
        return store.snapshots.take(session, system_prompt=system_prompt)
    except clew.Invalid as error:
        if "several providers" in error.message:
            error.hint = f"Name one: 'clew snapshot save {plain(session)} --to PROVIDER'."
        raise


def _remove(store: SnapshotStore, asked: str, dry_run: bool, purge: bool) -> Done:
    id = resolve(store, asked)
    said = f"snapshot {id} {'would go' if dry_run else 'is deleted'}"
    if dry_run:
        store.load(id)
        return Done(id, said, {"snapshot": id})
    receipt = cast("Snapshots", store).purge(id) if purge else store.delete(id)
    if not isinstance(receipt, Receipt):  # a folder or a bucket, where the file is gone
        return Done(id, said, {"snapshot": id})
    sentence = "\n".join((said, *left(receipt)))
    kept = [one._asdict() for one in receipt.kept]
    return Done(id, sentence, {"snapshot": id, "kept": kept, "pending": receipt.pending})


# -- telling


def _tell(made: Snapshot, form: Form) -> None:
    if form == "text":
        out(made.id)
        warn(f"snapshot {made.id} of {many(made.message_count, 'message')} is saved")
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
        yield from said_lines(clew.system(found.system_prompt))
    for raw in found.parts:
        try:
            message = _view(found.provider, raw)
        except (clew.Invalid, msgspec.MsgspecError, RecursionError):
            message = clew.user(clew.Opaque(kind="message", data=raw.decode()))
        yield ""
        yield role_style(message.role, f"## {message.role}")
        yield ""
        yield from said_lines(message)


def _begins_with_prompt(found: Snapshot) -> bool:
    """True if the first message is the system prompt, as with OpenAI."""
    try:
        return bool(found.parts) and _view(found.provider, found.parts[0]).text == found.system_prompt
    except (clew.Invalid, msgspec.MsgspecError, RecursionError):
        return False


def _view(provider: str, raw: bytes) -> clew.Message:
    if provider == NEUTRAL:
        return msgspec.json.decode(raw, type=clew.Message)
    return codec.neutral(clew.native(provider, raw))
