"""A provider is a folder and a row: no other module names one."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, get_args

import pytest
from tools import house

import clew
from clew import chat
from clew.base.messages import Block, Text
from clew.convert import convert_messages
from clew.providers import registry
from clew.providers.leftovers import role
from clew.providers.neutral import neutral
from clew.providers.openai.messages import ChatTarget
from clew.providers.openai.requests import CompletionsWire
from clew.providers.registry import PROVIDERS, Part, Provider
from clew.providers.target import Piece

FUNCTIONS = {
    "messages": ["blocks", "fields", "target"],
    "requests": ["wire_format", "connect", "connect_async"],
}  # fmt: skip
ALLOWED = {
    "agents/serial.py": "transcripts of agents hold messages of Anthropic or OpenAI, and do not say which",
    "chat/claude_program.py": "the program is called claude",
    "chat/factory.py": "the program is called claude",
    "cli/commands/doctor.py": "extras have the names of providers",
    "cli/output/statusline.py": "the status line reads transcripts of Claude Code",
    "cli/setup/installation.py": "the program `claude` has the name of a provider",
    "adapters/claude.py": "transcripts of the Claude Agent SDK",
    "adapters/litellm.py": "LiteLLM names endpoints after providers",
    "adapters/openai_agents.py": "sessions of the OpenAI Agents SDK store items of OpenAI",
    "sources/openai_agents.py": "sessions of the OpenAI Agents SDK have items of OpenAI",
    "sources/agno.py": "sessions of agno have messages of OpenAI",
    "sources/claude_code.py": "Claude Code stores messages of Anthropic",
    "sources/gemini_cli.py": "Gemini CLI stores messages of Gemini",
    "sources/qwen_code.py": "Qwen Code stores messages of Gemini",
    "testing/backend/reading.py": "a message to store",
    "testing/providers.py": "the scripted server speaks their protocols",
    "testing/snapshots.py": "snapshots to store",
}
"""Modules outside `providers` that name a provider, and why."""


class MadeUpTarget(ChatTarget):
    """Messages of shouted lines."""

    def write(self, pieces: Any) -> list[dict[str, Any]]:
        return [{"who": piece.role, "line": _line(piece)} for piece in pieces]


def _line(piece: Piece) -> str:
    return piece.what.text if isinstance(piece.what, Text) else ""


class MadeUpWire(CompletionsWire):
    """Chat completions, with messages of another form."""

    def user(self, text: str) -> bytes:
        return b'{"who":"user","role":"user","line":"%s"}' % text.encode()


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> str:
    """A provider called ``parrot``: modules as a folder would hold them, and a row."""

    def blocks(data: dict[str, Any]) -> Iterator[Block]:
        yield Text(text=str(data.get("line") or data.get("content")))

    class Echo:
        def __init__(self, to: object) -> None:
            pass

        def send(self, body: dict[str, Any]) -> bytes:
            line = body["messages"][-1]["line"]
            return b'{"choices":[{"message":{"role":"assistant","line":"%s!"}}]}' % line.encode()

    folder: dict[str, Any] = {
        "messages": {
            "blocks": blocks,
            "fields": lambda data: {"who": str, "line": str, "role": role},
            "target": lambda name: MadeUpTarget(),
        },
        "requests": {"wire_format": lambda name: MadeUpWire(name, accepts=[name]), "connect": Echo},
    }
    for part, functions in folder.items():
        module = ModuleType(f"clew.providers.parrot.{part}")
        vars(module).update(functions)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    row = Provider("parrot", "parrot", aliases=("macaw",), needs_api_key=False, system_is_message=True)
    monkeypatch.setitem(PROVIDERS, row.name, row)
    return row.name


def test_a_new_provider_is_a_folder_and_a_row(made_up: str) -> None:
    """Its messages are viewed, converted and sent, and no other module had to learn of it."""
    assert neutral(clew.native("macaw", b'{"role":"assistant","line":"Hello"}')).blocks == (Text(text="Hello"),)
    converted = convert_messages([b'{"role":"user","line":"Hello","hat":1}'], source=made_up, to="claude")
    assert converted.messages == (b'{"role":"user","content":[{"type":"text","text":"Hello"}]}',)
    assert [loss.what for loss in converted.report.losses] == ["field"]
    back = convert_messages([clew.system("Be loud."), clew.user("Hello")], to="macaw")
    assert back.provider == made_up
    assert back.messages == (b'{"who":"system","line":"Be loud."}', b'{"who":"user","line":"Hello"}')
    client = chat.connect(made_up, "a-model")
    assert client.chat("Hello") == "Hello!"
    assert [neutral(message).text for message in client.history] == ["Hello", "Hello!"]


def test_every_folder_has_its_modules() -> None:
    """Each row leads to modules with the functions that the registry's docstring lists."""
    assert set(FUNCTIONS) == set(get_args(Part))
    for row in PROVIDERS.values():
        for part in get_args(Part):
            module = registry.load(row, part)
            assert all(callable(getattr(module, name)) for name in FUNCTIONS[part]), (row.name, part)


def test_names_are_unique() -> None:
    """No two rows share a name or an alias of a model."""
    short = [name for row in PROVIDERS.values() for name in row.short_names]
    assert len(set(registry.names())) == len(registry.names())
    assert len(set(short)) == len(short)
    assert registry.canonical("anthropic") == "claude"
    assert registry.canonical("someone") == registry.family("someone") == "someone"


def test_no_other_module_names_a_provider() -> None:
    """No module imports a provider's folder or uses its name, except those listed with their reason."""
    folders = {f"clew.providers.{row.folder}" for row in PROVIDERS.values()} | {"clew.providers.offline"}
    naming, importing = set(), set()
    names = set(registry.names())
    for module in house.modules().values():
        name = module.path.relative_to(house.SOURCE).as_posix()
        if name.startswith("providers/"):
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names:
                naming.add(name)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(tuple(folders)):
                importing.add(name)
    assert importing == set()
    assert naming == set(ALLOWED)
