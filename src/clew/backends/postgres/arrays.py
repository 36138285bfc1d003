"""Arrays as the server takes them: the driver's own way to write them takes longer than the server has to work."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, pack
from typing import Any, Self

from psycopg import pq
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Dumper

_INT8, _INT8_ARRAY = 20, 1016
_BYTEA, _BYTEA_ARRAY = 17, 1001
_HEAD = "!5i"
"""One dimension, whether there are nulls, the type of the elements, how many there are, the number of the first."""
_SIZE = Struct("!i").pack
_NULL = _SIZE(-1)


class Numbers(bytes):
    """An array of bigint."""

    def __new__(cls, values: Sequence[int]) -> Self:
        count = len(values)
        sized = [8] * (2 * count)  # each after its size
        sized[1::2] = values
        return bytes.__new__(cls, pack(_HEAD + "iq" * count, 1, 0, _INT8, count, 1, *sized))


class Strings(bytes):
    """An array of bytea, in which some may be null."""

    def __new__(cls, values: Sequence[bytes | None]) -> Self:
        parts = [pack(_HEAD, 1, None in values, _BYTEA, len(values), 1)]
        for value in values:
            parts += (_NULL,) if value is None else (_SIZE(len(value)), value)
        return bytes.__new__(cls, b"".join(parts))


class _AsIs(Dumper):
    format = pq.Format.BINARY

    def dump(self, obj: Any) -> Buffer:
        return obj  # type: ignore[no-any-return]


class _NumbersDumper(_AsIs):
    oid = _INT8_ARRAY


class _StringsDumper(_AsIs):
    oid = _BYTEA_ARRAY


def register(adapters: AdaptersMap) -> None:
    """Lets statements have them as values."""
    adapters.register_dumper(Numbers, _NumbersDumper)
    adapters.register_dumper(Strings, _StringsDumper)
