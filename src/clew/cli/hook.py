"""`clew hook`: called by a coding agent at each step, keeps its files and follows its transcript.

It reads what Claude Code gives its hooks on stdin, and never stands in the agent's way: whatever goes wrong is told on
stderr, nothing is written to stdout, and the exit code is 0.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from contextlib import suppress
from typing import Any

import click

import clew
from clew import ids
from clew.checkpoints import Checkpoints
from clew.cli.exits import report
from clew.cli.follow import follow, last_prompt
from clew.cli.hook_settings import install
from clew.cli.place import store_option, writing
from clew.cli.text import plain, warn
from clew.errors import ClewError, Conflict, Invalid, NotFound
from clew.providers import integer

LONGEST = 64 * 1024 * 1024
PATIENCE = 10.0
"""Seconds that an agent may be kept waiting for other writers."""
EDITS = {"Edit": "file_path", "Write": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}
"""Tools that change one file, each with the name of the argument that says which."""


@click.group(
    invoke_without_command=True,
    short_help="Keep files and transcript of a coding agent, called by it.",
    epilog="\b\nExamples:\n  clew hook install --dry-run\n  clew hook install .claude/settings.json\n"
    "  clew hook < event.json",
)
@store_option
@click.pass_context
def hook(ctx: click.Context) -> None:
    """Reads one event of a coding agent from stdin, as Claude Code gives it to its hooks.

    Before a tool changes files they are kept, by the message it works for; the transcript is taken over into the
    session's log. It never stands in the agent's way: what goes wrong is told on stderr, and the exit code is 0.
    """
    if ctx.invoked_subcommand is not None:
        return
    try:
        Event(_read()).handle()
    except Exception as error:  # noqa: BLE001 - the agent must go on, whatever is wrong here
        with suppress(OSError):  # nobody may be there to be told
            report(error)
    ctx.exit(0)


hook.add_command(install)


def _read() -> dict[str, Any]:
    raw = sys.stdin.buffer.read(LONGEST)
    try:
        event = json.loads(raw, parse_int=integer)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise Invalid("a hook reads one JSON object from stdin", hint="'clew hook install --dry-run' says how.")
    return event


class Event:
    """One event. Fields and events that are not known are passed over."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def handle(self) -> None:
        """Does what is to be done at this event."""
        name, tool = self._text("hook_event_name"), self._text("tool_name")
        if name not in ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStop", "SessionEnd"):
            return
        with writing(timeout=PATIENCE) as store:
            session = self._session(store)
            if name == "PreToolUse":
                self._before(session, tool)
            elif name == "PostToolUse":
                self._after(session, tool)
            else:
                self._follow(store, session)
            if name == "Stop":
                self._checkpoints(session).settle(self._message(session))
            elif name == "SubagentStop":
                self._subagent(store, session)
            elif name == "SessionEnd":
                session.update(extra={**session.refresh().extra, "exit_reason": self._text("reason")})

    # -- files

    def _before(self, session: clew.Session, tool: str) -> None:
        path = self._path(tool)
        if path is None and tool != "Bash":
            return
        checkpoints, message = self._checkpoints(session), self._message(session)
        if path is None:
            kept = checkpoints.capture_tree(message)
        else:
            kept = checkpoints.capture(message, [path])
        for name, why in kept.skipped.items() if kept is not None else ():
            warn(f"clew: {plain(name)} is not kept: {plain(why)}")
        self._also(checkpoints, message, kept is not None and bool(kept.also))

    def _after(self, session: clew.Session, tool: str) -> None:
        path = self._path(tool)
        if path is not None:
            self._checkpoints(session).settle(self._message(session), [path])

    def _path(self, tool: str) -> str | None:
        """The file that a tool changes; relative ones are from where the agent is."""
        given = self._data.get("tool_input")
        path = given.get(EDITS[tool]) if tool in EDITS and isinstance(given, dict) else None
        return os.path.join(self._text("cwd"), path) if isinstance(path, str) and path else None

    def _checkpoints(self, session: clew.Session) -> Checkpoints:
        return Checkpoints(session, session.cwd or self._text("cwd"), patience=PATIENCE)

    # -- which message, which session

    def _message(self, session: clew.Session) -> str:
        """The message that the agent works for: the prompt's id, or that of what was last said in the transcript."""
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

    def _also(self, checkpoints: Checkpoints, message: str, known: bool) -> None:
        """Lets a checkpoint that is kept by its prompt be found by the message as well."""
        if known or message != self._text("prompt_id"):
            return
        try:
            found = last_prompt(self._text("transcript_path"), message)
        except (OSError, ClewError):
            return
        if found is not None and ids.maybe(found.message) is not None:
            checkpoints.alias(message, found.message)

    def _session(self, store: clew.Store) -> clew.Session:
        """The session, made at its first event; its directory is that of the project."""
        given = self._text("session_id")
        if not given:
            raise Invalid("the event names no session")
        exact = ids.maybe(given)
        id = ids.text(exact) if exact is not None else str(uuid.uuid5(uuid.NAMESPACE_URL, f"session:{given}"))
        try:
            return store.sessions.get(id)
        except NotFound:
            cwd = os.environ.get("CLAUDE_PROJECT_DIR") or self._text("cwd") or None
        try:
            return store.sessions.create(id=id, cwd=cwd)
        except Conflict:  # another hook was first
            return store.sessions.get(id)

    # -- the transcript

    def _follow(self, store: clew.Store, session: clew.Session) -> None:
        self._take(store, session, self._text("transcript_path"))

    def _subagent(self, store: clew.Store, session: clew.Session) -> None:
        """A subagent's transcript goes into a session of its own, which belongs to the one that sent it out."""
        path, name = self._text("agent_transcript_path"), self._text("agent_id")
        if not path or not name:
            return
        id = str(uuid.uuid5(uuid.UUID(session.id), f"agent {name}"))
        try:
            trace = store.sessions.get(id)
        except NotFound:
            trace = store.sessions.create(id=id, agent=self._text("agent_type") or "subagent", owner=session)
        self._take(store, trace, path)

    def _take(self, store: clew.Store, session: clew.Session, path: str) -> None:
        if not path:
            return
        try:
            follow(store, session, path)
        except FileNotFoundError:
            return  # nothing was said yet
        except (OSError, ClewError) as error:
            warn(f"clew: the transcript is not taken over: {plain(str(error))}")

    def _text(self, name: str) -> str:
        value = self._data.get(name)
        return value if isinstance(value, str) else ""
