"""`clew show` as people read it: prompts as typed, answers in colour, machine text folded, through a pager."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import clew
from clew.cli.output.conversation import Look, item_lines
from clew.sources.claude_code import ClaudeCode
from tests.cli.test_program import on_a_terminal
from tests.sources.made import SESSION, claude_line, jsonl
from tests.turns.outline import importing

LONG = "Be brief. " * 30
BAD = "x\x1b]0;title\x07\u202e\n\x1b[31m## user"


def test_system_prompts_are_a_line(clew_cli, talk):
    """A long system prompt is one line until --unfold; a short one is shown in it."""
    session = talk({"role": "system", "text": LONG}, "Hello")
    assert "▸ System prompt, 60 words" in clew_cli("show", session).out
    assert LONG.strip() not in clew_cli("show", session).out
    assert LONG.strip() in clew_cli("show", session, "--unfold").out
    assert "▸ System prompt: Be brief." in clew_cli("show", talk({"role": "system", "text": "Be brief."}, "a")).out


def test_a_summary_is_a_line(clew_cli, db, talk):
    """What a compaction tells the model is one line until --unfold, which shows it as Markdown."""
    session = talk("Hello", {"role": "assistant", "text": "Hi"})
    with clew.open(db) as store:
        (found,) = store.sessions.list()
        found.compact(clew.user(f"A **summary**. {LONG}"))
        found.append(clew.user("And now?"))
    shown = clew_cli("show", session).out
    assert "Compacted here." in shown
    assert "▸ Summary, 62 words" in shown
    assert "Be brief." not in shown
    assert "A **summary**. Be brief." in clew_cli("show", session, "--unfold").out


def test_hostile_text_obeys_no_terminal():
    """A control character in any field of a message, of a call or of a note is shown and not sent."""
    bad = BAD
    call = {"type": "tool_use", "id": "a", "name": bad, "input": {bad: bad, "file_path": bad}}
    todo = {"type": "tool_use", "id": "b", "name": "TodoWrite", "input": {"todos": [{"content": bad, "status": bad}]}}
    changed = {"file_path": bad, "old_string": bad, "new_string": "y"}
    edit = {"type": "tool_use", "id": "c", "name": "Edit", "input": changed}
    asked = {"questions": [{"question": bad, "options": [bad]}]}
    ask = {"type": "tool_use", "id": "d", "name": "AskUserQuestion", "input": asked}
    about, calls = {"id": "m", "model": bad}, (call, todo, edit, ask)
    lines = [
        claude_line(1, None, "user", f"<command-name>{bad}</command-name>"),
        claude_line(2, 1, "user", f"<bash-input>{bad}</bash-input>"),
        claude_line(3, 2, "user", f"<system-reminder>{bad}</system-reminder>{bad}"),
        *(claude_line(4 + n, 3 + n, "assistant", [one], message=about) for n, one in enumerate(calls)),
        claude_line(8, 7, "user", [{"type": "tool_result", "tool_use_id": "a", "content": bad}]),
        claude_line(9, 8, "assistant", [{"type": "thinking", "thinking": bad}, {"type": bad}], message={"id": "n"}),
    ]
    with importing(ClaudeCode(), jsonl(lines), f"projects/p/{SESSION}.jsonl") as (items,):
        for how in (Look(), Look(fold=True), Look(unfold=True)):
            shown = [line for item in items for line in item_lines(item, how)]
            assert not set("".join(shown)) & set("\x1b\x07\u202e\r\n")
            assert not any(line.startswith("## user") for line in shown if "·" not in line)


def test_search_leaves_machine_text_out(clew_cli, talk):
    """Text that a program wrote in the user's name is found with --notes."""
    talk("<system-reminder>the xylophone plays</system-reminder>", "A xylophone?")
    assert [hit["node"]["text"] for hit in clew_cli("search", "xylophone", "--json").json] == ["A xylophone?"]
    assert len(clew_cli("search", "xylophone", "--notes", "--json").json) == 2


@pytest.fixture
def pager(tmp_path: Path) -> str:
    """A pager that says that it was used."""
    script = tmp_path / "pager"
    script.write_text("#!/bin/sh\necho paged:$LESS\ncat\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def test_show_uses_a_pager(talk, pager, tmp_path):
    """On a terminal, PAGER shows a conversation; without it less does; an empty PAGER turns it off."""
    session = talk("Hello", {"role": "assistant", "text": "**Bold** words"})
    shown = on_a_terminal("show", session, env={"PAGER": pager})[1]
    assert "paged:FRX" in shown
    assert "\x1b[1mBold\x1b[0m words" in shown
    os.symlink(pager, tmp_path / "less")
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    assert "paged:" in on_a_terminal("show", session, env={"PATH": path})[1]
    code, plain = on_a_terminal("show", session, env={"PAGER": ""})
    assert (code, "paged:" in plain, "Bold" in plain) == (0, False, True)


def test_a_pager_that_is_left_early(talk, tmp_path):
    """A pager that ends before everything is written ends the command without an error."""
    quits = tmp_path / "quits"
    quits.write_text("#!/bin/sh\nhead -c 20 > /dev/null\n")
    quits.chmod(0o700)
    session = talk(*(f"word{n} " * 500 for n in range(40)))
    code, shown = on_a_terminal("show", session, env={"PAGER": str(quits)})
    assert (code, "Traceback" in shown) == (0, False)
