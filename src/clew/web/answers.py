"""The parameters of requests, and answers in other forms than HTML."""

from __future__ import annotations

from collections.abc import Iterable
from hmac import compare_digest
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
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


async def posted(request: Request, token: str) -> dict[str, str]:
    """The fields of a form that has the token of the page."""
    form = await request.form(max_files=0, max_fields=20)
    found = {name: value for name, value in form.items() if isinstance(value, str)}
    if not compare_digest(found.pop("token", "").encode(), token.encode()):
        raise HTTPException(403, "The token of the page is missing. Reload the page.")
    return found


def own_path(to: str) -> str:
    """A path of this server that a form leads to; the list's for anything else."""
    return to if to.startswith("/") and to[1:2] not in "/\\" else "/"


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
