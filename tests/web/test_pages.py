"""What the pages show, without a script: each has a URL, and answers as JSON and Markdown too."""

from __future__ import annotations

import html
import http.client
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

import clew
from clew import keys
from clew.base import ids
from clew.base.messages import Native
from clew.web.outline import BATCH, WINDOW
from clew.web.server import Server, listen
from clew.web.site import FRESH, Cache, typed_key
from tests.providers.test_framework_views import EXAMPLES
from tests.web.conftest import Client, Opener, filled


def test_the_list_has_filters_in_its_url(client: Client, store: clew.Store, session: clew.Session) -> None:
    """Tool, project, model, label, date and title limit the list; counts stand beside them; text stays text."""
    store.sessions.create(title="Other", model="model-2").append(clew.user("Hello"))
    page = client.get("/").text
    assert "Webhook &lt;b&gt;retries&lt;/b&gt;" in page
    assert f'href="{client.server.site.link("/?tool=claude-code")}"' in page
    for query in ("tool=claude-code", "project=tidepool", "model=model-1", "label=bug", "title=webhook"):
        found = client.get(f"/conversations.json?{query}").json["conversations"]
        assert session.id in {row["id"] for row in found}, query
        assert "Other" not in {row["title"] for row in found}, query
    store.sessions.create(model="claude-opus-4-5-20251101").append(clew.user("Hello"))
    filters = client.get("/").text.partition("</nav>")[0]
    assert 'title="claude-opus-4-5-20251101"><span class="cut">Opus 4.5</span>' in filters
    assert client.get("/conversations.json?until=2001-01-01").json["conversations"] == []
    assert client.get("/conversations.json?date=today").json["conversations"]
    assert f"/c/{session.id}" in client.get("/conversations.md").text


def test_the_list_has_pages(client: Client, store: clew.Store) -> None:
    """Every conversation is on exactly one page."""
    for number in range(120):
        store.sessions.create(title=f"t{number}").append(clew.user("x"))
    seen, path = [], "/conversations.json"
    while path:
        found = client.get(path).json
        seen += [row["id"] for row in found["conversations"]]
        path = found["next"] and f"/conversations.json?after={quote(found['next'])}"
    assert len(seen) == len(set(seen)) == 122
    assert client.ask("/?after=nonsense").status == 400


def test_a_conversation_shows_what_happened(client: Client, session: clew.Session) -> None:
    """Messages, tool calls with state, branches, unknown cost, the resume command and downloads."""
    page = client.get(f"/c/{session.id}").text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<strong>handler</strong>" in page
    assert '<span class="target">example.test</span>' in page
    assert "Failed: " in page
    assert '<span class="a1">1 failed</span>' in page
    assert '<div class="l d">' in page
    assert "claude --resume 5b0e2f7c-91d4-4c55-a1f6-2f0be3c7d018" in page
    assert "2 of 2" in page
    assert "What about a queue?" in page or "Fork of it" in page
    assert "tokens and cost unknown" not in page  # it is said once, beside the conversation
    assert '<span class="unknown">and unknown</span>' in page
    assert "$0.12+" in page
    for form in ("native", "jsonl", "markdown", "html"):
        assert f"/c/{session.id}/export/{form}" in page


def test_every_page_has_its_other_forms(client: Client, session: clew.Session) -> None:
    """JSON has the messages with their numbers; Markdown has their text; a message has its raw form."""
    found = client.get(f"/c/{session.id}.json").json
    assert [one["number"] for one in found["messages"]] == [1, 2, 3, 4, 5, 6]
    assert found["total"] == 6
    assert "A unique constraint" not in client.get(f"/c/{session.id}.md").text
    assert "advisory lock" in client.get(f"/c/{session.id}.md").text
    raw = client.get(f"/c/{session.id}/m/{session.head_id}/raw").text
    assert "&quot;role&quot;: &quot;assistant&quot;" in raw
    assert client.get(f"/c/{session.id}/m/{session.head_id}/raw.json").json["role"] == "assistant"


def test_a_branch_has_its_url(client: Client, session: clew.Session) -> None:
    """A left branch is read at its own URL, a message of it is found by its id, and both paths are compared."""
    left = session.branches()[0]
    page = client.get(f"/c/{session.id}?head={left.head_id}").text
    assert "A unique constraint" in page
    assert "You are reading another branch" in page
    assert "1 of 2" in page
    answer = client.ask(f"/c/{session.id}/m/{left.head_id}")
    assert answer.status == 303
    assert answer.headers["location"] == f"/c/{session.id}?head={left.head_id}#m7"
    found = client.get(f"/c/{session.id}/compare.json?b={left.head_id}").json
    assert (found["common"], found["a"]["messages"], found["b"]["messages"]) == (5, 1, 2)
    both = client.get(f"/c/{session.id}/compare?b={left.head_id}").text
    assert both.index("advisory lock") < both.index("Abandoned question")


def test_a_long_conversation_is_read_in_windows(client: Client, store: clew.Store) -> None:
    """Any message is reached by its URL; a page has one window, and the way to the others."""
    session = store.sessions.create()
    session.append([clew.user(f"word{n}") for n in range(1, 1001)])
    wanted = session.path()[654].id
    answer = client.ask(f"/c/{session.id}/m/{wanted}")
    assert answer.headers["location"] == f"/c/{session.id}?from=651#m655"
    page = client.get(f"/c/{session.id}?from=651").text
    assert page.count("<article") == WINDOW
    assert 'id="m655"' in page
    assert f"/c/{session.id}?from=601" in page
    assert f"/c/{session.id}?from=701" in page
    assert "Messages 651 – 700 of 1,000" in page
    assert client.get(f"/c/{session.id}?from=651&to=999").text.count("<article") == BATCH
    assert client.get(f"/c/{session.id}?from=99999").text.count("<article") == 0


def test_a_result_after_the_window_is_shown_with_its_call(client: Client, store: clew.Store) -> None:
    """A call that is the last message of a window still has its state."""
    session = store.sessions.create()
    session.append([clew.user(f"m{n}") for n in range(WINDOW - 1)])
    session.append(clew.assistant(clew.ToolCall(id="c", name="Bash", arguments={"command": "x"})))
    session.append(clew.tool("late result", call_id="c"))
    assert "late result" in client.get(f"/c/{session.id}").text


def test_search_finds_and_filters(client: Client, session: clew.Session) -> None:
    """Matches are marked and lead to their message; filters are in the URL or in the words."""
    page = client.get("/search?q=webhooks").text
    assert "<mark>webhooks</mark>" in page
    assert f"/m/{session.path()[0].id}" in page
    count = {query: client.get(f"/search.json?{urlencode(query)}").json["count"] for query in (
        (("q", "failed"),), (("q", "failed"), ("errors", "1")), (("q", "done"), ("errors", "1")),
        (("q", "webhooks role:assistant"),), (("q", "webhooks"), ("role", "user")), (("q", "webhooks tool:codex"),),
        (("q", "webhooks project:tidepool label:bug"),), (("q", "webhooks before:2001-01-01"),), (("q", ""),),
    )}  # fmt: skip
    assert list(count.values()) == [1, 1, 0, 0, 1, 0, 1, 0, 0]
    assert client.get("/search.json?typing=1&q=webho").json["count"] == 1
    assert client.get("/search.json?q=webho").json["count"] == 0
    assert "&lt;script&gt;" in client.get("/search.json?q=alert").text.encode().decode("unicode_escape")


def test_find_inside_a_conversation(client: Client, session: clew.Session) -> None:
    """Folded parts are found too, by parts of words, in the order of the conversation."""
    page = client.get(f"/c/{session.id}?find=fail").text
    assert "<strong>1</strong> match for" in page
    assert '<a class="f-hit"' in page
    assert "<strong>0</strong> matches" in client.get(f"/c/{session.id}?find=nowhere").text


def test_downloads_are_the_exports(client: Client, store: clew.Store, session: clew.Session) -> None:
    """Each form is a file that no browser runs, and the same as `clew export` writes."""
    from clew.exports.to_files import parts

    found = client.get(f"/c/{session.id}/export/markdown")
    assert found.body == b"".join(parts(store, session, "markdown", "full"))
    assert found.headers["content-disposition"].startswith("attachment;")
    assert client.get(f"/c/{session.id}/export/jsonl").body.startswith(b"{")
    assert client.ask(f"/c/{session.id}/export/exe").status == 404


def test_subagents_have_their_own_page(client: Client, store: clew.Store, session: clew.Session) -> None:
    """The trace of a subagent is linked beside the conversation and from its call, and leads back."""
    trace = store.sessions.create(agent="Explore", owner=session, extra={"call_id": "c9"})
    trace.append(clew.user("Find writers"))
    session.append(clew.assistant(clew.ToolCall(id="c9", name="Task", arguments={"prompt": "Find"})))
    page = client.get(f"/c/{session.id}").text
    assert f'<a href="/c/{trace.id}">All messages of the subagent</a>' in page
    assert f'href="/c/{session.id}/call/c9"' in client.get(f"/c/{trace.id}").text
    assert client.ask(f"/c/{session.id}/call/c9").headers["location"] == f"/c/{session.id}#m7"
    assert client.ask(f"/c/{session.id}/call/nothing").headers["location"] == f"/c/{session.id}"


def test_damage_is_shown_in_its_place(path: Path, client: Client, store: clew.Store, session: clew.Session) -> None:
    """A damaged message has a box; those around it are whole."""
    import sqlite3

    first = store.nodes.path(session.head_id or "")[0]
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE nodes SET body = x'01020304' WHERE id = ?", (ids.parse(first.id),))
    page = client.get(f"/c/{session.id}").text
    assert "This message is" in page
    assert 'class="msg you first damaged"' in page
    assert "advisory lock" in page
    assert client.ask(f"/c/{session.id}/m/{first.id}/raw").status == 500
    store.quarantine.sweep(force=True)
    client.server.site.rendered.clear()
    assert "It is in quarantine" in client.get(f"/c/{session.id}").text


def test_unknown_things_are_not_found(client: Client) -> None:
    """An unknown conversation, page or form is a page that says so."""
    for path in ("/c/nothing", "/nothing", "/c/nothing.json"):
        found = client.ask(path)
        assert found.status == 404
    assert "not found" in client.ask("/c/zzzzzz").text


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[tuple[Client, str, clew.Session]]:
    """A page over a sealed store whose key the command line does not have."""
    key, path = keys.generate(), tmp_path / "sealed.db"
    with clew.open(path, key=key) as store:
        session = filled(store)
        server = Server(lambda given: clew.open(path, key=given, create=False), listen(0), idle=0.5)
        with server.in_background():
            yield Client(server), key.hex(), session


def test_a_sealed_store_asks_for_its_key(sealed: tuple[Client, str, clew.Session]) -> None:
    """Nothing is shown before the key is given; a wrong one changes nothing; after idle time it locks again."""
    client, key, session = sealed
    for path in ("/", f"/c/{session.id}", f"/c/{session.id}/events", "/search.json?q=webhooks"):
        found = client.ask(path)
        assert found.status == 423, path
        assert b"retries" not in found.body
        if found.headers["content-type"].startswith("text/html"):  # a browser sends no origin with the form otherwise
            assert found.headers["referrer-policy"] == "same-origin"

    def unlock(key: str, **headers: str) -> int:
        form = urlencode({"key": key, "token": client.server.guard.page_token, "to": "//evil.test"}).encode()
        given = {"Origin": client.origin, "Content-Type": "application/x-www-form-urlencoded", **headers}
        answer = client.ask("/unlock", "POST", headers=given, body=form)
        assert answer.headers.get("location", "/") == "/"
        return answer.status

    assert unlock("wrong") == 403
    assert unlock(keys.generate().hex()) == 403
    assert unlock(key, Origin="https://evil.test") == 403
    assert client.ask("/unlock", "POST", headers={"Origin": client.origin}, body=f"key={key}".encode()).status == 403
    assert unlock(key) == 303
    assert "Webhook" in client.get("/").text
    assert len(client.server.site.rendered) == 0
    client.get(f"/c/{session.id}")
    assert len(client.server.site.rendered) > 0
    while client.server.site.can_lock:
        time.sleep(0.05)
    assert len(client.server.site.rendered) == 0
    assert client.ask("/").status == 423


def test_titles_of_a_sealed_store(tmp_path: Path) -> None:
    """No page of a sealed store has a title: browsers keep titles on disk."""
    key, path = keys.generate(), tmp_path / "sealed.db"
    with clew.open(path, key=key) as store:
        session = filled(store)
        server = Server(lambda _: clew.open(path, key=key, create=False), listen(0))
        with server.in_background():
            client = Client(server)
            for at in (f"/c/{session.id}", f"/c/{session.id}/outline", f"/c/{session.id}/files", "/search", "/"):
                assert "<title>clew</title>" in client.get(at).text, at


def test_keys_as_people_type_them() -> None:
    """Hex, a recovery key and a passphrase are told apart."""
    key = keys.generate()
    assert typed_key(f" {key.hex()} ") == key
    assert typed_key(keys.recovery(key).lower()) == key
    assert isinstance(typed_key("correct horse"), keys.Passphrase)


def test_the_cache_forgets() -> None:
    """What was rendered is kept for a while, and made again after that: a purged message does not stay in memory."""
    now = [0.0]
    cache, made = Cache(lambda: now[0]), []
    for _ in range(3):
        assert cache.get(("a",), 1, lambda: made.append(1) or "x") == "x"  # type: ignore[func-returns-value]
    now[0] += FRESH + 1
    cache.get(("b",), 1, lambda: "y")
    assert (len(made), len(cache)) == (1, 1)
    assert cache.get(("b",), 2, lambda: "redacted") == "redacted"
    assert (len(cache), cache.get(("b",), 2, lambda: "z")) == (1, "redacted")
    cache.get(("c",), 1, lambda: "y")
    cache.forget("b")
    assert len(cache) == 1
    cache.clear()
    assert len(cache) == 0


@contextmanager
def stream(client: Client, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=10)
    connection.request("GET", path, headers={"Cookie": client.cookie, **headers})
    try:
        with connection.getresponse() as answer:
            yield answer
    finally:
        connection.close()


def test_new_messages_arrive_once_and_in_order(client: Client, session: clew.Session) -> None:
    """A stream has each message once, and continues after the last one that was seen."""
    with stream(client, f"/c/{session.id}/events?after={session.head_id}") as answer:
        sent = [session.append(clew.user(f"new {n}")).id for n in range(5)]
        seen: list[str] = []
        while len(seen) < 5:
            line = answer.readline().decode()
            if line.startswith("id: "):
                seen.append(line[4:].strip())
    assert seen == sent
    with stream(client, f"/c/{session.id}/events", **{"Last-Event-ID": sent[2]}) as again:
        found = re.findall("id: (.*)", "".join(again.readline().decode() for _ in range(10)))
    assert found == sent[3:]
    assert "new 4" in client.get(f"/c/{session.id}/messages?from=7").text


def test_the_server_ends_with_open_streams(opener: Opener, session: clew.Session) -> None:
    """A page that is open does not keep the server from ending."""
    server = Server(lambda _: opener(), listen(0))
    client, running = Client(server), server.in_background()
    running.__enter__()
    with stream(client, f"/c/{session.id}/events") as answer:
        answer.readline()
        started = time.monotonic()
        running.__exit__(None, None, None)
        answer.read()
    assert time.monotonic() - started < 10


def test_changes(writer: Client, store: clew.Store, session: clew.Session) -> None:
    """Rename, label, pin, note, fork, rewind with its preview, trash and restore do what they say."""
    base, node = f"/c/{session.id}", session.path()[0].id
    assert writer.write(f"{base}/rename", {"title": "New title"}).json == {"title": "New title"}
    assert writer.write(f"{base}/label", {"label": "idea"}).json == {"labels": ["bug", "idea"]}
    assert writer.write(f"{base}/label", {"label": "idea", "remove": True}).json == {"labels": ["bug"]}
    assert writer.write(f"{base}/pin").json == {"pinned": True}
    assert 'aria-label="Pinned"' in writer.get("/").text
    assert writer.write(f"{base}/note", {"message": node, "text": "Look <i>here</i>"}).status == 200
    assert "Look &lt;i&gt;here&lt;/i&gt;" in writer.get(base).text
    fork = writer.write(f"{base}/fork", {"message": node}).json["id"]
    assert store.sessions.get(fork).head_id == node
    assert writer.write(f"{base}/preview-rewind", {"message": node}).json == {
        "number": 1, "left": 5, "files": None,
    }  # fmt: skip
    assert session.refresh().head_id != node
    assert writer.write(f"{base}/rewind", {"message": node}).status == 200
    assert session.refresh().head_id == node
    assert len(session.branches()) == 2
    assert writer.write(f"{base}/trash").status == 200
    assert writer.ask(base).status == 404
    assert "New title" in writer.get("/trash").text
    assert writer.write(f"{base}/restore").status == 200
    assert session.refresh().title == "New title"
    assert writer.write(f"{base}/purge").status == 404
    assert writer.write(f"{base}/fork", {"message": "nothing"}).status == 404


def test_names_while_typing_hide_nothing(client: Client, store: clew.Store) -> None:
    """Titles and projects in results while typing are escaped: the page shows them as they come."""
    session = store.sessions.create(title="evil\u202ecod.exe", cwd="/src/a\x1bb")
    session.append(clew.user("zebra"))
    (found,) = client.get("/search.json?typing=1&q=zeb").json["conversations"]
    assert (found["title"], found["project"]) == ("evil\\u202ecod.exe", "a\\x1bb")
    (row,) = client.get("/conversations.json?typing=1&title=cod").json["conversations"]
    assert row == {"id": session.id, "title": "evil\\u202ecod.exe"}
    assert client.get("/search.json?q=zebra").json["conversations"][0]["title"] == session.title


@pytest.mark.parametrize("provider", sorted({provider for provider, *_ in EXAMPLES}))
def test_conversations_of_frameworks(client: Client, store: clew.Store, provider: str) -> None:
    """The page shows the messages, tool calls and results of each agent framework."""
    said = [(data, blocks) for name, data, _, blocks in EXAMPLES if name == provider]
    one = store.sessions.create(title="Trip")
    one.append([Native(provider, json.dumps(data).encode()) for data, _ in said])
    page = _letters(html.unescape(re.sub("<[^>]+>", "", client.get(f"/c/{one.id}").text)))
    for block in (block for _, found in said for block in found):
        if isinstance(block, clew.ToolCall):
            assert "weather" in page
            assert "Turin" in page
        elif isinstance(block, clew.Text):
            assert _letters(block.text) in page
        elif isinstance(block, clew.ToolResult):
            assert all(_letters(part.text) in page for part in block.content if isinstance(part, clew.Text))


def _letters(text: str) -> str:
    return "".join(text.split())


def test_usage_of_all_conversations(client: Client, store: clew.Store) -> None:
    """Tokens and cost by day, project and model, drawn on the server; names of projects stay text."""
    assert "no answers" in client.get("/usage").text.lower() or "chart" in client.get("/usage").text
    one = store.sessions.create(cwd="/src/<b>tidal")
    used = clew.Usage(input=1_000_000, output=100_000, cached=2_000_000)
    one.append(clew.assistant("So.", model="claude-opus-4-5", usage=used))
    one.append(clew.assistant("So.", model="house-model", usage=clew.Usage(input=1, output=1)))
    page = client.get("/usage").text
    assert page.count('<svg class="chart"') == 2
    assert page.count("<rect ") >= 2
    assert "/src/&lt;b&gt;tidal" in page
    assert "<b>tidal" not in page
    assert "$8.50" in page
    assert '<td class="mono" title="claude-opus-4-5">Opus 4.5</td>' in page
    found = client.get("/usage.json").json
    assert found["models"]["claude-opus-4-5"]["cost"] == 8_500_000
    assert (found["models"]["claude-opus-4-5"]["input"], found["models"]["claude-opus-4-5"]["cached"]) == (
        10**6,
        2 * 10**6,
    )
    assert found["models"]["house-model"]["cost"] is None
    assert "## By project" in client.get("/usage.md").text
    other = store.sessions.create(cwd="/src/house")
    other.append(clew.assistant("So.", model="house-model", usage=clew.Usage(input=1, output=1)))
    assert ">unknown</text>" in client.get("/usage").text
    assert "$0.0000" not in client.get("/usage").text
    assert 'href="/usage"' in client.get("/").text


def test_one_sum_for_a_conversation(client: Client, store: clew.Store) -> None:
    """Tokens and cost with those of subagents, what is unknown once; a long conversation is counted when asked for."""
    one = store.sessions.create()
    used = clew.Usage(input=1_000_000, output=100_000)
    one.append(clew.assistant("So.", model="claude-opus-4-5", usage=used))
    trace = store.sessions.create(agent="helper", owner=one)
    trace.append(clew.assistant("So.", model="claude-opus-4-5", usage=used))
    page = client.get(f"/c/{one.id}").text
    assert "2,000,000" in page
    assert "$15.00" in page
    assert "$7.50 of it for subagents" in page
    one.append([clew.assistant("So.", model="house-model", usage=used)] * 2)
    page = client.get(f"/c/{one.id}").text
    assert page.count("unknown for 2 answers of house-model") == 1
    assert "$15.00+" in page
    one.append([clew.user("?")] * 1000)
    assert f'href="/c/{one.id}?usage=1">Count 1,004 messages' in client.get(f"/c/{one.id}").text
    assert "$15.00+" in client.get(f"/c/{one.id}?usage=1").text
    assert "$15.00+" in client.get(f"/c/{one.id}").text
