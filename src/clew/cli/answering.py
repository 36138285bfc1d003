"""An answer on the screen as it comes: Markdown, code, thoughts dimmed, a tool call on one line; or as plain text."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from clew.chat.events import Event, Reply
from clew.cli.text import clip, is_terminal, paragraphs, plain
from clew.model import Text, Thinking, ToolCall, ToolResult

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_SEQUENCES = re.compile(r"\x1b\[[0-9;]*m")
FRAME = 0.06
"""Seconds between two pictures of what is being written."""


def show(events: Iterable[Event], *, rich: bool) -> Reply | None:
    """Shows an answer as it comes; the reply at its end, None if it has none."""
    return _rich(events) if rich else _plain(events)


def can_paint() -> bool:
    """True if the answer goes to a terminal that can take back what it shows."""
    import os

    return is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"


def _plain(events: Iterable[Event]) -> Reply | None:
    reply, last = None, "\n"
    try:
        for event in events:
            if isinstance(event, Text):
                words = "\n".join(paragraphs(event.text))
                sys.stdout.write(words)
                sys.stdout.flush()
                last = words[-1:] or last
            elif isinstance(event, Reply):
                reply = event
    finally:
        if last != "\n":
            sys.stdout.write("\n")
            sys.stdout.flush()
    return reply


def _rich(events: Iterable[Event]) -> Reply | None:
    screen = Screen(console())
    try:
        for event in events:
            screen.add(event)
    finally:
        screen.end()
    return screen.reply


def console() -> Console:
    """The terminal. What rich would read out of the text by itself, markup, emoji, numbers, stays as it is."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=False)


def markdown(text: str) -> RenderableType:
    """Text as Markdown, without control characters and without addresses that hide behind words."""
    from rich.markdown import Markdown

    return Markdown("\n".join(paragraphs(text)), code_theme="ansi_dark", hyperlinks=False)


class Screen:
    """What is finished is printed and stays; the part that still grows is drawn over and over, below it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open = ""
        """What is not finished yet."""
        self._thinks = False
        self._calls: dict[str, ToolCall] = {}
        self._height = 0
        """Lines on the screen that will be drawn over."""
        self._spaced = True
        self._lock = threading.Lock()
        self._dirty = threading.Event()
        self._ended = False
        self.reply: Reply | None = None
        if console.is_terminal:
            threading.Thread(target=self._paint, daemon=True).start()

    def add(self, event: Event) -> None:
        """Takes the next piece."""
        with self._lock:
            self._take(event)
        self._dirty.set()

    def end(self) -> None:
        """Prints what is left."""
        with self._lock:
            self._ended = True
            self._flush()
            for call in self._calls.values():
                self._print(_tool_line(call, None, self._console.width), space=False)
            self._clear()
        self._dirty.set()

    def _take(self, event: Event) -> None:
        match event:
            case Text() | Thinking():
                thinks = isinstance(event, Thinking)
                if thinks != self._thinks:
                    self._flush()
                self._thinks = thinks
                self._open += event.text
                if not thinks:
                    *done, self._open = blocks(self._open)
                    for block in done:
                        self._print(markdown(block))
            case ToolCall():
                self._flush()
                self._calls[event.id] = event
            case ToolResult():
                call = self._calls.pop(event.call_id, None)
                self._print(_tool_line(call, event, self._console.width), space=False)
            case Reply():
                self.reply = event

    def _flush(self) -> None:
        if self._open.strip():
            self._print(self._shown())
        self._open = ""

    def _shown(self) -> RenderableType:
        from rich.text import Text as Words

        if self._thinks:
            return Words("\n".join(paragraphs(self._open.strip())), style="dim italic")
        return markdown(self._open)

    def _print(self, what: RenderableType, *, space: bool = True) -> None:
        self._clear()
        if space and not self._spaced:
            self._console.print()
        for line in self._rendered(what):
            self._console.file.write(line + "\n")
        self._console.file.flush()
        self._spaced = False

    def _paint(self) -> None:
        while not self._ended:
            self._dirty.wait()
            self._dirty.clear()
            with self._lock:
                if not self._ended:
                    self._draw()
            time.sleep(FRAME)

    def _draw(self) -> None:
        """Draws what is open: its last lines, because what has left the screen cannot be drawn over."""
        self._clear()
        lines = [] if self._spaced or not self._open.strip() else [""]
        lines += self._rendered(self._shown()) if self._open.strip() else []
        for call in self._calls.values():
            lines += self._rendered(_tool_line(call, None, self._console.width))
        lines = lines[-max(3, self._console.height - 2) :]
        self._console.file.write("".join(line + "\n" for line in lines))
        self._console.file.flush()
        self._height = len(lines)

    def _clear(self) -> None:
        self._console.file.write("\r\x1b[K" + "\x1b[A\x1b[K" * self._height if self._height else "")
        self._height = 0

    def _rendered(self, what: RenderableType) -> list[str]:
        """The lines of something, without the empty ones around it."""
        with self._console.capture() as drawn:
            self._console.print(what)
        lines = [line.rstrip(" ") for line in drawn.get().split("\n")]
        while lines and not _SEQUENCES.sub("", lines[-1]).strip():
            lines.pop()
        while lines and not _SEQUENCES.sub("", lines[0]).strip():
            lines.pop(0)
        return lines


def blocks(text: str) -> Iterator[str]:
    """Markdown cut where one block ends and another begins: at empty lines outside of code. The last may be empty."""
    block: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        start = line.lstrip()[:3]
        if start in ("```", "~~~") and (not fence or start == fence):
            fence = "" if fence else start
        if not line.strip() and line.endswith("\n") and not fence and any(part.strip() for part in block):
            yield "".join(block)
            block = []
        else:
            block.append(line)
    yield "".join(block)


def _tool_line(call: ToolCall | None, result: ToolResult | None, width: int) -> RenderableType:
    from rich.text import Text as Words

    name = "tool" if call is None else plain(call.name)
    given = "" if call is None else ", ".join(f"{plain(key)}={_short(value)}" for key, value in call.arguments.items())
    line = f"⚙ {name}({given})"
    if result is None:
        return Words(clip(line + " …", width), style="yellow", no_wrap=True)
    said = plain(" ".join(block.text for block in result.content if isinstance(block, Text))) or "done"
    room = max(12, width - 4)
    line = clip(line, max(12, room * 2 // 3))
    shown = Words(line, style="yellow", no_wrap=True)
    shown.append(" → " if not result.is_error else " ✗ ", style="dim" if not result.is_error else "red")
    return shown.append(clip(said, max(8, room - len(line))), style="dim" if not result.is_error else "red")


def _short(value: Any) -> str:
    return clip(plain(msgspec.json.encode(value).decode()), 40)
