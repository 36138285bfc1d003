"""Every error that clew raises on purpose, in one tree.

::

    ClewError
    ├── NotFound        no such node, session, blob, entry
    ├── Ambiguous       a handle that fits several ids; names the candidates
    ├── Conflict        someone else was first, or the id is taken; nothing was changed
    ├── Invalid         the input cannot be stored or understood; nothing was changed
    │   ├── NotAStore   the file is not a clew store
    │   ├── InvalidSnapshotID  not the canonical text of a UUID; nothing was touched
    │   └── InvalidBaseURL  an address that no token may be sent to
    ├── Implausible     a sweep would remove more than is likely to be meant; nothing was removed
    ├── Sealed          the store is sealed and no key was given
    │   └── WrongKey    the key is not the store's; nothing was changed
    ├── Tampered        stored bytes are not what was written; says where
    ├── Unavailable     the store cannot be reached now: busy, or an I/O error; asking again may help
    │   ├── StorageFull no space left; free some and ask again
    │   ├── ReadOnly    the file or its folder cannot be written
    │   └── MissingPackage  a package that this needs is not installed
    ├── ProviderError   a language model's provider refused, failed, or broke off
    ├── Unfinished      something ended before everything was done; names what was not
    ├── SchemaTooNew    written by a newer clew; refused unchanged
    └── Closed          the store was closed, or belongs to the process before a fork

An error carries its fields, and a ``hint`` that says what to do. No error carries the content of a message; only what
a provider says of a request it refused may quote a few characters of it.
"""

from __future__ import annotations

from collections.abc import Sequence


class ClewError(Exception):
    """The root of the tree; ``hint`` says what to do about it, or is empty."""

    hint: str = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message = message
        if hint:
            self.hint = hint
        super().__init__(f"{message}. {self.hint}" if self.hint else message)


class NotFound(ClewError):
    """There is no such thing in this store."""

    def __init__(self, what: str, key: str, *, hint: str = "") -> None:
        self.what = what
        self.key = key
        super().__init__(f"no {what} {clip(key)}", hint=hint)


class Ambiguous(ClewError):
    """A handle that fits several ids."""

    def __init__(self, what: str, key: str, candidates: Sequence[str]) -> None:
        self.what = what
        self.key = key
        self.candidates = tuple(candidates)
        listed = ", ".join(self.candidates[:8]) + (", …" if len(self.candidates) > 8 else "")
        super().__init__(f"{what} {clip(key)} is ambiguous: {listed}", hint="Type more letters of the one you mean.")


class Conflict(ClewError):
    """Someone else was first, or the id is taken by other content. Nothing was changed."""


class Invalid(ClewError):
    """The input cannot be stored or understood. Nothing was changed."""


class NotAStore(Invalid):
    """The file exists and is not a clew store. It was not changed."""

    hint = "Name another file, or move this one away."

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(f"{path} is not a clew store: {why}")


class Implausible(ClewError):
    """A sweep would remove more than is likely to be meant: a wrong clock, or a wrong policy. Nothing was removed."""

    hint = "Check the clock and the policy, and preview what would go; force removes it."

    def __init__(self, going: int, total: int, doubts: Sequence[str]) -> None:
        self.going = going
        self.total = total
        self.doubts = tuple(doubts)
        super().__init__(f"a sweep would remove {going} of {total} sessions: {'; '.join(doubts)}")


class InvalidSnapshotID(Invalid):
    """The id of a snapshot is not a UUID in canonical form. No file and no row was touched."""

    hint = "A snapshot's id is a UUID in lowercase, like 7d444840-9dc0-41d1-b245-5ffdce74fad2."

    def __init__(self, id: object) -> None:
        shown = clip(id, 32) if isinstance(id, str) else type(id).__name__
        super().__init__(f"{shown} is not the id of a snapshot")


class InvalidBaseURL(Invalid):
    """The address of a provider is not one that a token may be sent to. Nothing was sent.

    The address itself is not in the message: it may hold a password.
    """

    hint = "Use an https address with a host, and give the token apart from it."

    def __init__(self, why: str, *, hint: str = "") -> None:
        super().__init__(f"the base URL {why}", hint=hint)


class Sealed(ClewError):
    """The store is sealed; its contents need the key. `passphrase` is True if a passphrase opens it."""

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
    """The store is sealed with another key than the one given. Nothing was changed."""

    hint = "Open the store with the key it was sealed with; clew.keys.key_id tells which key is which."

    def __init__(self, path: str, expected: Sequence[bytes], given: bytes, *, hint: str = "") -> None:
        self.given = given
        other = f", not with key {given.hex()}" if expected else f" and does not open with key {given.hex()}"
        super().__init__(path, expected, but=other, hint=hint)


class Tampered(ClewError):
    """Stored bytes are not what was written: damage or tampering. The rest stays readable."""

    hint = "Run verify to list everything that is damaged; a backup has the original."

    def __init__(self, where: str, why: str = "its checksum does not match") -> None:
        self.where = where
        self.why = why
        super().__init__(f"{where} is damaged: {why}")


class Unavailable(ClewError):
    """The store cannot be reached now. Nothing acknowledged is lost; the same call may be made again."""


class StorageFull(Unavailable):
    """No space is left on the device. Nothing acknowledged is lost."""

    hint = "Free some space and make the same call again; the store stays usable."


class ReadOnly(Unavailable):
    """The store can be read and not written."""

    hint = "Check the permissions of the file and of its folder."


class MissingPackage(Unavailable):
    """A package that this needs is not installed. `extra` brings it."""

    def __init__(self, message: str, extra: str) -> None:
        self.extra = extra
        super().__init__(message, hint=f"pip install 'clew[{extra}]'")


class ProviderError(ClewError):
    """The provider of a language model refused a request, failed, or broke off its answer.

    `status` is that of HTTP where there was one. `said` is the provider's own explanation, at most 300 characters,
    without the API key, control characters and longer quotes of the request. All of it is in the `__cause__`.
    """

    def __init__(self, provider: str, why: str, *, status: int | None = None, said: str = "", hint: str = "") -> None:
        self.provider = provider
        self.status = status
        self.said = said
        super().__init__(f"{provider}: {why}{f': {said}' if said else ''}".rstrip("."), hint=hint)


class Unfinished(ClewError):
    """Something ended before everything was done: `failures` has an error for each thing that was not.

    The message says what clew's own errors say; of others it has the name alone, as they may say anything.
    """

    def __init__(self, message: str, failures: Sequence[Exception]) -> None:
        self.failures = tuple(failures)
        named = (str(one) if isinstance(one, ClewError) else type(one).__name__ for one in failures)
        super().__init__(f"{message}: {'; '.join(named)}")


class SchemaTooNew(ClewError):
    """The store was written by a newer clew. It was not changed."""

    hint = "Upgrade clew to open it."

    def __init__(self, path: str, found: int, known: int) -> None:
        self.path = path
        self.found = found
        self.known = known
        super().__init__(f"{path} has format {found}, this clew knows formats up to {known}")


class Closed(ClewError):
    """The store was closed, or it was opened before this process was forked."""

    hint = "Open the store again."


def clip(text: str, limit: int = 64) -> str:
    """`text` quoted for an error message: bounded, and without control characters."""
    shown = text if len(text) <= limit else text[:limit] + "…"
    return ascii(shown).replace("\\u2026", "…") if not shown.isprintable() else repr(shown)
