"""Logs to which programs append: read line by line, from where the last import stopped."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import IO, Any, Protocol

from clew.sources.contract import PAUSE, Part, ReadMark, Skip, StaleMark
from clew.sources.items import BOM
from clew.sources.lines import LONGEST, read_lines

LARGE = 1 << 20
"""Files with fewer bytes get no mark: reading them again is cheap."""


class GrowingReader(Protocol):
    """Reads the lines of a log in one format."""

    @property
    def is_done(self) -> bool:
        """True if no further line is needed."""

    def line(self, number: int, data: bytes) -> Iterable[Part]:
        """The parts of a line, which has its newline. StaleMark."""

    def end(self) -> Iterable[Part]:
        """The parts that are known only after the last line."""

    def state(self) -> dict[str, Any]:
        """The state that later lines may refer to, as JSON."""

    def resume(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""


def read_growing(
    file: IO[bytes], reader: GrowingReader, mark: ReadMark | None, *, marks: bool
) -> Generator[Part, None, ReadMark | None]:
    """The parts that `reader` finds in a file, from `mark` on. Returns the next mark, if `marks` allows one."""
    offset, last = 0, 0
    if mark is not None:
        try:
            reader.resume(mark.state)
        except (KeyError, TypeError, ValueError):  # another version of clew has written it
            raise StaleMark from None
        offset, last = file.seek(mark.offset), mark.line
    for number, data, size in read_lines(file, last):
        if data is not None:
            offset, last = offset + size, number
            yield from reader.line(number, data.removeprefix(BOM) if number == 1 else data)
            if reader.is_done:
                break
        elif size == 0:
            yield PAUSE
        else:
            offset, last = offset + size, number
            yield Skip(number, f"the line has {size:,} bytes, more than {LONGEST:,}")
    yield from reader.end()
    return ReadMark(offset=offset, line=last, state=reader.state()) if marks and offset >= LARGE else None
