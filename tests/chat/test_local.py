"""The `claude` program as a provider: a real subprocess, here a replacement program."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from clew import Text, Thinking, chat, native
from clew.errors import Invalid

PROGRAM = """#!{python}
import json, sys, time
args, said = sys.argv[1:], sys.stdin.read()
with open({log!r}, "a") as log:
    log.write(json.dumps([args, said]) + "\\n")
if "fail" in said:
    print("the program is unhappy", file=sys.stderr)
    sys.exit(3)
if "garbage" in said:
    print("this is not JSON")
    sys.exit(0)
if "sleep" in said:
    time.sleep(60)
words = '{{"a": 1}}' if "JSON Schema" in said else "You said: " + said
result = {{"type": "result", "subtype": "success", "is_error": "refuse" in said, "result": words,
          "session_id": "s-1", "usage": {{"input_tokens": 3, "output_tokens": 4}}}}
if "unknown" in said:
    del result["usage"]
if "stream-json" in args:
    print(json.dumps({{"type": "system", "subtype": "init"}}))
    deltas = [{{"type": "thinking_delta", "thinking": "Hm."}}]
    deltas += [{{"type": "text_delta", "text": piece}} for piece in ("You", " said: " + said)]
    for delta in deltas:
        event = {{"type": "content_block_delta", "delta": delta}}
        print(json.dumps({{"type": "stream_event", "event": event}}), flush=True)
print(json.dumps(result))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "claude"
    path.write_text(PROGRAM.format(python=sys.executable, log=str(tmp_path / "log")), encoding="utf-8")
    path.chmod(0o755)
    return path


def local(program: Path, **settings: object) -> chat.ClaudeLocal:
    client = chat.connect("claude-local", program=str(program), **settings)  # type: ignore[arg-type]
    assert isinstance(client, chat.ClaudeLocal)
    return client


def calls(program: Path) -> list[tuple[list[str], str]]:
    return [tuple(json.loads(line)) for line in (program.parent / "log").read_text().splitlines()]


def test_it_talks(program: Path) -> None:
    """Questions go to the program, the second one to the session of the first."""
    client = local(program, model="a-model", system="Be kind.")
    client.add("Before.")
    assert client.chat("Hello") == "You said: Before.\n\nHello"
    assert client.chat("Again") == "You said: Again"
    (first, said), (second, _) = calls(program)
    assert first == ["--print", "--output-format", "json", "--model", "a-model", "--system-prompt", "Be kind."]
    assert said == "Before.\n\nHello"
    assert second[-2:] == ["--resume", "s-1"]
    assert [message.text for message in client.history] == [
        "Before.", "Hello", "You said: Before.\n\nHello", "Again", "You said: Again",
    ]  # fmt: skip
    assert client.usage == chat.UsageTotal(input=6, output=8, answers=2)


def test_it_streams(program: Path) -> None:
    """Pieces come as the program writes them, the reply at the end."""
    client = local(program)
    events = list(client.stream("Hello"))
    assert events[:3] == [Thinking(text="Hm."), Text(text="You"), Text(text=" said: Hello")]
    assert events[-1] == client.reply
    assert "--include-partial-messages" in calls(program)[0][0]
    stream = client.stream("Hello")
    next(stream)
    stream.close()
    assert client.usage.answers == 1


def test_it_gives_values(program: Path) -> None:
    """The schema goes along with the question."""
    client = local(program)
    assert client.ask("Which?", dict[str, int]) == {"a": 1}
    assert client.ask("Which?", str) == "You said: Which?"


@pytest.mark.parametrize("said", ["fail", "garbage", "refuse"])
def test_it_fails(said: str, program: Path) -> None:
    """A failed program raises a typed error, and the history does not change."""
    client = local(program)
    with pytest.raises(chat.ProviderError, match="the program failed"):
        client.chat(said)
    with pytest.raises(chat.ProviderError, match="the program failed"):
        list(client.stream(said))
    assert client.history == ()


def test_it_is_not_there(tmp_path: Path) -> None:
    """A program that is not installed is a typed error that says so."""
    client = local(tmp_path / "nothing")
    with pytest.raises(chat.ProviderError, match="does not run"):
        client.chat("Hello")
    with pytest.raises(chat.ProviderError, match="does not run"):
        list(client.stream("Hello"))


def test_it_takes_too_long(program: Path) -> None:
    """A timeout ends the program."""
    with pytest.raises(chat.ProviderError, match="in time"):
        local(program, timeout=0.5).chat("sleep")
    with pytest.raises(chat.ProviderError, match="in time"):
        list(local(program, timeout=0.5).stream("sleep"))
    assert list(local(program, timeout=30).stream("hello"))


def test_what_it_does_not_take(program: Path) -> None:
    """Tools of ours, a token, an address, messages in JSON, empty prompts."""
    client = local(program)
    client.set_tools([])
    with pytest.raises(Invalid, match="its own tools"):
        client.set_tools([len])
    with pytest.raises(Invalid):
        chat.connect("claude-local", token="x")
    with pytest.raises(Invalid):
        chat.connect("claude-local", base_url="https://a.b")
    for prompt in ("", native("claude", "{}"), None):
        with pytest.raises(Invalid):
            client.chat(prompt)  # type: ignore[arg-type]


def test_what_it_costs_may_be_unknown(program: Path) -> None:
    """A program that does not say makes the sums lower bounds."""
    client = local(program)
    client.chat("unknown")
    assert not client.usage.known
