"""Words that nobody would write by accident, and every guise in which they might reach a disk."""

from __future__ import annotations

import base64
import random
import re
import string
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

LETTERS = string.ascii_lowercase
PIECE = 10
"""Letters of a word that cannot be there by chance."""
_STREAM = re.compile(rb"\x78[\x01\x5e\x9c\xda]|\x1f\x8b\x08")
"""How zlib and gzip streams begin."""
_LARGEST = 1 << 20


def canary(chance: random.Random) -> str:
    """A word that a search index keeps whole."""
    return "".join(chance.choices(LETTERS, k=3 * PIECE))


def guises(word: str) -> Iterator[tuple[str, bytes]]:
    """The forms of a word, by name, in small letters but for base64. Each part of it is one: a page may cut it."""
    for start in range(0, len(word), PIECE):
        yield "raw", word[start : start + PIECE].encode()
    part = word[PIECE : 2 * PIECE]
    yield "utf-16-le", part.encode("utf-16-le")
    yield "utf-16-be", part.encode("utf-16-be")
    yield "json", "".join(f"\\u{ord(letter):04x}" for letter in part).encode()
    yield "hex", part.encode().hex().encode()
    for offset in range(3):
        code = base64.b64encode(b"\0" * offset + word.encode())[4:-4]  # the ends depend on what stands beside it
        yield "base64", code
        yield "base64", code.translate(bytes.maketrans(b"+/", b"-_"))


def found(words: dict[str, str], data: bytes) -> list[str]:
    """What of the words, by name, is in the data: as it is, in capitals, encoded, or in a compressed stream."""
    patterns = {(name, guise, form) for name, word in words.items() for guise, form in guises(word)}
    written = data.replace(bytes(64), bytes(1))  # most of a file that was cleared is zeros
    folded = written.lower()
    seen = {
        f"{name} as {guise}" for name, guise, form in patterns if form in (written if guise == "base64" else folded)
    }
    for start in _STREAM.finditer(data):
        inside = _inflated(data[start.start() : start.start() + _LARGEST])
        seen |= {f"{name} compressed" for name, word in words.items() if word.encode() in inside}
    return sorted(seen)


def _inflated(data: bytes) -> bytes:
    """What a stream holds, as far as it can be read."""
    try:
        return zlib.decompressobj(wbits=47).decompress(data, _LARGEST)
    except zlib.error:
        return b""


def files(path: Path) -> list[Path]:
    """A store's file, and those beside it."""
    return sorted(one for one in path.parent.iterdir() if one.name.startswith(path.name) and one.is_file())


def content(path: Path) -> bytes:
    """Every byte of a store's files as they are now, read by another process: here it would drop SQLite's locks."""
    return subprocess.run(["cat", *map(str, files(path))], capture_output=True, check=True).stdout
