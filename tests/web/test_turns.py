"""The page shows conversations as the tool did: one box for an answer, machine text apart, images."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import clew
from clew.base.messages import ToolCall
from clew.exports import html
from clew.exports.to_markdown import markdown
from clew.sources.claude_code import ClaudeCode
from clew.sources.importer import import_item
from clew.sources.items import Item
from tests.exports.test_render import Tags
from tests.sources.made import SESSION, claude_line, jsonl
from tests.turns.test_derive import PIXEL
from tests.web.conftest import Client

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
FAKE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "PHN2Zz48L3N2Zz4="}}
BAD = '"><script>alert(1)</script><img src=x onerror=alert(1)>\u202e'


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def bring(store: clew.Store, folder: Path, lines: list[dict[str, Any]]) -> clew.Session:
    """A session of Claude Code in the store."""
    data = jsonl(lines)
    file = folder / f"{SESSION}.jsonl"
    file.write_bytes(data)
    import_item(store, ClaudeCode(), Item(str(file), len(data), 0))
    return store.sessions.get(SESSION)


def lines() -> list[dict[str, Any]]:
    one = {"id": "m1", "model": "claude-opus-4-5-20251101", "usage": {"input_tokens": 510, "output_tokens": 6}}
    call = {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "ls"}}
    return [
        claude_line(1, None, "user", "<command-name>/clear</command-name>"),
        claude_line(2, 1, "user", [IMAGE, FAKE, text("fix src/__init__.py\n    *now* &amp;")]),
        claude_line(3, 2, "assistant", [{"type": "thinking", "thinking": "hm"}], message=one),
        claude_line(4, 3, "assistant", [text("First.\nThen:\n\n- [x] done\n\n```python\nx = 1\n```")], message=one),
        claude_line(5, 4, "assistant", [call], message=one),
        claude_line(6, 5, "user", [{"type": "tool_result", "tool_use_id": "a", "content": [text("out"), IMAGE]}]),
        claude_line(7, 6, "user", "[Request interrupted by user]"),
        claude_line(8, 7, "user", "Again"),
    ]


def test_the_list_shows_words_as_the_conversation_does(store: clew.Store, client: Client, tmp_path: Path) -> None:
    """The last words of a conversation are without tags and marks, and its model has the short name."""
    command = claude_line(5, 4, "user", "<command-name>/cost</command-name>")
    output = claude_line(6, 5, "user", "<local-command-stdout>Nothing yet</local-command-stdout>")
    session = bring(store, tmp_path, [*lines()[:4], command, output])
    own = store.sessions.create(title="Own")
    own.append(clew.assistant("Do it **now**, not 2**3 later"))
    rows = {row["id"]: row["preview"] for row in client.get("/conversations.json").json["conversations"]}
    assert rows[session.id] == "Output Nothing yet"
    assert rows[own.id] == "Do it now, not 2**3 later"
    assert '<div class="row-c c-model cut" title="claude-opus-4-5-20251101">Opus 4.5</div>' in client.get("/").text


def test_a_search_finds_no_reminder_in_a_result(store: clew.Store, client: Client, tmp_path: Path) -> None:
    """Words that a program added to a result are found on request only; those of the result are found."""
    call = {"type": "tool_use", "id": "a", "name": "Read", "input": {"file_path": "a.py"}}
    result = "aardvark = 1\n<system-reminder>Beware of the pangolin and the badger</system-reminder>"
    bring(store, tmp_path, [
        claude_line(1, None, "user", "Read it"),
        claude_line(2, 1, "assistant", [call]),
        claude_line(3, 2, "user", [{"type": "tool_result", "tool_use_id": "a", "content": result}]),
    ])  # fmt: skip
    counts = [
        client.get(f"/search.json?q={query}").json["count"] for query in ("aardvark", "pangolin", "badger&notes=1")
    ]
    assert counts == [1, 0, 1]


def test_an_answer_is_one_box(store: clew.Store, client: Client, tmp_path: Path) -> None:
    """Lines of one response are one article with one line of tokens, and each line keeps its place for links."""
    session = bring(store, tmp_path, lines())
    page = client.get(f"/c/{session.id}").text
    articles = re.findall(r'<article class="([^"]+)" id="(\w+)"[^>]*?(?:data-to="(\d+)")?>', page)
    assert articles == [
        ("msg note-m first", "m1", ""), ("msg you", "m2", ""), ("msg ai", "m3", "6"), ("msg note-m", "m7", ""),
        ("msg you", "m8", ""),
    ]  # fmt: skip
    assert all(f'id="m{number}"' in page for number in range(1, 9))
    assert page.count("510 in · 6 out") == 1
    assert '<span class="model mono" title="claude-opus-4-5-20251101">Opus 4.5</span>' in page


def test_prompts_are_as_typed_and_answers_markdown(store: clew.Store, client: Client, tmp_path: Path) -> None:
    """Line breaks, indentation and marks of a prompt stay; an answer keeps breaks, check boxes and labels of code."""
    page = client.get(f"/c/{bring(store, tmp_path, lines()).id}").text
    assert '<p class="typed">fix src/__init__.py\n    *now* &amp;amp;</p>' in page
    assert "First.<br>\nThen:" in page
    assert '<span class="todo">☑</span> done' in page
    assert '<div class="code-h">python</div>' in page


def test_machine_text_is_no_prompt(store: clew.Store, client: Client, tmp_path: Path) -> None:
    """The list of prompts has what was typed, and the title is made of that."""
    session = bring(store, tmp_path, lines())
    found = client.get(f"/c/{session.id}/outline.json").json["prompts"]
    assert [one["number"] for one in found] == [2, 8]
    assert found[0]["text"] == "fix src/__init__.py *now* &amp;"
    assert "/clear" not in (session.title or "")


def test_search_leaves_machine_text_out(store: clew.Store, client: Client, tmp_path: Path) -> None:
    """A search finds what people and models wrote; text of programs only if it is asked for."""
    hidden = "<system-reminder>the xylophone plays</system-reminder>"
    session = bring(store, tmp_path, [
        claude_line(1, None, "user", hidden),
        claude_line(2, 1, "user", f"{hidden}\nA xylophone?"),
        claude_line(3, 2, "assistant", "Yes, a xylophone.", message={"id": "m"}),
    ])  # fmt: skip
    for query, numbers in (("xylophone", [2, 3]), ("xylophone is:note", [1, 2, 3])):
        found = client.get(f"/search.json?q={query.replace(' ', '%20')}").json
        matches = [one for group in found["conversations"] for one in group["matches"]]
        assert sorted(one["number"] for one in matches) == numbers, session.id


def test_images_in_messages_are_shown(store: clew.Store, client: Client, tmp_path: Path) -> None:
    """A pasted image and one that a tool returned are on the page, sandboxed; what is no image is only named."""
    session = bring(store, tmp_path, lines())
    page = client.get(f"/c/{session.id}").text
    sources = re.findall(r'<img src="([^"]+)"', page)
    nodes = [node.id for node in session.path()]
    assert sources == [f"/c/{session.id}/m/{nodes[1]}/media/0", f"/c/{session.id}/m/{nodes[5]}/media/0"]
    for url in sources:
        image = client.get(url)
        assert image.body == base64.b64decode(PIXEL)
        assert image.headers["content-type"] == "image/png"
        assert image.headers["content-security-policy"].startswith("sandbox")
        assert "no-store" in image.headers["cache-control"]
    fake = client.get(f"/c/{session.id}/m/{nodes[1]}/media/1")
    assert fake.headers["content-type"].startswith("text/plain")
    assert client.ask(f"/c/{session.id}/m/{nodes[1]}/media/2").status == 404


def test_an_export_has_images_header_outline_and_filters(store: clew.Store, tmp_path: Path) -> None:
    """The file says where the conversation is from, lists its prompts, filters without script and has its images."""
    session = bring(store, tmp_path, lines())
    page = "".join(html(session, session.history()))
    assert page.count(f'<img src="data:image/png;base64,{PIXEL}"') == 2
    for fact in ("Claude Code", "/src/app", "main", "Opus 4.5", "8 messages", "2026-11-01"):
        assert f"<dd>{fact}</dd>" in page
    assert '<nav class="saved-outline"' in page
    assert '<a href="#m2"><span>fix src/__init__.py *now* &amp;amp;</span></a>' in page
    assert all(f'id="f-{name}"' in page for name in ("prompts", "answers", "tools", "think", "notes", "errors"))
    assert "<script" not in page


def test_a_full_export_is_not_cut(store: clew.Store, tmp_path: Path) -> None:
    """The end of a long output is in the file."""
    long = "x" * 300_000 + "THE END"
    call = {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "ls"}}
    session = bring(store, tmp_path, [
        claude_line(1, None, "user", long),
        claude_line(2, 1, "assistant", [call], message={"id": "m"}),
        claude_line(3, 2, "user", [{"type": "tool_result", "tool_use_id": "a", "content": long}]),
    ])  # fmt: skip
    page = "".join(html(session, session.history()))
    assert page.count("THE END") == 2
    assert "more characters" not in page


def test_hostile_text_in_every_field(store: clew.Store, client: Client, tmp_path: Path) -> None:
    """No field of a message, a call, a note or a title becomes a tag or an attribute, on the page and in the file."""
    inputs: dict[str, dict[str, Any]] = {
        BAD: {BAD: BAD}, "Bash": {"command": BAD}, "Edit": {"file_path": BAD, "old_string": BAD, "new_string": BAD},
        "Read": {"file_path": BAD}, "TodoWrite": {"todos": [{"content": BAD, "status": BAD}]},
        "ExitPlanMode": {"plan": BAD}, "WebFetch": {"url": BAD, "prompt": BAD},
        "AskUserQuestion": {"questions": [{"question": BAD, "options": [{"label": BAD}]}]},
        "Task": {"subagent_type": BAD, "description": BAD, "prompt": BAD}, f"mcp__{BAD}__{BAD}": {BAD: [BAD]},
    }  # fmt: skip
    calls = [
        {"type": "tool_use", "id": f"{BAD}{n}", "name": name, "input": one}
        for n, (name, one) in enumerate(inputs.items())
    ]
    named = {"id": BAD, "model": BAD}
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": BAD} for call in calls]
    session = bring(store, tmp_path, [
        claude_line(1, None, "user", f"<command-name>{BAD}</command-name><command-args>{BAD}</command-args>", cwd=BAD),
        claude_line(2, 1, "user", f"<bash-input>{BAD}</bash-input>"),
        claude_line(3, 2, "user", f"<local-command-stdout>{BAD}</local-command-stdout>"),
        claude_line(4, 3, "user", f"<system-reminder>{BAD * 9}</system-reminder>```{BAD}\n{BAD}\n```\n{BAD}"),
        claude_line(5, 4, "assistant", [text(f"```{BAD}\n{BAD}\n```\n- [x] {BAD}"), *calls], message=named),
        claude_line(6, 5, "user", results),
        claude_line(7, 6, "assistant", BAD, isApiErrorMessage=True),
        claude_line(8, 7, "user", BAD, isCompactSummary=True),
        {"type": "custom-title", "customTitle": BAD, "sessionId": SESSION},
    ])  # fmt: skip
    for page in (client.get(f"/c/{session.id}").text, "".join(html(session, session.history()))):
        for tag, attributes in Tags(page).seen:
            assert not any(name.startswith("on") for name in attributes), (tag, attributes)
            assert tag not in ("img", "script") or (attributes.get("src") or "").startswith("/static/"), tag
        assert "\u202e" not in page
        assert "<script>alert" not in page


def test_what_a_command_printed_has_no_codes(store: clew.Store, client: Client, tmp_path: Path) -> None:
    """Sequences that set colours are no characters of the output of a command, on the page and in Markdown."""
    printed = "<local-command-stdout>Set model to \x1b[1mopus\x1b[22m</local-command-stdout>"
    command = claude_line(1, None, "user", "<command-name>/model</command-name>")
    session = bring(store, tmp_path, [command, claude_line(2, 1, "user", printed)])
    assert 'Set model to <span class="ab">opus</span>' in client.get(f"/c/{session.id}").text
    assert "Set model to opus" in list(markdown(session, session.path()))


def test_titles_and_names_are_no_markdown(store: clew.Store) -> None:
    """A title, a tool and an address in Markdown are text, whatever is in them."""
    session = store.sessions.create(title="<b>[x](javascript:1)")
    session.append(clew.assistant(ToolCall(id="a", name="WebFetch", arguments={"url": "javascript:alert(1)"})))
    session.append(clew.assistant(ToolCall(id="b", name="<img src=x>", arguments={"url": "https://a.test"})))
    shown = "\n".join(markdown(session, session.path()))
    assert "# \\<b>\\[x]\\(javascript:1)" in shown
    assert "**\\<img src=x>**" in shown
    assert "<javascript:" not in shown
