"""Text for blocks that the neutral view does not know: the work of a provider's own tools."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Opaque


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
