"""Turns out of messages: one pure function, which works on a whole conversation and on any part of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from clew.base.messages import Media, Message, Native, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.errors import Corrupted
from clew.providers.usage import usage_of_all
from clew.turns import faces
from clew.turns.model import (
    PLAIN,
    Entry,
    Item,
    MessageMark,
    ModelAnswer,
    NoteKind,
    NoteRule,
    Part,
    ProgramNote,
    Said,
    ShownTurn,
    ShowRules,
    Step,
    Thought,
    Unknown,
    UserPrompt,
)
from clew.turns.words import short_model

MARKED = 600
"""Characters at the beginning of a message in which marks are looked for."""
_TITLES: dict[NoteKind, str] = {
    "reminder": "Reminder", "instructions": "System prompt", "summary": "Summary", "error": "Error",
    "interruption": "Interrupted", "shell": "!", "command": "Command", "output": "Output",
    "caveat": "Reminder",
}  # fmt: skip
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class TypedText(NamedTuple):
    """A message in the user's name, split into what was typed and what the program wrote."""

    blocks: tuple[Text | Media | Opaque, ...]
    notes: tuple[ProgramNote, ...]


AHEAD = 50
"""Messages that are read before the first items of a stream are certain: results come after their calls."""


def stream(
    entries: Iterable[Entry], rules: ShowRules = PLAIN, *, project: str = "", ahead: int = AHEAD
) -> Iterator[Item]:
    """The items of `items`, as they become certain: those before a prompt, once `ahead` messages were read.

    With `ahead` 0, each message is shown when it comes; the result of a call is then a step of its own.
    """
    made, count = _Maker(rules, project), 0
    for one in entries:
        if count >= ahead and (not ahead or is_prompt(one, rules)):
            yield from made.take()
            count = 0
        made.add(one)
        count += 1
        if not ahead:
            yield from made.take()
    yield from made.take()


def turns(entries: Iterable[Entry], rules: ShowRules = PLAIN, *, project: str = "") -> list[ShownTurn]:
    """The turns of these messages, in order. `project` is the directory that paths are relative to.

    A result belongs to the first call with its id that has none yet. One whose call is not among the messages is a step
    without a call.
    """
    made = _Maker(rules, project)
    for one in entries:
        made.add(one)
    found: list[tuple[UserPrompt | None, list[ModelAnswer | ProgramNote]]] = []
    for item in made.take():
        if isinstance(item, UserPrompt) or not found:
            found.append((item, []) if isinstance(item, UserPrompt) else (None, [item]))
        else:
            found[-1][1].append(item)
    return [ShownTurn(prompt, tuple(rest)) for prompt, rest in found]


def items(entries: Iterable[Entry], rules: ShowRules = PLAIN, *, project: str = "") -> list[Item]:
    """The same as one list: prompts, answers and notes."""
    return [item for turn in turns(entries, rules, project=project) for item in turn]


def late_results(page: Iterable[Entry], after: Iterable[Entry]) -> list[Entry]:
    """Those of the messages after a page that have the results of calls on it."""
    waiting: set[str] = set()
    for one in page:
        waiting.update(call.id for call in one.calls)
        waiting.difference_update(result.call_id for result in one.results)
    found = []
    for one in after:
        if waiting and one.is_result and not waiting.isdisjoint(result.call_id for result in one.results):
            waiting.difference_update(result.call_id for result in one.results)
            found.append(one)
    return found


def split_prompt(one: Entry, rules: ShowRules = PLAIN) -> TypedText:
    """What the user typed in a message, and what the program wrote in it. Both are empty for other messages."""
    message = one.message
    if message is None or message.role not in ("user", "system") or one.is_result:
        return TypedText((), ())
    mark = _mark(one, rules)
    blocks = [block for block in message.blocks if not isinstance(block, ToolResult)]
    if mark is not None or message.role == "system" or (one.is_summary and message.role == "user"):
        text = "\n\n".join(block.text for block in blocks if isinstance(block, Text))
        media = tuple(block for block in blocks if isinstance(block, Media))
        rest, notes = _split(one, text, rules)
        if notes and not rest.strip() and not media:
            return TypedText((), tuple(notes))
        kind = mark.kind if mark is not None else "instructions" if message.role == "system" else "summary"
        title = mark.title if mark is not None and mark.title else _TITLES[kind]
        if kind == "shell":
            title, _, text = text.removeprefix("$ ").partition("\n")
        return TypedText((), (ProgramNote(kind, (one,), title, text, media),))
    left: list[Text | Media | Opaque] = []
    notes = []
    for block in blocks:
        if isinstance(block, Text) and (block.extra or {}).get("synthetic"):
            notes.append(ProgramNote("reminder", (one,), _TITLES["reminder"], block.text))
        elif isinstance(block, Opaque) and block.kind in rules.opaque:
            words = _words(block.data)
            rest, found = _split(one, words, rules)
            text = words if rest.strip() or not found else "\n\n".join(note.text for note in found)
            notes.append(ProgramNote("reminder", (one,), rules.opaque[block.kind], text))
        elif isinstance(block, Text):
            rest, found = _split(one, block.text, rules)
            notes += found
            if rest.strip() or not found:
                left.append(block if rest == block.text else msgspec.structs.replace(block, text=rest))
        elif isinstance(block, Media | Opaque):
            left.append(block)
    return TypedText(tuple(left) if any(_says(block) for block in left) or not notes else (), tuple(notes))


def typed_words(text: str, rules: ShowRules = PLAIN) -> str:
    """A text in the user's name without what the program wrote in it; empty if nothing in it was typed."""
    rest, notes = _split(None, text, rules)
    return rest if rest.strip() or not notes else ""


def is_prompt(one: Entry, rules: ShowRules = PLAIN) -> bool:
    """True for a message that the user typed, and not the program in the user's name."""
    if one.message is None or one.message.role != "user" or one.is_result:
        return False
    found = split_prompt(one, rules)
    return bool(found.blocks) or not found.notes


def _words(data: object) -> str:
    text = data.get("text", data.get("message")) if isinstance(data, dict) else None
    return text if isinstance(text, str) else msgspec.json.encode(data).decode()


def is_machine_text(one: Entry, rules: ShowRules = PLAIN) -> bool:
    """True for a message that a program alone wrote: a command, a reminder; not a summary or a system prompt."""
    found = split_prompt(one, rules)
    plain = (_TITLES["summary"], _TITLES["instructions"])
    return not found.blocks and any(note.title not in plain for note in found.notes)


def added_texts(one: Entry, rules: ShowRules = PLAIN) -> list[str]:
    """What a program added to a prompt or to the result of a tool."""
    notes: list[ProgramNote] = []
    for item in items([one], rules):
        if isinstance(item, UserPrompt):
            notes += item.notes
        elif isinstance(item, ModelAnswer):
            notes += [note for step in item.steps for note in step.notes]
    return [note.text for note in notes if note.text]


def _says(block: Text | Media | Opaque) -> bool:
    return not isinstance(block, Text) or bool(block.text.strip())


def _mark(one: Entry, rules: ShowRules) -> MessageMark | None:
    """The mark of a whole message, in its own JSON or in the record around it."""
    if not rules.marks:
        return None
    try:
        said = one.node.said
    except Corrupted:
        return None
    around = (said.extra or {}).get("line")
    places = [part for part in around if isinstance(part, str)] if isinstance(around, list) else []
    if isinstance(said, Native):
        places.append(said.raw[:MARKED].decode(errors="replace"))
    return next((mark for mark in rules.marks for place in places if mark.text in place), None)


def _split(one: Entry | None, text: str, rules: ShowRules) -> tuple[str, list[ProgramNote]]:
    """A text without what the program wrote at its beginning and at its end, and notes of that."""
    notes: list[ProgramNote] = []
    at = 0
    while found := _first(one, text, at, rules, len(text)):
        note, at = found
        notes.append(note)
    while at and text[at : at + 1] in ("\r", "\n"):
        at += 1
    end = len(text)
    while text.endswith(">", at, stop := _without_space(text, at, end)):
        name = text[text.rfind("</", at, stop) + 2 : stop - 1]
        begin = text.rfind(f"<{name}", at, stop)
        if begin <= at or (found := _first(one, text, begin, rules, stop)) is None or found[1] != stop:
            break
        notes.append(found[0])
        end = _without_space(text, at, begin)
    return text[at:end], notes


def _without_space(text: str, at: int, end: int) -> int:
    """Where a part of a text ends without the space at its end."""
    while end > at and text[end - 1].isspace():
        end -= 1
    return end


def _first(one: Entry | None, text: str, at: int, rules: ShowRules, end: int) -> tuple[ProgramNote, int] | None:
    """The note of the first rule that fits, and where it ends."""
    return next((made for rule in rules.notes if (made := _match(one, text, at, rule, end)) is not None), None)


def _match(one: Entry | None, text: str, at: int, rule: NoteRule, end: int) -> tuple[ProgramNote, int] | None:
    kind, pattern, title = rule
    begin = at
    while begin < end and text[begin] in " \t\r\n":
        begin += 1
    found = pattern.match(text, begin, end) if begin < end else None
    if found is None or found.end() == at:
        return None
    groups = found.groupdict()
    named = " ".join(" ".join(filter(None, (groups.get("title"), groups.get("args")))).split())
    shown = (groups["text"] or "").strip() if "text" in groups else "" if named else found[0].strip("\r\n")
    entries = () if one is None else (one,)
    return ProgramNote(kind, entries, named or title or _TITLES.get(kind, ""), shown), found.end()


class _Open:
    """An answer that is being made."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.entries: list[Entry] = []
        self.parts: list[Part | int] = []
        """Parts; a step is its number among the steps."""

    def say(self, one: Entry, block: Text | Media) -> None:
        """Adds text; neighbouring pieces of one message are one part."""
        last = self.parts[-1] if self.parts else None
        if isinstance(last, Said) and last.entry is one:
            self.parts[-1] = Said(one, (*last.blocks, block))
        else:
            self.parts.append(Said(one, (block,)))

    def think(self, one: Entry, block: Thinking) -> None:
        """Adds reasoning; neighbouring pieces of one message are one part."""
        last = self.parts[-1] if self.parts else None
        if isinstance(last, Thought) and last.entry is one:
            text = "\n\n".join(filter(None, (last.block.text, block.text)))
            self.parts[-1] = Thought(one, msgspec.structs.replace(last.block, text=text))
        else:
            self.parts.append(Thought(one, block))


class _Maker:
    def __init__(self, rules: ShowRules, project: str) -> None:
        self._rules, self._project = rules, project
        self._beside = ShowRules(notes=(*rules.results, *(rule for rule in rules.notes if rule.kind == "reminder")))
        """What a program adds to the result of a tool."""
        self._items: list[UserPrompt | ProgramNote | _Open] = []
        self._steps: list[Step] = []
        self._waiting: dict[str, list[int]] = {}
        """For each id of a call: the steps that have no result yet."""
        self._open: _Open | None = None
        self._model: str | None = None
        """The model of the last answer."""
        self._joining = False
        """Whether the next item of a response belongs to the open answer."""

    def add(self, one: Entry) -> None:
        """Adds a message."""
        message = one.message
        if message is None:
            self._note(ProgramNote("damaged", (one,), "Damaged message", one.why))
            return
        if one.is_summary:
            self._fold_summary(message.text)
            self._note(ProgramNote("compaction", (one,)))
        if one.is_result:
            self._results(one, one.results)
        elif message.role == "assistant" or one.calls:
            mark = _mark(one, self._rules)
            if mark is not None:
                self._note(ProgramNote(mark.kind, (one,), mark.title or _TITLES.get(mark.kind, ""), message.text))
            else:
                self._answer(one, message)
        elif message.role == "tool":
            self._answer(one, message)
        else:
            self._user(one, message)

    def take(self) -> list[Item]:
        """The items so far, which are complete then."""
        found: list[Item] = []
        for item in self._items:
            if isinstance(item, _Open):
                answer = self._close(item)
                if self._model and answer.model and answer.model != self._model:
                    title = f"{short_model(self._model)} → {short_model(answer.model)}"
                    found.append(ProgramNote("model", (answer.entry,), title))
                self._model = answer.model or self._model
                found.append(answer)
            else:
                found.append(item)
        self._items, self._steps, self._waiting, self._open = [], [], {}, None
        return found

    def _note(self, note: ProgramNote) -> None:
        """Adds a note. Output belongs to the command or shell before it, and a caveat to the one after it."""
        self._open = None
        last = self._items[-1] if self._items else None
        if note.kind in ("command", "shell") and isinstance(last, ProgramNote) and last.kind == "caveat":
            others = (one for one in note.entries if one.node != last.entry.node)
            self._items[-1] = note._replace(entries=(*last.entries, *others))
            return
        if note.kind == "output" and isinstance(last, ProgramNote) and last.kind in ("command", "shell"):
            text = "\n".join(filter(None, (last.text, note.text)))
            self._items[-1] = last._replace(
                text=text, entries=(*last.entries, *(one for one in note.entries if one.node != last.entry.node))
            )
        elif note.kind == "output":
            self._items.append(note._replace(kind="command"))
        else:
            self._items.append(note)

    def _fold_summary(self, text: str) -> None:
        """Makes a note of the last answer if the text of a compaction ends with it: it was written for that."""
        answer = self._items[-1] if self._items else None
        part = answer.parts[-1] if isinstance(answer, _Open) and answer.parts else None
        if not isinstance(answer, _Open) or not isinstance(part, Said):
            return
        said = "\n\n".join(block.text for block in part.blocks if isinstance(block, Text)).strip()
        alone = part.entry.message is not None and len(part.entry.message.blocks) == 1
        if not said or not alone or not text.endswith(f"\n{said}"):
            return
        answer.parts.pop()
        answer.entries.remove(part.entry)
        if not answer.entries:
            self._items.pop()
        self._items.append(ProgramNote("summary", (part.entry,), "Summary written", said))

    def _user(self, one: Entry, message: Message) -> None:
        if one.results:
            self._results(one, one.results)
        found = split_prompt(one, self._rules)
        if found.blocks or not found.notes:
            self._open = None
            self._items.append(UserPrompt(one, found.blocks, found.notes))
        else:
            for note in found.notes:
                self._note(note)

    def _results(self, one: Entry, results: Sequence[ToolResult]) -> None:
        self._joining = False
        for given in results:
            result, notes = self._bare(one, given)
            waiting = self._waiting.get(result.call_id)
            if waiting:
                at = waiting.pop(0)
                step = self._steps[at]
                label = (faces.given_name(result) if step.kind == "agent" else "") or step.label
                self._steps[at] = step._replace(result=result, answered=one, notes=notes, label=label)
            else:
                self._begin(one, one.node.id, joins=True)
                self._step(Step(None, result, one, one, "other", "Result", result.call_id, self._project, notes))

    def _bare(self, one: Entry, result: ToolResult) -> tuple[ToolResult, tuple[ProgramNote, ...]]:
        """A result without what the program added to it, and notes of that."""
        notes: list[ProgramNote] = []
        content = []
        for block in result.content if self._beside.notes else ():
            rest, found = _split(one, block.text, self._beside) if isinstance(block, Text) else ("", [])
            notes += found
            content.append(msgspec.structs.replace(block, text=rest) if found else block)
        return (msgspec.structs.replace(result, content=tuple(content)) if notes else result), tuple(notes)

    def _answer(self, one: Entry, message: Message) -> None:
        """Adds a message to its answer. What went wrong is a note after it."""
        errors = [block for block in message.blocks if isinstance(block, Opaque) and block.kind == "error"]
        if not errors or len(errors) < len(message.blocks):
            self._parts(one, message)
        for block in errors:
            self._note(ProgramNote("error", (one,), _TITLES["error"], _words(block.data)))

    def _parts(self, one: Entry, message: Message) -> None:
        id = self._response(one)
        joins = self._joining or self._is_loose(message) or (self._rules.joins and not message.blocks)
        self._begin(one, id or one.node.id, joins=joins if id is None else self._is_open(id))
        made = self._open
        assert made is not None
        for block in message.blocks:
            match block:
                case Text() | Media():
                    if not isinstance(block, Text) or block.text.strip():
                        made.say(one, block)
                case Thinking():
                    made.think(one, block)
                case ToolCall():
                    kind = faces.kind_of(block, self._rules)
                    label, line = faces.label_of(block, kind), faces.line_of(block, kind, self._project)
                    self._waiting.setdefault(block.id, []).append(len(self._steps))
                    self._step(Step(block, None, one, None, kind, label, " ".join(line.split()), self._project))
                case ToolResult():
                    joining = self._joining
                    self._results(one, [block])
                    self._joining = joining
                case Opaque(kind="web_search_call"):
                    self._search(one, block)
                case Opaque() if block.kind != "error":
                    made.parts.append(Unknown(one, block))
        self._joining = self._rules.joins

    def _search(self, one: Entry, block: Opaque) -> None:
        """Adds a search that the provider made itself: a step whose result the program did not keep."""
        data = block.data if isinstance(block.data, dict) else {}
        action = data.get("action")
        call = ToolCall(id="", name="web_search", arguments=action if isinstance(action, dict) else {})
        result = ToolResult(call_id="", content=(), is_error=data.get("status") == "failed")
        line = " ".join(faces.line_of(call, "web").split())
        self._step(Step(call, result, one, one, "web", call.name, line, self._project))

    def _is_loose(self, message: Message) -> bool:
        """Whether a message is no more than calls of the response before it."""
        if not self._rules.loose_calls or message.model:
            return False
        return all(isinstance(block, ToolCall | ToolResult) for block in message.blocks)

    def _is_open(self, id: str) -> bool:
        return self._open is not None and self._open.id == id

    def _begin(self, one: Entry, id: str, *, joins: bool) -> None:
        """Makes an answer the open one: the one that is, or a new one."""
        if self._open is None or not joins:
            self._open = _Open(id)
            self._items.append(self._open)
        if one not in self._open.entries:
            self._open.entries.append(one)

    def _step(self, step: Step) -> None:
        assert self._open is not None
        self._open.parts.append(len(self._steps))
        self._steps.append(step)

    def _response(self, one: Entry) -> str | None:
        """The provider's id of the response that a message is a part of."""
        said = one.node.said
        if not self._rules.response or not isinstance(said, Native):
            return None
        try:
            found = msgspec.json.decode(_fields(said.raw)[self._rules.response])
        except (msgspec.MsgspecError, KeyError, UnicodeError, RecursionError):
            return None
        return found if isinstance(found, str) and found else None

    def _close(self, made: _Open) -> ModelAnswer:
        parts: Iterator[Part] = (self._steps[part] if isinstance(part, int) else part for part in made.parts)
        messages = [one.message for one in made.entries if one.message is not None]
        return ModelAnswer(
            made.id,
            tuple(made.entries),
            tuple(parts),
            next((message.model for message in messages if message.model), None),
            usage_of_all(one.node.said for one in made.entries if one.message and one.message.role == "assistant"),
            any(one.is_interrupted for one in made.entries),
        )
