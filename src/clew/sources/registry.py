"""The sources that clew knows: its own, and those that other packages add by the entry point ``clew.sources``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import NamedTuple

from clew.errors import ClewError, NotFound
from clew.sources.contract import Source
from clew.sources.items import Item, items

GROUP = "clew.sources"
_OWN = (
    "qwen_code:QwenCode",  # before Claude Code, whose lines have the same names and other messages
    "claude_code:ClaudeCode",
    "chatgpt:ChatGPT",
    "claude_ai:ClaudeAI",
    "copilot_cli:CopilotCLI",
    "vscode:VSCode",
    "gemini_cli:GeminiCLI",
    "opencode:OpenCode",
    "pi:Pi",
    "goose:Goose",
    "cline:Cline",
    "continue_dev:Continue",
    "aider:Aider",
    "cursor:Cursor",
    "open_webui:OpenWebUI",
    "librechat:LibreChat",
    "lm_studio:LMStudio",
    "hf_traces:HFTraces",
    "otel:OTel",
)
_MEMBERS = (".jsonl", ".json")
"""Files of a zip archive that may be a history."""


class Found(NamedTuple):
    """A file and the source that reads it; `why` says why it cannot be read, if no source does."""

    item: Item
    source: Source | None
    why: str = ""


@cache
def sources() -> tuple[Source, ...]:
    """Every source, clew's own first."""
    own = []
    for name in _OWN:
        module, _, kind = name.partition(":")
        own.append(getattr(import_module(f"clew.sources.{module}"), kind)())
    return (*own, *(entry.load()() for entry in entry_points(group=GROUP)))


def find(paths: Iterable[str]) -> Iterator[Found]:
    """What is at these paths: files, archives, and everything below folders. Links in folders are not followed."""
    for path in paths:
        absolute = os.path.abspath(path)
        if os.path.isdir(absolute):
            names = sorted(
                os.path.join(place, name)
                for place, _, files in os.walk(absolute)
                for name in files
                if not os.path.islink(os.path.join(place, name))
            )
            for name in sorted(names, key=_modified):
                yield from (found for found in _recognise(name) if found.source is not None)
        elif not os.path.lexists(absolute):
            raise NotFound("file", path, hint="Check the path.")
        else:
            yield from _recognise(absolute)


def _recognise(path: str) -> Iterator[Found]:
    try:
        found = list(items(path))
    except ClewError as error:
        yield Found(Item(path, 0, 0), None, error.message)
        return
    members = [item for item in found if item.member is None or item.member.endswith(_MEMBERS)]
    known = 0
    for item in members:
        try:
            head = item.head()
            source = next((source for source in sources() if source.recognise(item.member or path, head)), None)
        except ClewError as error:
            yield Found(item, None, error.message)
            continue
        if source is not None:
            known += 1
            yield Found(item, source)
    if not known and not (len(found) == 1 and found[0].size == 0):
        yield Found(Item(path, 0, 0), None, "no source recognises it")


def _modified(path: str) -> tuple[int, str]:
    try:
        return os.stat(path).st_mtime_ns, path
    except OSError:
        return 0, path
