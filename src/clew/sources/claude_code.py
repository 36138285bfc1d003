"""Claude Code: ``~/.claude/projects/<project>/<session>.jsonl``, and subagents below ``<session>/subagents``.

A line with a uuid is a link of a chain; those of type user and assistant are messages under that uuid. The other links
(attachments, progress, system) are kept in the log, and the messages around them are joined. There is no published
schema: every field is optional here.

One answer may be several lines with the same message id, each with one block. Calls that run side by side are a chain
of such lines, with each result hanging on its own call, and the conversation continues from the result that came last.
In the order of the file they are one straight path: each line of an answer, and each of its results, follows the one
before it.

A compaction begins a new root. Messages that it preserves are not written again: the next line hangs on the last of
them, and is joined to the summary here.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from clew.base.messages import Native
from clew.engine.titles import says_something, typed_words
from clew.sources.claude_code_files import (
    LineMessage,
    Place,
    Summaries,
    TranscriptLine,
    agent_facts,
    any_value,
    copies,
    fields_of,
    noted_cost,
    place,
    read_line,
    read_message,
    results,
    role_and_usage,
    seams,
    words,
)
from clew.sources.contract import (
    ENVELOPE,
    About,
    Entry,
    Home,
    Part,
    ReadMark,
    Skip,
    StaleMark,
    moment,
    uuid_or_none,
)
from clew.sources.items import Item
from clew.sources.lines import read_growing
from clew.sources.values import without_surrogates
from clew.store.usage import COST

NAME = "claude-code"
SYNTHETIC = "<synthetic>"
"""The model of an answer that the program wrote itself."""
WINDOW = 200
"""Lines, calls and answers before the end of a file that a mark lists."""
_MESSAGES = ("user", "assistant")
_RECORDS = frozenset({
    "summary", "system", "attachment", "progress", "file-history-snapshot", "file-history-delta", "queue-operation",
    "custom-title", "ai-title", "agent-name", "agent-setting", "mode", "permission-mode", "pr-link", "last-prompt",
    "bridge-session", "api-request", "api-request-shape", "api-request-blob", "atis-latch", "tools-used", "cost-state",
})  # fmt: skip
"""Types of lines by which a log is recognised if its name is that of a session."""


class _Link(NamedTuple):
    """Where the next message of the chain goes: after a message, or to a root that stands for one."""

    parent: str | None
    derived: str | None = None


class ClaudeCode:
    """See `clew.sources.contract.Source`."""

    name = NAME
    title = "Claude Code"
    deletes_after = 30

    def __init__(self) -> None:
        self._folders: dict[str, Summaries] = {}

    def discover(self, home: Home) -> Iterator[str]:
        root = home.env.get("CLAUDE_CONFIG_DIR") or os.path.join(home.path, ".claude")
        yield os.path.join(root, "projects")
        if home.system == "darwin":
            desktop = os.path.join(home.path, "Library", "Application Support", "Claude")
        elif home.system == "win32":
            desktop = os.path.join(home.env.get("APPDATA") or os.path.join(home.path, "AppData", "Roaming"), "Claude")
            local = home.env.get("LOCALAPPDATA") or os.path.join(home.path, "AppData", "Local")
            store = os.path.join(local, "Packages", "*Claude_*", "LocalCache", "Roaming", "Claude")
            yield os.path.join(store, "local-agent-mode-sessions")
        else:
            desktop = os.path.join(home.env.get("XDG_CONFIG_HOME") or os.path.join(home.path, ".config"), "Claude")
        yield os.path.join(desktop, "local-agent-mode-sessions")

    def resume(self, conversation: str) -> str | None:
        return None if "/" in conversation else f"claude --resume {conversation}"

    def recognise(self, path: str, head: bytes) -> bool:
        where = place(path)
        is_named = where.session is not None or where.agent is not None
        lines = head.split(b"\n")
        for line in lines[:20]:
            try:
                fields = fields_of(without_surrogates(line))
            except (msgspec.MsgspecError, RecursionError):
                continue
            if "sessionId" in fields and "type" in fields and ("parentUuid" in fields or "leafUuid" in fields):
                return True
            if {"type", "summary", "leafUuid"} <= fields.keys():
                return True
            if is_named and "type" in fields and any_value(fields["type"]) in _RECORDS:
                return True
        # A first line longer than the head: a picture in the first prompt, or a request.
        return is_named and len(lines) == 1 and head.startswith((b'{"type":"', b'{"parentUuid":'))

    def read(self, item: Item) -> Iterator[Part]:
        return self.read_on(item, None)

    def read_on(self, item: Item, mark: ReadMark | None) -> Generator[Part, None, ReadMark | None]:
        where = place(item.member or item.path)
        titles: dict[str, str] = {}
        if item.member is None and where.session is not None and mark is None:
            titles = self._folders.setdefault(where.folder, Summaries(where.folder)).titles()
        facts = agent_facts(item) if where.agent is not None else {}
        reader = TranscriptReader(where, titles, facts, item if item.member is None else None)
        with item.open() as file:
            return (yield from read_growing(file, reader, mark, marks=item.member is None))


class TranscriptReader:
    """One file on its way. Memory grows with the links that are no messages, not with the bytes."""

    is_done = False

    def __init__(self, where: Place, titles: dict[str, str], facts: dict[str, str], log: Item | None) -> None:
        self._agent, self._session, self._owner = where.agent, where.session, where.owner
        self._log, self._folder = log, where.folder  # no log: there are no files around it
        self._facts_of_agent = facts
        self._titles = Titles(titles)
        self._seams: dict[str, str] = {}
        """For the last message that a compaction preserved: the summary that stands before it."""
        self._models: dict[str, str] = {}
        self._links: dict[str, _Link] = {}
        self._group: dict[str, str] = {}
        """For each line of an answer with calls, and each result: the message id of the answer."""
        self._tails: dict[str, str] = {}
        """For each such answer: the last of its lines and results so far."""
        self._calls: dict[str, str] = {}
        """For each call: the message id of its answer."""
        self._used: dict[str, dict[str, int]] = {}
        self._roots: dict[str, str] = {}
        """For each line of an inline subagent: the uuid of its first line."""
        self._told: list[About] = []
        """Facts that are new."""
        self._about: dict[str, tuple[str | None, ...]] = {}
        self._recent: deque[str] = deque(maxlen=WINDOW)
        """The uuids of the last lines that have one."""
        self._known: set[str] | None = None
        """After a mark: the uuids that the mark lists. None if the whole file was read."""

    def line(self, number: int, data: bytes) -> Sequence[Part]:
        """New facts about the conversation of a line, then the line; nothing for an empty line."""
        text = data[:-2] if data.endswith(b"\r\n") else data[:-1]
        if not text or text.isspace():
            return ()
        try:
            line, shape = read_line(text)
        except RecursionError:
            return (Skip(number, "its JSON is nested too deeply"),)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return (Skip(number, f"not JSON: {error if isinstance(error, msgspec.MsgspecError) else 'not UTF-8'}"),)
        conversation = self._conversation(line)
        if conversation is None:
            return (Skip(number, "neither the line nor the file names a conversation"),)
        self._facts(conversation, line)
        if line.custom_title is not None or line.ai_title is not None:
            self._titles.offer(conversation, 0, line.custom_title)
            self._titles.offer(conversation, 1, line.ai_title)
        if line.uuid is not None:
            self._recent.append(line.uuid)
            if self._known is not None:
                self._known.add(line.uuid)
            self._titles.meet(conversation, line.uuid)
        elif line.type == "summary" and line.summary is not None:
            self._titles.summary(line.leaf_uuid or "", line.summary)
        elif line.type == "cost-state" and (cost := noted_cost(shape)) is not None:
            self._told.append(About(conversation=conversation, own={COST: cost}))
        entry = self._entry(conversation, line, number, data, shape)
        if not self._told:
            return (entry,)
        told, self._told = self._told, []
        return (*told, entry)

    def end(self) -> Iterator[Part]:
        """Titles and models, once all of them were seen."""
        for conversation in self._about:
            title = self._titles.of(conversation, self._session)
            yield About(conversation=conversation, title=title, model=self._models.get(conversation))

    def state(self) -> dict[str, Any]:
        """The state that later lines may refer to: facts, and the last lines, calls and answers."""
        links = {uuid: self._links[uuid] for uuid in self._recent if uuid in self._links}
        named = {*filter(None, map(uuid_or_none, self._recent)), *(link.parent or "" for link in links.values())}
        groups = {uuid: self._group[uuid] for uuid in named if uuid in self._group}
        return {
            "recent": list(self._recent),
            "links": links,
            "groups": groups,
            "tails": {group: self._tails[group] for group in groups.values()},
            "calls": _last(self._calls),
            "used": _last(self._used),
            "roots": _last(self._roots),
            "seams": self._seams,
            "models": self._models,
            "about": self._about,
            "called": "toolUseId" not in self._facts_of_agent,
            "titles": self._titles.state(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        self._recent.extend(state["recent"])
        self._known = set(state["recent"])
        self._links = {uuid: _Link(*link) for uuid, link in state["links"].items()}
        self._group, self._tails, self._calls = state["groups"], state["tails"], state["calls"]
        self._used, self._roots, self._seams = state["used"], state["roots"], state["seams"]
        self._models = state["models"]
        self._about = {name: tuple(facts) for name, facts in state["about"].items()}
        if state["called"]:
            self._facts_of_agent.pop("toolUseId", None)
        self._titles.resume(state["titles"])

    def _conversation(self, line: TranscriptLine) -> str | None:
        if self._agent is not None:
            owner = self._owner or uuid_or_none(line.session_id)
            return None if owner is None else f"{owner}/{self._agent}"
        session = self._session or uuid_or_none(line.session_id)
        if session is not None and line.is_sidechain and line.uuid is not None:
            if self._known is not None and line.parent_uuid is not None and line.parent_uuid not in self._roots:
                raise StaleMark
            root = self._roots.get(line.parent_uuid or "", line.agent_id or line.uuid)
            self._roots[line.uuid] = root
            return f"{session}/{root}"
        return session

    def _facts(self, conversation: str, line: TranscriptLine) -> None:
        facts = line.cwd, line.git_branch, line.version
        before = self._about.get(conversation)
        if before is None:
            self._titles.offer(conversation, 1, self._facts_of_agent.get("description"))
        elif line.cwd is None or facts == before:
            return
        self._about[conversation] = facts
        owner, _, agent = conversation.partition("/")
        self._told.append(
            About(
                conversation=conversation,
                prompt="" if before is None else None,
                cwd=line.cwd,
                branch=line.git_branch or None,
                version=line.version,
                agent=(self._facts_of_agent.get("agentType") or agent) if agent else None,
                owner=owner if agent else None,
            )
        )

    def _entry(self, conversation: str, line: TranscriptLine, number: int, data: bytes, text: bytes) -> Entry:
        id = uuid_or_none(line.uuid)
        created_at = moment(line.timestamp)
        said = read_message(line.message) if line.type in _MESSAGES and line.message else None
        link, note = self._link(line, said)
        if said is None or id is None:
            if line.type in _MESSAGES and line.message:
                note = note or "its message cannot be read"
            if line.uuid is not None:
                self._links[line.uuid] = link
            named = None
            if line.type == "file-history-snapshot" and self._log is not None and self._session is not None:
                named = copies(self._log, self._folder, self._session, text)
            return Entry(
                conversation=conversation,
                raw=data,
                key=line.uuid or f"line {number}",
                created_at=created_at,
                note=note,
                copies=named,
            )
        at = text.find(line.message)
        end = at + len(bytes(line.message))
        raw = data[at:end]
        try:
            extra: dict[str, Any] = {ENVELOPE: [data[:at].decode(), data[end:].decode()]}
        except UnicodeDecodeError:
            self._links[line.uuid or ""] = link
            return Entry(conversation=conversation, raw=data, key=id, created_at=created_at, note="it is not UTF-8")
        usage = self._usage(said)
        if usage is not None:
            extra["counted"] = usage
        if said.model is not None and said.model != SYNTHETIC:
            self._models[conversation] = said.model
        if self._facts_of_agent and (call := self._facts_of_agent.pop("toolUseId", None)):
            extra["called_by"] = call
        is_typed = said.role == "user" and not line.is_meta and not line.is_compact_summary
        if is_typed and not self._titles.has_prompt(conversation):
            typed = self._titles.prompt(conversation, words(line.message))
            if typed is not None:
                self._told.append(About(conversation=conversation, prompt=typed))
        self._join(id, said)
        return Entry(
            conversation=conversation,
            raw=data,
            key=id,
            id=id,
            message=Native("anthropic", raw, extra=extra),
            parent=link.parent,
            derived=link.derived,
            created_at=created_at,
            note=note,
            seen=None if usage is not None else role_and_usage(said),
            attachments=() if self._log is None else results(self._log, self._folder, raw),
        )

    def _link(self, line: TranscriptLine, said: LineMessage | None) -> tuple[_Link, str | None]:
        """What a line follows, past lines that are no messages; and what is wrong with that."""
        if line.parent_uuid is None:
            derived = None
            if line.logical_parent_uuid is not None:
                derived = self._after(line.logical_parent_uuid).parent
            if line.compact_metadata is not None:
                self._seams.update(seams(line.compact_metadata))
            found = _Link(None, derived)
        elif line.parent_uuid == line.uuid:
            return _Link(None), "it names itself as its parent"
        else:
            found = self._after(line.parent_uuid)
        if line.uuid is not None and line.uuid.lower() in found:
            return _Link(None), None  # a repeated line: it is the end of its own answer
        return found, None

    def _after(self, uuid: str) -> _Link:
        """The message that stands for a link of the chain: itself, the one before it, or the end of its answer."""
        uuid = self._seams.get(uuid, uuid)
        if self._known is not None and uuid not in self._known:
            raise StaleMark
        found = self._links.get(uuid)
        if found is None:
            found = _Link(uuid_or_none(uuid))
        group = self._group.get(found.parent or "")
        return found if group is None else found._replace(parent=self._tails[group])

    def _join(self, id: str, said: LineMessage) -> None:
        """Notes lines of an answer that calls tools, and results, as parts of one straight path."""
        blocks = said.content if isinstance(said.content, list) else []
        calls = [block.id for block in blocks if block.type == "tool_use" and block.id]
        answered = [block.tool_use_id for block in blocks if block.type == "tool_result"]
        if self._known is not None and any(call not in self._calls for call in answered):
            raise StaleMark
        group = (
            said.id if said.role == "assistant" else next((self._calls[c] for c in answered if c in self._calls), None)
        )
        if group is None:
            return
        self._calls.update(dict.fromkeys(calls, group))
        self._group[id] = group
        self._tails[group] = id

    def _usage(self, said: LineMessage) -> dict[str, int] | None:
        """What a line of an answer adds to the usage counted so far; None where the message's own may be counted."""
        if said.id is None or said.usage is None:
            return None
        now = {name: value for name, value in said.usage.items() if type(value) is int}
        before = self._used.get(said.id)
        self._used[said.id] = (
            now if before is None else {name: max(now.get(name, 0), before.get(name, 0)) for name in {*now, *before}}
        )
        if before is None:
            return None
        added = {name: max(0, value - before.get(name, 0)) for name, value in now.items()}
        return {"input": added.get("input_tokens", 0), "output": added.get("output_tokens", 0)}


def _last(items: dict[str, Any]) -> dict[str, Any]:
    """The items that were added last, in their order."""
    return dict(list(islice(reversed(items.items()), WINDOW))[::-1])


class Titles:
    """The titles that a file offers. `known` are summaries in other files, by the message that they end with."""

    def __init__(self, known: dict[str, str]) -> None:
        self._leaves: dict[str, str | None] = dict(known)
        """The text of each summary; None for one before a mark."""
        self._found: dict[str, tuple[int, str | None]] = {}
        """The best title of each conversation and its rank; None for one before a mark, which is stored."""
        self._summed: dict[str, bool] = {}
        """For each summary of this file whose message was not met: whether it came after other messages."""
        self._has_chain = False
        self._prompted: set[str] = set()
        """The conversations of which a prompt was read that says something."""

    def state(self) -> dict[str, Any]:
        """The titles so far, without summaries in other files. Has no texts, so that it cannot contain a secret."""
        ranks = {conversation: rank for conversation, (rank, _) in self._found.items()}
        return {
            "ranks": ranks, "summed": self._summed, "chain": self._has_chain, "prompted": sorted(self._prompted)
        }  # fmt: skip

    def resume(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        self._found = {conversation: (rank, None) for conversation, rank in state["ranks"].items()}
        self._leaves |= dict.fromkeys(state["summed"])
        self._summed, self._has_chain, self._prompted = state["summed"], state["chain"], set(state["prompted"])

    def offer(self, conversation: str, rank: int, title: str | None) -> None:
        """Takes a title, unless there is one of a better rank. Of the same rank the last counts."""
        before = self._found.get(conversation, (9, ""))[0]
        if title and title.strip() and rank <= before:
            self._found[conversation] = rank, title

    def summary(self, leaf: str, text: str) -> None:
        """Takes a summary of the messages that end with `leaf`; these may be in another file."""
        self._leaves[leaf] = text
        self._summed[leaf] = self._has_chain

    def meet(self, conversation: str, uuid: str) -> None:
        """Takes note of a message, which may be the one that a summary ends with."""
        self._has_chain = True
        if uuid in self._leaves:
            if self._leaves[uuid] is None:
                raise StaleMark
            self.offer(conversation, 2, self._leaves[uuid])
            self._summed.pop(uuid, None)

    def has_prompt(self, conversation: str) -> bool:
        """True if a prompt was read that says something."""
        return conversation in self._prompted

    def prompt(self, conversation: str, text: str) -> str | None:
        """The words of a prompt; None if it is a command, a text of the program, or has no words."""
        words = typed_words(text)
        if not words.strip():
            return None
        if says_something(words):
            self._prompted.add(conversation)
        return words

    def of(self, conversation: str, session: str | None) -> str | None:
        """The best title of a conversation; `session` is the one that the file is named after."""
        if conversation == session:
            for leaf, is_late in self._summed.items():
                if is_late or not self._has_chain:  # one at the beginning is another conversation's
                    self.offer(conversation, 2, self._leaves[leaf])
        return self._found.get(conversation, (9, None))[1]
