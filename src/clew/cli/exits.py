"""How a command ends: exit codes, and errors told in one line."""

from __future__ import annotations

import os
import sys

import click

from clew import errors
from clew.cli.text import bold, dim, is_terminal, plain, warn

FAILED, USAGE, NOT_FOUND, AMBIGUOUS, BUSY, SEALED, DAMAGED, PARTIAL = 1, 2, 3, 4, 5, 6, 7, 8
INTERRUPTED, UNREAD = 130, 141
MEANINGS = {
    0: "done",
    FAILED: "failed",
    USAGE: "the command line cannot be understood",
    NOT_FOUND: "not found",
    AMBIGUOUS: "ambiguous: a handle fits several ids",
    BUSY: "busy: another program keeps the store, try again",
    SEALED: "wrong key, no key, or what was given as one is none",
    DAMAGED: "damaged: stored bytes are not what was written",
    PARTIAL: "done in part",
    INTERRUPTED: "interrupted",
    UNREAD: "whoever read the output has gone",
}
"""What each exit code says."""


class Unread(Exception):
    """Whoever read the output has gone."""


class NoKey(errors.ClewError):
    """What was given as a key is none."""


# The first that fits counts: a full disk, a read-only file and a missing package are Unavailable too, and trying again
# helps none of them.
_CODES: tuple[tuple[type[errors.ClewError], int], ...] = (
    (errors.NotFound, NOT_FOUND),
    (errors.Ambiguous, AMBIGUOUS),
    (errors.StorageFull, FAILED),
    (errors.ReadOnly, FAILED),
    (errors.MissingPackage, FAILED),
    (errors.Unavailable, BUSY),
    (errors.Sealed, SEALED),
    (NoKey, SEALED),
    (errors.Tampered, DAMAGED),
)


def code_of(error: errors.ClewError) -> int:
    """The exit code that tells this error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def report(error: BaseException) -> int:
    """Says on stderr what went wrong, and returns the exit code. No traceback unless CLEW_DEBUG asks for one."""
    if isinstance(error, click.Abort | KeyboardInterrupt | EOFError):
        return INTERRUPTED
    if isinstance(error, Unread | BrokenPipeError):
        return UNREAD  # `clew show … | head` ends without a word, as every other program in a pipe does
    if os.environ.get("CLEW_DEBUG"):
        import traceback

        traceback.print_exception(error)
    if isinstance(error, errors.ClewError):
        return say(error.message, error.hint, code_of(error))
    if isinstance(error, click.UsageError):
        where = "clew" if error.ctx is None else error.ctx.command_path
        return say(error.format_message().rstrip("."), f"Try '{where} --help'.", USAGE)
    if isinstance(error, click.ClickException):
        return say(error.format_message(), "", FAILED)
    if isinstance(error, FileNotFoundError) and error.filename is None:  # what os.getcwd() raises
        return say("the working directory is not there any more", "Change to another one.", FAILED)
    if isinstance(error, OSError):
        about = f": {os.fsdecode(error.filename)}" if isinstance(error.filename, str | bytes) else ""
        return say(f"{error.strerror or error}{about}", "", FAILED)
    hint = "This is a bug in clew. CLEW_DEBUG=1 shows where."
    return say(f"{type(error).__name__} in clew itself", hint, FAILED)


def show_help(ctx: click.Context) -> None:
    """What a group of commands does when none is named: help, as an answer on a terminal, as an error elsewhere."""
    there = is_terminal(sys.stdin) and is_terminal(sys.stdout)
    click.echo(ctx.get_help(), err=not there)
    ctx.exit(0 if there else USAGE)


def say(message: str, hint: str, code: int) -> int:
    """Writes an error with its hint to stderr; returns `code`."""
    paint = sys.stderr
    warn(f"{bold('clew:', paint)} {plain(message)}")
    if hint:
        warn(dim(f"  hint: {plain(hint)}", paint))
    return code
