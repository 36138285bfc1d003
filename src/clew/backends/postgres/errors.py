"""The driver's errors as clew's, and which of them pass."""

from __future__ import annotations

import re

import psycopg

from clew.errors import ClewError, Conflict, Corrupted, Invalid, NotFound, ReadOnly, StorageFull, Unavailable

_AGAIN = "Make the same call again."
_CHECK = "Check the server, then make the same call again."
_USER = "Check user and password; a password may be in ~/.pgpass."
_TEMPORARY = (
    "the database system is", "too many c", "connection slots", "server login", "terminating connection",
    "due to timeout",
)  # fmt: skip
"""What a server or a pooler says while it starts, stops or recovers, or has no connection to give."""
_TEMPORARY_STATES = ("08", "57P", "53300")
_REFUSED = ("password", "authentication failed", "pg_hba.conf")
_LASTING = ("password", "authentication", "certificate", "does not support SSL", "invalid ")
"""What libpq says of a failure that another try would not mend."""


class TranslateErrors:
    """Driver errors become clew's. One can be used again and again, by many threads."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *where: object) -> None:
        if isinstance(error, (psycopg.Error, OverflowError)):
            raise translate(error, self._path) from error


def translate(error: BaseException, path: str) -> ClewError:
    """The error of clew's that tells what a driver's error means."""
    if isinstance(error, ClewError):
        return error
    if isinstance(error, OverflowError):
        return Corrupted(path, "a number in it is beyond reason")
    state = (getattr(error, "sqlstate", None) or "") if isinstance(error, psycopg.Error) else ""
    # What comes after the first line may have values of rows in it.
    error.args = tuple(str(arg).partition("\n")[0] for arg in error.args[:1])
    if isinstance(error, psycopg.DataError) and not state:
        return Invalid("a text cannot have a NUL character")
    match state:
        case "XX001" | "XX002":
            return Corrupted(path, "the server says that a page or an index of it is damaged")
        case "53100":
            return StorageFull(f"no space is left for {path}", hint="Free some, then make the same call again.")
        case "53300":
            return Unavailable(f"{path} has no connection left to give", hint="Raise max_connections, or use fewer.")
        case "55P03":
            return Unavailable(f"{path} is kept busy by another program", hint=_AGAIN)
        case "57014":
            return Unavailable(f"{path} took longer than the timeout", hint=_CHECK)
        case "25006":
            return ReadOnly(f"{path} cannot be written", hint="It may be a replica: name the primary server.")
        case "42501":
            return ReadOnly(f"{path} does not allow this user to do that", hint="Grant the user rights on its schema.")
        case "3D000":
            return NotFound("store", path, hint="There is no such database: create it first.")
        case "42939":
            return Invalid("a schema whose name begins with pg_ is the server's own", hint="Name another.")
        case "42704":
            return NotFound("role", path, hint="Create the role in the database first.")
        case "23505":
            return Conflict("someone else has stored the same")
        case "42P01" | "42703" | "42883" | "3F000":
            return Unavailable(f"{path} has no store, or not a whole one", hint="Open it anew.")
    if state[:2] == "28":
        return Unavailable(f"{path} refuses this user", hint=_USER)
    if state[:2] == "40":
        return Unavailable(f"{path} could not run this beside what others do", hint=_AGAIN)
    if state[:2] in ("XX", "58"):
        return Unavailable(f"{path} has failed inside ({state})", hint="Look at its log, then verify the store.")
    if isinstance(error, psycopg.OperationalError):
        return _connection_error(str(error), path)
    return Unavailable(f"{path} answered with error {state or type(error).__name__}", hint=_AGAIN)


def is_temporary(error: psycopg.Error) -> bool:
    """True if a connection that failed may succeed a moment later: the server is away, starting, or full.

    libpq has no code for an error before a connection is made, so this reads its text. The text has a line for each
    host, and for each address of a host. One lasting error decides: the other hosts are asked with the same password.
    """
    if error.sqlstate:
        return error.sqlstate.startswith(_TEMPORARY_STATES)
    return all(
        any(word in line for word in _TEMPORARY) if "FATAL:" in line else not any(word in line for word in _LASTING)
        for line in str(error).splitlines()
    )


def _connection_error(message: str, path: str) -> ClewError:
    """The error for a connection that could not be made, or was lost."""
    why = re.split("failed: |FATAL: ", message)[-1].strip()
    if why.startswith("database ") and why.endswith("does not exist"):
        return NotFound("store", path, hint="There is no such database: create it first.")
    if why.startswith(("role ", "permission denied")) or any(word in why for word in _REFUSED):
        return Unavailable(f"{path} refuses this user ({why})", hint=_USER)
    return Unavailable(f"{path} cannot be reached{f' ({why})' if why else ''}", hint=_CHECK)
