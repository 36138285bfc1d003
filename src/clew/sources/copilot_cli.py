"""GitHub Copilot CLI: ``~/.copilot/session-state/<session>/events.jsonl``, before that ``<session>.jsonl``.

A line is an event with an id. Prompts, answers and results of tools are messages; each follows the one before it, since
``parentId`` is a chain in time and not a tree. Events of a subagent come between a call and its result and belong to a
conversation of their own. After a rewind, the next message follows the last one before the named event. The event types
are published with the Copilot SDK.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from clew.providers.json_values import Json, as_dict, as_list, as_text
from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id, moment, uuid_or_none
from clew.sources.items import Item, read_beside
from clew.sources.lines import JsonLine, head_lines, json_lines
from clew.sources.values import nonblank, tokens
from clew.turns.model import ShowRules, tag

NAME = "copilot-cli"
_EVENTS = "events.jsonl"
_MESSAGES = ("user.message", "assistant.message", "tool.execution_complete", "system.message")
_COMPACTION = "session.compaction_complete"


RULES = ShowRules(
    notes=(tag("reminder", "current_datetime|reminder|system_reminder|system_notification|skill-context"),)
)


class CopilotCLI:
    """See `clew.sources.contract.Source`."""

    name = NAME
    rules = RULES
    title = "Copilot CLI"
    deletes_after = None

    def discover(self, home: Home) -> tuple[str, ...]:
        root = home.env.get("COPILOT_HOME") or os.path.join(home.path, ".copilot")
        return (os.path.join(root, "session-state"),)

    def resume(self, conversation: str) -> str | None:
        return None if "/" in conversation else f"copilot --resume {conversation}"

    def recognise(self, path: str, head: bytes) -> bool:
        return any(
            {"id", "timestamp", "type", "data", "parentId"} <= line.keys()
            and str(line["type"]).startswith(("session.", "user.", "assistant."))
            for line in head_lines(head)
        )

    def read(self, item: Item) -> Iterator[Part]:
        reader = _Reader(item.member or item.path)
        for line in json_lines(item):
            if isinstance(line, Skip):
                yield line
            else:
                yield from reader.line(line)
        yield from reader.end(read_beside(item, "workspace.yaml"))


class _Reader:
    """One file on its way. Memory grows with the number of events, not with their bytes."""

    def __init__(self, path: str) -> None:
        name = os.path.basename(path)
        named = os.path.basename(os.path.dirname(path)) if name == _EVENTS else name.removesuffix(".jsonl")
        self._session = named or NAME
        self._model: str | None = None
        self._tails: dict[str, str] = {}
        """For each conversation: its last message."""
        self._before: dict[str, str | None] = {}
        """For each event: the last message of the session before it."""
        self._agents: dict[str, str] = {}
        """For each call of a subagent: its name."""
        self._calls: dict[str, str] = {}
        """For each call in an answer: the conversation of the answer."""

    def line(self, line: JsonLine) -> Iterator[Part]:
        event, said = line.fields, as_dict(line.fields.get("data"))
        kind = as_text(event.get("type")) or ""
        if kind == "session.start":
            self._session = nonblank(said.get("sessionId")) or self._session
        name = as_text(event.get("id")) or f"line {line.number}"
        conversation = self._conversation(kind, event, said)
        yield from self._facts(conversation, kind, said)
        is_repeated = name in self._before
        self._before.setdefault(name, self._tails.get(self._session))
        is_summary = kind == _COMPACTION and bool(nonblank(said.get("summaryContent")))
        if is_repeated or not (kind in _MESSAGES or is_summary):
            self._rewind(kind, said)
            note = "its id was seen before" if is_repeated else None
            created_at = moment(event.get("timestamp"))
            yield Entry(conversation=conversation, raw=line.data, key=name, created_at=created_at, note=note)
            return
        derived = self._tails.pop(conversation, None) if is_summary else None
        for call in as_list(said.get("toolRequests")):
            if isinstance(id := call.get("toolCallId"), str):
                self._calls[id] = conversation
        id = uuid_or_none(name) or derived_id(NAME, conversation, name)
        parent = self._tails.get(conversation)
        self._tails[conversation] = id
        is_answer = kind == "assistant.message"
        usage = tokens(input=said.get("inputTokens"), output=said.get("outputTokens")) if is_answer else None
        yield Entry(
            conversation=conversation,
            raw=line.data,
            key=name,
            id=id,
            message=line.native(
                NAME, usage=usage, model=(as_text(said.get("model")) or self._model) if is_answer else None
            ),
            parent=parent,
            derived=derived,
            created_at=moment(event.get("timestamp")),
        )

    def end(self, workspace: bytes) -> Iterator[Part]:
        """The name and the folder of the session as the file beside the log has them."""
        if not self._before:
            return
        known = _scalars(workspace)
        about = About(
            conversation=self._session,
            title=known.get("name") or known.get("summary"),
            cwd=known.get("cwd"),
            branch=known.get("branch"),
        )
        if about != About(conversation=self._session):
            yield about

    def _conversation(self, kind: str, event: Json, said: Json) -> str:
        """The session, or the subagent whose event it is: by its own id, or by the call that started it."""
        agent = nonblank(event.get("agentId"))
        if agent is None:
            agent = nonblank(said.get("parentToolCallId"))
            if agent is None and kind == "tool.execution_complete":
                return self._calls.get(as_text(said.get("toolCallId")) or "", self._session)
        return self._session if agent is None else f"{self._session}/{agent}"

    def _facts(self, conversation: str, kind: str, said: Json) -> Iterator[About]:
        owner, _, agent = conversation.partition("/")
        if agent and conversation not in self._tails:
            yield About(conversation=conversation, owner=owner, agent=self._agents.get(agent, agent))
        if kind == "subagent.started" and isinstance(call := said.get("toolCallId"), str):
            self._agents[call] = nonblank(said.get("agentName")) or call
        if agent:
            return
        place = as_dict(said.get("context")) if kind in ("session.start", "session.resume") else {}
        if kind == "session.context_changed":
            place = said
        model = nonblank(said.get("selectedModel")) or nonblank(said.get("newModel"))
        self._model = model or self._model
        about = About(
            conversation=conversation,
            cwd=nonblank(place.get("cwd")),
            branch=nonblank(place.get("branch")),
            version=nonblank(said.get("copilotVersion")),
            title=nonblank(said.get("title")) if kind == "session.title_changed" else None,
            model=model,
        )
        if about != About(conversation=conversation):
            yield about

    def _rewind(self, kind: str, said: Json) -> None:
        """Takes the messages back that a rewind or an emptied context leaves behind: they are a branch."""
        if kind == "session.context_cleared":
            self._tails.pop(self._session, None)
        elif kind == "session.snapshot_rewind" and isinstance(event := said.get("upToEventId"), str):
            if event not in self._before:
                return
            before = self._before[event]
            if before is None:
                self._tails.pop(self._session, None)
            else:
                self._tails[self._session] = before


def _scalars(yaml: bytes) -> dict[str, str]:
    """The texts at the top of a YAML file: on the line of their name, or on indented lines below it."""
    found: dict[str, str] = {}
    name = ""
    for line in yaml.decode(errors="replace").splitlines():
        if line[:1].isspace():
            if name in found:
                found[name] = f"{found[name]} {line.strip()}".strip()
            continue
        name, colon, value = line.partition(":")
        value = value.strip()
        if colon and value[:1] not in ("[", "{"):
            is_block = value in ("|", "|-", "|+", ">", ">-", ">+")
            is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            found[name] = "" if is_block else value[1:-1] if is_quoted else value
    return {name: value for name, value in found.items() if value not in ("", "null", "~")}
