"""What all adapters do without their framework, and with an async store."""

from __future__ import annotations

import subprocess
import sys

import anyio
import pytest

import clew
import clew.aio
from clew.adapters.keyed import Keyed

PACKAGES = {
    "agent_framework": ("agent_framework", "agent-framework"),
    "chainlit": ("chainlit", "chainlit"),
    "claude": ("claude_agent_sdk", "claude"),
    "google_adk": ("google", "google-adk"),
    "langgraph": ("langgraph", "langgraph"),
    "litellm": ("litellm", "litellm"),
    "llama_index": ("llama_index", "llama-index"),
    "openai_agents": ("agents", "openai-agents"),
    "opentelemetry": ("opentelemetry", "opentelemetry"),
    "pydantic_ai": ("pydantic", "pydantic-ai"),
    "strands": ("strands", "strands"),
}


@pytest.mark.parametrize("name", PACKAGES)
def test_a_missing_framework_names_its_extra(name):
    """The import says which extra to install."""
    package, extra = PACKAGES[name]
    hidden = ["langchain_core", package] if name == "langgraph" else [package]
    program = f"import sys\nfor one in {hidden!r}: sys.modules[one] = None\nimport clew.adapters.{name}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "MissingPackage: this adapter needs the package" in done.stderr, done.stderr
    assert f"pip install 'clew[{extra}]'" in done.stderr


def test_an_async_store(tmp_path):
    """An adapter takes an async store, which stays open when the adapter is closed."""

    async def main():
        async with await clew.aio.open(tmp_path / "chats.db") as store:
            keyed = Keyed(store, "tool", {})
            session = keyed.ensured("a")
            keyed.close()
            assert (await store.sessions.get(session.id)).id == session.id
            assert isinstance(store.sync, clew.Store)

    anyio.run(main)
