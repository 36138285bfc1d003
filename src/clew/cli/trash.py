"""`clew rm | restore | hold | release`: sessions go to the trash and come back, or are kept from going."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import click

import clew
from clew.cli.exits import PARTIAL, code_of, say
from clew.cli.forms import Form, json_options, session_json
from clew.cli.place import existing, store_option
from clew.cli.text import clip, out, out_json, out_jsonl, plain, warn

_sessions = click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")


@click.command(
    short_help="Put sessions in the trash.",
    epilog="\b\nExamples:\n  clew rm k3m9qa\n  clew rm --dry-run k3m9qa 7dq2xe\n  clew ls --trash",
)
@_sessions
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
@json_options
@store_option
@click.pass_context
def rm(ctx: click.Context, sessions: tuple[str, ...], dry_run: bool, form: Form) -> None:
    """Puts each SESSION in the trash, with its branches and subagents; 'clew restore' brings it back.

    What is in the trash is not listed, found or continued. Messages that a fork shares stay with the fork. Exit code 8
    if only some could go.
    """
    ending = "would go to the trash" if dry_run else "is in the trash; 'clew restore {handle}' brings it back"
    with existing() as store:
        done = _each(sessions, store.sessions.trash, ending)
        ctx.exit(_told(_undone(store, done) if dry_run else done, form))


@click.command(
    short_help="Bring sessions back from the trash.",
    epilog="\b\nExamples:\n  clew ls --trash\n  clew restore k3m9qa",
)
@_sessions
@json_options
@store_option
@click.pass_context
def restore(ctx: click.Context, sessions: tuple[str, ...], form: Form) -> None:
    """Brings each SESSION back from the trash, with all that went there with it. Exit code 8 if only some came back."""
    with existing() as store:
        ctx.exit(_told(_each(sessions, store.sessions.restore, "is back"), form))


@click.command(
    short_help="Keep sessions from being deleted.",
    epilog='\b\nExamples:\n  clew hold k3m9qa\n  clew hold k3m9qa 7dq2xe --reason "Audit of May"',
)
@_sessions
@click.option("--reason", metavar="TEXT", help="Why; it is kept with the session.")
@json_options
@store_option
@click.pass_context
def hold(ctx: click.Context, sessions: tuple[str, ...], reason: str | None, form: Form) -> None:
    """Keeps each SESSION, and all it has said, from being deleted or put in the trash. It can still be talked in.

    'clew release' ends the hold. Exit code 8 if only some could be held.
    """
    with existing() as store:
        done = _each(
            sessions, lambda typed: store.sessions.hold(typed, reason), "is held until 'clew release {handle}'"
        )
        ctx.exit(_told(done, form))


@click.command(
    short_help="Let held sessions be deleted again.",
    epilog="\b\nExample:\n  clew release k3m9qa",
)
@_sessions
@json_options
@store_option
@click.pass_context
def release(ctx: click.Context, sessions: tuple[str, ...], form: Form) -> None:
    """Ends the hold of each SESSION. Exit code 8 if only some could be released."""
    with existing() as store:
        ctx.exit(_told(_each(sessions, store.sessions.release, "is not held"), form))


class Outcome(NamedTuple):
    """What became of one session that was named: it is shown, or there is an error."""

    asked: str
    session: dict[str, Any]
    sentence: str
    error: clew.ClewError | None = None


class _Undo(Exception):
    """Ends a transaction whose changes nobody wants."""


def _each(names: Iterable[str], act: Callable[[str], clew.Session], ending: str) -> Iterator[Outcome]:
    """Does it to one after the other, each once; one that fails does not keep the others from it."""
    for asked in dict.fromkeys(names):
        try:
            session = act(asked)
        except clew.ClewError as error:
            yield Outcome(asked, {}, "", error)
            continue
        title = f" ({plain(clip(session.title, 40))})" if session.title else ""
        sentence = f"session {session.handle}{title} {ending.format(handle=session.handle)}"
        yield Outcome(asked, _json(session), sentence)


def _undone(store: clew.Store, outcomes: Iterator[Outcome]) -> list[Outcome]:
    """What would become of them: it is done in a transaction, and the transaction is undone."""
    found: list[Outcome] = []
    try:
        with store.transaction():
            found.extend(outcomes)
            raise _Undo
    except _Undo:
        return found


def _json(session: clew.Session) -> dict[str, Any]:
    try:
        return session_json(session)
    except clew.Tampered as error:  # what was asked for is done all the same
        return {"id": session.id, "handle": session.handle, "damaged": error.why}


def _told(outcomes: Iterable[Outcome], form: Form) -> int:
    """Each outcome as it comes: ids or JSON to stdout, the rest to stderr. Returns the exit code."""
    shown, codes = list[dict[str, Any]](), list[int]()
    for asked, session, sentence, error in outcomes:
        if error is not None:
            codes.append(say(error.message, error.hint, code_of(error)))
            item = {"asked": asked, "ok": False, "error": error.message, "hint": error.hint, "code": codes[-1]}
        else:
            codes.append(0)
            item = {"asked": asked, "ok": True, "session": session}
        shown.append(item)
        if form == "jsonl":
            out_jsonl([item])
        elif form == "text" and error is None:
            out(session["id"])
            warn(sentence)
    if form == "json":
        out_json(shown)
    return PARTIAL if 0 in codes and any(codes) else codes[0]
