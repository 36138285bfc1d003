"""`clew chat | run`: asks a model, in a chat or as a subagent, and stores every message."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

import click

import clew
from clew.base.visible import many, plain
from clew.cli.exits import INTERRUPTED, report
from clew.cli.options import examples
from clew.cli.output.json import Form, json_options
from clew.cli.output.text import bold, clip, columns, dim, is_terminal, note, readable, role_style, style, warn, width
from clew.cli.setup.find import find, find_session
from clew.cli.setup.open_store import cpe_file, default_rules, open_or_create, store_option, view_cpe
from clew.providers.errors import ProviderError
from clew.providers.registry import OFFLINE
from clew.store.origin import origin_of

if TYPE_CHECKING:
    from clew.base.messages import Native
    from clew.cli.chat.conversation import ChatSession, CpeSaver
    from clew.cli.chat.interrupts import Interrupts
    from clew.cli.chat.slash_commands import ChatState


EXCHANGE = 100
"""Messages at the end of a conversation among which the last question is looked for."""
LINES = 12
"""Lines shown of each message of the last exchange."""

insecure_option = click.option(
    "--allow-insecure", is_flag=True, help="Allow plain http for CLEW_BASE_URL; only for trusted networks."
)
"""Never a setting: someone else may have written the file."""
attach_option = click.option(
    "-a", "--attach", multiple=True, type=click.Path(), metavar="FILE", help="Attach a file or an image; repeatable."
)


@click.command(
    epilog=examples(
        "clew chat",
        'clew chat "Why does the build fail?" < build.log',
        'clew chat -n -m sonnet -a chart.png "What does this show?"',
        "clew chat -c k3m9qa",
        more="MODEL is PROVIDER/MODEL, the name of a model, or an alias: sonnet, opus,\n"
        "haiku, gpt, mini, flash, pro, offline. Without -m, a conversation continues\n"
        "with its last model. A new one uses CLEW_MODEL, CLEW_PROVIDER, or the first\n"
        "provider with an API key in ANTHROPIC_API_KEY, OPENAI_API_KEY or\n"
        "GEMINI_API_KEY. CLEW_BASE_URL sets the address of your own server. Without\n"
        "any of these, clew uses `offline`, which echoes your input. A conversation\n"
        "with a real model never continues with `offline`.",
    ),
)
@click.argument("prompt", nargs=-1)
@click.option(
    "-c", "--continue", "resume_id", metavar="ID", help="Resume this conversation, or continue at this message."
)
@click.option("-n", "--new", is_flag=True, help="Start a new conversation.")
@click.option("-G", "--incognito", is_flag=True, help="Store nothing.")
@click.option("-m", "--model", metavar="MODEL", help="The model.  [default: see below]")
@click.option("-s", "--system", metavar="TEXT", help="System prompt.  [default: CLEW_SYSTEM]")
@attach_option
@click.option("--title", help="Title of a new conversation.  [default: its first words]")
@insecure_option
@json_options
@store_option
@click.pass_context
def chat(
    ctx: click.Context,
    prompt: tuple[str, ...],
    resume_id: str | None,
    new: bool,
    incognito: bool,
    model: str | None,
    system: str | None,
    attach: tuple[str, ...],
    title: str | None,
    allow_insecure: bool,
    form: Form,
) -> None:
    """Send PROMPT to a model and print the answer as it arrives. Without PROMPT, start an interactive chat.

    Resumes the latest conversation of this directory, unless you choose one with -c or start one with -n. Text from a
    pipe is the prompt, or precedes it. The prompt is stored before it is sent. Ctrl+C stops the answer: the part that
    arrived is stored and marked as interrupted; exit code 130.
    """
    if (resume_id is not None) + new + incognito > 1:
        raise click.UsageError("-c, -n and -G cannot be used together")
    words = read_prompt(" ".join(prompt))
    interactive = not words and is_terminal(sys.stdin) and is_terminal(sys.stdout)
    if not words and not attach and not interactive:
        raise click.UsageError("no prompt; give a PROMPT, or pipe one in")
    if not words and form != "text":
        raise click.UsageError("--json and --jsonl need a PROMPT")
    start = _Start(resume_id, new, incognito, model, system, title, allow_insecure)
    with _open_chat(start) as (chat_session, interrupts, fresh):
        if interactive:
            ctx.exit(_chat_loop(chat_session, interrupts, attach, incognito=incognito))
        before = chat_session.session
        code = answer_once(chat_session, interrupts, words, attach, form)
        session = chat_session.session
        if chat_session.saver is not None:
            note(_resume_command(chat_session))
        elif session is not None and (before is None or fresh) and not incognito:
            note(f"conversation {session.handle}")
        _report_fork(before, session)
        ctx.exit(code)


def read_prompt(prompt: str) -> str:
    """The prompt, preceded by the text from a pipe."""
    if sys.stdin is None or is_terminal(sys.stdin):
        return readable(prompt)
    piped = sys.stdin.buffer.read().decode(errors="replace").strip() if hasattr(sys.stdin, "buffer") else ""
    return "\n\n".join(readable(part) for part in (piped, prompt) if part)


class _Start(NamedTuple):
    """The options that define how a chat starts."""

    resume_id: str | None
    new: bool
    incognito: bool
    model: str | None
    system: str | None
    title: str | None
    allow_insecure: bool


@contextmanager
def _open_chat(start: _Start) -> Iterator[tuple[ChatSession, Interrupts, bool]]:
    """The chat, and True if a session was created to continue at a message."""
    from clew.cli.chat.interrupts import Interrupts

    interrupts = Interrupts()
    saver = None if start.incognito else _cpe_saver()
    with clew.open(":memory:") if start.incognito else open_or_create() if saver is None else saver.store as store:
        # If the chat cannot start, for example without an API key, the fork is rolled back.
        with store.transaction() if start.resume_id else nullcontext():
            session, at, fresh = (
                (None, None, False) if start.new or start.incognito else _find_session(store, start.resume_id)
            )
            try:
                chat_session = _start_chat(store, start, interrupts, session, at, saver)
            except clew.Invalid as error:
                error.hint += _elsewhere(session)
                raise
        try:
            yield chat_session, interrupts, fresh
        finally:
            chat_session.close()


def _cpe_saver() -> CpeSaver | None:
    """What writes to the CPE file that --db names; None if it names a store."""
    if (file := cpe_file()) is None:
        return None
    from clew.cli.chat.conversation import CpeSaver

    return CpeSaver(file, view_cpe(file.path, redact=default_rules()))


def _elsewhere(session: clew.Session | None) -> str:
    """A sentence on how another tool continues a conversation that was imported from it; empty if none does."""
    from clew.sources.registry import resume_elsewhere, tool_title

    origin = None if session is None else origin_of(session)
    command = None if origin is None else resume_elsewhere(origin.tool, origin.id)
    return "" if origin is None or command is None else f" In {tool_title(origin.tool)}, use: {plain(command)}"


def _start_chat(
    store: clew.Store,
    start: _Start,
    interrupts: Interrupts,
    session: clew.Session | None,
    at: str | None,
    saver: CpeSaver | None,
) -> ChatSession:
    from clew.cli.chat import models
    from clew.cli.chat.conversation import ChatSession
    from clew.cli.setup.installation import local_model, missing_sdks

    choice = models.choose(start.model, session)
    models.refuse_offline(choice, session)
    if choice.provider == OFFLINE and start.model is None and not models.is_configured():
        missing = list(missing_sdks())
        note(f"Using `offline`, which echoes your input.{'' if missing else f' {models.HOW}'}")
        for line in missing:
            note(line)
        if (local := local_model()) is not None:
            note(f"The program claude is installed and needs no API key: {local}")
    system = start.system if start.system is not None else models.setting("system") if session is None else None
    return ChatSession(
        store, choice, interrupts, session=session, at=at, system=system, cwd=os.getcwd(), title=start.title,
        allow_insecure=start.allow_insecure, saver=saver,
    )  # fmt: skip


def _find_session(store: clew.Store, resume_id: str | None) -> tuple[clew.Session | None, str | None, bool]:
    """The session to resume: the given one, or the one last answered in this directory.

    For a message, also its ID; the session ends with it, and the last value is True if it had to be created.
    """
    from clew.chat.recording import latest_answered

    if resume_id is None:
        try:
            return latest_answered(store, os.getcwd()), None, False
        except clew.NotFound:
            return None, None, False
    found = find(store, resume_id)
    if isinstance(found, clew.Session):
        return found, None, False
    holder = store.sessions.with_message(found)
    if holder is None:
        return store.sessions.create(at=found.id, cwd=os.getcwd()), found.id, True
    if holder.head_id == found.id and not holder.is_subagent:
        return holder, found.id, False
    return holder.fork(at=found.id), found.id, True


def answer_once(
    chat_session: ChatSession, interrupts: Interrupts, words: str, files: tuple[str, ...], form: Form
) -> int:
    """Sends one question and prints its answer. Returns the exit code."""
    from clew.cli.chat.attachments import question

    prompt = question(chat_session.client, words, files)
    try:
        if form == "text":
            _answer(chat_session, interrupts, prompt)
        else:
            _answer_json(chat_session, interrupts, prompt, form)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _answer(chat_session: ChatSession, interrupts: Interrupts, prompt: str | Native) -> None:
    """Sends a question and prints the answer as it arrives. KeyboardInterrupt after the partial answer is stored."""
    from contextlib import closing

    from clew.cli.chat.answer import can_redraw, show

    with interrupts.answering(), closing(chat_session.ask(prompt)) as events:
        show(events, rich=can_redraw())


def _answer_json(chat_session: ChatSession, interrupts: Interrupts, prompt: str | Native, form: Form) -> None:
    from contextlib import closing

    import msgspec

    from clew.cli.output.text import out_json, out_jsonl

    with interrupts.answering(), closing(chat_session.ask(prompt)) as events:
        for event in events:
            shown = msgspec.to_builtins(event)
            if "type" not in shown:
                session = chat_session.session
                assert session is not None
                shown = {"type": "reply", "session": session.id, "id": session.head_id, **shown}
            if form == "jsonl":
                out_jsonl([shown])
                sys.stdout.flush()
        if form == "json":
            out_json(shown)


def _report_fork(before: clew.Session | None, after: clew.Session | None) -> None:
    if before is not None and after is not None and before.id != after.id:
        note(f"{before.handle} was changed by another program. Continuing in {after.handle}, a fork of it.")


def _chat_loop(chat_session: ChatSession, interrupts: Interrupts, files: Sequence[str], *, incognito: bool) -> int:
    """An interactive chat; `files` are attached to the first question. Returns the exit code."""
    from clew.cli.chat.prompt_input import reader
    from clew.cli.chat.slash_commands import ChatState, Quit, is_command, losses

    state = ChatState(chat_session, keep=_store_chat if incognito else None)
    for path in files:
        state.command(f"/attach {path}")
    _greet(chat_session, incognito, losses(chat_session.report))
    read = reader(node.text for node in chat_session.questions())
    while True:
        try:
            line = readable(read()).strip()
            prompt = state.command(line) if is_command(line) else line
        except (EOFError, Quit):
            break
        except KeyboardInterrupt:
            note("To quit, press Ctrl+D or type /quit.")
        except clew.ClewError as error:
            report(error)
        else:
            if prompt:
                _turn(state, interrupts, prompt)
    session = chat_session.session
    if session is not None and not (incognito and state.keep is not None):
        note(_resume_command(chat_session))
    return 0


def _resume_command(chat_session: ChatSession) -> str:
    """How to resume this chat: by its handle, or in a CPE file by the id of its last message."""
    session, saver = chat_session.session, chat_session.saver
    if saver is None or saver.last is None:
        return f"Resume with: clew chat -c {'' if session is None else session.handle}"
    return f"Resume with: clew --db {plain(saver.file.path)} chat -c {saver.last}"


def _turn(state: ChatState, interrupts: Interrupts, prompt: str | Native) -> None:
    """One question of a chat. Reports errors of the provider; an error while storing ends the chat."""
    from clew.cli.chat.attachments import question

    before = state.chat.session
    try:
        if isinstance(prompt, str):
            words = prompt[1:] if prompt.startswith("//") else prompt
            files, state.files = state.files, []  # do not retry files that cannot be sent
            prompt = question(state.chat.client, words, files)
        _answer(state.chat, interrupts, prompt)
    except KeyboardInterrupt:
        about = dim("; partial answer stored. /retry asks again.", sys.stderr)
        warn(style("Interrupted", "33", sys.stderr) + about)
    except (ProviderError, clew.Invalid) as error:
        report(error)
    _report_fork(before, state.chat.session)
    sys.stdout.write("\n")


def _greet(chat_session: ChatSession, incognito: bool, lost: str) -> None:
    session = chat_session.session
    if incognito:
        warn(f"{bold('incognito')} {dim(f'· {chat_session.choice} · nothing is stored; /save stores it')}")
    elif session is None:
        warn(f"{bold('new conversation')} {dim(f'· {chat_session.choice} · /help')}")
    else:
        about = f"· {many(session.counters.messages, 'message')} · {chat_session.choice}"
        more = " · /new starts another, /help"
        room = (columns() or 80) - len(session.handle) - 2
        title = clip(plain(session.title or "untitled"), max(20, room - width(about)))
        fits = width(title) + width(about + more) <= room
        warn(f"{style(session.handle, '33')} {bold(title)} {dim(about + (more if fits else ''))}")
        if lost:
            note(lost.removeprefix("; "))
        _show_last_exchange(session)


def _show_last_exchange(session: clew.Session) -> None:
    """Prints the last question and what was answered, so that it is clear where the conversation is."""
    from clew.cli.output.conversation import item_lines, look
    from clew.sources.registry import rules_for
    from clew.turns.derive import is_prompt, items
    from clew.turns.model import ProgramNote, UserPrompt, entry

    rules, entries = rules_for(session), [entry(node) for node in session.path(last=EXCHANGE)]
    at = next((at for at in reversed(range(len(entries))) if is_prompt(entries[at], rules)), 0)
    shown = [
        item for item in items(entries[at:], rules, project=session.cwd or "") if not isinstance(item, ProgramNote)
    ]
    for item in shown[:1] + shown[1:][-1:]:
        lines = list(item_lines(item, look(fold=True)))[2:]
        role = "user" if isinstance(item, UserPrompt) else "assistant"
        warn("")
        warn(role_style(role, role))
        for line in lines[:LINES]:
            warn(line)
        if len(lines) > LINES:
            note(f"… {many(len(lines) - LINES, 'more line')}; 'clew show {session.handle}' shows everything")
    warn("")


def _store_chat(chat_session: ChatSession) -> str:
    """Stores an incognito chat; returns its handle."""
    session = chat_session.session
    assert session is not None
    with open_or_create() as store:
        kept = store.sessions.create(title=session.title, cwd=os.getcwd(), model=session.model, labels=session.labels)
        kept.append([node.said for node in session.path()])
        return kept.handle


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
