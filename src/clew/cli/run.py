"""`clew run`: one question by a subagent, whose trace is kept apart from the talks of people."""

from __future__ import annotations

import os
import re
import secrets

import click

import clew
from clew.cli.chat import answer_once, insecure_option, question_words
from clew.cli.forms import Form, json_options
from clew.cli.place import store_option, writing
from clew.cli.text import note

_NAME = re.compile(r"[\w.-]{1,64}")


@click.command(
    short_help="Ask a model as a subagent; the trace is kept apart.",
    epilog='\b\nExamples:\n  git diff | clew run --as code-review "Anything wrong?"\n'
    '  clew run --as explorer --parent k3m9qa "Where is the config?"\n  clew tree k3m9qa',
)
@click.argument("prompt", nargs=-1)
@click.option("--as", "name", required=True, metavar="NAME", help="The name of the subagent.")
@click.option("--run", "run_id", metavar="RUN", help="The id of this run.  [default: a new one]")
@click.option("--parent", metavar="SESSION", help="The session that calls it.  [default: CLEW_PARENT]")
@click.option("-m", "--model", metavar="MODEL", help="Who answers; see 'clew chat --help'.")
@click.option("-s", "--system", metavar="TEXT", help="What the model is told first.")
@click.option("-a", "--attach", multiple=True, type=click.Path(), help="A file or an image; may be repeated.")
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
    """Says PROMPT, or what comes from a pipe, to a model, and shows the answer.

    The trace is a session of its own with the label subagent:NAME:RUN on every message. It belongs to its parent, is
    shown under it by 'clew tree', goes when the parent goes, and is never what 'clew chat' goes on with.
    """
    from clew.cli import models
    from clew.cli.interrupts import Interrupts
    from clew.cli.talking import Talk

    run_id = run_id or secrets.token_hex(4)
    for what, value in (("NAME", name), ("RUN", run_id)):
        if _NAME.fullmatch(value) is None:
            raise click.UsageError(f"{what} is 1 to 64 letters, digits, '.', '_' or '-'")
    words = question_words(" ".join(prompt))
    if not words and not attach:
        raise click.UsageError("there is nothing to say: give a PROMPT, or pipe one in")
    interrupts = Interrupts()
    with writing() as store:
        above = parent or os.environ.get("CLEW_PARENT")
        owner: clew.Session | None = store.sessions.get(above) if above else None
        label = f"subagent:{name}:{run_id}"
        talk = Talk(
            store, models.choose(model), interrupts, system=system, cwd=os.getcwd(), label=label, parent=owner,
            allow_insecure=allow_insecure,
        )  # fmt: skip
        try:
            code = answer_once(talk, interrupts, words, attach, form)
            session = talk.session
            if session is not None:
                note(f"{label} is {session.handle}")
        finally:
            talk.close()
    ctx.exit(code)
