"""Converts messages, snapshots and sessions into the format of another provider. The originals do not change.

A message is read with the fields that the neutral view does not carry. Each block is changed into one that the target
can express, and losses are reported.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from clew.base import codec
from clew.base.messages import (
    AnyMessage,
    Block,
    Media,
    Message,
    Native,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    system,
    texts,
)
from clew.convert.layout import Names, cut, lay_out, note, side
from clew.convert.report import Notes, Report
from clew.errors import Corrupted, Invalid
from clew.providers.json_values import Json
from clew.providers.leftovers import leftovers
from clew.providers.neutral import encode, neutral
from clew.providers.registry import canonical, family, prompt_is_message
from clew.providers.target import Piece, Target, find_target, is_refusal, link, words
from clew.providers.view import parse
from clew.snapshots import Snapshot, ToolSnapshot, new_snapshot
from clew.snapshots.types import a_snapshot
from clew.store.setup import Setup, setup_of, with_setup

if TYPE_CHECKING:
    from clew.store.session import Session
    from clew.store.store import Store


# -- fitting


def to_text(block: Opaque) -> str | None:
    """The input and the results of a provider's own tool as text; None for any other block."""
    data = block.data
    if not isinstance(data, dict):
        return None
    codes = (_inner(data, "executableCode", "executable_code").get("code"), data.get("code"))
    lines = [f"```\n{code}\n```" for code in codes if isinstance(code, str)]
    lines.extend(_found(_inner(data, "codeExecutionResult", "code_execution_result"), ("output",)))
    if block.kind in _ASKS:
        asked = _inner(data, "input") or _inner(data, "action")
        lines.append(f"[{data.get('name') or block.kind}]")
        lines.extend(f"{name}: {value}" for name, value in asked.items() if isinstance(value, str))
        lines.extend(_found(data, ("arguments", "output")))
    if block.kind in _ANSWERS:
        lines.extend(_results(data))
    return "\n".join(lines) or None


def is_handle(block: Opaque) -> bool:
    """True if the block points to a file that its provider holds."""
    return block.kind in ("file", "input_file", "input_image", "image_url", "container_upload")


_ASKS = frozenset({"server_tool_use", "mcp_tool_use", "mcp_call", "web_search_call", "code_interpreter_call"})
_ANSWERS = frozenset({
    "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result", "mcp_tool_result",
    "bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "search_result",
    "code_interpreter_call", "file_search_call",
})  # fmt: skip
_SAID = ("title", "url", "source", "text", "stdout", "stderr", "logs", "error_code")


def _results(value: object) -> Iterator[str]:
    """All text in a result, except encrypted content."""
    if isinstance(value, dict):
        yield from _found(value, _SAID)
        for name in ("content", "outputs", "results"):
            yield from _results(value.get(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _results(inner)


def _found(data: dict[str, object], names: tuple[str, ...]) -> Iterator[str]:
    return (value for name in names if isinstance(value := data.get(name), str) and value)


def _inner(data: dict[str, object], *names: str) -> dict[str, object]:
    return next((value for name in names if isinstance(value := data.get(name), dict)), {})


ThinkingAs = Literal["text", "drop"]
MAX_DEPTH = 150
"""Maximum depth of a call's arguments: messages may have 200 levels, and need a few for themselves."""


class Fitting:
    """Fits pieces to a target one by one."""

    def __init__(self, target: Target, notes: Notes, thinking: ThinkingAs, blob: Callable[[str], bytes] | None) -> None:
        self._target = target
        self._notes = notes
        self._thinking = thinking
        self._blob = blob

    def fit(self, piece: Piece) -> Iterator[Piece]:
        """Pieces that replace a piece and that the target can express: itself, others, or none."""
        block = piece.what
        if block.extra and not is_refusal(block):
            self._note(piece, "dropped", "free data")
        if isinstance(block, Text):
            yield from self._text(piece, block)
        elif isinstance(block, Thinking):
            yield from self._fit_thinking(piece, block)
        elif isinstance(block, ToolCall):
            yield self._call(piece, block)
        elif isinstance(block, ToolResult):
            yield from self._result(piece, block)
        elif isinstance(block, Media):
            yield from self._media(piece, block)
        else:
            yield from self._opaque(piece, block)

    def _text(self, piece: Piece, block: Text) -> Iterator[Piece]:
        if not block.text.strip() and not self._target.keeps_blank:
            if block.text:
                self._note(piece, "dropped", "blank text")
            return
        if is_refusal(block) and (piece.role != "assistant" or not self._target.keeps_refusals):
            self._note(piece, "changed", "refusal")
            block = Text(text=block.text)
        elif block.extra and not is_refusal(block):
            block = Text(text=block.text)
        yield piece._replace(what=block)

    def _fit_thinking(self, piece: Piece, block: Thinking) -> Iterator[Piece]:
        if block.signature is not None:
            self._note(piece, "dropped", "signature")
        if block.redacted is not None:
            self._note(piece, "dropped", "encrypted reasoning")
        if not block.text.strip():
            return
        if self._thinking == "drop":
            self._note(piece, "dropped", "thinking")
        elif self._target.keeps_thinking and piece.role == "assistant":
            yield piece._replace(what=Thinking(text=block.text))
        else:
            self._note(piece, "changed", "thinking")
            yield piece._replace(what=Text(text=f"<thinking>\n{block.text}\n</thinking>"))

    def _call(self, piece: Piece, block: ToolCall) -> Piece:
        arguments = block.arguments
        if too_deep(arguments):
            self._note(piece, "changed", "arguments")
            arguments = {"": msgspec.json.encode(arguments).decode()}
        return piece._replace(what=ToolCall(id=block.id, name=block.name, arguments=arguments))

    def _result(self, piece: Piece, block: ToolResult) -> Iterator[Piece]:
        inside = [fitted for inner in block.content for fitted in self.fit(piece._replace(what=inner, role="tool"))]
        content = [one.what for one in inside if not one.aside]
        if block.is_error and not self._target.keeps_errors:
            self._note(piece, "changed", "error flag")
            first = content[0] if content and isinstance(content[0], Text) else Text(text="")
            if not first.text.lower().startswith("error"):
                content[: 1 if first.text else 0] = [Text(text=f"Error: {first.text}".rstrip())]
        result = ToolResult(call_id=block.call_id, content=tuple(content), is_error=block.is_error)  # type: ignore[arg-type]
        yield piece._replace(what=result)
        yield from (one for one in inside if one.aside)

    def _media(self, piece: Piece, block: Media) -> Iterator[Piece]:
        block = self._load(block)
        part = self._target.media(block)
        if part is not None:
            if block.name is not None and block.name not in _leaves(part):
                self._note(piece, "dropped", "file name")
            if piece.role in self._target.media_of:
                yield piece._replace(what=block)
            else:
                self._note(piece, "moved", "media")
                yield piece._replace(what=block, role="user", aside=True)
        elif (text := words(block)) is not None:
            self._note(piece, "changed", "document")
            named = text if block.name is None else f"{block.name}\n\n{text}"
            yield from self._text(piece, Text(text=named))
        elif (url := link(block)) is not None:
            self._note(piece, "changed", "media")
            yield piece._replace(what=Text(text=f"[{block.modality}: {url}]"))
        else:
            self._note(piece, "dropped", "attachment" if block.blob is not None else "media")
            yield piece._replace(what=Text(text=f"[{block.modality} left out]"))

    def _load(self, block: Media) -> Media:
        """The block with its bytes from the store, if it refers to a blob that can be read."""
        if block.blob is None or self._blob is None:
            return block
        import base64

        data = base64.b64encode(self._blob(block.blob)).decode()
        url = f"data:{block.mime_type};base64,{data}"
        return Media(mime_type=block.mime_type, modality=block.modality, url=url, name=block.name)

    def _opaque(self, piece: Piece, block: Opaque) -> Iterator[Piece]:
        if (text := to_text(block)) is not None:
            self._note(piece, "changed", "server tool")
            yield from self._text(piece, Text(text=text))
        elif is_handle(block):
            self._note(piece, "dropped", "file handle")
            yield piece._replace(what=Text(text="[file left out]"))
        else:
            self._note(piece, "dropped", "unknown block")

    def _note(self, piece: Piece, kind: Any, what: Any) -> None:
        self._notes.add(piece.message, piece.block, kind, what)


def too_deep(value: object) -> bool:
    """True if data is nested deeper than `MAX_DEPTH`. Examines no deeper levels."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list | tuple)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def _leaves(value: object) -> set[str]:
    if isinstance(value, dict):
        return set().union(*(_leaves(inner) for inner in value.values()))
    return {value} if isinstance(value, str) else set()


NEUTRAL = "clew"
"""The provider name of messages in clew's own form."""
_NOTHING = (Text(text=""),)


# -- reading


class Read:
    """A message of the input. Its views are computed on first use."""

    def __init__(self, message: AnyMessage, to: str, target: Target) -> None:
        self.original = message
        self._to = to
        self._target = target

    @cached_property
    def message(self) -> Message:
        """Its neutral view."""
        return neutral(self.original)

    @cached_property
    def data(self) -> Json:
        """The JSON of a native message."""
        return parse(self.raw)

    @cached_property
    def own(self) -> bool:
        """True if it is in the target's format already."""
        message = self.original
        same = isinstance(message, Native) and family(message.provider) == family(self._to)
        return same and self._target.owns(self.data)

    @property
    def raw(self) -> bytes:
        """The bytes of a native message."""
        assert isinstance(self.original, Native)
        return self.original.raw

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Its blocks; a message without blocks gets an empty one."""
        return self.message.blocks or _NOTHING


def read(message: AnyMessage | bytes, source: str, to: str, target: Target) -> Read:
    """A message of the input, which may be bytes of the provider `source`. Invalid if it could not be stored."""
    if isinstance(message, bytes):
        if not source:
            raise Invalid("messages given as bytes need the name of their provider", hint="Pass source=….")
        message = Native(source, message)
    if isinstance(message, Native) and message.provider == NEUTRAL:
        message = _neutral(message.raw)
    encode(message)
    return Read(message, to, target)


def _neutral(raw: bytes) -> AnyMessage:
    """Decodes a message in clew's own form."""
    try:
        return codec.decode(b"\x01" + raw, "")
    except Corrupted as error:
        raise Invalid(f"this is not a message: {error.why}") from None


def pieces(given: Read, at: int, notes: Notes) -> Iterator[Piece]:
    """The blocks of a message to convert, each with its new role."""
    _note_leftovers(given, at, notes)
    role = given.message.role
    for index, block in enumerate(given.blocks):
        said_by = _speaker(block, role)
        if said_by != role and not isinstance(block, ToolResult):
            notes.add(at, index, "changed", "role")
        yield Piece(at, index, said_by, block)


def own_pieces(given: Read, at: int) -> Iterator[Piece]:
    """The blocks of a message that stays unchanged."""
    role = given.message.role
    for index, block in enumerate(given.blocks):
        yield Piece(at, index, _speaker(block, role), block, own=True)


def _speaker(block: Block, role: Role) -> Role:
    """The role that a block belongs to, regardless of its message."""
    if isinstance(block, ToolCall):
        return "assistant"
    if isinstance(block, ToolResult):
        return "tool"
    if isinstance(block, Text | Thinking) and role == "system":
        return "system"
    return "user" if role in ("tool", "system") else role


def _note_leftovers(given: Read, at: int, notes: Notes) -> None:
    message = given.original
    if message.extra or message.label is not None:
        notes.add(at, None, "dropped", "free data")
    if not isinstance(message, Native):
        return
    content = given.data.get("parts") or given.data.get("content")
    aligned = isinstance(content, list) and len(content) == len(given.blocks)
    for left in leftovers(message.provider, given.data):
        notes.add(at, left.at if aligned else None, "dropped", left.what, left.detail)
    try:
        msgspec.json.decode(message.raw)
    except msgspec.MsgspecError:
        notes.add(at, None, "changed", "malformed data")  # JSON that strict parsers refuse was read approximately


BEGIN = "[the conversation begins here]"


# -- converting


class Converted(NamedTuple):
    """Messages in a provider's format, and a report of the changes."""

    provider: str
    messages: tuple[bytes, ...]
    """Each in the provider's own JSON, including the system prompt if that is a message there."""
    system: str
    """The system prompt, for providers that take it as a parameter."""
    report: Report

    def natives(self) -> list[Native]:
        """The messages in a form that can be stored."""
        return [Native(self.provider, raw) for raw in self.messages]


class Options(NamedTuple):
    """The options of a conversion."""

    system: str = ""
    thinking: ThinkingAs = "text"
    blob: Callable[[str], bytes] | None = None
    tools: tuple[str, ...] = ()
    """Names of tools that are declared apart from the messages."""


def convert_messages(
    messages: Sequence[AnyMessage | bytes],
    *,
    to: str,
    source: str = "",
    system: str = "",
    thinking: ThinkingAs = "text",
    blob: Callable[[str], bytes] | None = None,
) -> Converted:
    """Converts messages to the format of the provider `to`, and reports every change.

    Messages already in that format stay byte for byte. Messages may be neutral, native, or bytes of the provider
    `source`. `system` is their system prompt. Reasoning that the provider would not accept becomes text, or with
    ``thinking="drop"`` is dropped. `blob` returns the content of attachments; without it they are omitted. Invalid if a
    message cannot be read or the provider is unknown.
    """
    options = Options(system, thinking, blob)
    target, given = read_all(messages, source, to, options)
    if is_own(given, source, to):
        return Converted(canonical(to), tuple(one.raw for one in given), system, Report(source or to, to))
    return convert_read(given, target, source, to, options)


def repair_messages(messages: Sequence[AnyMessage | bytes], *, provider: str, system: str = "") -> Converted:
    """Repairs the messages of a conversation so that its own provider accepts them.

    Calls without a result get an error as their result; results without a call become text. Other messages of the
    provider stay byte for byte; neutral messages and those of other providers are converted.
    """
    options = Options(system)
    target, given = read_all(messages, provider, provider, options)
    return convert_read(given, target, provider, provider, options)


def read_all(
    messages: Sequence[AnyMessage | bytes], source: str, to: str, options: Options
) -> tuple[Target, list[Read]]:
    """The format of the provider `to`, and the messages prepared for a conversion."""
    if not isinstance(messages, list | tuple):
        raise Invalid(f"this takes a list of messages, not {type(messages).__name__}")
    if options.thinking not in ("text", "drop"):
        raise Invalid("thinking must be 'text' or 'drop'")
    if not isinstance(options.system, str):
        raise Invalid(f"a system prompt is text, not {type(options.system).__name__}")
    target = find_target(to)
    return target, [read(message, source, to, target) for message in messages]


def is_own(given: Sequence[Read], source: str, to: str) -> bool:
    """True if all messages are in the target's format already."""
    return all(one.own for one in given) if given else family(source) == family(to)


def tool_names(given: Sequence[Read], target: Target, options: Options) -> Names:
    """The names of the tools of a conversation in the target's format."""
    called = (block.name for one in given for block in one.blocks if isinstance(block, ToolCall))
    return Names(target, [*options.tools, *called])


def convert_read(given: Sequence[Read], target: Target, source: str, to: str, options: Options) -> Converted:
    """Converts. Messages in the target's format stay unchanged wherever the target accepts them."""
    own = {at for at, one in enumerate(given) if one.own}
    names = tool_names(given, target, options)
    while True:
        notes = Notes()
        if any(names.fit(tool) != tool for tool in options.tools):
            notes.add(None, None, "changed", "tool name")
        found = list(_pieces(given, own, target, notes, options))
        leading = list(takewhile(lambda piece: piece.role == "system", found))
        laid = lay_out(_in_place(found[len(leading) :], target, notes), target, names, notes)
        units, broken = cut(laid, {at: len(given[at].blocks) for at in own}, target)
        if not broken:
            break
        own -= broken  # some messages cannot stay unchanged: start again and convert them too
    prompt = _prompt(options.system, "\n\n".join(texts(piece.what for piece in leading)))
    written = list(_first(prompt, leading, given, target)) if prompt_is_message(to) else []
    if target.unites == "turns" and units and side(units[0][0]) == "assistant":
        notes.add(None, None, "added", "first user message")
        units.insert(0, [Piece(0, None, "user", Text(text=BEGIN))])
    for unit in units:
        if unit[0].own:
            written.append(given[unit[0].message].raw)
        else:
            note(unit, target, notes)
            written.extend(map(msgspec.json.encode, target.write(unit)))
    return Converted(canonical(to), tuple(written), prompt, notes.report(source or _sources(given), to))


def _pieces(given: Sequence[Read], own: set[int], target: Target, notes: Notes, options: Options) -> Iterator[Piece]:
    fitting = Fitting(target, notes, options.thinking, options.blob)
    for at, one in enumerate(given):
        if at in own:
            yield from own_pieces(one, at)
        else:
            for piece in pieces(one, at, notes):
                yield from fitting.fit(piece)


def _in_place(found: Sequence[Piece], target: Target, notes: Notes) -> list[Piece]:
    """Turns later system messages into user messages, if the target allows only a first one."""
    placed = list(found)
    for at, piece in enumerate(found):
        if piece.role == "system" and not piece.own and not target.keeps_system:
            notes.add(piece.message, piece.block, "changed", "system message")
            words = "\n".join(texts([piece.what]))
            placed[at] = piece._replace(role="user", what=Text(text=f"<system>\n{words}\n</system>"))
    return placed


def _first(prompt: str, leading: Sequence[Piece], given: Sequence[Read], target: Target) -> Iterator[bytes]:
    """The system prompt as messages."""
    indexes = list(dict.fromkeys(piece.message for piece in leading))
    if leading and all(piece.own for piece in leading) and prompt == "\n\n".join(texts(p.what for p in leading)):
        yield from (given[at].raw for at in indexes)
    elif prompt:
        piece = Piece(0, None, "system", Text(text=prompt))
        yield from map(msgspec.json.encode, target.write([piece]))


def _prompt(system: str, leading: str) -> str:
    """The system prompt, which may be a parameter, the first message, or both."""
    if not leading or not system:
        return system or leading
    return leading if leading.startswith(system) else f"{system}\n\n{leading}"


def _sources(given: Sequence[Read]) -> str:
    """The providers of the messages, if the caller did not name one."""
    return ", ".join(dict.fromkeys(one.original.provider for one in given if isinstance(one.original, Native)))


class ConvertedSnapshot(NamedTuple):
    """A converted snapshot, and a report of the changes."""

    snapshot: Snapshot
    report: Report


class ConvertedSession(NamedTuple):
    """A converted session, and a report of the changes."""

    session: Session
    report: Report


def convert(
    snapshot: Snapshot,
    to: str,
    *,
    model: str = "",
    thinking: ThinkingAs = "text",
    metadata: Mapping[str, str] | None = None,
) -> ConvertedSnapshot:
    """Creates a snapshot with a new id for the provider `to`. Does not change the given one.

    Messages of the same provider stay byte for byte. Names of tools that the provider would refuse are replaced, in the
    messages and in the tools. `metadata` is added to that of the snapshot. Invalid if its messages cannot be read.
    """
    snapshot = a_snapshot(snapshot)
    options = Options(snapshot.system_prompt, thinking, None, tuple(tool.name for tool in snapshot.tools))
    target, given = read_all(list(snapshot.parts), snapshot.provider, to, options)
    messages, prompt, report = snapshot.messages, snapshot.system_prompt, Report(snapshot.provider, to)
    tools = snapshot.tools
    if not is_own(given, snapshot.provider, to):
        found = convert_read(given, target, snapshot.provider, to, options)
        messages, prompt, report = b"[" + b",".join(found.messages) + b"]", found.system, found.report
        names = tool_names(given, target, options)
        tools = rename_tools(tools, names)
    merged = {**snapshot.metadata, "converted_from": snapshot.id, **(metadata or {})}
    made = new_snapshot(
        provider=canonical(to), model=model, system_prompt=prompt, messages=messages, tools=tools, metadata=merged
    )
    return ConvertedSnapshot(made, report)


def convert_session(
    store: Store,
    session: Session | str,
    *,
    to: str,
    title: str | None = None,
    model: str | None = None,
    thinking: ThinkingAs = "text",
) -> ConvertedSession:
    """Creates a session for the provider `to`. Does not change the given one, a Session, id or handle.

    It is a fork at the last message: its `path` has the converted messages, its `history` also the originals, which are
    not copied. Attachments are put into the messages. If the provider takes the system prompt as a parameter, it stays
    the first message, in neutral form. The setup with its tools is copied. For the same provider, repairs only what it
    would refuse; without repairs the fork shares all messages. NotFound, Ambiguous; Invalid if the provider is unknown.
    """
    from clew.store.session import Session

    source = session if isinstance(session, Session) else store.sessions.get(session)
    nodes = source.path()
    held = setup_of(source)
    options = Options(thinking=thinking, blob=source.blobs.get, tools=tuple(tool.name for tool in held.tools))
    target, given = read_all([node.said for node in nodes], "", to, options)
    found = convert_read(given, target, "", to, options)
    messages: list[AnyMessage] = [*_natives(found, given)]
    if found.system and not prompt_is_message(to):
        messages.insert(0, system(found.system))
    with store.transaction():
        made = store.sessions.fork(source, at=nodes[-1].id if nodes else None, title=title)
        if model is not None:
            made = made.update(model=model)
        setup = Setup(tools=rename_tools(held.tools, tool_names(given, target, options)))
        if family(held.provider) != family(to) and setup != held:  # the base URL belongs to the old provider
            made = made.update(extra=with_setup(made.extra, setup))
        if not messages:
            made.rewind(None)
        elif [_raw(one) for one in messages] != [_raw(node.said) for node in nodes]:
            made.compact(messages)
    return ConvertedSession(made, found.report)


def rename_tools(tools: Sequence[ToolSnapshot], names: Names) -> tuple[ToolSnapshot, ...]:
    """The tools with their names in the target's format."""
    return tuple(ToolSnapshot(names.fit(tool.name), tool.description, tool.parameters) for tool in tools)


def _natives(found: Converted, given: Sequence[Read]) -> Iterator[Native]:
    """The messages to store, all of one provider. Unchanged ones keep their labels and free data."""
    unchanged: dict[bytes, deque[Native]] = defaultdict(deque)
    for one in given:
        if one.own and isinstance(one.original, Native):
            unchanged[one.raw].append(msgspec.structs.replace(one.original, provider=found.provider))
    for raw in found.messages:
        yield unchanged[raw].popleft() if unchanged.get(raw) else Native(found.provider, raw)


def _raw(message: AnyMessage) -> object:
    """The identity of a message: provider and bytes of a native one, else the message."""
    return (canonical(message.provider), message.raw) if isinstance(message, Native) else message
