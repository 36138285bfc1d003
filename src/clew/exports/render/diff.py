"""Changes to a file as HTML."""

from __future__ import annotations

from clew.exports.render.text import LINE, attribute, inline, limits
from clew.turns.diff import DiffLine, counts


def summary(lines: list[DiffLine]) -> str:
    """``+8 −4``."""
    added, removed = counts(lines)
    parts = [f'<span class="add">+{added:,}</span>'] if added or not removed else []
    return " ".join([*parts, *([f'<span class="rem">−{removed:,}</span>'] if removed else [])])


def render(lines: list[DiffLine], label: str) -> str:
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
