"""`clew purge | receipts`: deletes sessions permanently, and lists the receipts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, get_args

import click

import clew
from clew.base import ids
from clew.base.visible import many, plain
from clew.cli.exits import FAILED, PARTIAL, say
from clew.cli.options import dry_run_option, examples, yes_option
from clew.cli.output.json import Form, home_short, iso, json_options, out_lines, out_value, out_values
from clew.cli.output.progress import size
from clew.cli.output.text import dim, style, warn, wrap
from clew.cli.output.times import local, parse_since
from clew.cli.setup.ask import can_ask, confirm
from clew.cli.setup.find import describe_session, find_session
from clew.cli.setup.open_store import open_existing, open_for_reading, store_option
from clew.engine.mirrors import PENDING
from clew.engine.receipts import Reason, Receipt

_LEFT = {
    "wal": "traces in the write-ahead log, which another program has open",
    "file": "traces in free pages of the file",
    "search": "traces in the search index, which another program has open",
    "objects": "attachments in object storage, which cannot be reached; set --blobs or CLEW_BLOBS",
    "rows": "all traces, because the purge was interrupted",
    "mirrors": "files in mirrors, because the list of mirrors is damaged",
    "traces": "traces in the store's files until they are overwritten; any 'clew purge' clears them",
}
NAMED = 10
"""Conversations that are named before and after a purge."""
_SERVERS = "free pages, write-ahead log, replicas and backups of the server may still contain traces"
_INTERRUPTED = "Interrupted. 'clew receipts' lists what was purged; everything else is unchanged."


@click.command(
    epilog=examples(
        "clew purge k3m9qa q8r2vt",
        "clew purge --trash --before 30d --dry-run",
        "clew purge --all --yes --reason workspace-reset",
        "clew purge --label user:42 --dry-run",
        "clew purge --forget-mirror /mnt/usb/sessions",
        more="REASON is one of:\n"
        "  user-requested, retention-expired, privacy-policy-change, workspace-reset,\n"
        "  corruption-detected, session-timeout, policy-update, error-recovery",
    ),
)
@click.argument("sessions", nargs=-1, metavar="[CONVERSATION...]")
@click.option("--trash", is_flag=True, help="Purge everything in the trash.")
@click.option("--all", "everything", is_flag=True, help="Purge all conversations, in the trash or not.")
@click.option(
    "--label",
    metavar="LABEL",
    help="Purge all conversations with this label, and what agent frameworks keep under it, such as a user's state.",
)
@click.option(
    "--before", callback=parse_since, metavar="TIME",
    help="Only those deleted (--trash) or last active (--all) before this date or age (2d, 3h, 15m).",
)  # fmt: skip
@click.option(
    "--reason", type=click.Choice(get_args(Reason)), default="user-requested", show_default=True, metavar="REASON",
    help="The reason to record in the receipt.",
)  # fmt: skip
@click.option(
    "--forget-mirror", type=click.Path(), metavar="PATH",
    help="Purge nothing; stop waiting for a mirror folder that no longer exists. Does not remove its files.",
)  # fmt: skip
@dry_run_option
@yes_option
@json_options
@store_option
@click.pass_context
def purge(
    ctx: click.Context,
    sessions: tuple[str, ...],
    trash: bool,
    everything: bool,
    label: str | None,
    before: datetime | None,
    reason: Reason,
    forget_mirror: str | None,
    dry_run: bool,
    yes: bool,
    form: Form,
) -> None:
    """Delete each CONVERSATION permanently: messages, attachments, keys, and all traces in the files.

    This cannot be undone. Messages shared with a fork are kept, and so are conversations on hold. Prints a receipt
    without any text of them, and stores it. Exit code 8 if some could not be purged, or if cleanup is pending.
    Conversations that are already purged are skipped: repeat the command after an interruption, or to finish pending
    cleanup. Files that conversations were imported from do not change; those that still exist are listed.
    """
    if forget_mirror is not None:
        if sessions or trash or everything or label is not None or before is not None or dry_run:
            raise click.UsageError("--forget-mirror cannot be combined with conversations or other options")
        _forget(os.path.abspath(forget_mirror), form)
        return
    _check_choice(bool(sessions) + (label is not None), trash + everything, before)
    if not dry_run and not yes and not can_ask():
        raise click.UsageError("a purge cannot be undone; use --yes to confirm, or --dry-run to preview")
    with open_existing() as store:
        names, gone = _split_purged(store, sessions) if sessions else (None, set[str]())

        def run(dry_run: bool) -> Receipt:
            chosen: Any = {"trashed": trash, "everything": everything, "label": label, "before": before}
            return store.sessions.purge(names, **chosen, reason=reason, dry_run=dry_run)

        would = run(dry_run=True)
        going = [describe_session(store, one) for one in would.sessions[:NAMED]]
        files = original_files(store, would.sessions)
        if would.sessions and not dry_run and not yes and not _confirm(would, going, files):
            ctx.exit(say("nothing was purged", "", FAILED))
        try:
            receipt = run(dry_run=dry_run)
        except KeyboardInterrupt:
            warn(_INTERRUPTED)
            raise
        if gone and not dry_run:
            receipt = _with_earlier(store, receipt, gone)
        stays = list(dict.fromkeys(path for one in receipt.sessions for path in files.get(one, ())))
        if form == "text":
            out_lines([*_receipt_lines(receipt, dry_run, going), *original_lines(stays)])
        else:
            out_value({**_json(receipt), "originals": stays}, form)
        for failure in receipt.failures:
            say(failure.error, "", FAILED)
    ctx.exit(_code(receipt))


def _check_choice(named: int, all_of: int, before: datetime | None) -> None:
    """UsageError unless there is one choice: named by conversations or a label, or all that are in some place."""
    if named + all_of != 1:
        raise click.UsageError("name conversations, or use --trash, --all or --label")
    if before is not None and not all_of:
        raise click.UsageError("--before requires --trash or --all")


def _confirm(would: Receipt, going: list[str], files: dict[str, tuple[str, ...]]) -> bool:
    """Names what would go, and what stays, and asks."""
    warn(f"This deletes {_counts(would)}. It cannot be undone.")
    stays = dict.fromkeys(path for paths in files.values() for path in paths)
    for one in (*_going_lines(going, len(would.sessions)), *original_lines([*stays])):
        warn(one)
    return confirm("Purge?")


def original_files(store: clew.Store, sessions: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """For each session the files that it was imported from, if they still exist."""
    from clew.sources.imported_files import originals

    return originals(store, sessions)


def original_lines(files: list[str]) -> Iterator[str]:
    """The files of other tools that still have what is deleted here."""
    if not files:
        return
    verb, them = ("has", "it") if len(files) == 1 else ("have", "them")
    yield from wrap(f"  {many(len(files), 'file')} of other tools still {verb} the text; clew does not change {them}:")
    for path in files[:NAMED]:
        yield f"    {plain(home_short(path))}"
    if len(files) > NAMED:
        yield f"    … and {many(len(files) - NAMED, 'more file')}"


def _going_lines(going: list[str], total: int) -> Iterator[str]:
    yield from (f"  {one}" for one in going)
    if going and total > len(going):
        yield f"  … and {many(total - len(going), 'more conversation')}"


def _forget(root: str, form: Form) -> None:
    from clew.agents import forget_mirror

    with open_existing() as store:
        pending = forget_mirror(store, root)
    if form != "text":
        out_value({"mirror": root, "pending": pending}, form)
        return
    left = "; files of deleted conversations remain there" if pending else ""
    out_lines(wrap(f"mirror {plain(root)} removed from the list{left}"))


@click.command(epilog=examples("clew receipts", "clew receipts --json | jq '.items[].sessions'"))
@json_options
@store_option
def receipts(form: Form) -> None:
    """List the receipts of all purges, oldest first: time, reason, amounts, and pending cleanup."""
    with open_for_reading() as store:
        found = store.sessions.receipts()
    if form != "text":
        out_values(map(_json, found), form)
    elif found:
        out_lines(_table(found))
    else:
        warn("No purges yet.")


def _split_purged(store: clew.Store, names: tuple[str, ...]) -> tuple[list[str], set[str]]:
    """The names that are not purged yet, and the IDs of those that are: a purge can be repeated."""
    kept, gone, purged = list[str](), set[str](), None
    for name in names:
        try:
            store.sessions.find_anywhere(name)
        except clew.NotFound:
            if purged is None:
                purged = [ids.parse(id) for receipt in store.sessions.receipts() for id in receipt.sessions]
            id, span = ids.maybe(name), ids.span(name)
            found = {one for one in purged if one == id or (span is not None and span[0] <= one <= span[1])}
            if found:
                warn(f"{plain(name)} is already purged")
                gone.update(map(ids.text, found))
                continue
            kept.append(find_session(store, name).id)
            continue
        kept.append(name)
    return kept, gone


def _with_earlier(store: clew.Store, receipt: Receipt, gone: set[str]) -> Receipt:
    """Retries pending cleanup of sessions purged before, and adds what remains to the receipt."""
    store.clear_traces()
    earlier = [what for one in store.sessions.receipts() if gone.intersection(one.sessions) for what in one.pending]
    pending = tuple(dict.fromkeys((*receipt.pending, *earlier)))
    return receipt._replace(pending=pending, finished_at=None if pending else receipt.finished_at)


def _code(receipt: Receipt) -> int:
    if receipt.failures and not receipt.sessions:
        return FAILED
    return PARTIAL if receipt.failures or receipt.pending else 0


def _receipt_lines(receipt: Receipt, dry_run: bool, going: list[str]) -> Iterator[str]:
    """The receipt as text; `going` names the first conversations."""
    if not receipt.sessions:
        yield "nothing would be purged" if dry_run else "nothing was purged"
        if receipt.pending:
            yield from (f"  {line}" for line in _ending(receipt))
        return
    yield f"{'would purge' if dry_run else 'purged'} {_counts(receipt)}"
    yield from _going_lines(going, len(receipt.sessions))
    for line in _kept_lines(receipt):
        yield from wrap(f"  {line}")
    if dry_run:
        return
    yield from (f"  {line}" for line in _ending(receipt))
    yield dim(f"  receipt {receipt.id}")


def _ending(receipt: Receipt) -> Iterator[str]:
    if receipt.outside:
        yield from wrap("a bucket with versioning or replication may still contain the attachments")
    if not receipt.pending:
        yield from wrap(_SERVERS if "pages" in receipt.beyond else "all traces in the files are cleared")
        return
    for what in receipt.pending:
        yield from wrap(f"{style('pending', '1;33')}: {_describe_pending(what)}")
    if all(what.startswith(PENDING) for what in receipt.pending):
        yield from wrap("the next purge, or the next program that opens the mirror, removes them")
        gone = [plain(what.removeprefix(PENDING)) for what in receipt.pending]
        yield from (f"if it no longer exists: clew purge --forget-mirror {shlex.quote(root)}" for root in gone)
        return
    yield from wrap("the next program that opens or writes the store finishes this; check with: clew receipts")


def remaining_lines(receipt: Receipt) -> Iterator[str]:
    """What a deletion did not remove, one line each, for stderr."""
    for failure in receipt.failures:
        yield f"clew: conversation {failure.session}: {plain(failure.error)}"
    yield from _kept_lines(receipt)
    for what in receipt.pending:
        yield f"left: {_describe_pending(what)}"


def _kept_lines(receipt: Receipt) -> Iterator[str]:
    for kept in receipt.kept:
        others = ", ".join(kept.needed_by) or "other messages"
        yield f"kept {many(kept.messages, 'message')} of {kept.session}: needed by {others}"


def _describe_pending(what: str) -> str:
    """A pending cleanup in words."""
    if what.startswith(PENDING):
        return f"files in the mirror {plain(what.removeprefix(PENDING))}, which cannot be reached"
    return _LEFT.get(what, plain(what))


def _table(found: Iterable[Receipt]) -> Iterator[str]:
    for receipt in found:
        started = local(receipt.started_at)
        yield f"{started}  {plain(receipt.reason)}  {_counts(receipt)}"
        for failure in receipt.failures:
            word = "left" if failure.session in receipt.sessions else "not purged"
            yield from (dim(f"  {line}") for line in wrap(f"{word}: {plain(failure.error)}"))
        if receipt.pending:
            yield from (f"  {line}" for line in _ending(receipt))


def _counts(receipt: Receipt) -> str:
    if receipt.redacted:
        parts = [f"old version of {many(receipt.messages, 'message')}", many(len(receipt.redacted), "conversation")]
    else:
        parts = [many(len(receipt.sessions), "conversation"), many(receipt.messages, "message")]
    if receipt.blobs:
        parts.append(many(receipt.blobs, "attachment"))
    if receipt.outside:
        parts.append(f"{size(receipt.outside)} in object storage")
    return f"{', '.join(parts)}, {size(receipt.bytes)}"


def _json(receipt: Receipt) -> dict[str, Any]:
    return {
        **receipt._asdict(),
        "started_at": iso(receipt.started_at),
        "finished_at": None if receipt.finished_at is None else iso(receipt.finished_at),
        "failures": [failure._asdict() for failure in receipt.failures],
        "kept": [kept._asdict() for kept in receipt.kept],
    }
