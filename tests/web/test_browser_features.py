"""Features of the page in a real Chromium, by keyboard and by pointer."""

from __future__ import annotations

import re
import threading
import wave
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import clew
from clew import keys
from clew.base.messages import Text, Thinking, ToolCall
from clew.web.server import Server, listen
from tests.web.test_browser import site, visit
from tests.web.test_features import KEY

__all__ = ["site"]  # a fixture

CALL = ToolCall(id="t1", name="Task", arguments={"prompt": "Find the writers."})


def position(page: Any, id: str) -> float:
    """Where an element is on the screen."""
    return float(page.evaluate("id => document.getElementById(id).getBoundingClientRect().top", id))


@pytest.fixture(scope="module")
def long(site: Any) -> clew.Session:
    """A conversation of several windows, with prompts at odd numbers."""
    _, store, _ = site
    session: clew.Session = store.sessions.create(title="Long")
    pairs = [(clew.user(f"question {n}"), clew.assistant(f"answer {n} " + "word " * 40)) for n in range(1300)]
    session.append([message for pair in pairs for message in pair])
    return session


def test_windows_come_in_as_they_are_scrolled_to(browser: Any, site: Any, long: clew.Session) -> None:
    """A page opens at its message, loads what follows and what comes before, and what is read does not move."""
    server, _, _ = site
    page = visit(browser, server, f"/c/{long.id}?from=601#m625")
    assert page.evaluate("document.activeElement.id") == "m625"
    assert 0 < position(page, "m625") < 300
    page.wait_for_timeout(200)
    assert page.locator("#m600").count() == 0
    page.evaluate("document.getElementById('m649').scrollIntoView()")
    page.wait_for_selector("#m651", state="attached")
    assert page.locator("article.msg").count() in (100, 150)
    page.evaluate("document.getElementById('m604').scrollIntoView()")
    page.mouse.move(600, 500)
    page.mouse.wheel(0, -120)
    page.wait_for_selector("#m600", state="attached")
    page.wait_for_timeout(150)
    before = position(page, "m604")
    assert -200 < before < 800
    page.wait_for_timeout(200)
    assert abs(position(page, "m604") - before) < 2
    numbers = page.evaluate("[...document.querySelectorAll('article.msg')].map(m => Number(m.id.slice(1)))")
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert page.problems == []
    page.context.close()


def test_prompts_go_on_beyond_the_window(browser: Any, site: Any, long: clew.Session) -> None:
    """`j` at the end of what is loaded opens the next prompt; `g` and `G` reach both ends; a number goes anywhere."""
    server, _, _ = site
    page = visit(browser, server, f"/c/{long.id}?from=351#m399")
    page.wait_for_selector("#m401", state="attached")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.id") == "m401"
    page.wait_for_timeout(1000)  # a window that is on its way would come back
    page.evaluate("document.querySelectorAll('.window:not(:first-child), .talk > .pager').forEach(one => one.remove())")
    page.evaluate("document.getElementById('m399').focus()")
    page.keyboard.press("j")
    page.wait_for_url("**#m401")
    assert page.evaluate("document.activeElement.id") == "m401"
    page.keyboard.press("G")
    page.wait_for_url("**#m2600")
    page.keyboard.press("g")
    page.wait_for_url("**#m1")
    page.keyboard.press("Control+k")
    page.keyboard.type("1234")
    page.keyboard.press("Enter")
    page.wait_for_url("**#m1234")
    assert page.locator("#outline [aria-current]").get_attribute("data-number") in ("1233", "1235", "1237")
    assert page.problems == []
    page.context.close()


def test_far_windows_leave_the_page(browser: Any, site: Any, long: clew.Session) -> None:
    """At most 2,000 messages are in the page, however far it is scrolled, and those that left come back."""
    server, _, _ = site
    page = visit(browser, server, f"/c/{long.id}")
    for upto in range(50, 2600, 50):
        page.evaluate("n => document.getElementById(`m${n}`).scrollIntoView()", upto)
        page.wait_for_selector(f"#m{upto + 1}", state="attached")
    assert page.locator("article.msg").count() <= 2000
    assert page.locator("#m1").count() == 0
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_selector("#m1", state="attached")
    assert page.locator("article.msg").count() <= 2000
    assert page.problems == []
    page.context.close()


def test_find_opens_what_is_folded(browser: Any, site: Any) -> None:
    """Matches appear while words are typed; Enter opens the message and the folds around the words; n and p move on."""
    server, store, _ = site
    session = store.sessions.create(title="Folded")
    session.append(clew.user("first zebra"))
    session.append(clew.assistant(Thinking(text="a zebra in thought"), Text(text="Hm."), CALL))
    session.append(clew.tool("zebra found", call_id="t1"))
    page = visit(browser, server, f"/c/{session.id}")
    page.keyboard.press("f")
    page.keyboard.type("zeb")
    page.wait_for_selector("#find-list .hit mark")
    assert page.locator("#find-n").inner_text() == "3 matches"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**find=zeb#m2")
    assert page.locator("#m2 .think").evaluate("d => d.open")
    assert page.evaluate("CSS.highlights.get('found').size") >= 3
    page.keyboard.press("n")
    page.wait_for_url("**find=zeb#m3")
    assert page.locator("#m3").evaluate("d => d.open")
    page.keyboard.press("p")
    page.wait_for_url("**find=zeb#m2")
    assert page.problems == []
    page.context.close()


@pytest.mark.parametrize("script", [True, False])
def test_a_secret_is_shown_when_it_is_chosen(browser: Any, site: Any, script: bool) -> None:
    """By keyboard, with and without script, and on the page with the raw form."""
    server, store, _ = site
    session = store.sessions.create(title="Key")
    session.append(clew.user(f"Use {KEY} for staging"))
    for path in (f"/c/{session.id}", f"/c/{session.id}/m/{session.head_id}/raw"):
        page = visit(browser, server, path, java_script_enabled=script)
        assert KEY not in page.locator("main").inner_text()
        box = page.get_by_role("checkbox", name="Show github token, 40 characters")
        box.focus()
        page.keyboard.press("Space")
        assert KEY in page.locator("main").inner_text()
        page.context.close()


def test_from_here_to_here(browser: Any, site: Any) -> None:
    """`x` at two messages selects; the selection is copied and downloaded; `c` copies one message."""
    server, _, session = site
    page = visit(browser, server, f"/c/{session.id}", permissions=["clipboard-read", "clipboard-write"])
    page.keyboard.press("j")
    page.keyboard.press("c")
    page.locator(".toast", has_text="Message copied").wait_for()
    assert "The payments provider" in page.evaluate("navigator.clipboard.readText()")
    page.locator("#m5").hover()
    page.locator("#m5 [data-act=select]").click()
    page.locator("#m6").hover()
    page.locator("#m6 [data-act=select]").click()
    assert page.locator("[data-span]").inner_text() == "Messages 5 – 6"
    page.locator("[data-do=copy-selection]").click()
    toast = page.locator(".toast", has_text="Messages copied")
    toast.wait_for()
    upper, lower = toast.bounding_box(), page.locator(".selbar").bounding_box()
    assert upper["y"] + upper["height"] <= lower["y"]  # two notices never lie on top of each other
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "answers before it commits" in copied
    assert "Let the database refuse" in copied
    assert "payments provider" not in copied
    with page.expect_download() as download:
        page.locator(".selbar [data-form=json]").click()
    assert download.value.suggested_filename.endswith(".json")
    page.keyboard.press("Escape")
    assert page.locator(".selbar").is_hidden()
    page.locator(".menu summary").first.click()
    with page.expect_download() as download:
        page.locator(".part-f button[value=markdown]").click()
    assert download.value.suggested_filename.endswith(".md")
    assert page.problems == []
    page.context.close()


def test_a_subagent_is_read_where_it_was_started(browser: Any, site: Any) -> None:
    """Its messages open inside the call, with the names of both sides; its own page leads back to the call."""
    server, store, _ = site
    session = store.sessions.create(title="Owner")
    session.append([clew.user("Who writes?"), clew.assistant(CALL), clew.tool("Two places.", call_id="t1")])
    trace = store.sessions.create(agent="Explore", owner=session, extra={"call_id": "t1"})
    trace.append([clew.user("Find the writers."), clew.assistant("Searching."), clew.assistant("Two places.")])
    page = visit(browser, server, f"/c/{session.id}")
    page.locator(".call summary").first.click()
    page.wait_for_selector(".trace-in .sub-msg")
    assert page.locator(".trace-in h2").all_inner_texts() == ["Main agent", "Explore", "Explore"]
    assert (
        len(set(page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)"))) == page.locator("[id]").count()
    )
    page.get_by_role("link", name="All messages of the subagent").click()
    page.get_by_role("link", name="Back to the conversation that started this subagent").click()
    page.wait_for_url(f"**/c/{session.id}#m2")
    assert page.problems == []
    page.context.close()


def recording() -> bytes:
    """A second of silence."""
    made = BytesIO()
    with wave.open(made, "wb") as file:
        file.setparams((1, 2, 8000, 8000, "NONE", ""))
        file.writeframes(bytes(16_000))
    return made.getvalue()


def test_a_recording_is_played_and_a_document_is_saved(browser: Any, site: Any) -> None:
    """The player reads from the attachment's own path; a PDF, which no sandbox shows, is downloaded as it is."""
    server, store, _ = site
    session = store.sessions.create(title="Attached")
    sound = session.attach(recording(), mime_type="audio/wav", modality="audio", name="a.wav")
    paper = session.attach(b"%PDF-1.7 paper", mime_type="application/pdf", modality="document", name="a.pdf")
    session.append(clew.user(sound, paper))
    page = visit(browser, server, f"/c/{session.id}")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    play = "a => new Promise((done, failed) => { a.onended = () => done(a.duration); a.onerror = failed; a.play() })"
    assert page.locator("audio").evaluate(play) == 1
    assert {url for url in asked if "/events" not in url} == {
        f"http://127.0.0.1:{server.port}/c/{session.id}/blob/{sound.blob}?name=a.wav"
    }
    with page.expect_download() as download:
        page.get_by_role("link", name="a.pdf").click()
    assert download.value.suggested_filename == "a.pdf"
    assert Path(download.value.path()).read_bytes() == b"%PDF-1.7 paper"
    assert page.problems == []
    page.context.close()


def test_a_conversation_is_deleted_while_it_is_read(browser: Any, site: Any) -> None:
    """The page says so, and nothing that is read moves; the way leads to the list."""
    server, store, _ = site
    session = store.sessions.create(title="Deleted meanwhile")
    session.append([clew.user(f"message {n} " + "word " * 80) for n in range(30)])
    page = visit(browser, server, f"/c/{session.id}")
    page.evaluate("window.scrollTo(0, 900)")
    page.wait_for_timeout(100)
    before = position(page, "m10")
    session.trash()
    page.locator("[data-count]", has_text="This conversation was deleted").wait_for()
    assert position(page, "m10") == before
    page.locator(".new a").click()
    page.wait_for_url(f"http://127.0.0.1:{server.port}/")
    assert page.get_by_text("Deleted meanwhile").count() == 0
    page.context.close()


def test_reading_by_pointer(browser: Any, site: Any) -> None:
    """Filters, prompts, toggles, folds, theme, help, palette, branches, raw form and copies need no keyboard."""
    server, _, session = site
    page = visit(browser, server, "/", permissions=["clipboard-read", "clipboard-write"])
    page.locator(".facet a", has_text="tidepool").click()
    page.wait_for_url("**/?project=tidepool")
    page.get_by_role("link", name="Webhook retries create duplicate orders").first.click()
    page.locator("#outline a[data-number='6']").click()
    page.wait_for_url(f"**/c/{session.id}#m6")
    assert page.evaluate("document.activeElement.id") == "m6"
    for name, part in (("Tools", ".calls"), ("Answers", ".msg.ai"), ("Prompts", ".msg.you"), ("Thinking", ".think")):
        box = page.locator(".toggles label", has_text=name)
        box.click()
        assert page.locator(part).locator("visible=true").count() == 0
        box.click()
        assert page.locator(part).locator("visible=true").count() > 0
    page.locator(".toggles label", has_text="Errors only").click()
    assert page.locator(".msg").locator("visible=true").count() == 1
    page.locator(".toggles label", has_text="Errors only").click()
    page.locator("#m2 .call summary").first.click()
    assert page.locator("#m2 .call .out").first.is_visible()
    page.locator("[data-do=theme]").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.locator("[data-keys]").click()
    assert page.locator("#help").is_visible()
    page.locator("[data-keys]").click()
    page.locator("[data-copy=cmd]").first.click()
    page.locator(".toast", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith("cd /src/tidepool && claude --resume")
    page.locator("[data-do=palette]").click()
    page.locator("#palette a", has_text="All file changes").click()
    page.wait_for_url("**/files")
    page.locator(".ftab a").first.click()
    page.wait_for_url("**#m7")
    page.locator("#branches .stubs a", has_text="Look the event up first").click()
    page.wait_for_url("**head=**")
    page.locator("nav.fork [data-compare]").click()
    page.wait_for_url("**/compare?**")
    page.locator(".cmp-t a, .bar a.count").first.click()
    page.locator("#m1").hover()
    page.locator("#m1 [data-act=raw]").click()
    page.wait_for_url("**/raw")
    page.get_by_role("link", name="Back to the message").click()
    page.wait_for_url("**#m1")
    assert page.problems == []
    page.context.close()


def test_changes_by_keyboard(browser: Any, site: Any) -> None:
    """Rename, label, note, rewind and fork without a pointer; each dialog can be cancelled."""
    server, store, _ = site
    session = store.sessions.create(title="Old title")
    session.append([clew.user("one"), clew.assistant("two"), clew.user("three")])
    page = visit(browser, server, f"/c/{session.id}")

    def command(name: str, text: str) -> None:
        page.keyboard.press("Control+k")
        page.keyboard.type(name)
        page.keyboard.press("Enter")
        page.wait_for_selector("#ask[open]")
        page.keyboard.type(text)
        with page.expect_navigation():
            page.keyboard.press("Enter")

    command("rename", "New title")
    assert page.locator("h1").inner_text() == "New title"
    command("add a label", "urgent")
    page.get_by_role("button", name="Remove the label urgent").focus()
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert session.refresh().labels == ()
    page.keyboard.press("j")
    page.keyboard.press("a")
    page.wait_for_selector("#ask[open]")
    page.keyboard.type("Check this")
    with page.expect_navigation():
        page.keyboard.press("Control+Enter")
    assert "Check this" in page.locator("#m1 .note").inner_text()
    page.keyboard.press("j")
    page.keyboard.press("w")
    page.wait_for_selector("#ask[open]")
    assert "2 messages after it are kept as a branch." in page.locator("#ask").inner_text()
    page.keyboard.press("Escape")
    assert len(session.refresh().path()) == 3
    page.keyboard.press("w")
    page.wait_for_selector("#ask[open]")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert len(session.refresh().path()) == 1
    assert page.problems == []
    page.context.close()


def test_the_results_page_follows_its_field(browser: Any, site: Any) -> None:
    """Results change while words are typed; the filter stays, and the URL is that of the results."""
    server, _, _ = site
    page = visit(browser, server, "/search?tool=codex")
    page.fill("#q", "backoff")
    page.wait_for_selector("#results .group")
    assert page.locator("#results .group h2").all_inner_texts() == ["Backoff for the mail queue"]
    assert re.search("q=backoff&tool=codex|tool=codex&q=backoff", page.url)
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**find=backoff#m1")
    assert page.problems == []
    page.context.close()


def test_print_and_less_motion(browser: Any, site: Any) -> None:
    """A printed page has every message and folded part, and no controls; nothing moves if that is asked for."""
    server, _, session = site
    page = visit(browser, server, f"/c/{session.id}", reduced_motion="reduce")
    page.emulate_media(media="print")
    assert page.locator(".top, .tools-bar, .resume .menu, .acts").locator("visible=true").count() == 0
    assert page.get_by_text("2 passed").is_visible()
    page.emulate_media(media="screen")
    assert page.evaluate("matchMedia('(prefers-reduced-motion: reduce)').matches")
    moving = "[...document.querySelectorAll('*')].filter(e => getComputedStyle(e).animationName !== 'none').length"
    assert page.evaluate(moving) == 0
    page.context.close()


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[tuple[Server, str]]:
    key, path = keys.generate(), tmp_path / "sealed.db"
    with clew.open(path, key=key) as store:
        store.sessions.create(title="Private matters").append(clew.user("Hello"))
        server = Server(lambda given: clew.open(path, key=given, create=False), listen(0), idle=3)
        with server.in_background():
            yield server, key.hex()


def test_a_sealed_store_in_a_browser(browser: Any, sealed: tuple[Server, str]) -> None:
    """A wrong key is refused, the right one opens the page that was asked for; after idle time the screen is empty."""
    server, key = sealed
    page = visit(browser, server, "/search?q=hello")
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("#key-bad")
    page.keyboard.type(key)
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=hello")
    assert page.get_by_text("Private matters").is_visible()
    page.wait_for_selector("#key")
    assert page.get_by_text("Private matters").count() == 0
    page.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1440, "dark"), (390, "light")])
def test_axe_finds_nothing_on_the_other_pages(
    browser: Any, site: Any, sealed: tuple[Server, str], width: int, scheme: str
) -> None:
    """Also with a dialog, the palette, the help, a menu or results open."""
    from axe_playwright_python.sync_playwright import Axe

    server, store, session = site
    trashed = store.sessions.create(title="Thrown away")
    trashed.append(clew.user(f"A key: {KEY}"))
    secret = store.sessions.create(title="Secret")
    secret.append(clew.user(f"A key: {KEY}"))
    trashed.trash()
    paged = store.sessions.create(title="Two pages")
    paged.append([clew.user(f"message {n}") for n in range(205)])
    page = visit(browser, server, color_scheme=scheme, bypass_csp=True)
    page.set_viewport_size({"width": width, "height": 844})
    base = f"/c/{session.id}"
    opened = {
        "/trash": "", f"{base}/m/{session.head_id}/raw": "", f"/c/{session.id}/outline": "", "/c/nothing": "",
        f"{base}/files": "",
        f"{base}?find=order": "", f"/c/{secret.id}": "", f"/c/{paged.id}?from=201": "",
        f"{base}#ask": "document.querySelector('[data-write=rename]').click()",
        f"{base}#palette": "document.querySelector('[data-do=palette]').click()",
        f"{base}#help": "document.getElementById('help').showPopover()",
        f"{base}#menu": "document.querySelector('.menu').open = true",
        f"{base}#branches": "document.getElementById('branches').showPopover()",
        "/#hits": "(q => { q.value = 'order'; q.dispatchEvent(new Event('input')) })(document.getElementById('q'))",
    }  # fmt: skip
    for path, action in opened.items():
        page.goto("about:blank")
        page.goto(f"http://127.0.0.1:{server.port}{path}")
        if action and not (path.endswith("branches") and width > 1248):
            page.evaluate(action)
            page.wait_for_timeout(300)
        found = Axe().run(page).response["violations"]
        assert [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in found] == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    page.context.close()
    locked = visit(browser, sealed[0], color_scheme=scheme, bypass_csp=True)
    assert Axe().run(locked).response["violations"] == []
    locked.context.close()


def marked(page: Any, low: int, high: int) -> bool:
    """Whether the list of prompts comes to mark a message between these numbers as the one that is read."""
    for _ in range(200):
        one = page.locator("#outline [aria-current]")
        if one.count() and low <= int(one.first.get_attribute("data-number")) <= high:
            return True
        page.wait_for_timeout(25)
    return False


def test_the_list_of_prompts_follows_what_is_read(browser: Any, site: Any, long: clew.Session) -> None:
    """It marks the prompt of what is read: after a key, while scrolling, and after jumps beyond the part it has."""
    server, _, _ = site
    page = visit(browser, server, f"/c/{long.id}")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.id") == "m3"
    assert marked(page, 3, 3)
    page.goto(f"{page.url.partition('#')[0]}?from=2001#m2010")
    assert marked(page, 2009, 2009)
    page.evaluate("document.activeElement.blur(); document.getElementById('m2040').scrollIntoView()")
    page.wait_for_selector("#m2060", state="attached")
    page.evaluate("document.getElementById('m2060').scrollIntoView()")
    assert marked(page, 2055, 2063)
    page.goto(f"{page.url.partition('?')[0]}?from=1#m2")
    for _ in range(24):  # further than the list reaches, without a new page
        last = page.locator("article.msg").last
        last.scroll_into_view_if_needed()
        page.locator(f"#m{int(last.get_attribute('id')[1:]) + 1}").wait_for(state="attached")
    number = int(page.locator("article.msg").last.get_attribute("id")[1:])
    page.evaluate(f"document.getElementById('m{number - 20}').scrollIntoView()")
    assert marked(page, number - 26, number - 15)
    page.context.close()


def test_many_branches_are_folded_and_filtered(browser: Any, site: Any) -> None:
    """Beyond ten they are folded; the filter looks at all; long titles end with an ellipsis inside the panel."""
    server, store, _ = site
    session = store.sessions.create(title="Marathon")
    session.append([clew.user("start"), clew.assistant("ok")])
    for number in range(14):
        session.append([clew.user(f"attempt {number} " + "with a long title " * 6), clew.assistant("no")])
        session.rewind(session.path()[1].id)
    session.append([clew.user("the last way"), clew.assistant("done")])
    page = visit(browser, server, f"/c/{session.id}")
    panel = page.locator("#branches")
    assert panel.locator(".stubs > li:visible").count() == 10
    inside = "e => e.getBoundingClientRect().right <= document.getElementById('branches').getBoundingClientRect().right"
    assert all(one.evaluate(inside) for one in panel.locator(".stubs > li:visible .cut").all())
    cut = panel.locator(".stubs .cut").first
    assert cut.evaluate("e => e.scrollWidth > e.clientWidth && getComputedStyle(e).textOverflow") == "ellipsis"
    page.fill("#branch-q", "attempt 13")
    assert panel.locator(".stubs > li:visible").count() == 1
    page.fill("#branch-q", "")
    page.check("#all-branches")
    assert panel.locator(".stubs > li:visible").count() == 14
    page.context.close()


def test_the_list_is_live(browser: Any, site: Any) -> None:
    """A conversation that begins meanwhile appears, and the row that has the focus keeps it."""
    server, store, _ = site
    page = visit(browser, server)
    row = page.locator(".row-t a").first
    row.focus()
    kept = row.get_attribute("href")
    store.sessions.create(title="Began meanwhile").append(clew.user("hello"))
    page.get_by_role("link", name="Began meanwhile").wait_for()
    assert page.evaluate("document.activeElement.getAttribute('href')") == kept
    page.context.close()


def test_the_key_of_commands_is_ctrl(browser: Any, site: Any) -> None:
    """Elsewhere than on a Mac."""
    server, _, _ = site
    page = visit(browser, server)
    assert page.locator("[data-do=palette] kbd").inner_text() == "Ctrl K"
    page.context.close()


def test_a_search_that_waits_for_the_index_says_so(browser: Any, site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results below the field say how far the index is, and then have the matches."""
    server, store, _ = site
    store.sessions.create(title="Zebra").append(clew.user("a zebra in the index"))
    search, go_on = clew.Store.search, threading.Event()

    def slow(self: clew.Store, *words: Any, progress: Any = None, **more: Any) -> Any:
        if progress is not None:
            progress(21, 50)
            go_on.wait(10)
        return search(self, *words, progress=progress, **more)

    monkeypatch.setattr(clew.Store, "search", slow)
    page = visit(browser, server)
    page.fill("#q", "zebra")
    page.locator("#hits-n", has_text="Searching … 42 %").wait_for()
    go_on.set()
    page.locator("#hits-n", has_text="1 match in 1 conversation").wait_for()
    page.context.close()
