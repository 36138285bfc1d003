"""The routes of the page. Each page is HTML, and answers as `.json` and `.md` too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import cache, partial
from hmac import compare_digest
from typing import Any
from urllib.parse import urlencode

import jinja2
import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from clew.base.visible import many
from clew.base.visible import plain as shown_line
from clew.errors import Ambiguous, ClewError, Conflict, Corrupted, Invalid, NotFound, Sealed
from clew.exports.render.text import LONGEST
from clew.exports.render.text import markdown as markdown_html
from clew.exports.to_markdown import markdown
from clew.sources.registry import sources
from clew.store.origin import origin_of
from clew.store.windows import STEP, end_below, number_of, window
from clew.turns.words import price_origin, short_model, short_models
from clew.web import conversation as talk
from clew.web import downloads, files, finding, listing, live
from clew.web.changes import CHANGES
from clew.web.comparing import comparison, comparison_lines, comparison_value
from clew.web.downloads import attachment, inline_attachment
from clew.web.outline import BATCH, WINDOW, outline_page, outline_value, url, window_start
from clew.web.secrets import SecretFinder
from clew.web.site import Locked, Site, typed_key
from clew.web.usage import chart_of, chart_of_days, cost_of, rows, usage, usage_lines, usage_value
from clew.web.views import (
    PINNED,
    agent_name,
    dot,
    node_value,
    project_of,
    resume_command,
    session_value,
    shown_text,
    to_line,
    to_tip,
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

    def end(self) -> None:
        """Ends searches that build an index: the server ends."""
        self._site.end()

    # -- pages

    def conversations(self, request: Request) -> Response:
        """The list, with filters in the URL."""
        filters = listing.Filters.read(self._site.query(request.query_params))
        cursor = request.query_params.get("after")
        if request.query_params.get("typing") == "1" and form_of(request) == "json":
            fast = listing.titled(self._site.store, filters.title, utc_now(), self._site.secrets)
            rows = [{"id": row.key, "title": self._name(row.title)} for row in fast]
            return json_answer({"conversations": rows, "find": self._site.url_words(filters.title)})
        found = listing.listing(self._site.store, filters, cursor, utc_now(), self._site.secrets)
        form = form_of(request)
        if form == "json":
            rows = [listing.row_value(row) for row in found.rows]
            return json_answer({"conversations": rows, "total": found.total, "next": found.next})
        if form == "md":
            return markdown_answer(
                f"- {shown_line(row.title)} · {row.tool.title} · {row.when} · /c/{row.key}" for row in found.rows
            )
        if not found.rows and not filters.chosen and cursor is None:
            return self._page("empty.html", stamp=self._site.list_stamp())
        older = None if found.next is None else self._site.link(filters.url("/", after=found.next))
        stamp = "" if cursor else self._site.list_stamp()
        return self._page("list.html", found=found, filters=filters, older=older, stamp=stamp)

    def conversation(self, request: Request) -> Response:
        """A window of a conversation."""
        key, form = key_of(request)
        session, head = self._site.session(key), request.query_params.get("head") or None
        first, last = span_of(request)
        if form:
            last = first + BATCH - 1 if last is None else min(last, first + STEP - 1)
            found = window(session, first, last, head=head)
            if form == "md":
                return markdown_answer(markdown(session, found.nodes))
            values = {"conversation": session_value(session), "messages": [node_value(node) for node in found.nodes]}
            return json_answer({**values, "from": first, "total": found.total})
        view = talk.view(self._site, session, first, last=last, head=head)
        words = self._site.query(request.query_params).get("find", "")[:1000]
        matches = []
        if words.strip():
            matches = finding.find_here(session, words, self._site.secrets, self._site.still_open)
        now, traces = utc_now(), talk.subagents(session)
        is_asked = "usage" in request.query_params
        facts = self._site.usage.facts(session, traces, anyway=is_asked)
        return self._page(
            "conversation.html",
            session=session, view=view, url=url, words=words, matches=matches, tool_of=tool_of(session),
            origin=origin_of(session), project=project_of(session), resume=resume_command(session),
            facts=facts, checkpoints=files.checkpoints(session, now), whole=downloads.WHOLE,
            parts=downloads.PARTS, subagents=traces, compare_url=talk.compare_url, WINDOW=WINDOW,
            BATCH=BATCH, change_url=files.change_url,
            labels=[label for label in session.labels if label != PINNED], pinned=PINNED in session.labels,
            start_of=window_start, most=finding.MOST, newest=talk.newest(view),
        )  # fmt: skip

    def messages(self, request: Request) -> Response:
        """The articles of a window alone, for a page that follows a conversation."""
        session, (first, last) = self._site.session(request.path_params["key"]), span_of(request)
        head = request.query_params.get("head") or None
        view = talk.view(self._site, session, first, last=last, head=head, whole=False)
        return HTMLResponse("".join(view.articles))

    def outline(self, request: Request) -> Response:
        """The prompts of a conversation, a page of them."""
        session, (first, _) = self._site.session(request.path_params["key"]), span_of(request)
        head = request.query_params.get("head") or None
        found = outline_page(session, self._site.secrets, first, head=head)
        form = form_of(request)
        if form == "json":
            return json_answer(outline_value(found))
        if form == "md":
            return markdown_answer(f"- #{one.number} {shown_line(one.words)}" for one in found.prompts)
        return self._page("outline.html", session=session, found=found, head=head)

    def files(self, request: Request) -> Response:
        """The files that a conversation changed, and its checkpoints."""
        session, (first, _) = self._site.session(request.path_params["key"]), span_of(request)
        head = request.query_params.get("head") or None
        found, rows = files.file_changes(session, first, head=head), files.checkpoints(session, utc_now())
        form = form_of(request)
        if form == "json":
            return json_answer(files.changes_value(found, rows))
        if form == "md":
            return markdown_answer(files.changes_lines(found, rows))
        return self._page("files.html", session=session, found=found, rows=rows, head=head, links=files.links)

    def find(self, request: Request) -> Response:
        """Matches inside one conversation, as JSON, while the user types."""
        session = self._site.session(request.path_params["key"])
        words = self._site.query(request.query_params).get("q", "")[:1000]
        found = []
        if words.strip():
            found = finding.find_here(session, words, self._site.secrets, self._site.still_open, typing=True)
        values, complete = list(map(finding.match_value, found)), len(found) < finding.MOST
        return json_answer({"matches": values, "complete": complete, "find": self._site.url_words(words)})

    def message(self, request: Request) -> Response:
        """The permanent URL of a message: leads to the window it is in, on the path that has it."""
        session, form = self._site.session(request.path_params["key"]), form_of(request)
        node = talk.find_node(session, request.path_params["node"].removesuffix(f".{form}"))
        if form:
            return (
                json_answer(node_value(node)) if form == "json" else markdown_answer(markdown(None, [node], of=session))
            )
        number, head = number_of(session, node.id), None
        if number is None:
            head = end_below(session, node) or node.id
            number = number_of(session, node.id, head=head)
        words = {"find": request.query_params["find"][:1000]} if request.query_params.get("find") else {}
        start = window_start(number or 1)
        return RedirectResponse(url(session, head=head, start=start, anchor=f"m{number}", **words), 303)

    def call(self, request: Request) -> Response:
        """Leads to the message with a tool call, such as the one that started a subagent."""
        session = self._site.session(request.path_params["key"])
        number = talk.number_of_call(session, request.path_params["call"])
        where = url(session, start=window_start(number), anchor=f"m{number}") if number else url(session)
        return RedirectResponse(where, 303)

    def raw(self, request: Request) -> Response:
        """A message as it is stored, as text."""
        session = self._site.session(request.path_params["key"])
        node = talk.find_node(session, request.path_params["node"])
        native = node.native
        body = msgspec.json.encode(msgspec.to_builtins(node.message)) if native is None else native.raw
        with suppress(msgspec.MsgspecError):
            body = msgspec.json.format(body, indent=2) if len(body) <= LONGEST else body
        if form_of(request) == "json":
            return Response(body, media_type="application/json")
        shown = shown_text(body, self._site.secrets)
        return self._page("raw.html", session=session, node=node, number=node.counters.messages, body=shown)

    def search(self, request: Request) -> Response:
        """Search over everything."""
        asked, form = finding.Asked.read(self._site.query(request.query_params)), form_of(request)
        typing = form == "json" and request.query_params.get("typing") == "1"
        results = finding.find_all(
            self._site.store, asked, utc_now(), self._site.secrets, self._site.note_progress, typing=typing
        )
        self._site.search_done()
        if form == "json":
            value = finding.results_value(results, self._name if typing else str)
            return json_answer({**value, "find": self._site.url_words(asked.words)} if typing else value)
        if form == "md":
            lines = (
                f"- {shown_line(group.title)} #{one.number}: {shown_line(one.text)} /c/{group.key}/m/{one.node_id}"
                for group in results.groups
                for one in group.matches
            )
            return markdown_answer(lines)
        facets = listing.listing(self._site.store, listing.Filters(), None, utc_now(), self._site.secrets).facets
        return self._page("search.html", asked=asked, results=results, found_facets=facets, each=finding.EACH)

    def compare(self, request: Request) -> Response:
        """Two branches from where they part."""
        session = self._site.session(request.path_params["key"])
        form = form_of(request)
        found = comparison(self._site, session, request.query_params.get("a"), request.query_params.get("b"))
        if form == "json":
            return json_answer(comparison_value(found))
        if form == "md":
            return markdown_answer(comparison_lines(session, found))
        return self._page("compare.html", session=session, found=found)

    def usage(self, request: Request) -> Response:
        """Tokens and cost of all conversations."""
        found = usage(self._site.store, self._site.usage.prices)
        form = form_of(request)
        if form == "json":
            return json_answer(usage_value(found))
        if form == "md":
            return markdown_answer(usage_lines(found))
        return self._page("usage.html", found=found, days=chart_of_days(found), cost_of=cost_of,
                          origin=price_origin(found.total, found.prices),
                          projects=chart_of("By project", rows(found.projects, "No directory"), by_cost=found.by_cost),
                          models=rows(found.models, "Unknown"), short=short_models(found.models))  # fmt: skip

    def trash(self, request: Request) -> Response:
        """The conversations in the trash."""
        found = self._site.store.sessions.trashed(limit=listing.PAGE)
        rows = [(one.id, one.title or "Untitled", one.trashed_at) for one in found.items]
        form = form_of(request)
        if form == "json":
            return json_answer(
                {"conversations": [{"id": id, "title": title, "trashed_at": at} for id, title, at in rows]}
            )
        if form == "md":
            return markdown_answer(f"- {shown_line(title)} · {id}" for id, title, _ in rows)
        return self._page("trash.html", rows=rows)

    # -- files

    def blob(self, request: Request) -> Response:
        """An attachment."""
        session = self._site.session(request.path_params["key"])
        name, wanted = request.query_params.get("name", ""), request.headers.get("range")
        return attachment(session, request.path_params["digest"], name, wanted)

    def media(self, request: Request) -> Response:
        """An image that is in a message itself."""
        session = self._site.session(request.path_params["key"])
        node = talk.find_node(session, request.path_params["node"])
        return inline_attachment(node, request.path_params["place"], request.headers.get("range"))

    def export(self, request: Request) -> Response:
        """A conversation or a part of it as a file."""
        session, (first, last) = self._site.session(request.path_params["key"]), span_of(request)
        form = request.path_params.get("form") or request.query_params.get("as", "")
        head = request.query_params.get("head") or None
        return downloads.download(self._site.store, session, form, first, last, head, self._site.usage.prices)

    def static(self, request: Request) -> Response:
        """A static file, by its name with a hash."""
        one = self._site.asset(request.path_params["name"])
        return Response(
            one.body, media_type=one.type, headers={"cache-control": "private, max-age=31536000, immutable"}
        )

    # -- events and changes

    async def events(self, request: Request) -> Response:
        """New messages of a conversation as a stream."""
        session = await run_in_threadpool(self._site.session, request.path_params["key"])
        after = request.headers.get("last-event-id") or request.query_params.get("after") or None
        if after is not None:
            await run_in_threadpool(talk.find_node, session, after)
        if len(self.streams) >= STREAMS:
            raise HTTPException(503, "Too many pages are open.")
        forget = partial(self._site.rendered.forget, session.id)
        stream = self.streams.events(session, after, forget)
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

        return json_answer(await run_in_threadpool(work))

    async def unlock(self, request: Request) -> Response:
        """Takes the key of a sealed store from the form."""
        form = await posted(request, self._site.page_token())
        try:
            await run_in_threadpool(lambda: self._site.unlock(typed_key(form.get("key", ""))))
        except (Sealed, Invalid):
            return self._page("locked.html", status=403, wrong=True, to=form.get("to") or "/")
        return RedirectResponse(own_path(form.get("to", "")), 303)

    async def words(self, request: Request) -> Response:
        """Takes the words of a search from a form. Leads to the page with a name for them in its URL."""
        form = await posted(request, self._site.page_token())
        query = {name: value for name, value in form.items() if value and name != "to"}
        await run_in_threadpool(lambda: self._site.store)  # raises Locked
        return RedirectResponse(self._site.link(f"{own_path(form.get('to', ''))}?{urlencode(query)}"), 303)

    def state(self, request: Request) -> Response:
        """When the store locks, how far the index is, and whether the list has changed. Does not count as use."""
        return json_answer(self._site.state())

    async def lock(self, request: Request) -> Response:
        """Locks a store that was unlocked on the page."""
        await run_in_threadpool(self._site.lock)
        return json_answer({"locked": True})

    # -- answers

    def _page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """Sends a referrer policy if there are forms to post: without a referrer, browsers send no origin with them."""
        page = HTMLResponse(render(self._site, template, **values), status)
        if self._site.is_sealed or template == "locked.html":
            page.headers["referrer-policy"] = "same-origin"
        return page

    def _name(self, text: str) -> str:
        return shown_line(self._site.secrets.in_line(text))

    def render_locked(self, request: Request, error: Exception) -> Response:
        """The page of a sealed store."""
        if request.url.path.endswith(".json"):
            return json_answer({"error": "the store is locked"}, 423)
        to = path_of(request) if request.method == "GET" else "/"
        return self._page("locked.html", status=423, wrong=False, to=to)

    def render_error(self, request: Request, error: Exception) -> Response:
        """An error of clew as a page, or as JSON."""
        assert isinstance(error, ClewError)
        status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 503)
        if request.method == "POST" or request.url.path.endswith(".json"):
            return json_answer({"error": error.message, "hint": error.hint}, status)
        options = getattr(error, "candidates", ())
        return self._page("error.html", status=status, message=error.message, hint=error.hint, options=options)

    def render_refusal(self, request: Request, error: Exception) -> Response:
        """A route that does not exist, or a refusal."""
        assert isinstance(error, HTTPException)
        if request.method == "POST":
            return json_answer({"error": error.detail}, error.status_code)
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
        *(get(f"/trash{end}", pages.trash) for end in ("", ".json", ".md")),
        *(get(f"/usage{end}", pages.usage) for end in ("", ".json", ".md")),
        get("/state.json", pages.state),
        get("/static/{name}", pages.static),
        get("/c/{key}/messages", pages.messages),
        get("/c/{key}/events", pages.events),
        *(get(f"/c/{{key}}/outline{end}", pages.outline) for end in ("", ".json", ".md")),
        *(get(f"/c/{{key}}/files{end}", pages.files) for end in ("", ".json", ".md")),
        get("/c/{key}/find.json", pages.find),
        *(get(f"/c/{{key}}/compare{end}", pages.compare) for end in ("", ".json", ".md")),
        get("/c/{key}/blob/{digest}", pages.blob),
        get("/c/{key}/export", pages.export),
        get("/c/{key}/export/{form}", pages.export),
        get("/c/{key}/call/{call}", pages.call),
        get("/c/{key}/m/{node}", pages.message),
        get("/c/{key}/m/{node}/media/{place:int}", pages.media),
        get("/c/{key}/m/{node}/raw", pages.raw),
        get("/c/{key}/m/{node}/raw.json", pages.raw),
        get("/c/{key}", pages.conversation),
        post("/unlock", pages.unlock),
        post("/words", pages.words),
        post("/lock", pages.lock),
        post("/c/{key}/{change}", pages.change),
    ]
    handlers: dict[Any, Any] = {
        Locked: pages.render_locked,
        ClewError: pages.render_error,
        HTTPException: pages.render_refusal,
        ClientDisconnect: lambda *_: Response(status_code=400),
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return app, pages


# -- templates: compiled once in a process, before the first request

_SAMPLE = (
    "**a**\n\n```python\ndef a():\n    return 1\n```\n\n```bash\nls\n```\n\n```json\n{}\n```\n\n| a |\n|---|\n| b |"
)
"""Loads the packages for Markdown and for colours, and the usual lexers."""


def render(site: Site, name: str, **values: Any) -> str:
    """A page."""
    return templates().get_template(name).render(site=site, **values)


def warm() -> None:
    """Loads what the first pages need. This takes half a second, which a user waiting for a page would notice."""
    for name in templates().list_templates():
        templates().get_template(name)
    with suppress(ClewError):  # too many open files: the page that needs it reports the error
        markdown_html(_SAMPLE)
        sources()


@cache
def templates() -> jinja2.Environment:
    """The templates with their filters. They do not depend on a site."""
    secrets = SecretFinder()
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("clew.web"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        auto_reload=False,
    )  # fmt: skip
    found.filters |= {
        "shown": lambda text: to_line(secrets.in_line(text or "")),
        "tip": lambda text: to_tip(secrets.in_line(text or "")),
        "line": to_line,
        "model": short_model,
        "agent": agent_name,
        "n": lambda number: f"{number:,}",
        "many": many,
        "dot": dot,
    }
    found.globals["tool"] = tool
    return found


# -- the parameters of requests, and answers in other forms than HTML


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
