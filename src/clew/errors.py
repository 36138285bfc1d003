"""The errors that clew raises on purpose, in one tree; those of one folder only are defined there.

::

    ClewError
    ├── NotFound            no such node, session, blob or entry
    ├── Ambiguous           a handle matches several ids; lists the candidates
    ├── Conflict            another writer was first, or the id is taken; nothing was changed
    ├── Invalid             the input cannot be stored or understood; nothing was changed
    │   ├── NotAStore       the file is not a clew store
    │   ├── InvalidSnapshotID  the id is not a UUID in canonical form; nothing was changed
    │   └── InvalidBaseURL  an address that no API key may be sent to
    ├── SweepRefused        a sweep would remove suspiciously many sessions; nothing was removed
    ├── Sealed              the store is sealed and no key was given
    │   └── WrongKey        the key is not the store's; nothing was changed
    ├── Corrupted           stored bytes differ from what was written; says where
    ├── Unavailable         the store cannot be reached now: busy, or an I/O error; retry later
    │   ├── StorageFull     no space left on the device; free some and retry
    │   ├── ReadOnly        the file or its folder cannot be written
    │   ├── Forbidden       the permissions of the file or its folder forbid reading it
    │   └── MissingPackage  a package is not installed
    ├── ProviderError       the provider of a language model refused, failed, or broke off
    ├── ShutdownIncomplete  the shutdown ended before all work was done; lists the failures
    ├── SchemaTooNew        a newer clew wrote the store; it was not changed
    └── Closed              the store was closed, or was opened before this process was forked

`InvalidBaseURL` and `ProviderError` are defined in `clew.providers.errors`, `InvalidSnapshotID` in
`clew.snapshots.errors`. Each error has fields, and a ``hint`` that says what to do. No error contains the content of a
message; only the text of a provider that refused a request may quote a few characters of it.
"""

from __future__ import annotations

from collections.abc import Sequence


class ClewError(Exception):
    """The base class of all errors. ``hint`` says what to do, or is empty."""

    hint: str = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message = message
        if hint:
            self.hint = hint
        super().__init__(f"{message}. {self.hint}" if self.hint else message)


class NotFound(ClewError):
    """The store has no such object: `what` names its kind, `key` the id or name that was looked up."""

    def __init__(self, what: str, key: str, *, hint: str = "") -> None:
        self.what = what
        self.key = key
        super().__init__(f"{what} {clip(key)} not found" if key else f"{what} not found", hint=hint)


class Ambiguous(ClewError):
    """A handle matches several ids: the `candidates`."""

    def __init__(self, what: str, key: str, candidates: Sequence[str]) -> None:
        self.what = what
        self.key = key
        self.candidates = tuple(candidates)
        shown = ", ".join(self.candidates[:8]) + (", …" if len(self.candidates) > 8 else "")
        super().__init__(f"{what} {clip(key)} is ambiguous: {shown}", hint="Type more characters.")


class Conflict(ClewError):
    """Another writer was first, or the id is taken by other content. Nothing was changed."""


class Invalid(ClewError):
    """The input cannot be stored or understood. Nothing was changed."""


class NotAStore(Invalid):
    """The file exists and is not a clew store. It was not changed."""

    hint = "Use another path, or move this file away."

    def __init__(self, path: str, why: str, *, hint: str = "") -> None:
        self.path = path
        super().__init__(f"{path} is not a clew store: {why}", hint=hint)


class SweepRefused(ClewError):
    """A sweep would remove suspiciously many sessions: the clock or the policy may be wrong. Nothing was removed."""

    hint = "Check the clock and the policy; preview lists the sessions, force removes them."

    def __init__(self, going: int, total: int, doubts: Sequence[str]) -> None:
        self.going = going
        self.total = total
        self.doubts = tuple(doubts)
        super().__init__(f"the sweep would remove {going} of {total} sessions: {'; '.join(doubts)}")


class Sealed(ClewError):
    """The store is sealed and needs its key. `passphrase` is True if a passphrase opens it."""

    hint = "Open the store again with its key."

    def __init__(
        self, path: str, expected: Sequence[bytes], *, passphrase: bool = False, but: str = "", hint: str = ""
    ) -> None:
        self.path = path
        self.expected = tuple(expected)
        self.passphrase = passphrase
        wanted = " or ".join(id.hex() for id in expected)
        super().__init__(f"{path} is sealed{' with key ' if wanted else ''}{wanted}{but}", hint=hint)


class WrongKey(Sealed):
    """The store is sealed with another key than the given one. Nothing was changed."""

    hint = "Open the store with the key that sealed it; clew.keys.key_id identifies a key."

    def __init__(self, path: str, expected: Sequence[bytes], given: bytes, *, hint: str = "") -> None:
        self.given = given
        other = f", not with key {given.hex()}" if expected else f" and does not open with key {given.hex()}"
        super().__init__(path, expected, but=other, hint=hint)


class Corrupted(ClewError):
    """Stored bytes differ from what was written: damage or tampering. The rest stays readable."""

    hint = "Run verify to list all damage; restore the original from a backup."

    def __init__(self, where: str, why: str = "its checksum does not match", *, hint: str = "") -> None:
        self.where = where
        self.why = why
        super().__init__(f"{where} is damaged: {why}", hint=hint)


class Unavailable(ClewError):
    """The store cannot be reached now. Acknowledged writes are safe; the call can be repeated."""


class StorageFull(Unavailable):
    """No space is left on the device. Acknowledged writes are safe."""

    hint = "Free some space and repeat the call; the store stays usable."


class ReadOnly(Unavailable):
    """The store can be read but not written."""

    hint = "Check the permissions of the file and its folder."


class Forbidden(Unavailable):
    """The permissions of the file, or of a folder above it, forbid reading it. It may exist."""

    hint = "Check the permissions of the file and its folder."


def install_hint(package: str) -> str:
    """How to install a package; one that comes with an extra of clew has a name such as ``clew[postgres]``."""
    return f"Run: pip install {package}" if package.replace("-", "").isalnum() else f"Run: pip install '{package}'"


class MissingPackage(Unavailable):
    """A package is not installed. `package` is what to install, such as ``clew[postgres]``."""

    def __init__(self, message: str, package: str) -> None:
        self.package = package
        super().__init__(message, hint=install_hint(package))


class ShutdownIncomplete(ClewError):
    """The shutdown ended before all work was done: `failures` has one error for each unfinished piece.

    The message includes the text of clew's own errors; of others only the class name, as their text may quote content.
    """

    def __init__(self, message: str, failures: Sequence[Exception]) -> None:
        self.failures = tuple(failures)
        names = (str(one) if isinstance(one, ClewError) else type(one).__name__ for one in failures)
        super().__init__(f"{message}: {'; '.join(names)}")


class SchemaTooNew(ClewError):
    """A newer clew wrote the store. It was not changed."""

    hint = "Upgrade clew to open it."

    def __init__(self, path: str, found: int, known: int) -> None:
        self.path = path
        self.found = found
        self.known = known
        super().__init__(f"{path} has format {found}, this clew reads formats up to {known}")


class Closed(ClewError):
    """The store was closed, or it was opened before this process was forked."""

    hint = "Open the store again."


def clip(text: str, limit: int = 64) -> str:
    """`text` quoted for an error message: bounded, and without control characters."""
    shown = text if len(text) <= limit else text[:limit] + "…"
    return ascii(shown).replace("\\u2026", "…") if not shown.isprintable() else repr(shown)
