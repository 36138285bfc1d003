"""The transport of providers whose SDKs are generated from one template: Anthropic's and OpenAI's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from importlib import import_module
from types import ModuleType
from typing import Any

from clew.base.loading import loading
from clew.errors import install_hint
from clew.providers import registry
from clew.providers.failures import translate_errors
from clew.providers.json_values import Json
from clew.providers.transport import Endpoint

_NAMED = ("model", "max_tokens", "messages", "input", "stream")


def load_sdk(to: Endpoint) -> ModuleType:
    """The SDK of a provider. ImportError, with the command that installs it, if it is missing."""
    row = registry.PROVIDERS[to.provider]
    try:
        with loading:
            return import_module(row.sdk)
    except ImportError as error:
        raise ImportError(f"this provider needs its SDK. {install_hint(row.extra)}") from error


class SDKBase:
    """Sends requests through `calls`, a resource of the SDK's `client`."""

    def __init__(self, to: Endpoint, client: Any, calls: Any) -> None:
        self._to = to
        self._sdk = client
        self._calls = calls

    def check(self, body: Json, response: Any) -> bytes:
        """The content of a response. A subclass may raise ProviderError."""
        return bytes(response.http_response.content)

    def check_event(self, body: Json, event: Any) -> Json:
        """An event, including fields that the SDK does not know. ValueError if it is not an event."""
        if not hasattr(event, "to_dict"):
            raise ValueError(f"an event is an object, not {type(event).__name__}")
        return event.to_dict(warnings=False)  # type: ignore[no-any-return]


class SDKTransport(SDKBase):
    """See `Transport`."""

    def send(self, body: Json) -> bytes:
        with translate_errors(self._to, body):
            return self.check(body, self._calls.with_raw_response.create(**_arguments(body)))

    def stream(self, body: Json) -> Generator[Json, None, None]:
        with translate_errors(self._to, body) as progress, self._calls.create(**_arguments(body)) as events:
            for event in events:
                progress.begun = True
                yield self.check_event(body, event)

    def close(self) -> None:
        self._sdk.close()

    def __del__(self) -> None:
        if hasattr(self, "_sdk"):  # the SDK does not close an HTTP client that it was given
            self.close()


class AsyncSDKTransport(SDKBase):
    """`SDKTransport`, awaited."""

    async def send(self, body: Json) -> bytes:
        with translate_errors(self._to, body):
            return self.check(body, await self._calls.with_raw_response.create(**_arguments(body)))

    async def stream(self, body: Json) -> AsyncGenerator[Json, None]:
        with translate_errors(self._to, body) as progress:
            async with await self._calls.create(**_arguments(body)) as events:
                async for event in events:
                    progress.begun = True
                    yield self.check_event(body, event)

    async def close(self) -> None:
        await self._sdk.close()


def _arguments(body: Json) -> dict[str, Any]:
    """The arguments of a call. Fields that the SDK does not require go into the body, so that it need not know them."""
    named: dict[str, Any] = {name: body[name] for name in _NAMED if name in body}
    return {**named, "extra_body": {name: value for name, value in body.items() if name not in named}}
