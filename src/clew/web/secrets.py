"""Secrets in messages, found by the built-in redaction rules: hidden on the page until the user clicks them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from clew.base.messages import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.errors import Invalid
from clew.exports.render.text import conceal, name_secrets
from clew.redaction import Rules, builtin
from clew.redaction.linear import TimeBudget
from clew.redaction.rules import OVERLAP

AROUND = 4_000
"""Characters around a snippet that are searched: a secret may begin before it or end after it."""
SHORTEST = 4
"""Characters of a secret that a snippet may begin or end with and that are hidden."""

Spans = list[tuple[int, int, str]]


class SecretFinder:
    """Finds secrets. Its only state is the compiled rules."""

    def __init__(self) -> None:
        self._rules = Rules(builtin())

    def hide(self, text: str, most: int | None = None) -> str:
        """The text with marks for its secrets, which the renderer turns into controls that reveal them.

        With `most`, at most that many characters; fewer if the cut would split a secret.
        """
        if most is None or len(text) <= most:
            return conceal(text, self._spans(text))
        spans = self._spans(text[: most + OVERLAP])
        end = next((start for start, stop, _ in spans if start < most < stop), most)
        return conceal(text[:end], (one for one in spans if one[1] <= end))

    def in_line(self, text: str, most: int | None = None) -> str:
        """The text with the kind of each secret in its place: for lines and links, which cannot have controls."""
        return name_secrets(self.hide(name_secrets(text), most))

    def in_message(self, message: Message) -> Message:
        """The message with marks for the secrets in its blocks; the same object if there are none."""
        blocks = tuple(map(self._block, message.blocks))
        if all(new is old for new, old in zip(blocks, message.blocks, strict=True)):
            return message
        return msgspec.structs.replace(message, blocks=blocks)

    def in_snippet(self, snippet: str, whole: str) -> Spans:
        """The secrets of `whole` in a part of it, also those that the part cuts."""
        core = snippet.strip("…")
        at, lead = whole.find(core), len(snippet) - len(snippet.lstrip("…"))
        if not core or at < 0:  # the snippet was changed: look for the secrets themselves
            secrets = ((whole[start:end], rule) for start, end, rule in self._spans(whole))
            return _merge(one for secret, rule in secrets for one in _places(snippet, secret, rule))
        low = max(0, at - AROUND)
        shift = lead + low - at
        last = lead + len(core)
        near = self._spans(whole[low : at + len(core) + AROUND])
        found = [(max(start + shift, lead), min(end + shift, last), rule) for start, end, rule in near]
        return _merge(one for one in found if one[0] < one[1])

    def _spans(self, text: str) -> Spans:
        """Never raises Invalid: a text that takes too long is hidden as a whole."""
        try:
            return self._rules.spans(text, TimeBudget(len(text)))
        except Invalid:
            return [(0, len(text), "unchecked-text")]

    def _block(self, block: Any) -> Any:
        match block:
            case Text() | Thinking():
                return _replace(block, text=self.hide(block.text))
            case ToolCall():
                return _replace(block, arguments=self._value(block.arguments))
            case ToolResult():
                return _replace(block, content=self._blocks(block.content))
            case Opaque():
                return _replace(block, data=self._value(block.data))
            case Media():
                name, url = block.name, block.url
                inline = url is not None and url.startswith("data:")
                return _replace(block, name=name and self.hide(name), url=url if inline or not url else self.hide(url))
        return block

    def _blocks(self, blocks: Iterable[Block]) -> tuple[Block, ...]:
        return tuple(map(self._block, blocks))

    def _value(self, value: Any) -> Any:
        """A JSON value, with its texts and keys."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, list | tuple):
            return [self._value(one) for one in value]
        if isinstance(value, dict):
            return {self.hide(key) if isinstance(key, str) else key: self._value(one) for key, one in value.items()}
        return value


def _replace(block: Any, **values: Any) -> Any:
    if all(getattr(block, name) == value for name, value in values.items()):
        return block
    return msgspec.structs.replace(block, **values)


def _merge(spans: Iterable[tuple[int, int, str]]) -> Spans:
    found: Spans = []
    for one in sorted(spans):
        if not found or one[0] >= found[-1][1]:
            found.append(one)
    return found


def _places(snippet: str, secret: str, rule: str) -> Spans:
    """The places of a secret in a snippet, also if the snippet begins or ends in the middle of it."""
    found: Spans = []
    at = snippet.find(secret)
    while at >= 0:
        found.append((at, at + len(secret), rule))
        at = snippet.find(secret, at + len(secret))
    first, last = len(snippet) - len(snippet.lstrip("…")), len(snippet.rstrip("…"))
    for size in range(min(len(secret), last - first), SHORTEST - 1, -1):
        if snippet.startswith(secret[-size:], first):
            found.append((first, first + size, rule))
            break
    for size in range(min(len(secret), last - first), SHORTEST - 1, -1):
        if snippet.endswith(secret[:size], first, last):
            found.append((last - size, last, rule))
            break
    return found
