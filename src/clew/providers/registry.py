"""The table of providers. A new one is a folder beside this file and a row here.

A folder holds ``messages`` (`blocks`, `fields`, `target`) and ``requests`` (`wire_format`, `connect`, `connect_async`).
A module is imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from clew.base.loading import loading

if TYPE_CHECKING:
    from clew.base.messages import Block
    from clew.providers.json_values import Json

Part = Literal["messages", "requests"]


class Provider(NamedTuple):
    """A row of the table."""

    name: str
    folder: str
    """The folder of its modules. Providers with the same folder have the same messages, except for their APIs."""
    modules: Mapping[Part, str] = {}
    """Modules that are outside the folder, or have another name in it."""
    aliases: tuple[str, ...] = ()
    system_is_message: bool = False
    """True if the system prompt is the first message; False if it is a parameter of the request."""
    base_url: str = ""
    """The default base URL."""
    needs_base_url: bool = False
    needs_api_key: bool = True
    sdk: str = ""
    """The package that sends the requests."""
    extra: str = ""
    """The extra of clew that installs it."""
    api_keys: tuple[str, ...] = ()
    """Environment variables from which the SDK reads an API key."""
    key_prefix: str = ""
    base_url_variable: str = ""
    """The environment variable from which the SDK reads a base URL."""
    default_model: str = ""
    """The default model of the command line. The SDK must know its name."""
    short_names: Mapping[str, str] = {}
    """Short names of models on the command line."""
    model_pattern: str = ""
    """A regular expression for the beginning of its models' names."""
    storage: str = ""
    """Prefix of addresses in the provider's own storage, which no other provider can read."""


OFFLINE = "offline"
"""The provider that needs no network and no key, and echoes its input."""
COMPATIBLE = "openai-compatible"
"""The provider for servers that are compatible with OpenAI."""
_OPENAI = Provider(
    "openai", "openai", system_is_message=True, base_url="https://api.openai.com/v1", sdk="openai", extra="openai",
    api_keys=("OPENAI_API_KEY",), base_url_variable="OPENAI_BASE_URL",
)  # fmt: skip
PROVIDERS: dict[str, Provider] = {
    row.name: row
    for row in (
        Provider(
            "claude", "claude", aliases=("anthropic",), base_url="https://api.anthropic.com", sdk="anthropic",
            extra="anthropic", api_keys=("ANTHROPIC_API_KEY",), key_prefix="sk-ant-",
            base_url_variable="ANTHROPIC_BASE_URL", default_model="claude-sonnet-5-5", model_pattern="claude-",
            short_names={"sonnet": "claude-sonnet-5-5", "opus": "claude-opus-5-5", "haiku": "claude-haiku-5-5"},
        ),
        _OPENAI._replace(
            key_prefix="sk-", default_model="gpt-6-sol", model_pattern=r"gpt-|chatgpt-|o\d",
            short_names={"gpt": "gpt-6-sol", "mini": "gpt-5.4-mini"},
        ),
        _OPENAI._replace(name="openai-responses", modules={"requests": "openai.responses"}),
        _OPENAI._replace(name=COMPATIBLE, base_url="", needs_base_url=True, needs_api_key=False),
        Provider(
            "gemini", "gemini", base_url="https://generativelanguage.googleapis.com", sdk="google.genai",
            extra="gemini", api_keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"), key_prefix="AIza",
            base_url_variable="GOOGLE_GEMINI_BASE_URL", default_model="gemini-3.8-flash", model_pattern="gemini-",
            short_names={"flash": "gemini-3.8-flash", "pro": "gemini-3.1-pro-preview"},
            storage="https://generativelanguage.googleapis.com/",
        ),
        Provider(
            OFFLINE, "openai", modules={"requests": "offline"}, system_is_message=True, needs_api_key=False,
            default_model="offline",
        ),
    )
}  # fmt: skip


HISTORIES = {
    **dict.fromkeys(("chatgpt", "claude-ai", "librechat", "llm", "lm-studio", "open-webui"), "apps"),
    **dict.fromkeys(("codex", "copilot-cli", "gemini-cli", "goose", "opencode", "pi"), "programs"),
    **dict.fromkeys(("cline", "continue-dev", "cursor", "vscode"), "editors"),
    **dict.fromkeys(
        (
            "agent-framework", "chainlit", "google-adk", "hf-traces", "langchain", "llama-index", "otel", "pydantic-ai",
            "strands",
        ),
        "frameworks",
    ),
}  # fmt: skip
"""Formats of other programs' histories, and of agent frameworks, each with its module in ``histories``."""


class MessageReader(NamedTuple):
    """Reads messages in one format."""

    blocks: Callable[[Json], Iterable[Block]]
    role: Callable[[Json], str] | None = None
    """The role of a message; None if the message itself names it."""


def reader(provider: str) -> MessageReader | None:
    """Reads a provider's messages, or those of a history; None if clew does not know it."""
    row = find(provider)
    if row is not None:
        return MessageReader(load(row, "messages").blocks)
    return _history(provider) if provider in HISTORIES else None


@cache
def _history(name: str) -> MessageReader:
    module, prefix = _import(f"clew.providers.histories.{HISTORIES[name]}"), name.replace("-", "_")
    return MessageReader(getattr(module, f"{prefix}_blocks"), getattr(module, f"{prefix}_role", None))


def find(provider: str) -> Provider | None:
    """The row of a provider, by its name or another name of it; None if clew does not know it."""
    row = PROVIDERS.get(provider)
    if row is None:
        for one in PROVIDERS.values():
            if provider in one.aliases:
                return one
    return row


def names() -> tuple[str, ...]:
    """All names of providers, aliases included."""
    return tuple(name for row in PROVIDERS.values() for name in (row.name, *row.aliases))


def canonical(provider: str) -> str:
    """The canonical name of a provider: ``claude`` for ``anthropic``."""
    row = find(provider)
    return provider if row is None else row.name


def family(provider: str) -> str:
    """The same text for all providers that have the same messages."""
    row = find(provider)
    return provider if row is None else row.folder


def prompt_is_message(provider: str) -> bool:
    """True if the provider takes the system prompt as the first message; False if as a parameter."""
    row = find(provider)
    return row is not None and row.system_is_message


def load(row: Provider, part: Part) -> Any:
    """A module of a provider."""
    return _import(f"clew.providers.{row.modules.get(part) or f'{row.folder}.{part}'}")


@cache
def _import(module: str) -> Any:
    with loading:
        return import_module(module)


def key_variables() -> str:
    """The environment variables for API keys, as a hint lists them."""
    known = list(dict.fromkeys(row.api_keys[0] for row in PROVIDERS.values() if row.api_keys))
    return f"{', '.join(known[:-1])} or {known[-1]}"
