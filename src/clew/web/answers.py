"""The parameters of requests, and answers in other forms than HTML."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response


def form_of(request: Request) -> str:
    """The form that a URL requests: ``json``, ``md``, or empty for a page."""
    return next((form for form in ("json", "md") if request.url.path.endswith(f".{form}")), "")


def key_of(request: Request) -> tuple[str, str]:
    """The key of a conversation, and the requested form."""
    key = request.path_params["key"]
    form = form_of(request)
    return (key.removesuffix(f".{form}") if form else key), form


def path_of(request: Request) -> str:
    """The path with its query."""
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def whole_number(text: str | None, default: int) -> int:
    """A number in a URL; the default if it is not one."""
    return int(text) if text is not None and text.isdecimal() and len(text) < 12 else default


def span_of(request: Request) -> tuple[int, int | None]:
    """The first and the last requested message; None for as many as a page has."""
    query = request.query_params
    first, last = max(1, whole_number(query.get("from"), 1)), whole_number(query.get("to"), 0)
    return first, max(first, last) if last else None


def json_answer(value: Any, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def markdown_answer(lines: Iterable[str]) -> Response:
    """Lines as Markdown."""
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/markdown")
