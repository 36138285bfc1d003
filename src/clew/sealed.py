"""The seal of a store with a key: AES-256-GCM, one data key for each run, ref and blob.

The store key wraps the data keys, and a row of secrets that hold for the whole store. A body's envelope is

    02 | id of its data key (8) | nonce (12) | ciphertext | tag (16)

and a data key is stored, once or, while it is being exchanged, as two of these in a row, the newer first, as

    01 | id of the store key (8) | id of the data key (8) | nonce (12) | key under the store key (32) | tag (16)

Both are bound to the store, and to whose they are: nothing opens in another place than its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from struct import Struct
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from clew.backends import Tx
from clew.envelope import MISTYPED, NO_BOX, Box, Plain
from clew.errors import Invalid, MissingPackage, Tampered, WrongKey
from clew.keys import ID_SIZE, SIZE, Key, Passphrase, check, key_id

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError:  # plain stores do without it
    AESGCM = InvalidTag = None  # type: ignore[assignment,misc]

SECRETS = "secrets"
"""Name of the header that holds them."""
_KDF = "kdf "
_ID, _NONCE, _TAG = ID_SIZE, 12, 16
_WRAPPED = Struct(f"<B{_ID}s{_ID}s{_NONCE}s{SIZE + _TAG}s")
"""A wrapped data key: 1, the id of the store key that it is under, its own id, nonce, ciphertext and tag."""
_WRAP = _WRAPPED.size
_Secret = Annotated[bytes, Meta(min_length=SIZE, max_length=SIZE)]
_REMEMBERED = 256
"""Data keys at hand, so that those in use are not unwrapped for each message."""


def needed() -> None:
    """Unavailable if the library is missing."""
    if AESGCM is None:
        raise MissingPackage("a sealed store needs the cryptography package", "crypto")


class Secrets(msgspec.Struct, frozen=True, array_like=True):
    """What the store key opens: the secrets of the whole store, and in what state it is."""

    lookup: _Secret
    """Key of the hashes that equality look-ups need. It stays when the store key is exchanged."""
    mac: _Secret
    """Key of the rows' signatures. It stays, too."""
    keys: Annotated[list[_Secret], Meta(min_length=1)]
    """The store keys in use: the one that wraps new data keys first; two while they are being exchanged."""
    keyed: bool
    """What is written gets a data key. False only while a store is being unsealed."""
    mixed: bool
    """Things without a data key may be met. True only while a store is being sealed or unsealed."""


def pack(secrets: Secrets, store_id: bytes) -> bytes:
    """The secrets as they are stored: under each of the store keys."""
    payload = msgspec.msgpack.encode(secrets)
    sealed = []
    for key in secrets.keys:
        id, nonce = key_id(key), os.urandom(_NONCE)
        sealed.append((id, nonce + AESGCM(key).encrypt(nonce, payload, b"clew secrets" + store_id + id)))
    return msgspec.msgpack.encode(sealed)


def unpack(packed: bytes, store_id: bytes, keys: Sequence[bytes], path: str) -> Secrets:
    """The secrets, opened with whichever of the keys fits. WrongKey if none does; Tampered if they are damaged."""
    sealed = _decoded(packed, path)
    for key in keys:
        id = key_id(key)
        if id in sealed:
            body = sealed[id]
            try:
                payload = AESGCM(key).decrypt(body[:_NONCE], body[_NONCE:], b"clew secrets" + store_id + id)
                return msgspec.msgpack.decode(payload, type=Secrets)
            except (InvalidTag, ValueError, msgspec.MsgspecError):
                raise Tampered(f"the header of {path}") from None
    raise WrongKey(path, list(sealed), key_id(keys[0]))


def key_ids(packed: bytes, path: str) -> list[bytes]:
    """Ids of the store keys that open the secrets, the one for new things first. Tampered if they are damaged."""
    return list(_decoded(packed, path))


def _decoded(packed: bytes, path: str) -> dict[bytes, bytes]:
    try:
        return dict(msgspec.msgpack.decode(packed, type=list[tuple[bytes, bytes]]))
    except (msgspec.MsgspecError, TypeError):
        raise Tampered(f"the header of {path}") from None


def unlock(tx: Tx, store_id: bytes, key: Key, known: Sequence[bytes], path: str) -> Secrets:
    """The secrets of a store, opened with a key that is known already or with the one given. WrongKey, Tampered."""
    needed()
    packed = tx.header(SECRETS)
    if packed is None:
        raise Tampered(path, "its header is incomplete")
    if known:
        with suppress(WrongKey):
            return unpack(packed, store_id, known, path)
    return unpack(packed, store_id, candidates(tx, key), path)


class Made(NamedTuple):
    """A store key, and for one that is derived, what it was derived with."""

    key: bytes
    parameters: bytes | None


def made(key: Key) -> Made:
    """The store key that a key stands for in a store that does not know it yet. It may take a while. Invalid."""
    needed()
    if not isinstance(key, Passphrase):
        return Made(check(key), None)
    parameters, derived = key.new()
    return Made(derived, parameters)


def take(tx: Tx, store_id: bytes, key: Made, path: str) -> None:
    """Seals a store in which nothing is yet. Invalid if something is; nothing happens if it is sealed by now."""
    if tx.state().state != "plain":
        return
    if not tx.empty():
        raise Invalid(f"{path} is not sealed", hint="Open it without a key; `clew key seal` seals it.")
    keep(tx, key)
    put(tx, store_id, Secrets(os.urandom(SIZE), os.urandom(SIZE), [key.key], keyed=True, mixed=False), "sealed")
    tx.set_header("lookup_key", None)


def put(tx: Tx, store_id: bytes, secrets: Secrets, state: str) -> None:
    """Stores the secrets, and begins a new epoch."""
    tx.set_header(SECRETS, pack(secrets, store_id))
    tx.set_state(state, key_id(secrets.keys[0]))


def keep(tx: Tx, key: Made) -> None:
    """Keeps what a key was derived with, in the header."""
    if key.parameters is not None:
        tx.set_header(_KDF + key_id(key.key).hex(), key.parameters)


def drop_parameters(tx: Tx, *, keep: Sequence[bytes]) -> None:
    """Forgets how keys were derived, but for those that stay in use."""
    stay = {_KDF + key_id(key).hex() for key in keep}
    for name in tx.headers(_KDF):
        if name not in stay:
            tx.set_header(name, None)


def candidates(tx: Tx, key: Key) -> list[bytes]:
    """The store keys that a key may stand for: itself, or those derived with the parameters that are kept."""
    if not isinstance(key, Passphrase):
        return [check(key)]
    derived = [key.key(parameters) for parameters in tx.headers(_KDF).values()]
    return derived or [key.new()[1]]


class SealedBox:
    """The envelopes of one run, ref or blob."""

    __slots__ = ("_ciphers", "_plain", "head")

    def __init__(self, store_id: bytes, keys: list[tuple[bytes, bytes]], plain: Plain | None) -> None:
        """`plain` opens what is not sealed, where both may be met."""
        self.head = b"\x02" + keys[0][0]
        self._ciphers = {b"\x02" + id: (AESGCM(key), b"clew body" + store_id + id) for id, key in keys}
        self._plain = plain

    def close(self, payload: bytes, context: bytes) -> bytes:
        cipher, bound = self._ciphers[self.head]
        nonce = os.urandom(_NONCE)
        return self.head + nonce + cipher.encrypt(nonce, payload, bound + context)

    def open(self, envelope: bytes, context: bytes) -> bytes | None:
        try:
            found = self._ciphers.get(envelope[: 1 + _ID])
            if found is None:
                if self._plain is not None and envelope[:1] == b"\x01":
                    return self._plain.open(envelope, context)
                return None
            cipher, bound = found
            return cipher.decrypt(envelope[1 + _ID : 1 + _ID + _NONCE], envelope[1 + _ID + _NONCE :], bound + context)
        except (InvalidTag, ValueError, TypeError):  # the last if damage has made it something else than bytes
            return None


class Unsealing:
    """A box while its store is being unsealed: what is closed from now on is plain."""

    def __init__(self, sealed: Box, plain: Plain) -> None:
        self.open = sealed.open
        self.close = plain.close
        self.head = plain.head


class SealedSeal:
    """See `clew.envelope.Seal`. `reload` reads the secrets again; another process may have exchanged the keys."""

    def __init__(self, store_id: bytes, secrets: Secrets, reload: Callable[[], object]) -> None:
        self._store_id = store_id
        self._reload = reload
        self._plain = Plain(store_id, reload)
        self._wrappers: dict[bytes, AESGCM] = {}
        self.load(secrets)

    def load(self, secrets: Secrets) -> None:
        """Goes on with these secrets."""
        # In this order: other threads may be at work, and what they find is of use with the old secrets too. A key that
        # was retired since still opens what was read before.
        self._wrappers = self._wrappers | {key_id(key): AESGCM(key) for key in secrets.keys}
        self._mac = blake2b(key=secrets.mac, digest_size=16, person=b"clew sign")
        self.secrets = secrets
        self.keyed = secrets.keyed
        current = key_id(secrets.keys[0])
        self._current = current, self._wrappers[current]  # in one: another thread may be wrapping at this moment
        self._boxes: dict[tuple[bytes, bytes], Box] = {}

    def unsealed(self) -> None:
        """Another process has unsealed the store: goes on without keys."""
        self.load(msgspec.structs.replace(self.secrets, keyed=False, mixed=True))

    def box(self, wrapped: bytes | None, owner: bytes) -> Box:
        if wrapped is None:
            return self._plain if self._may_be_plain() else NO_BOX
        box = self._boxes.get((wrapped, owner))
        if box is None:
            keys = self._unwrap(wrapped, owner)
            box = NO_BOX if not keys else SealedBox(self._store_id, keys, self._plain if self.secrets.mixed else None)
            if keys and not self.keyed:
                box = Unsealing(box, self._plain)
            if len(self._boxes) >= _REMEMBERED:
                self._boxes.clear()
            self._boxes[wrapped, owner] = box
        return box

    def new_box(self, owner: bytes) -> tuple[Box, bytes | None]:
        if not self.keyed:
            return self._plain, None
        wrapped = self.new_key(owner)
        return self.box(wrapped, owner), wrapped

    def sign(self, fields: bytes, wrapped: bytes | None) -> bytes:
        if wrapped is None:
            return self._plain.sign(fields, None) if self._may_be_plain() else b""
        mac = self._mac.copy()
        mac.update(fields)
        return mac.digest()

    def _may_be_plain(self) -> bool:
        """True if things without a data key may be met."""
        if not self.secrets.mixed:
            self._reload()  # another process may have unsealed the store since
        return self.secrets.mixed

    # -- exchanging keys

    def new_key(self, owner: bytes) -> bytes:
        """A new data key, as it is stored."""
        return self._wrap(os.urandom(_ID), os.urandom(SIZE), owner)

    def rewrap(self, wrapped: bytes, owner: bytes) -> bytes:
        """The same data keys under the store key for new things. Tampered if they cannot be unwrapped."""
        keys = self._unwrap(wrapped, owner)
        if not keys:
            raise Tampered("a data key")
        return b"".join([self._wrap(id, key, owner) for id, key in keys])

    def current(self, wrapped: bytes) -> bool:
        """True if a data key is under the store key for new things, and is not being exchanged."""
        return len(wrapped) == _WRAP and wrapped[1 : 1 + _ID] == self._current[0]

    def current_head(self) -> tuple[bytes, int]:
        """How every data key begins that is `current`, and how long it is."""
        return b"\x01" + self._current[0], _WRAP

    def newest(self, wrapped: bytes) -> bytes:
        """The newest of a row's data keys alone."""
        return wrapped[:_WRAP]

    def _wrap(self, id: bytes, key: bytes, owner: bytes) -> bytes:
        under, wrapper = self._current
        nonce = os.urandom(_NONCE)
        return b"\x01" + under + id + nonce + wrapper.encrypt(nonce, key, b"clew key" + self._store_id + id + owner)

    def _unwrap(self, wrapped: bytes, owner: bytes) -> list[tuple[bytes, bytes]]:
        """The data keys, the newest first; none if one is damaged."""
        found = []
        try:
            for tag, under, id, nonce, closed in _WRAPPED.iter_unpack(wrapped):
                if under not in self._wrappers:
                    self._reload()  # another process may have begun to exchange the store key
                wrapper = self._wrappers.get(under)
                if tag != 1 or wrapper is None:
                    return []
                found.append((id, wrapper.decrypt(nonce, closed, b"clew key" + self._store_id + id + owner)))
        except (InvalidTag, *MISTYPED):
            return []
        return found
