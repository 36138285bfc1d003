"""Converts messages, snapshots and sessions into the format of another provider. The originals do not change."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from clew.base.messages import AnyMessage, Native, Text, ToolCall, system, texts
from clew.convert.fit import Fitting, ThinkingAs
from clew.convert.layout import Names, cut, lay_out, note, side
from clew.convert.read import Read, own_pieces, pieces, read
from clew.convert.report import Notes, Report
from clew.errors import Invalid
from clew.providers.registry import canonical, family, prompt_is_message
from clew.providers.target import Piece, Target, find_target
from clew.snapshots import Snapshot, ToolSnapshot, new_snapshot
from clew.snapshots.types import a_snapshot
from clew.store.setup import Setup, setup_of, with_setup

if TYPE_CHECKING:
    from clew.store.session import Session
    from clew.store.store import Store

BEGIN = "[the conversation begins here]"


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
