"""How a command ends: exit codes, and errors reported in one line."""

from __future__ import annotations

import os
import sys

import click

from clew import errors
from clew.base.visible import plain
from clew.cli.output.text import bold, dim, warn

FAILED, USAGE, NOT_FOUND, AMBIGUOUS, BUSY, SEALED, DAMAGED, PARTIAL = 1, 2, 3, 4, 5, 6, 7, 8
INTERRUPTED, CLOSED_PIPE = 130, 141
MEANINGS = {
    0: "success",
    FAILED: "failed",
    USAGE: "usage error",
    NOT_FOUND: "not found",
    AMBIGUOUS: "ambiguous: the handle matches several IDs",
    BUSY: "busy: another program is using the store; try again",
    SEALED: "wrong, missing or invalid key",
    DAMAGED: "damaged: stored data is corrupted",
    PARTIAL: "partly done",
    INTERRUPTED: "interrupted",
    CLOSED_PIPE: "closed pipe: the program reading the output has exited",
}
"""The meaning of each exit code."""


class ClosedPipe(Exception):
    """The program reading the output has exited."""


class InvalidKey(errors.ClewError):
    """The key is missing or not a key."""


# The first match wins. A full disk, missing permissions and a missing package are also Unavailable, but trying again
# does not help.
_CODES: tuple[tuple[type[errors.ClewError], int], ...] = (
    (errors.NotFound, NOT_FOUND),
    (errors.Ambiguous, AMBIGUOUS),
    (errors.StorageFull, FAILED),
    (errors.ReadOnly, FAILED),
    (errors.Forbidden, FAILED),
    (errors.MissingPackage, FAILED),
    (errors.Unavailable, BUSY),
    (errors.Sealed, SEALED),
    (InvalidKey, SEALED),
    (errors.Corrupted, DAMAGED),
)


def code_of(error: errors.ClewError) -> int:
    """The exit code for an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def report(error: BaseException, *, as_json: bool | None = None) -> int:
    """Prints an error to stderr and returns the exit code; prints a traceback only if CLEW_DEBUG is set."""
    if isinstance(error, click.Abort | KeyboardInterrupt | EOFError):
        return INTERRUPTED
    if isinstance(error, ClosedPipe | BrokenPipeError):
        return CLOSED_PIPE  # `clew show … | head` ends silently, like other programs in a pipe
    if os.environ.get("CLEW_DEBUG"):
        import traceback

        traceback.print_exception(error)
    return say(*_describe(error), kind=type(error).__name__, as_json=as_json)


def _describe(error: BaseException) -> tuple[str, str, int]:
    """The message, the hint and the exit code for an error."""
    if isinstance(error, errors.ClewError):
        return error.message, error.hint, code_of(error)
    if isinstance(error, click.UsageError):
        where = "clew" if error.ctx is None else error.ctx.command_path
        return error.format_message().rstrip("."), f"Try '{where} --help'.", USAGE
    if isinstance(error, click.ClickException):
        return error.format_message(), "", FAILED
    if isinstance(error, FileNotFoundError) and error.filename is None:  # from os.getcwd()
        return "the working directory no longer exists", "Change to another directory.", FAILED
    if isinstance(error, OSError):
        about = f": {os.fsdecode(error.filename)}" if isinstance(error.filename, str | bytes) else ""
        return f"{error.strerror or error}{about}", "", FAILED
    hint = "This is a bug in clew. Set CLEW_DEBUG=1 to see the traceback."
    return f"internal error: {type(error).__name__}", hint, FAILED


def say(message: str, hint: str, code: int, *, kind: str = "Failed", as_json: bool | None = None) -> int:
    """Prints an error and its hint to stderr; returns `code`. As JSON if the command was asked for JSON.

    The JSON is one line: ``{"schema_version": 1, "error": {"type", "message", "hint", "exit_code"}}``.
    """
    if _wants_json() if as_json is None else as_json:
        import json

        from clew.cli.output.text import SCHEMA_VERSION

        fields = {"type": kind, "message": message, "hint": hint, "exit_code": code}
        sys.stderr.write(
            json.dumps({"schema_version": SCHEMA_VERSION, "error": fields}) + "\n"
        )  # ASCII: a terminal obeys nothing in it
        sys.stderr.flush()
        return code
    paint = sys.stderr
    warn(f"{bold('clew:', paint)} {plain(message)}")
    if hint:
        warn(dim(f"  hint: {plain(hint)}", paint))
    return code


def _wants_json() -> bool:
    """True if the command that runs was asked for JSON."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.params.get("as_json") or ctx.params.get("as_jsonl"))
