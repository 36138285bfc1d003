"""The man page, from the help of all commands. tools/docs.py writes it to docs/reference/clew.1."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

import clew
from clew.cli.command_list import ENVIRONMENT
from clew.cli.exits import MEANINGS
from clew.cli.root import cli


def manual() -> str:
    """The manual page in roff."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield '.\\" Written by tools/docs.py. Change the source, then run it.'
    yield f'.TH CLEW 1 "" "clew {clew.__version__}" "User Commands"'
    yield from (".SH NAME", "clew \\- store conversations with language models")
    yield from (".SH SYNOPSIS", ".B clew", "[OPTIONS] COMMAND [ARGS]...")
    yield from (".SH DESCRIPTION", *_prose(cli.help))
    yield from (".PP", "Data goes to stdout, everything else to stderr. An ID is a UUID or a handle.")
    yield from (".SH OPTIONS", *_options(cli))
    yield ".SH COMMANDS"
    for path, command in _commands(cli):
        yield f".SS {_text(' '.join((path, *_arguments(command))))}"
        yield from _prose(command.help)
        yield from _options(command)
        yield from _epilog(command)
    yield ".SH EXIT STATUS"
    for code, meaning in MEANINGS.items():
        yield from (".TP", f".B {code}", _text(meaning))
    yield from (".SH ENVIRONMENT", ".nf", *map(_text, ENVIRONMENT.split("\n")), ".fi")


def _commands(group: click.Group, above: str = "clew") -> Iterator[tuple[str, click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        yield f"{above} {name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{above} {name}")


def _arguments(command: click.Command) -> Iterator[str]:
    if isinstance(command, click.Group):
        yield "COMMAND"
    ctx = click.Context(command)
    yield from (param.make_metavar(ctx) for param in command.params if isinstance(param, click.Argument))


def _options(command: click.Command) -> Iterator[str]:
    ctx = click.Context(command)
    for param in command.params:
        record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
        if record is not None:
            yield from (".TP", f".B {_text(record[0])}", _text(" ".join(record[1].split())))


def _prose(text: str | None) -> Iterator[str]:
    for number, part in enumerate(inspect.cleandoc(text or "").split("\n\n")):
        if number:
            yield ".PP"
        yield _text(" ".join(part.replace("\b", "").split()))


def _epilog(command: click.Command) -> Iterator[str]:
    """The text below the options, line by line."""
    for part in (command.epilog or "").split("\n\n"):
        lines = part.replace("\b\n", "").strip("\n").split("\n")
        if lines != [""]:
            yield from (".PP", ".nf", *map(_text, lines), ".fi")


def _text(line: str) -> str:
    """A line escaped for roff."""
    escaped = line.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    escaped = re.sub(r"[^\x00-\x7f]", lambda found: f"\\[u{ord(found[0]):04X}]", escaped)
    return f"\\&{escaped}" if escaped.startswith(".") else escaped
