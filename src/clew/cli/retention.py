"""`clew retention preview | sweep | set`: how long sessions are kept, and what goes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

import clew
from clew.cli.exits import FAILED, PARTIAL, show_help
from clew.cli.forms import Form, iso, json_options, out_lines, out_value, out_values, session_json
from clew.cli.moments import local, until
from clew.cli.place import existing, reading, store_option
from clew.cli.purge import left
from clew.cli.text import clip, dim, many, out, out_json, out_jsonl, plain, style, warn
from clew.session_data import LONGEST, MOST_DAYS, SHORTEST

if TYPE_CHECKING:
    from clew.retention import Plan, Policy, Swept

_RANGE = click.IntRange(1, MOST_DAYS)
_days = click.option("--days", type=_RANGE, help="Keep them so long after their last activity.")
_WHY = {"policy": "not active for so long", "own": "by its own retention", "trash": "in the trash for so long"}
_SPARED = {"hold": "is held", "open": "is open", "damage": "is damaged"}


@click.group(
    invoke_without_command=True,
    short_help="Purge what was not used for long: preview, sweep, set.",
    epilog="\b\nExamples:\n  clew retention set --days 30\n  clew retention preview\n  clew retention sweep",
)
@click.pass_context
def retention(ctx: click.Context) -> None:
    """Keeps sessions for so many days after their last activity. What is held or open stays.

    Until 'clew retention set' has stored days, nothing is ever swept; after it, when someone runs a sweep.
    """
    if ctx.invoked_subcommand is None:
        show_help(ctx)


@retention.command(
    short_help="Show what a sweep would purge, and why.",
    epilog="\b\nExamples:\n  clew retention preview\n  clew retention preview --days 7 --json",
)
@_days
@json_options
@store_option
def preview(days: int | None, form: Form) -> None:
    """Shows what a sweep would purge now and why, and what stays and by what. Changes nothing.

    It goes by the days that 'clew retention set' has stored; --days shows what others would mean.
    """
    with reading() as store:
        kept = clew.retention.get_policy(store)
        tried = kept if days is None else _with(kept or clew.retention.Policy(), days=days)
        if tried is None:
            warn("No retention is set: nothing is swept. 'clew retention set --days 30' sets it.")
        plan = clew.retention.preview(store, tried or clew.retention.Policy(None, None))
        _told_plan(store, plan if tried else _nothing(plan), form)


@retention.command(
    short_help="Purge what is due.",
    epilog="\b\nExamples:\n  clew retention sweep\n  clew retention sweep --dry-run\n  clew retention sweep --force",
)
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
@click.option("--force", is_flag=True, help="Go on though it seems too much, or the clock wrong.")
@json_options
@store_option
@click.pass_context
def sweep(ctx: click.Context, dry_run: bool, force: bool, form: Form) -> None:
    """Purges the sessions that were not active for so long, for good, and prints their ids.

    It goes by the days that 'clew retention set' has stored; without them nothing is swept. If it would remove more
    than half of all sessions, or the clock seems wrong, it stops, and nothing is removed. Exit code 8 if only some
    could go.
    """
    with existing() as store:
        if clew.retention.get_policy(store) is None:
            hint = "'clew retention set --days 30' sets it; nothing is swept before."
            raise clew.Invalid("no retention is set", hint=hint)
        if dry_run:
            plan = clew.retention.preview(store)
            if plan.doubts and not force:
                raise clew.Implausible(len(plan.going), plan.total, plan.doubts)
            _told_plan(store, plan, form)
            return
        swept = clew.retention.sweep(store, force=force)
    _told_sweep(swept, form)
    if swept.failures:
        ctx.exit(PARTIAL if swept.sessions else FAILED)


@retention.command(
    "set",
    short_help="Say how long sessions are kept.",
    epilog="\b\nExamples:\n  clew retention set --days 30\n  clew retention set --days 60 --trash-days 14\n"
    "  clew retention set --forever --record-days 30\n"
    "  clew retention set k3m9qa --days 180\n  clew retention set k3m9qa --until 2030-12-31\n"
    "  clew retention set k3m9qa --default",
)
@click.argument("sessions", nargs=-1, metavar="SESSION...")
@_days
@click.option("--trash-days", type=_RANGE, help="Keep what is in the trash so long.")
@click.option(
    "--record-days",
    type=click.IntRange(SHORTEST, LONGEST),
    help="Keep conversation records so long, instead of --days.",
)
@click.option(
    "--forever", is_flag=True, help="Keep sessions without a limit, in the trash too; records have --record-days."
)
@click.option("--until", "end", metavar="TIME", callback=until, help="Keep the named sessions until then.")
@click.option("--default", "default", is_flag=True, help="Let the store's days count again for the named sessions.")
@json_options
@store_option
def set_(
    sessions: tuple[str, ...],
    days: int | None,
    trash_days: int | None,
    record_days: int | None,
    forever: bool,
    end: datetime | None,
    default: bool,
    form: Form,
) -> None:
    """Keeps in the store how many days sessions stay after their last activity; or of each SESSION that is named.

    It takes effect with the next sweep. All SESSIONs are changed, or none.
    """
    if sessions:
        if (
            forever
            or (trash_days, record_days) != (None, None)
            or (days is not None) + (end is not None) + default != 1
        ):
            raise click.UsageError("a session gets one of --days, --until and --default")
        if end is not None and end <= datetime.now(UTC):
            raise click.BadParameter("it must lie ahead", param_hint="--until")
        with existing() as store:
            with store.transaction():
                changed = [store.sessions.retain(typed, days=days, until=end) for typed in dict.fromkeys(sessions)]
            _told_sessions(changed, days, form)
        return
    if end is not None or default or not (forever or days or trash_days or record_days):
        raise click.UsageError(
            "give --days, --trash-days, --record-days or --forever; --until and --default are for named sessions"
        )
    if forever and days is not None:
        raise click.UsageError("--forever is instead of --days: leave out one")
    with existing() as store:
        now = clew.retention.get_policy(store) or clew.retention.Policy()
        if forever:
            now = _with(now, days=None, trash_days=None)
        given = {"days": days, "trash_days": trash_days, "records": record_days}
        policy = _with(now, **{name: value for name, value in given.items() if value is not None})
        clew.retention.set_policy(store, policy)
    _told_policy(policy, form)


def _nothing(plan: Plan) -> Plan:
    """What would go of a store that has no policy."""
    return plan._replace(going=(), spared=(), kept=(), messages=0, blobs=0, bytes=0, failures=(), doubts=())


def _with(policy: Policy, **days: int | None) -> Policy:
    import msgspec

    return msgspec.structs.replace(policy, **days)


def _told_policy(policy: Policy, form: Form) -> None:
    if form == "text":
        kept = "no limit" if policy.days is None else f"{many(policy.days, 'day')} after the last activity"
        trash = (
            "no limit in the trash" if policy.trash_days is None else f"{many(policy.trash_days, 'day')} in the trash"
        )
        records = "" if policy.records is None else f", records {many(policy.records, 'day')}"
        out(f"{kept}, {trash}{records}")
        warn("'clew retention preview' shows what that means; 'clew retention sweep' does it")
    else:
        out_value({"days": policy.days, "trash_days": policy.trash_days, "records": policy.records}, form)


def _told_sessions(sessions: list[clew.Session], days: int | None, form: Form) -> None:
    if form != "text":
        out_values(map(session_json, sessions), form)
        return
    for session in sessions:
        out(session.id)
        at = session.expires_at
        how = "as long as the others" if at is None else f"until {local(at)}"
        warn(f"session {session.handle} is kept {how}{'' if days is None else ', and longer if it is talked in'}")


def _told_plan(store: clew.Store, plan: Plan, form: Form) -> None:
    if form == "text":
        out_lines(_lines(store, plan))
        for doubt in plan.doubts:
            warn(f"A sweep would stop and ask: {plain(doubt)}.")
        return
    going = [
        {
            "session": due.session,
            "last_activity": iso(due.last_activity),
            "expires_at": iso(due.expires_at),
            "why": due.why,
        }
        for due in plan.going
    ]
    if form == "jsonl":
        out_jsonl(going)
        return
    out_json(
        {
            "now": iso(plan.now),
            "total": plan.total,
            "going": going,
            "spared": [spared._asdict() for spared in plan.spared],
            "kept": [kept._asdict() for kept in plan.kept],
            "failures": [failure._asdict() for failure in plan.failures],
            "messages": plan.messages,
            "blobs": plan.blobs,
            "bytes": plan.bytes,
            "doubts": plan.doubts,
        }
    )


def _lines(store: clew.Store, plan: Plan) -> Iterator[str]:
    for due in plan.going:
        yield f"{due.session}  {dim(local(due.last_activity))}  {_title(store, due.session)}{_WHY[due.why]}"
    for spared in plan.spared:
        what = "it" if spared.by == spared.session else f"its {plain(spared.by)}"
        yield f"{plain(spared.session)}  {dim(f'stays: {what} {_SPARED[spared.why]}')}"
    for kept in plan.kept:
        forks = ", ".join(kept.needed_by)
        yield dim(f"of {kept.session} stay {kept.messages:,}, shared with {forks or 'what was saved apart'}")
    for failure in plan.failures:
        yield f"{style('cannot go', '1;31')}  {failure.session}: {plain(failure.error)}"
    yield f"{len(plan.going)} of {many(plan.total, 'session')} would go, with {many(plan.messages, 'message')}"


def _title(store: clew.Store, id: str) -> str:
    try:
        title = store.sessions._anywhere(id).title
    except clew.ClewError:
        title = None
    return f"{plain(clip(title, 40))}  " if title else ""


def _told_sweep(swept: Swept, form: Form) -> None:
    failures = [failure._asdict() for failure in swept.failures]
    if form == "json":
        receipt = swept.receipt
        out_json(
            {
                "sessions": swept.sessions,
                "total": swept.total,
                "messages": 0 if receipt is None else receipt.messages,
                "failures": failures,
                "spared": [spared._asdict() for spared in swept.spared],
                "receipt": None if receipt is None else receipt.id,
                "pending": () if receipt is None else receipt.pending,
            }
        )
    elif form == "jsonl":
        out_jsonl({"session": session} for session in swept.sessions)
    else:
        for session in swept.sessions:
            out(session)
        warn(f"{len(swept.sessions)} of {many(swept.total, 'session')} gone")
    for failure in swept.failures:
        warn(f"clew: session {failure.session} stays: {plain(failure.error)}")
    if swept.receipt is not None:
        for line in left(swept.receipt._replace(failures=())):
            warn(line)
