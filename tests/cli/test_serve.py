"""`clew serve` and `clew open`: prints the URL, picks a port, ends on Ctrl-C, names what is missing."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import clew


def start(path: Path, *args: str) -> tuple[subprocess.Popen[str], str]:
    """A running server, and the line it printed."""
    command = [sys.executable, "-m", "clew", *args, "--no-browser", "--db", str(path)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**env, "HOME": str(path.parent), "SSH_CONNECTION": "a b c d"},
    )  # fmt: skip
    assert running.stdout is not None
    return running, running.stdout.readline().strip()


def test_it_serves_until_it_is_interrupted(path: Path) -> None:
    """The URL works once and leads to the conversation; over SSH the way there is said; Ctrl-C ends it."""
    with clew.open(path) as store:
        session = store.sessions.create(title="Served")
        node = session.append(clew.user("Hello"))
    for args, to in ((["serve"], "/"), (["open", session.id], f"/c/{session.id}"), (["open", node.id], "/m/")):
        running, url = start(path, *args, "--port", "0")
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/enter\?token=[\w-]+&to=(.*))", url)
        assert found is not None, url
        assert to in found[3]
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=10)
        connection.request("GET", found[2])
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Location"]) == (303, found[3])
        connection.close()
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=10)
        assert "ssh -L" in errors
        assert "Traceback" not in errors


def test_a_sealed_store_is_not_asked_for_on_the_terminal(path: Path) -> None:
    """Without a key the server starts, and the page asks."""
    with clew.open(path, key=clew.keys.generate()) as store:
        store.sessions.create(title="Sealed")
    running, url = start(path, "serve", "--port", "0")
    port, query = int(url.split(":")[2].partition("/")[0]), url.partition("enter")[2]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", f"/enter{query}")
    answer = connection.getresponse()
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    answer.read()
    connection.request("GET", "/", headers={"Cookie": cookie})
    page = connection.getresponse()
    assert page.status == 423
    assert b"This store is sealed" in page.read()
    connection.close()
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=10)


def test_a_missing_package_is_named(clew_cli, monkeypatch) -> None:
    """Without the extra, the message says how to install it."""
    for name in [name for name in sys.modules if name.startswith("clew.web")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = clew_cli("serve")
    assert done.code == 1
    assert "pip install 'clew[web]'" in done.err
