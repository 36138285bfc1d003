"""aider: ``.aider.chat.history.md`` in the folder of a project. Such files are not looked for: name the path.

The file is Markdown. A line ``# aider chat started at …`` begins a run, which is a conversation; ``#### `` begins a
line of a prompt, ``> `` a line of the program's own, and everything else after a prompt is the answer. Lines of the
program end in two spaces; one that does not continues in the next lines, without ``> ``.

A run is known by its time and its first prompt, and by a number if the file has another such run before it. Times
have no zone: they are taken as local. The last prompt or answer of a file is left for the next import until a line of
another kind follows it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from clew.base.messages import Block, Message, Role, Text, Thinking, Usage
from clew.sources.contract import ENVELOPE, About, Entry, Home, Part, Skip, derived_id
from clew.sources.items import Item
from clew.sources.lines import LONGEST, read_lines
from clew.sources.values import digest
from clew.turns.model import NoteRule, ShowRules

NAME = "aider"
_STARTED = "# aider chat started at "
_PROMPT, _OUTPUT, _END = "#### ", "> ", "  "
_TOKENS = re.compile(r"> Tokens: ([\d.]+[kM]?) sent,.*?([\d.]+[kM]?) received")
_MODEL = re.compile(r"> (?:Main model|Model): (\S+)")
_COMMIT = re.compile(r"> Commit [0-9a-f]{7,} ")
"""The one line after an answer whose text may have line breaks."""
_VERSION = re.compile(r"> Aider v(\S+)")
_THOUGHT = re.compile(r"<(thinking-content-\w+)>(.*?)</\1>", re.DOTALL)


RULES = ShowRules(
    notes=(
        NoteRule("shell", re.compile(r"(?:!|/run )(?P<title>[^\n]+)\Z")),
        NoteRule("command", re.compile(r"(?P<title>/(?!ask|code|architect)[a-z-]+)(?P<args> [^\n]*)?\Z")),
    )
)


class Aider:
    """See `clew.sources.contract.Source`."""

    name = NAME
    rules = RULES
    title = "aider"
    deletes_after = None

    def discover(self, home: Home) -> tuple[str, ...]:
        return ()

    def resume(self, conversation: str) -> str | None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        return head.lstrip().startswith(_STARTED.encode())

    def read(self, item: Item) -> Iterator[Part]:
        folder = os.path.dirname(item.path) if item.member is None else None
        run: _Run | None = None
        waiting: list[bytes] = []
        names = Counter[str]()
        with item.open() as file:
            for line in read_lines(file):
                if line.data is None:
                    yield Skip(line.number, f"the line has {line.size:,} bytes, more than {LONGEST:,}")
                    continue
                try:
                    text = line.data.decode().rstrip("\r\n")
                except UnicodeDecodeError:
                    yield Skip(line.number, "the line is not UTF-8")
                    continue
                if text.startswith(_STARTED):
                    if run is not None:
                        yield from run.end()
                    run, waiting = _Run(text.removeprefix(_STARTED), folder, waiting, names), []
                if run is None:
                    waiting.append(line.data)
                else:
                    yield from run.line(line.data, text)


class _Run:
    """One run of the program. Memory grows with the longest message."""

    def __init__(self, started: str, folder: str | None, before: list[bytes], names: Counter[str]) -> None:
        self._started = started.strip()
        self._names = names
        """How many runs of the file have a name."""
        self._folder = folder
        self._name: str | None = None
        self._early: list[bytes] = before
        """Lines before the first prompt: the run has no name yet."""
        self._kind = ""
        """What the block is that is being read: ``user``, ``assistant``, or nothing."""
        self._block: list[str] = []
        self._open = False
        """True after a line of the program that continues in the next line."""
        self._facts: dict[str, str] = {}
        self._above: str | None = None
        self._count = 0
        self._records = 0

    def line(self, data: bytes, text: str) -> Iterator[Part]:
        """What a line adds, once its block has ended."""
        kind = self._kind_of(text)
        if kind != self._kind or (kind == "user" and self._block and not self._block[-1].strip()):
            yield from self._finish(text)
            self._kind = kind
        if kind:
            self._block.append(data.decode())
        else:
            yield from self._output(data, text)

    def end(self) -> Iterator[Part]:
        """The last block: another run has begun, so it is whole."""
        yield from self._finish("")
        if self._name is None:
            self._name = self._new_name(digest(*self._early))
            yield from self._begin()

    def _kind_of(self, text: str) -> str:
        if text.startswith(_PROMPT) and not self._open:
            return "user"
        if text.startswith(_STARTED) and not self._count:
            return ""
        if text.startswith(_OUTPUT) and (self._kind != "assistant" or text.endswith(_END) or _COMMIT.match(text)):
            self._open = not text.endswith(_END)
            return ""
        if self._open:
            self._open = not text.endswith(_END)
            return ""
        if not text.strip():
            return self._kind
        return "assistant" if self._kind or self._count else ""

    def _output(self, data: bytes, text: str) -> Iterator[Part]:
        for name, pattern in (("model", _MODEL), ("version", _VERSION)):
            if found := pattern.match(text):
                self._facts[name] = found[1]
        if self._name is None:
            self._early.append(data)
        else:
            yield self._record(data)

    def _finish(self, following: str) -> Iterator[Part]:
        """The block so far as a message; `following` is the line after it, which may count its tokens."""
        block, self._block = "".join(self._block), []
        if not block:
            return
        if self._name is None:
            self._name = self._new_name(digest(block))
            yield from self._begin()
        role: Role = "user" if self._kind == "user" else "assistant"
        model = self._facts.get("model") if role == "assistant" else None
        around = {ENVELOPE: [block, ""]}
        message = Message(role, _blocks(role, block), model, _usage(following), extra=around)
        self._count += 1
        id = derived_id(NAME, self._name, f"{self._count}")
        yield Entry(
            conversation=self._name,
            raw=block.encode(),
            key=f"message {self._count}",
            id=id,
            message=message,
            parent=self._above,
            created_at=_local(self._started),
        )
        self._above = id

    def _new_name(self, first: str) -> str:
        """Its start, which has no parts of a second, and its first prompt; with a number for a repetition."""
        name = f"{self._started} {first}"
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name} {self._names[name]}"

    def _begin(self) -> Iterator[Part]:
        """Facts and the first lines, as soon as the run has a name."""
        assert self._name is not None
        model, version = self._facts.get("model"), self._facts.get("version")
        yield About(conversation=self._name, cwd=self._folder, model=model, version=version)
        for data in self._early:
            yield self._record(data)
        self._early = []

    def _record(self, data: bytes) -> Entry:
        assert self._name is not None
        self._records += 1
        return Entry(conversation=self._name, raw=data, key=f"record {self._records}")


def _blocks(role: Role, block: str) -> tuple[Block, ...]:
    """The words of a prompt without its marks; an answer with its thoughts set apart."""
    if role == "user":
        lines = [line.removeprefix(_PROMPT).rstrip() for line in block.splitlines()]
        return (Text(text="\n".join(lines).strip()),)
    thoughts = tuple(Thinking(text=found[2].strip()) for found in _THOUGHT.finditer(block))
    words = _THOUGHT.sub("", block).strip()
    return (*thoughts, Text(text=words)) if words or not thoughts else thoughts


def _usage(line: str) -> Usage | None:
    found = _TOKENS.match(line)
    return None if found is None else Usage(input=_count(found[1]), output=_count(found[2]))


def _count(text: str) -> int:
    """A number as the program rounds it: ``63``, ``2.3k``."""
    unit = {"k": 1000, "M": 1_000_000}.get(text[-1], 1)
    try:
        return round(float(text.rstrip("kM")) * unit)
    except ValueError:
        return 0


def _local(started: str) -> datetime | None:
    try:
        return datetime.fromisoformat(started).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
