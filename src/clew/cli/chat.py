"""`clew chat`: talk to a model; everything is stored as it is said."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

import click

import clew
from clew.cli.exits import INTERRUPTED, report
from clew.cli.forms import Form, json_options
from clew.cli.place import find, store_option, writing
from clew.cli.text import bold, clip, columns, dim, is_terminal, many, note, plain, readable, style, warn, width
from clew.errors import ProviderError

if TYPE_CHECKING:
    from clew.cli.interrupts import Interrupts
    from clew.cli.slash import Desk
    from clew.cli.talking import Talk
    from clew.model import Native


insecure_option = click.option(
    "--allow-insecure", is_flag=True, help="Allow http for CLEW_BASE_URL, in a network that you trust."
)
"""Never a setting: a file could be somebody else's."""


@click.command(
    short_help="Talk to a model; everything is stored.",
    epilog="\b\nExamples:\n"
    "  clew chat\n"
    '  clew chat "Why does the build fail?" < build.log\n'
    '  clew chat -n -m sonnet -a chart.png "What does this show?"\n'
    "  clew chat -c k3m9qa\n\n\b\n"
    "A MODEL is PROVIDER/MODEL, the name of a model, or an alias: sonnet, opus, haiku, gpt, mini,\n"
    "flash, pro, offline. Without -m a session continues with the model it was held with; a new one\n"
    "uses CLEW_MODEL or CLEW_PROVIDER, or the provider with an API key: ANTHROPIC_API_KEY,\n"
    "OPENAI_API_KEY, GEMINI_API_KEY. CLEW_BASE_URL names a server of yours. Without any of them\n"
    "offline answers, which echoes your input; never in a session that was held with a model.",
)
@click.argument("prompt", nargs=-1)
@click.option("-c", "--continue", "go_on", metavar="ID", help="Continue this session, or from exactly this message.")
@click.option("-n", "--new", is_flag=True, help="Begin a new session.")
@click.option("-G", "--incognito", is_flag=True, help="Store nothing: the store is not even opened.")
@click.option("-m", "--model", metavar="MODEL", help="Who answers.  [default: see below]")
@click.option("-s", "--system", metavar="TEXT", help="What the model is told first.  [default: CLEW_SYSTEM]")
@click.option("-a", "--attach", multiple=True, type=click.Path(), help="A file or an image; may be repeated.")
@click.option("--title", help="Title of a new session.  [default: its first words]")
@insecure_option
@json_options
@store_option
@click.pass_context
def chat(
    ctx: click.Context,
    prompt: tuple[str, ...],
    go_on: str | None,
    new: bool,
    incognito: bool,
    model: str | None,
    system: str | None,
    attach: tuple[str, ...],
    title: str | None,
    allow_insecure: bool,
    form: Form,
) -> None:
    """Says PROMPT to a model and shows the answer as it comes. Without PROMPT, on a terminal, a talk begins.

    Continues the session of this directory that was answered last, unless -c names one or -n begins one. What comes
    from a pipe is the prompt, or goes before it. The question is stored before it is sent. Ctrl+C stops the answer:
    what arrived is kept, and marked as interrupted; exit code 130.
    """
    if (go_on is not None) + new + incognito > 1:
        raise click.UsageError("-c, -n and -G each say where the talk is kept: give one")
    words = question_words(" ".join(prompt))
    talks = not words and is_terminal(sys.stdin) and is_terminal(sys.stdout)
    if not words and not attach and not talks:
        raise click.UsageError("there is nothing to say: give a PROMPT, or pipe one in")
    if not words and form != "text":
        raise click.UsageError("--json is for one answer: give a PROMPT")
    start = _Start(go_on, new, incognito, model, system, title, allow_insecure)
    with _talk(start) as (talk, interrupts, fresh):
        if talks:
            ctx.exit(_talks(talk, interrupts, attach, incognito=incognito))
        before = talk.session
        code = answer_once(talk, interrupts, words, attach, form)
        session = talk.session
        if session is not None and (before is None or fresh) and not incognito:
            note(f"session {session.handle}")
        _tell_fork(before, session)
        ctx.exit(code)


def question_words(prompt: str) -> str:
    """The prompt, with what comes from a pipe before it."""
    if sys.stdin is None or is_terminal(sys.stdin):
        return readable(prompt)
    piped = sys.stdin.buffer.read().decode(errors="replace").strip() if hasattr(sys.stdin, "buffer") else ""
    return "\n\n".join(readable(part) for part in (piped, prompt) if part)


class _Start(NamedTuple):
    """How a conversation begins, as it was typed."""

    go_on: str | None
    new: bool
    incognito: bool
    model: str | None
    system: str | None
    title: str | None
    allow_insecure: bool


@contextmanager
def _talk(start: _Start) -> Iterator[tuple[Talk, Interrupts, bool]]:
    """The conversation, and whether a session was made for it to continue from a message."""
    from clew.cli.interrupts import Interrupts

    interrupts = Interrupts()
    with clew.open(":memory:") if start.incognito else writing() as store:
        # A fork for a conversation that cannot begin, as without an API key, is taken back.
        with store.transaction() if start.go_on else nullcontext():
            session, at, fresh = (None, None, False) if start.new or start.incognito else _found(store, start.go_on)
            talk = _begun(store, start, interrupts, session, at)
        try:
            yield talk, interrupts, fresh
        finally:
            talk.close()


def _begun(
    store: clew.Store, start: _Start, interrupts: Interrupts, session: clew.Session | None, at: str | None
) -> Talk:
    from clew.cli import models
    from clew.cli.talking import Talk

    choice = models.choose(start.model, session)
    models.refuse_offline(choice, session)
    if choice.provider == models.OFFLINE and start.model is None and not models.asked_for():
        note(f"No model is set up: using offline, which echoes your input. {models.HOW}")
    told = start.system if start.system is not None else models.setting("system") if session is None else None
    return Talk(
        store, choice, interrupts, session=session, at=at, system=told, cwd=os.getcwd(), title=start.title,
        allow_insecure=start.allow_insecure,
    )  # fmt: skip


def _found(store: clew.Store, go_on: str | None) -> tuple[clew.Session | None, str | None, bool]:
    """The session to continue: the one that was named, or the one that was answered last in this directory.

    If a message was named, its id, and a session that ends with it: True if that had to be made.
    """
    from clew.saving import latest_answered

    if go_on is None:
        try:
            return latest_answered(store, os.getcwd()), None, False
        except clew.NotFound:
            return None, None, False
    found = find(store, go_on)
    if isinstance(found, clew.Session):
        return found, None, False
    holder = store._search.session_of(found)
    if holder is None:
        return store.sessions.create(at=found.id, cwd=os.getcwd()), found.id, True
    if holder.head_id == found.id and not holder.is_subagent:
        return holder, found.id, False
    return holder.fork(at=found.id), found.id, True


def answer_once(talk: Talk, interrupts: Interrupts, words: str, files: tuple[str, ...], form: Form) -> int:
    """One question and its answer. Returns the exit code."""
    from clew.cli.attaching import question

    said = question(talk.client, words, files)
    try:
        if form == "text":
            _answer(talk, interrupts, said)
        else:
            _answer_json(talk, interrupts, said, form)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _answer(talk: Talk, interrupts: Interrupts, said: str | Native) -> None:
    """Asks, and shows the answer as it comes. KeyboardInterrupt once what arrived is stored."""
    from contextlib import closing

    from clew.cli.answering import can_paint, show

    with interrupts.answering(), closing(talk.ask(said)) as events:
        show(events, rich=can_paint())


def _answer_json(talk: Talk, interrupts: Interrupts, said: str | Native, form: Form) -> None:
    from contextlib import closing

    import msgspec

    from clew.cli.text import out_json, out_jsonl

    with interrupts.answering(), closing(talk.ask(said)) as events:
        for event in events:
            shown = msgspec.to_builtins(event)
            if "type" not in shown:
                session = talk.session
                assert session is not None
                shown = {"type": "reply", "session": session.id, "id": session.head_id, **shown}
            if form == "jsonl":
                out_jsonl([shown])
                sys.stdout.flush()
        if form == "json":
            out_json(shown)


def _tell_fork(before: clew.Session | None, after: clew.Session | None) -> None:
    if before is not None and after is not None and before.id != after.id:
        note(f"Somebody else went on in {before.handle}: this talk goes on in {after.handle}, a fork of it.")


def _talks(talk: Talk, interrupts: Interrupts, files: Sequence[str], *, incognito: bool) -> int:
    """A talk at a terminal, until the person leaves. The files go with the first question."""
    from clew.cli.slash import Desk, Quit, is_command, losses
    from clew.cli.typing import reader

    desk = Desk(talk, keep=_keep if incognito else None)
    for path in files:
        desk.command(f"/attach {path}")
    _greet(talk, incognito, losses(talk.report))
    read = reader(node.text for node in talk.questions())
    while True:
        try:
            line = readable(read()).strip()
            said = desk.command(line) if is_command(line) else line
        except (EOFError, Quit):
            break
        except KeyboardInterrupt:
            note("Ctrl+D or /quit leaves.")
        except clew.ClewError as error:
            report(error)
        else:
            if said:
                _turn(desk, interrupts, said)
    session = talk.session
    if session is not None and not (incognito and desk.keep is not None):
        note(f"Resume with: clew chat -c {session.handle}")
    return 0


def _turn(desk: Desk, interrupts: Interrupts, said: str | Native) -> None:
    """One question of a talk. What the provider does wrong is told; what cannot be saved ends the talk."""
    from clew.cli.attaching import question

    before = desk.talk.session
    try:
        if isinstance(said, str):
            words = said[1:] if said.startswith("//") else said
            files, desk.files = desk.files, []  # those that cannot be sent are not tried for ever
            said = question(desk.talk.client, words, files)
        _answer(desk.talk, interrupts, said)
    except KeyboardInterrupt:
        about = dim("; what arrived is kept. /retry asks again.", sys.stderr)
        warn(style("interrupted", "33", sys.stderr) + about)
    except (ProviderError, clew.Invalid) as error:
        report(error)
    _tell_fork(before, desk.talk.session)
    sys.stdout.write("\n")


def _greet(talk: Talk, incognito: bool, lost: str) -> None:
    session = talk.session
    if incognito:
        warn(f"{bold('incognito')} {dim(f'· {talk.choice} · nothing is stored; /save keeps it after all')}")
    elif session is None:
        warn(f"{bold('new session')} {dim(f'· {talk.choice} · /help')}")
    else:
        about = f"· {many(session.counters.messages, 'message')} · {talk.choice}"
        more = " · /new begins another, /help"
        room = (columns() or 80) - len(session.handle) - 2
        title = clip(plain(session.title or "untitled"), max(20, room - width(about)))
        fits = width(title) + width(about + more) <= room
        warn(f"{style(session.handle, '33')} {bold(title)} {dim(about + (more if fits else ''))}")
        if lost:
            note(lost.removeprefix("; "))


def _keep(talk: Talk) -> str:
    """Stores a talk that was not to be stored; its handle."""
    session = talk.session
    assert session is not None
    with writing() as store:
        kept = store.sessions.create(title=session.title, cwd=os.getcwd(), model=session.model, labels=session.labels)
        kept.append([node.said for node in session.path()])
        return kept.handle
