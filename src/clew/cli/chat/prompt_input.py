"""The prompt of a chat: several lines, history, and completion of commands, models and files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from clew.cli.chat import models
from clew.cli.chat.slash_commands import COMMANDS

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

MARK = "› "
"""The prompt."""


def reader(asked: Iterable[str]) -> Callable[[], str]:
    """Returns a function that reads the next input; it raises KeyboardInterrupt, EOFError. `asked` is the history.

    The history is only in memory: on disk it would be a copy of the conversation in clear text.
    """
    if os.environ.get("TERM") == "dumb":
        return _simple
    try:
        from prompt_toolkit import PromptSession
    except ImportError:
        return _simple
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import InMemoryHistory
    from prompt_toolkit.styles import Style

    class Commands(Completer):
        def get_completions(self, document: Document, complete_event: object) -> Iterator[Completion]:
            typed = document.text_before_cursor
            word = typed.rpartition(" ")[2]
            for found, what in completions(typed):
                yield Completion(found, start_position=-len(word), display_meta=what)

    session: PromptSession[str] = PromptSession(
        history=InMemoryHistory(list(asked)), completer=Commands(), complete_while_typing=False, multiline=True,
        key_bindings=_keys(), prompt_continuation=lambda *_: "  ", style=Style.from_dict({"mark": "bold ansicyan"}),
        enable_suspend=True,
    )  # fmt: skip
    return lambda: session.prompt([("class:mark", MARK)])


def completions(typed: str) -> Iterator[tuple[str, str]]:
    """Completions for the last word of a line, with descriptions."""
    if not typed.startswith("/") or "\n" in typed:
        return
    name, space, rest = typed.partition(" ")
    if not space:
        yield from ((f"/{one}", COMMANDS[one].what) for one in COMMANDS if one.startswith(name[1:]))
    elif name == "/model":
        yield from ((one, meant) for one, meant in models.aliases().items() if one.startswith(rest))
        yield from ((one, "provider") for one in models.provider_names() if one.startswith(rest))
    elif name in ("/attach", "/save"):
        yield from ((one, "") for one in _files(rest))


def _files(typed: str) -> Iterator[str]:
    folder, begin = os.path.split(typed)
    try:
        names = sorted(os.listdir(os.path.expanduser(folder) or "."))
    except OSError:
        return
    for name in names:
        if name.startswith(begin) and (begin or not name.startswith(".")):
            path = os.path.join(folder, name)
            yield path + os.sep if os.path.isdir(os.path.expanduser(path)) else path


def _keys() -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    @keys.add("c-j")  # sent for input typed before the prompt appeared
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):  # as in a shell
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    return keys


def _simple() -> str:
    """Reads a line; a backslash at its end continues it on the next line, as in a shell."""
    lines: list[str] = []
    while not lines or lines[-1].endswith("\\"):
        sys.stdout.write("  " if lines else MARK)
        sys.stdout.flush()
        line = sys.stdin.buffer.readline().decode(errors="replace")
        if not line:
            raise EOFError
        lines.append(line.rstrip("\r\n"))
    return "\n".join([*(line[:-1] for line in lines[:-1]), lines[-1]])
