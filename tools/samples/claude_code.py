"""Histories of Claude Code 2.1.327, the program in the wheel of claude-agent-sdk 0.2.184: unpack the wheel, then
``python -m tools.samples.claude_code claude_agent_sdk/_bundled/claude``. Needs tmux.

A session in a terminal: a prompt of several lines, parallel calls of which one fails, a question, a file that is
written and changed, a picture, a subagent, an interrupted command, a `!` command, a compaction and a change of the
model; a turn of it with a pasted picture, and a fork of it. Paths, the vendor's prompts and records of requests are
taken out.
"""

from __future__ import annotations

import base64
import json
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from clew.testing.providers import ProviderServer, QueuedResponse, Request, Say, Send, ToolUse, Wire
from tools.samples.common import OUT, PICTURE, clean_lines, environment, home

PLACE = Path("/tmp/clew-samples-claude")
KEY = "sk-ant-none-000000000"
MAIN = 8
"""Tools that only a request of the main conversation has."""
SETTINGS = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": {"approved": [KEY[-20:]]}}
PROMPT = "Run both of them:\n  web-1 timeout\n  fix src/__init__.py and *them*, a &amp; b\n"
STREAMED = ("--verbose", "--input-format", "stream-json", "--output-format", "stream-json")
RECORDS = ("api-request", "api-request-shape", "api-request-blob")


class Model(ProviderServer):
    """A model that has its own answers for subagents and summaries, and an id for each."""

    def __init__(self) -> None:
        super().__init__()
        self._notified = False

    def answer(self, request: Request, wire: Wire) -> QueuedResponse:
        """The response to a request, under an id of its own: the program unites those with the same id."""
        said = self._answer(request, wire)
        if not isinstance(said, Say) or not request.json.get("stream"):
            return said
        events = wire.events(said, {"model": "a-model", **request.json})
        for _, data in events:
            if "message" in data:
                data["message"]["id"] = f"msg_{len(self.requests)}"
        stream = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)
        return Send(stream.encode(), "text/event-stream")

    def _answer(self, request: Request, wire: Wire) -> QueuedResponse:
        asked = request.json
        last = json.dumps(asked["messages"][-1])
        if "detailed summary of the conversation" in last:
            return Say("<summary>Two commands, a colour, an app and a pixel.</summary>")
        if "<task-notification>" in last and not self._notified:
            self._notified = True
            return Say("The agent found one file.")
        if len(asked.get("tools", ())) < MAIN:  # a subagent, or a question about the model
            return Say("One file: src/app.py.")
        return super().answer(request, wire)


class Terminal:
    """The program in a terminal."""

    def __init__(self, command: list[str], place: Path, env: dict[str, str]) -> None:
        self._tmux("kill-server")
        line = ["env", "-i", *(f"{name}={value}" for name, value in env.items()), *command]
        self._tmux("new-session", "-d", "-x", "110", "-y", "200", "-c", str(place / "work"), shlex.join(line))
        time.sleep(6)

    def press(self, *keys: str, wait: float = 1.0) -> None:
        """Presses keys."""
        self._tmux("send-keys", *keys)
        time.sleep(wait)

    def say(self, text: str, wait: float = 5.0) -> None:
        """Pastes a prompt and sends it."""
        self._tmux("set-buffer", text)
        self._tmux("paste-buffer", "-p")
        time.sleep(1)
        self.press("Enter", wait=wait)

    def screen(self) -> str:
        """What it shows."""
        return self._tmux("capture-pane", "-p", "-e", "-S", "-")

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-L", "clew-samples", *words], capture_output=True, text=True, check=False)
        return done.stdout


def talk(terminal: Terminal, model: Model, place: Path) -> None:
    """The session."""
    app = str(place / "work" / "src" / "app.py")
    model.say("I look at both.", thinking="Two commands at once.", calls=[
        ToolUse("Bash", {"command": "echo one; exit 3", "description": "Print one"}, "toolu_a"),
        ToolUse("Bash", {"command": "echo two", "description": "Print two"}, "toolu_b"),
    ])  # fmt: skip
    model.say("One failed, the other\nprinted **two**.\n\n- [x] one\n- [ ] two\n\n```python\nprint(1)\n```")
    terminal.say(PROMPT)
    options = [{"label": "Red", "description": "as blood"}, {"label": "Blue", "description": "as the sky"}]
    asked = {"question": "Which colour?", "header": "Colour", "multiSelect": False, "options": options}
    model.say(calls=[ToolUse("AskUserQuestion", {"questions": [asked]}, "toolu_c")])
    model.say("Red it is.")
    terminal.say("Ask me something")
    terminal.press("Enter", wait=4)
    model.say(calls=[ToolUse("Write", {"file_path": app, "content": "def f():\n    return 1\n"}, "toolu_d")])
    edit = {"file_path": app, "old_string": "return 1", "new_string": "return 2"}
    model.say(calls=[ToolUse("Edit", edit, "toolu_e")])
    model.say("It returns 2.")
    terminal.say("Write the app and change it", wait=6)
    model.say(calls=[ToolUse("Read", {"file_path": str(place / "work" / "pixel.png")}, "toolu_f")])
    model.say("A red pixel.")
    terminal.say("What is in pixel.png?")
    agent = {"subagent_type": "Explore", "description": "Count the files", "prompt": "Count the files in this folder"}
    model.say(calls=[ToolUse("Agent", agent, "toolu_g")])
    model.say("An agent counts.")
    terminal.say("Let an agent count the files", wait=8)
    model.say("I wait.", calls=[ToolUse("Bash", {"command": "python3 -c 'import time; time.sleep(50)'"}, "toolu_h")])
    terminal.say("Wait a minute", wait=6)
    terminal.press("Escape", wait=3)
    terminal.press("C-u")
    terminal.press("!")
    model.say("One file there.")
    terminal.say("ls src")
    terminal.say("/compact", wait=8)
    model.say("After the compaction.")
    terminal.say("And now?")
    terminal.say("/model claude-haiku-4-5-20251001")


def main(program: str) -> None:
    """Writes the sample."""
    with home(PLACE) as place, Model() as model:
        (place / ".claude.json").write_text(
            json.dumps({**SETTINGS, "projects": {str(place / "work"): {"hasTrustDialogAccepted": True}}})
        )
        env = environment(
            place, TERM="xterm-256color", ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=model.url, IS_SANDBOX="1",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_AUTOUPDATER="1", DISABLE_TELEMETRY="1",
        )  # fmt: skip
        options = ["--permission-mode", "acceptEdits", "--allowedTools", "Bash,Read,Agent"]
        terminal = Terminal([program, *options, "--model", "claude-opus-4-5-20251101"], place, env)
        talk(terminal, model, place)
        Path("/tmp/clew-samples-claude.txt").write_text(terminal.screen())
        terminal.press("C-c", "C-c", wait=3)
        folder = next((place / ".claude" / "projects").iterdir())
        (session,) = (file.stem for file in folder.glob("*.jsonl"))
        for more, answer, words in (
            ((), "A red pixel, too.", "And this?"),
            (("--fork-session",), "In the fork.", "Where?"),
        ):
            model.say(answer)
            line = [program, *options, "--resume", session, *more, "-p", *STREAMED]
            subprocess.run(
                line,
                input=pasted(words),
                cwd=place / "work",
                env=env,
                timeout=60,
                check=True,
                stdout=subprocess.DEVNULL,
            )
        keep(folder, place)


def pasted(words: str) -> bytes:
    """A prompt with a pasted picture, as the program reads it from a pipe."""
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PICTURE).decode()}
    content = [{"type": "image", "source": source}, {"type": "text", "text": words}]
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}}).encode() + b"\n"


def keep(folder: Path, place: Path) -> None:
    """Copies the history without what is the vendor's."""
    shutil.rmtree(OUT / "claude-code", ignore_errors=True)
    for file in sorted(folder.rglob("*.json*")):
        target = OUT / "claude-code" / "projects" / "-home-user-work" / file.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        lines = [line for line in file.read_bytes().splitlines() if json.loads(line).get("type") not in RECORDS]
        target.write_bytes(clean_lines(b"\n".join(lines), place, clean))


def clean(record: dict[str, Any]) -> None:
    """Takes the vendor's prompts out of a line."""
    attached = record.get("attachment")
    if isinstance(attached, dict) and attached.get("type") != "file":
        record["attachment"] = {"type": attached["type"]}
        record.pop("rendered", None)


if __name__ == "__main__":
    main(sys.argv[1])
