"""`clew retention preview | sweep | set`: how long sessions are kept, and the purge of expired ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

import clew
from clew.base.visible import many, plain
from clew.cli.commands.purge import remaining_lines
from clew.cli.exits import FAILED, PARTIAL
from clew.cli.options import Group, dry_run_option, examples
from clew.cli.output.json import Form, iso, json_options, out_lines, out_value, out_values, session_json
from clew.cli.output.text import clip, dim, out, out_json, out_jsonl, style, warn
from clew.cli.output.times import local, parse_until
from clew.cli.setup.find import find_session
from clew.cli.setup.open_store import open_existing, open_for_reading, store_option
from clew.engine.session_data import LONGEST, MOST_DAYS, SHORTEST

if TYPE_CHECKING:
    from clew.retention import Plan, Policy, SweepReport

_RANGE = click.IntRange(1, MOST_DAYS)
_days = click.option("--days", type=_RANGE, help="Days to keep conversations after their last activity.")
_WHY = {"policy": "inactive too long", "own": "own retention expired", "trash": "in the trash too long"}
_SPARED = {"hold": "is on hold", "open": "is open", "damage": "is damaged"}


@click.group(
    cls=Group, epilog=examples("clew retention set --days 30", "clew retention preview", "clew retention sweep")
)
def retention() -> None:
    """Set how many days conversations are kept after their last activity, and purge expired ones.

    By default, nothing expires. 'clew retention set' sets the days; 'clew retention sweep' purges what has expired.
    Conversations that are open or on hold are kept.
    """


@retention.command(epilog=examples("clew retention preview", "clew retention preview --days 7 --json"))
@_days
@json_options
@store_option
def preview(days: int | None, form: Form) -> None:
    """Show what a sweep would purge and why, and what it would keep. Changes nothing.

    Uses the days from 'clew retention set', or --days.
    """
    with open_for_reading() as store:
        kept = clew.retention.get_policy(store)
        tried = kept if days is None else _with(kept or clew.retention.Policy(), days=days)
        if tried is None:
            warn("No retention is set, so nothing expires. Set it with: clew retention set --days 30")
        plan = clew.retention.preview(store, tried or clew.retention.Policy(None, None))
        _print_plan(store, plan if tried else _empty(plan), form)


@retention.command(
    epilog=examples("clew retention sweep", "clew retention sweep --dry-run", "clew retention sweep --force")
)
@dry_run_option
@click.option("--force", is_flag=True, help="Sweep even if it removes more than half, or the clock seems wrong.")
@json_options
@store_option
@click.pass_context
def sweep(ctx: click.Context, dry_run: bool, force: bool, form: Form) -> None:
    """Purge expired conversations permanently, and print their IDs.

    'clew retention set' defines what expires. The sweep stops without removing anything if it would remove more than
    half of all conversations, or if the clock seems wrong. Exit code 8 if only some could be purged.
    """
    with open_existing() as store:
        if clew.retention.get_policy(store) is None:
            hint = "Set it with: clew retention set --days 30"
            raise clew.Invalid("no retention is set", hint=hint)
        if dry_run:
            plan = clew.retention.preview(store)
            if plan.doubts and not force:
                raise clew.SweepRefused(len(plan.going), plan.total, plan.doubts)
            _print_plan(store, plan, form)
            return
        swept = clew.retention.sweep(store, force=force)
    _print_sweep(swept, form)
    if swept.failures:
        ctx.exit(PARTIAL if swept.sessions else FAILED)


@retention.command(
    "set",
    epilog=examples(
        "clew retention set --days 30",
        "clew retention set --days 60 --trash-days 14",
        "clew retention set --forever --record-days 30",
        "clew retention set k3m9qa --days 180",
        "clew retention set k3m9qa --until 2030-12-31",
        "clew retention set k3m9qa --default",
    ),
)
@click.argument("sessions", nargs=-1, metavar="[CONVERSATION...]")
@_days
@click.option("--trash-days", type=_RANGE, help="Days to keep conversations in the trash.")
@click.option(
    "--record-days", type=click.IntRange(SHORTEST, LONGEST), help="Days to keep records of 'clew.records' instead."
)
@click.option("--forever", is_flag=True, help="Keep conversations without limit, in the trash too.")
@click.option("--until", "end", metavar="TIME", callback=parse_until, help="Keep each CONVERSATION until this time.")
@click.option("--default", "default", is_flag=True, help="Use the store's days again for each CONVERSATION.")
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
    """Set how many days conversations are kept after their last activity: all, or each CONVERSATION named.

    Takes effect with the next sweep. Either all named conversations are changed or none.
    """
    if sessions:
        if (
            forever
            or (trash_days, record_days) != (None, None)
            or (days is not None) + (end is not None) + default != 1
        ):
            raise click.UsageError("for a conversation, use exactly one of --days, --until and --default")
        if end is not None and end <= datetime.now(UTC):
            raise click.BadParameter("the time must be in the future", param_hint="--until")
        with open_existing() as store:
            with store.transaction():
                changed = [find_session(store, typed).retain(days=days, until=end) for typed in dict.fromkeys(sessions)]
            _print_sessions(changed, days, form)
        return
    if end is not None or default or not (forever or days or trash_days or record_days):
        raise click.UsageError(
            "use --days, --trash-days, --record-days or --forever; --until and --default need a CONVERSATION"
        )
    if forever and days is not None:
        raise click.UsageError("--forever and --days cannot be used together")
    with open_existing() as store:
        now = clew.retention.get_policy(store) or clew.retention.Policy()
        if forever:
            now = _with(now, days=None, trash_days=None)
        given = {"days": days, "trash_days": trash_days, "records": record_days}
        policy = _with(now, **{name: value for name, value in given.items() if value is not None})
        clew.retention.set_policy(store, policy)
    _print_policy(policy, form)


def _empty(plan: Plan) -> Plan:
    """The plan of a store without a policy."""
    return plan._replace(going=(), spared=(), kept=(), messages=0, blobs=0, bytes=0, failures=(), doubts=())


def _with(policy: Policy, **days: int | None) -> Policy:
    import msgspec

    return msgspec.structs.replace(policy, **days)


def _print_policy(policy: Policy, form: Form) -> None:
    if form == "text":
        kept = "no limit" if policy.days is None else f"{many(policy.days, 'day')} after the last activity"
        trash = "no limit" if policy.trash_days is None else many(policy.trash_days, "day")
        records = "" if policy.records is None else f", records {many(policy.records, 'day')}"
        out(f"{kept}, {trash} in the trash{records}")
        warn("Preview with 'clew retention preview'; apply with 'clew retention sweep'.")
    else:
        out_value({"days": policy.days, "trash_days": policy.trash_days, "records": policy.records}, form)


def _print_sessions(sessions: list[clew.Session], days: int | None, form: Form) -> None:
    if form != "text":
        out_values(map(session_json, sessions), form)
        return
    for session in sessions:
        out(session.id)
        at = session.expires_at
        how = "as long as the others" if at is None else f"until {local(at)}"
        warn(f"conversation {session.handle} is kept {how}{'' if days is None else ', or longer if it is continued'}")


def _print_plan(store: clew.Store, plan: Plan, form: Form) -> None:
    if form == "text":
        out_lines(_lines(store, plan))
        for doubt in plan.doubts:
            warn(f"A sweep would stop and require --force: {plain(doubt)}.")
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
        yield f"{plain(spared.session)}  {dim(f'kept: {what} {_SPARED[spared.why]}')}"
    for kept in plan.kept:
        forks = ", ".join(kept.needed_by)
        yield dim(f"kept {many(kept.messages, 'message')} of {kept.session}: shared with {forks or 'other messages'}")
    for failure in plan.failures:
        yield f"{style('cannot purge', '1;31')}  {failure.session}: {plain(failure.error)}"
    yield f"would purge {len(plan.going)} of {many(plan.total, 'conversation')}, with {many(plan.messages, 'message')}"


def _title(store: clew.Store, id: str) -> str:
    try:
        title = store.sessions.find_anywhere(id).title
    except clew.ClewError:
        title = None
    return f"{plain(clip(title, 40))}  " if title else ""


def _print_sweep(swept: SweepReport, form: Form) -> None:
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
        warn(f"purged {len(swept.sessions)} of {many(swept.total, 'conversation')}")
    for failure in swept.failures:
        warn(f"clew: conversation {failure.session} was not purged: {plain(failure.error)}")
    if swept.receipt is not None:
        for line in remaining_lines(swept.receipt._replace(failures=())):
            warn(line)
