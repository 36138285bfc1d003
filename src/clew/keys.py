"""The key of a sealed store: generated, read from a file, the environment, the keyring or a passphrase.

>>> key = generate()
>>> from_recovery(recovery(key)) == key
True

A key comes from a file, an environment variable, the keyring of the system, or a passphrase. Each of them answers with
the key or raises: none makes a new key unless `create=True` asks for one, and none makes one where there is one. No
error shows a key, a passphrase, or what was found in the place of one.
"""

from __future__ import annotations

import os
import unicodedata
from binascii import a2b_base64, b2a_base64, unhexlify
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from clew.base.files import lock, make_private, read_private, user
from clew.base.ids import ALPHABET
from clew.base.loading import loading
from clew.errors import Corrupted, Invalid, MissingPackage, NotFound, Unavailable

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

SIZE = 32
"""Bytes in a key."""
ID_SIZE = 8
"""Bytes in a key's id."""
PATIENCE = 60.0
"""Seconds that making a key in the keyring waits for another process: someone may be typing a password there."""

_FORMS = "A key is written as 64 hex digits or in base64; `openssl rand -base64 32` makes one."
_LONGEST = 65
"""Bytes in the longest key file: 64 hex digits and a newline."""
_ELSEWHERE = "Unlock or install a keyring, or keep the key in a file: clew.keys.from_file."
_REFUSED = {
    "keyring.backends.fail.Keyring": "there is no keyring on this system",
    "keyring.backends.null.Keyring": "the keyring is switched off: the null keyring keeps nothing",
    "PlaintextKeyring": "the keyring is a file that is not encrypted",
}
"""Keyrings that keep no secret, by the name of their class, and why."""


def generate() -> bytes:
    """A new key, from the random source of the system."""
    return os.urandom(SIZE)


def check(key: object) -> bytes:
    """`key` itself. Invalid if it is not 32 bytes."""
    if not isinstance(key, bytes):
        hint = "A passphrase goes through clew.keys.from_passphrase." if isinstance(key, str) else ""
        raise Invalid(f"a key is {SIZE} bytes, not {type(key).__name__}", hint=hint)
    if len(key) != SIZE:
        hint = "clew.keys.generate makes a key; a passphrase goes through clew.keys.from_passphrase."
        raise Invalid(f"a key has {SIZE} bytes, this one has {len(key)}", hint=hint)
    return key


# -- from a file


def from_file(path: str | os.PathLike[str], *, create: bool = False) -> bytes:
    """The key in a file: 32 bytes, or 64 hex digits or base64 that stand for them; one newline may follow.

    It is a regular file that belongs to the user and that only the user may read or write. NotFound; Invalid, with a
    hint, if it is anything else. `create=True` makes it if it is not there, durably; a file that is there stays as it
    is, and of several processes that make it at once all get the same key.
    """
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise Invalid("a key file is named by a path")
    if create:
        make_private(name, generate().hex().encode() + b"\n")
    try:
        data = read_private(name, _LONGEST + 1)
    except NotFound:
        hint = "A sealed store needs the key it was sealed with; for a new one, create=True makes the file."
        raise NotFound("key file", name, hint=hint) from None
    line = data if len(data) == SIZE else data.removesuffix(b"\n")
    key = line if len(line) == SIZE else _decode(line)
    if key is None:
        raise Invalid(f"{name} does not hold a key", hint=_FORMS)
    return key


def _decode(text: str | bytes) -> bytes | None:
    """The key that hex digits or base64 stand for; None if it is neither."""
    try:
        key = unhexlify(text) if len(text) == 2 * SIZE else a2b_base64(text, strict_mode=True)
    except ValueError:
        return None
    return key if len(key) == SIZE else None


# -- from the environment


def from_env(name: str = "CLEW_KEY") -> bytes:
    """The key in an environment variable, as 64 hex digits or in base64. NotFound; Invalid if it is neither."""
    # A key given by mistake in place of a name must not be shown as one.
    if not isinstance(name, str) or not name or not name.isprintable() or "=" in name or _decode(name):
        raise Invalid("that is not the name of an environment variable", hint="Give the name: CLEW_KEY.")
    value = os.environ.get(name)
    if value is None:
        raise NotFound("environment variable", name, hint=_FORMS)
    key = _decode(value.removesuffix("\n"))
    if key is None:
        raise Invalid(f"the environment variable {name} does not hold a key", hint=_FORMS)
    return key


# -- from the keyring


def from_keyring(name: str, *, service: str = "clew", create: bool = False) -> bytes:
    """The key of that name in the keyring of the system. NotFound if it has none; Unavailable if it cannot be asked.

    `create=True` makes one if there is none, once, even when several processes of a user ask at the same time. A
    keyring that keeps nothing, or in the clear, is Unavailable.
    """
    for word in (name, service):
        if not isinstance(word, str) or not word or not word.isprintable():
            raise Invalid("a key in the keyring is named by a name and a service: printable text, not empty")
    backend = _backend()
    key = _entry(backend, service, name)
    if key is None and create:
        key = _create_entry(backend, service, name)
    if key is None:
        hint = "A sealed store needs the key it was sealed with; for a new one, create=True makes an entry."
        raise NotFound("keyring entry", f"{service}/{name}", hint=hint)
    return key


def _backend() -> KeyringBackend:
    """The keyring in use. Of a chain the first that keeps secrets: the chain might go on to one that does not."""
    try:
        with loading:
            import keyring
            from keyring.backends.chainer import ChainerBackend
    except ImportError:
        raise MissingPackage("keys in the keyring need the keyring package", "keyring") from None
    try:
        chosen = keyring.get_keyring()
        found: list[KeyringBackend] = chosen.backends if isinstance(chosen, ChainerBackend) else [chosen]
    except Exception as error:
        raise _unusable(type(error)) from error
    why = _REFUSED["keyring.backends.fail.Keyring"]
    for backend in found:
        refused = _refusal(backend)
        if refused is None:
            return backend
        why = refused
    raise Unavailable(why, hint=_ELSEWHERE)


def _refusal(backend: KeyringBackend) -> str | None:
    for kind in type(backend).__mro__:
        for name in (f"{kind.__module__}.{kind.__qualname__}", kind.__qualname__):
            if name in _REFUSED:
                return _REFUSED[name]
    return None


def _entry(backend: KeyringBackend, service: str, name: str) -> bytes | None:
    try:
        value = backend.get_password(service, name)
    except Exception as error:
        raise _unusable(type(error)) from error
    if value is None:
        return None
    key = _decode(value)
    if key is None:
        hint = "Another program may use that name: choose another, or put the right key there."
        raise Invalid(f"the keyring entry {name!r} of {service!r} is not a key", hint=hint)
    return key


def _create_entry(backend: KeyringBackend, service: str, name: str) -> bytes:
    with loading:
        import tempfile

    with lock(os.path.join(tempfile.gettempdir(), f"clew-keyring-{user()}.lock"), PATIENCE):
        there = _entry(backend, service, name)
        if there is not None:
            return there
        key = generate()
        failed = _set(backend, service, name, b2a_base64(key, newline=False).decode())
        if failed is not None:
            raise _unusable(failed)
        if _entry(backend, service, name) != key:
            raise Unavailable("the keyring does not give back the key it was given", hint=_ELSEWHERE)
        return key


def _set(backend: KeyringBackend, service: str, name: str, value: str) -> type[Exception] | None:
    """Puts a value into the keyring. The kind of what went wrong, and no more: the error itself may show the value."""
    try:
        backend.set_password(service, name, value)
    except Exception as error:  # noqa: BLE001 - a keyring may raise anything
        return type(error)
    return None


def _unusable(kind: type[Exception]) -> Unavailable:
    return Unavailable(f"the keyring cannot be used now ({kind.__name__})", hint=_ELSEWHERE)


# -- from a passphrase


_EXTRA = "crypto"
_LONGEST_PARAMETERS = 512


class _Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of a key derivation. The bounds apply when reading, because a header may come from anyone.

    Below them a passphrase would be cheap to guess; above them opening a store would take all memory, or minutes.
    """

    v: Literal[1]
    kdf: Literal["argon2id"]
    t: Annotated[int, Meta(ge=1, le=20)]  # passes
    m: Annotated[int, Meta(ge=8 << 10, le=1 << 20)]  # KiB
    p: Annotated[int, Meta(ge=1, le=16)]  # lanes
    salt: Annotated[bytes, Meta(min_length=16, max_length=64)]


def _parse(parameters: bytes) -> _Parameters | None:
    if len(parameters) > _LONGEST_PARAMETERS:
        return None
    try:
        return msgspec.json.decode(parameters, type=_Parameters)
    except ValueError:
        return None


def check_parameters(parameters: bytes) -> bool:
    """True if these say, within bounds, how a key is derived from a passphrase."""
    return _parse(parameters) is not None


class Passphrase:
    """Words from which a store's key is derived, slowly, with Argon2id. Its repr shows nothing."""

    __slots__ = ("_words",)

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise Invalid(f"a passphrase is text, not {type(text).__name__}")
        if not text:
            raise Invalid("a passphrase cannot be empty")
        if any("\ud800" <= letter <= "\udfff" for letter in text):  # encoding would fail with the words in its error
            raise Invalid("the passphrase is not valid Unicode")
        self._words = unicodedata.normalize("NFC", text).encode()

    def new(self) -> tuple[bytes, bytes]:
        """Parameters with a fresh salt, to be kept beside what is sealed, and the key that they give."""
        # Argon2id's second recommended setting (RFC 9106): a fifth of a second, once per opening.
        fresh = _Parameters(v=1, kdf="argon2id", t=3, m=64 << 10, p=4, salt=os.urandom(16))
        return msgspec.json.encode(fresh), self._derive(fresh)

    def key(self, parameters: bytes) -> bytes:
        """The key that these parameters give. Corrupted if they are not what `new` makes, or out of bounds."""
        if not isinstance(parameters, bytes):
            raise Invalid(f"parameters are bytes, not {type(parameters).__name__}")
        stored = _parse(parameters)
        if stored is None:
            raise Corrupted("the header of the passphrase", "its parameters are malformed or out of bounds")
        return self._derive(stored)

    def _derive(self, by: _Parameters) -> bytes:
        try:
            with loading:
                from cryptography.exceptions import UnsupportedAlgorithm
                from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
        except ImportError:
            raise MissingPackage("a passphrase needs the cryptography package", _EXTRA) from None
        try:
            argon2 = Argon2id(salt=by.salt, length=SIZE, iterations=by.t, lanes=by.p, memory_cost=by.m)
            return argon2.derive(self._words)
        except UnsupportedAlgorithm:
            raise MissingPackage("this build of cryptography has no Argon2id", _EXTRA) from None
        except MemoryError:
            raise Unavailable(f"deriving the key needs {by.m >> 10} MiB of memory", hint="Free some memory.") from None

    def __repr__(self) -> str:
        return "<Passphrase>"


def from_passphrase(text: str) -> Passphrase:
    """A passphrase to open a store with. Invalid if it is empty, or not valid Unicode.

    The same words are the same passphrase however their accents were typed (NFC).
    """
    return Passphrase(text)


Key = bytes | Passphrase
"""The types of key that open a store."""


# -- which key it is


def key_id(key: bytes) -> bytes:
    """Eight bytes that say which key it is, and nothing about it."""
    return blake2b(key=check(key), digest_size=ID_SIZE, person=b"clew key id").digest()


def key_id_text(id: bytes) -> str:
    """A key's id as people see it: 16 hex digits."""
    if not isinstance(id, bytes) or len(id) != ID_SIZE:
        raise Invalid(f"a key's id is {ID_SIZE} bytes")
    return id.hex()


# -- on paper


_LETTERS = 55
_CHECK_BITS = 19
_CHECK = 524269
"""Letters of a recovery key are the digits, in base 32, of a multiple of this prime.

No power of 32 below 32**55 leaves 0 or the same rest as another, so a wrong letter, or two that changed places, never
give a multiple again; of other mistakes one in half a million does.
"""
_PRINTED = dict.fromkeys(map(ord, "-‐‑‒–—"), " ")
"""Hyphens, and what word processors make of them."""
_VALUES = {letter: value for value, letter in enumerate(ALPHABET)} | {"i": 1, "l": 1, "o": 0}


def recovery(key: bytes) -> str:
    """The key to be printed and put away: 11 groups of 5 letters and digits, with a checksum. It is the key itself."""
    number = int.from_bytes(check(key), "big") << _CHECK_BITS
    number += -number % _CHECK
    letters = "".join(ALPHABET[number >> 5 * place & 31] for place in reversed(range(_LETTERS))).upper()
    return "-".join(letters[at : at + 5] for at in range(0, _LETTERS, 5))


def from_recovery(text: str) -> bytes:
    """The key that `recovery` wrote; case, spaces and hyphens do not matter, and i, l, o are read as 1, 1, 0.

    Invalid if any letter is wrong, or any two have changed places.
    """
    if not isinstance(text, str):
        raise Invalid(f"a recovery key is text, not {type(text).__name__}")
    letters = "".join(text.lower().translate(_PRINTED).split())
    if len(letters) != _LETTERS:
        raise Invalid(f"a recovery key has {_LETTERS} letters, this one has {len(letters)}", hint="Look at it again.")
    number = 0
    for at, letter in enumerate(letters):
        if letter not in _VALUES:
            raise Invalid(f"letter {at + 1} of the recovery key is not valid", hint="Check it for typing errors.")
        number = number << 5 | _VALUES[letter]
    if number % _CHECK:
        raise Invalid("the recovery key has a wrong letter in it", hint="Compare it with the paper, group by group.")
    return (number >> _CHECK_BITS).to_bytes(SIZE, "big")
