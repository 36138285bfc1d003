"""Converts snapshots and sessions for another provider. The originals do not change."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from clew.base.messages import AnyMessage, Native, system
from clew.convert.core import Converted, Options, convert_read, is_own, read_all, tool_names
from clew.convert.fit import ThinkingAs
from clew.convert.layout import Names
from clew.convert.read import Read
from clew.convert.report import Report
from clew.providers.registry import canonical, family, prompt_is_message
from clew.snapshots import Snapshot, ToolSnapshot, new_snapshot
from clew.snapshots.types import a_snapshot
from clew.store.snapshot_setup import Setup, setup_of, with_setup

if TYPE_CHECKING:
    from clew.store.session import Session
    from clew.store.store import Store


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
