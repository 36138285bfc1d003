"""Compares what `--json` prints with the types in tools/documents.py, for every command that a test runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args, get_origin

import msgspec
from tools.documents import COMMANDS

from clew.cli.command_list import ALIASES
from clew.cli.commands.conversation import ALIASES as MESSAGES
from clew.cli.output.text import SCHEMA_VERSION

VALUES = {"--db", "--key-file", "--blobs"}


def command_of(args: Sequence[str]) -> str | None:
    """The command of a line, by the words of COMMANDS; None if its document has no type."""
    words = list[str]()
    skip = False
    for arg in args:
        if skip or arg.startswith("-"):
            skip = arg in VALUES
            continue
        words.append(ALIASES.get(arg, arg) if not words else MESSAGES.get(arg, arg))
        for name in (" ".join(words), " ".join([words[0], arg])):
            if name in COMMANDS:
                return name
        if len(words) == 2:
            return None
    return None


def problems(args: Sequence[str], document: dict[str, Any]) -> list[str]:
    """Why a document is none of its command's types; empty if it is one, or if the command has no type."""
    name = command_of(args)
    if name is None:
        return []
    fields = {key: value for key, value in document.items() if key != "schema_version"}
    if document.get("schema_version") != SCHEMA_VERSION:
        return [f"{name}: no schema_version"]
    found = list[str]()
    for kind in COMMANDS[name]:
        value = fields.get("items") if get_origin(kind) is list else fields
        try:
            if msgspec.to_builtins(msgspec.convert(value, kind)) == value:
                return []
            found.append(f"{name}: {getattr(kind, '__name__', kind)} lacks {unknown(value, kind)}")
        except msgspec.ValidationError as error:
            found.append(f"{name}: {getattr(kind, '__name__', kind)}: {error}")
    return found


def unknown(value: Any, kind: Any) -> object:
    """What a type drops of a value, as far as it is easy to see."""
    (kind,) = get_args(kind) if get_origin(kind) is list else (kind,)
    for one in value if isinstance(value, list) else [value]:
        kept = msgspec.to_builtins(msgspec.convert(one, kind))
        if kept != one:
            return [key for key in one if one[key] != kept.get(key)] if isinstance(one, dict) else one
    return None
