"""`clew serve` and `clew open`: prints the URL, picks a port, ends on Ctrl-C, names what is missing."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlencode

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


def test_a_running_server_gives_another_url(path: Path) -> None:
    """--url prints one that works once, for this store and as long as the server runs."""
    clew.open(path).close()
    env = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    env["HOME"] = str(path.parent)
    ask = [sys.executable, "-m", "clew", "serve", "--url", "--db"]
    running, first = start(path, "serve", "--port", "0")
    try:
        url = subprocess.run([*ask, str(path)], env=env, capture_output=True, text=True, check=True).stdout.strip()
        other = subprocess.run([*ask, f"{path}2"], env=env, capture_output=True, text=True, check=False)
        assert (other.returncode, other.stdout) == (3, "")
        assert url.split("?")[0] == first.split("?")[0]
        port, query = int(url.split(":")[2].partition("/")[0]), url.partition("enter")[2]
        found = []
        for _ in range(2):
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
                connection.request("GET", f"/enter{query}")
                found.append(connection.getresponse().status)
        assert found == [303, 401]
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=10)
    assert subprocess.run([*ask, str(path)], env=env, capture_output=True, check=False).returncode == 3


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
    """In an incomplete installation, the message says what to install."""
    for name in [name for name in sys.modules if name.startswith("clew.web")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = clew_cli("serve")
    assert done.code == 1
    assert done.err == "clew: the web page needs the package uvicorn\n  hint: Run: pip install uvicorn\n"


def connect(url: str, path: str, cookie: str = "", body: bytes | None = None) -> http.client.HTTPConnection:
    """Asks a running server; with a body, as its own page would post a form."""
    base = url.partition("/enter")[0]
    connection = http.client.HTTPConnection(base.removeprefix("http://"), timeout=20)
    headers = {"Cookie": cookie} if cookie else {}
    if body is not None:
        headers |= {"Origin": base, "Content-Type": "application/x-www-form-urlencoded"}
    connection.request("GET" if body is None else "POST", path, body, headers)
    return connection


def ask(url: str, path: str, cookie: str = "", body: bytes | None = None) -> tuple[int, bytes]:
    """The status and the body of an answer."""
    with closing(connect(url, path, cookie, body)) as connection, connection.getresponse() as answer:
        return answer.status, answer.read()


def enter(url: str) -> str:
    """Uses the printed URL; returns the cookie."""
    with closing(connect(url, "/enter" + url.partition("/enter")[2])) as connection, connection.getresponse() as answer:
        return answer.headers["Set-Cookie"].partition(";")[0]


def test_it_ends_beside_open_streams_and_a_search(path: Path) -> None:
    """Ctrl-C neither waits for pages that follow a conversation, nor for an index, and says nothing of them."""
    with clew.open(path) as store:
        session = store.sessions.create(title="Served")
        session.append([clew.user(f"message {n} " + "word " * 50) for n in range(20_000)])
    running, url = start(path, "serve", "--port", "0")
    cookie = enter(url)
    with ExitStack() as stack:
        for _ in range(3):
            connection = stack.enter_context(closing(connect(url, f"/c/{session.id}/events", cookie)))
            stack.enter_context(connection.getresponse()).readline()
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=10)
    assert "Traceback" not in errors
    assert "ERROR" not in errors
    assert running.returncode == 130


def test_another_port_if_its_own_is_taken(path: Path) -> None:
    """Without --port the next free one is used; a port that was asked for is not replaced."""
    clew.open(path).close()
    with closing(socket.socket()) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 8765))
        except OSError:
            pass  # somebody else has it: the same for us
        else:
            taken.listen()
        running, url = start(path, "serve")
        port = int(url.split(":")[2].partition("/")[0])
        assert port > 8765
        refused, line = start(path, "serve", "--port", str(port))
        assert line == ""
        assert f"port {port} of 127.0.0.1 cannot be used" in refused.communicate(timeout=20)[1]
        assert refused.returncode == 5
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=10)


def test_a_browser_is_opened_on_a_terminal_of_this_machine(path: Path, tmp_path: Path) -> None:
    """Not off a terminal, not over SSH, not with --no-browser."""
    import pty

    clew.open(path).close()
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {seen}\n')
    browser.chmod(0o700)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("CLEW_", "SSH_"))}
    env |= {"BROWSER": f"{browser} %s", "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "clew", "serve", "--port", "0", "--db", str(path)]

    def opened(*args: str, terminal: bool = True, **more: str) -> int:
        seen.unlink(missing_ok=True)
        ours, theirs = pty.openpty() if terminal else os.pipe()
        running = subprocess.Popen(
            [*command, *args], stdout=theirs, stderr=subprocess.PIPE, text=True, env={**env, **more}
        )  # fmt: skip
        os.close(theirs)
        assert running.stderr is not None
        while "Ctrl+C" not in running.stderr.readline():
            pass
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=10)
        os.close(ours)
        return len(seen.read_text().splitlines()) if seen.exists() else 0

    assert opened() == 1
    assert "/enter?token=" in seen.read_text()
    assert opened("--no-browser") == 0
    assert opened(SSH_CONNECTION="a b c d") == 0
    assert opened(terminal=False) == 0


def test_nothing_of_a_sealed_store_reaches_the_disk(tmp_path: Path) -> None:
    """Unlocked on the page, read, searched and exported: no word and no key is in any file, also after a kill."""
    folder = tmp_path / "all"
    folder.mkdir()
    path, words, passphrase = folder / "a.db", b"canaryword", "canary passphrase"
    with clew.open(path, key=clew.keys.from_passphrase(passphrase)) as store:
        session = store.sessions.create(title="canaryword title", labels=["canaryword"], cwd=str(folder))
        media = session.attach(
            b"\x89PNG\r\n\x1a\n canaryword", mime_type="image/png", modality="image", name="canaryword"
        )
        session.append([clew.user("canaryword text"), clew.user(media)])
    before = {key: os.environ.get(key) for key in ("TMPDIR",)}
    os.environ["TMPDIR"] = str(folder)  # what the server writes elsewhere lands here
    try:
        running, url = start(path, "serve", "--port", "0", "--allow-write")
    finally:
        os.environ.pop("TMPDIR")
        os.environ |= {key: value for key, value in before.items() if value is not None}
    cookie = enter(url)
    status, page = ask(url, "/", cookie)
    assert status == 423
    token = re.search(r'name="token" value="([^"]+)"', page.decode())
    assert token is not None
    form = urlencode({"key": passphrase, "token": token[1]}).encode()
    assert ask(url, "/unlock", cookie, form)[0] == 303
    here = f"/c/{session.id}"
    for asked in ("/", here, f"{here}.json", f"{here}/export/html", f"{here}/export/jsonl", f"{here}?find=canaryw",
                  f"{here}/blob/{media.blob}", "/search?q=canaryword", "/search.json?typing=1&q=canary"):  # fmt: skip
        assert words in ask(url, asked, cookie)[1], asked
    look_for(folder, words, passphrase.encode())
    running.kill()
    running.communicate(timeout=10)
    look_for(folder, words, passphrase.encode())


def look_for(folder: Path, *wanted: bytes) -> None:
    files = [one for one in folder.rglob("*") if one.is_file()]
    assert files
    for one in files:
        content = one.read_bytes()
        for words in wanted:
            assert words not in content, one
            assert words not in os.fsencode(one.name)
