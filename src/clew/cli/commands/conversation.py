"""`clew conversation list | print | delete`: messages by their IDs, in any session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

import clew
from clew.base.visible import many, plain
from clew.cli.commands.ls import mention_cpe
from clew.cli.commands.purge import remaining_lines
from clew.cli.commands.show import show
from clew.cli.commands.tree import draw, everything, here_option, limit_option, of_here
from clew.cli.options import Group, dry_run_option, examples
from clew.cli.output.json import Form, json_options
from clew.cli.output.outcomes import Success, for_each, report_outcomes, roll_back
from clew.cli.output.text import warn
from clew.cli.setup.find import find_message
from clew.cli.setup.open_store import cpe_file, open_existing, open_for_reading, store_option
from clew.engine.receipts import Receipt

if TYPE_CHECKING:
    from clew.agents.cpe import CpeFile

ALIASES = {"ls": "list", "show": "print", "view": "print", "rm": "delete", "remove": "delete"}


@click.group(
    cls=Group,
    aliases=ALIASES,
    epilog=examples(
        "clew conversation list",
        "clew convo show 7dq2xe",
        "clew conv rm --cascade 7dq2xe",
        more="Other names: convo, conv.\nCommands: list (ls), print (show, view), delete (rm, remove).",
    ),
)
def conversation() -> None:
    """List, print and delete single messages by their IDs. 'clew rm' and 'clew purge' delete whole conversations."""


@conversation.command("list", epilog=examples("clew conversation list", "clew conversation list --here --compact"))
@click.option("--compact", is_flag=True, help="Indent only at forks.")
@limit_option
@here_option
@json_options
@store_option
@click.pass_context
def list_(ctx: click.Context, compact: bool, limit: int | None, here: bool, form: Form) -> None:
    """List all messages as a tree: ID, time, role, first words. The most recently active come last."""
    with open_for_reading() as store:
        nodes = of_here(store) if here else everything(store)
        code = draw(store, nodes, compact=compact, limit=limit, form=form, names={"tool": "tool_result"})
        if form == "text":
            mention_cpe(store)
        ctx.exit(code)


@click.pass_context
def _print(ctx: click.Context, /, **given: Any) -> None:
    if not (given["as_json"] or given["as_jsonl"]) and ctx.get_parameter_source("kind") is ParameterSource.DEFAULT:
        given["kind"] = "markdown"
    ctx.invoke(show, **given)


def _of_print(param: click.Parameter) -> click.Parameter:
    if param.name == "kind":
        param = copy(param)
        assert isinstance(param, click.Option)
        param.help = (param.help or "").replace("[default: text]", "[default: markdown]")
    return param


conversation.add_command(
    click.Command(
        "print",
        callback=_print,
        params=[_of_print(param) for param in show.params],
        help=show.help,
        epilog=examples("clew conversation print 7dq2xe", "clew conversation print 7dq2xe --as text"),
    )
)


@conversation.command(
    "delete",
    epilog=examples("clew conversation delete m2p5vz", "clew conversation delete --cascade --dry-run 7dq2xe"),
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--cascade", is_flag=True, help="Also delete all messages that follow.")
@dry_run_option
@json_options
@store_option
@click.pass_context
def delete(ctx: click.Context, ids: tuple[str, ...], cascade: bool, dry_run: bool, form: Form) -> None:
    """Delete messages permanently. To delete whole conversations, use 'clew rm'.

    A message with later messages needs --cascade. If the last message of a conversation is deleted, the one before
    becomes the last; a title made from deleted words is removed. Prints what remains in files. Exit code 3 for an
    unknown ID, 8 if only some messages were deleted.
    """
    receipts: list[Receipt] = []
    if (file := cpe_file()) is not None:
        ctx.exit(report_outcomes(for_each(ids, lambda asked: _delete_from(file, asked, cascade, dry_run)), form))
    with open_existing() as store:
        done = for_each(ids, lambda asked: _delete(store, asked, cascade, dry_run, receipts))
        code = report_outcomes(roll_back(store, lambda: list(done)) if dry_run else done, form)
    if not dry_run:
        for line in dict.fromkeys(line for receipt in receipts for line in remaining_lines(receipt)):
            warn(line)
    ctx.exit(code)


def _delete(store: clew.Store, asked: str, cascade: bool, dry_run: bool, receipts: list[Receipt]) -> Success:
    try:
        id = find_message(store, asked).id
    except clew.NotFound:
        _refuse_session(store, asked)
        raise
    with _explained(asked):
        receipt = store.nodes.delete(id, recursive=cascade)
    receipts.append(receipt)
    failures = [failure._asdict() for failure in receipt.failures]
    return _success(asked, receipt.messages, dry_run, {"failures": failures, "pending": receipt.pending})


def _delete_from(file: CpeFile, asked: str, cascade: bool, dry_run: bool) -> Success:
    with _explained(asked):
        deleted = file.delete(asked, recursive=cascade, dry_run=dry_run)
    if not deleted:
        raise clew.NotFound("message", asked, hint=f"'clew --db {plain(file.path)} conversation list' lists messages.")
    return _success(asked, deleted, dry_run, {})


@contextmanager
def _explained(asked: str) -> Iterator[None]:
    try:
        yield
    except clew.ClewError as error:
        if error.hint == "Delete recursively.":
            error.hint = "Use --cascade to delete the messages that follow, too."
        error.message = f"{asked}: {error.message}"
        raise


def _success(asked: str, count: int, dry_run: bool, json: dict[str, Any]) -> Success:
    more = f" and {many(count - 1, 'later message')}" if count > 1 else ""
    line = f"message{more} {'would be deleted' if dry_run else 'deleted'}"
    return Success(f"{plain(asked)}: {line}", "", {"deleted": count, **json})


def _refuse_session(store: clew.Store, asked: str) -> None:
    """Invalid if the ID is that of a session."""
    try:
        session = store.sessions.get(asked)
    except clew.NotFound:
        return
    hint = f"Move it to the trash with: clew rm {session.handle}"
    raise clew.Invalid(f"{asked} is a conversation, not a message", hint=hint)
