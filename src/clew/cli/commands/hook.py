"""`clew hook`: called by a coding agent at each step; saves its files and imports its transcript.

It reads an event from stdin, in the format of Claude Code's hooks. It never blocks the agent: it ends within the time
of the setting `hook_timeout`, errors go to stderr, nothing goes to stdout, and the exit code is 0.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import click

import clew
from clew.base import ids
from clew.base.outside import open_regular
from clew.base.visible import plain
from clew.checkpoints import Checkpoints
from clew.cli.agent_hook.install import install, status, uninstall
from clew.cli.exits import report
from clew.cli.options import examples
from clew.cli.output.text import warn
from clew.cli.setup import settings
from clew.cli.setup.open_store import open_or_create, store_option
from clew.engine.session_data import SOURCE
from clew.errors import ClewError, Conflict, Invalid, NotFound
from clew.providers.view import integer

LONGEST = 64 * 1024 * 1024
LONGEST_PATH = 4096
"""Longest path; no system opens a longer one."""
PATIENCE = 10.0
"""Seconds to wait for other writers if there is no time limit."""
MOST_NAMED = 20
"""Most skipped lines of a transcript that are listed."""
PATHS = ("cwd", "transcript_path", "agent_transcript_path")
EDITS = {"Edit": "file_path", "Write": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}
"""Tools that change one file, each with the name of its path argument."""


@click.group(
    invoke_without_command=True,
    epilog=examples("clew hook install --user", "clew hook status", "clew hook uninstall", "clew hook < event.json"),
)
@store_option
@click.pass_context
def hook(ctx: click.Context) -> None:
    """Process one event of a coding agent, read from stdin in the format of Claude Code hooks.

    Saves files before a tool changes them, and stores the agent's transcript as a conversation. Never blocks the agent:
    errors go to stderr, the exit code is 0, and it stops after 5 seconds (setting: hook_timeout). The next call
    continues with the rest of the transcript.
    """
    if ctx.invoked_subcommand is not None:
        return
    try:
        seconds = settings.current().value("hook_timeout")
        with limit(seconds):
            HookEvent(_read(), seconds).run()
    except OutOfTime:
        with _quietly():
            warn(f"clew: stopped after {seconds:g} seconds; change the limit with 'clew config set hook_timeout'")
    except Exception as error:  # noqa: BLE001 - errors must not stop the agent
        with _quietly():
            report(error)
    ctx.exit(0)


for _command in (install, uninstall, status):
    hook.add_command(_command)


@contextmanager
def _quietly() -> Iterator[None]:
    """Ignores that stderr cannot be written; Python would otherwise exit with 120 because its last flush fails."""
    try:
        yield
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _read() -> dict[str, Any]:
    raw = sys.stdin.buffer.read(LONGEST)
    try:
        event = json.loads(raw, parse_int=integer)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        hint = "See 'clew hook install --dry-run' for the setup."
        raise Invalid("clew hook expects one JSON object on stdin", hint=hint)
    return event


def _check(field: str, path: str) -> None:
    """Invalid if a path is too long; resolving a very long one takes minutes."""
    if len(path) > LONGEST_PATH:
        raise Invalid(f"{field} has {len(path):,} characters; the limit for a path is {LONGEST_PATH:,}")


class HookEvent:
    """One event of the agent; unknown fields and events are ignored.

    The transcript comes last, because it may need all the time; the next event continues with it.
    """

    def __init__(self, data: dict[str, Any], seconds: float = 0) -> None:
        self._data = data
        self._patience = seconds / 2 or PATIENCE

    def run(self) -> None:
        """Processes the event. Invalid, or another error."""
        name, tool = self._text("hook_event_name"), self._text("tool_name")
        if name not in ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStop", "SessionEnd"):
            return
        for field in PATHS:
            _check(field, self._text(field))
        with open_or_create(timeout=self._patience) as store:
            session = self._session(store)
            if name == "PreToolUse":
                self._before(session, tool)
            elif name == "PostToolUse":
                self._after(session, tool)
            elif name == "Stop":
                self._checkpoints(session).settle(self._message(session))
            elif name == "SessionEnd":
                session.update(extra={**session.refresh().extra, "exit_reason": self._text("reason")})
            if name not in ("PreToolUse", "PostToolUse"):
                self._follow(store)

    # -- files

    def _before(self, session: clew.Session, tool: str) -> None:
        path = self._path(tool)
        if path is None and tool != "Bash":
            return
        checkpoints, message = self._checkpoints(session), self._message(session)
        try:
            kept = checkpoints.capture_tree(message) if path is None else checkpoints.capture(message, [path])
        except OutOfTime:
            warn(f"clew: not saved: {plain(path or self._text('cwd'))}")
            raise
        for name, why in kept.skipped.items() if kept is not None else ():
            warn(f"clew: not saved: {plain(name)}: {plain(why)}")
        self._add_alias(checkpoints, message, kept is not None and bool(kept.also))

    def _after(self, session: clew.Session, tool: str) -> None:
        path = self._path(tool)
        if path is not None:
            self._checkpoints(session).settle(self._message(session), [path])

    def _path(self, tool: str) -> str | None:
        """The file that a tool changes; relative paths start at the agent's directory."""
        given = self._data.get("tool_input")
        path = given.get(EDITS[tool]) if tool in EDITS and isinstance(given, dict) else None
        if not isinstance(path, str) or not path:
            return None
        _check(EDITS[tool], path)
        return os.path.join(self._text("cwd"), path)

    def _checkpoints(self, session: clew.Session) -> Checkpoints:
        return Checkpoints(session, session.cwd or self._text("cwd"), patience=self._patience)

    # -- which message, which session

    def _message(self, session: clew.Session) -> str:
        """The message that the agent works for: the prompt's ID, or the last prompt in the transcript."""
        prompt = ids.maybe(self._text("prompt_id"))
        if prompt is not None:
            return ids.text(prompt)
        try:
            found = last_prompt(self._text("transcript_path"))
        except (OSError, ClewError):
            found = None
        if found is not None and ids.maybe(found.message) is not None:
            return found.message
        return str(uuid.uuid5(uuid.UUID(session.id), "before the first prompt"))

    def _add_alias(self, checkpoints: Checkpoints, message: str, known: bool) -> None:
        """Makes a checkpoint that is stored under a prompt's ID available under the message's ID."""
        if known or message != self._text("prompt_id"):
            return
        try:
            found = last_prompt(self._text("transcript_path"), message)
        except (OSError, ClewError):
            return
        if found is not None and ids.maybe(found.message) is not None:
            checkpoints.alias(message, found.message)

    def _session(self, store: clew.Store) -> clew.Session:
        """The session, created at its first event; its directory is that of the project.

        A session that the agent has forked has the messages of another one, and belongs into the same tree.
        """
        given = self._text("session_id")
        if not given:
            raise Invalid("the event has no session_id")
        exact = ids.maybe(given)
        id = ids.text(exact) if exact is not None else str(uuid.uuid5(uuid.NAMESPACE_URL, f"session:{given}"))
        try:
            return store.sessions.get(id)
        except NotFound:
            cwd = os.environ.get("CLAUDE_PROJECT_DIR") or self._text("cwd") or None
        from clew.sources.claude_code import NAME

        try:
            origin = {SOURCE: {"tool": NAME, "id": given}}
            return store.sessions.create(id=id, cwd=cwd, at=self._first_stored(store), extra=origin)
        except Conflict:  # another hook was first
            return store.sessions.get(id)

    def _first_stored(self, store: clew.Store) -> str | None:
        """The first message of the transcript, if it is stored."""
        try:
            first = ids.maybe(first_message(self._text("transcript_path")) or "")
            return None if first is None else store.nodes.get(ids.text(first))[0].id
        except (OSError, ClewError):
            return None

    # -- the transcript

    def _follow(self, store: clew.Store) -> None:
        """Imports the session's transcript and those of subagents, also what an earlier event had no time for."""
        from clew.cli.agent_hook.transcript import TranscriptImport, subagent_logs

        own, importing = self._text("transcript_path"), TranscriptImport(store)
        paths = [own, *subagent_logs(own)] if own else []
        for path in dict.fromkeys([*paths, self._text("agent_transcript_path")]):
            try:
                for why in importing.take(path)[:MOST_NAMED] if path else ():
                    warn(f"clew: skipped {plain(path)}: {plain(why)}")
            except OutOfTime:
                warn(f"clew: {plain(path)}: the rest is left for the next call, or for 'clew import'")
                raise
            except (OSError, ClewError) as error:
                warn(f"clew: transcript not imported: {plain(str(error))}")

    def _text(self, name: str) -> str:
        value = self._data.get(name)
        return value if isinstance(value, str) else ""


GRACE = 1.0
"""Seconds for an orderly end before the process is terminated."""
_BEAT = 0.1


class OutOfTime(KeyboardInterrupt):
    """The time limit is reached. Like Ctrl+C, it is raised anywhere in the main thread, and is not an Exception."""


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raises OutOfTime after `seconds`; if that does not end the block, ends the process with exit code 0.

    No limit with 0 seconds, or outside the main thread, which alone receives signals.
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return
    over, rung, main = threading.Event(), threading.Event(), threading.get_ident()

    def ring(*_: object) -> None:
        if not rung.is_set():
            rung.set()
            raise OutOfTime

    def wait() -> None:
        if over.wait(seconds):
            return
        for _ in range(round(GRACE / _BEAT)):  # repeat: a signal just before a wait does not end it
            if hasattr(signal, "pthread_kill"):
                signal.pthread_kill(main, signal.SIGALRM)
            if over.wait(_BEAT):
                return
        with suppress(OSError):
            os.write(2, f"clew: stopped after {seconds:g} seconds\n".encode())
        os._exit(0)

    before = signal.signal(signal.SIGALRM, ring) if hasattr(signal, "SIGALRM") else None
    watching = threading.Thread(target=wait, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
        rung.set()  # ignore a signal that arrives late
        if before is not None:
            signal.signal(signal.SIGALRM, before)


BACK = 16 * 1024 * 1024
"""Bytes from the end in which the last prompt is searched."""
FIRST = 20
"""Lines in which the first message is searched."""
_BLOCK = 1 << 16


class TranscriptPrompt(NamedTuple):
    """A user message: its ID, and the ID of its prompt if the transcript contains it."""

    message: str
    prompt: str | None


def last_prompt(path: str, prompt: str | None = None) -> TranscriptPrompt | None:
    """The last user message of a transcript, or that of a prompt; None if not found. Unavailable, Invalid."""
    for line in _backwards(path):
        if b'"user"' not in line:
            continue
        event = _event(line)
        if event is not None and _is_prompt(event) and (prompt is None or event.get("promptId") == prompt):
            of = event.get("promptId")
            return TranscriptPrompt(event["uuid"], of if isinstance(of, str) else None)
    return None


def first_message(path: str) -> str | None:
    """The ID of the first message of a transcript; None if it is not among the first lines. Unavailable, Invalid."""
    with open_regular(path) as file:
        for _ in range(FIRST):
            line = file.readline(BACK)
            if not line.endswith(b"\n"):
                break
            event = _event(line) or {}
            name = event.get("uuid")
            if event.get("type") in ("user", "assistant") and isinstance(name, str):
                return name
    return None


def _is_prompt(event: dict[str, Any]) -> bool:
    """True for a message of the user; tool results and internal messages have the same role."""
    message = event.get("message")
    if event.get("type") != "user" or event.get("isMeta") or event.get("isSidechain") or not isinstance(message, dict):
        return False
    content = message.get("content")
    if isinstance(content, list):
        kinds = {part.get("type") for part in content if isinstance(part, dict)}
        return "tool_result" not in kinds and isinstance(event.get("uuid"), str)
    return isinstance(content, str) and isinstance(event.get("uuid"), str)


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line, parse_int=integer)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _backwards(path: str) -> Iterator[bytes]:
    """The complete lines of a file, last first, within `BACK` bytes from the end."""
    with open_regular(path) as file:
        at = file.seek(0, os.SEEK_END)
        rest, least = list[bytes](), max(0, at - BACK)  # rest: parts of a line whose start is not read yet, last first
        while at > least:
            size = min(_BLOCK, at)
            at -= size
            file.seek(at)
            *whole, last = reversed(file.read(size).split(b"\n"))
            for part in whole:
                yield b"".join([part, *reversed(rest)])
                rest.clear()
            rest.append(last)
        if at == 0:
            yield b"".join(reversed(rest))
