"""LM Studio: ``~/.lmstudio/conversations/**/<time>.conversation.json``, before that below ``~/.cache/lm-studio``.

A message has several versions, one of which is selected: they are siblings, and the conversation continues from the
selected one. Messages have neither ids nor times. A version is named by its bytes and the message it follows, so that
an edited message is a new branch. There is no published schema.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from clew.base.messages import Native
from clew.providers.json_values import Json, as_dict, as_list
from clew.providers.view import parse
from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id
from clew.sources.documents import FRAME, frame, read_document
from clew.sources.items import Item
from clew.sources.values import digest, elements, fields, nonblank, tokens, when

NAME = "lm-studio"
_ENDING = ".conversation.json"


class LMStudio:
    """See `clew.sources.contract.Source`."""

    name = NAME
    title = "LM Studio"
    deletes_after = None

    def discover(self, home: Home) -> tuple[str, ...]:
        return (
            os.path.join(home.path, ".lmstudio", "conversations"),
            os.path.join(home.path, ".cache", "lm-studio", "conversations"),
        )

    def resume(self, conversation: str) -> None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        return head.lstrip()[:1] == b"{" and b'"versions"' in head and b'"currentlySelected"' in head

    def read(self, item: Item) -> Iterator[Part]:
        name = os.path.basename(item.member or item.path).removesuffix(_ENDING).removesuffix(".json")
        return read_document(item, lambda raw: _conversation(name, raw))


def _conversation(name: str, raw: bytes) -> Iterator[Part]:
    chat = parse(raw)
    if not isinstance(chat.get("messages"), list):
        yield Skip(None, "the conversation has no messages")
        return
    at = when(chat.get("createdAt")) or when(name)
    bodies: dict[str, bytes] = {}
    before: str | None = None
    entries: list[Entry] = []
    models: list[str] = []
    for message in elements(fields(raw)["messages"]):
        said = as_dict(_value(bytes(message)))
        versions = said.get("versions")
        if not isinstance(versions, list) or not versions:
            continue
        parts = elements(fields(message)["versions"])
        keys: dict[int, str] = {}
        for number, (version, part) in enumerate(zip(versions, parts, strict=True)):
            key = digest(before or "", bytes(part))
            if not isinstance(version, dict) or key in bodies:
                continue
            keys[number], bodies[key] = key, bytes(part)
            model, usage = _generation(version)
            models += [model] if model else []
            extra: Json = {key: value for key, value in {"model": model, "usage": usage}.items() if value is not None}
            entries.append(
                Entry(
                    conversation=name,
                    raw=bytes(part),
                    key=key,
                    id=derived_id(NAME, name, key),
                    message=Native(NAME, bytes(part), extra=extra or None),
                    parent=None if before is None else derived_id(NAME, name, before),
                    created_at=at,
                )
            )
        chosen = said.get("currentlySelected")
        before = keys.get(chosen if type(chosen) is int else 0) or next(iter(keys.values()), before)
    used = as_dict(chat.get("lastUsedModel"))
    last = nonblank(used.get("identifier")) or nonblank(used.get("indexedModelIdentifier"))
    yield About(
        conversation=name,
        title=nonblank(chat.get("name")),
        model=last or (models[-1] if models else None),
        head=None if before is None else derived_id(NAME, name, before),
    )
    yield from entries
    framed = frame(raw, {derived_id(NAME, name, key): body for key, body in bodies.items()})
    yield Entry(conversation=name, raw=framed, key=FRAME)


def _value(raw: bytes) -> object:
    return parse(raw) if raw.lstrip()[:1] == b"{" else None


def _generation(version: Json) -> tuple[str | None, dict[str, int] | None]:
    """The model of an answer, and the tokens of all its steps; steps of one generation repeat its numbers."""
    infos = [as_dict(step.get("genInfo")) for step in as_list(version.get("steps"))]
    models = [nonblank(one.get("indexedModelIdentifier")) or nonblank(one.get("identifier")) for one in infos]
    stats: list[Json] = []
    for info in infos:
        if (one := as_dict(info.get("stats"))) and one not in stats:
            stats.append(one)
    known = [model for model in models if model]
    return known[-1] if known else None, tokens(
        input=_sum(stats, "promptTokensCount"), output=_sum(stats, "predictedTokensCount")
    )


def _sum(stats: list[Json], name: str) -> int | None:
    counts = [one[name] for one in stats if type(one.get(name)) is int]
    return sum(counts) if counts else None
