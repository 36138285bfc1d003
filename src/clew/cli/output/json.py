"""Output forms of commands (text, JSON, JSON lines), and sessions and messages as JSON."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal

import click
import msgspec

import clew
from clew.cli.output.text import is_terminal, out, out_json, out_jsonl

Form = Literal["text", "json", "jsonl"]


def json_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--json` and `--jsonl` to a command, which receives them as the argument `form`."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
    @click.option("--jsonl", "as_jsonl", is_flag=True, help="Print one JSON document per line.")
    @functools.wraps(command)
    def with_form(*args: Any, as_json: bool, as_jsonl: bool, **kwargs: Any) -> Any:
        if as_json and as_jsonl:
            raise click.UsageError("--json and --jsonl cannot be used together")
        form: Form = "json" if as_json else "jsonl" if as_jsonl else "text"
        return command(*args, form=form, **kwargs)

    return with_form


def out_value(value: Any, form: Form) -> None:
    """Prints one value as JSON, indented or on one line."""
    if form == "json":
        out_json(value)
    else:
        out_jsonl([value])


def out_values(values: Iterable[Any], form: Form) -> None:
    """Prints values as JSON: one list, or each on a line as it arrives."""
    if form == "json":
        out_json(list(values))
    else:
        out_jsonl(values)


def out_lines(lines: Iterable[str], *, paged: bool = True, pager: str = "") -> None:
    """Prints lines to stdout; on a terminal through PAGER, or `pager` if that is not set, if `paged` is True."""
    if paged and is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb" and (command := _command(pager)):
        _page(lines, command)
        return
    for line in lines:
        out(line)


def _command(pager: str) -> list[str]:
    """The command of the pager; empty if there is none."""
    import shlex
    import shutil

    command = shlex.split(os.environ.get("PAGER", pager))
    return command if command and shutil.which(command[0]) else []


def _page(lines: Iterable[str], command: list[str]) -> None:
    """Prints lines through a pager, as they are made; the user may leave it before the end."""
    import subprocess

    # As git does: less ends by itself if everything fits on the screen, and leaves it there.
    environment = {"LESS": "FRX", "LV": "-c", **os.environ}
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as pager:
        assert pager.stdin is not None
        try:
            for line in lines:
                pager.stdin.write(f"{line}\n".encode(errors="replace"))
            pager.stdin.close()
        except (BrokenPipeError, KeyboardInterrupt):
            with suppress(BrokenPipeError):
                pager.stdin.close()
        while True:
            try:
                pager.wait()
                break
            except KeyboardInterrupt:  # it is for the pager
                continue


def home_short(path: str, home: str | None = None) -> str:
    """A path with ~ for the home folder. Pass `home` to look it up only once for many paths."""
    home = os.path.expanduser("~") if home is None else home
    return "~" + path[len(home) :] if path == home or path.startswith(home + os.sep) else path


def iso(moment: datetime) -> str:
    """A time for JSON: UTC, with microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def session_json(session: clew.Session) -> dict[str, Any]:
    """A session as JSON."""
    counters = session.counters
    return {
        "id": session.id,
        "handle": session.handle,
        "title": session.title,
        "cwd": session.cwd,
        "model": session.model,
        "labels": list(session.labels),
        "agent": session.agent,
        "created_at": iso(session.created_at),
        "updated_at": iso(session.updated_at),
        "messages": counters.messages,
        "turns": counters.turns,
        "tokens_in": counters.tokens_in,
        "tokens_out": counters.tokens_out,
        "cost": counters.cost if counters.cost or counters.cost_known else None,
        "head_id": session.head_id,
        "forked_from": session.forked_from,
        "forked_at": session.forked_at,
        "version": session.version,
        "held": session.held,
        "hold_reason": session.hold_reason,
        "expires_at": None if session.expires_at is None else iso(session.expires_at),
        "trashed_at": None if session.trashed_at is None else iso(session.trashed_at),
        "extra": session.extra,
    }


def node_json(node: clew.Node) -> dict[str, Any]:
    """A message as JSON, in the form that `clew append` reads. A damaged message has `damaged` and no content."""
    header = {
        "id": node.id,
        "handle": node.handle,
        "parent_id": node.parent_id,
        "created_at": iso(node.created_at),
        "role": node.role,
    }
    try:
        native, text = node.native, node.text
        if native is None:
            return {**header, "text": text, **msgspec.to_builtins(node.message)}
    except clew.Corrupted as error:
        return {**header, "damaged": error.why}
    content = {"text": text, "provider": native.provider, "raw": native.raw.decode()}
    optional = {"label": native.label, "extra": native.extra}
    return {**header, **content, **{name: value for name, value in optional.items() if value is not None}}
