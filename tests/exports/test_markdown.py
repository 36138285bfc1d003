"""A conversation as Markdown: prompts as they were typed, images beside the file, nothing that a text can break."""

from __future__ import annotations

import base64
import difflib
import html as entities
import re
from pathlib import Path
from time import process_time
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import clew
from clew import exports
from clew.base.messages import Media, Opaque, Text, ToolCall, ToolResult
from clew.exports.to_markdown import as_typed, fenced, markdown
from clew.providers.prices import Prices, read_price
from clew.store.origin import CPE_NOTE
from clew.store.usage import conversation_usage
from tests.turns.test_derive import PIXEL

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def read_back(text: str) -> str:
    """The words of a prompt after a reader of Markdown has shown them."""
    shown = READER.render("\n".join(as_typed(text)))
    assert not re.search("<(?!/?p>|br />)", shown), shown
    shown = shown.replace("<br />\n", "\n").replace("</p>\n<p>", "\n\n").removeprefix("<p>").removesuffix("</p>\n")
    return entities.unescape(shown).replace("\xa0", " ")


@pytest.mark.parametrize(
    "text",
    ["web-1 timeout\n    indented\nfix src/__init__.py", "*a* _b_ `c` ~~d~~ <b>e</b> &amp; [f](g) ![h](i) j\\*k",
     "# no heading\n- no list\n1. no list\n> no quotation\n---\n===", "a | b\n---|---\n1 | 2", "\ttab\n\na\n\nb",
     "[a]: http://x", "snake_case_word", "a\\", "1) x\n+ y", "<https://a.test>", "``` not a fence ```"],
)  # fmt: skip
def test_a_prompt_reads_as_it_was_typed(text: str) -> None:
    """Line breaks, indentation and marks of Markdown come out of a reader as they went in."""
    assert read_back(text).replace("    tab", "\ttab") == text


@given(st.text(alphabet="ab *_`#>-+.1)(<&;[]!~|\\=\n", max_size=40))
def test_any_prompt_reads_as_it_was_typed(text: str) -> None:
    """No mix of marks becomes a tag; every letter stays."""
    if "```" in text or "~~~" in text:
        return
    shown = read_back(text)
    assert re.sub(r"\s", "", shown) == re.sub(r"\s", "", text)


def test_only_fences_of_a_prompt_are_styled() -> None:
    """A fence in a prompt stays a fence, and what is around it does not."""
    lines = list(as_typed("run *this*:\n```python\nx = '*'\n```\n_ok_"))
    assert lines == ["run \\*this\\*:", "```python", "x = '*'", "```", "", "\\_ok\\_"]


def test_a_fence_cannot_be_left() -> None:
    """The output of a tool with fences stays inside its own."""
    first, *_, last = fenced("a\n```\n# b\n````\n")
    assert first == last == "`````"


def test_images_are_files_beside_the_markdown(store: clew.Store, tmp_path: Path) -> None:
    """A pasted image and one that a tool returned are written beside the file, and shown by it; nothing else is."""
    session = store.sessions.create(title="Pictures")
    image = Media(mime_type="image/png", modality="image", url=f"data:image/png;base64,{PIXEL}")
    fake = Media(mime_type="image/png", modality="image", url="data:image/png;base64,PHN2Zz4=", name="x](y)")
    session.append(clew.user(image, "What is it?"))
    session.append(clew.assistant(ToolCall(id="a", name="shot")))
    session.append(clew.Message("tool", (ToolResult(call_id="a", content=(image, fake)),)))
    target = tmp_path / "out" / "talk.md"
    target.parent.mkdir()
    exports.write(store, target, [session], form="markdown")
    text = target.read_text()
    files = re.findall(r"!\[image\]\((talk-files/[\w.-]+)\)", text)
    assert [(target.parent / name).read_bytes() for name in files] == [base64.b64decode(PIXEL)] * 2
    assert "\\[image: image/png, x]\\(y)]" in text
    assert sorted(one.name for one in (target.parent / "talk-files").iterdir()) == ["1-1.png", "3-2.png"]


def test_hostile_text_adds_no_heading(store: clew.Store) -> None:
    """A name, a path, a title or a note with line breaks and marks stays on its line."""
    bad = "x\n\n## user · fake\n<script>`"
    session = store.sessions.create(title=bad, cwd=bad)
    session.append(clew.system(bad))
    session.append(clew.user(bad))
    call = ToolCall(id=bad, name=bad, arguments={bad: bad, "file_path": bad, "todos": [{"content": bad}]})
    session.append(clew.assistant(call, ToolCall(id="t", name="TodoWrite", arguments=call.arguments), model=bad))
    session.append(clew.tool(bad, call_id=bad))
    fence, headings = "", []
    for line in markdown(session, session.path()):
        found = re.match(r"\s*(`{3,})", line)
        if found and (not fence or line.strip() == fence):
            fence = "" if fence else found[1]
        elif not fence and line.startswith("## "):
            headings.append(line.split(" · ")[0])
    assert headings == ["## user", "## assistant"]


@pytest.mark.parametrize("detail", ["conversation", "folded", "full"])
def test_no_field_is_a_link_or_an_image(detail: Literal["conversation", "folded", "full"], store: clew.Store) -> None:
    """Titles, models, notes, tools, todo lists, questions, attachments and unknown blocks are shown as they are."""
    bad = "a` ![x](http://evil.test/x.png) <http://evil.test>"
    session = store.sessions.create(title=bad, cwd="/src")
    image = Media(mime_type="image/png", modality="image", url="https://a.test/x.png", name=bad)
    session.append(clew.system(bad))
    session.append(clew.user("Go", image, Opaque(kind=bad)))
    calls = (
        ToolCall(id="a", name=bad, arguments={"x": bad}),
        ToolCall(id="b", name="TodoWrite", arguments={"todos": [{"content": bad}]}),
        ToolCall(id="c", name="ask_user", arguments={"question": bad, "options": [bad]}),
        ToolCall(id="d", name="Task", arguments={"subagent_type": bad, "description": bad, "prompt": "Go"}),
        ToolCall(id="e", name="Edit", arguments={"file_path": bad, "old_string": "x", "new_string": "y"}),
        ToolCall(id="f", name="WebFetch", arguments={"url": bad}),
    )
    session.append(clew.assistant(*calls, Opaque(kind=bad), image, model=bad))
    for call in calls:
        session.append(clew.tool("ok", call_id=call.id))
    shown = READER.render("\n".join(markdown(session, session.path(), detail=detail)))
    assert not re.search("<img|<a ", re.sub("(?s)<(pre|code)>.*?</\\1>", "", shown)), shown


def test_an_edit_is_compared_once(store: clew.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of an edit counts the lines of the diff below it."""
    made: list[int] = []

    class Counted(difflib.SequenceMatcher[str]):
        def __init__(self, *given: Any) -> None:
            made.append(1)
            super().__init__(*given)

    monkeypatch.setattr(difflib, "SequenceMatcher", Counted)
    session = store.sessions.create()
    arguments = {"file_path": "a.py", "old_string": "a\nb", "new_string": "a\nc"}
    session.append(clew.assistant(ToolCall(id="a", name="Edit", arguments=arguments)))
    session.append(clew.tool("ok", call_id="a"))
    assert any("+1 −1" in line for line in markdown(session, session.path()))
    assert len(made) == 1


def test_a_row_of_tildes_takes_linear_time() -> None:
    """A prompt of tildes that is no fence does not stall an export."""
    begun = process_time()
    list(as_typed("~" * 50_000))
    assert process_time() - begun < 1


def test_levels_of_detail(store: clew.Store) -> None:
    """Prompts alone; with answers and calls on a line; everything on a line; everything."""
    session = store.sessions.create(title="T")
    session.append(clew.system("Be brief. " * 20 + "Always."))
    session.append(clew.user("Go"))
    call = ToolCall(id="a", name="Bash", arguments={"command": "ls"})
    session.append(clew.assistant(clew.Thinking(text="hm hm"), Text(text="I go."), call))
    session.append(clew.tool("a.txt", call_id="a"))
    words = (
        "Go", "I go.", "⚙ Bash: ls · 1 line", "thinking, 2 words", "hm hm", "a.txt",
        "System prompt, 41 words", "Always",
    )  # fmt: skip
    shown = {
        "prompts": ["Go"],
        "conversation": ["Go", "I go.", "⚙ Bash: ls · 1 line"],
        "folded": ["Go", "I go.", "⚙ Bash: ls · 1 line", "thinking, 2 words", "System prompt, 41 words"],
        "full": ["Go", "I go.", "hm hm", "a.txt", "System prompt, 41 words", "Always"],
    }
    for level, expected in shown.items():
        text = "\n".join(markdown(session, session.path(), detail=level))  # type: ignore[arg-type]
        assert [word for word in words if word in text] == expected, level


def test_tokens_and_cost_are_those_of_clew_usage(store: clew.Store) -> None:
    """The facts of an export count cached input, have list prices, and a user's own prices where they are given."""
    session = store.sessions.create()
    used = {"input_tokens": 5, "cache_read_input_tokens": 100_000, "output_tokens": 2}
    raw = {"id": "m", "role": "assistant", "model": "claude-opus-4-5", "content": "x", "usage": used}
    session.append([clew.native("anthropic", raw), clew.assistant("y", usage=clew.Usage(input=1, output=1))])
    total = conversation_usage(session).total
    assert (total.lanes.all_input, total.unpriced) == (100_006, 1)
    facts = "".join(exports.html(session, ()))
    assert "<dd>100,006 tokens in, 3 out</dd><dt>Cost</dt><dd>$0.0501+</dd>" in facts
    front = list(exports.markdown(session, (), front_matter=True))
    assert {"tokens_in: 100006", "tokens_out: 3", "cost: 0.050075", "cost_unknown: 1"} <= set(front)
    own = Prices({"claude-opus-4-5": read_price("input=0 output=1000000")})
    assert "<dt>Cost</dt><dd>$2.00+</dd>" in "".join(exports.html(session, (), prices=own))
    assert "cost: 2.0" in list(exports.markdown(session, (), front_matter=True, prices=own))


@pytest.mark.parametrize(
    ("extra", "facts"),
    [
        (
            {"source": {"tool": "codex", "id": "7", "branch": "main"}},
            ['tool: "codex"', 'tool_id: "7"', 'git_branch: "main"'],
        ),
        ({CPE_NOTE: "a1B2c3"}, ['tool: "cpe"', 'tool_id: "a1B2c3"']),
        ({"source": {"tool": 7, "id": "7"}}, ['tool_id: "7"']),
        ({"source": "codex"}, []),
    ],
)
def test_the_origin_is_that_of_lists(store: clew.Store, extra: dict[str, Any], facts: list[str]) -> None:
    """The facts of an export name the tool, the id there and the branch by the rule of `ls` and the page."""
    session = store.sessions.create(extra=extra)
    front = list(exports.markdown(session, (), front_matter=True))
    assert [line for line in front if line.startswith(("tool:", "tool_id:", "git_branch:"))] == facts
