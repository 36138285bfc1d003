"""The seal of a store with a key: AES-256-GCM, one data key for each run, ref and blob.

The store key encrypts the data keys and the secrets of the whole store. A body's envelope is

    02 | id of its data key (8) | nonce (12) | ciphertext | tag (16)

and a wrapped data key is as follows; during a deep rotation a row has two of them, the newer first:

    01 | id of the store key (8) | id of the data key (8) | nonce (12) | key under the store key (32) | tag (16)

Both are bound to the store and to their owner: neither opens anywhere else.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import blake2b
from struct import Struct
from threading import Lock

import msgspec

from clew.backends import Tx
from clew.base.loading import loading
from clew.engine.sealing.envelope import MISTYPED, NO_BOX, Box, Plain
from clew.engine.sealing.header import UNSEALED, Secrets, sign_unsealed
from clew.errors import Conflict, Corrupted
from clew.keys import ID_SIZE, SIZE, key_id

try:
    with loading:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError:  # plain stores do not need it
    AESGCM = InvalidTag = None  # type: ignore[assignment,misc]

_ID, _NONCE, _TAG = ID_SIZE, 12, 16
_WRAPPED = Struct(f"<B{_ID}s{_ID}s{_NONCE}s{SIZE + _TAG}s")
"""A wrapped data key: 1, the id of the store key that it is under, its own id, nonce, ciphertext and tag."""
_WRAP = _WRAPPED.size
_REMEMBERED = 256
"""Cached data keys, so that they are not unwrapped for each message."""


class SealedBox:
    """The envelopes of one run, ref or blob."""

    __slots__ = ("_ciphers", "_may_be_plain", "_plain", "head")
    seed = None

    def __init__(
        self, store_id: bytes, keys: list[tuple[bytes, bytes]], plain: Plain, may_be_plain: Callable[[], bool]
    ) -> None:
        """`plain` opens bodies that are not sealed, if `may_be_plain` says that the store may have both."""
        self.head = b"\x02" + keys[0][0]
        self._ciphers = {b"\x02" + id: (AESGCM(key), b"clew body" + store_id + id) for id, key in keys}
        self._plain = plain
        self._may_be_plain = may_be_plain

    def close(self, payload: bytes, context: bytes) -> bytes:
        cipher, bound = self._ciphers[self.head]
        nonce = os.urandom(_NONCE)
        return self.head + nonce + cipher.encrypt(nonce, payload, bound + context)

    def open(self, envelope: bytes, context: bytes) -> bytes | None:
        try:
            found = self._ciphers.get(envelope[: 1 + _ID])
            if found is None:
                # Checked now, because an unsealing may have begun, with the bodies, since the run's key was read.
                if envelope[:1] == b"\x01" and self._may_be_plain():
                    return self._plain.open(envelope, context)
                return None
            cipher, bound = found
            return cipher.decrypt(envelope[1 + _ID : 1 + _ID + _NONCE], envelope[1 + _ID + _NONCE :], bound + context)
        except (InvalidTag, ValueError, TypeError):  # TypeError if damage has changed its type
            return None


class _RefusingBox:
    """The box of a process that may not write clear text: see `SealedSeal.write_clear`."""

    head = b"\x01"
    seed = None

    def __init__(self, change: str) -> None:
        self._change = change

    def close(self, payload: bytes, context: bytes) -> bytes:
        hint = f"Finish that first: call {self._change} again, or run 'clew key {self._change}'."
        raise Conflict(f"the store is being {self._change}ed", hint=hint)

    def open(self, envelope: bytes, context: bytes) -> bytes | None:
        return None


_REFUSALS = {True: _RefusingBox("seal"), False: _RefusingBox("unseal")}
"""By `Seal.keyed`."""


_UNSEALED_ELSEWHERE = (
    "If you rotated its key and then unsealed it, open it again. If you did not, its header was changed: run verify."
)


class UnsealingBox:
    """A box while its store is being unsealed: opens sealed bodies, and closes new ones as plain."""

    seed = None

    def __init__(self, sealed: Box, plain: Box) -> None:
        self.open = sealed.open
        self.close = plain.close
        self.head = plain.head


def _always() -> bool:
    return True


def _digest(keyed: blake2b, fields: bytes) -> bytes:
    mac = keyed.copy()
    mac.update(fields)
    return mac.digest()


class SealedSeal:
    """See `envelope.Seal`. `reload` reads the secrets again: another process may have changed the keys."""

    seed = None

    def __init__(self, store_id: bytes, secrets: Secrets, reload: Callable[[], object]) -> None:
        self._store_id = store_id
        self._reload = reload
        self._plain = Plain(store_id, reload)
        self._wrappers: dict[bytes, AESGCM] = {}
        self._clear = False
        self._loading = Lock()
        self.secrets = secrets
        self.load(secrets)

    def load(self, secrets: Secrets) -> None:
        """Uses these secrets from now on, unless another thread has loaded newer ones."""
        with self._loading:
            if secrets.change >= self.secrets.change:
                self._load(secrets)

    def _load(self, secrets: Secrets) -> None:
        # The order matters: other threads may be reading, and must find a usable state after each step. Retired keys
        # stay, because they open rows that were read before.
        self._wrappers = self._wrappers | {key_id(key): AESGCM(key) for key in secrets.keys}
        self._macs = [blake2b(key=mac, digest_size=16, person=b"clew sign") for mac in secrets.macs]
        self.secrets = secrets
        self.held = frozenset(secrets.held)
        self.keyed = secrets.keyed
        self._clear = self._clear or secrets.keyed
        current = key_id(secrets.keys[0])
        self._current = current, self._wrappers[current]  # one assignment: another thread may be wrapping now
        self._boxes: dict[tuple[bytes, bytes], Box] = {}

    def load_unsealed(self, tx: Tx, path: str) -> None:
        """Continues without keys after another process has unsealed the store, and has signed that with a known key.

        Conflict if another key signed it: the key may have been rotated before, or the header was tampered with.
        Corrupted if nothing signed it.
        """
        signature, change = tx.header(UNSEALED), tx.state().change
        if signature is None:
            raise Corrupted(path, "its epoch row says that it is plain, but that is not signed")
        if signature not in [sign_unsealed(key, change) for key in self.secrets.keys]:
            raise Conflict(f"{path} was unsealed with a key that this process does not have", hint=_UNSEALED_ELSEWHERE)
        self._clear = True
        self.load(msgspec.structs.replace(self.secrets, state="unsealing", change=change))

    def write_clear(self) -> None:
        """Allows writing clear text while the store is being unsealed.

        A process that opened the store in that state refuses to write until this is called. Otherwise an attacker who
        restores that state could make it write clear text. A process that was open before saw the unsealing start.
        """
        self._clear = True
        self._boxes = {}

    def box(self, wrapped: bytes | None, owner: bytes) -> Box:
        if wrapped is None:
            return self._open_plain() if self._may_be_plain() else NO_BOX
        boxes = self._boxes  # another thread may load newer secrets; its cache must not get a box of these
        box = boxes.get((wrapped, owner))
        if box is None:
            keys = self._unwrap(wrapped, owner)
            may_be_plain = _always if self.secrets.mixed else self._may_be_plain
            box = NO_BOX if not keys else SealedBox(self._store_id, keys, self._plain, may_be_plain)
            if keys and not self.keyed:
                box = UnsealingBox(box, self._open_plain())
            if len(boxes) >= _REMEMBERED:
                boxes.clear()
            boxes[wrapped, owner] = box
        return box

    def _open_plain(self) -> Box:
        """The box for plain bodies. It refuses to close any while the store is keyed, or before `write_clear`."""
        if self._clear and not self.keyed:
            return self._plain
        return UnsealingBox(self._plain, _REFUSALS[self.keyed])

    def new_box(self, owner: bytes) -> tuple[Box, bytes | None]:
        if not self.keyed:
            return self._open_plain(), None
        wrapped = self.new_key(owner)
        return self.box(wrapped, owner), wrapped

    def sign(self, fields: bytes, wrapped: bytes | None) -> bytes:
        if wrapped is None:
            return self._plain.sign(fields, None) if self._may_be_plain() else b""
        return _digest(self._macs[0], fields)

    def is_signed(self, fields: bytes, wrapped: bytes | None, mac: bytes) -> bool:
        if wrapped is None:
            return mac == self.sign(fields, None)
        return any(mac == _digest(key, fields) for key in self._macs)

    def _may_be_plain(self) -> bool:
        """True if rows without a data key are accepted."""
        if not self.secrets.mixed:
            self._reload()  # another process may have unsealed the store since
        return self.secrets.mixed

    # -- changing keys

    def new_key(self, owner: bytes) -> bytes:
        """A new wrapped data key."""
        return self._wrap(os.urandom(_ID), os.urandom(SIZE), owner)

    def rewrap(self, wrapped: bytes, owner: bytes) -> bytes:
        """The same data keys, wrapped with the current store key. Corrupted if they cannot be unwrapped."""
        keys = self._unwrap(wrapped, owner)
        if not keys:
            raise Corrupted("a data key")
        return b"".join([self._wrap(id, key, owner) for id, key in keys])

    def current(self, wrapped: bytes) -> bool:
        """True if a row has one data key, wrapped with the current store key."""
        return len(wrapped) == _WRAP and wrapped[1 : 1 + _ID] == self._current[0]

    def current_head(self) -> tuple[bytes, int]:
        """The first bytes and the length of every data key that is `current`."""
        return b"\x01" + self._current[0], _WRAP

    def newest(self, wrapped: bytes) -> bytes:
        """The newest of a row's data keys."""
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
                    self._reload()  # another process may have started a key rotation
                wrapper = self._wrappers.get(under)
                if tag != 1 or wrapper is None:
                    return []
                found.append((id, wrapper.decrypt(nonce, closed, b"clew key" + self._store_id + id + owner)))
        except (InvalidTag, *MISTYPED):
            return []
        return found
