"""Changes each block into one that the target can express, and reports the losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from clew.base.messages import Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.convert.report import Notes
from clew.providers.target import Piece, Target, is_refusal, link, words


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
