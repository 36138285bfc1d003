"""`clew conversation list | print | delete`: messages by their ids, in a tree, whatever session they are in."""

from __future__ import annotations

import click

import clew
from clew.cli.exits import show_help
from clew.cli.forms import Form, json_options
from clew.cli.outcomes import Done, each, told, undone
from clew.cli.place import existing, reading, store_option
from clew.cli.purge import left
from clew.cli.show import show
from clew.cli.text import plain, warn
from clew.cli.tree import compact_option, draw, everything, here_option, limit_option, of_here
from clew.receipts import Receipt

ALIASES = {"ls": "list", "show": "print", "view": "print", "rm": "delete", "remove": "delete"}


class Aliased(click.Group):
    """A group whose commands have other names, too; help does not list those."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, ALIASES.get(cmd_name, cmd_name))


@click.group(
    cls=Aliased,
    invoke_without_command=True,
    short_help="List, print and delete messages by id.",
    epilog="\b\nExamples:\n  clew conversation list\n  clew convo show 7dq2xe\n  clew conv rm --cascade 7dq2xe\n\n"
    "Other names: convo, conv; of the commands: ls; show, view; rm, remove.",
)
@click.pass_context
def conversation(ctx: click.Context) -> None:
    """Messages by their ids, in a tree, whatever session they are in."""
    if ctx.invoked_subcommand is None:
        show_help(ctx)


@conversation.command(
    "list",
    short_help="Show all messages as a tree.",
    epilog="\b\nExamples:\n  clew conversation list\n  clew conversation list --here --compact",
)
@compact_option
@limit_option
@here_option
@json_options
@store_option
@click.pass_context
def list_(ctx: click.Context, compact: bool, limit: int | None, here: bool, form: Form) -> None:
    """Shows messages as a tree: id, time, role, first words. What was last active comes last."""
    with reading() as store:
        nodes = of_here(store) if here else everything(store)
        ctx.exit(draw(store, nodes, compact=compact, limit=limit, form=form, names={"tool": "tool_result"}))


conversation.add_command(
    click.Command(
        "print",
        callback=show.callback,
        params=show.params,
        help=show.help,
        short_help="Print the talk that led to a message.",
        epilog="\b\nExamples:\n  clew conversation print 7dq2xe\n  clew conversation print 7dq2xe --as markdown",
    )
)


@conversation.command(
    "delete",
    short_help="Delete messages for good.",
    epilog="\b\nExamples:\n  clew conversation delete 7dq2xe\n"
    "  clew conversation delete --cascade --dry-run 7dq2xe x4w8tn",
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--cascade", is_flag=True, help="With everything that follows them.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
@json_options
@store_option
@click.pass_context
def delete(ctx: click.Context, ids: tuple[str, ...], cascade: bool, dry_run: bool, form: Form) -> None:
    """Deletes messages for good, each by itself: one that cannot go does not keep the others from it.

    A message that others follow goes only with --cascade. A session whose last message goes stands at the one before,
    and loses a title that was made of the deleted words. What is left in files is told. One that is not there is no
    failure. Exit code 8 if only some could go; 'clew rm' puts whole sessions in the trash.
    """
    receipts: list[Receipt] = []
    with existing() as store:
        done = each(ids, lambda asked: _delete(store, asked, cascade, dry_run, receipts))
        code = told(undone(store, lambda: list(done)) if dry_run else done, form)
    if not dry_run:
        for line in dict.fromkeys(line for receipt in receipts for line in left(receipt)):
            warn(line)
    ctx.exit(code)


def _delete(store: clew.Store, asked: str, cascade: bool, dry_run: bool, receipts: list[Receipt]) -> Done:
    try:
        receipt = store.nodes.delete(asked, recursive=cascade)
    except clew.ClewError as error:
        if error.hint == "Delete recursively.":
            error.hint = "--cascade deletes what follows it, too."
        error.message = f"{asked}: {error.message}"
        raise
    receipts.append(receipt)
    count = receipt.messages
    if not count:
        _no_session(store, asked)
        line = "there is no such message"
    else:
        more = f" and {count - 1} that followed it" if count > 1 else ""
        line = f"message{more} {'would be' if dry_run else 'is' if count == 1 else 'are'} deleted"
    failures = [failure._asdict() for failure in receipt.failures]
    return Done(f"{plain(asked)}: {line}", "", {"deleted": count, "failures": failures, "pending": receipt.pending})


def _no_session(store: clew.Store, asked: str) -> None:
    """Invalid if what was meant is a session: it would look as if that were gone."""
    try:
        session = store.sessions.get(asked)
    except clew.NotFound:
        return
    raise clew.Invalid(f"{asked} is a session, not a message", hint=f"'clew rm {session.handle}' puts it in the trash.")
