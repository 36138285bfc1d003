"""Attacks on a server of this machine: other sites, rebound names, other users, hostile files."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.web.app import make_app
from clew.web.downloads import sniff
from clew.web.guard import MAX_BODY
from clew.web.server import Server, fresh_url, listen
from tests.web.conftest import Client, Opener


def routes(session: clew.Session) -> list[str]:
    id, node = session.id, session.head_id
    return [
        "/", "/conversations.json", "/conversations.md", "/search?q=a", "/search.json?q=a", "/search.md?q=a", "/trash",
        f"/c/{id}", f"/c/{id}.json", f"/c/{id}.md", f"/c/{id}/messages", f"/c/{id}/events", f"/c/{id}/compare?b={node}",
        f"/c/{id}/compare.json?b={node}", f"/c/{id}/m/{node}", f"/c/{id}/m/{node}/raw", f"/c/{id}/m/{node}/raw.json",
        f"/c/{id}/m/{node}/media/0",
        f"/c/{id}/export/markdown", f"/c/{id}/blob/{'0' * 64}", "/static/x.js", "/trash.json", "/trash.md",
        "/usage", "/usage.json", "/usage.md",
        f"/c/{id}/outline", f"/c/{id}/outline.json", f"/c/{id}/outline.md", f"/c/{id}/find.json?q=a",
        f"/c/{id}/files", f"/c/{id}/files.json", f"/c/{id}/files.md", f"/c/{id}/compare.md?b={node}",
        f"/c/{id}/export?as=json&from=1&to=2", f"/c/{id}/call/c1", "/state.json",
    ]  # fmt: skip


def test_every_route_is_known_to_the_attacks(client: Client, session: clew.Session) -> None:
    """A new route has to be attacked too."""
    app, _ = make_app(client.server.site)
    asked = [path.partition("?")[0] for path in routes(session)]
    for route in app.routes:
        if "GET" in (route.methods or ()):  # type: ignore[attr-defined]
            assert any(route.path_regex.match(path) for path in asked), route.path  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "host",
    ["evil.test", "evil.test:{port}", "127.0.0.1", "localhost", "127.0.0.1:1", "127.0.0.1.evil.test:{port}", "",
     "[::1]", "0.0.0.0:{port}", "user@127.0.0.1:{port}"],
)  # fmt: skip
def test_a_rebound_name_is_refused(client: Client, session: clew.Session, host: str) -> None:
    """Every route answers 421 under any name but its own with its port (CVE-2025-66416, CVE-2024-28224)."""
    for path in routes(session):
        assert client.ask(path, headers={"Host": host.format(port=client.port)}).status == 421
    assert client.ask("/", headers={"Host": None}).status in (400, 421)
    for name in ("127.0.0.1", "localhost", "[::1]"):
        assert client.ask("/", headers={"Host": f"{name}:{client.port}"}).status == 200


def test_two_hosts_are_refused(client: Client) -> None:
    """A second Host header cannot pass the check of the first."""
    with socket.create_connection(("127.0.0.1", client.port)) as link:
        lines = [
            "GET / HTTP/1.1",
            f"Host: 127.0.0.1:{client.port}",
            "Host: evil.test",
            f"Cookie: {client.cookie}",
            "",
            "",
        ]
        link.sendall("\r\n".join(lines).encode())
        assert link.recv(100).split()[1] in (b"400", b"421")


def test_without_the_cookie_nothing_is_read(client: Client, session: clew.Session) -> None:
    """Every route, streams and files included, needs the cookie or the token (CVE-2026-31950, CVE-2026-22812)."""
    wrong = [None, "", f"{client.server.guard.cookie}=x", f"clew_1={client.server.guard.secret}", "clew=x"]
    for path in routes(session):
        for cookie in wrong:
            found = client.ask(path, headers={"Cookie": cookie})
            assert (found.status, b"webhook" in found.body.lower()) == (401, False), path
    bearer = {"Cookie": None, "Authorization": f"Bearer {client.server.guard.secret}"}
    assert client.ask("/", headers=bearer).status == 200
    assert client.ask("/", headers={**bearer, "Authorization": "Bearer x"}).status == 401


@pytest.mark.parametrize("site", ["cross-site", "same-site", "unheard-of"])
def test_another_site_is_refused(client: Client, session: clew.Session, site: str) -> None:
    """A browser says where a request comes from; other sites are refused even with the cookie."""
    for path in routes(session):
        assert client.ask(path, headers={"Sec-Fetch-Site": site}).status == 403
    assert client.ask("/", headers={"Sec-Fetch-Site": "none"}).status == 200


def test_the_url_works_once(client: Client) -> None:
    """The token of the URL is exchanged for a cookie that scripts and other sites do not get, and is then spent."""
    url = client.server.url("/search?q=x")
    path = url.partition(str(client.port))[2]
    assert client.ask(path, "HEAD", headers={"Cookie": None}).status == 401
    assert client.ask("/enter?token=wrong", headers={"Cookie": None}).status == 401
    first = client.ask(path, headers={"Cookie": None})
    assert first.status == 303
    assert first.headers["location"].startswith("/search")
    cookie = first.headers["set-cookie"]
    assert cookie.startswith(f"clew_{client.port}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert client.ask(path, headers={"Cookie": None}).status == 401
    assert client.ask("/", headers={"Cookie": cookie.partition(";")[0]}).status == 200


@pytest.mark.parametrize("to", ["//evil.test", "https://evil.test", "/\\evil.test", "javascript:alert(1)"])
def test_the_entrance_leads_nowhere_else(client: Client, to: str) -> None:
    """The URL cannot be made to lead to another site."""
    found = client.ask(f"/enter?token={client.server.guard.entrance}&to={to}", headers={"Cookie": None})
    assert found.headers["location"] == "/"


def test_secrets_are_new_at_each_start(opener: Opener, store: clew.Store) -> None:
    """Cookies ignore ports: what another server on this machine may have seen does not open the next page."""
    with listen(0) as one, listen(0) as two:
        first, second = (Server(lambda _: opener(), opened).guard for opened in (one, two))
    assert len({first.secret, second.secret, first.entrance, second.entrance, first.page_token, second.page_token}) == 6
    assert first.cookie != second.cookie


def test_every_answer_has_its_headers(client: Client, session: clew.Session) -> None:
    """No inline script or style, no frame, no sniffing, no referrer, no store; errors too."""
    for path in [*(one for one in routes(session) if not one.endswith("/events")), "/nowhere", "/c/nothing"]:
        for cookie in (client.cookie, None):
            headers = client.ask(path, headers={"Cookie": cookie}).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy or policy.startswith("sandbox")
            assert headers["x-content-type-options"] == "nosniff"
            forms = client.server.site.is_sealed and headers["referrer-policy"] == "same-origin"  # they are posted
            assert forms or headers["referrer-policy"] == "no-referrer"
            assert headers["cross-origin-opener-policy"] == "same-origin"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert "access-control-allow-origin" not in headers


def test_pages_have_nothing_inline(client: Client, session: clew.Session) -> None:
    """What was said stays text, and no page needs an exception of the policy."""
    for path in ("/", f"/c/{session.id}", "/search?q=webhooks", f"/c/{session.id}/m/{session.head_id}/raw"):
        page = client.get(path).text
        assert "<script>" not in page
        assert " style=" not in page
        assert "<style" not in page
        assert " onclick" not in page
        assert "<b>retries" not in page


WRITES = ["rename", "label", "pin", "note", "fork", "preview-rewind", "rewind", "trash", "restore"]


@pytest.mark.parametrize("name", WRITES)
def test_a_write_from_elsewhere_is_refused(writer: Client, session: clew.Session, name: str) -> None:
    """A form or a script of another site, a page without the token, and anything but JSON change nothing."""
    path, before = f"/c/{session.id}/{name}", session.refresh().version
    values = {"title": "stolen", "label": "x", "message": session.head_id, "text": "x"}
    attacks: list[dict[str, str | None]] = [
        {"Origin": "https://evil.test"},
        {"Origin": "null"},
        {"Origin": None},
        {"Origin": f"http://127.0.0.1:{writer.port + 1}"},
        {"X_Clew_Token": None},
        {"X_Clew_Token": "x"},
        {"Cookie": None},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Host": "evil.test"},
        {"Content_Type": "text/plain"},
        {"Content_Type": "application/x-www-form-urlencoded"},
    ]
    for attack in attacks:
        assert writer.write(path, values, **attack).status in (401, 403, 415, 421), attack
    assert session.refresh().version == before


def test_read_only_means_it(client: Client, session: clew.Session) -> None:
    """Without --allow-write no change works, even with everything else in order."""
    before = session.refresh().version
    for name in WRITES:
        assert client.write(f"/c/{session.id}/{name}", {"title": "x"}).status == 403
    assert session.refresh().version == before
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert client.ask("/", method).status == 405


def test_large_requests_are_refused(writer: Client, session: clew.Session) -> None:
    """A body over the limit, one without a length, and headers over the limit are not read."""
    assert writer.write(f"/c/{session.id}/rename", {"title": "x" * MAX_BODY}).status == 413
    assert writer.ask("/", headers={"X-Long": "x" * 20_000}).status in (400, 431)
    assert writer.write(f"/c/{session.id}/rename", [1]).status == 400


@pytest.mark.parametrize(
    "asked",
    ["/static/../site.py", "/static/%2e%2e/site.py", "/static/..%2fsite.py", "/static/", "/static",
     "/c/../../etc/passwd", "/c/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/c/x/blob/..%2f..%2fx", "/c/x/export/..%2f",
     "//evil.test/"],
)  # fmt: skip
def test_no_path_leads_out(client: Client, asked: str) -> None:
    """There are no folders to walk: an unknown name is not found."""
    assert client.ask(asked).status == 404


@pytest.fixture
def other(opener: Opener, store: clew.Store) -> Iterator[clew.Session]:
    """A conversation of another workspace in the same file."""
    with opener(workspace="other") as theirs:
        session = theirs.sessions.create(title="Not yours")
        session.append(clew.user("secret of another workspace"))
        yield session


def test_another_workspace_is_not_found(client: Client, session: clew.Session, other: clew.Session) -> None:
    """Its ids open no route, alone or below a conversation of this workspace (CVE-2026-45349)."""
    for path in routes(other):
        if str(other.id) in path:
            assert client.ask(path).status == 404, path
    assert client.ask(f"/c/{session.id}/m/{other.head_id}").status == 404
    assert client.ask(f"/c/{session.id}/m/{other.head_id}/raw").status == 404
    assert client.ask(f"/c/{session.id}?head={other.head_id}").status == 404
    assert client.ask(f"/c/{session.id}/events?after={other.head_id}").status == 404
    assert client.ask(f"/c/{session.id}/compare?b={other.head_id}").status == 404
    assert client.get("/search.json?q=secret").json["count"] == 0


NONSENSE = [
    ("/c/%00", 404), ("/c/%ff", 404), ("/c/%ed%a0%80", 404), ("/search?q=%00", 200), ("/search.json?q=%22", 200),
    ("/search.json?q=(%20OR", 200), ("/?title=%00", 200), ("/?label=%ff", 200), ("/?after=%00", 400),
    ("/?until=9999-12-31", 200), ("/?since=0001-01-01", 200), ("/search?q=a&until=9999-12-31", 200),
    ("{here}?head=%00", 404), ("{here}?from=99999999999&to=1", 200), ("{here}?from=-1", 200), ("{here}/m/%00", 404),
    ("{here}/blob/%00", 404), ("{here}/call/%00", 303), ("{here}/events?after=%00", 404), ("{here}/compare.exe", 405),
    ("{here}/files?from=99999999999", 200), ("{here}/files?head=%00", 404), ("{here}/find.json?q=%5B", 200),
    ("{here}/outline?head=x", 404), ("{here}/export?as=html&from=2&to=1", 200), ("/static/%00", 404),
]  # fmt: skip


def test_nonsense_is_answered(client: Client, session: clew.Session) -> None:
    """Odd values in a URL are not found, refused or ignored; none of them is an error of the server."""
    for asked, status in NONSENSE:
        assert client.ask(asked.format(here=f"/c/{session.id}")).status == status, asked


HOSTILE = {
    b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>": "text/plain; charset=utf-8",
    b"<!doctype html><script>alert(1)</script>": "text/plain; charset=utf-8",
    b"<?xml version='1.0'?><x/>": "text/plain; charset=utf-8",
    b"MZ\0\0program": "application/octet-stream",
    b"\x89PNG\r\n\x1a\n<script>": "image/png",
    b"%PDF-1.7 x": "application/pdf",
    b"RIFF\x24\0\0\0WAVEfmt ": "audio/wav",
    b"ID3\x04": "audio/mpeg",
    b"fLaC\0": "audio/flac",
    b"\0\0\0\x20ftypM4A ": "audio/mp4",
}


@pytest.mark.parametrize("content", HOSTILE, ids=lambda content: content[:12].decode("latin-1"))
def test_an_attachment_is_what_it_is(client: Client, session: clew.Session, content: bytes) -> None:
    """The type comes from the bytes, not from a name; SVG and HTML are text; everything is sandboxed."""
    media = session.attach(content, mime_type="image/svg+xml", modality="image", name='x"\r\nSet-Cookie: a=b.svg')
    session.append(clew.user(media))
    found = client.ask(f"/c/{session.id}/blob/{media.blob}?name=x%22%0d%0aSet-Cookie:%20a=b.svg")
    assert found.status == 200
    assert found.body == content
    assert found.headers["content-type"] == HOSTILE[content] == sniff(content)
    assert found.headers["content-security-policy"] == "sandbox; default-src 'none'; frame-ancestors 'none'"
    assert "set-cookie" not in found.headers
    inline = HOSTILE[content].startswith("image/")  # a browser shows nothing else in a sandbox
    assert found.headers["content-disposition"].startswith("inline" if inline else "attachment")


def test_ranges_are_cheap(client: Client, session: clew.Session) -> None:
    """One range is answered in part; many ranges, or nonsense, are answered once (CVE-2025-62727)."""
    media = session.attach(bytes(range(256)) * 4096, mime_type="application/octet-stream", name="x")
    session.append(clew.user(media))
    path = f"/c/{session.id}/blob/{media.blob}"
    whole = client.get(path).body
    part = client.ask(path, headers={"Range": "bytes=300000-300009"})
    assert (part.status, part.body) == (206, whole[300000:300010])
    assert client.ask(path, headers={"Range": "bytes=-5"}).body == whole[-5:]
    assert client.ask(path, headers={"Range": "bytes=9999999-"}).status == 416
    many = "bytes=" + ",".join(f"{n}-{n}" for n in range(1500))
    assert client.ask(path, headers={"Range": many}).status == 200
    assert client.ask(path, headers={"Range": "bytes=" + "0" * 5000 + "-"}).status == 200


def test_it_listens_on_this_machine_alone() -> None:
    """The socket is bound to the loopback address, and another port is picked if the wanted one is taken."""
    with listen(0) as one:
        assert one.getsockname()[0] == "127.0.0.1"
        port = one.getsockname()[1]
        with listen(port) as two:
            assert two.getsockname()[1] != port
        with pytest.raises(clew.Unavailable):
            listen(port, strict=True)


def send(client: Client, text: str) -> bytes:
    """What the server answers to these bytes, until it closes or says nothing more."""
    with socket.create_connection(("127.0.0.1", client.port)) as link:
        link.settimeout(5)
        link.sendall(text.encode("latin-1"))
        found = b""
        while piece := link.recv(65536):
            found += piece
    return found


@pytest.mark.parametrize(
    "length",
    [
        "Content-Length: 2\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked",
        "Content-Length: 2\r\nContent-Length: 3",
        "Content-Length: +2",
        "Content-Length : 2",
        "Transfer-Encoding: xchunked",
    ],
)
def test_a_request_has_one_length(writer: Client, session: clew.Session, length: str) -> None:
    """A request that two readers could split differently is refused, and changes nothing."""
    before = session.refresh().version
    head = (
        f"Host: 127.0.0.1:{writer.port}\r\nCookie: {writer.cookie}\r\nOrigin: {writer.origin}\r\n"
        f"Content-Type: application/json\r\nX-Clew-Token: {writer.server.guard.page_token}\r\nConnection: close\r\n"
    )
    for line in (f"POST /c/{session.id}/rename", "GET /"):
        answer = send(writer, f"{line} HTTP/1.1\r\n{head}{length}\r\n\r\n0\r\n\r\n")
        assert answer.split()[1] in (b"400", b"413"), answer[:100]
    assert session.refresh().version == before


def test_a_long_url_is_refused(client: Client) -> None:
    """A URL over the limit is not read."""
    assert client.ask("/search?q=" + "a" * 9000).status == 414
    assert client.ask("/" + "a" * 9000).status == 414


@pytest.mark.parametrize(
    "begun", ["", "GET / HTTP/1.1\r\nHost: 127", "POST /unlock HTTP/1.1\r\nContent-Length: 9\r\n\r\nk"]
)
def test_slow_connections_are_closed(monkeypatch: pytest.MonkeyPatch, client: Client, begun: str) -> None:
    """A connection that does not finish its request is closed, so that others cannot take all of them."""
    monkeypatch.setattr("clew.web.server.PATIENCE", 0.2)
    assert send(client, begun)[:5] in (b"", b"HTTP/")
    client.get("/")


def test_streams_are_counted(monkeypatch: pytest.MonkeyPatch, client: Client, session: clew.Session) -> None:
    """No more streams than the limit are open, however fast they are asked for; closed ones do not count."""
    monkeypatch.setattr("clew.web.app.STREAMS", 2)
    ask = f"GET /c/{session.id}/events HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nCookie: {client.cookie}\r\n\r\n"
    for _ in range(2):
        links = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(8)]
        for link in links:
            link.sendall(ask.encode())
        answers = sorted(link.recv(12) for link in links)
        assert answers == [b"HTTP/1.1 200"] * 2 + [b"HTTP/1.1 503"] * 6
        for link in links:
            link.close()
        while len(client.server.streams):
            time.sleep(0.01)


def test_a_stream_has_the_headers_too(client: Client, session: clew.Session) -> None:
    """The events of a conversation are behind the policy of every other answer."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=10)
    connection.request("GET", f"/c/{session.id}/events", headers={"Cookie": client.cookie})
    with connection.getresponse() as answer:
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    connection.close()


def test_a_stream_needs_the_cookie(client: Client, session: clew.Session) -> None:
    """The events of a conversation are behind the checks of every other route (CVE-2026-31950)."""
    for cookie in ("", "Cookie: clew=x\r\n", f"Cookie: clew_1={client.server.guard.secret}\r\n"):
        with socket.create_connection(("127.0.0.1", client.port)) as link:
            ask = f"GET /c/{session.id}/events HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n{cookie}\r\n"
            link.sendall(ask.encode())
            assert link.recv(12) == b"HTTP/1.1 401"


def test_the_trash_is_not_read_by_id(client: Client, session: clew.Session) -> None:
    """A message that is only in the trash opens no route of a conversation that shared its beginning."""
    fork = session.fork(title="Regretted")
    node = fork.append(clew.user("regretted words"))
    here = f"/c/{session.id}"
    paths = [
        f"/c/{fork.id}", f"{here}?head={node.id}", f"{here}.json?head={node.id}", f"{here}.md?head={node.id}",
        f"{here}/messages?head={node.id}", f"{here}/m/{node.id}", f"{here}/m/{node.id}/raw",
        f"{here}/compare?b={node.id}", f"{here}/compare.json?a={node.id}&b={session.head_id}",
        f"{here}/events?after={node.id}",
    ]  # fmt: skip
    for path in paths[:-1]:
        assert client.ask(path).status in (200, 303), path
    fork.trash()
    for path in paths:
        found = client.ask(path)
        assert (found.status, b"regretted" in found.body) == (404, False), path
    assert client.get("/search.json?q=regretted").json["count"] == 0


def test_another_workspace_is_not_changed(writer: Client, session: clew.Session, other: clew.Session) -> None:
    """No write reaches a conversation of another workspace, nor brings its messages or attachments here."""
    media = other.attach(b"theirs", mime_type="text/plain", name="x")
    other.append(clew.user(media))
    before, mine = other.refresh().version, session.refresh().version
    values = {"title": "x", "label": "x", "message": other.head_id, "text": "x"}
    for name in WRITES:
        assert writer.write(f"/c/{other.id}/{name}", values).status == 404, name
    for name in ("note", "fork", "preview-rewind", "rewind"):
        assert writer.write(f"/c/{session.id}/{name}", values).status == 404, name
    assert writer.ask(f"/c/{session.id}/blob/{media.blob}").status == 404
    assert (other.refresh().version, session.refresh().version) == (before, mine)


CANARY = "canaryword"


@pytest.mark.parametrize("where", ["this process", "another process"])
def test_what_is_purged_is_gone_from_a_running_server(
    address: Path | str, key: bytes | None, store: clew.Store, client: Client, where: str
) -> None:
    """A purged message that was read, found and rendered before is on no page afterwards."""
    session = store.sessions.create(title=f"{CANARY} title", labels=[CANARY])
    media = session.attach(CANARY.encode(), mime_type="text/plain", name="x")
    session.append([clew.user(f"{CANARY} text"), clew.user(media)])
    here, node = f"/c/{session.id}", session.path()[0].id
    asked = [
        here, f"{here}.json", f"{here}.md", f"{here}/messages", f"{here}/m/{node}/raw", f"{here}/m/{node}/raw.json",
        f"{here}?find=text", f"{here}/blob/{media.blob}", f"{here}/export/jsonl", "/", "/conversations.json",
        f"/search.json?typing=1&q={CANARY}", f"/search?q={CANARY}",
    ]  # fmt: skip
    for one in asked:
        assert CANARY in client.get(one).text, one
    if where == "this process":
        store.sessions.purge(session.id)
    else:
        code = f"import clew; clew.open({str(address)!r}, key={key!r}).sessions.purge({session.id!r})"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert client.ask(here).status == 404
    assert CANARY not in str(vars(client.server.site.rendered))
    for one in asked:
        found = client.ask(one)
        assert CANARY not in re.sub(f'(?:q=|value="|"find":"){CANARY}', "", found.text), one
        assert found.status == (404 if here in one else 200), one


@pytest.mark.parametrize("id", ["x; rm -rf ~", "$(id)", "`id`", "--dangerously", "a b", "x\ny", "x'"])
def test_a_command_to_copy_is_one_command(client: Client, store: clew.Store, id: str) -> None:
    """An id that a shell would read as more than a word is not in the command that resumes a conversation."""
    session = store.sessions.create(extra={"source": {"tool": "claude-code", "id": id}})
    page = client.get(f"/c/{session.id}").text
    assert "claude --resume" not in page
    assert f"clew chat -c {session.handle}" in page


def test_a_url_is_for_the_user_who_started_the_server(client: Client) -> None:
    """Neither a cookie, as a page sends it, nor a wrong value gets another one-time token."""
    path, wrong = "/fresh", {"Cookie": None, "Authorization": "Bearer wrong"}
    for headers in ({}, {"Cookie": None}, wrong, {"Authorization": f"Bearer {client.server.guard.page_token}"}):
        assert client.ask(path, headers=headers).status == 401
    right = {"Cookie": None, "Authorization": f"Bearer {client.server.guard.secret}"}
    assert client.ask(path, "POST", headers={**right, "Origin": client.origin}).status == 401
    token = client.ask(path, headers=right).text.strip()
    assert client.ask(f"/enter?token={token}", headers={"Cookie": None}).status == 303
    assert client.ask(f"/enter?token={token}", headers={"Cookie": None}).status == 401


def test_how_to_reach_a_server_is_for_its_user_alone(client: Client, tmp_path: Path) -> None:
    """The file with it is private, and goes when the server ends."""
    path = tmp_path / "serve"
    with client.server.findable(str(path)):
        assert path.stat().st_mode & 0o777 == 0o600
        url = fresh_url(str(path))
        assert url is not None
        assert client.ask(url.removeprefix(client.origin), headers={"Cookie": None}).status == 303
    assert not path.exists()
    assert fresh_url(str(path)) is None


@pytest.mark.parametrize(
    "answer", [b"\x1b]0;owned\x07" + b"a" * 43, b"a" * 43 + b"&to=//x", b"a" * 50_000_000, b"", b"\xff"]
)
def test_another_program_on_the_port_of_a_killed_server(tmp_path: Path, answer: bytes) -> None:
    """Its answer is not shown unless it is a token, and not read further than that."""
    path, left = tmp_path / "serve", []
    with socket.create_server(("127.0.0.1", 0)) as other:

        def reply() -> None:
            with other.accept()[0] as connection:
                connection.recv(10_000)
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                try:
                    connection.sendall(answer)
                except OSError:
                    left.append(True)

        thread = threading.Thread(target=reply)
        thread.start()
        path.write_text(f"{other.getsockname()[1]} {'s' * 43}")
        assert fresh_url(str(path)) is None
        thread.join()
    assert bool(left) == (len(answer) > 1000)
