"""Histories of OpenAI Codex 0.166.0: ``npm i @openai/codex@0.166.0``, then ``python -m tools.samples.codex PROGRAM``.

A thread with a tool call that fails, parallel calls, a picture, a resumed turn, a name; a rewind of it; a fork of it; a
compaction; a request that fails; a subagent; and a turn that is killed in its tool. Paths, the vendor's prompts and the
list of skills are taken out.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from clew.testing.providers import ProviderServer, ToolUse
from tools.samples.common import OUT, clean_lines, environment, home, server

PLACE = Path("/tmp/clew-samples-codex")
CONFIG = """
model = "a-model"
model_provider = "local"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.local]
name = "local"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "LOCAL_KEY"
request_max_retries = 1
stream_max_retries = 1
"""


class App:
    """Codex's own server for editors, spoken to over its pipes."""

    def __init__(self, program: str, place: Path) -> None:
        env = environment(place, CODEX_HOME=str(place / ".codex"), LOCAL_KEY="none")
        self.process = subprocess.Popen(
            [program, "app-server"], cwd=place / "work", env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        )  # fmt: skip
        self._number = 0
        about = {"name": "samples", "title": "samples", "version": "1"}
        self.call("initialize", clientInfo=about, capabilities={"experimentalApi": True})

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a request, and gives its result."""
        self._number += 1
        assert self.process.stdin is not None
        print(json.dumps({"id": self._number, "method": method, "params": params}), file=self.process.stdin, flush=True)
        while True:
            told = self._next()
            if told.get("id") == self._number and "method" not in told:
                if "error" in told:
                    raise RuntimeError(f"{method}: {told['error']}")
                result: dict[str, Any] = told["result"]
                return result

    def turn(self, thread: str, *words: str, picture: Path | None = None) -> str:
        """Sends a prompt and waits for the end of its turn; its id."""
        parts: list[dict[str, Any]] = [{"type": "text", "text": word} for word in words]
        if picture is not None:
            parts.insert(0, {"type": "localImage", "path": str(picture)})
        turn: str = self.call("turn/start", threadId=thread, input=parts)["turn"]["id"]
        self.wait("turn/completed", thread)
        return turn

    def wait(self, method: str, thread: str) -> None:
        """Waits for a notification about a thread."""
        while True:
            told = self._next()
            if told.get("method") == method and told["params"].get("threadId") == thread:
                return

    def end(self) -> None:
        """Closes its pipe, and waits."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)

    def _next(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the program has ended")
        told: dict[str, Any] = json.loads(line)
        return told


def command(name: str, line: str) -> ToolUse:
    """A call of the shell."""
    return ToolUse("exec_command", {"cmd": line}, name)


def talk(app: App, model: ProviderServer, place: Path) -> None:
    """The thread, its rewind, its fork and the compaction of the fork."""
    thread = app.call("thread/start")["thread"]["id"]
    calls = [command("call_a", "echo one; exit 3"), command("call_b", "echo two")]
    model.say("I look.", thinking="Two commands at once.", calls=calls)
    model.say("One failed, two did not.")
    app.turn(thread, "Run both")
    model.say("A red pixel.")
    app.turn(thread, "What is this?", picture=place / "work" / "pixel.png")
    model.say("Forty.")
    left = app.turn(thread, "How many is that?")
    app.call("thread/name/set", threadId=thread, name="Two commands and a pixel")
    app.call("thread/revert", threadId=thread, beforeTurnId=left)
    model.say("Forty-two.")
    app.turn(thread, "How many is that, exactly?")
    fork = app.call("thread/fork", threadId=thread)["thread"]["id"]
    model.say("In the fork.")
    app.turn(fork, "Where are we?")
    model.say("SUMMARY: both ran, a pixel, forty-two.")
    app.call("thread/compact/start", threadId=fork)
    app.wait("turn/completed", fork)
    model.say("After the compaction.")
    app.turn(fork, "And now?")
    model.fail(400, "out of order")
    app.turn(thread, "This request fails")


def subagent(app: App, model: ProviderServer) -> None:
    """A thread that starts an agent and waits for it."""
    thread = app.call("thread/start")["thread"]["id"]
    item = {
        "id": "fc_0", "type": "function_call", "call_id": "call_spawn", "namespace": "multi_agent_v1",
        "name": "spawn_agent", "arguments": json.dumps({"message": "Count the files"}), "status": "completed",
    }  # fmt: skip
    whole = {"id": "resp_1", "object": "response", "status": "completed", "model": "a-model", "output": [item]}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    model.send(stream.encode(), "text/event-stream")
    app.turn(thread, "Let an agent count the files")
    time.sleep(2)


def killed(program: str, model: ProviderServer, place: Path) -> None:
    """A turn that is killed while its tool runs."""
    app = App(program, place)
    thread = app.call("thread/start")["thread"]["id"]
    model.say("I wait.", calls=[command("call_long", "sleep 60")])
    app.call("turn/start", threadId=thread, input=[{"type": "text", "text": "Wait a minute"}])
    time.sleep(3)
    os.killpg(app.process.pid, signal.SIGKILL)


def clean(record: dict[str, Any]) -> None:
    """Takes the vendor's prompts out of a line."""
    payload = record["payload"]
    if record["type"] == "session_meta":
        payload["base_instructions"] = {"text": "You are a coding agent."}
        payload.pop("dynamic_tools", None)
    if record["type"] == "world_state":
        record["payload"] = {"full": True, "state": {}}
    for item in [payload, *(payload.get("replacement_history") or ())]:
        if item.get("role") == "developer":
            item["content"] = [{"type": "input_text", "text": "<skills_instructions></skills_instructions>"}]


def main(program: str) -> None:
    """Writes the sample."""
    with home(PLACE) as place, server() as model:
        (place / ".codex").mkdir()
        (place / ".codex" / "config.toml").write_text(CONFIG.format(url=model.url))
        app = App(program, place)
        talk(app, model, place)
        subagent(app, model)
        app.end()
        killed(program, model, place)
        shutil.rmtree(OUT / "codex", ignore_errors=True)
        for file in sorted((place / ".codex" / "sessions").rglob("*.jsonl")):
            target = OUT / "codex" / file.relative_to(place / ".codex")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(clean_lines(file.read_bytes(), place, clean))
        shutil.copyfile(place / ".codex" / "session_index.jsonl", OUT / "codex" / "session_index.jsonl")


if __name__ == "__main__":
    main(sys.argv[1])
