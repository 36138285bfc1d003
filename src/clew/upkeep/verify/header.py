"""Checks the header and the epoch row: required and allowed values, and that both match."""

from __future__ import annotations

from collections.abc import Iterator

from clew.backends import FORMAT
from clew.base.loading import loading
from clew.errors import ClewError, Corrupted
from clew.upkeep.verify.findings import Findings

_ALWAYS = {"store_id": 16, "created_at": 8}
"""Values of every store, with their sizes."""
_PLAIN = {"lookup_key": 32}
_MARKS = {"unclean": 8, "unclean objects": 8}
"""Values that exist while cleanup is pending."""
_UNSEALED = {"unsealed": 16}
_KDF = "kdf "
_STATES = ("sealing", "sealed", "rotating", "unsealing")


def check_header(found: Findings) -> None:
    """The header has the values of the store's state, each of its size; marks and key parameters are valid."""
    actual = {row[0]: row[1] for row in found.reader.execute("SELECT name, value FROM header")}
    sealed = found.tx.state().state in _STATES
    sizes: dict[str, int | None] = {**_ALWAYS, **({"secrets": None} if sealed else _PLAIN)}
    optional: dict[str, int | None] = {**_MARKS, **({"rekey": None} if sealed else _UNSEALED)}
    for name in sorted(sizes.keys() | actual.keys(), key=str):
        value, size = actual.get(name), (sizes | optional).get(name)
        if name not in sizes and name not in optional:
            if not sealed or not isinstance(name, str) or not name.startswith(_KDF):
                kind = "sealed" if sealed else "not sealed"
                found.add("header", str(name)[:64], f"format {FORMAT} has no such value in a store that is {kind}")
        elif not isinstance(value, bytes) or len(value) != (len(value) if size is None else size):
            found.add("header", name, "it is missing" if value is None else "it has the wrong size")
    if sealed:
        for name, problem in _problems(found, [name for name in actual if str(name).startswith(_KDF)]):
            found.add("header", name[:64], problem)


def check_epoch(found: Findings) -> None:
    """A sealed store names its key, and its secrets open; a plain one names none."""
    rows = found.reader.execute("SELECT state, key_id FROM epoch").fetchall()
    if any(damage.what == "epoch" for damage in found.damage) or len(rows) != 1:
        return
    state, key_id = rows[0]
    valid = state == "plain" if key_id is None else state in _STATES and isinstance(key_id, bytes) and len(key_id) == 8
    if not valid:
        found.add("epoch", "epoch", f"it is not valid in format {FORMAT}")
    elif key_id is not None:
        try:
            found.engine.secrets(found.tx)
        except Corrupted as error:
            found.add("epoch", "epoch", str(error))


def _problems(found: Findings, derivations: list[str]) -> Iterator[tuple[str, str]]:
    """Problems of the mark of a key change, and of the parameters of passphrases."""
    with loading:
        from clew.engine.sealing import header
        from clew.keys import check_parameters
        from clew.upkeep import rekey

    try:
        rekey.read_mark(found.engine, found.tx)
    except ClewError:
        yield "rekey", "it was not written with the store's key"
    packed = found.tx.header(header.SECRETS)
    ids = [] if packed is None else [id.hex() for id in header.key_ids(packed, found.engine.backend.path)]
    for name in derivations:
        if name.removeprefix(_KDF) not in ids:
            yield name, "no key of the store uses it"
        elif not check_parameters(found.tx.header(name) or b""):
            yield name, "its key parameters are not valid"
