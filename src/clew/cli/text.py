"""Text for a terminal or a pipe: colour where it is wanted, and stored text that cannot command the terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

from clew.visible import escape

_BREAK = re.compile("\r\n|[\n\r\t\v\f\x85\u2028\u2029]")
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_START = re.compile("(?:\x1b\\[[0-9;]*m)*(?P<indent> *)")
_NOT_ASCII = re.compile("[^\x00-\x7e]")
_WITHOUT_WIDTH = frozenset({"Mn", "Me", "Cf"})  # categories of Unicode: marks, and what only says how to write


def plain(text: str) -> str:
    """`text` on one line, its hidden characters (see `clew.visible`) shown and not obeyed."""
    return escape(_BREAK.sub(" ", text), _shown)


def paragraphs(text: str) -> list[str]:
    """The lines of `text`, their hidden characters (see `clew.visible`) shown and not obeyed; tabs stay."""
    return escape(text.replace("\r\n", "\n"), lambda char: char if char in "\t\n" else _shown(char)).split("\n")


def readable(text: str) -> str:
    """What was typed, as text that can be stored: bytes that are no letters, and NUL, are replaced by a mark."""
    try:
        raw = text.encode(errors="surrogateescape")  # as the system hands over what it cannot decode
    except UnicodeEncodeError:
        raw = text.encode(errors="replace")
    return raw.decode(errors="replace").replace("\0", "\ufffd")


def _shown(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 1 << 8 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


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
    """How many columns `text` takes: East Asian wide letters take two; marks on a letter, and joiners, none."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(0 if category(char) in _WITHOUT_WIDTH else 1 + (east_asian_width(char) in "WF") for char in text)


def uncoloured(text: str) -> str:
    """`text` without the escape sequences of `style`."""
    return _COLOUR.sub("", text)


def many(count: int, what: str) -> str:
    """So many of them: `1 message`, `2,000 messages`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def counted(counts: Mapping[str, int]) -> str:
    """What there is any of, by names in the plural: `1 tree, 2,000 messages`."""
    return ", ".join(f"{count:,} {_one(what) if count == 1 else what}" for what, count in counts.items() if count)


def _one(what: str) -> str:
    return f"{what[:-3]}y" if what.endswith("ies") else what.removesuffix("s")


def columns() -> int | None:
    """How wide the terminal is, or COLUMNS says it is; None where nobody reads along and nothing needs to be cut."""
    if not is_terminal(sys.stdout) and not os.environ.get("COLUMNS", "").isdigit():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def fitted(line: str) -> list[str]:
    """`line` broken between words where a terminal would break it anywhere; what is indented stays so."""
    room = columns() if is_terminal(sys.stdout) else None
    if room is None or len(line) <= room // 2 or "\t" in line:  # no letter is wider than two
        return [line]
    return list(broken(line, room))


def is_terminal(stream: IO[str]) -> bool:
    """True if a person reads `stream`."""
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
    """For what is looked for."""
    return style(text, "1", stream)


def dim(text: str, stream: IO[str] | None = None) -> str:
    """For what stands beside."""
    return style(text, "2", stream)


_ROLES = {"user": "1;36", "assistant": "1;32", "tool": "1;33", "system": "1;35"}


def role_style(role: str, text: str) -> str:
    """`text` in the colour of who said it."""
    return style(text, _ROLES.get(role, "1"))


def out(line: str = "") -> None:
    """One line of data, to stdout."""
    sys.stdout.write(line + "\n")


def warn(line: str = "") -> None:
    """One line for the person, to stderr; on a terminal broken between words where it would be broken anywhere."""
    if is_terminal(sys.stderr) and len(line) > 20:
        line = "\n".join(broken(line, _size(sys.stderr)))
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def note(line: str) -> None:
    """`warn`, for what stands beside."""
    warn(dim(line, sys.stderr))


def _size(stream: IO[str]) -> int:
    """How wide the terminal of a stream is, unless COLUMNS says it is otherwise."""
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"]) or 80
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80  # some do not know how wide they are
    except (OSError, ValueError):
        return 80


def broken(line: str, room: int) -> Iterator[str]:
    """`line` as lines that are at most `room` wide, indented as it is; words that are wider stay whole."""
    start = _START.match(line)
    assert start is not None
    indent = start["indent"]
    shown, used = start[0], len(indent)
    for number, word in enumerate(line[len(shown) :].split(" ")):
        size = width(uncoloured(word))
        if number and used + 1 + size > room:
            yield shown
            shown, used = indent + word, len(indent) + size
        else:
            shown += f" {word}" if number else word
            used += size + (number > 0)
    yield shown


def out_json(value: Any) -> None:
    """One JSON document, indented."""
    _out_json(value, indent=2)


def out_jsonl(values: Iterable[Any]) -> None:
    """One JSON document per line, each as it comes."""
    for value in values:
        _out_json(value, indent=-1)


def _out_json(value: Any, indent: int) -> None:
    import msgspec

    out_document(msgspec.json.format(msgspec.json.encode(value), indent=indent).decode())


def out_document(encoded: str) -> None:
    """A JSON document as it is, but for characters that a terminal would obey or hide."""
    # JSON escapes C0 in strings itself, and has newlines between its parts. Escaped, the others mean the same.
    if (sys.stdout.encoding or "").lower().replace("-", "") == "utf8":
        out(escape(encoded, lambda char: char if char in "\t\n\r" else _json_escape(char)))
    else:
        out(_NOT_ASCII.sub(lambda found: _json_escape(found[0]), encoded))


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
