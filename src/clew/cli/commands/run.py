"""`clew run`: one question by a subagent, stored in a session of its own."""

from __future__ import annotations

import os
import re
import secrets

import click

import clew
from clew.cli.commands.chat import answer_once, attach_option, insecure_option, read_prompt
from clew.cli.options import examples
from clew.cli.output.json import Form, json_options
from clew.cli.output.text import note
from clew.cli.setup.find import find_session
from clew.cli.setup.open_store import open_or_create, store_option

_NAME = re.compile(r"[\w.-]{1,64}")


@click.command(
    epilog=examples(
        'git diff | clew run --as code-review "Anything wrong?"',
        'clew run --as explorer --parent k3m9qa "Where is the config?"',
        "clew tree k3m9qa",
    ),
)
@click.argument("prompt", nargs=-1)
@click.option("--as", "name", required=True, metavar="NAME", help="Name of the subagent.")
@click.option("--run", "run_id", metavar="RUN", help="ID of this run.  [default: a new one]")
@click.option("--parent", metavar="CONVERSATION", help="The calling conversation.  [default: CLEW_PARENT]")
@click.option("-m", "--model", metavar="MODEL", help="The model; see 'clew chat --help'.")
@click.option("-s", "--system", metavar="TEXT", help="System prompt.")
@attach_option
@insecure_option
@json_options
@store_option
@click.pass_context
def run(
    ctx: click.Context,
    prompt: tuple[str, ...],
    name: str,
    run_id: str | None,
    parent: str | None,
    model: str | None,
    system: str | None,
    attach: tuple[str, ...],
    allow_insecure: bool,
    form: Form,
) -> None:
    """Send PROMPT, or the text from a pipe, to a model as a subagent, and print the answer.

    The subagent gets its own conversation, with the label subagent:NAME:RUN on every message. 'clew tree' shows it
    under its parent, it is deleted with its parent, and 'clew chat' never resumes it.
    """
    from clew.cli.chat import models
    from clew.cli.chat.conversation import ChatSession
    from clew.cli.chat.interrupts import Interrupts

    run_id = run_id or secrets.token_hex(4)
    for what, value in (("NAME", name), ("RUN", run_id)):
        if _NAME.fullmatch(value) is None:
            raise click.UsageError(f"{what} must be 1 to 64 letters, digits, '.', '_' or '-'")
    words = read_prompt(" ".join(prompt))
    if not words and not attach:
        raise click.UsageError("no prompt; give a PROMPT, or pipe one in")
    interrupts = Interrupts()
    with open_or_create() as store:
        above = parent or os.environ.get("CLEW_PARENT")
        owner: clew.Session | None = find_session(store, above) if above else None
        label = f"subagent:{name}:{run_id}"
        chat = ChatSession(
            store, models.choose(model), interrupts, system=system, cwd=os.getcwd(), label=label, parent=owner,
            allow_insecure=allow_insecure,
        )  # fmt: skip
        try:
            code = answer_once(chat, interrupts, words, attach, form)
            session = chat.session
            if session is not None:
                note(f"{label}: conversation {session.handle}")
        finally:
            chat.close()
    ctx.exit(code)
