"""The key of a sealed store: generated, read from a file, the environment, the keyring or a passphrase.

>>> key = generate()
>>> from_recovery(recovery(key)) == key
True

A key comes from a file, an environment variable, the system keyring, or a passphrase. Each function returns the key or
raises. None creates a key without `create=True`, and none replaces an existing key. No error message contains a key, a
passphrase, or the value that was found instead.
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
"""Seconds to wait for another process that creates a key in the keyring: a user may be typing a password."""

_FORMS = "A key is written as 64 hex digits or in base64; `openssl rand -base64 32` makes one."
_LONGEST = 65
"""Bytes in the longest key file: 64 hex digits and a newline."""
_ELSEWHERE = "Unlock or install a keyring, or keep the key in a file: clew.keys.from_file."
_REFUSED = {
    "keyring.backends.fail.Keyring": "there is no keyring on this system",
    "keyring.backends.null.Keyring": "the keyring is disabled: the null keyring stores nothing",
    "PlaintextKeyring": "the keyring is a file that is not encrypted",
}
"""Keyrings that do not protect a secret, by class name, and why."""


def generate() -> bytes:
    """A new key from the system's random source."""
    return os.urandom(SIZE)


def check(key: object) -> bytes:
    """`key` itself. Invalid if it is not 32 bytes."""
    if not isinstance(key, bytes):
        hint = "Pass a passphrase through clew.keys.from_passphrase." if isinstance(key, str) else ""
        raise Invalid(f"a key must be {SIZE} bytes, not {type(key).__name__}", hint=hint)
    if len(key) != SIZE:
        hint = "Make a key with clew.keys.generate; pass a passphrase through clew.keys.from_passphrase."
        raise Invalid(f"a key must have {SIZE} bytes, this one has {len(key)}", hint=hint)
    return key


# -- from a file


def from_file(path: str | os.PathLike[str], *, create: bool = False) -> bytes:
    """The key in a file: 32 bytes, or their 64 hex digits or base64; one newline may follow.

    It must be a regular file that belongs to the user, and that only the user may read or write; otherwise Invalid,
    with a hint. NotFound if it does not exist; with `create=True` it is created, durably. An existing file is not
    changed. If several processes create it at once, all get the same key.
    """
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise Invalid("a key file must be given as a path")
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
        raise Invalid(f"{name} does not contain a key", hint=_FORMS)
    return key


def _decode(text: str | bytes) -> bytes | None:
    """Decodes a key from hex digits or base64; None if it is neither."""
    try:
        key = unhexlify(text) if len(text) == 2 * SIZE else a2b_base64(text, strict_mode=True)
    except ValueError:
        return None
    return key if len(key) == SIZE else None


# -- from the environment


def from_env(name: str = "CLEW_KEY") -> bytes:
    """The key in an environment variable, as 64 hex digits or in base64. NotFound; Invalid if it is neither."""
    # A key passed by mistake instead of a name must not appear in an error.
    if not isinstance(name, str) or not name or not name.isprintable() or "=" in name or _decode(name):
        raise Invalid("this is not the name of an environment variable", hint="Pass a name such as CLEW_KEY.")
    value = os.environ.get(name)
    if value is None:
        raise NotFound("environment variable", name, hint=_FORMS)
    key = _decode(value.removesuffix("\n"))
    if key is None:
        raise Invalid(f"the environment variable {name} does not contain a key", hint=_FORMS)
    return key


# -- from the keyring


def from_keyring(name: str, *, service: str = "clew", create: bool = False) -> bytes:
    """The key with this name in the system keyring. NotFound; Unavailable if the keyring cannot be used.

    `create=True` creates a missing key, only once even if several processes of a user ask at the same time. A keyring
    that stores nothing, or stores clear text, is Unavailable.
    """
    for word in (name, service):
        if not isinstance(word, str) or not word or not word.isprintable():
            raise Invalid("the name and the service of a keyring entry must be printable text, not empty")
    backend = _backend()
    key = _entry(backend, service, name)
    if key is None and create:
        key = _create_entry(backend, service, name)
    if key is None:
        hint = "A sealed store needs the key it was sealed with; for a new one, create=True makes an entry."
        raise NotFound("keyring entry", f"{service}/{name}", hint=hint)
    return key


def _backend() -> KeyringBackend:
    """The keyring in use. Of a chain, the first one that protects secrets: the chain itself might use another."""
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
        hint = "Another program may use this name. Use another name, or store the right key there."
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
            raise Unavailable("the keyring did not store the key", hint=_ELSEWHERE)
        return key


def _set(backend: KeyringBackend, service: str, name: str, value: str) -> type[Exception] | None:
    """Stores a value in the keyring. Returns only the type of an error: the error itself may contain the value."""
    try:
        backend.set_password(service, name, value)
    except Exception as error:  # noqa: BLE001 - a keyring may raise anything
        return type(error)
    return None


def _unusable(kind: type[Exception]) -> Unavailable:
    return Unavailable(f"the keyring cannot be used now ({kind.__name__})", hint=_ELSEWHERE)


# -- from a passphrase


_LONGEST_PARAMETERS = 512


class _Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of a key derivation. The bounds apply when reading, because a header may come from anyone.

    Below them a passphrase would be cheap to guess; above them opening a store could take minutes, or all memory.
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
    """True if these are valid parameters of a key derivation, within bounds."""
    return _parse(parameters) is not None


class Passphrase:
    """A passphrase. Argon2id derives the store's key from it, slowly on purpose. Its repr shows nothing."""

    __slots__ = ("_words",)

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise Invalid(f"a passphrase must be text, not {type(text).__name__}")
        if not text:
            raise Invalid("a passphrase cannot be empty")
        if any("\ud800" <= letter <= "\udfff" for letter in text):  # the error of encoding would contain it
            raise Invalid("the passphrase is not valid Unicode")
        self._words = unicodedata.normalize("NFC", text).encode()

    def new(self) -> tuple[bytes, bytes]:
        """Parameters with a new salt, to be stored with the sealed data, and the derived key."""
        # Argon2id's second recommended setting (RFC 9106): a fifth of a second, once per opening.
        fresh = _Parameters(v=1, kdf="argon2id", t=3, m=64 << 10, p=4, salt=os.urandom(16))
        return msgspec.json.encode(fresh), self._derive(fresh)

    def key(self, parameters: bytes) -> bytes:
        """The key derived with these parameters. Corrupted if they are malformed or out of bounds."""
        if not isinstance(parameters, bytes):
            raise Invalid(f"parameters must be bytes, not {type(parameters).__name__}")
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
            raise MissingPackage("a passphrase needs the cryptography package", "cryptography") from None
        try:
            argon2 = Argon2id(salt=by.salt, length=SIZE, iterations=by.t, lanes=by.p, memory_cost=by.m)
            return argon2.derive(self._words)
        except UnsupportedAlgorithm:
            raise MissingPackage("this build of cryptography has no Argon2id", "cryptography") from None
        except MemoryError:
            raise Unavailable(f"deriving the key needs {by.m >> 10} MiB of memory", hint="Free some memory.") from None

    def __repr__(self) -> str:
        return "<Passphrase>"


def from_passphrase(text: str) -> Passphrase:
    """A passphrase to open a store with. Invalid if it is empty, or not valid Unicode.

    The text is normalized (NFC), so that it does not matter how accents were typed.
    """
    return Passphrase(text)


Key = bytes | Passphrase
"""The types of key that open a store."""


# -- key ids


def key_id(key: bytes) -> bytes:
    """Eight bytes that identify a key without revealing it."""
    return blake2b(key=check(key), digest_size=ID_SIZE, person=b"clew key id").digest()


def key_id_text(id: bytes) -> str:
    """A key's id as text: 16 hex digits."""
    if not isinstance(id, bytes) or len(id) != ID_SIZE:
        raise Invalid(f"a key id must be {ID_SIZE} bytes")
    return id.hex()


# -- recovery keys, printed on paper


_LETTERS = 55
_CHECK_BITS = 19
_CHECK = 524269
"""The letters of a recovery key are the base-32 digits of a multiple of this prime.

The powers of 32 below 32**55 have different remainders, none of them 0. So one wrong letter, or two swapped letters,
never give a multiple; of other errors one in half a million does.
"""
_PRINTED = dict.fromkeys(map(ord, "-‐‑‒–—"), " ")
"""Hyphens, and the dashes that word processors replace them with."""
_VALUES = {letter: value for value, letter in enumerate(ALPHABET)} | {"i": 1, "l": 1, "o": 0}


def recovery(key: bytes) -> str:
    """The key as text to print: 11 groups of 5 letters and digits, with a checksum. It is the key itself."""
    number = int.from_bytes(check(key), "big") << _CHECK_BITS
    number += -number % _CHECK
    letters = "".join(ALPHABET[number >> 5 * place & 31] for place in reversed(range(_LETTERS))).upper()
    return "-".join(letters[at : at + 5] for at in range(0, _LETTERS, 5))


def from_recovery(text: str) -> bytes:
    """The key that `recovery` wrote; case, spaces and hyphens do not matter, and i, l, o are read as 1, 1, 0.

    Invalid if a letter is wrong, or two are swapped.
    """
    if not isinstance(text, str):
        raise Invalid(f"a recovery key must be text, not {type(text).__name__}")
    letters = "".join(text.lower().translate(_PRINTED).split())
    if len(letters) != _LETTERS:
        raise Invalid(
            f"a recovery key has {_LETTERS} letters, this one has {len(letters)}", hint="Check for missing groups."
        )
    number = 0
    for at, letter in enumerate(letters):
        if letter not in _VALUES:
            raise Invalid(f"letter {at + 1} of the recovery key is not valid", hint="Check it for typing errors.")
        number = number << 5 | _VALUES[letter]
    if number % _CHECK:
        raise Invalid("the recovery key has a wrong letter in it", hint="Compare it with the paper, group by group.")
    return (number >> _CHECK_BITS).to_bytes(SIZE, "big")
