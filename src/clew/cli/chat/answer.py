"""Prints an answer as it arrives: Markdown with dimmed thinking and one-line tool calls, or plain text."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING

from clew.base.messages import Text, Thinking, ToolCall, ToolResult
from clew.base.visible import paragraphs, plain
from clew.chat.protocols import Event, Reply
from clew.cli.output.text import clip, is_terminal, strip_colours, width
from clew.turns.faces import tool_line

if TYPE_CHECKING:
    from markdown_it.token import Token
    from rich.console import Console, RenderableType


FRAME = 0.06
"""Minimum seconds between two redraws; drawing takes at most a fifth of the time."""


def show(events: Iterable[Event], *, rich: bool) -> Reply | None:
    """Prints an answer as it arrives; returns the reply, or None."""
    return _show_rich(events) if rich else _show_plain(events)


def can_redraw() -> bool:
    """True if stdout is a terminal that can redraw lines."""
    return is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"


def _show_plain(events: Iterable[Event]) -> Reply | None:
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


def _show_rich(events: Iterable[Event]) -> Reply | None:
    screen = Screen(console())
    with _redraw_after_stop(screen), _no_echo():
        try:
            for event in events:
                screen.add(event)
        finally:
            screen.end()
    return screen.reply


@contextmanager
def _redraw_after_stop(screen: Screen) -> Iterator[None]:
    """After Ctrl+Z and fg, the screen is drawn below the output of the shell."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGCONT"):
        yield
        return
    before = signal.signal(signal.SIGCONT, lambda *_: screen.forget())
    try:
        yield
    finally:
        signal.signal(signal.SIGCONT, before)


@contextmanager
def _no_echo() -> Iterator[None]:
    """Turns off echo, so that keys do not appear in the answer; they are read with the next question."""
    if not is_terminal(sys.stdin) or os.name != "posix":
        yield
        return
    import termios

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def switch(echo: int) -> None:
        if os.tcgetpgrp(terminal) == os.getpgrp():  # a background process would be stopped
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
    """The terminal, without rich's own markup, emoji and highlighting."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=False)


def markdown(text: str, *, breaks: bool = False) -> RenderableType:
    """Renders Markdown, without control characters and hidden link targets; with `breaks`, line breaks stay.

    HTML tags, images and link definitions are printed as written.
    """
    from markdown_it import MarkdownIt
    from rich.markdown import Markdown

    rendered = Markdown("", code_theme="ansi_dark", hyperlinks=False)
    reader = MarkdownIt("commonmark").enable(["strikethrough", "table"])
    reader.disable(["html_block", "html_inline", "image", "reference"])
    rendered.parsed = reader.parse("\n".join(paragraphs(text)))
    if breaks:
        _keep_breaks(rendered.parsed)
    return rendered


def _keep_breaks(tokens: Sequence[Token]) -> None:
    """Line breaks stay line breaks, and tasks of a list get check boxes."""
    for number, token in enumerate(tokens):
        children = token.children or []
        for child in children:
            child.type = "hardbreak" if child.type == "softbreak" else child.type
        if children and number > 1 and tokens[number - 2].type == "list_item_open":
            box, _, rest = children[0].content.partition("] ")
            if box in ("[ ", "[x", "[X"):
                children[0].content = f"{'☐' if box == '[ ' else '☑'} {rest}"


def render_lines(console: Console, what: RenderableType) -> list[str]:
    """The rendered lines, without empty lines around them."""
    with console.capture() as drawn:
        console.print(what)
    lines = [line.rstrip(" ") for line in drawn.get().split("\n")]
    while lines and not strip_colours(lines[-1]).strip():
        lines.pop()
    while lines and not strip_colours(lines[0]).strip():
        lines.pop(0)
    return lines


class Screen:
    """Prints finished blocks once, and redraws the growing part below them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._words = Blocks()
        """The unfinished part of the answer."""
        self._thoughts = ""
        """The unfinished part of the thinking."""
        self._calls: dict[str, ToolCall] = {}
        self._drawn: list[str] = []
        """Lines on the screen that will be redrawn."""
        self._spaced = True
        self._lock = threading.Lock()
        self._dirty = threading.Event()
        self._ended = False
        self.reply: Reply | None = None
        if console.is_terminal:
            threading.Thread(target=self._paint, daemon=True).start()

    def add(self, event: Event) -> None:
        """Adds the next event."""
        with self._lock:
            self._take(event)
        self._dirty.set()

    def forget(self) -> None:
        """Keeps the lines on the screen. Called by signal handlers: it must not block."""
        self._drawn = []

    def end(self) -> None:
        """Prints the rest."""
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
        for line in self._render(what):
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
        """Draws the last lines of the unfinished part; lines that left the screen cannot be redrawn."""
        self._clear()
        size = self._console.size
        most = 2 * size.width * size.height
        lines: list[str] = []
        if self._thoughts.strip():
            lines = self._render(_thought(self._thoughts[-most:]))
        elif (words := self._words.end(most)).strip():
            lines = self._render(markdown(words))
        if lines and not self._spaced:
            lines.insert(0, "")
        for call in self._calls.values():
            lines += self._render(_tool_line(call, None, size.width))
        self._drawn = lines[-max(3, size.height - 2) :]
        self._console.file.write("".join(line + "\n" for line in self._drawn))
        self._console.file.flush()

    def _clear(self) -> None:
        """Erases the drawn lines. If the terminal is narrower now, a line takes several rows."""
        size = self._console.size
        rows = sum(-(-width(strip_colours(line)) // size.width) or 1 for line in self._drawn)
        if self._console.is_terminal:
            self._console.file.write("\r\x1b[K" + "\x1b[A\x1b[K" * min(rows, size.height - 1))
        self._drawn = []

    def _render(self, what: RenderableType) -> list[str]:
        return render_lines(self._console, what)


def _thought(text: str) -> RenderableType:
    from rich.text import Text as Words

    return Words("\n".join(paragraphs(text.strip())), style="dim italic")


def _tool_line(call: ToolCall | None, result: ToolResult | None, columns: int) -> RenderableType:
    from rich.text import Text as Words

    line = f"⚙ {'tool' if call is None else plain(tool_line(call, width=10_000))}"
    if result is None:
        return Words(clip(line + " …", columns), style="yellow", no_wrap=True)
    output = plain(" ".join(block.text for block in result.content if isinstance(block, Text))) or "done"
    room = max(12, columns - 4)
    line = clip(line, max(12, room * 2 // 3))
    text = Words(line, style="yellow", no_wrap=True)
    text.append(" → " if not result.is_error else " ✗ ", style="dim" if not result.is_error else "red")
    return text.append(clip(output, max(8, room - width(line))), style="dim" if not result.is_error else "red")


_FENCE = re.compile(r"\s*(?P<fence>`{3,}|~{3,})(?P<info>.*)")


class Blocks:
    """Collects text and returns finished blocks: those followed by an empty line and the start of another block.

    Does not split inside code, or before an indented line, which may belong to a list.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._empty: list[str] = []
        """Empty lines at the end; part of the block only if it continues."""
        self._rest = ""
        """The unfinished last line."""
        self._fence = ""
        """The fence of the open code block."""
        self._opening = ""
        """The first line of the open code block."""

    def add(self, text: str) -> Iterator[str]:
        """Adds text; returns the blocks that are finished."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if self._ends(line):
                yield self._cut()
            self._take(line)
        if self._ends(self._rest):
            yield self._cut()

    def rest(self) -> str:
        """The unfinished text."""
        return "".join(f"{line}\n" for line in (*self._lines, *self._empty)) + self._rest

    def end(self, most: int) -> str:
        """The last `most` characters, approximately, of the unfinished text: as much as a screen shows."""
        kept, room = [self._rest[-most:]], most - len(self._rest)
        for line in chain(reversed(self._empty), reversed(self._lines)):
            if room <= 0:
                break
            kept.append(line[-room:] + "\n")
            room -= len(line) + 1
        if room >= 0:
            return self.rest()
        return "".join([f"{self._opening}\n" if self._fence else "", *reversed(kept)])

    def clear(self) -> None:
        """Discards the unfinished text."""
        self._lines, self._empty, self._rest, self._fence = [], [], "", ""

    def _ends(self, line: str) -> bool:
        """True if this line starts a new block."""
        return bool(self._empty and not self._fence and self._lines and line[:1].strip())

    def _take(self, line: str) -> None:
        if not line.strip() and not self._fence:
            self._empty.append(line)
            return
        self._lines += [*self._empty, line]
        self._empty = []
        found = _FENCE.fullmatch(line)
        if found is None:
            return
        fence, info = found["fence"], found["info"]
        if not self._fence:
            if fence[0] == "~" or "`" not in info:  # otherwise it is inline code
                self._fence, self._opening = fence, line
        elif fence.startswith(self._fence) and not info.strip():
            self._fence = ""

    def _cut(self) -> str:
        block = "".join(f"{line}\n" for line in self._lines)
        self._lines, self._empty = [], []
        return block
