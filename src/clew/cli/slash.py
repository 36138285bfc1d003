"""What may be typed in a talk beside what is said: /help lists it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import clew
from clew.cli import models
from clew.cli.attaching import again, read
from clew.cli.editing import edited
from clew.cli.text import bold, broken, columns, dim, many, note, out, plain

if TYPE_CHECKING:
    from clew.cli.talking import Talk
    from clew.convert import Report

_KEYS = "  Enter sends, Alt+Enter begins a line, Ctrl+C stops an answer, Ctrl+D leaves."
_NUMBER = re.compile("[0-9]{1,4}")
"""Longer ones are handles."""


class Quit(Exception):
    """The talk is over."""


class Command(NamedTuple):
    """One of the commands."""

    run: Callable[[Desk, str], str | clew.Native | None]
    """Does it; what it returns is to be asked."""
    takes: str
    what: str


class Desk:
    """What the commands work on: the talk, and what lies ready for the next question."""

    def __init__(self, talk: Talk, *, keep: Callable[[Talk], str] | None = None) -> None:
        self.talk = talk
        self.files: list[str] = []
        self.keep = keep
        """Stores a talk that is not stored, and returns its handle; None if it is stored."""

    def command(self, line: str) -> str | clew.Native | None:
        """Does what a line that begins with a slash says; what it returns is to be asked now. ClewError; Quit."""
        name, _, rest = line[1:].partition(" ")
        found = COMMANDS.get(name)
        if found is None:
            raise clew.Invalid(f"there is no command /{name[:40]}", hint="/help lists them; // says a slash.")
        return found.run(self, rest.strip())


def is_command(line: str) -> bool:
    """True for what is not to be said but done. Two slashes say one."""
    return line.startswith("/") and not line.startswith("//") and "\n" not in line.strip()


def _help(_: Desk, __: str) -> None:
    width = max(len(f"/{name} {command.takes}") for name, command in COMMANDS.items())
    for name, command in COMMANDS.items():
        takes = f"/{name} {command.takes}".ljust(width)
        first, *more = broken(command.what, max(20, (columns() or 80) - width - 4))
        out(f"  {bold(takes)}  {first}")
        for line in more:
            out(" " * (width + 4) + line)
    for line in broken(_KEYS, columns() or 80):
        out(dim(line))


def _model(desk: Desk, rest: str) -> None:
    if not rest:
        choice = desk.talk.choice
        out(f"{choice.provider}/{choice.model}" if choice.model else choice.provider)
        out(dim(f"others: {', '.join(models.aliases())}, or PROVIDER/MODEL"))
        return
    report = desk.talk.use(models.parse(rest))
    note(f"{desk.talk.choice} answers from now on{losses(report)}")


def losses(report: Report | None) -> str:
    """What a conversion could not carry over, counted."""
    count = 0 if report is None else len(report.losses)
    return f"; {many(count, 'thing')} could not be told to it as they were" if count else ""


def _fork(desk: Desk, rest: str) -> None:
    before = desk.talk.session
    made = desk.talk.fork(rest or None)
    if made is None or before is None:
        raise clew.NotFound("message", "", hint="Nothing was said yet.")
    note(f"going on in {made.handle}; {before.handle} stays as it is")


def _rewind(desk: Desk, rest: str) -> None:
    """Back by so many questions, or to a message."""
    talk = desk.talk
    if _NUMBER.fullmatch(rest or "1") is None:
        talk.rewind(talk.store.nodes.resolve(rest))
    else:
        asked = talk.questions()
        back = int(rest or 1)
        if not asked:
            raise clew.Invalid("nothing was asked yet")
        if not 1 <= back <= len(asked):
            raise clew.Invalid(f"it goes back by {many(len(asked), 'question')} at most")
        talk.rewind(asked[-back].parent_id)
    left = talk.questions()
    where = f"after: {plain(left[-1].text[:60])}" if left else "before the first question"
    note(f"back {where}; what came after it is kept as a branch")


def _session(desk: Desk) -> clew.Session:
    session = desk.talk.session
    if session is None:
        raise clew.NotFound("session", "this", hint="It begins with the first question.")
    return session


def _tag(desk: Desk, rest: str) -> None:
    words = rest.split()
    add, remove = [w for w in words if not w.startswith("-")], [w[1:] for w in words if w.startswith("-")]
    session = _session(desk)
    if words:
        session = session.label(*add, remove=remove)
    out(plain(", ".join(session.labels)) or "no labels")


def _title(desk: Desk, rest: str) -> None:
    session = _session(desk)
    out(plain((session.rename(rest) if rest else session).title or "untitled"))


def _save(desk: Desk, rest: str) -> None:
    session = _session(desk)
    if rest:
        from clew.cli.document import markdown_lines

        path = os.path.expanduser(rest)
        try:
            with open(path, "x", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in markdown_lines(session, session.iter()))
        except OSError as error:
            raise clew.Invalid(f"{rest} cannot be written: {error.strerror}") from None
        out(plain(path))
    elif desk.keep is not None:
        kept = desk.keep(desk.talk)
        desk.keep = None
        note(f"kept as {kept}")
    else:
        note(f"everything is saved as it is said: {session.handle}. /save FILE writes it as Markdown.")


def _retry(desk: Desk, _: str) -> str | clew.Native:
    last = desk.talk.last_question()
    if last is None:
        raise clew.Invalid("nothing was asked yet")
    said = again(desk.talk.client, last)
    desk.talk.rewind(last.parent_id)
    return said


def _edit(desk: Desk, rest: str) -> str | clew.Native | None:
    last = desk.talk.last_question()
    if last is None:
        raise clew.Invalid("nothing was asked yet")
    text = rest or edited(last.text, private=desk.talk.store.key_status().state != "plain")
    if not text or text == last.text:
        note("nothing was changed")
        return None
    said = again(desk.talk.client, last, text)
    desk.talk.rewind(last.parent_id)
    return said


def _attach(desk: Desk, rest: str) -> None:
    path = os.path.abspath(os.path.expanduser(rest))
    if not rest:
        desk.files.clear()
    elif not os.path.isfile(path):
        raise clew.NotFound("file", rest)
    else:
        read(path)
        desk.files.append(path)
    names = plain(", ".join(map(os.path.basename, desk.files)))
    out(dim(f"goes with the next question: {names or 'no file'}"))


def _new(desk: Desk, _: str) -> None:
    desk.talk.begin()
    note("the next question begins a session")


def _quit(_: Desk, __: str) -> None:
    raise Quit


COMMANDS = {
    "help": Command(_help, "", "this list"),
    "model": Command(_model, "[NAME]", "which model answers, or another one"),
    "fork": Command(_fork, "[TITLE]", "go on in a copy; this one stays as it is"),
    "rewind": Command(_rewind, "[N|ID]", "go back by a question, by N, or to a message"),
    "retry": Command(_retry, "", "ask the last question again"),
    "edit": Command(_edit, "[TEXT]", "ask it in other words; without TEXT in your editor"),
    "attach": Command(_attach, "[FILE]", "a file or an image with the next question; or none"),
    "tag": Command(_tag, "[LABEL -LABEL]", "add labels, take others away"),
    "title": Command(_title, "[TEXT]", "the title, or another one"),
    "save": Command(_save, "[FILE]", "write it as Markdown; keep an incognito talk"),
    "new": Command(_new, "", "begin a new session"),
    "quit": Command(_quit, "", "leave; Ctrl+D does too"),
}
