"""`clew append`: stores messages from stdin; acknowledges each once it is durable."""

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
from clew.base.messages import ROLES, AnyMessage, Block, Message, Role
from clew.cli.options import examples
from clew.cli.output.text import warn
from clew.cli.setup.find import find_session
from clew.cli.setup.open_store import also_option, default_rules, open_or_create, rules, store_option

LONGEST = 128 * 1024 * 1024
"""Largest size of a line in bytes. A message of 64 MiB may be larger as JSON; a line is read into memory."""


class InputLine(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One line of input. Accepts the output of `clew show --jsonl`, but ignores handle, parent and compactions."""

    role: Role | None = None
    text: str | None = None
    content: str | tuple[Block, ...] | None = None
    """Another name for text, or for blocks, which most providers use."""
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
    compacted: int | None = None


class InputMessage(NamedTuple):
    """A message from the input, and its line number."""

    number: int
    message: AnyMessage
    id: str | None
    created_at: datetime | None


_decode = msgspec.json.Decoder(InputLine).decode


@click.command(
    epilog=examples(
        'echo \'{"text": "Why does it fail?"}\' | clew append --title "Build fails"',
        'echo \'{"role": "assistant", "text": "The lint step."}\' | clew append k3m9qa',
        "clew show k3m9qa --jsonl | jq -c 'del(.id)' | clew append",
        more="Each line is one of:\n"
        '  {"role": "user", "text": "…"}              the role is optional\n'
        '  {"role": "user", "content": "…"}           the same\n'
        '  {"role": "assistant", "blocks": [{"type": "text", "text": "…"}, …]}\n'
        '  {"provider": "anthropic", "raw": "{…}"}    the provider\'s JSON, as a string\n'
        'Optional fields: "id" (a UUID; a line sent twice is stored once),\n'
        '"created_at" (ISO 8601 with time zone), "model", "usage", "label", "extra".',
    ),
)
@click.argument("session", required=False, metavar="[CONVERSATION]")
@click.option("--title", help="Title of the new conversation.")
@click.option("--cwd", metavar="DIR", help="Directory of the new conversation.  [default: current directory]")
@click.option("--label", "labels", multiple=True, help="Label of the new conversation; repeatable.")
@click.option("--role", type=click.Choice(ROLES), default="user", help="Role of lines without one.  [default: user]")
@click.option("--redact", is_flag=True, help="Remove secrets before storing.  [default: your settings]")
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
    """Append messages from stdin, one JSON object per line, to CONVERSATION.

    Prints {"id": "…"} for each message once it is durable. Without CONVERSATION, the first message starts a new one;
    its ID is printed to stderr. A line that cannot be stored stops the command; the lines before it remain stored. With
    redaction, the output names the rules that matched: {"id": "…", "redacted": ["github-token"]}.
    """
    if also and not redact:
        raise click.UsageError("--also requires --redact")
    if session is not None and (title is not None or cwd is not None or labels):
        raise click.UsageError("--title, --cwd and --label are for new conversations; omit CONVERSATION to start one")
    if sys.stdin.isatty():
        warn("Type one JSON object per line. Press Ctrl+D to finish.")
    by = rules(also) if redact else default_rules()
    with open_or_create(redact=by) as store:
        into = None if session is None else find_session(store, session)
        for given in read_messages(sys.stdin.buffer, role):
            try:
                if into is None:
                    with store.transaction():  # an invalid first message leaves no empty session
                        made = store.sessions.create(title=title, cwd=os.path.abspath(cwd or "."), labels=labels)
                        node = made.append(given.message, id=given.id, created_at=given.created_at)
                    into = made
                    warn(f"conversation {into.id} ({into.handle})")
                else:
                    node = into.append(given.message, id=given.id, created_at=given.created_at)
            except clew.ClewError as error:
                error.message = f"line {given.number}: {error.message}"
                raise
            found = () if by is None else node.redactions
            redacted = f', "redacted": {json.dumps(found)}' if found else ""
            sys.stdout.write(f'{{"id": "{node.id}"{redacted}}}\n')
            sys.stdout.flush()


def read_messages(source: IO[bytes], role: Role) -> Iterator[InputMessage]:
    """The messages of the input, each as soon as its line arrives. Invalid, with the line number."""
    number = 0
    while line := source.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST:
            raise clew.Invalid(
                f"line {number} is longer than {LONGEST >> 20} MiB", hint="Put each message on its own line."
            )
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            yield _read(line, number, role)


def _read(line: bytes, number: int, role: Role) -> InputMessage:
    try:
        given = _with_content(_decode(line))
        return InputMessage(number, _message(given, role), given.id, given.created_at)
    except RecursionError:
        raise clew.Invalid(f"line {number}: nested too deeply") from None
    except UnicodeDecodeError:
        raise clew.Invalid(f"line {number}: not UTF-8") from None
    except msgspec.ValidationError as error:
        raise clew.Invalid(
            f"line {number}: {error}", hint="See the format of a line with: clew append --help"
        ) from None
    except msgspec.DecodeError as error:
        raise clew.Invalid(f"line {number}: {error}", hint="Each line must be one complete JSON object.") from None
    except clew.Invalid as error:
        error.message = f"line {number}: {error.message}"
        raise


def _with_content(line: InputLine) -> InputLine:
    """A line whose `content` is its text or its blocks. Invalid if it has them too."""
    if line.content is None:
        return line
    if line.text is not None or line.blocks is not None or line.raw is not None:
        raise clew.Invalid("a message has content, text, blocks or raw", hint="Use only one of them.")
    if isinstance(line.content, str):
        return msgspec.structs.replace(line, text=line.content, content=None)
    return msgspec.structs.replace(line, blocks=line.content, content=None)


def _message(line: InputLine, role: Role) -> AnyMessage:
    if line.provider is not None or line.raw is not None:
        if line.provider is None or line.raw is None:
            raise clew.Invalid("a native message needs both provider and raw")
        if line.blocks is not None or line.model is not None or line.usage is not None:
            hint = "Remove them; they are read from raw."
            raise clew.Invalid("a native message cannot have blocks, model or usage", hint=hint)
        return clew.native(line.provider, line.raw, label=line.label, extra=line.extra)
    if line.blocks is None and line.text is None:
        raise clew.Invalid("a message needs text or blocks")
    blocks = (clew.Text(text=line.text or ""),) if line.blocks is None else line.blocks
    message = Message(line.role or role, blocks, line.model, line.usage, line.label, line.extra)
    if line.blocks is not None and line.text is not None and line.text != message.text:
        raise clew.Invalid("text and blocks differ", hint="Use only one of them.")
    return message
