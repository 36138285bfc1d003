"""`clew hook`: called by a coding agent at each step, keeps its files and follows its transcript.

It reads what Claude Code gives its hooks on stdin, and never blocks the agent: it ends within the time that the setting
`hook_timeout` allows, errors go to stderr, nothing is written to stdout, and the exit code is 0.
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
from clew.cli import settings
from clew.cli.deadline import OutOfTime, limit
from clew.cli.exits import report
from clew.cli.follow import Follower, behind, last_prompt
from clew.cli.hook_settings import install
from clew.cli.place import store_option, writing
from clew.cli.text import plain, warn
from clew.errors import ClewError, Conflict, Invalid, NotFound
from clew.providers import integer

LONGEST = 64 * 1024 * 1024
LONGEST_PATH = 4096
"""Bytes of a path at most: no system opens a longer one."""
PATIENCE = 10.0
"""Seconds to wait for other writers, if the time is not limited."""
PATHS = ("cwd", "transcript_path", "agent_transcript_path")
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
    session's log. It never blocks the agent: errors go to stderr, the exit code is 0, and it stops after 5 seconds, or
    those of the setting hook_timeout. The next call continues with the transcript where this one stopped.
    """
    if ctx.invoked_subcommand is not None:
        return
    try:
        seconds = settings.current().value("hook_timeout")
        with limit(seconds):
            Event(_read(), seconds).run()
    except OutOfTime:
        with suppress(OSError):
            warn(f"clew: stopped after {seconds:g} seconds; 'clew config set hook_timeout' allows more")
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


def _check(field: str, path: str) -> None:
    """Invalid if a path is longer than any can be: to walk down a very long one takes minutes."""
    if len(path) > LONGEST_PATH:
        raise Invalid(f"{field} has {len(path):,} characters, a path may have {LONGEST_PATH:,}")


class Event:
    """One event. Fields and events that are not known are passed over.

    The transcript comes last: it may take all the time there is, and the next event continues with it.
    """

    def __init__(self, data: dict[str, Any], seconds: float = 0) -> None:
        self._data = data
        self._patience = seconds / 2 or PATIENCE

    def run(self) -> None:
        """Does what is to be done at this event. Invalid, or another error, if it cannot be."""
        name, tool = self._text("hook_event_name"), self._text("tool_name")
        if name not in ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStop", "SessionEnd"):
            return
        for field in PATHS:
            _check(field, self._text(field))
        with writing(timeout=self._patience) as store:
            session = self._session(store)
            if name == "PreToolUse":
                self._before(session, tool)
            elif name == "PostToolUse":
                self._after(session, tool)
            elif name == "Stop":
                self._checkpoints(session).settle(self._message(session))
            elif name == "SubagentStop":
                self._subagent(store, session)
            elif name == "SessionEnd":
                session.update(extra={**session.refresh().extra, "exit_reason": self._text("reason")})
            if name not in ("PreToolUse", "PostToolUse"):
                self._follow(store, session)

    # -- files

    def _before(self, session: clew.Session, tool: str) -> None:
        path = self._path(tool)
        if path is None and tool != "Bash":
            return
        checkpoints, message = self._checkpoints(session), self._message(session)
        try:
            kept = checkpoints.capture_tree(message) if path is None else checkpoints.capture(message, [path])
        except OutOfTime:
            warn(f"clew: {plain(path or self._text('cwd'))} is not kept")
            raise
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
        if not isinstance(path, str) or not path:
            return None
        _check(EDITS[tool], path)
        return os.path.join(self._text("cwd"), path)

    def _checkpoints(self, session: clew.Session) -> Checkpoints:
        return Checkpoints(session, session.cwd or self._text("cwd"), patience=self._patience)

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
        """Takes over the session's transcript, then those of subagents that an earlier event had no time for."""
        self._take(store, session, self._text("transcript_path"))
        for trace in session.subagents():
            self._take(store, trace, behind(trace) or "")

    def _subagent(self, store: clew.Store, session: clew.Session) -> None:
        """A subagent's transcript goes into a session of its own, which belongs to the one that sent it out."""
        path, name = self._text("agent_transcript_path"), self._text("agent_id")
        if not path or not name:
            return
        id = str(uuid.uuid5(uuid.UUID(session.id), f"agent {name}"))
        try:
            trace = store.sessions.get(id)
        except NotFound:
            agent, extra = self._text("agent_type") or "subagent", {"transcript": {"path": path}}
            trace = store.sessions.create(id=id, agent=agent, owner=session, extra=extra)
        self._take(store, trace, path)

    def _take(self, store: clew.Store, session: clew.Session, path: str) -> None:
        if not path:
            return
        follower = Follower(store, session, path)
        try:
            follower.run()
        except OutOfTime:
            warn(f"clew: {plain(path)}: {follower.left:,} bytes are left for the next call")
            raise
        except FileNotFoundError:
            return  # nothing was said yet
        except (OSError, ClewError) as error:
            warn(f"clew: the transcript is not taken over: {plain(str(error))}")

    def _text(self, name: str) -> str:
        value = self._data.get(name)
        return value if isinstance(value, str) else ""
