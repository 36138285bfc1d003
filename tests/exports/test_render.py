"""What was said becomes HTML that cannot run, load or hide anything."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

import clew
from clew.base.messages import Media, Message, Text, ToolCall, ToolResult
from clew.exports import html
from clew.exports.render.message import Links, Renderer
from clew.exports.render.terminal import terminal
from clew.exports.render.text import LONGEST, code, inline, markdown, prompt
from clew.exports.render.tools import render_diff
from clew.turns import diff
from clew.turns.derive import items
from clew.turns.model import entry
from tests.turns.outline import entries, made

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](https://evil.test/pixel.png)",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "<a href='javascript:alert(1)'>x</a>",
    "<svg onload=alert(1)><animate onbegin=alert(1)>",
    "<iframe src='https://evil.test'></iframe>",
    "<style>@import 'https://evil.test'</style>",
    "<form action='https://evil.test'><input name=x></form>",
    "```html\n<script>alert(1)</script>\n```",
    '```" onmouseover="alert(1)\nx\n```',
    "`<img src=x onerror=alert(1)>`",
    '[a"onclick="alert(1)](https://a.test)',
    '[a](https://a.test "x\\" onclick=\\"alert(1)")',
    "| a |\n|---|\n| <img src=x onerror=alert(1)> |",
    "\ue000U+0041\ue001<b>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
]


class Tags(HTMLParser):
    """Collects tags and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markdown_is_text(text: str) -> None:
    """No tag, no attribute and no scheme beyond the allow-list comes out of a message."""
    for tag, attributes in Tags(markdown(text)).seen:
        assert tag not in {"script", "img", "svg", "iframe", "style", "form", "input", "math", "b", "object", "link"}
        assert set(attributes) <= {"href", "rel", "class", "tabindex", "role", "aria-label", "title", "start"}
        if tag == "a":
            assert re.match("(https?|mailto):", attributes["href"] or "")
            assert "noopener" in (attributes["rel"] or "")


def test_a_link_shows_where_it_leads() -> None:
    """The host of a link stands beside its text, also of an image, which is not loaded."""
    assert '<span class="target">evil.test</span>' in markdown("[bank.test](https://evil.test/x)")
    assert '<span class="target">evil.test</span>' in markdown("![x](https://user@evil.test/x.png)")
    assert "target" not in markdown("<https://a.test/>")


@pytest.mark.parametrize("char", ["\u202e", "\u200b", "\x07", "\u2066", "\x1b", "\U000e0041", "\ue000"])
def test_hidden_characters_are_chips(char: str) -> None:
    """A character that nobody sees is shown by its number, in text, code, output and diffs."""
    chip = f'<span class="ctl" title="Hidden character U+{ord(char):04X}">'
    for page in (markdown(f"a{char}b"), inline(f"a{char}b"), code(f"a{char}b", "python"), terminal(f"a{char}b")):
        assert chip in page
        assert char not in page
    assert chip in render_diff(diff.compare("", f"a{char}b"), "x")


def test_colours_of_a_terminal_become_classes() -> None:
    """Colours and bold are classes; other sequences stay visible; a progress bar shows its last state."""
    assert terminal("\x1b[1;31mred\x1b[0m plain") == '<span class="a1 ab">red</span> plain'
    assert terminal("1%\r2%\r3%\n") == "3%\n"
    assert "U+001B" in terminal("\x1b]8;;https://evil.test\x07link")
    assert terminal("\x1b[38;5;196mx") == "x"


def test_a_diff_has_numbers_and_signs() -> None:
    """Lines keep their place in both texts."""
    lines = diff.compare("a\nb\nc\n", "a\nB\nc\n")
    assert [(line.kind, line.old, line.new, line.text) for line in lines[1:]] == [
        (" ", 1, 1, "a"), ("-", 2, None, "b"), ("+", None, 2, "B"), (" ", 3, 3, "c"),
    ]  # fmt: skip
    assert diff.counts(diff.patch("*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n+z\n*** End Patch")) == (2, 1)


def test_a_long_line_is_cut() -> None:
    """A line of ten megabytes gives a page that a browser can show, and says how much is left out."""
    shown = markdown("x" * 10_000_000)
    assert len(shown) < LONGEST * 2
    assert "9,900,000 more characters" in shown


HUGE = 3_000_000
NESTED = "[" * 500 + "1," * (HUGE // 2) + "1" + "]" * 500
LARGE_CALLS = [
    ToolCall(id="x" * HUGE, name="x" * HUGE, arguments={}),
    ToolCall(id="c", name="Bash", arguments={"command": "x" * HUGE}),
    ToolCall(id="c", name="Edit", arguments={"file_path": "x" * HUGE, "old_string": "x" * HUGE, "new_string": "y"}),
    ToolCall(id="c", name="Write", arguments={"file_path": "a", "content": "\n" * HUGE}),
    ToolCall(id="c", name="apply", arguments={"patch": "@@\n+" + "x" * HUGE}),
    ToolCall(id="c", name="Task", arguments={"prompt": "[" * HUGE}),
    ToolCall(id="c", name="other", arguments={"x" * HUGE: ["x"] * HUGE}),
]


@pytest.mark.parametrize("call", LARGE_CALLS, ids=lambda call: call.name[:6])
def test_any_part_of_a_call_may_be_huge(call: ToolCall) -> None:
    """A name, an id, a path, a line of a diff or an argument of megabytes gives a short page."""
    result = ToolResult(call_id=call.id, content=(Text(text="x" * HUGE),))
    (answer,) = made(clew.assistant(call), clew.Message("tool", (result,)))
    assert len(Renderer().article(answer)) < 5 * LONGEST


HUGE_TEXTS = [
    "x" * HUGE,
    "[" * HUGE,
    "\u202e" * HUGE,
    "\ue000" * HUGE,
    "\x1b[31mx" * (HUGE // 6),
    "a\r" * (HUGE // 2),
    NESTED,
]


@pytest.mark.parametrize("text", HUGE_TEXTS, ids=["line", "brackets", "bidi", "marks", "colours", "bar", "json"])
def test_hostile_text_is_rendered_soon(text: str) -> None:
    """A long line, brackets, hidden characters, colours or nested JSON neither grow nor keep the server busy."""
    parts = [markdown(text), prompt(text), terminal(text), code(text, "python")]
    parts.append(render_diff(diff.compare("", text), text))
    (answer,) = made(clew.Message("tool", (ToolResult(call_id=text, content=(Text(text=text),)),)))
    parts.append(Renderer().article(answer))
    for part in parts:
        assert len(part) < 6 * LONGEST


def test_colours_take_a_limited_time() -> None:
    """Code that a lexer reads slowly keeps its text, and loses colours from where the time is over."""
    text = "a\n " * 3000
    assert re.sub("<[^>]+>", "", code(text, "csharp")) == text
    assert code("x = 1", "python") != "x = 1"


@pytest.mark.parametrize("name", ['"', "<b>", "\u202e", "\ue000", "\x1b", "' onerror=alert(1) '"])
def test_a_name_stays_inside_its_attribute(name: str) -> None:
    """A chip for a hidden character cannot be in an attribute: the name is escaped there instead."""
    media = Media(modality="image", mime_type="image/png", blob="0" * 64, name=name)
    shown = Renderer(Links(media=lambda *_: "/x")).media(entries([clew.user("x")])[0], media) + render_diff([], name)
    attributes = {key for _, found in Tags(shown).seen for key in found if not key.startswith("aria-")}
    assert attributes <= {"class", "href", "src", "alt", "loading", "title", "tabindex", "role"}
    assert '"<span' not in shown
    assert "\u202e" not in shown


def talk(store: clew.Store) -> clew.Session:
    session = store.sessions.create(title="Tools")
    session.append(clew.user("Fix it"))
    session.append(
        clew.assistant(
            clew.Thinking(text="hm"),
            Text(text="I will"),
            ToolCall(id="c1", name="Bash", arguments={"command": "ls <dir>"}),
            ToolCall(id="c2", name="Edit", arguments={"file_path": "a.py", "old_string": "x", "new_string": "y"}),
            ToolCall(id="c3", name="get", arguments={"q": 1}),
            ToolCall(id="c4", name="wait", arguments={}),
        )
    )
    session.append(clew.tool("\x1b[32mok\x1b[0m", call_id="c1"))
    session.append(clew.tool("done", call_id="c2"))
    session.append(clew.tool('{"rows": 3}', call_id="c3", is_error=True))
    return session


def test_what_is_written_for_the_user_is_open(store: clew.Store) -> None:
    """Lists of things to do, questions, plans and short diffs are open; a long diff and a command are folded."""
    session = store.sessions.create()
    short, long = ("\n".join(map(str, range(count))) for count in (5, 60))
    for name, arguments, is_open in (
        ("TodoWrite", {"todos": [{"content": "Read", "status": "pending"}]}, True),
        ("AskUserQuestion", {"questions": [{"question": "Which?"}]}, True),
        ("ExitPlanMode", {"plan": "Go"}, True),
        ("Edit", {"file_path": "a.py", "old_string": "a", "new_string": short}, True),
        ("Edit", {"file_path": "a.py", "old_string": "a", "new_string": long}, False),
        ("Bash", {"command": "ls"}, False),
    ):
        session.append(clew.assistant(ToolCall(id="a", name=name, arguments=arguments)))
        session.append(clew.tool("ok", call_id="a"))
        answer = items(map(entry, list(session.path())[-2:]))[0]
        assert (" open><summary>" in Renderer().article(answer)) == is_open, (name, is_open)
    picture = session.attach(b"\x89PNG\r\n\x1a\n", mime_type="image/png", modality="image")
    session.append(clew.assistant(ToolCall(id="b", name="Read", arguments={"file_path": "a.png"})))
    session.append(Message("tool", (ToolResult(call_id="b", content=(picture,)),)))
    (read,) = items(map(entry, list(session.path())[-2:]))
    assert " open><summary>" in Renderer().article(read)


def test_a_call_is_one_line_with_its_result(store: clew.Store) -> None:
    """State, name and argument are on the line; inside is a terminal, a diff or JSON; the result has its anchor."""
    _, answer = items(map(entry, talk(store).path()))
    shown = Renderer().article(answer)
    assert shown.count("<details") == 5
    assert "<b>Bash</b><code>ls &lt;dir&gt;</code>" in shown
    assert '<span class="a2">ok</span>' in shown
    assert '<div class="l d">' in shown
    assert '<span class="add">+1</span>' in shown
    assert "Failed: " in shown
    assert "No result stored: " in shown
    assert all(f'id="m{number}"' in shown for number in (3, 4, 5))


def test_a_result_without_its_call_stands_alone(store: clew.Store) -> None:
    """A window that begins with a result still shows it."""
    (answer,) = items([entry(node) for node in talk(store).path()][2:])
    assert "Result of c1" in Renderer().article(answer)


def test_unknown_is_not_zero(store: clew.Store) -> None:
    """An answer without tokens, or with zeros, has no line of tokens; the others have one."""
    session = store.sessions.create()
    session.append(clew.assistant("a"))
    session.append(clew.assistant("b", usage=clew.Usage(input=1200, output=3)))
    session.append(clew.assistant("0", usage=clew.Usage(input=0, output=0)))
    session.append(clew.assistant("c", usage=clew.Usage(input=1, output=2, cost=130_000)))
    one, two, zero, three = (Renderer().article(item) for item in items(map(entry, session.path())))
    assert "foot" not in one + zero
    assert "1,200 in · 3 out" in two
    assert "$0.13" in three
    extra = {"usage": {"input": 100, "cached": 90, "output": 3}}
    (four,) = items([entry(session.append(clew.native("openai", {"role": "assistant", "content": "d"}, extra=extra)))])
    assert "10 in · 90 cached · 3 out" in Renderer().article(four)


def test_attachments_are_named(store: clew.Store) -> None:
    """Without a page behind it, an attachment is its name and kind; its address is not loaded."""
    session = store.sessions.create()
    session.append(clew.user(Media(mime_type="image/png", modality="image", url="https://evil.test/a.png", name="a")))
    result = ToolResult(call_id="x", content=(Media(mime_type="image/png", modality="image", url="https://b.test"),))
    session.append(clew.Message("tool", (result,)))
    shown = "".join(html(session, session.iter()))
    assert "<img" not in shown
    assert "image/png" in shown
    assert 'src="' not in shown


def test_an_export_allows_its_own_style_alone(store: clew.Store) -> None:
    """The policy of the file names the hash of its stylesheet, and nothing may be loaded or run."""
    from base64 import b64encode
    from hashlib import sha256

    page = "".join(html(talk(store), talk(store).iter()))
    style = re.search("<style>(.*)</style>", page, re.DOTALL)
    assert style is not None
    assert f"style-src 'sha256-{b64encode(sha256(style[1].encode()).digest()).decode()}'" in page
    assert "unsafe" not in page
    assert "<script" not in page


def test_a_compaction_shows_its_seam(store: clew.Store) -> None:
    """The history of a compacted conversation has all messages, numbered through, with the seam between them."""
    session = store.sessions.create()
    session.append([clew.user("one"), clew.assistant("two")])
    session.compact(clew.user("summary"))
    page = "".join(html(session, session.history()))
    assert page.index('id="m2"') < page.index("Compacted here.") < page.index('id="m3"')


def test_a_summary_is_folded(store: clew.Store) -> None:
    """A long summary is a line that opens; it is Markdown."""
    session = store.sessions.create()
    session.append(clew.user("one"))
    session.compact(clew.user(f"A **summary**. {'Be brief. ' * 30}"))
    page = "".join(html(session, session.history()))
    folded = page.partition("Summary, 62 words</summary>")[2].partition("</details>")[0]
    assert "<strong>summary</strong>" in folded


@pytest.mark.parametrize(
    ("text", "host"),
    [("[x](https://good.test@evil.test/)", "evil.test"), ("[https://good.test](https://evil.test)", "evil.test"),
     ("[x](https://evil.test\\\\@good.test/)", "good.test"), ("[x](https://evil.test?@good.test)", "evil.test"),
     ("[x](https://\u0430\u0440\u0440\u04cf\u0435.com)", "xn--80ak6aa92e.com"),
     ("[x](http:/c/other)", None), ("[x](http:bank.test)", None), ("[x](https:evil.test)", None),
     ("[x](http:///evil.test)", None), ("[x](https:\\\\\\\\evil.test)", None)],
)  # fmt: skip
def test_a_link_says_where_it_leads(text: str, host: str | None) -> None:
    """The host that a browser would open is shown; an address without one is no link."""
    shown = markdown(text)
    assert shown.count("<a ") == (host is not None)
    assert host is None or f'<span class="target">{host}</span>' in shown


def test_an_address_is_shown_as_it_is_written() -> None:
    """A hidden character of an address stays encoded: decoded, it would turn the text around."""
    assert ">https://good.test/%E2%80%AEgpj</a>" in markdown("<https://good.test/%E2%80%AEgpj>")


@pytest.mark.parametrize(
    ("text", "shown"),
    [("10%\r20%\r100%", "100%"), ("text\r\r\nnext", "text\nnext"), ("a long line\r\x1b[Kdone", "[Kdone"),
     ("a long line\x1b[2K\rdone", "done")],
)  # fmt: skip
def test_a_progress_bar_shows_its_end(text: str, shown: str) -> None:
    """What was written over, or erased, is left out."""
    assert terminal(text).endswith(shown)
    assert "long" not in terminal(text)


def test_a_return_hides_nothing() -> None:
    """A longer text before a short one would stay in a terminal: it is shown, and the character between them too."""
    assert re.fullmatch("rm -rf everything<span.*U\\+000D</span>ls", terminal("rm -rf everything\rls"))


def test_an_answer_of_the_users_own_has_its_label() -> None:
    """An answer that is none of the options stands below them as "Answer"."""
    call = ToolCall(id="a", name="AskUserQuestion", arguments={"question": "Which?", "options": ["Red"]})
    (answer,) = made(clew.assistant(call), clew.tool("Green", call_id="a"))
    assert '<p class="lab">Answer</p><div class="body typed">Green</div>' in Renderer().article(answer)
