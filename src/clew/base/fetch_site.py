"""Recognizes requests that a browser sends for another web site."""

from __future__ import annotations

from collections.abc import Iterable


def is_other_site(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """True if a `Sec-Fetch-Site` header says that another site sent the request. Programs send no such header."""
    return any(name.lower() == b"sec-fetch-site" and value not in (b"same-origin", b"none") for name, value in headers)
