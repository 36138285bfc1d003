"""What people see: a talk, an interruption, going on, a fork, the tree, the picker; at three widths, kept as text.

``CLEW_RECORD=1 pytest tests/cli/test_recordings.py`` writes the texts anew: look at what has changed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import clew
from clew.testing.providers import ProviderServer
from tests.cli.tmux import Terminal

GOLDEN = Path(__file__).parent / "golden"
ANSWER = """\
The **lint** step fails: `os` is imported and never used.

```python
def main() -> int:
    return 0
```

1. Remove the import.
2. Run `make check` again, which takes a while on a machine that has other things to do as well.

| step | state |
|------|-------|
| lint | fails |
| test | ok    |
"""


def neutral(screen: str, store: Path) -> str:
    """The screen with what differs from run to run replaced by something as long."""
    with clew.open(store) as opened:
        sessions = reversed(opened.sessions.list().items)
        names = [session.handle for session in sessions]
        names += [node.handle for node in opened.nodes.list(limit=100, ascending=True).items]
    for number, handle in enumerate(names):
        screen = screen.replace(handle, f"h{number:05}")
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "2026-01-31 09:30", screen)


def check(name: str, width: int, screen: str, store: Path) -> None:
    text, golden = neutral(screen, store), GOLDEN / f"{name}-{width}.txt"
    if os.environ.get("CLEW_RECORD"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8"), f"{golden.name} is otherwise"


@pytest.mark.parametrize("width", [60, 80, 200])
def test_what_people_see(width: int, tmp_path: Path) -> None:
    """Letter for letter."""
    (tmp_path / "project").mkdir()
    store = tmp_path / "data/clew/clew.db"
    with ProviderServer() as server:
        server.say(ANSWER, thinking="The log names the lint step. What does it say?")
        server.say("One two three four five", stalls=7)
        server.say("A fork keeps both.")
        env = {
            "XDG_DATA_HOME": str(tmp_path / "data"), "CLEW_MODEL": "openai-compatible/a-model", "OPENAI_API_KEY": "k",
            "CLEW_BASE_URL": server.base_url("openai-compatible"),
        }  # fmt: skip
        with Terminal(width, tmp_path, env) as terminal:
            terminal.run("clew chat", "new conversation(.|\n)*›$")
            terminal.type("Why does the build fail?", "Enter")
            check("chat", width, terminal.shown("test +ok(.|\n)*›$"), store)

            terminal.type("C-l")
            terminal.type("Count to a hundred", "Enter")
            terminal.shown("One two three")
            terminal.type("C-c")
            check("interrupt", width, terminal.shown("Interrupted(.|\n)*›$"), store)

            terminal.type("C-l")
            terminal.type("/fork Other idea", "Enter")
            terminal.shown("Continuing in(.|\n)*›$")
            terminal.type("And a fork?", "Enter")
            terminal.shown("A fork keeps both(.|\n)*›$")
            terminal.type("/quit", "Enter")
            check("fork", width, terminal.shown(r"Resume with: .*\n\$$"), store)

            terminal.run("clew chat", "Other idea(.|\n)*›$")
            terminal.type("Where were we?", "Enter")
            terminal.shown("You said(.|\n)*›$")
            terminal.type("C-d")
            check("resume", width, terminal.shown(r"Resume with: .*\n\$$"), store)

            check("tree", width, terminal.run("clew tree", r"------\n\$$"), store)

            terminal.run("clew", "conversations(.|\n)*You said")
            terminal.type("build")
            check("picker", width, terminal.shown(r"2 conversations\n +\W*Why does(.|\n)*build(.|\n)*enter"), store)
            terminal.type("C-o")
            check("command", width, terminal.shown(r"chat -c \w+\n\$$"), store)


def test_whatever_happens_to_the_terminal(tmp_path: Path) -> None:
    """Keys that come too early, another size, a shell that stops it, an editor that is not there: the talk goes on."""
    (tmp_path / "project").mkdir()
    words = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma omega"
    with ProviderServer() as server:
        server.say(words, stalls=30)
        server.say(words, stalls=30)
        env = {
            "XDG_DATA_HOME": str(tmp_path / "data"), "CLEW_MODEL": "openai-compatible/a-model", "OPENAI_API_KEY": "k",
            "CLEW_BASE_URL": server.base_url("openai-compatible"), "EDITOR": "/nowhere/editor",
        }  # fmt: skip
        with Terminal(61, tmp_path, env) as terminal:
            terminal.run("clew chat", "new conversation(.|\n)*›$")
            terminal.type("Count", "Enter")
            terminal.shown("omega")
            terminal.type("too early", "Enter", "more")
            terminal.resize(40, 20)
            terminal.shown("kappa")
            terminal.type("C-c")
            screen = terminal.shown("Interrupted(.|\n)*›$")
            assert screen.count("alpha") == 1, screen
            assert "too early" not in screen

            terminal.type("C-l")
            terminal.type("Again", "Enter")
            terminal.shown("kappa(.|\n)*omega")
            terminal.type("C-z")
            terminal.shown(r"Stopped(.|\n)*\$$")
            terminal.type("fg", "Enter")
            terminal.shown("clew chat$")
            terminal.type("C-c")
            screen = terminal.shown("Interrupted(.|\n)*›$")
            assert screen.count("alpha") == 2, screen  # as it was when it was stopped, and whole

            terminal.type("C-l")
            terminal.type("/edit", "Enter")
            terminal.shown("Editing failed(.|\n)*›$")
            terminal.type("/rewind ²", "Enter")
            terminal.shown("not found(.|\n)*›$")
            terminal.type("C-z")
            terminal.shown(r"Stopped(.|\n)*\$$")
            terminal.type("fg", "Enter")
            terminal.shown(r"fg(.|\n)*›")
            terminal.type("/quit", "Enter")
            terminal.shown(r"Resume with: .*\n\$$")
