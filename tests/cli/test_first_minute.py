"""The first minute: `clew` alone with nothing stored, in a home with histories of other tools and in an empty one.

The screens are kept as text: ``CLEW_RECORD=1 pytest tests/cli/test_first_minute.py`` writes them again.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from clew.cli.setup.installation import install_command, missing_sdks, requirements
from clew.sources.registry import sources
from tests.cli.conftest import Run
from tests.cli.tmux import Terminal
from tests.sources.made import SESSION, claude_line, jsonl

GOLDEN = Path(__file__).parent / "golden"
SAMPLES = Path(__file__).parents[1] / "sources" / "samples"
FOLDERS = {"codex": ".codex", "gemini-cli": ".gemini", "pi": ".pi/agent"}
"""Where the samples of these tools are in a home."""
WIDTH = 100


def fill(home: Path) -> None:
    """Puts the histories of the tools that clew reads into a home: Claude Code, and those with recorded samples."""
    folder = home / ".claude/projects/-src-app"
    folder.mkdir(parents=True)
    lines = [
        claude_line(1, None, "user", "Why does the build fail?"),
        claude_line(2, 1, "assistant", [{"type": "text", "text": "The lint step fails."}]),
        {"type": "custom-title", "customTitle": "Build fails", "sessionId": SESSION},
    ]
    (folder / f"{SESSION}.jsonl").write_bytes(jsonl(lines))
    known = {source.name for source in sources()}
    for name, place in FOLDERS.items():
        if name in known and (SAMPLES / name).is_dir():
            shutil.copytree(SAMPLES / name, home / place)


def check(name: str, screen: str, home: Path) -> None:
    """Compares a screen with the one that was kept."""
    text = screen.replace(str(home), "/home/user")
    text = re.sub(r"\b\d+ (?:days?|hours?|min) ago|just now", lambda found: "a while ago".ljust(len(found[0])), text)
    golden = GOLDEN / f"{name}-{WIDTH}.txt"
    if os.environ.get("CLEW_RECORD"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8"), f"{golden.name} is otherwise"


def in_a_home(tmp_path: Path, **env: str) -> Terminal:
    (tmp_path / "project").mkdir()
    return Terminal(WIDTH, tmp_path, {"XDG_DATA_HOME": str(tmp_path / "data"), **env})


def test_a_home_with_histories(tmp_path: Path) -> None:
    """The table, one question, and the picker with what was imported; a key without its package is no obstacle."""
    fill(tmp_path)
    with in_a_home(tmp_path, ANTHROPIC_API_KEY="sk-ant-none") as terminal:
        shown = terminal.run("clew", r"Your choice \[a\]:$")
        check("first-minute", shown, tmp_path)
        assert "Claude Code deletes conversations after 30 days" in shown
        terminal.type("a", "Enter")
        shown = terminal.shown("Build fails(.|\n)*esc quit")  # the rows come after the frame
        assert "Also: clew hook install · clew import --watch · clew chat · clew serve" in shown
        terminal.type("build")
        terminal.shown("Build fails(.|\n)*The lint step fails")
        terminal.type("Escape", "Escape")
        assert "clew chat" in terminal.shown(r"^\$$")
        assert "Build fails" in terminal.run("clew ls", r"claude-code(.|\n)*^\$$")
        terminal.run("clew", "esc quit")  # the second time it does not ask


def test_the_web_page_is_one_more_choice(tmp_path: Path) -> None:
    """It is part of the same question: all is imported, the page is served at the printed URL, until Ctrl-C."""
    fill(tmp_path)
    with in_a_home(tmp_path, BROWSER="true") as terminal:
        assert "in a browser: http://127.0.0.1:8765" in terminal.run("clew", r"Your choice \[a\]:$")
        terminal.type("w", "Enter")
        shown = terminal.shown(r"(?s)http://127\.0\.0\.1:\d+/enter.*Press Ctrl\+C to stop")
        (url,) = re.findall(r"http://\S+/enter\S+", shown)
        with build_opener(HTTPCookieProcessor()).open(url, timeout=30) as page:
            assert "Build fails" in page.read().decode()
        terminal.type("C-c")
        terminal.shown(r"^\$$")
        terminal.run("clew", "Build fails(.|\n)*esc quit")


def test_without_the_packages_of_the_page(tmp_path: Path) -> None:
    """It is not offered, and the question is one line."""
    fill(tmp_path)
    missing = tmp_path / "missing"
    missing.mkdir()
    (missing / "sitecustomize.py").write_text("import sys\nsys.modules['uvicorn'] = None\n")
    with in_a_home(tmp_path) as terminal:
        shown = terminal.run(f"PYTHONPATH={missing}:$PYTHONPATH clew", r"ot now\? \[a\]:$")
        assert "browser" not in shown


def test_not_now(tmp_path: Path) -> None:
    """Nothing is stored, and it asks again the next time."""
    fill(tmp_path)
    with in_a_home(tmp_path) as terminal:
        terminal.run("clew", r"Your choice \[a\]:$")
        terminal.type("n", "Enter")
        assert "clew import --watch" in terminal.shown(r"Nothing was imported(.|\n)*^\$$")
        terminal.run("clew", r"Your choice \[a\]:$")


def test_an_empty_home(tmp_path: Path) -> None:
    """Where it looked, and a choice: an export file, the tour, a chat."""
    export = tmp_path / "project" / "session.jsonl"
    with in_a_home(tmp_path) as terminal:
        check("first-minute-empty", terminal.run("clew", r"Your choice \[t\]:$"), tmp_path)
        terminal.type("c", "Enter")
        terminal.shown("new conversation(.|\n)*›$")
        terminal.type("C-d")
        terminal.shown(r"^\$$")
        export.write_bytes(jsonl([claude_line(1, None, "user", "From a file")]))
        terminal.run("clew", r"Your choice \[t\]:$")
        terminal.type("e", "Enter")
        terminal.shown("Path of the file:")
        terminal.type(str(export), "Enter")
        terminal.shown("From a file(.|\n)*esc quit")


def test_off_a_terminal_the_tour_ends_with_the_table(program: Run, tmp_path: Path) -> None:
    """No question, nothing stored; in an empty home it says where it looked."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    shown = program("tour").out
    assert "No histories of other tools found. Looked at ('clew sources' lists all places):" in shown
    assert "\n  Claude Code: ~/.claude/projects …\n" in shown
    fill(home)
    done = program("tour")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"^Claude Code +1 +1 +2 ", done.out, re.MULTILINE)
    assert not (tmp_path / "chats.db").exists()


@pytest.mark.parametrize(
    ("prefix", "begins"),
    [
        ("/home/me/.local/share/pipx/venvs/clew", "pipx inject clew "),
        ("/home/me/.local/share/uv/tools/clew", "uv tool install --with "),
        ("/usr", "python3 -m pip install "),
    ],
)
def test_the_command_fits_the_installation(prefix: str, begins: str) -> None:
    """pipx, uv and plain pip each have their own."""
    assert install_command("anthropic", prefix, "/usr").startswith(begins)
    assert "anthropic" in install_command("anthropic", prefix, "/usr")


def test_the_command_of_an_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own pip by a short path; uv where there is none; a tool of uv is named as it was installed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    assert install_command("anthropic", f"{tmp_path}/.venv", "/usr").startswith("uv pip install --python .venv ")
    (tmp_path / ".venv/bin/pip").touch()
    assert install_command("anthropic", f"{tmp_path}/.venv", "/usr").startswith(".venv/bin/pip install ")
    tool = tmp_path / "uv/tools/clew"
    tool.mkdir(parents=True)
    wanted = '[tool]\nrequirements = [{ name = "clew", directory = "/src/clew", extras = ["otel"] }]\n'
    (tool / "uv-receipt.toml").write_text(wanted)
    assert install_command("anthropic", str(tool), "/usr").endswith(" '/src/clew[otel]'")
    (tool / "uv-receipt.toml").write_text(wanted[:-2] + ', { name = "openai", specifier = ">=3.49" }]\n')
    both = install_command("anthropic", str(tool), "/usr")
    assert both.startswith("uv tool install --with 'openai>=3.49' --with ") and both.endswith(" '/src/clew[otel]'")
    assert requirements("anthropic")[0].startswith(("anthropic", "clew[anthropic]"))


def test_a_key_without_its_package(clew_cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chat goes on with `offline`, and one line says what to install; a named model says so, too."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-none")
    monkeypatch.setitem(sys.modules, "anthropic", None)  # as if it were not installed
    monkeypatch.setattr("clew.cli.setup.installation.find_spec", lambda name: None)
    done = clew_cli("chat", "Hello")
    assert done.code == 0
    (line,) = missing_sdks()
    assert line in done.err
    assert line.startswith("ANTHROPIC_API_KEY is set, but the package for claude is missing. Install it: ")
    done = clew_cli("chat", "-n", "-m", "sonnet", "Hello")
    assert (done.code, "Install it: " in done.err) == (1, True)


def test_claude_on_the_path_is_offered(clew_cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a model that needs no key; without it nothing is said."""
    assert "claude-local" not in clew_cli("chat", "-n", "Hello", env={"PATH": str(tmp_path)}).err
    (tmp_path / "claude").write_text("#!/bin/sh\n")
    (tmp_path / "claude").chmod(0o755)
    assert "clew chat -m claude-local" in clew_cli("chat", "-n", "Hello", env={"PATH": str(tmp_path)}).err
