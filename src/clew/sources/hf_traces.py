"""Session traces of Hugging Face: JSONL with a line about the session, and a line for each message.

The format is published ("Session Trace Simple Format"). Messages have no ids: each is named by its bytes and the
message before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from clew.providers.json_values import as_dict
from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id
from clew.sources.items import Item
from clew.sources.lines import head_lines, json_lines
from clew.sources.values import digest, field_bytes, nonblank, when

NAME = "hf-traces"


class HFTraces:
    """See `clew.sources.contract.Source`."""

    name = NAME
    title = "Hugging Face traces"
    deletes_after = None

    def discover(self, home: Home) -> tuple[str, ...]:
        return ()

    def resume(self, conversation: str) -> None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        first = next(head_lines(head), {})
        return first.get("type") == "session" and "harness" in first

    def read(self, item: Item) -> Iterator[Part]:
        conversation = os.path.basename(item.member or item.path).removesuffix(".jsonl")
        before, parent = "", None
        at = when(item.modified)
        for line in json_lines(item):
            if isinstance(line, Skip):
                yield line
                continue
            kind, said = line.fields.get("type"), as_dict(line.fields.get("message"))
            if kind == "session" and not before:
                conversation = nonblank(line.fields.get("id")) or conversation
                yield About(
                    conversation=conversation,
                    title=nonblank(line.fields.get("name")),
                    cwd=nonblank(line.fields.get("cwd")),
                    version=nonblank(line.fields.get("harness")),
                )
                at = when(line.fields.get("timestamp")) or at
            at = when(said.get("timestamp")) or at
            if kind != "message" or nonblank(said.get("role")) is None:
                yield Entry(conversation=conversation, raw=line.data, key=f"line {line.number}", created_at=at)
                continue
            before = digest(before, line.data)
            id = derived_id(NAME, conversation, before)
            if model := nonblank(said.get("model")):
                yield About(conversation=conversation, model=model)
            yield Entry(
                conversation=conversation,
                raw=line.data,
                key=before,
                id=id,
                message=line.native(NAME, field_bytes(line.data, "message")),
                parent=parent,
                created_at=at,
            )
            parent = id
