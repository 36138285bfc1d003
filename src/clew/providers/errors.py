"""Errors of model providers and of their addresses."""

from __future__ import annotations

from clew.errors import ClewError, Invalid


class InvalidBaseURL(Invalid):
    """No API key may be sent to this base URL. Nothing was sent.

    The message does not contain the URL, which may hold a password.
    """

    hint = "Use an https address with a host, and pass the API key separately."

    def __init__(self, why: str, *, hint: str = "") -> None:
        super().__init__(f"the base URL {why}", hint=hint)


class ProviderError(ClewError):
    """The provider of a language model refused a request, failed, or broke off its answer.

    `status` is the HTTP status, if there was one. `said` is the provider's own explanation, at most 300 characters,
    without the API key, control characters and longer quotes of the request. The `__cause__` has all of it.
    """

    def __init__(self, provider: str, why: str, *, status: int | None = None, said: str = "", hint: str = "") -> None:
        self.provider = provider
        self.status = status
        self.said = said
        super().__init__(f"{provider}: {why}{f': {said}' if said else ''}".rstrip("."), hint=hint)
