"""The command line, with a store on a server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path


def clew(*args: str, home: Path, typed: str = "") -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("CLEW_", "PG"))}
    environ |= {"HOME": str(home), "XDG_DATA_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-m", "clew", *args], input=typed, capture_output=True, text=True, env=environ, timeout=60
    )


def completed(line: str, home: Path) -> list[str]:
    """What a shell is offered at the end of a line."""
    environ = {"_CLEW_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()))}
    environ |= {"HOME": str(home), "XDG_DATA_HOME": str(home), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.run([sys.executable, "-m", "clew"], capture_output=True, text=True, env=environ, timeout=60)
    return [item.partition(",")[2] for item in done.stdout.splitlines() if item]


def test_commands_take_a_url(tmp_path: Path, url: str) -> None:
    """What is appended by one command is shown, found and checked by others, and copied into a file."""
    missing = clew("ls", "--db", url, home=tmp_path)
    assert (missing.returncode, "not found" in missing.stderr) == (3, True), missing.stderr
    made = clew("append", "--db", url, home=tmp_path, typed='{"role": "user", "text": "Why does it fail?"}\n')
    assert made.returncode == 0, made.stderr
    (session,) = json.loads(clew("ls", "--db", url, "--json", home=tmp_path).stdout)["sessions"]
    assert "Why does it fail?" in clew("search", "--db", url, "fail", home=tmp_path).stdout
    assert clew("verify", "--db", url, home=tmp_path).returncode == 0
    looked = clew("doctor", "--db", url, home=tmp_path)
    assert (looked.returncode, "on a server" in looked.stdout) == (0, True), looked.stderr
    assert session["handle"] in completed(f"clew --db {url} show ", home=tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        port = silent.getsockname()[1]
        assert completed(f"clew --db postgresql://127.0.0.1:{port}/chats show ", home=tmp_path) == []
        assert time.monotonic() - began < 20
    file = tmp_path / "copy.db"
    copied = clew("copy", url, str(file), "--json", home=tmp_path)
    assert copied.returncode == 0, copied.stderr
    assert json.loads(copied.stdout)["target"] == str(file)
    refused = clew("copy", url, str(file), home=tmp_path)
    assert refused.returncode == 1
    assert "already contains a store" in refused.stderr
