"""An answer on the screen as it comes: Markdown, code, thoughts dimmed, a tool call on one line; or as plain text."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from clew.chat.events import Event, Reply
from clew.cli.blocks import Blocks
from clew.cli.text import clip, is_terminal, paragraphs, plain, uncoloured, width
from clew.model import Text, Thinking, ToolCall, ToolResult

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

FRAME = 0.06
"""Seconds between two pictures of what is being written, at least; drawing takes a fifth of the time at most."""


def show(events: Iterable[Event], *, rich: bool) -> Reply | None:
    """Shows an answer as it comes; the reply at its end, None if it has none."""
    return _rich(events) if rich else _plain(events)


def can_paint() -> bool:
    """True if the answer goes to a terminal that can take back what it shows."""
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
    with _going_on(screen), _unechoed():
        try:
            for event in events:
                screen.add(event)
        finally:
            screen.end()
    return screen.reply


@contextmanager
def _going_on(screen: Screen) -> Iterator[None]:
    """Stopped and brought back by a shell, the screen draws below what the shell has written."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGCONT"):
        yield
        return
    before = signal.signal(signal.SIGCONT, lambda *_: screen.forget())
    try:
        yield
    finally:
        signal.signal(signal.SIGCONT, before)


@contextmanager
def _unechoed() -> Iterator[None]:
    """While inside, keys are not shown: they would stand in the answer. They are there for the next question."""
    if not is_terminal(sys.stdin) or os.name != "posix":
        yield
        return
    import termios

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def switch(echo: int) -> None:
        if os.tcgetpgrp(terminal) == os.getpgrp():  # whoever is in the background would be stopped for it
            now = termios.tcgetattr(terminal)
            now[3] = now[3] & ~termios.ECHO | echo
            termios.tcsetattr(terminal, termios.TCSADRAIN, now)

    with suppress(OSError, termios.error):
        switch(0)
    try:
        yield
    finally:
        with suppress(OSError, termios.error):  # the terminal may be gone
            switch(before[3] & termios.ECHO)


def console() -> Console:
    """The terminal. What rich would read out of the text by itself, markup, emoji, numbers, stays as it is."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=False)


def markdown(text: str) -> RenderableType:
    """Text as Markdown, without control characters and without addresses that hide behind words.

    Nothing is left out: tags, pictures and definitions of links, which Markdown would hide, stay as they were written.
    """
    from markdown_it import MarkdownIt
    from rich.markdown import Markdown

    shown = Markdown("", code_theme="ansi_dark", hyperlinks=False)
    reader = MarkdownIt("commonmark").enable(["strikethrough", "table"])
    reader.disable(["html_block", "html_inline", "image", "reference"])
    shown.parsed = reader.parse("\n".join(paragraphs(text)))
    return shown


class Screen:
    """What is finished is printed and stays; the part that still grows is drawn over and over, below it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._words = Blocks()
        """What is not finished yet of the answer,"""
        self._thoughts = ""
        """and of what was thought."""
        self._calls: dict[str, ToolCall] = {}
        self._drawn: list[str] = []
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

    def forget(self) -> None:
        """Draws nothing over that is there now. It waits for nothing: signals call it."""
        self._drawn = []

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
            case Thinking():
                if self._words.rest().strip():
                    self._flush()
                self._thoughts += event.text
            case Text():
                if self._thoughts:
                    self._flush()
                for block in self._words.add(event.text):
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
        if self._thoughts.strip():
            self._print(_thought(self._thoughts))
        if (rest := self._words.rest()).strip():
            self._print(markdown(rest))
        self._thoughts = ""
        self._words.clear()

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
            began = time.monotonic()
            with self._lock:
                if not self._ended:
                    self._draw()
            time.sleep(max(FRAME, 4 * (time.monotonic() - began)))

    def _draw(self) -> None:
        """Draws what is open: its last lines, because what has left the screen cannot be drawn over."""
        self._clear()
        size = self._console.size
        most = 2 * size.width * size.height
        lines: list[str] = []
        if self._thoughts.strip():
            lines = self._rendered(_thought(self._thoughts[-most:]))
        elif (words := self._words.end(most)).strip():
            lines = self._rendered(markdown(words))
        if lines and not self._spaced:
            lines.insert(0, "")
        for call in self._calls.values():
            lines += self._rendered(_tool_line(call, None, size.width))
        self._drawn = lines[-max(3, size.height - 2) :]
        self._console.file.write("".join(line + "\n" for line in self._drawn))
        self._console.file.flush()

    def _clear(self) -> None:
        """Takes back what was drawn. In a terminal that is less wide by now, each line of it takes several."""
        size = self._console.size
        rows = sum(-(-width(uncoloured(line)) // size.width) or 1 for line in self._drawn)
        if self._console.is_terminal:
            self._console.file.write("\r\x1b[K" + "\x1b[A\x1b[K" * min(rows, size.height - 1))
        self._drawn = []

    def _rendered(self, what: RenderableType) -> list[str]:
        """The lines of something, without the empty ones around it."""
        with self._console.capture() as drawn:
            self._console.print(what)
        lines = [line.rstrip(" ") for line in drawn.get().split("\n")]
        while lines and not uncoloured(lines[-1]).strip():
            lines.pop()
        while lines and not uncoloured(lines[0]).strip():
            lines.pop(0)
        return lines


def _thought(text: str) -> RenderableType:
    from rich.text import Text as Words

    return Words("\n".join(paragraphs(text.strip())), style="dim italic")


def _tool_line(call: ToolCall | None, result: ToolResult | None, columns: int) -> RenderableType:
    from rich.text import Text as Words

    name = "tool" if call is None else plain(call.name)
    given = "" if call is None else ", ".join(f"{plain(key)}={_short(value)}" for key, value in call.arguments.items())
    line = f"⚙ {name}({given})"
    if result is None:
        return Words(clip(line + " …", columns), style="yellow", no_wrap=True)
    said = plain(" ".join(block.text for block in result.content if isinstance(block, Text))) or "done"
    room = max(12, columns - 4)
    line = clip(line, max(12, room * 2 // 3))
    shown = Words(line, style="yellow", no_wrap=True)
    shown.append(" → " if not result.is_error else " ✗ ", style="dim" if not result.is_error else "red")
    return shown.append(clip(said, max(8, room - width(line))), style="dim" if not result.is_error else "red")


def _short(value: Any) -> str:
    return clip(plain(msgspec.json.encode(value).decode()), 40)
