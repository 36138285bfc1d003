"""Translates driver errors, and tells which of them are temporary."""

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
"""Messages of a server or a pooler that is starting, stopping or recovering, or has no free connection."""
_TEMPORARY_STATES = ("08", "57P", "53300")
_REFUSED = ("password", "authentication failed", "pg_hba.conf")
_LASTING = ("password", "authentication", "certificate", "does not support SSL", "invalid ")
"""Messages of libpq for failures that a retry does not fix."""


class TranslateErrors:
    """A context manager that translates driver errors. Reusable, also by several threads."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *where: object) -> None:
        if isinstance(error, (psycopg.Error, OverflowError)):
            raise translate(error, self._path) from error


def translate(error: BaseException, path: str) -> ClewError:
    """Translates an error of the driver to an error of clew."""
    if isinstance(error, ClewError):
        return error
    if isinstance(error, OverflowError):
        return Corrupted(path, "a number in it is out of range")
    state = (getattr(error, "sqlstate", None) or "") if isinstance(error, psycopg.Error) else ""
    # Lines after the first may contain values of rows.
    error.args = tuple(str(arg).partition("\n")[0] for arg in error.args[:1])
    if isinstance(error, psycopg.DataError) and not state:
        return Invalid("a text cannot contain a NUL character")
    match state:
        case "XX001" | "XX002":
            return Corrupted(path, "the server reports a damaged page or index")
        case "53100":
            return StorageFull(f"no space is left for {path}", hint="Free some space, then make the same call again.")
        case "53300":
            return Unavailable(f"{path} has too many connections", hint="Raise max_connections, or use fewer.")
        case "55P03":
            return Unavailable(f"{path} is locked by another program", hint=_AGAIN)
        case "57014":
            return Unavailable(f"{path} took longer than the timeout", hint=_CHECK)
        case "25006":
            return ReadOnly(f"{path} cannot be written", hint="It may be a replica: connect to the primary server.")
        case "42501":
            return ReadOnly(f"{path}: this user lacks the rights", hint="Grant the user rights on the schema.")
        case "3D000":
            return NotFound("store", path, hint="The database does not exist: create it first.")
        case "42939":
            return Invalid("schema names that begin with pg_ are reserved by the server", hint="Use another name.")
        case "42704":
            return NotFound("role", path, hint="Create the role in the database first.")
        case "23505":
            return Conflict("another writer has stored the same row")
        case "42P01" | "42703" | "42883" | "3F000":
            return Unavailable(f"{path} has no store, or an incomplete one", hint="Open it again.")
    if state[:2] == "28":
        return Unavailable(f"{path} rejects this user", hint=_USER)
    if state[:2] == "40":
        return Unavailable(f"{path} rolled back a transaction because of a concurrent one", hint=_AGAIN)
    if state[:2] in ("XX", "58"):
        return Unavailable(f"{path}: internal server error {state}", hint="Check the server log and verify the store.")
    if isinstance(error, psycopg.OperationalError):
        return _connection_error(str(error), path)
    return Unavailable(f"{path}: server error {state or type(error).__name__}", hint=_AGAIN)


def is_temporary(error: psycopg.Error) -> bool:
    """True if a failed connection may succeed later: the server is unreachable, starting, or has no free connection.

    libpq has no codes for errors before a connection exists, so this reads the message. It has a line for each host and
    each address of a host. One permanent error is enough, because the other hosts get the same password.
    """
    if error.sqlstate:
        return error.sqlstate.startswith(_TEMPORARY_STATES)
    return all(
        any(word in line for word in _TEMPORARY) if "FATAL:" in line else not any(word in line for word in _LASTING)
        for line in str(error).splitlines()
    )


def _connection_error(message: str, path: str) -> ClewError:
    """The error for a connection that failed or was lost."""
    why = re.split("failed: |FATAL: ", message)[-1].strip()
    if why.startswith("database ") and why.endswith("does not exist"):
        return NotFound("store", path, hint="The database does not exist: create it first.")
    if why.startswith(("role ", "permission denied")) or any(word in why for word in _REFUSED):
        return Unavailable(f"{path} rejects this user ({why})", hint=_USER)
    return Unavailable(f"{path} cannot be reached{f' ({why})' if why else ''}", hint=_CHECK)
