"""`clew purge | receipts`: sessions go for good, and what went is written down."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, get_args

import click

import clew
from clew import ids
from clew.cli import moments
from clew.cli.ask import agrees, can_ask
from clew.cli.exits import FAILED, PARTIAL, say
from clew.cli.forms import Form, iso, json_options, out_lines, out_value, out_values
from clew.cli.moments import local
from clew.cli.place import existing, reading, store_option
from clew.cli.text import dim, fitted, many, plain, style, warn
from clew.mirrors import PENDING
from clew.receipts import Reason, Receipt

_LEFT = {
    "wal": "the write-ahead log, which another program that has the store open keeps from being emptied",
    "file": "free places in the file",
    "search": "the search index, which another program has open",
    "objects": "attachments in object storage, which cannot be reached: --blobs or CLEW_BLOBS says where they are",
    "rows": "every trace: it was cut short",
    "mirrors": "files of mirrors: the store's list of them is damaged",
    "traces": "traces in the store's files, until they are overwritten; 'clew purge' clears them, whatever it purges",
}
_SERVERS = "the server's free pages, its write-ahead log, replicas and backups may still have traces"
_CUT_SHORT = "Cut short. 'clew receipts' says what has gone; the rest is as it was."


@click.command(
    short_help="Delete sessions for good, with every trace.",
    epilog="\b\nExamples:\n  clew purge k3m9qa q8r2vt\n  clew purge --trash --before 30d --dry-run\n"
    "  clew purge --all --yes --reason workspace-reset\n"
    "  clew purge --forget-mirror /mnt/usb/sessions\n\n\b\n"
    "A REASON is one of\n"
    "  user-requested, retention-expired, privacy-policy-change, workspace-reset,\n"
    "  corruption-detected, session-timeout, policy-update, error-recovery",
)
@click.argument("sessions", nargs=-1, metavar="[SESSION...]")
@click.option("--trash", is_flag=True, help="All that are in the trash.")
@click.option("--all", "everything", is_flag=True, help="All sessions, in the trash or not.")
@click.option(
    "--before", callback=moments.since, metavar="WHEN",
    help="Of these only those last active, or put in the trash, before then: a date, or 2d, 3h, 15m ago.",
)  # fmt: skip
@click.option(
    "--reason", type=click.Choice(get_args(Reason)), default="user-requested", show_default=True, metavar="REASON",
    help="Why; it is kept in the receipt.",
)  # fmt: skip
@click.option(
    "--forget-mirror", type=click.Path(), metavar="PATH",
    help="Purge nothing; stop waiting for a mirror folder that no longer exists. Files there are not removed.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_options
@store_option
@click.pass_context
def purge(
    ctx: click.Context,
    sessions: tuple[str, ...],
    trash: bool,
    everything: bool,
    before: datetime | None,
    reason: Reason,
    forget_mirror: str | None,
    dry_run: bool,
    yes: bool,
    form: Form,
) -> None:
    """Deletes each SESSION for good, in the trash or not: messages, attachments, keys, and every trace in the files.

    Nothing brings it back. What a fork shares stays with the fork, and what is held stays. Prints the receipt, which is
    kept in the store and has no content. Exit code 8 if some could not go, or if something is still to be cleared.
    Sessions that were purged before are passed over, so the same command can be repeated after it was cut short, or to
    clear what is pending.
    """
    if forget_mirror is not None:
        if sessions or trash or everything or before is not None or dry_run:
            raise click.UsageError("--forget-mirror purges nothing: give it alone")
        _forget(os.path.abspath(forget_mirror), form)
        return
    if bool(sessions) + trash + everything != 1:
        raise click.UsageError("name sessions, or give --trash, or --all")
    if sessions and before is not None:
        raise click.UsageError("--before chooses among --trash or --all: leave it out")
    if not dry_run and not yes and not can_ask():
        raise click.UsageError("purging is final: --dry-run says what would go, --yes does it")
    with existing() as store:
        names, gone = _still_there(store, sessions) if sessions else (None, set[str]())

        def run(dry_run: bool) -> Receipt:
            return store.sessions.purge(
                names, trashed=trash, everything=everything, before=before, reason=reason, dry_run=dry_run
            )

        if not dry_run and not yes:
            would = run(dry_run=True)
            if would.sessions:
                warn(f"This deletes {_counted(would)}, and nothing brings it back.")
                if not agrees("Purge?"):
                    ctx.exit(say("nothing was purged", "", FAILED))
        try:
            receipt = run(dry_run=dry_run)
        except KeyboardInterrupt:
            warn(_CUT_SHORT)
            raise
        if gone and not dry_run:
            receipt = _with_earlier(store, receipt, gone)
        if form == "text":
            out_lines(_told(receipt, dry_run))
        else:
            out_value(_json(receipt), form)
        for failure in receipt.failures:
            say(failure.error, "", FAILED)
    ctx.exit(_code(receipt))


def _forget(root: str, form: Form) -> None:
    from clew.agents import forget_mirror

    with existing() as store:
        pending = forget_mirror(store, root)
    if form != "text":
        out_value({"mirror": root, "pending": pending}, form)
        return
    left = ": files of deleted sessions were still to be removed there" if pending else ""
    out_lines(fitted(f"forgot the mirror {plain(root)}{left}"))


@click.command(
    short_help="List what was purged, and when.",
    epilog="\b\nExamples:\n  clew receipts\n  clew receipts --json | jq '.[].sessions'",
)
@json_options
@store_option
def receipts(form: Form) -> None:
    """Lists the receipts of all purges, oldest first: when, why, how much, and what is still to be cleared."""
    with reading() as store:
        found = store.sessions.receipts()
    if form != "text":
        out_values(map(_json, found), form)
    elif found:
        out_lines(_table(found))
    else:
        warn("Nothing was purged.")


def _still_there(store: clew.Store, names: tuple[str, ...]) -> tuple[list[str], set[str]]:
    """The names without those that were purged already, and the ids of these: a purge can be repeated as it was."""
    kept, gone, purged = list[str](), set[str](), None
    for name in names:
        try:
            store.sessions._anywhere(name)
        except clew.NotFound:
            if purged is None:
                purged = [ids.parse(id) for receipt in store.sessions.receipts() for id in receipt.sessions]
            id, span = ids.maybe(name), ids.span(name)
            found = {one for one in purged if one == id or (span is not None and span[0] <= one <= span[1])}
            if found:
                warn(f"{plain(name)} was purged already")
                gone.update(map(ids.text, found))
                continue
        kept.append(name)
    return kept, gone


def _with_earlier(store: clew.Store, receipt: Receipt, gone: set[str]) -> Receipt:
    """The receipt, with what is still pending of sessions that were purged before. That is tried again first."""
    store._finish()
    earlier = [what for one in store.sessions.receipts() if gone.intersection(one.sessions) for what in one.pending]
    pending = tuple(dict.fromkeys((*receipt.pending, *earlier)))
    return receipt._replace(pending=pending, finished_at=None if pending else receipt.finished_at)


def _code(receipt: Receipt) -> int:
    if receipt.failures and not receipt.sessions:
        return FAILED
    return PARTIAL if receipt.failures or receipt.pending else 0


def _told(receipt: Receipt, dry_run: bool) -> Iterator[str]:
    """The receipt in words."""
    if not receipt.sessions:
        yield "nothing would be purged" if dry_run else "nothing was purged"
        if receipt.pending:
            yield from (f"  {line}" for line in _ending(receipt))
        return
    yield f"{'would purge' if dry_run else 'purged'} {_counted(receipt)}"
    for kept in receipt.kept:
        others = ", ".join(kept.needed_by) or "other messages"
        yield from fitted(f"  kept {many(kept.messages, 'message')} of {kept.session}: needed by {others}")
    if dry_run:
        return
    yield from (f"  {line}" for line in _ending(receipt))
    yield dim(f"  receipt {receipt.id}")


def _ending(receipt: Receipt) -> Iterator[str]:
    if receipt.outside:
        yield from fitted("a bucket that keeps versions, or is copied elsewhere, may still have the attachments")
    if not receipt.pending:
        yield from fitted(_SERVERS if "pages" in receipt.beyond else "every trace in the files is cleared")
        return
    for what in receipt.pending:
        yield from fitted(f"{style('pending', '1;33')}: {_named(what)}")
    if all(what.startswith(PENDING) for what in receipt.pending):
        yield from fitted("the next purge, or the next program that opens the mirror, removes them")
        gone = [plain(what.removeprefix(PENDING)) for what in receipt.pending]
        yield from (f"if it is gone for good: clew purge --forget-mirror {shlex.quote(root)}" for root in gone)
        return
    yield from fitted("whoever writes to the store or opens it next finishes this; 'clew receipts' tells")


def left(receipt: Receipt) -> Iterator[str]:
    """What a deletion did not reach, a line each: for stderr."""
    for failure in receipt.failures:
        yield f"clew: session {failure.session}: {plain(failure.error)}"
    for kept in receipt.kept:
        others = ", ".join(kept.needed_by) or "other messages"
        yield f"kept {many(kept.messages, 'message')} of {kept.session}: needed by {others}"
    for what in receipt.pending:
        yield f"left: {_named(what)}"


def _named(what: str) -> str:
    """A thing that is still to be cleared, in words."""
    if what.startswith(PENDING):
        return f"files of the mirror {plain(what.removeprefix(PENDING))}, which cannot be reached from here"
    return _LEFT.get(what, plain(what))


def _table(found: Iterable[Receipt]) -> Iterator[str]:
    for receipt in found:
        started = local(receipt.started_at)
        yield f"{started}  {plain(receipt.reason)}  {_counted(receipt)}"
        for failure in receipt.failures:
            word = "left" if failure.session in receipt.sessions else "not purged"
            yield from (dim(f"  {line}") for line in fitted(f"{word}: {plain(failure.error)}"))
        if receipt.pending:
            yield from (f"  {line}" for line in _ending(receipt))


def _counted(receipt: Receipt) -> str:
    parts = [many(len(receipt.sessions), "session"), many(receipt.messages, "message")]
    if receipt.blobs:
        parts.append(many(receipt.blobs, "attachment"))
    if receipt.outside:
        parts.append(f"{many(receipt.outside, 'byte')} in object storage")
    return f"{', '.join(parts)}, {many(receipt.bytes, 'byte')}"


def _json(receipt: Receipt) -> dict[str, Any]:
    return {
        **receipt._asdict(),
        "started_at": iso(receipt.started_at),
        "finished_at": None if receipt.finished_at is None else iso(receipt.finished_at),
        "failures": [failure._asdict() for failure in receipt.failures],
        "kept": [kept._asdict() for kept in receipt.kept],
    }
