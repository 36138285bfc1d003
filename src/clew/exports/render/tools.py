"""A tool call as one line that opens by its kind: a diff, a terminal, JSON, text, images."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from clew.base.messages import Media, Opaque, Text, ToolCall, ToolResult
from clew.exports.render import diff
from clew.exports.render.terminal import terminal
from clew.exports.render.text import LONGEST, code, inline, language_of, markdown, name_secrets, one_line, plain
from clew.exports.tool_lines import main_argument

_SHELLS = re.compile(r"bash|shell|terminal|exec(_command)?|run_command|local_shell(_call)?|powershell", re.IGNORECASE)
_AGENTS = frozenset({"task", "agent", "subagent", "spawn_agent", "explore"})
_WEB = re.compile(
    r"web_?(fetch|search)|fetch(_url)?|(open|read|browse)_(url|page)|google_web_search|url_fetch", re.IGNORECASE
)
_BEFORE = ("old_string", "old_str", "old_text", "oldText")
_AFTER = ("new_string", "new_str", "new_text", "newText", "new_source")
_WHOLE = ("content", "file_text", "contents")
_PATCH = ("patch", "diff", "input")
_FILE = ("file_path", "path", "filepath", "filename", "absolute_path", "notebook_path")
_EXIT = re.compile(r"(?:exit(?:ed with)?(?: code| status)?|Exit code)[: ]+(\d+)", re.IGNORECASE)
WIDE = 160
"""Characters of the main argument on the line."""


class ShownCall(NamedTuple):
    """A tool call, its result if there is one, and where both are."""

    call: ToolCall
    result: ToolResult | None = None
    anchor: str = ""
    """The id of the element, if the message with the result is shown here and nowhere else."""
    number: int | None = None
    """The number of that message."""
    raw: str | None = None
    """Where the raw form of the call is."""
    raw_result: str | None = None
    trace: str | None = None
    """Where the trace of the subagent is."""


def render_call(one: ShownCall, media: Callable[[Media], str], *, open: bool = False) -> str:
    """One `details`: state, name, argument, summary; inside, what was done by its kind."""
    call, result = one.call, one.result
    state, icon = _state(result)
    lines = changes(call)
    agent = one.trace is not None or call.name.lower() in _AGENTS
    argument = one_line(name_secrets(main_argument(call)))
    argument = argument if len(argument) <= WIDE else f"{argument[: WIDE - 1]}…"
    return (
        f'<details class="call{" agent" if agent else ""}"{f" id={chr(34)}{one.anchor}{chr(34)}" if one.anchor else ""}'
        f'{" open" if open else ""}><summary><span class="i i-right chev" aria-hidden="true"></span>'
        f'<span class="i {icon} st" aria-hidden="true"></span><span class="vh">{state}: </span>'
        f"<b>{inline(one_line(name_secrets(call.name)))}</b><code>{inline(argument)}</code>"
        f'<span class="sum">{_summary(call, result, lines)}</span></summary>'
        f'<div class="out">{_inside(one, lines, agent, media)}</div></details>'
    )


def render_result(result: ToolResult, media: Callable[[Media], str]) -> str:
    """A result whose call is not shown here."""
    head = f'<div class="out-h"><span class="grow cut">Result of {inline(one_line(result.call_id))}</span></div>'
    kind = "Failed" if result.is_error else "Result"
    icon = "i-x" if result.is_error else "i-ok"
    return (
        '<div class="calls"><details class="call" open><summary><span class="i i-right chev" aria-hidden="true"></span>'
        f'<span class="i {icon} st" aria-hidden="true"></span><b>{kind}</b><code></code></summary>'
        f'<div class="out">{head}{render_content(result, media)}</div></details></div>'
    )


def changes(call: ToolCall) -> list[diff.DiffLine]:
    """The changes that a call makes to a file; empty if it is of another kind."""
    arguments = call.arguments
    edits = arguments.get("edits")
    pairs = [arguments, *(one for one in edits if isinstance(one, dict))] if isinstance(edits, list) else [arguments]
    lines: list[diff.DiffLine] = []
    for one in pairs:
        before, after = _text(one, _BEFORE), _text(one, _AFTER)
        if before is not None or after is not None:
            lines += diff.compare(before or "", after or "")
    if lines:
        return lines
    patch = _patch(call)
    if patch is not None:
        return diff.patch(patch)
    whole = _text(arguments, _WHOLE)
    if whole is not None and _text(arguments, _FILE) is not None:
        return diff.compare("", whole)
    return []


def changed_files(call: ToolCall) -> dict[str, list[diff.DiffLine]]:
    """The changes that a call makes, for each file; empty if it is of another kind."""
    lines, path, patch = changes(call), _text(call.arguments, _FILE), _patch(call)
    if lines and path is not None:
        return {path: lines}
    return {} if patch is None else diff.patched_files(patch)


def render_content(result: ToolResult, media: Callable[[Media], str], *, shell: bool = False, path: str = "") -> str:
    """What a tool gave back."""
    parts = []
    for block in result.content:
        match block:
            case Text():
                parts.append(_output(block.text, shell, path))
            case Media():
                parts.append(f'<div class="files">{media(block)}</div>')
            case Opaque():
                parts.append(json_block(block.data))
    return "".join(parts) or '<p class="out-more mute">No output</p>'


def json_block(value: Any) -> str:
    """A value as indented JSON."""
    encoded = msgspec.json.encode(value)
    if len(encoded) <= LONGEST:  # a line for each of many values deep inside would take more memory than there is
        encoded = msgspec.json.format(encoded, indent=2)
    shown = encoded.decode()
    return f'<pre tabindex="0"><code>{code(shown, "json")}</code></pre>'


def _inside(one: ShownCall, lines: list[diff.DiffLine], agent: bool, media: Callable[[Media], str]) -> str:
    call, result = one.call, one.result
    path = _text(call.arguments, _FILE) or ""
    shell = _SHELLS.fullmatch(call.name) is not None
    if agent:
        return _heading("Subagent", one) + _agent(one)
    if lines:
        failed = render_content(result, media) if result is not None and result.is_error else ""
        return _heading(f"Diff · {inline(one_line(path))}" if path else "Diff", one) + diff.render(lines, path) + failed
    if shell:
        command = f'<span class="a8">$</span> {plain(main_argument(call))}\n'
        texts = [block for block in result.content if isinstance(block, Text)] if result is not None else []
        rest = "" if result is None else _others(result, media)
        output = "".join(terminal(block.text) for block in texts)
        return f'{_heading("Terminal", one)}<pre tabindex="0">{command}{output}</pre>{rest}'
    if _WEB.fullmatch(call.name):
        return _heading("Web", one) + _web(call, result, media)
    shown = "" if result is None else render_content(result, media, path=path if _reads(call) else "")
    asked = json_block(call.arguments) if call.arguments and not _reads(call) else ""
    if asked and shown:
        asked += '<div class="out-h"><span class="grow">Result</span></div>'
    return _heading(inline(one_line(path)) if _reads(call) and path else "Arguments", one) + asked + shown


def _agent(one: ShownCall) -> str:
    asked = next((value for name in ("prompt", "task", "message") if (value := _text(one.call.arguments, (name,)))), "")
    answer = "" if one.result is None else "\n\n".join(b.text for b in one.result.content if isinstance(b, Text))
    parts = [f'<p class="lab">To <b>{inline(one_line(one.call.name))}</b></p><div class="body">{markdown(asked)}</div>']
    if one.trace is not None:
        parts.append(
            f'<div class="trace" data-trace="{inline(one.trace)}"><p class="lab"><a href="{inline(one.trace)}">'
            "All messages of the subagent</a></p></div>"
        )
    if answer:
        parts.append(f'<p class="lab">Answer</p><div class="body">{markdown(answer)}</div>')
    return "".join(parts)


def _web(call: ToolCall, result: ToolResult | None, media: Callable[[Media], str]) -> str:
    """A page or a search: its address as a link that shows its target, and the result as text."""
    address = _text(call.arguments, ("url", "uri")) or ""
    is_link = address.startswith(("http://", "https://")) and not re.search(r"[\s<>]", address)
    asked = "\n\n".join(
        value for name in ("query", "q", "prompt") if (value := _text(call.arguments, (name,))) is not None
    )
    parts = [markdown(f"<{address}>") if is_link else f"<p>{inline(address)}</p>"] if address else []
    parts += [f"<p>{inline(asked)}</p>"] if asked else []
    texts = [block.text for block in result.content if isinstance(block, Text)] if result is not None else []
    answer = "".join(f'<div class="body">{markdown(text)}</div>' for text in texts)
    rest = "" if result is None else _others(result, media)
    return f'<div class="web"><div class="lab">{"".join(parts)}</div>{answer}</div>{rest}'


def _heading(label: str, one: ShownCall) -> str:
    links = "".join(
        f'<a class="btn bare sm" href="{inline(url)}">{name}</a>'
        for name, url in (("Raw", one.raw), ("Raw result", one.raw_result))
        if url is not None
    )
    number = f" · result is #{one.number}" if one.number is not None else ""
    return f'<div class="out-h"><span class="grow cut">{label}{number}</span><span>{links}</span></div>'


def _output(text: str, shell: bool, path: str) -> str:
    if shell or "\x1b[" in text:
        return f'<pre tabindex="0">{terminal(text)}</pre>'
    if text[:1] in "{[" and text.strip():
        try:
            return json_block(msgspec.json.decode(text))
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            pass
    shown = code(text, language_of(path)) if path else plain(text)
    return f'<pre tabindex="0">{shown}</pre>'


def _others(result: ToolResult, media: Callable[[Media], str]) -> str:
    others = tuple(block for block in result.content if not isinstance(block, Text))
    return "" if not others else render_content(ToolResult(call_id=result.call_id, content=others), media)


def _state(result: ToolResult | None) -> tuple[str, str]:
    if result is None:
        return "No result stored", "i-stop"
    return ("Failed", "i-x") if result.is_error else ("Succeeded", "i-ok")


def _summary(call: ToolCall, result: ToolResult | None, lines: list[diff.DiffLine]) -> str:
    if result is None:
        return "no result"
    text = "\n".join(block.text for block in result.content if isinstance(block, Text))
    if lines and not result.is_error:
        return diff.summary(lines)
    if _SHELLS.fullmatch(call.name) and (found := _EXIT.search(text[:2000] + text[-2000:])):
        return f"exit {found[1]}"
    if result.is_error:
        return "error"
    count = len(text.splitlines())
    media = sum(isinstance(block, Media) for block in result.content)
    words = [f"{count:,} line{'s' * (count != 1)}"] if count else []
    return " · ".join([*words, *([f"{media} attachment{'s' * (media != 1)}"] if media else [])]) or "no output"


def _reads(call: ToolCall) -> bool:
    return call.name.lower() in {"read", "view", "cat", "read_file", "readfile", "open_file"}


def _patch(call: ToolCall) -> str | None:
    text = _text(call.arguments, _PATCH)
    if text is None or not ("*** Begin Patch" in text or "\n@@" in text or text.startswith(("@@", "--- "))):
        return None
    return text


def _text(values: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((value for name in names if isinstance(value := values.get(name), str)), None)
