"""The words of a search in a sealed store are in no URL, and in no file of the browser."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import clew
from clew import keys
from clew.web.server import Server, listen
from clew.web.site import KEPT, WordNames
from tests.reliability.tools import need
from tests.web.conftest import Answer, Client, Opener, filled
from tests.web.conftest import client as client  # a fixture
from tests.web.conftest import session as session

WORDS = "handler answers"


@pytest.fixture
def key() -> bytes:
    return keys.generate()


def post(client: Client, to: str, headers: Mapping[str, str | None], **fields: str) -> Answer:
    """What a page's form gets."""
    given = {"Origin": client.origin, "Content-Type": "application/x-www-form-urlencoded", **headers}
    form = {"token": client.server.guard.page_token, "to": to, **fields}
    return client.ask("/words", "POST", headers=given, body=urlencode(form).encode())


def find(client: Client, to: str, **fields: str) -> tuple[str, Answer]:
    """The URL that the words lead to, and its page."""
    answer = post(client, to, {}, **fields)
    assert answer.status == 303, answer.text
    at = answer.headers["location"]
    return at, client.get(at)


def test_words_are_in_no_url(client: Client, session: clew.Session) -> None:
    """Results, filters, matches and titles of a sealed store are reached through names of their words."""
    session.append(clew.user("handler answers " * 3))
    urls: list[str] = []

    def read(at: str, answer: Answer) -> str:
        found = re.findall(r'(?:href|action|src)="([^"]*)"', answer.text)
        urls.extend([at, *found])
        return answer.text

    text = read(*find(client, "/search", q=f"{WORDS} project:tidepool label:bug"))
    assert "<strong>2</strong> matches" in text
    assert f'value="{WORDS}"' in text
    (hit, *_) = re.findall(r'class="f-hit" href="([^"]*)"', text)
    moved = client.ask(hit).headers["location"]
    assert "find=~" in moved
    assert f'value="{WORDS}"' in read(moved, client.get(moved.partition("#")[0]))
    assert "found-here" in read(*find(client, f"/c/{session.id}", find=WORDS))
    assert "Webhook" in read(*find(client, "/", title="retries", tool="claude-code"))
    assert "Fork of it" in read(*find(client, "/", project="tidepool"))
    read("/", client.get("/"))
    assert [one for one in urls if re.search("handler|answers|retries|tidepool|bug|claude-code|model-1", one)] == []
    assert find(client, "/search.json", q=WORDS, typing="1")[1].json["find"].startswith("~")
    assert find(client, f"/c/{session.id}/find.json", q=WORDS)[1].json["find"].startswith("~")
    assert find(client, "/conversations.json", title=WORDS, typing="1")[1].json["find"].startswith("~")


def test_an_unknown_name_is_an_empty_search(client: Client, session: clew.Session) -> None:
    """A name of an earlier start finds nothing, and is no error."""
    for path in ("/search?q=~", "/search?q=~abcdefghijklmnop", f"/c/{session.id}?find=~abcdefghijklmnop"):
        page = client.get(path).text
        assert 'value=""' in page
        assert 'class="f-hit"' not in page
    assert client.get("/search.json?q=~abcdefghijklmnop").json["count"] == 0
    assert "Webhook" in client.get("/?title=~abcdefghijklmnop").text
    assert 'value="~x"' in find(client, "/search", q="~x")[1].text


def test_words_from_elsewhere_are_refused(client: Client) -> None:
    """The form needs the page's own origin, its token and the cookie, and leads to no other site."""
    attacks: list[dict[str, str | None]] = [
        {"Origin": "https://evil.test"}, {"Origin": "null"}, {"Origin": None}, {"Cookie": None},
        {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.test"},
    ]  # fmt: skip
    for attack in attacks:
        assert post(client, "/search", attack, q=WORDS).status in (401, 403, 421), attack
    for token in ("", "x"):
        assert post(client, "/search", {}, q=WORDS, token=token).status == 403
    for to in ("//evil.test", "https://evil.test", "/\\evil.test", ""):
        assert post(client, to, {}, q=WORDS).headers["location"].startswith("/?q=~"), to


def test_a_locked_store_forgets_the_words(opener: Opener, path: Path, key: bytes) -> None:
    """Locking forgets names; words that are posted then are not in the answer, and the lock page leads to the list."""
    with clew.open(path, key=key) as store:
        filled(store)
    server = Server(lambda given: clew.open(path, key=given, create=False), listen(0))
    with server.in_background():
        client = Client(server)
        server.site.unlock(key)
        at, page = find(client, "/search", q=WORDS)
        assert WORDS in page.text
        server.site.lock()
        assert server.site.is_sealed  # a page that is being made has no words in its links either
        answer = post(client, "/search", {}, q=WORDS)
        assert (answer.status, WORDS in answer.text) == (423, False)
        assert 'name="to" value="/"' in answer.text
        server.site.unlock(key)
        assert WORDS not in client.get(at).text


def test_names_are_random_and_few() -> None:
    """A text keeps its name while it is used; the least recently used name goes; another server has other names."""
    names, other = WordNames(), WordNames()
    first, second = names.name("first"), names.name("second")
    assert (names.text(first), names.text(second), names.name("")) == ("first", "second", "")
    assert first != other.name("first")
    assert other.text(first) == ""
    for n in range(KEPT - 1):
        assert names.name("first") == first
        names.name(f"word {n}")
    assert names.text(first) == "first"
    assert names.text(second) == ""
    for n in range(KEPT - 1):
        assert names.text(first) == "first"
        names.name(f"more {n}")
    assert names.text(first) == "first"
    names.clear()
    assert names.text(first) == ""


@pytest.fixture(params=["plain", "sealed"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Server, bool]]:
    key = keys.generate() if request.param == "sealed" else None
    with clew.open(tmp_path / "chats.db", key=key) as store:
        session = store.sessions.create(title="Quixotry ledger")
        session.append([clew.user("Is zymurgy legal in Rouvray?"), clew.assistant("Zymurgy is lawful.")])
        server = Server(lambda _: clew.open(tmp_path / "chats.db", key=key), listen(0))
        with server.in_background():
            yield server, key is not None


def kept(profile: Path, words: str) -> list[str]:
    """The files of a browser's profile that have one of these words, in UTF-8 or UTF-16."""
    found = []
    for file in (one for one in profile.rglob("*") if one.is_file()):
        body = file.read_bytes().lower()
        if any(word.encode(form) in body for word in words.split() for form in ("utf-8", "utf-16-le")):
            found.append(file.name)
    return found


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_the_browser_keeps_no_words(served: tuple[Server, bool], tmp_path: Path, script: bool) -> None:
    """After a search and a match that was opened, Chromium's profile has neither words nor titles of a sealed store."""
    from playwright.sync_api import sync_playwright
    from tools.screenshots import ARGUMENTS

    need("chromium")
    server, sealed = served
    profile = tmp_path / "profile"
    with sync_playwright() as play:
        context = play.chromium.launch_persistent_context(
            str(profile), executable_path=shutil.which("chromium"), args=ARGUMENTS, java_script_enabled=script
        )
        context.set_default_timeout(8000)
        page = context.pages[0]
        search(page, server, script=script)
        page.wait_for_timeout(1500)  # for what the browser writes later
        context.close()
    with closing(sqlite3.connect(profile / "Default" / "History")) as history:
        urls, titles = zip(*history.execute("select url, title from urls"), strict=True)
    assert any("/search?q=" in url for url in urls), urls
    assert any("find=" in url for url in urls), urls
    found = kept(profile, "zymurgy rouvray quixotry")
    if sealed:
        assert (found, set(titles) - {""}) == ([], {"clew"})
    else:  # the browser does keep them
        assert {"History", "Session", "Tabs"} <= {name.partition("_")[0] for name in found}


def search(page: Any, server: Server, *, script: bool) -> None:
    """Searches in each way, and opens matches."""
    page.goto(server.url())
    page.locator(".top #q").fill("zymurgy rouvray")
    if script:
        page.wait_for_selector(".hit mark")
        page.locator(".top form.search").evaluate("form => form.requestSubmit()")
    else:
        page.locator(".top #q").press("Enter")
    page.wait_for_url("**/search?q=*")
    if script:
        at = page.url
        page.locator("form.q #q").fill("zymurgy")
        page.wait_for_function("at => location.href !== at", arg=at)
    else:
        page.locator("form.q #q").fill("zymurgy")
        page.locator("form.q #q").press("Enter")
    page.locator("#sum", has_text="2 matches").wait_for()
    page.locator(".facet a", has_text="You").click()
    page.locator("#sum", has_text="1 match").wait_for()
    page.locator(".f-hit").first.click()
    page.wait_for_url("**find=*#m1")
    if script:
        assert page.evaluate("CSS.highlights.get('found').size") > 0
    page.locator("#find").fill("lawful zymurgy")
    if script:
        page.wait_for_selector("#find-list .hit")
        page.keyboard.press("Enter")
        page.wait_for_url("**#m2")
        page.keyboard.press("Control+k")
        page.keyboard.type("quixotry")
        page.locator("#palette .found-row", has_text="Search messages for").click()
        page.wait_for_url("**/search?q=*")
    else:
        page.keyboard.press("Enter")
        page.locator(".found-here").wait_for()
    page.goto(f"http://127.0.0.1:{server.port}/")
    page.locator("[name=title]").fill("quixotry")
    page.locator("[name=title]").press("Enter")
    page.wait_for_url("**/?title=*")
    assert page.get_by_text("Quixotry ledger").is_visible()
