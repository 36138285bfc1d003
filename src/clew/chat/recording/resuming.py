"""Loads a stored session into a client of any provider."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from clew.base.messages import ToolCall
from clew.convert.core import Options, convert_read, read_all, rename_tools, tool_names
from clew.engine.node import Node
from clew.errors import NotFound
from clew.snapshots import ToolSnapshot, new_snapshot
from clew.store.session import Session
from clew.store.setup import setup_of
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.convert import Report

ANSWERS = ("assistant", "tool")


def through_last_answer(nodes: Sequence[Node]) -> Sequence[Node]:
    """The messages up to the last one of a model or a tool, without an unanswered question after it.

    If there is no answer at all, only the system prompt.
    """
    end = len(nodes)
    while end and nodes[end - 1].role not in ANSWERS:
        end -= 1
    return nodes[:end] or list(takewhile(lambda node: node.role == "system", nodes))


def resume(client: Any, session: Session, *, until: str | None = None, system: str | None = None) -> Report:
    """Replaces a client's conversation by a session's, `until` a message or up to its last answer.

    Messages of the client's provider are kept byte for byte, others are converted; the report lists the differences.
    Does not change the session. `system` replaces its system prompt. The model gets the stored descriptions of the
    session's tools, and only the names of other tools that were called; pass the functions to `set_tools`.
    """
    nodes = session.path(until=until)
    if until is None:
        nodes = list(through_last_answer(nodes))
    messages = [node.said for node in nodes if system is None or node.role != "system"]
    held = setup_of(session).tools
    prompt = client.system if system is None else system
    options = Options(prompt, blob=session.blobs.get, tools=tuple(tool.name for tool in held))
    target, given = read_all(messages, "", client.provider, options)
    found = convert_read(given, target, "", client.provider, options)
    names = tool_names(given, target, options)
    tools = {tool.name: tool for tool in rename_tools(held, names)}
    for block in (block for one in given for block in one.blocks if isinstance(block, ToolCall)):
        tools.setdefault(name := names.fit(block.name), ToolSnapshot(name, "", {"type": "object"}))
    client.restore(
        new_snapshot(
            provider=client.provider,
            model=client.model,
            system_prompt=found.system,
            messages=b"[" + b",".join(found.messages) + b"]",
            tools=tools.values(),
        )
    )
    return found.report


def latest_answered(store: Store, cwd: str | None = None) -> Session:
    """The session with the newest answer of a model or a tool; with `cwd`, in exactly this directory. NotFound.

    Ignores subagents and sessions without an answer.
    """
    best: tuple[datetime, Session] | None = None
    for session in store.sessions.list(limit=20, cwd=cwd).all():
        if best is not None and session.updated_at <= best[0]:
            break  # all further sessions were last active earlier
        answered_at = _last_answer(session)
        if answered_at is not None and (best is None or answered_at > best[0]):
            best = answered_at, session
    if best is None:
        raise NotFound("session", "latest" if cwd is None else f"latest in {cwd}", hint="Start one first.")
    return best[1]


def _last_answer(session: Session) -> datetime | None:
    for last in (8, None):
        for node in reversed(session.path(last=last)):
            if node.role in ANSWERS:
                return node.created_at
    return None
