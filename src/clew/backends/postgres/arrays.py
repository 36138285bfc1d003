"""Arrays in the server's binary format. The driver's own conversion takes longer than the statement."""

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
"""Number of dimensions, null flag, element type, number of elements, index of the first."""
_SIZE = Struct("!i").pack
_NULL = _SIZE(-1)


class Numbers(bytes):
    """An array of bigint."""

    def __new__(cls, values: Sequence[int]) -> Self:
        count = len(values)
        sized = [8] * (2 * count)  # each value follows its size
        sized[1::2] = values
        return bytes.__new__(cls, pack(_HEAD + "iq" * count, 1, 0, _INT8, count, 1, *sized))


class Strings(bytes):
    """An array of bytea and nulls."""

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
    """Allows these types as parameters of statements."""
    adapters.register_dumper(Numbers, _NumbersDumper)
    adapters.register_dumper(Strings, _StringsDumper)
