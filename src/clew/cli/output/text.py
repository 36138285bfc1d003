"""Text for a terminal or a pipe: colours, widths, and escaping of control characters in stored text."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any

from clew.base.visible import escape

if TYPE_CHECKING:
    pass


_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_START = re.compile("(?:\x1b\\[[0-9;]*m)*(?P<indent> *)")
_NOT_ASCII = re.compile("[^\x00-\x7e]")
_WITHOUT_WIDTH = frozenset({"Mn", "Me", "Cf"})  # Unicode categories: combining marks and format characters


def readable(text: str) -> str:
    """Typed text that can be stored: invalid bytes and NUL are replaced by U+FFFD."""
    try:
        raw = text.encode(errors="surrogateescape")  # Python's form of undecodable arguments
    except UnicodeEncodeError:
        raw = text.encode(errors="replace")
    return raw.decode(errors="replace").replace("\0", "\ufffd")


def clip(text: str, limit: int, end: str = "…") -> str:
    """`text`, at most `limit` columns wide."""
    if len(text) <= limit and width(text) <= limit:
        return text
    room, kept = limit - len(end), []
    for char in text:
        room -= width(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept) + end if limit >= len(end) else ""


def pad(text: str, columns: int) -> str:
    """`text` filled with spaces to `columns`."""
    return text + " " * (columns - width(text))


def width(text: str) -> int:
    """The width of `text` in columns: two for East Asian wide characters, none for combining marks."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(0 if category(char) in _WITHOUT_WIDTH else 1 + (east_asian_width(char) in "WF") for char in text)


def strip_colours(text: str) -> str:
    """`text` without the escape sequences of `style`."""
    return _COLOUR.sub("", text)


def list_counts(counts: Mapping[str, int]) -> str:
    """All counts above 0, with plural names as keys: `1 tree, 2,000 messages`. Sessions are named conversations."""
    return ", ".join(f"{count:,} {_noun(what, count)}" for what, count in counts.items() if count)


def _noun(what: str, count: int) -> str:
    what = what.replace("sessions", "conversations")
    return what if count != 1 else f"{what[:-3]}y" if what.endswith("ies") else what.removesuffix("s")


def columns() -> int | None:
    """The width of the terminal, or COLUMNS; None if stdout is not a terminal and nothing needs clipping."""
    if not is_terminal(sys.stdout) and not os.environ.get("COLUMNS", "").isdecimal():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def wrap(line: str) -> list[str]:
    """`line` wrapped between words to the width of the terminal; keeps its indentation."""
    room = columns() if is_terminal(sys.stdout) else None
    if room is None or len(line) <= room // 2 or "\t" in line:  # no character is wider than two columns
        return [line]
    return list(wrap_to(line, room))


def is_terminal(stream: IO[str]) -> bool:
    """True if `stream` is a terminal."""
    return stream.isatty()


def colourful(stream: IO[str]) -> bool:
    """True if `stream` shows colour: NO_COLOR forbids it, FORCE_COLOR asks for it, else a terminal has it."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def style(text: str, codes: str, stream: IO[str] | None = None) -> str:
    """`text` between the escape sequences that the numbers in `codes` name, if the stream shows colour."""
    return f"\x1b[{codes}m{text}\x1b[0m" if text and colourful(stream or sys.stdout) else text


def bold(text: str, stream: IO[str] | None = None) -> str:
    """`text` in bold."""
    return style(text, "1", stream)


def dim(text: str, stream: IO[str] | None = None) -> str:
    """`text` dimmed, for secondary information."""
    return style(text, "2", stream)


_ROLES = {"user": "1;36", "assistant": "1;32", "tool": "1;33", "system": "1;35"}


def role_style(role: str, text: str) -> str:
    """`text` in the colour of a role."""
    return style(text, _ROLES.get(role, "1"))


def out(line: str = "") -> None:
    """Prints a line of data to stdout."""
    sys.stdout.write(line + "\n")


def warn(line: str = "") -> None:
    """Prints a message for people to stderr; wraps it on a terminal."""
    if is_terminal(sys.stderr) and len(line) > 20:
        line = "\n".join(wrap_to(line, _size(sys.stderr)))
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def note(line: str) -> None:
    """`warn`, dimmed."""
    warn(dim(line, sys.stderr))


def _size(stream: IO[str]) -> int:
    """The width of a stream's terminal, or COLUMNS."""
    if os.environ.get("COLUMNS", "").isdecimal():
        return int(os.environ["COLUMNS"]) or 80
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80  # some terminals report 0
    except (OSError, ValueError):
        return 80


def wrap_to(line: str, room: int) -> Iterator[str]:
    """`line` as lines of at most `room` columns with the same indentation; longer words stay whole."""
    start = _START.match(line)
    assert start is not None
    indent = start["indent"]
    shown, used = start[0], len(indent)
    for number, word in enumerate(line[len(shown) :].split(" ")):
        size = width(strip_colours(word))
        if number and used + 1 + size > room:
            yield shown
            shown, used = indent + word, len(indent) + size
        else:
            shown += f" {word}" if number else word
            used += size + (number > 0)
    yield shown


SCHEMA_VERSION = 1
"""Version of the documents that `--json` prints; `tools/documents.py` has their types."""


def out_json(value: Any) -> None:
    """Prints the document of a command, indented: an object with `schema_version`; a list becomes its `items`."""
    fields = value if isinstance(value, dict) else {"items": value}
    _out_json({"schema_version": SCHEMA_VERSION, **fields}, indent=2)


def out_foreign(value: Any) -> None:
    """Prints JSON that another program defines, indented."""
    _out_json(value, indent=2)


def out_jsonl(values: Iterable[Any]) -> None:
    """Prints one JSON document per line, each as it arrives."""
    for value in values:
        _out_json(value, indent=-1)


def _out_json(value: Any, indent: int) -> None:
    import json

    import msgspec

    from clew.sources.values import without_surrogates

    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:  # the name of a file is not UTF-8
        encoded = without_surrogates(json.dumps(msgspec.to_builtins(value)).encode())
    out_document(msgspec.json.format(encoded, indent=indent).decode())


def out_document(encoded: str) -> None:
    """Prints a JSON document; characters that a terminal would obey or hide are escaped."""
    # JSON itself escapes C0 characters in strings; newlines between its parts stay.
    if (sys.stdout.encoding or "").lower().replace("-", "") == "utf8":
        out(escape(encoded, lambda char: char if char in "\t\n\r" else _json_escape(char)))
    else:
        out(_NOT_ASCII.sub(lambda found: _json_escape(found[0]), encoded))


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
