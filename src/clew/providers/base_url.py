"""Checks the addresses that an API key may be sent to."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from clew.providers.errors import InvalidBaseURL

MAX_BASE_URL_LENGTH = 2048
"""The longest base URL, in bytes."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NAME = re.compile(r"[a-z0-9._-]*")
_ADDRESS = re.compile(r"\[[0-9a-f:.]+(%[a-z0-9._~-]+)?\](:[0-9]*)?")
_MAX_HOST = 255
_HTTP = "Use https. For a server in a network that you trust, allow_insecure=True allows http."
_PLACEHOLDERS = ("example.com", "example.net", "example.org", "localhost.localdomain")


def validate_base_url(url: str, allow_insecure: bool = False) -> str:
    """Returns `url` if an API key may be sent there, else raises InvalidBaseURL, without the URL. Empty is accepted.

    Rules, in this order: at most 2048 bytes; no control characters; it parses; no user or password in it; https, or
    http with `allow_insecure`; a host; and the host is not a placeholder such as example.com. Call it for every base
    URL from outside; `connect` does so first.
    """
    if not isinstance(url, str):
        raise InvalidBaseURL(f"is not text but {type(url).__name__}")
    if not url:
        return url
    if len(url.encode(errors="surrogatepass")) > MAX_BASE_URL_LENGTH:
        raise InvalidBaseURL(f"is longer than {MAX_BASE_URL_LENGTH:,} bytes")
    # Check the raw text: urlsplit silently drops newlines, tabs and leading spaces.
    if _CONTROL.search(url):
        raise InvalidBaseURL("has control characters")
    parts, host = _parse(url)
    if "@" in parts.netloc:
        raise InvalidBaseURL("contains a user name", hint="Pass the API key separately.")
    if parts.scheme != "https" and not (parts.scheme == "http" and allow_insecure is True):
        raise InvalidBaseURL("is not https", hint=_HTTP if parts.scheme == "http" else "")
    if not host:
        raise InvalidBaseURL("has no host")
    if any(host == placeholder or host.endswith("." + placeholder) for placeholder in _PLACEHOLDERS):
        raise InvalidBaseURL("is a placeholder", hint="Use the address of your provider.")
    return url


def host_of(url: str) -> str:
    """The host of an accepted URL, the only part that may be logged."""
    return urlsplit(url).hostname or ""


def ascii_host(url: str) -> str:
    """The normalised host of a URL; empty if the URL does not parse."""
    try:
        return _parse(url)[1]
    except InvalidBaseURL:
        return ""


def _parse(url: str) -> tuple[SplitResult, str]:
    """The parts of a URL, and its normalised host: in ASCII, lowercase, without a final dot."""
    try:
        url.encode()
        parts = urlsplit(url)
        _ = parts.port
        host = (parts.hostname or "").lower()
        place = parts.netloc.rpartition("@")[2].lower()
        if "[" in place:
            known = _ADDRESS.fullmatch(place)
        elif len(host) > _MAX_HOST:  # before the normalisation, which is slow for long text
            known = None
        else:
            # Normalise as a resolver does: full-width letters, invisible ones and other dots mean the same host.
            host = host.encode("idna").decode().lower()
            # No valid host has a backslash, space or %, which another parser may take as its end or decode.
            known = _NAME.fullmatch(host)
    except ValueError:  # its text may quote the URL
        known = None
    if known is None or url != url.strip(" "):
        raise InvalidBaseURL("does not parse")
    return parts, host.removesuffix(".")
