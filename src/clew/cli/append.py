"""`clew append`: messages from a pipe into a session, each acknowledged once it is durable."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import IO, Annotated, Any, NamedTuple

import click
import msgspec

import clew
from clew.cli.place import store_option, writing
from clew.cli.rules import also_option, in_settings, rules
from clew.cli.text import warn
from clew.model import ROLES, Block, Message, Role, Said

LONGEST = 128 * 1024 * 1024
"""Bytes of one line at most. A message has 64 MiB; written as JSON it may need more, and a line is held in memory."""


class Line(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One line of input. What `clew show --jsonl` writes can be read; where the message stood is passed over."""

    role: Role | None = None
    text: str | None = None
    blocks: tuple[Block, ...] | None = None
    model: str | None = None
    usage: clew.Usage | None = None
    label: str | None = None
    extra: dict[str, Any] | None = None
    provider: str | None = None
    raw: str | None = None
    id: str | None = None
    created_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    handle: str | None = None
    parent_id: str | None = None


class Given(NamedTuple):
    """A message from the input, and the number of its line."""

    number: int
    said: Said
    id: str | None
    created_at: datetime | None


_decode = msgspec.json.Decoder(Line).decode


@click.command(
    short_help="Store messages, given as JSON lines.",
    epilog="\b\nExamples:\n"
    '  echo \'{"text": "Why does it fail?"}\' | clew append --title "Build fails"\n'
    '  echo \'{"role": "assistant", "text": "The lint step."}\' | clew append k3m9qa\n'
    "  clew show k3m9qa --jsonl | jq -c 'del(.id)' | clew append\n\n\b\n"
    "A line is one of\n"
    '  {"role": "user", "text": "…"}              role may be left out\n'
    '  {"role": "assistant", "blocks": [{"type": "text", "text": "…"}, …]}\n'
    '  {"provider": "anthropic", "raw": "{…}"}    the provider\'s JSON as text, kept as it is\n'
    'and may have "id" (a UUID: the same line sent again is stored once), "created_at"\n'
    '(ISO, with its zone), "model", "usage", "label", "extra".',
)
@click.argument("session", required=False)
@click.option("--title", help="Title of the new session.")
@click.option("--cwd", metavar="DIR", help="Directory of the new session.  [default: here]")
@click.option("--label", "labels", multiple=True, help="Label of the new session; may be repeated.")
@click.option("--role", type=click.Choice(ROLES), default="user", help="Role of lines that name none.  [default: user]")
@click.option("--redact", is_flag=True, help="Take secrets out before anything is stored.  [default: your settings]")
@also_option
@store_option
def append(
    session: str | None,
    title: str | None,
    cwd: str | None,
    labels: tuple[str, ...],
    role: Role,
    redact: bool,
    also: tuple[str, ...],
) -> None:
    """Reads messages from stdin, one JSON object per line, and appends each to SESSION as it comes.

    Prints {"id": "…"} for a message once it is durable, and not before. Without SESSION the first message begins a new
    session, whose id goes to stderr. A line that cannot be stored ends it; the lines before it stay stored. If it
    redacts, a message in which something was found says by which rules: {"id": "…", "redacted": ["github-token"]}.
    """
    if also and not redact:
        raise click.UsageError("--also says what --redact is to find beside secrets: give both")
    if session is not None and (title is not None or cwd is not None or labels):
        raise click.UsageError("--title, --cwd and --label describe a new session: leave out SESSION, or them")
    if sys.stdin.isatty():
        warn("Type one JSON object per line; Ctrl-D ends.")
    by = rules(also) if redact else in_settings()
    with writing(redact=by) as store:
        into = None if session is None else store.sessions.get(session)
        for given in lines(sys.stdin.buffer, role):
            try:
                if into is None:
                    with store.transaction():  # a first message that cannot be stored leaves no empty session
                        made = store.sessions.create(title=title, cwd=os.path.abspath(cwd or "."), labels=labels)
                        node = made.append(given.said, id=given.id, created_at=given.created_at)
                    into = made
                    warn(f"session {into.id} ({into.handle})")
                else:
                    node = into.append(given.said, id=given.id, created_at=given.created_at)
            except clew.ClewError as error:
                error.message = f"line {given.number}: {error.message}"
                raise
            found = () if by is None else node.redactions
            redacted = f', "redacted": {json.dumps(found)}' if found else ""
            sys.stdout.write(f'{{"id": "{node.id}"{redacted}}}\n')
            sys.stdout.flush()


def lines(source: IO[bytes], role: Role) -> Iterator[Given]:
    """The messages of the input, each as soon as its line is there. Invalid, naming the line, if one is none."""
    number = 0
    while line := source.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST:
            raise clew.Invalid(f"line {number} is longer than {LONGEST >> 20} MiB", hint="One message is one line.")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            yield _read(line, number, role)


def _read(line: bytes, number: int, role: Role) -> Given:
    try:
        given = _decode(line)
        return Given(number, _said(given, role), given.id, given.created_at)
    except RecursionError:
        raise clew.Invalid(f"line {number}: it is nested too deeply") from None
    except UnicodeDecodeError:
        raise clew.Invalid(f"line {number}: it is not UTF-8") from None
    except msgspec.ValidationError as error:
        raise clew.Invalid(f"line {number}: {error}", hint="'clew append --help' shows what a line may hold.") from None
    except msgspec.DecodeError as error:
        raise clew.Invalid(f"line {number}: {error}", hint="Each line is one JSON object, complete.") from None
    except clew.Invalid as error:
        error.message = f"line {number}: {error.message}"
        raise


def _said(line: Line, role: Role) -> Said:
    if line.provider is not None or line.raw is not None:
        if line.provider is None or line.raw is None:
            raise clew.Invalid("a native message has both provider and raw")
        if line.blocks is not None or line.model is not None or line.usage is not None:
            raise clew.Invalid("a native message says its blocks, model and usage itself", hint="Leave them out.")
        return clew.native(line.provider, line.raw, label=line.label, extra=line.extra)
    if line.blocks is None and line.text is None:
        raise clew.Invalid("a message has text or blocks")
    blocks = (clew.Text(text=line.text or ""),) if line.blocks is None else line.blocks
    said = Message(line.role or role, blocks, line.model, line.usage, line.label, line.extra)
    if line.blocks is not None and line.text is not None and line.text != said.text:
        raise clew.Invalid("text and blocks say different things", hint="Give one of them.")
    return said
