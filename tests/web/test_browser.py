"""The page in a real Chromium: by keyboard, by pointer, without script, in both themes and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.screenshots import demo

import clew
from clew.exports.to_html import html
from clew.web.server import Server, listen


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, clew.Store, clew.Session]]:
    path = tmp_path_factory.mktemp("page") / "demo.db"
    with clew.open(path) as store:
        session = demo(store)
        server = Server(lambda _: clew.open(path), listen(0), allow_write=True)
        with server.in_background():
            yield server, store, session


def visit(browser: Any, server: Server, path: str = "/", **how: Any) -> Any:
    """A page with the cookie; errors of scripts and of the policy fail the test at the end."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, **how)
    context.add_cookies(
        [{"name": server.guard.cookie, "value": server.guard.secret, "domain": "127.0.0.1", "path": "/"}]
    )
    context.set_default_timeout(8000)
    page = context.new_page()
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("console", lambda line: page.problems.append(line.text) if line.type == "error" else None)
    page.goto(f"http://127.0.0.1:{server.port}{path}")
    return page


def test_the_printed_url_opens_the_page(browser: Any, site: Any) -> None:
    """The URL sets the cookie and leads to the list; the browser then has no token in its address."""
    server, _, _ = site
    server.guard.entrance = "once"
    page = browser.new_context().new_page()
    page.goto(server.url())
    assert page.url == f"http://127.0.0.1:{server.port}/"
    assert page.locator("h1").inner_text() == "Conversations"
    page.context.close()


def test_search_while_typing_by_keyboard(browser: Any, site: Any) -> None:
    """`/`, words, Enter: the message is open and focused; nothing is reported on the console."""
    server, _, session = site
    page = visit(browser, server)
    page.keyboard.press("/")
    page.keyboard.type("unique const")
    page.wait_for_selector(".hit mark")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url("**#m7")
    assert session.id in page.url
    assert page.locator("#m7").is_visible()
    assert page.problems == []
    page.context.close()


def test_keys_of_a_conversation(browser: Any, site: Any) -> None:
    """Prompts, folding, theme, help, palette and comparison work without a pointer."""
    server, _, session = site
    page = visit(browser, server, f"/c/{session.id}")
    for expected in ("m1", "m6"):
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.id") == expected
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.id") == "m1"
    page.keyboard.press("O")
    assert page.evaluate("document.querySelectorAll('.call:not([open])').length") == 0
    page.keyboard.press("O")
    assert page.evaluate("document.querySelectorAll('.call[open]').length") == 0
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("departure")
    page.wait_for_selector("#palette .found-row")
    page.keyboard.press("Escape")
    page.keyboard.press("f")
    assert page.evaluate("document.activeElement.id") == "find"
    page.keyboard.type("handler")
    page.keyboard.press("Enter")
    page.wait_for_selector(".found-here .f-hit")
    page.goto(f"http://127.0.0.1:{server.port}/c/{session.id}")
    page.keyboard.press("=")
    page.wait_for_url("**/compare?**")
    assert page.problems == []
    page.context.close()


def test_code_can_be_copied(browser: Any, site: Any) -> None:
    """Each block of code of a prompt and of an answer has a label and a button that copies its text."""
    server, store, _ = site
    session = store.sessions.create(title="Code")
    session.append([clew.user("```sh\nls\n```"), clew.assistant("Run:\n\n```python\nx = 1\n```\n\n```\nplain\n```")])
    page = visit(browser, server, f"/c/{session.id}")
    assert page.locator(".code-h").all_text_contents() == ["sh", "python"]
    page.evaluate("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    page.locator("#m2 .code").first.hover()
    page.locator("#m2 .code > .copy").first.click()
    page.get_by_text("Code copied").wait_for()
    assert page.evaluate("window.copied").strip() == "x = 1"
    assert page.locator(".code > .copy").count() == 3
    assert page.problems == []
    page.context.close()


def test_new_messages_move_nothing(browser: Any, site: Any) -> None:
    """A new message raises the counter; the scroll position stays; a click brings it in, once."""
    server, store, _ = site
    session = store.sessions.create(title="Live")
    session.append([clew.user(f"message {n} " + "word " * 80) for n in range(40)])
    page = visit(browser, server, f"/c/{session.id}")
    page.evaluate("window.scrollTo(0, 900)")
    page.wait_for_timeout(300)
    before = page.evaluate("[window.scrollY, document.querySelectorAll('.msg').length]")
    session.append([clew.assistant("first new"), clew.assistant("second new")])
    page.locator("[data-count]", has_text="2 new messages").wait_for()
    assert page.evaluate("[window.scrollY, document.querySelectorAll('.msg').length]") == before
    page.locator(".new a").click()
    page.wait_for_selector("#m42")
    session.append(clew.assistant("third new"))
    page.locator("[data-count]", has_text="1 new message").wait_for()
    page.locator(".new a").click()
    page.wait_for_selector("#m43")
    numbers = page.evaluate("[...document.querySelectorAll('.msg')].map(m => m.id)")
    assert numbers == [f"m{n}" for n in range(1, 44)]
    session.append(clew.assistant(clew.ToolCall(id="c", name="Bash", arguments={"command": "ls"})))
    page.locator("[data-count]", has_text="1 new message").wait_for()
    page.locator(".new a").click()
    page.wait_for_selector("#m44 .i-stop")
    session.append([clew.tool("files", call_id="c"), clew.assistant("done")])
    page.locator("[data-count]", has_text="2 new messages").wait_for()
    page.locator(".new a").click()
    page.wait_for_selector("#m46")
    assert page.locator("#m44 .i-ok").count() == 1
    days = page.locator(".date-line").all_inner_texts()
    assert len(days) == len(set(days))
    session.append([clew.assistant(f"many {n}") for n in range(250)])
    page.locator("[data-count]", has_text="250 new messages").wait_for()
    page.locator(".new a").click()
    page.wait_for_selector("#m246")
    page.locator("[data-count]", has_text="50 new messages").wait_for()
    page.locator(".new a").click()
    page.wait_for_selector("#m296")
    session.rewind(session.path()[-3].id)
    session.append(clew.user("another way"))
    page.locator("[data-count]", has_text="The conversation changed").wait_for()
    page.locator(".new a").click()
    page.wait_for_selector("nav.fork")
    assert page.problems == []
    page.context.close()


def test_changes_by_pointer(browser: Any, site: Any) -> None:
    """Fork here makes a conversation; a note appears; the trash can be undone."""
    server, store, _ = site
    session = store.sessions.create(title="To change")
    session.append([clew.user("one"), clew.assistant("two")])
    page = visit(browser, server, f"/c/{session.id}")
    page.locator("#m1").hover()
    page.locator("#m1 [data-write=note]").click()
    page.fill("#ask textarea", "My note")
    page.click("#ask-ok")
    page.wait_for_selector(".note")
    page.keyboard.press("Control+k")
    page.locator("#palette [data-write=trash]").click()
    page.wait_for_selector(".toast button")
    assert page.url.endswith(f":{server.port}/")  # the list: the conversation is not there any more
    assert [one.id for one in store.sessions.trashed()] == [session.id]
    page.locator(".toast button").click()
    page.locator("#m2").hover()
    page.locator("#m2 [data-write=fork]").click()
    page.wait_for_url(lambda url: session.id not in url)
    assert "To change (fork)" in page.locator("h1").inner_text()
    page.context.close()


def test_without_script(browser: Any, site: Any) -> None:
    """List, filter, conversation, folding, branch, find and search work with scripts turned off."""
    server, _, session = site
    page = visit(browser, server, java_script_enabled=False)
    page.get_by_role("link", name="Claude Code").first.click()
    page.get_by_role("link", name="Webhook retries create duplicate orders").first.click()
    page.locator("details.call summary").first.click()
    assert page.locator("details.call .out").first.is_visible()
    page.locator("nav.fork a", has_text="Look the event up first").click()
    assert page.get_by_text("That still races.").is_visible()
    page.goto(f"http://127.0.0.1:{server.port}/c/{session.id}")
    page.fill("#find", "handler")
    page.press("#find", "Enter")
    assert page.locator(".found-here .f-hit").count() > 0
    page.goto(f"http://127.0.0.1:{server.port}/")
    page.fill("#q", "constraint")
    page.press("#q", "Enter")
    assert page.locator(".found mark").first.inner_text() == "constraint"
    page.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1440, "dark"), (640, "light"), (390, "dark")])
def test_axe_finds_nothing(browser: Any, site: Any, width: int, scheme: str) -> None:
    """Names, roles, contrast and landmarks of every page are in order, and nothing is wider than the screen."""
    from axe_playwright_python.sync_playwright import Axe

    server, _, session = site
    left = session.branches()[0].head_id
    page = visit(browser, server, color_scheme=scheme, bypass_csp=True)
    page.set_viewport_size({"width": width, "height": 844})
    for path in ("/", f"/c/{session.id}", "/search?q=order*", f"/c/{session.id}/compare?b={left}"):
        page.goto(f"http://127.0.0.1:{server.port}{path}")
        page.evaluate("document.querySelectorAll('details.call').forEach(d => { d.open = true })")
        found = Axe().run(page).response["violations"]
        assert [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in found] == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    page.context.close()


def test_a_long_directory_fits_on_a_phone(browser: Any, site: Any) -> None:
    """The facts below a title wrap on the page and in an HTML export, also inside the name of a directory."""
    server, store, _ = site
    session = store.sessions.create(title="Deep", cwd="/home/someone/" + "very_long_name_" * 20)
    session.append(clew.user("x"))
    page = visit(browser, server, f"/c/{session.id}")
    page.set_viewport_size({"width": 400, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.goto("about:blank")
    page.set_content("".join(html(session, session.path())))
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.context.close()


def test_another_site_gets_nothing(browser: Any, site: Any, tmp_path: Path) -> None:
    """A page of another origin can neither read, nor embed, nor post, nor stream, even in a browser with the cookie."""
    server, _, session = site
    page = visit(browser, server)
    target = f"http://127.0.0.1:{server.port}"
    page.goto("data:text/html,<title>evil</title>")
    for path in ("/", f"/c/{session.id}.json", f"/c/{session.id}/events"):
        read = page.evaluate(
            "url => fetch(url, {credentials: 'include'}).then(() => 'read', () => 'refused')", target + path
        )
        assert read == "refused"
    title = session.refresh().title
    page.evaluate(
        "url => fetch(url, {method: 'POST', mode: 'no-cors', credentials: 'include', body: '{\"title\": \"stolen\"}'})"
        ".catch(() => 0)",
        f"{target}/c/{session.id}/rename",
    )
    assert session.refresh().title == title
    page.context.close()
