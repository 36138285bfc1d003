"""The slash commands of a chat; /help lists them."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import click

import clew
from clew.base.files import mount_of
from clew.base.visible import many, plain
from clew.cli.chat import models
from clew.cli.chat.attachments import read, repeat_question
from clew.cli.output.text import bold, columns, dim, note, out, wrap_to

if TYPE_CHECKING:
    from clew.cli.chat.conversation import ChatSession
    from clew.convert import Report


_KEYS = "  Enter sends, Alt+Enter inserts a newline, Ctrl+C stops an answer, Ctrl+D quits."
_NUMBER = re.compile("[0-9]{1,4}")
"""Longer numbers are handles."""


class Quit(Exception):
    """Ends the chat."""


class SlashCommand(NamedTuple):
    """A slash command."""

    run: Callable[[ChatState, str], str | clew.Native | None]
    """Runs it; a result is sent as a question."""
    takes: str
    what: str


class ChatState:
    """The state that commands change: the chat, and the files for the next question."""

    def __init__(self, chat: ChatSession, *, keep: Callable[[ChatSession], str] | None = None) -> None:
        self.chat = chat
        self.files: list[str] = []
        self.keep = keep
        """Stores an incognito chat and returns its handle; None if the chat is stored."""

    def command(self, line: str) -> str | clew.Native | None:
        """Runs a slash command; a result is sent as a question. ClewError; Quit."""
        name, _, rest = line[1:].partition(" ")
        found = COMMANDS.get(ALIASES.get(name, name))
        if found is None:
            raise clew.Invalid(
                f"unknown command /{name[:40]}", hint="See /help. To send a text that starts with /, type // first."
            )
        return found.run(self, rest.strip())


def is_command(line: str) -> bool:
    """True for a command; two slashes start a text with one slash."""
    return line.startswith("/") and not line.startswith("//") and "\n" not in line.strip()


def _help(_: ChatState, __: str) -> None:
    width = max(len(f"/{name} {command.takes}") for name, command in COMMANDS.items())
    for name, command in COMMANDS.items():
        takes = f"/{name} {command.takes}".ljust(width)
        first, *more = wrap_to(command.what, max(20, (columns() or 80) - width - 4))
        out(f"  {bold(takes)}  {first}")
        for line in more:
            out(" " * (width + 4) + line)
    for line in wrap_to(_KEYS, columns() or 80):
        out(dim(line))


def _model(state: ChatState, rest: str) -> None:
    if not rest:
        choice = state.chat.choice
        out(f"{choice.provider}/{choice.model}" if choice.model else choice.provider)
        out(dim(f"aliases: {', '.join(models.aliases())}; or use PROVIDER/MODEL"))
        return
    report = state.chat.use(models.parse(rest))
    note(f"Using {state.chat.choice}{losses(report)}")


def losses(report: Report | None) -> str:
    """The number of things that a conversion changed."""
    count = 0 if report is None else len(report.losses)
    return f"; {many(count, 'item')} of the conversation had to be converted or dropped" if count else ""


def _fork(state: ChatState, rest: str) -> None:
    before = state.chat.session
    made = state.chat.fork(rest or None)
    if made is None or before is None:
        raise clew.Invalid("no conversation to fork yet", hint="Ask a question first.")
    note(f"Continuing in {made.handle}, a fork of {before.handle}.")


def _rewind(state: ChatState, rest: str) -> None:
    """Goes back by a number of questions, or to a message."""
    chat = state.chat
    if _NUMBER.fullmatch(rest or "1") is None:
        chat.rewind(chat.store.nodes.resolve(rest))
    else:
        asked = chat.questions()
        back = int(rest or 1)
        if not asked:
            raise clew.Invalid("no question asked yet")
        if not 1 <= back <= len(asked):
            raise clew.Invalid(f"the conversation has only {many(len(asked), 'question')}")
        chat.rewind(asked[-back].parent_id)
    left = chat.questions()
    where = f"after: {plain(left[-1].text[:60])}" if left else "before the first question"
    note(f"Continuing {where}. Later messages are kept as a branch.")


def _session(state: ChatState) -> clew.Session:
    session = state.chat.session
    if session is None:
        raise clew.Invalid("no conversation yet", hint="It starts with the first question.")
    return session


def _label(state: ChatState, rest: str) -> None:
    words = rest.split()
    add, remove = [w for w in words if not w.startswith("-")], [w[1:] for w in words if w.startswith("-")]
    session = _session(state)
    if words:
        session = session.label(*add, remove=remove)
    out(plain(", ".join(session.labels)) or "no labels")


def _title(state: ChatState, rest: str) -> None:
    session = _session(state)
    out(plain((session.rename(rest) if rest else session).title or "untitled"))


def _save(state: ChatState, rest: str) -> None:
    session = _session(state)
    if rest:
        from clew.exports.to_markdown import markdown

        path = os.path.expanduser(rest)
        try:
            with open(path, "x", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in markdown(session, session.iter()))
        except OSError as error:
            raise clew.Invalid(f"cannot write {rest}: {error.strerror}") from None
        out(plain(path))
    elif state.keep is not None:
        kept = state.keep(state.chat)
        state.keep = None
        note(f"Stored as {kept}.")
    else:
        note(f"Already stored as {session.handle}. To write it as Markdown, use /save FILE.")


def _retry(state: ChatState, _: str) -> str | clew.Native:
    last = state.chat.last_question()
    if last is None:
        raise clew.Invalid("no question asked yet")
    question = repeat_question(state.chat.client, last)
    state.chat.rewind(last.parent_id)
    return question


def _edit(state: ChatState, rest: str) -> str | clew.Native | None:
    last = state.chat.last_question()
    if last is None:
        raise clew.Invalid("no question asked yet")
    text = rest or edit_text(last.text, private=state.chat.store.key_status().state != "plain")
    if not text or text == last.text:
        note("Nothing was changed.")
        return None
    question = repeat_question(state.chat.client, last, text)
    state.chat.rewind(last.parent_id)
    return question


def _attach(state: ChatState, rest: str) -> None:
    path = os.path.abspath(os.path.expanduser(rest))
    if not rest:
        state.files.clear()
    elif not os.path.isfile(path):
        raise clew.NotFound("file", rest)
    else:
        read(path)
        state.files.append(path)
    names = plain(", ".join(map(os.path.basename, state.files)))
    out(dim(f"attached to the next question: {names or 'no files'}"))


def _new(state: ChatState, _: str) -> None:
    state.chat.begin()
    note("The next question starts a new conversation.")


def _quit(_: ChatState, __: str) -> None:
    raise Quit


COMMANDS = {
    "help": SlashCommand(_help, "", "list the commands"),
    "model": SlashCommand(_model, "[NAME]", "show the model, or switch to another one"),
    "fork": SlashCommand(_fork, "[TITLE]", "continue in a fork; keep this conversation as it is"),
    "rewind": SlashCommand(_rewind, "[N|ID]", "go back by one question, by N, or to a message"),
    "retry": SlashCommand(_retry, "", "ask the last question again"),
    "edit": SlashCommand(_edit, "[TEXT]", "change the last question; without TEXT, in your editor"),
    "attach": SlashCommand(_attach, "[FILE]", "attach a file to the next question; without FILE, detach all"),
    "label": SlashCommand(_label, "[LABEL -LABEL]", "show, add or remove labels"),
    "title": SlashCommand(_title, "[TEXT]", "show or change the title"),
    "save": SlashCommand(_save, "[FILE]", "write the conversation as Markdown; store an incognito chat"),
    "new": SlashCommand(_new, "", "start a new conversation"),
    "quit": SlashCommand(_quit, "", "quit, like Ctrl+D"),
}
ALIASES = {"tag": "label"}
"""Other names of commands; /help does not list them."""


_IN_MEMORY = ("tmpfs", "ramfs")


def edit_text(text: str, *, private: bool) -> str:
    """Opens `text` in the editor and returns the result. Invalid if the editor fails.

    With `private`, for text of a sealed store, Invalid also if no folder is in memory: it must not reach a disk.
    """
    folder = memory_folder()
    if private and folder is None:
        hint = "Use /edit TEXT, or provide a folder in memory (tmpfs): XDG_RUNTIME_DIR or /dev/shm."
        raise clew.Invalid("the editor would write text of a sealed store to disk in clear text", hint=hint)
    try:
        with tempfile.TemporaryDirectory(prefix="clew-edit-", dir=folder) as made:  # readable only by its owner
            path = os.path.join(made, "question.md")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            click.edit(filename=path)
            with open(path, encoding="utf-8") as file:
                return file.read().strip()
    except click.ClickException as error:
        hint = "Set EDITOR, or use /edit TEXT."
        raise clew.Invalid(error.format_message(), hint=hint) from error
    except (OSError, UnicodeError) as error:
        raise clew.Invalid(f"cannot read the edited text: {error}") from error


def memory_folder() -> str | None:
    """A private folder in memory; None if there is none."""
    for folder in (os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm"):
        mount = mount_of(os.path.realpath(folder)) if folder and os.access(folder, os.W_OK | os.X_OK) else None
        if mount is not None and mount.kind in _IN_MEMORY:
            return folder
    return None
