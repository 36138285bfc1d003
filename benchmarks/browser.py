"""A running `clew serve`, and Chromium with a stopwatch inside its pages."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

STOPWATCH = """
(() => {
  const seen = window.clewBench = { shown: 0, long: 0, typed: 0, answered: 0 };
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) seen.long = Math.max(seen.long, one.duration);
  }).observe({ type: "longtask", buffered: true });
  const look = () => {
    const name = location.hash.slice(1);
    const wanted = name ? document.getElementById(name) : document.querySelector(".msg, .row, .message");
    const box = wanted?.getBoundingClientRect();
    if (box?.height && (!name || (box.bottom > 0 && box.top < innerHeight))) {
      requestAnimationFrame(() => { seen.shown = performance.now(); });
    } else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})();
"""
"""Notes when the first message, or the one in the URL, was on the screen, and the longest task."""
TYPING = """
() => {
  const seen = window.clewBench;
  addEventListener("input", () => { seen.typed = performance.now(); }, true);
  new MutationObserver(() => { requestAnimationFrame(() => { seen.answered = performance.now(); }); })
    .observe(document.getElementById("hits"), { childList: true, subtree: true });
}
"""
"""Notes when a key was pressed in the search box, and when results were on the screen."""


def lacking() -> str | None:
    """Why the page cannot be measured; None if it can."""
    if shutil.which("chromium") is None:
        return "chromium is not installed"
    try:
        import playwright
        import uvicorn
    except ImportError as error:
        return f"{error.name} is not installed"
    del playwright, uvicorn
    return None


class Serving:
    """A running `clew serve` with the cookie of its page."""

    def __init__(self, path: str) -> None:
        env = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
        command = [sys.executable, "-m", "clew", "--db", path, "serve", "--port", "0", "--no-browser"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
        )  # fmt: skip
        assert self._process.stdout is not None
        url = self._process.stdout.readline().strip()
        self.base = url.partition("/enter")[0]
        self.port = int(self.base.rpartition(":")[2])
        self.cookie = self.ask(url.removeprefix(self.base), whole=True).headers["Set-Cookie"].partition(";")[0]

    def ask(self, path: str, *, whole: bool = False) -> Any:
        """The body of an answer, or the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("GET", path, headers={} if whole else {"Cookie": self.cookie})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer if whole else body

    def json(self, path: str) -> Any:
        return json.loads(self.ask(path))

    def processor_time(self) -> float:
        """Seconds of processor time that all threads have used, also those that have ended."""
        fields = self._of(str(self._process.pid), "../../stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def switches(self) -> int:
        """How often a thread began to run."""
        lines = [line for task in self._tasks() for line in self._of(task, "status").splitlines()]
        return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)

    def memory(self) -> float:
        """Megabytes in memory."""
        found = [line for line in self._of(str(self._process.pid), "status").splitlines() if line.startswith("VmRSS")]
        return int(found[0].split()[1]) / 1000

    def close(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=10)  # also closes the pipe

    def _tasks(self) -> list[str]:
        return os.listdir(f"/proc/{self._process.pid}/task")

    def _of(self, task: str, name: str) -> str:
        with open(f"/proc/{self._process.pid}/task/{task}/{name}", encoding="utf-8") as file:
            return file.read()


@contextmanager
def serving(path: str) -> Iterator[Serving]:
    """A server of the page for a store."""
    running = Serving(path)
    try:
        yield running
    finally:
        running.close()


class Tab:
    """A tab of Chromium with the stopwatch."""

    def __init__(self, browser: Any, serving: Serving | None = None) -> None:
        self._context = browser.new_context(viewport={"width": 1440, "height": 900})
        if serving is not None:
            name, _, value = serving.cookie.partition("=")
            self._context.add_cookies([{"name": name, "value": value, "domain": "127.0.0.1", "path": "/"}])
        self._context.add_init_script(STOPWATCH)
        self.base = serving.base if serving is not None else ""
        self.page = self._context.new_page()
        self._tools = self._context.new_cdp_session(self.page)
        self._tools.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._tools.send("Network.enable")
        self._tools.on("Network.loadingFinished", self._received)
        self.bytes = 0
        self.longest = self.heap = 0.0
        self.work: list[float] = []
        """Milliseconds of processor time of the page's main thread, for each visit."""

    def _received(self, event: Any) -> None:
        self.bytes += int(event["encodedDataLength"])

    def visit(self, path: str) -> float:
        """Opens a page; milliseconds until the message was on the screen."""
        self.page.goto("about:blank")
        self.page.goto(self.base + path, timeout=300_000)
        self.page.wait_for_function("() => window.clewBench.shown", timeout=300_000)
        shown = float(self.page.evaluate("window.clewBench.shown"))
        self.work.append(self._metrics()["TaskDuration"] * 1000)
        self.note()
        return shown

    def type(self, words: str) -> list[float]:
        """Types into the search box, letter by letter; milliseconds from each key to its results."""
        took = []
        self.page.evaluate(TYPING)
        self.page.keyboard.press("/")
        for letter in words:
            self.page.keyboard.type(letter)
            if letter == " ":  # the same query
                self.page.wait_for_timeout(200)
                continue
            self.page.wait_for_function("() => window.clewBench.answered > window.clewBench.typed", timeout=60_000)
            took.append(float(self.page.evaluate("window.clewBench.answered - window.clewBench.typed")))
        self.note()
        return took

    def scroll(self, times: int) -> None:
        """Scrolls to the end again and again."""
        for _ in range(times):
            self.page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
            self.page.wait_for_timeout(100)
        self.note()

    def note(self) -> None:
        """Reads the longest task and the heap of the page."""
        self.page.wait_for_timeout(100)
        self.longest = max(self.longest, float(self.page.evaluate("window.clewBench.long")))
        self.heap = max(self.heap, self._metrics()["JSHeapUsedSize"] / 1e6)

    def _metrics(self) -> dict[str, float]:
        return {one["name"]: one["value"] for one in self._tools.send("Performance.getMetrics")["metrics"]}

    def close(self) -> None:
        self._context.close()
