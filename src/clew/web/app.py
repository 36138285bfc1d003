"""The routes of the page. Each page is HTML, and answers as `.json` and `.md` too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

import jinja2
import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from clew.errors import Ambiguous, ClewError, Conflict, Corrupted, Invalid, NotFound, Sealed
from clew.exports.to_files import FORMS, exportable, file_name, parts
from clew.exports.to_jsonl import jsonl
from clew.exports.to_markdown import markdown
from clew.store.windows import end_below, number_of, window
from clew.web import conversation as talk
from clew.web import finding, listing, live
from clew.web.attachments import attachment
from clew.web.changes import CHANGES
from clew.web.comparing import comparison
from clew.web.site import Locked, Site, typed_key
from clew.web.views import (
    PINNED,
    many,
    node_value,
    origin,
    project_of,
    resume_command,
    session_value,
    to_line,
    tool,
    tool_of,
    utc_now,
)

STREAMS = 32
"""Streams of events that may be open at a time."""
_STATUS = {NotFound: 404, Ambiguous: 404, Invalid: 400, Conflict: 409, Corrupted: 500, Sealed: 423}
Handler = Callable[[Request], Response]


class Pages:
    """The handlers, with the site they belong to."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.streams = live.Streams()
        loader = jinja2.PackageLoader("clew.web")
        self._templates = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
        self._templates.filters |= {"shown": to_line, "n": lambda number: f"{number:,}", "many": many}
        self._templates.globals |= {
            "site": site, "tool": tool, "asset": lambda name: f"/static/{site.assets[name].name}",
        }  # fmt: skip

    # -- pages

    def conversations(self, request: Request) -> Response:
        """The list, with filters in the URL."""
        filters, cursor = listing.Filters.read(request.query_params), request.query_params.get("after")
        found = listing.listing(self._site.store, filters, cursor, utc_now())
        form = _form(request)
        if form == "json":
            rows = [listing.row_value(row) for row in found.rows]
            return _json({"conversations": rows, "total": found.total, "next": found.next})
        if form == "md":
            return _markdown(
                f"- {shown_line(row.title)} · {row.tool.title} · {row.when} · /c/{row.key}" for row in found.rows
            )
        if not found.rows and not filters.chosen and cursor is None:
            return self._page("empty.html")
        older = None if found.next is None else filters.url("/", after=found.next)
        return self._page("list.html", found=found, filters=filters, older=older)

    def conversation(self, request: Request) -> Response:
        """A window of a conversation."""
        key, form = _key(request)
        session, head = self._site.session(key), request.query_params.get("head") or None
        first = _number(request.query_params.get("from"), 1)
        if form == "json":
            found = window(session, first, first + talk.WINDOW - 1, head=head)
            values = {"conversation": session_value(session), "messages": [node_value(node) for node in found.nodes]}
            return _json({**values, "from": first, "total": found.total})
        if form == "md":
            found = window(session, first, first + talk.WINDOW - 1, head=head)
            return _markdown(markdown(session, found.nodes))
        view = talk.view(self._site, session, first, head=head)
        words = request.query_params.get("find", "")[:1000]
        matches = finding.find_here(self._site.store, session, words) if words.strip() else []
        now = utc_now()
        return self._page(
            "conversation.html",
            session=session, view=view, url=talk.url, words=words, matches=matches, tool_of=tool_of(session),
            origin=origin(session), project=project_of(session), resume=resume_command(session),
            facts=talk.facts(session), checkpoints=talk.checkpoints(session, now), forms=list(FORMS),
            subagents=talk.subagents(session), compare_url=talk.compare_url, WINDOW=talk.WINDOW,
            labels=[label for label in session.labels if label != PINNED], pinned=PINNED in session.labels,
            live=head is None and view.last >= view.total,
        )  # fmt: skip

    def messages(self, request: Request) -> Response:
        """The articles of a window alone, for a page that follows a conversation."""
        session = self._site.session(request.path_params["key"])
        first = _number(request.query_params.get("from"), 1)
        view = talk.view(self._site, session, first, head=request.query_params.get("head") or None)
        return HTMLResponse("".join(view.articles))

    def message(self, request: Request) -> Response:
        """The permanent URL of a message: leads to the window it is in, on the path that has it."""
        session = self._site.session(request.path_params["key"])
        node = talk.find_node(session, request.path_params["node"])
        number, head = number_of(session, node.id), None
        if number is None:
            head = end_below(session, node) or node.id
            number = number_of(session, node.id, head=head)
        start = talk.window_start(number or 1)
        return RedirectResponse(talk.url(session, head=head, start=start, anchor=f"m{number}"), 303)

    def raw(self, request: Request) -> Response:
        """A message as it is stored, as text."""
        session = self._site.session(request.path_params["key"])
        node = talk.find_node(session, request.path_params["node"])
        native = node.native
        body = msgspec.json.encode(msgspec.to_builtins(node.message)) if native is None else native.raw
        with suppress(msgspec.MsgspecError):
            body = msgspec.json.format(body, indent=2)
        if _form(request) == "json":
            return Response(body, media_type="application/json")
        return self._page("raw.html", session=session, node=node, number=node.counters.messages, body=shown_text(body))

    def search(self, request: Request) -> Response:
        """Search over everything."""
        asked, form = finding.Asked.read(request.query_params), _form(request)
        typing = form == "json" and request.query_params.get("typing") == "1"
        results = finding.find_all(self._site.store, asked, utc_now(), typing=typing)
        if form == "json":
            return _json(finding.results_value(results))
        if form == "md":
            lines = (
                f"- {shown_line(group.title)} #{one.number}: {shown_line(one.text)} /c/{group.key}/m/{one.node_id}"
                for group in results.groups
                for one in group.matches
            )
            return _markdown(lines)
        facets = listing.listing(self._site.store, listing.Filters(), None, utc_now()).facets
        return self._page("search.html", asked=asked, results=results, found_facets=facets, each=finding.EACH)

    def compare(self, request: Request) -> Response:
        """Two branches from where they part."""
        session = self._site.session(request.path_params["key"])
        form = request.path_params.get("form", "")
        found = comparison(session, request.query_params.get("a"), request.query_params.get("b"))
        sides = {"a": found.a, "b": found.b}
        if form == "json":
            heads = {name: {"head": side.head, "messages": side.messages} for name, side in sides.items()}
            return _json({"common": found.common, **heads})
        if form == "md":
            lines = [f"- {name}: {shown_line(side.title)}, {side.messages} messages" for name, side in sides.items()]
            return _markdown([f"Common messages: {found.common}", *lines])
        return self._page("compare.html", session=session, found=found)

    def trash(self, request: Request) -> Response:
        """The conversations in the trash."""
        found = self._site.store.sessions.trashed(limit=listing.PAGE)
        rows = [(one.id, one.title or "Untitled", one.trashed_at) for one in found.items]
        return self._page("trash.html", rows=rows)

    # -- files

    def blob(self, request: Request) -> Response:
        """An attachment."""
        session = self._site.session(request.path_params["key"])
        name, wanted = request.query_params.get("name", ""), request.headers.get("range")
        return attachment(session, request.path_params["digest"], name, wanted)

    def export(self, request: Request) -> Response:
        """A conversation as a file, in one of the forms of `clew export`."""
        session, form = self._site.session(request.path_params["key"]), request.path_params["form"]
        if form not in FORMS:
            raise NotFound("form", form)
        exportable([session])
        store = self._site.store
        pieces: Iterable[bytes] = jsonl(store, [session]) if form == "jsonl" else parts(store, session, form, "full")
        name = file_name(session, FORMS[form]).encode("ascii", "replace").decode().replace("?", "_")
        headers = {
            "content-disposition": f'attachment; filename="{name}"',
            "content-security-policy": "sandbox; default-src 'none'",
        }
        return StreamingResponse(iter(pieces), headers=headers, media_type="application/octet-stream")

    def static(self, request: Request) -> Response:
        """A static file, by its name with a hash."""
        one = self._site.asset(request.path_params["name"])
        return Response(
            one.body, media_type=one.type, headers={"cache-control": "private, max-age=31536000, immutable"}
        )

    # -- events and changes

    async def events(self, request: Request) -> Response:
        """New messages of a conversation as a stream."""
        if len(self.streams) >= STREAMS:
            raise HTTPException(503, "Too many pages are open.")
        session = await run_in_threadpool(self._site.session, request.path_params["key"])
        after = request.headers.get("last-event-id") or request.query_params.get("after") or None
        if after is not None:
            await run_in_threadpool(talk.find_node, session, after)
        stream = self.streams.events(session, after)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def change(self, request: Request) -> Response:
        """One of the changes of `clew.web.changes`, or a restore from the trash."""
        if not self._site.allow_write:
            raise HTTPException(403, "The page is read-only. Start it with: clew serve --allow-write")
        name, key = request.path_params["change"], request.path_params["key"]
        try:
            values = msgspec.json.decode(await request.body() or b"{}", type=dict[str, Any])
        except msgspec.MsgspecError:
            raise Invalid("the request is not a JSON object") from None

        def work() -> dict[str, Any]:
            if name == "restore":
                return {"id": self._site.store.sessions.restore(key).id}
            if name not in CHANGES:
                raise NotFound("change", name)
            return CHANGES[name](self._site.store, self._site.session(key), values)

        return _json(await run_in_threadpool(work))

    async def unlock(self, request: Request) -> Response:
        """Takes the key of a sealed store from the form."""
        form = await request.form(max_files=0, max_fields=4)
        given, token = form.get("key"), form.get("token")
        if not isinstance(token, str) or not _same(token, self._site.page_token()):
            raise HTTPException(403, "The token of the page is missing. Reload the page.")
        try:
            await run_in_threadpool(lambda: self._site.unlock(typed_key(str(given or ""))))
        except (Sealed, Invalid):
            return self._page("locked.html", status=403, wrong=True)
        to = form.get("to")
        return RedirectResponse(to if isinstance(to, str) and to.startswith("/") and to[1:2] not in "/\\" else "/", 303)

    async def lock(self, request: Request) -> Response:
        """Locks a store that was unlocked on the page."""
        await run_in_threadpool(self._site.lock)
        return _json({"locked": True})

    # -- answers

    def _page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        return HTMLResponse(self._templates.get_template(template).render(**values), status)

    def render_locked(self, request: Request, error: Exception) -> Response:
        """The page of a sealed store."""
        if request.url.path.endswith(".json"):
            return _json({"error": "the store is locked"}, 423)
        return self._page("locked.html", status=423, wrong=False, to=_path(request))

    def render_error(self, request: Request, error: Exception) -> Response:
        """An error of clew as a page, or as JSON."""
        assert isinstance(error, ClewError)
        status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 503)
        if request.method == "POST" or request.url.path.endswith(".json"):
            return _json({"error": error.message, "hint": error.hint}, status)
        options = getattr(error, "candidates", ())
        return self._page("error.html", status=status, message=error.message, hint=error.hint, options=options)

    def render_refusal(self, request: Request, error: Exception) -> Response:
        """A route that does not exist, or a refusal."""
        assert isinstance(error, HTTPException)
        if request.method == "POST":
            return _json({"error": error.detail}, error.status_code)
        return self._page("error.html", status=error.status_code, message=error.detail, hint="", options=())


def make_app(site: Site) -> tuple[Starlette, Pages]:
    """The app, without the checks: see `clew.web.guard`."""
    pages = Pages(site)

    def get(path: str, handler: Handler | Callable[[Request], Awaitable[Response]]) -> Route:
        return Route(path, handler, methods=["GET"])

    def post(path: str, handler: Callable[[Request], Awaitable[Response]]) -> Route:
        return Route(path, handler, methods=["POST"])

    routes = [
        *(get(path, pages.conversations) for path in ("/", "/conversations.json", "/conversations.md")),
        *(get(f"/search{end}", pages.search) for end in ("", ".json", ".md")),
        get("/trash", pages.trash),
        get("/static/{name}", pages.static),
        get("/c/{key}/messages", pages.messages),
        get("/c/{key}/events", pages.events),
        get("/c/{key}/compare", pages.compare),
        get("/c/{key}/compare.{form}", pages.compare),
        get("/c/{key}/blob/{digest}", pages.blob),
        get("/c/{key}/export/{form}", pages.export),
        get("/c/{key}/m/{node}", pages.message),
        get("/c/{key}/m/{node}/raw", pages.raw),
        get("/c/{key}/m/{node}/raw.json", pages.raw),
        get("/c/{key}", pages.conversation),
        post("/unlock", pages.unlock),
        post("/lock", pages.lock),
        post("/c/{key}/{change}", pages.change),
    ]
    handlers: dict[Any, Any] = {
        Locked: pages.render_locked,
        ClewError: pages.render_error,
        HTTPException: pages.render_refusal,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return app, pages


def _form(request: Request) -> str:
    return next((form for form in ("json", "md") if request.url.path.endswith(f".{form}")), "")


def _key(request: Request) -> tuple[str, str]:
    key = request.path_params["key"]
    form = _form(request)
    return (key.removesuffix(f".{form}") if form else key), form


def _path(request: Request) -> str:
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 12 else default


def _same(given: str, wanted: str) -> bool:
    import hmac

    return hmac.compare_digest(given.encode(), wanted.encode())


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _markdown(lines: Iterable[str]) -> Response:
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/markdown")


def shown_line(text: str) -> str:
    """Stored text on one line, with hidden characters escaped."""
    from clew.base.visible import plain

    return plain(text)


def shown_text(body: bytes) -> Any:
    """Stored bytes as text for `pre`."""
    from markupsafe import Markup

    from clew.exports.render.text import inline

    text = body.decode("utf-8", "backslashreplace")
    return Markup(inline(text))
