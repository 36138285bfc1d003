"""Connecting: checks before anything is created, and their errors."""

from __future__ import annotations

import inspect
import logging
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from clew import chat
from clew.chat import aio
from clew.cli.setup import settings
from clew.errors import Invalid
from clew.providers.registry import PROVIDERS, load
from clew.providers.transport import Endpoint
from clew.testing.providers import ProviderServer, self_signed
from tests.chat.conftest import PERSISTENT, TOKEN, Connect

FACES = [chat.connect, aio.connect]


@pytest.mark.checklist("A40")
@pytest.mark.parametrize("connect", FACES)
@pytest.mark.parametrize("provider", [*PERSISTENT, "offline"])
def test_the_address_is_checked_before_anything_is_made(
    connect: Any, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bad address never reaches an SDK, whichever the provider."""

    def never(endpoint: Endpoint) -> Any:
        raise AssertionError("a transport was made")

    for face in ("connect", "connect_async"):
        monkeypatch.setattr(load(PROVIDERS[provider], "requests"), face, never)
    for url in ("http://a.b", "https://user:secret@a.b", "https://example.com", "https://a.b\n"):
        with pytest.raises(chat.InvalidBaseURL) as caught:
            connect(provider, "m", token=TOKEN, base_url=url)
        assert url not in str(caught.value)
        assert "secret" not in str(caught.value)


@pytest.mark.checklist("A37")
@pytest.mark.parametrize("connect", FACES)
def test_what_is_missing(connect: Any) -> None:
    """A provider's name, its token, its model, and for compatible servers an address."""
    with pytest.raises(Invalid, match=r"unknown provider 'clade'\. Use one of claude, openai"):
        connect("clade", "m", token="t")
    with pytest.raises(Invalid, match="no API key for claude"):
        connect("claude", "m")
    with pytest.raises(Invalid, match="no model for gemini"):
        connect("gemini", token="t")
    with pytest.raises(chat.InvalidBaseURL, match="openai-compatible needs one"):
        connect("openai-compatible", "m", token="t")


@pytest.mark.parametrize("connect", FACES)
@pytest.mark.parametrize(
    "token", [f"{TOKEN}\n", f" {TOKEN}", f"{TOKEN}\0", f"{TOKEN}é", f"{TOKEN}\ud800", TOKEN.encode()]
)
def test_a_token_that_no_header_can_carry(connect: Any, provider: str, token: Any) -> None:
    """It is refused here: a library that finds it in a header would quote it, and a traceback would show it."""
    with pytest.raises(Invalid, match=r"token|API key") as caught:
        connect(provider, "m", token=token, base_url="https://a.b")
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value.__context__)
    assert TOKEN not in told


@pytest.mark.parametrize("connect", FACES)
@pytest.mark.parametrize(
    "wrong",
    [
        {"provider": {}}, {"provider": None}, {"model": 5}, {"model": None}, {"system": None}, {"system": b"x"},
        {"tools": None}, {"max_tokens": "x"}, {"max_tokens": 0}, {"max_tokens": True}, {"max_steps": None},
        {"max_steps": 0}, {"timeout": "1"}, {"timeout": -1}, {"timeout": float("nan")}, {"max_retries": -1},
        {"max_retries": "x"}, {"options": 5}, {"options": "x"}, {"base_url": None},
    ],
)  # fmt: skip
def test_settings_of_another_kind(connect: Any, wrong: dict[str, Any]) -> None:
    """Each is refused by its name, before anything is made."""
    with pytest.raises(Invalid, match=next(iter(wrong)).replace("base_url", "base URL")):
        connect(**{"provider": "openai", "model": "m", "token": "t", **wrong})


@pytest.mark.parametrize("wrong", [{"model": 5}, {"system": None}, {"timeout": "x"}, {"program": None}, {"token": 5}])
def test_settings_of_the_local_program(wrong: dict[str, Any]) -> None:
    """They are checked, too."""
    with pytest.raises(Invalid, match=next(iter(wrong))):
        chat.connect("claude-local", **wrong)


@pytest.mark.checklist("A38")
@pytest.mark.parametrize("connect", FACES)
@pytest.mark.parametrize("value", ["true", "yes", 1, "false", None, [True]])
def test_allow_insecure_cannot_come_from_a_file(connect: Any, value: object) -> None:
    """`allow_insecure` accepts no value from a file, a variable or a form: it must be set in code."""
    with pytest.raises(Invalid, match="allow_insecure"):
        connect("claude", "m", token="t", base_url="http://127.0.0.1:1", allow_insecure=value)


@pytest.mark.checklist("A38")
def test_no_setting_is_called_allow_insecure() -> None:
    """The clients and their check know the name, and a flag of `clew chat` and `clew run`; settings refuse it."""
    source = Path(chat.__file__).parents[1]
    knowing = {
        path.relative_to(source).parts[0]
        for path in source.rglob("*.py")
        if "allow_insecure" in path.read_text() and path.name not in ("settings.py", "models.py")
    }
    assert knowing <= {"chat", "providers", "testing", "cli"}
    assert "allow_insecure" not in settings.SETTINGS
    assert settings.NOT_FROM_FILES == {"allow_insecure"}
    parameter = inspect.signature(chat.connect).parameters["allow_insecure"]
    assert (parameter.kind, parameter.default) == (parameter.KEYWORD_ONLY, False)


@pytest.mark.checklist("A41")
@pytest.mark.parametrize("connect", FACES)
def test_only_provider_and_host_are_logged(connect: Any, caplog: pytest.LogCaptureFixture) -> None:
    """One line at INFO, without path, query and API key."""
    caplog.set_level(logging.INFO)
    connect("openai-compatible", "m", token=TOKEN, base_url="https://Proxy.corp.internal:8443/team-7/v1?key=1")
    (record,) = [record for record in caplog.records if record.name == "clew.chat"]
    assert record.levelname == "INFO"
    assert record.getMessage() == (
        "chat provider initialised provider=openai-compatible endpoint_host=proxy.corp.internal"
    )  # fmt: skip
    connect("claude", "m", token=TOKEN)
    assert caplog.records[-1].getMessage().endswith("provider=claude endpoint_host=api.anthropic.com")
    assert TOKEN not in caplog.text
    assert "team-7" not in caplog.text


def test_the_local_program_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    """It has no host."""
    caplog.set_level(logging.INFO)
    chat.connect("claude-local")
    assert caplog.records[-1].getMessage() == "chat provider initialised provider=claude-local"
    with pytest.raises(Invalid, match="no async client"):
        aio.connect("claude-local")


ENVIRONMENT = {
    "ANTHROPIC_BASE_URL": "https://evil.invalid", "ANTHROPIC_API_KEY": "sk-env", "ANTHROPIC_AUTH_TOKEN": "env-token",
    "OPENAI_BASE_URL": "https://evil.invalid", "OPENAI_API_KEY": "sk-env", "OPENAI_ORG_ID": "org-env",
    "OPENAI_PROJECT_ID": "proj-env", "GOOGLE_API_KEY": "sk-env", "GEMINI_API_KEY": "sk-env",
    "GOOGLE_GEMINI_BASE_URL": "https://evil.invalid", "GOOGLE_GENAI_USE_VERTEXAI": "true",
    "GOOGLE_GENAI_API_VERSION": "v9",
}  # fmt: skip


def test_nothing_is_taken_from_the_environment(
    provider: str, monkeypatch: pytest.MonkeyPatch, connect: Connect, server: ProviderServer
) -> None:
    """Address, token, organisation: what the SDKs would take from the environment, they do not get to."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    client = connect(provider)
    client.chat("Hello")
    sent = str(server.requests[-1].headers)
    assert TOKEN in sent
    assert not any(value in sent for value in ("sk-env", "env-token", "org-env", "proj-env"))
    known = PROVIDERS[provider]
    if known.base_url:
        default = chat.connect(provider, "m", token=TOKEN)
        assert "evil" not in str(vars(default._transport)["_sdk"].__dict__)  # type: ignore[union-attr]
        default.close()  # type: ignore[union-attr]


def test_a_compatible_server_may_need_no_token(connect: Connect, server: ProviderServer) -> None:
    """A server on this machine usually asks for none."""
    client = connect("openai-compatible", token=None)
    assert client.chat("Hello") == "You said: Hello"
    assert server.requests[0].headers["authorization"] == "Bearer none"


def test_an_address_that_only_the_sdk_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that only the SDK refuses is InvalidBaseURL without the address; other errors are not hidden."""
    with pytest.raises(chat.InvalidBaseURL, match="the SDK") as caught:
        chat.connect("claude", "m", token="t", base_url="https://🙂.de")
    assert "🙂" not in str(caught.value)

    def broken(endpoint: Endpoint) -> Any:
        raise TypeError("a bug")

    monkeypatch.setattr("clew.providers.claude.requests.connect", broken)
    with pytest.raises(TypeError):
        chat.connect("claude", "m", token="t")


@pytest.mark.parametrize("provider", PERSISTENT)
def test_https(provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS needs no permission; an untrusted certificate is refused."""
    certificate, key = self_signed(tmp_path)
    with ProviderServer(certificate=certificate, key=key) as server:
        given = {"token": TOKEN, "base_url": server.base_url(provider), "max_retries": 0}
        stranger = chat.connect(provider, "a-model", **given)  # type: ignore[arg-type]
        with pytest.raises(chat.ProviderError):
            stranger.chat("Hello")
        assert server.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        client = chat.connect(provider, "a-model", **given)  # type: ignore[arg-type]
        assert client.chat("Hello") == "You said: Hello"
        assert list(client.stream("Hello"))[-1] == client.reply
        for one in (stranger, client):
            one.close()  # type: ignore[union-attr]


def test_sdks_are_imported_when_used() -> None:
    """Importing clew.chat and talking offline loads no SDK, no HTTP client and no event loop."""
    code = (
        "import sys; from clew import chat; chat.connect('offline').chat('Hello'); "
        "heavy = {'anthropic', 'openai', 'google.genai', 'httpx2', 'pydantic', 'anyio', 'asyncio'} & set(sys.modules); "
        "print(heavy)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(("module", "provider", "extra"), [
    ("anthropic", "claude", "anthropic"), ("openai", "openai", "openai"), ("google.genai", "gemini", "gemini"),
])  # fmt: skip
def test_a_missing_sdk_says_what_to_install(
    module: str, provider: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the extra."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"pip install 'clew\[{extra}\]'"):
        chat.connect(provider, "m", token="t")


def test_an_endpoint_does_not_show_its_token() -> None:
    """A repr ends up in logs."""
    assert TOKEN not in repr(Endpoint("claude", "https://a.b", TOKEN))
