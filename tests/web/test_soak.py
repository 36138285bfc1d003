"""Two writers and a reader in a real Chromium: every message appears once, in order, and nothing jumps."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.web.outline import WINDOW
from clew.web.server import Server, listen
from tests.web.test_browser import visit

WRITER = """
import sys, time, clew
path, session, name, seconds = sys.argv[1:]
until, number = time.monotonic() + float(seconds), 0
with clew.open(path) as store:
    talk = store.sessions.get(session)
    while time.monotonic() < until:
        talk.append(clew.user(f"{name}{number} " + "word " * (number % 40)))
        number += 1
        time.sleep(0.2 + 0.3 * (number % 3))
print(number)
"""
WATCHED = 20
"""The message that the reader keeps on the screen."""


@contextmanager
def writing(path: Path, session: str, names: str, seconds: float) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that append to the session."""
    command = [sys.executable, "-c", WRITER, str(path), session]
    running = [
        subprocess.Popen([*command, name, str(seconds)], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        for name in names
    ]
    try:
        yield running
    finally:
        for one in running:
            one.kill()
            one.wait()


def watch(browser: Any, path: Path, seconds: float) -> dict[str, int]:
    """Reads while two others write; returns what was seen."""
    with clew.open(path) as store:
        session = store.sessions.create(title="Live")
        session.append([clew.user(f"old {number} " + "word " * 60) for number in range(40)])
        server = Server(lambda _: clew.open(path), listen(0))
        with server.in_background():
            page = visit(browser, server, f"/c/{session.id}")
            page.evaluate(f"() => document.getElementById('m{WATCHED}').scrollIntoView({{ block: 'center' }})")
            page.wait_for_timeout(500)
            looks, jumps, clicks = 0, 0, 0
            with writing(path, session.id, "ab", seconds) as running:
                at = None
                while any(one.poll() is None for one in running):
                    top = page.evaluate(f"() => document.getElementById('m{WATCHED}').getBoundingClientRect().top")
                    looks += 1
                    jumps += at is not None and abs(top - at) > 1
                    at = top
                    if looks % 40 == 0 and page.locator(".new").is_visible():
                        page.locator(".new a").click()  # the reader goes to the new ones, and comes back
                        page.wait_for_timeout(200)
                        page.evaluate(
                            f"() => document.getElementById('m{WATCHED}').scrollIntoView({{ block: 'center' }})"
                        )
                        page.wait_for_timeout(300)
                        at, clicks = None, clicks + 1
                    page.wait_for_timeout(100)
                wrote = sum(int(one.communicate()[0]) for one in running)
            stored = [node.id for node in session.refresh().path()]
            assert len(stored) == 40 + wrote
            until = time.monotonic() + 30
            while time.monotonic() < until and shown(page) != stored:
                if page.locator(".new").is_visible():
                    page.locator(".new a").click()
                page.wait_for_timeout(200)
            assert shown(page) == stored
            numbers = page.evaluate("() => [...document.querySelectorAll('#messages .msg')].map(m => m.id)")
            assert numbers == [f"m{number}" for number in range(1, len(stored) + 1)]
            assert page.problems == []
            page.context.close()
            return {"written": wrote, "looks": looks, "jumps": jumps, "clicks": clicks}


def shown(page: Any) -> list[str]:
    """The ids of the messages on the page, in their order."""
    found: list[str] = page.evaluate("() => [...document.querySelectorAll('#messages .msg')].map(m => m.dataset.id)")
    return found


def test_a_reader_beside_two_writers(browser: Any, tmp_path: Path) -> None:
    """For some seconds: every message appears once, in order; what is read stays where it is."""
    seen = watch(browser, tmp_path / "a.db", 6)
    assert seen["jumps"] == 0
    assert seen["written"] > 10


def test_more_messages_than_a_window(browser: Any, tmp_path: Path) -> None:
    """A reader who comes back to hundreds of new messages gets each of them, a window at a time."""
    path = tmp_path / "a.db"
    with clew.open(path) as store:
        session = store.sessions.create(title="Live")
        session.append([clew.user(f"old {number}") for number in range(5)])
        server = Server(lambda _: clew.open(path), listen(0))
        with server.in_background():
            page = visit(browser, server, f"/c/{session.id}")
            session.append([clew.user(f"new {number}") for number in range(WINDOW * 2 + 7)])
            page.locator("[data-count]", has_text=f"{WINDOW * 2 + 7} new messages").wait_for()
            stored = [node.id for node in session.path()]
            for _ in range(50):
                if shown(page) == stored:
                    break
                page.locator(".new a").click()
                page.wait_for_timeout(200)
            assert shown(page) == stored
            page.locator(".new").wait_for(state="hidden")
            page.context.close()


@pytest.mark.soak
def test_five_minutes(browser: Any, tmp_path: Path) -> None:
    """The same for five minutes, with the reader going to the new messages now and then."""
    seen = watch(browser, tmp_path / "a.db", 300)
    print(seen)
    assert seen["jumps"] == 0
    assert seen["clicks"] > 10
