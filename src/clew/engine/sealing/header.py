"""The header of a sealed store: the secrets, bound to the epoch row, and the parameters of key derivations.

The secrets are encrypted with each store key. They contain the state of the store and `State.change` of the epoch row,
and are accepted only together with that row: if one of the two is restored to an earlier state, reading is Corrupted.
If both are restored, they match neither the mark of a key change nor the signatures of the rows, because each key
change has its own signing key.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from clew.backends import Tx
from clew.base.loading import loading
from clew.errors import Corrupted, Invalid, MissingPackage, Sealed, WrongKey
from clew.keys import SIZE, Key, Passphrase, check, key_id

try:
    with loading:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError:  # plain stores do not need it
    AESGCM = InvalidTag = None  # type: ignore[assignment,misc]

SECRETS = "secrets"
"""Name of the header with the secrets."""
MARK = "rekey"
"""Name of the header with the progress of a key change."""
UNSEALED = "unsealed"
"""Name of the header that proves an unsealing to processes that have the store open."""
_KDF = "kdf "
_NONCE = 12
_TAG = b"\x02"
"""First byte of packed secrets."""
_Secret = Annotated[bytes, Meta(min_length=SIZE, max_length=SIZE)]


def require_cryptography() -> None:
    """MissingPackage if cryptography is not installed."""
    if AESGCM is None:
        raise MissingPackage("a sealed store needs the cryptography package", "cryptography")


class Secrets(msgspec.Struct, frozen=True, array_like=True):
    """The secrets of the whole store, and its state. The store key encrypts them."""

    lookup: _Secret
    """Key of the lookup hashes. A rotation does not change it."""
    macs: Annotated[list[_Secret], Meta(min_length=1)]
    """Keys of the rows' signatures: the one for new signatures first; two while the store key is rotated."""
    keys: Annotated[list[_Secret], Meta(min_length=1)]
    """The store keys in use: the one that wraps new data keys first; two while the store key is rotated."""
    state: Literal["sealing", "sealed", "rotating", "unsealing"]
    """The state in the epoch row. It decides whether plain rows are accepted, so the row alone is not trusted."""
    change: int
    """`State.change` of the epoch row that these secrets belong to. `put` sets it."""
    held: list[bytes]
    """Lookup hashes of the refs that are held, sorted."""

    @property
    def keyed(self) -> bool:
        """True if new rows get a data key."""
        return self.state != "unsealing"

    @property
    def mixed(self) -> bool:
        """True if rows without a data key are accepted."""
        return self.state in ("sealing", "unsealing")


def pack(secrets: Secrets, store_id: bytes) -> bytes:
    """The secrets, encrypted with each of the store keys."""
    payload = _TAG + msgspec.msgpack.encode(secrets)
    sealed = []
    for key in secrets.keys:
        id, nonce = key_id(key), os.urandom(_NONCE)
        sealed.append((id, nonce + AESGCM(key).encrypt(nonce, payload, b"clew secrets" + store_id + id)))
    return msgspec.msgpack.encode(sealed)


def unpack(packed: bytes, store_id: bytes, keys: Sequence[bytes], path: str) -> Secrets:
    """The secrets, opened with the first key that fits. WrongKey if none does; Corrupted if they are damaged."""
    sealed = _decoded(packed, path)
    for key in keys:
        id = key_id(key)
        if id in sealed:
            body = sealed[id]
            try:
                payload = AESGCM(key).decrypt(body[:_NONCE], body[_NONCE:], b"clew secrets" + store_id + id)
                if payload[:1] != _TAG:
                    raise ValueError("unknown tag")
                return msgspec.msgpack.decode(payload[1:], type=Secrets)
            except (InvalidTag, ValueError, msgspec.MsgspecError):
                raise Corrupted(f"the header of {path}") from None
    raise WrongKey(path, list(sealed), key_id(keys[0]))


def key_ids(packed: bytes, path: str) -> list[bytes]:
    """Ids of the store keys that open the secrets, the current one first. Corrupted if they are damaged."""
    return list(_decoded(packed, path))


def _decoded(packed: bytes, path: str) -> dict[bytes, bytes]:
    try:
        return dict(msgspec.msgpack.decode(packed, type=list[tuple[bytes, bytes]]))
    except (msgspec.MsgspecError, TypeError):
        raise Corrupted(f"the header of {path}") from None


def unlock(tx: Tx, store_id: bytes, key: Key, known: Sequence[bytes], path: str) -> Secrets:
    """The secrets of a store, opened with a `known` store key or with `key`. WrongKey.

    Corrupted also if they do not match the epoch row: then one of the two was restored to an earlier state.
    """
    require_cryptography()
    packed = tx.header(SECRETS)
    if packed is None:
        raise Corrupted(path, "its header is incomplete")
    secrets = None
    if known:
        with suppress(WrongKey):
            secrets = unpack(packed, store_id, known, path)
    secrets = secrets or unpack(packed, store_id, candidates(tx, key), path)
    state = tx.state()
    bound = (secrets.state, key_id(secrets.keys[0]), secrets.change)
    if bound != (state.state, state.key_id, state.change):
        raise Corrupted(path, "the secrets in its header do not match its epoch row")
    if (secrets.state == "sealed") != (tx.header(MARK) is None):
        raise Corrupted(path, "its header does not match its state")
    return secrets


def check_key(tx: Tx, key: Key | None, path: str) -> None:
    """Raises what opening the store with this key would raise: Sealed, WrongKey, Invalid. Called before a migration."""
    state = tx.state()
    if state.state == "plain":
        if key is not None:
            refuse_plain(tx, path)
    elif key is None:
        id = state.key_id
        raise Sealed(path, [id] if isinstance(id, bytes) else [], passphrase=bool(tx.maintenance.headers(_KDF)))
    else:
        unlock(tx, tx.header("store_id") or b"", key, [], path)


def refuse_plain(tx: Tx, path: str) -> None:
    """Invalid if a plain store has data: opening with a key seals only an empty store."""
    if not tx.maintenance.empty():
        raise Invalid(f"{path} is not sealed", hint="Open it without a key; `clew key seal` seals it.")


class StoreKey(NamedTuple):
    """A store key, and the parameters it was derived with, if any."""

    key: bytes
    parameters: bytes | None


def new_store_key(key: Key) -> StoreKey:
    """The store key for a key that is new to the store. Deriving it from a passphrase is slow. Invalid."""
    require_cryptography()
    if not isinstance(key, Passphrase):
        return StoreKey(check(key), None)
    parameters, derived = key.new()
    return StoreKey(derived, parameters)


def seal_empty(tx: Tx, store_id: bytes, key: StoreKey, path: str) -> None:
    """Seals an empty store. Invalid if it has data. Does nothing if it is already sealed."""
    if tx.state().state != "plain":
        return
    refuse_plain(tx, path)
    store_parameters(tx, key)
    put(tx, store_id, Secrets(os.urandom(SIZE), [os.urandom(SIZE)], [key.key], "sealed", 0, []))
    tx.set_header("lookup_key", None)
    tx.set_header(UNSEALED, None)


def put(tx: Tx, store_id: bytes, secrets: Secrets) -> Secrets:
    """Starts a new epoch, and stores the secrets bound to it. Returns the bound secrets."""
    bound = msgspec.structs.replace(secrets, change=tx.state().change + 1)
    tx.set_header(SECRETS, pack(bound, store_id))
    tx.maintenance.set_state(bound.state, key_id(bound.keys[0]))
    return bound


def sign_mark(secrets: Secrets, fields: bytes) -> bytes:
    """The signature of a mark in the header. Each key change has its own signing key."""
    return blake2b(fields, key=secrets.macs[0], digest_size=16, person=b"clew mark").digest()


def put_unsealed(tx: Tx, secrets: Secrets) -> None:
    """Starts the epoch of a plain store, signed for the processes that know its secrets."""
    tx.set_header(SECRETS, None)
    tx.maintenance.set_state("plain", None)
    tx.set_header(UNSEALED, sign_unsealed(secrets.keys[0], tx.state().change))


def sign_unsealed(key: bytes, change: int) -> bytes:
    """The proof in the header that a holder of the key unsealed the store."""
    return blake2b(b"%d" % change, key=key, digest_size=16, person=b"clew unsealed").digest()


def store_parameters(tx: Tx, key: StoreKey) -> None:
    """Stores the parameters of a derived key in the header."""
    if key.parameters is not None:
        tx.set_header(_KDF + key_id(key.key).hex(), key.parameters)


def drop_parameters(tx: Tx, *, keep: Sequence[bytes]) -> None:
    """Removes the parameters of derived keys, except those in `keep`."""
    stay = {_KDF + key_id(key).hex() for key in keep}
    for name in tx.maintenance.headers(_KDF):
        if name not in stay:
            tx.set_header(name, None)


def candidates(tx: Tx, key: Key) -> list[bytes]:
    """The store keys that a key may mean: itself, or those derived with the stored parameters."""
    if not isinstance(key, Passphrase):
        return [check(key)]
    derived = [key.key(parameters) for parameters in tx.maintenance.headers(_KDF).values()]
    return derived or [key.new()[1]]
