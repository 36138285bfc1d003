"""A step as one line that opens by its kind: a diff, a terminal, a list of things to do, a table, text, images."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from clew.base.messages import Media, Opaque, Text
from clew.exports.render.terminal import terminal
from clew.exports.render.text import (
    LINE,
    LONGEST,
    attribute,
    code,
    inline,
    language_of,
    limits,
    markdown,
    name_secrets,
    one_line,
    plain,
)
from clew.turns import faces
from clew.turns.diff import DiffLine, counts
from clew.turns.model import ProgramNote, Step

_STATES = {
    "missing": ("No result stored", "i-stop"),
    "failed": ("Failed", "i-x"),
    "done": ("Succeeded", "i-ok"),
}
_OPEN = ("todos", "question", "plan")
"""Kinds of steps that are open from the beginning: they are short, and written for the user."""
SHORT_DIFF = 40
"""Lines of a diff that is open from the beginning."""
MOST = 200
"""Rows of a table and lines of a list that are rendered."""
_CHECKS = {"done": ("☑", "Done"), "now": ("▸", "In progress"), "dropped": ("☒", "Dropped"), "open": ("☐", "To do")}


class StepLinks(NamedTuple):
    """Where the parts of a step are."""

    anchor: str = ""
    """The id of the element, if the message with the result is shown here and nowhere else."""
    number: int | None = None
    """The number of that message."""
    raw: str | None = None
    """Where the raw form of the call is."""
    raw_result: str | None = None
    trace: str | None = None
    """Where the trace of the subagent is."""


def render_step(
    step: Step,
    links: StepLinks,
    media: Callable[[Media], str],
    note: Callable[[ProgramNote], str],
    *,
    open: bool = False,
) -> str:
    """One `details`: state, name, argument, summary; inside, what was done by its kind."""
    state, icon = _STATES[step.state]
    panels = faces.panels(step, limits().read)
    agent = links.trace is not None or step.kind == "agent"
    argument = one_line(name_secrets(step.line))
    argument = argument if len(argument) <= faces.WIDE else f"{argument[: faces.WIDE - 1]}…"
    lines = [line for panel in panels if isinstance(panel, faces.Diff) for line in panel.lines]
    has_diff = bool(lines) and step.state == "done"
    ended = diff_summary(lines) if has_diff else inline(faces.summary(step))
    open = open or step.kind in _OPEN or (has_diff and len(lines) <= SHORT_DIFF) or any(map(_is_image, panels))
    inside = "".join(_panels(step, panels, links, media)) + "".join(map(note, step.notes))
    return (
        f'<details class="call{" agent" if agent else ""}"'
        f"{f' id={chr(34)}{links.anchor}{chr(34)}' if links.anchor else ''}"
        f'{" open" if open else ""}><summary><span class="i i-right chev" aria-hidden="true"></span>'
        f'<span class="i {icon} st" aria-hidden="true"></span><span class="vh">{state}: </span>'
        f"<b>{inline(one_line(name_secrets(step.label)))}</b><code>{inline(argument)}</code>"
        f'<span class="sum">{ended}</span></summary>'
        f'<div class="out">{inside}</div></details>'
    )


def _is_image(panel: faces.Panel) -> bool:
    return isinstance(panel, faces.Output) and isinstance(panel.block, Media) and panel.block.modality == "image"


def json_block(value: Any) -> str:
    """A value as indented JSON."""
    encoded = msgspec.json.encode(value)
    if len(encoded) <= LONGEST:  # a line for each of many values deep inside would take more memory than there is
        encoded = msgspec.json.format(encoded, indent=2)
    shown = encoded.decode()
    return f'<pre tabindex="0"><code>{code(shown, "json")}</code></pre>'


def _panels(
    step: Step, panels: Iterable[faces.Panel], links: StepLinks, media: Callable[[Media], str]
) -> Iterable[str]:
    """The panels under one heading, which has the links."""
    found = list(panels)
    yield _heading(_title(step, found), links)
    if links.trace is not None:
        yield (
            f'<div class="trace" data-trace="{inline(links.trace)}"><p class="lab"><a href="{inline(links.trace)}">'
            "All messages of the subagent</a></p></div>"
        )
    for number, panel in enumerate(found):
        if isinstance(panel, faces.Diff) and number:
            yield f'<div class="out-h"><span class="grow cut">Diff · {inline(one_line(panel.path))}</span></div>'
        if isinstance(panel, faces.Output) and number and isinstance(found[number - 1], faces.ArgumentTable):
            yield '<div class="out-h"><span class="grow">Result</span></div>'
        yield _panel(panel, media)
    if not found and not step.notes:
        yield '<p class="out-more mute">No output</p>'


def _title(step: Step, panels: list[faces.Panel]) -> str:
    first = panels[0] if panels else None
    match first:
        case faces.Diff() | faces.Code():
            path = inline(one_line(first.path))
            return path if isinstance(first, faces.Code) else f"Diff · {path}" if path else "Diff"
        case faces.Terminal():
            return "Terminal"
        case faces.ArgumentTable():
            return "Arguments"
        case faces.Checks():
            return "To do"
        case faces.Question():
            return "Question"
    if step.call is None:
        return f"Result of {inline(one_line(step.line))}"
    return {"agent": "Subagent", "web": "Web", "plan": "Plan"}.get(step.kind, "Result")


def _panel(panel: faces.Panel, media: Callable[[Media], str]) -> str:
    match panel:
        case faces.Terminal():
            command = f'<span class="a8">$</span> {plain(panel.command)}\n'
            return f'<pre tabindex="0">{command}{terminal(panel.output)}</pre>'
        case faces.Diff():
            return render_diff(panel.lines, panel.path)
        case faces.Code():
            return _output(panel.text, panel.path)
        case faces.Prose():
            return f'<p class="lab">{inline(one_line(panel.label))}</p><div class="body">{markdown(panel.text)}</div>'
        case faces.Checks():
            return f'<ul class="todos">{"".join(map(_check, panel.items[:MOST]))}</ul>'
        case faces.Question():
            return _question(panel)
        case faces.PageLink():
            is_link = panel.url.startswith(("http://", "https://")) and not re.search(r"[\s<>]", panel.url)
            return f'<div class="body">{markdown(f"<{panel.url}>") if is_link else f"<p>{inline(panel.url)}</p>"}</div>'
        case faces.ArgumentTable():
            rows = "".join(
                f"<tr><th>{inline(one_line(name))}</th><td>{plain(value)}</td></tr>"
                for name, value in panel.rows[:MOST]
            )
            return f'<div class="args"><table><tbody>{rows}</tbody></table></div>'
        case faces.Output():
            return _block(panel.block, media)


def _block(block: Text | Media | Opaque, media: Callable[[Media], str]) -> str:
    match block:
        case Text():
            return _output(block.text, "") if block.text.strip() else '<p class="out-more mute">No output</p>'
        case Media():
            return f'<div class="files">{media(block)}</div>'
        case Opaque():
            return json_block(block.data)


def _check(item: tuple[str, str]) -> str:
    sign, word = _CHECKS[item[0]]
    return (
        f'<li class="{item[0]}"><span aria-hidden="true">{sign}</span><span class="vh">{word}: </span>'
        f"{inline(one_line(item[1]))}</li>"
    )


def _question(panel: faces.Question) -> str:
    options = "".join(
        f'<li class="{"now" if option == panel.answer else "open"}">'
        f'<span aria-hidden="true">{"◉" if option == panel.answer else "○"}</span>'
        f"{inline(one_line(option))}{'<span class=vh> (chosen)</span>' if option == panel.answer else ''}</li>"
        for option in panel.options[:MOST]
    )
    other = panel.answer and panel.answer not in panel.options
    answer = f'<p class="lab">Answer</p><div class="body typed">{plain(panel.answer)}</div>' if other else ""
    return (
        f'<div class="body"><p>{plain(panel.text)}</p></div>'
        f"{f'<ul class={chr(34)}todos{chr(34)}>{options}</ul>' if options else ''}{answer}"
    )


def _heading(label: str, links: StepLinks) -> str:
    shown = "".join(
        f'<a class="btn bare sm" href="{inline(url)}">{name}</a>'
        for name, url in (("Raw", links.raw), ("Raw result", links.raw_result))
        if url is not None
    )
    number = f" · result is #{links.number}" if links.number is not None else ""
    return f'<div class="out-h"><span class="grow cut">{label}{number}</span><span>{shown}</span></div>'


def _output(text: str, path: str) -> str:
    if "\x1b[" in text:
        return f'<pre tabindex="0">{terminal(text)}</pre>'
    if text[:1] in "{[" and text.strip() and not path:
        try:
            return json_block(msgspec.json.decode(text))
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            pass
    shown = code(text, language_of(path)) if path else plain(text)
    return f'<pre tabindex="0">{shown}</pre>'


def diff_summary(lines: list[DiffLine]) -> str:
    """``+8 −4``."""
    added, removed = counts(lines)
    parts = [f'<span class="add">+{added:,}</span>'] if added or not removed else []
    return " ".join([*parts, *([f'<span class="rem">−{removed:,}</span>'] if removed else [])])


def render_diff(lines: list[DiffLine], label: str) -> str:
    """The diff as a table of lines that scrolls on its own."""
    shown: list[str] = []
    size = 0
    most = limits()
    while len(shown) < min(most.lines, len(lines)) and size < most.text:
        line = lines[len(shown)]
        size += min(len(line.text), LINE)
        shown.append(_render_line(line))
    body, left = "".join(shown), len(lines) - len(shown)
    rest = f'<p class="out-more">{left:,} more lines {most.rest}</p>' if left else ""
    return (
        f'<div class="diff-w" tabindex="0" role="region" aria-label="Diff of {attribute(label)}">'
        f'<div class="diff">{body}</div></div>{rest}'
    )


def _render_line(line: DiffLine) -> str:
    text = inline(line.text if len(line.text) <= limits().line else f"{line.text[:LINE]}…")
    if line.kind == "@":
        return f'<div class="l h"><span>{text}</span></div>'
    sign = {"+": "+", "-": "−"}.get(line.kind, " ")
    name = {"+": " p", "-": " d"}.get(line.kind, "")
    numbers = "".join(f"<i>{'' if number is None else number}</i>" for number in (line.old, line.new))
    return f'<div class="l{name}">{numbers}<b>{sign}</b><span>{text}</span></div>'
