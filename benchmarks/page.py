"""The web page in Chromium: long conversations, many sessions, and ten minutes in which nothing happens."""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import clew
from benchmarks.bench import Bench, messages
from benchmarks.browser import Serving, Tab, lacking, serving
from benchmarks.importing import _write_logs
from benchmarks.measure import Figure, missing
from benchmarks.terminal import _talks

FIRST, JUMP, TYPED, TASK, HEAP = 500, 300, 150, 200, 150
"""Targets in milliseconds and megabytes."""
QUIET = 5.0
"""Seconds without a page in which the server must not wake up."""
WARM = 150
"""Windows that fill the cache of rendered messages."""


def page(bench: Bench) -> Iterator[Figure]:
    """Reading, jumping and typing in Chromium; the server's memory; ten idle minutes; beside claude-code-log."""
    why = lacking()
    if why is not None:
        yield missing("page", why)
        return
    from tools.screenshots import browser as chromium

    long = bench.once("page long", lambda: _long(bench))
    with ExitStack() as stack:
        browser = stack.enter_context(chromium())
        idle = stack.enter_context(_idle(bench, browser, long))
        for length, session, running in _each_length(bench, stack, long):
            yield from _conversation(bench, browser, running, session, length)
        yield from _sessions(bench, browser)
        yield _memory(bench, long)
        yield _no_page(long)
        if bench.peers:
            yield from _beside(bench, browser)
        yield from idle


def _long(bench: Bench) -> tuple[str, dict[int, str]]:
    """A store with a conversation of each length."""
    path = bench.file(bench.disk)
    found = {}
    with clew.open(path, durability="relaxed") as store:
        for length in sorted({bench.sizes.long // 10, bench.sizes.long}):
            session = store.sessions.create(title=f"{length:,} messages", cwd="/src/app")
            said = messages(length)
            for start in range(0, length, 10_000):
                session.append(said[start : start + 10_000])
            found[length] = session.id
    return path, found


def _each_length(
    bench: Bench, stack: ExitStack, long: tuple[str, dict[int, str]]
) -> Iterator[tuple[int, str, Serving]]:
    path, found = long
    running = stack.enter_context(serving(path))
    running.json("/search.json?q=zephyr")  # until then it indexes
    for length, session in found.items():
        yield length, session, running


def _conversation(bench: Bench, browser: Any, running: Serving, session: str, length: int) -> Iterator[Figure]:
    name, chance = f"page, {length:,} messages", random.Random(3)
    rounds = max(3, bench.sizes.rounds // 3)
    with closing(Tab(browser, running)) as tab:
        tab.visit(f"/c/{session}")  # styles and scripts
        windows = [f"/c/{session}?from={chance.randrange(length)}" for _ in range(rounds)]
        yield from _visits(f"{name}: first content", tab, running, windows, FIRST)
        numbers = [1, length, *(chance.randrange(1, length + 1) for _ in range(rounds))]
        nodes = [running.json(f"/c/{session}.json?from={number}")["messages"][0]["id"] for number in numbers]
        yield from _visits(f"{name}: jump", tab, running, [f"/c/{session}/m/{node}" for node in nodes], JUMP)
        tab.scroll(10)
        yield _typing(name, tab, "harbour ab")
        yield from _limits(name, tab)


def _sessions(bench: Bench, browser: Any) -> Iterator[Figure]:
    count = bench.sizes.sessions
    path = bench.once(f"talks {count}", lambda: _talks(bench, count))
    name = f"page, {count:,} sessions"
    with serving(path) as running, closing(Tab(browser, running)) as tab:
        running.json("/search.json?q=zephyr")  # until then it indexes
        tab.visit("/")
        yield from _visits(f"{name}: first content", tab, running, ["/"] * max(3, bench.sizes.rounds // 3), FIRST)
        yield _typing(name, tab, "harbour light 12")
        yield from _limits(name, tab)


def _visits(name: str, tab: Tab, running: Serving, paths: list[str], at_most: float) -> Iterator[Figure]:
    """The time until the message is on the screen, and the processor time, which a busy machine does not change."""
    tab.work.clear()
    before = running.processor_time()
    took = [tab.visit(path) for path in paths]
    server = (running.processor_time() - before) * 1000 / len(paths)
    detail = f"{len(took)} times, from {min(took):.0f} to {max(took):.0f} ms"
    yield Figure(name, statistics.median(took), " ms", at_most=at_most, detail=detail)
    shown = statistics.mean(tab.work)
    detail = f"server {server:.0f} ms, main thread of the page {shown:.0f} ms"
    yield Figure(f"{name}, processor time", server + shown, " ms", at_most=at_most, detail=detail)


def _typing(name: str, tab: Tab, words: str) -> Figure:
    took = tab.type(words)
    detail = (
        f"{len(took)} keys, from {min(took):.0f} to {max(took):.0f} ms, of which the page waits 60 ms for more keys"
    )
    return Figure(f"{name}: results while typing", statistics.median(took), " ms", at_most=TYPED, detail=detail)


def _limits(name: str, tab: Tab) -> Iterator[Figure]:
    yield Figure(f"{name}: longest task", tab.longest, " ms", at_most=TASK)
    yield Figure(f"{name}: heap", tab.heap, " MB", at_most=HEAP)


def _memory(bench: Bench, long: tuple[str, dict[int, str]]) -> Figure:
    """The growth of the server's memory by many requests, once its cache is full."""
    path, found = long
    length, chance = max(found), random.Random(4)

    def ask(times: int) -> None:
        for _ in range(times):
            running.ask(f"/c/{found[length]}?from={chance.randrange(length)}")
            running.ask("/")
            running.ask(f"/search.json?typing=1&q={chance.choice('abcdefgh')}")

    with serving(path) as running:
        ask(min(WARM, length))
        before = running.memory()
        more = 10 * bench.sizes.rounds
        ask(more)
        after = running.memory()
    detail = f"from {before:.0f} MB to {after:.0f} MB in {3 * more:,} requests"
    return Figure("page: the server's memory", after / before, at_most=1.1, detail=detail)


def _no_page(long: tuple[str, dict[int, str]]) -> Figure:
    with serving(long[0]) as running:
        running.json("/search.json?q=zephyr")
        time.sleep(2)
        before = running.switches()
        time.sleep(QUIET)
        woken = running.switches() - before
    return Figure("page: no page open, wakes", woken, "", at_most=0, detail=f"of all threads in {QUIET:.0f} s")


@contextmanager
def _idle(bench: Bench, browser: Any, long: tuple[str, dict[int, str]]) -> Iterator[Iterator[Figure]]:
    """Opens a page and leaves it alone while the rest is measured; the figure comes at the end."""
    path, found = long
    with serving(path) as running, closing(Tab(browser, running)) as tab:
        running.json("/search.json?q=zephyr")
        length = max(found)
        tab.visit(f"/c/{found[length]}?from={length - 10}#m{length}")
        time.sleep(2)
        start, before = time.monotonic(), running.processor_time()

        def figure() -> Iterator[Figure]:
            tab.page.wait_for_timeout(max(0.0, bench.sizes.idle - (time.monotonic() - start)) * 1000)
            took, used = time.monotonic() - start, running.processor_time() - before
            detail = f"{used:.3f} s in {took:.0f} s" + ("" if took >= 600 else f", times {600 / took:.1f}")
            yield Figure("page: ten idle minutes with a page open", used * 600 / took, " s", at_most=0.2, detail=detail)

        yield figure()


def _beside(bench: Bench, browser: Any) -> Iterator[Figure]:
    """The largest conversation of the same Claude Code logs, in clew and in claude-code-log."""
    name = "page: largest conversation"
    theirs = shutil.which(
        "claude-code-log", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    )
    folder = os.path.join(bench.disk, "page-logs", "projects", "p")
    _write_logs(folder, 1, bench.sizes.long * 200)
    path = bench.file(bench.disk)
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "clew", "--db", path, "import", "--yes", folder], check=True, capture_output=True
    )
    imported = time.perf_counter() - began
    with serving(path) as running, closing(Tab(browser, running)) as tab:
        row = running.json("/conversations.json")["conversations"][0]
        tab.visit("/")
        tab.bytes = 0
        shown = tab.visit(f"/c/{row['id']}")
        detail = f"{row['messages']:,} messages of {bench.sizes.long * 200 / 1e6:.0f} MB; imported in {imported:.1f} s"
        sent = tab.bytes
    others = {"claude-code-log": "not installed"} if theirs is None else _theirs(browser, theirs, folder)
    yield Figure(f"{name}, opened", shown, " ms", at_most=FIRST, detail=detail, peers=others)
    yield Figure(f"{name}, sent", sent / 1e6, " MB")


def _theirs(browser: Any, program: str, folder: str) -> dict[str, str]:
    began = time.perf_counter()
    subprocess.run([program, folder], check=True, capture_output=True, cwd=folder)
    made = time.perf_counter() - began
    pages = [name for name in os.listdir(folder) if name.startswith("session-") and name.endswith(".html")]
    largest = max(pages, key=lambda name: os.path.getsize(os.path.join(folder, name)))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with closing(Tab(browser)) as tab:
            shown = tab.visit(f"http://127.0.0.1:{server.server_port}/{largest}")
            loaded = tab.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    finally:
        server.shutdown()
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    words = f"made in {made:.1f} s; shown after {shown:,.0f} ms, loaded after {loaded:,.0f} ms, "
    words += f"{tab.bytes / 1e6:.1f} MB sent, heap {tab.heap:.0f} MB, longest task {tab.longest:,.0f} ms"
    return {f"claude-code-log {version}": words}


class _Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *_: Any) -> None:
        pass
