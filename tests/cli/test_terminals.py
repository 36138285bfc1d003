"""Every command at every kind of terminal: colour, width, pipes that close, and stored text that would command it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.checkpoints import Checkpoints
from clew.engine.node import node_row
from clew.store.parts import Parts
from tests.cli.conftest import Run, leaves
from tests.cli.test_program import COMMANDING, HOSTILE, on_a_terminal
from tests.cli.test_wrong_key import arguments, stdin

LEAVES = leaves()
OWN = {"tour", "mcp", "export", "serve", "open"}
"""`tour` shows a store of its own; `mcp` speaks to programs; `export` writes files, which must be exact; `serve` and
`open` do not end, and show the store elsewhere."""
READS = ("ls", "tree", "show", "search", "receipts", "audit", "verify", "quarantine ls", "config show", "help")
"""Commands that only look, and have something to say about what is stored."""
_SGR = re.compile("\x1b\\[[0-9;]*m")


class Hostile:
    """A store in which everything that can hold text would command a terminal that obeyed."""

    def __init__(self, path: Path, work: Path) -> None:
        work.mkdir()
        self.path, self.work = path, work
        with clew.open(path, audit=True) as store:
            session = store.sessions.create(
                title=HOSTILE, cwd=f"/src/{HOSTILE}", model=HOSTILE, labels=[HOSTILE], extra={HOSTILE: HOSTILE}
            )
            node = session.append(clew.user(f"lint {HOSTILE}", label=HOSTILE, extra={HOSTILE: HOSTILE}))
            call = clew.ToolCall(id=HOSTILE, name=HOSTILE, arguments={HOSTILE: HOSTILE})
            session.append(clew.assistant(clew.Thinking(text=HOSTILE), call, model=HOSTILE))
            session.append(clew.tool(HOSTILE, call_id=HOSTILE, is_error=True))
            session.append(clew.native("other", b'{"role": "user", "content": "\\u001b[2J\\u009b31m"}'))
            media = session.attach(b"x", mime_type=HOSTILE, modality="image", name=HOSTILE)
            session.append(clew.user(media, clew.Opaque(kind=HOSTILE, data={HOSTILE: HOSTILE})))
            trace = store.sessions.create(agent=HOSTILE, owner=session, title=HOSTILE)
            trace.append(clew.user(HOSTILE))
            session.rewind(node.id)
            session.append(clew.assistant(HOSTILE))
            held = store.sessions.create(title=HOSTILE)
            held.append(clew.user(HOSTILE))
            held.hold(HOSTILE)
            gone = store.sessions.create(title=HOSTILE)
            gone.append(clew.user(HOSTILE))
            gone.trash()
            store.sessions.purge(store.sessions.create(title=HOSTILE).id)
            spoiled = store.sessions.create(title=HOSTILE).append(clew.user(HOSTILE))
            Parts.of(store).engine.write(
                lambda tx: tx.maintenance.set_bodies("nodes", [(b"spoiled", node_row(spoiled)[0])])
            )
            store.quarantine.sweep(force=True)
            self.session, self.node, self.trashed, self.spoiled = session.id, node.id, gone.id, spoiled.id
            self.snapshot = store.snapshots.take(held, system_prompt=HOSTILE).id
            self.loose = store.nodes.save(clew.user(HOSTILE))[0].id
            checkpoints = Checkpoints(session, work)
            checkpoints.capture(node.id, [f"{HOSTILE}.txt"])
            checkpoints.rewind(node.id)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Hostile, Path]:
    """One such store, made once, and a copy of its folder."""
    folder = tmp_path_factory.mktemp("hostile") / "place"
    folder.mkdir()
    made = Hostile(folder / "hostile.db", folder / "work")
    (made.work / "new.key").write_bytes(b"n" * 32)
    (made.work / "new.key").chmod(0o600)
    return made, Path(shutil.copytree(folder, folder.with_name("copy"), symlinks=True))


@pytest.fixture
def hostile(prepared: tuple[Hostile, Path]) -> Hostile:
    """The store as it was made, at the place where it was made: its checkpoints know the path."""
    made, copy = prepared
    shutil.rmtree(made.path.parent)
    shutil.copytree(copy, made.path.parent, symlinks=True)
    return made


def line(name: str, hostile: Hostile) -> list[str]:
    """A command line that the command carries out on the store."""
    args = arguments(name, LEAVES[name], hostile, hostile.work)  # type: ignore[arg-type]
    return [*args, "--key-file", str(hostile.work / "new.key")] if name == "key seal" else args


@pytest.mark.parametrize("name", sorted(LEAVES.keys() - OWN))
def test_no_command_lets_stored_text_reach_the_terminal(name: str, clew_cli: Run, hostile: Hostile) -> None:
    """Whatever is stored, nothing but text and line breaks comes out, on stdout and on stderr, in each form."""
    said = ""
    forms: list[tuple[list[str], dict[str, str]]] = [([], {}), ([], {"FORCE_COLOR": "1"})]
    if "--json" in {flag for param in LEAVES[name].params for flag in param.opts}:
        forms += [(["--json"], {}), (["--jsonl"], {})]
    for form, env in forms:
        done = clew_cli(*line(name, hostile), *form, input=stdin(name), env={"CLEW_DB": str(hostile.path), **env})
        shown = _SGR.sub("", done.out + done.err) if env else done.out + done.err
        assert not COMMANDING.search(shown), (form, env, shown)
        said += shown
    assert "\\x1b" in said or "\\u001b" in said or name not in (*READS[:4], "fork", "rm", "trash restore", "hold add")


@pytest.mark.parametrize("form", ["jsonl", "markdown", "html"])
def test_an_export_on_a_terminal_is_escaped(form: str, hostile: Hostile) -> None:
    """What goes to a file is exact; what goes to a screen does not command it."""
    env = {"TERM": "dumb", "CLEW_DB": str(hostile.path)}
    _, screen = on_a_terminal("export", hostile.session, "--as", form, env=env)
    assert "lint" in screen
    assert not COMMANDING.search(screen.replace("\r\n", "\n"))


@pytest.mark.parametrize("name", READS)
def test_colour_and_width_are_as_asked_for(name: str, clew_cli: Run, hostile: Hostile) -> None:
    """NO_COLOR forbids, FORCE_COLOR asks, and NO_COLOR counts; COLUMNS says how wide a table may be."""
    args = line(name, hostile)

    def shown(**env: str) -> str:
        done = clew_cli(*args, env={"CLEW_DB": str(hostile.path), **env})
        return done.out + done.err

    assert "\x1b" not in shown()
    assert "\x1b" not in shown(FORCE_COLOR="1", NO_COLOR="1")
    if name not in ("help", "receipts"):  # which say all in plain letters
        assert "\x1b[" in shown(FORCE_COLOR="1")
    if name in ("ls", "search"):
        assert max(map(len, shown(COLUMNS="50").splitlines())) <= 50


@pytest.mark.parametrize("name", ["ls", "tree", "verify", "search"])
def test_a_dumb_terminal_gets_no_escapes(name: str, hostile: Hostile) -> None:
    """Neither colour nor progress."""
    code, screen = on_a_terminal(
        *line(name, hostile), env={"TERM": "dumb", "CLEW_DB": str(hostile.path), "CLEW_TIMEOUT": "5"}
    )
    assert code in (0, 7)
    assert "\x1b" not in screen


def test_progress_is_for_terminals_that_can_write_over_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a dumb one there is none."""
    from clew.cli.output import progress

    for term, on in (("dumb", False), ("xterm", True)):
        monkeypatch.setenv("TERM", term)
        monkeypatch.setattr(progress, "is_terminal", lambda _: True)
        assert progress.ProgressLine("x")._on is on


@pytest.mark.parametrize("name", READS)
def test_a_pipe_that_closes_is_no_error(name: str, hostile: Hostile) -> None:
    """Whoever reads may leave before the first line: the command ends without a word."""
    args = line(name, hostile)
    read, write = os.pipe()
    os.close(read)
    env = {**os.environ, "CLEW_DB": str(hostile.path)}
    with os.fdopen(write, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "clew", *args], stdout=pipe, stderr=subprocess.PIPE, env=env, text=True, timeout=60
        )
    assert done.returncode == 141
    assert [line for line in done.stderr.splitlines() if "damaged" not in line] == []
