"""The picker: what is typed, what is found, what keys do, and what it leaves behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

import clew
from clew.cli.picker.app import Picker, PickerResult
from clew.cli.picker.catalog import SHOWN, Catalog, repository
from clew.cli.picker.command import resume_command
from clew.cli.picker.preview import preview
from clew.sources.registry import resume_elsewhere
from tests.cli.tmux import Terminal

Act = Callable[[Picker, Pilot[PickerResult]], Awaitable[Any]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[clew.Store]:
    (tmp_path / "app/.git").mkdir(parents=True)
    (tmp_path / "app/web").mkdir()
    with clew.open(tmp_path / "chats.db") as store:
        for title, cwd in ("Holiday in Rome", "/home"), ("CSS of the page", "app/web"), ("Lint step", "app"), (
            "Build fails", "app"
        ):  # fmt: skip
            session = store.sessions.create(title=title, cwd=tmp_path / cwd, labels=["work"])
            session.append([clew.user(f"About {title}?"), clew.assistant(f"A zebra, \x1b[31m[b]not[/b] {title}")])
        yield store


def at_the_screen(store: clew.Store, cwd: Path, act: Act, *, size: tuple[int, int] = (100, 24)) -> Any:
    """Runs the picker, does something with it, and gives back what it returned."""

    async def run() -> Any:
        app = Picker(store, str(cwd))
        async with app.run_test(size=size) as pilot:
            while not app.catalog.loaded:
                await pilot.pause(0.01)
            await pilot.pause()
            await act(app, pilot)
            await pilot.pause()
        return app.return_value

    return asyncio.run(run())


async def settled(app: Picker, pilot: Pilot[PickerResult]) -> None:
    await pilot.pause()
    while not all(worker.is_finished for worker in app.workers):
        await pilot.pause(0.01)
    await pilot.pause()


def titles(app: Picker) -> list[str]:
    return [row.title for row in app._rows]


def test_letters_search_and_tab_widens(store, tmp_path):
    """First this directory, then the repository, then everything; titles first, then contents."""

    async def act(app, pilot):
        assert titles(app) == ["Build fails", "Lint step"]
        await pilot.press("tab")
        assert titles(app) == ["Build fails", "Lint step", "CSS of the page"]
        await pilot.press("tab")
        assert len(titles(app)) == 4
        await pilot.press(*"rome")
        await settled(app, pilot)
        assert titles(app) == ["Holiday in Rome"]
        await pilot.press("escape", *"zeb")
        await settled(app, pilot)
        assert sorted(titles(app)) == ["Build fails", "CSS of the page", "Holiday in Rome", "Lint step"]
        await pilot.press("escape", *"#work lint")
        assert titles(app) == ["Lint step"]
        assert app.query_one(Input).value == "#work lint"

    at_the_screen(store, tmp_path / "app", act)


def test_a_directory_without_sessions_shows_more(store, tmp_path):
    """What there is, is seen."""

    async def act(app, pilot):
        assert app.scope == "everything"
        assert len(titles(app)) == 4

    at_the_screen(store, tmp_path, act)


def test_choosing(store, tmp_path):
    """Enter goes on, Ctrl+O asks for the command, Ctrl+N begins anew, Escape leaves with nothing."""
    lint = store.sessions.list(title="Lint").items[0].id

    def press(*keys: str) -> Act:
        async def act(app, pilot):
            await pilot.press(*keys)

        return act

    assert at_the_screen(store, tmp_path / "app", press("down", "enter")) == PickerResult("resume", lint)
    assert at_the_screen(store, tmp_path / "app", press("down", "down", "up", "down", "ctrl+o")) == PickerResult(
        "print", lint
    )
    assert at_the_screen(store, tmp_path / "app", press("ctrl+n")) == PickerResult("new")
    assert at_the_screen(store, tmp_path / "app", press("x", "escape", "escape")) is None


def test_changing(store, tmp_path):
    """Another title, other labels, a fork, the trash and back; the list shows it."""

    async def act(app, pilot):
        await pilot.press("ctrl+r", *" again", "enter")
        assert titles(app)[0] == "Build fails again"
        await pilot.press("ctrl+t", *" urgent", "enter")
        assert app._rows[0].labels == ("urgent", "work")
        await pilot.press("ctrl+r", *"no", "escape")
        assert titles(app)[0] == "Build fails again"
        await pilot.press("ctrl+f")
        assert len(titles(app)) == 3
        await pilot.press("ctrl+d")
        assert len(titles(app)) == 2
        await pilot.press("ctrl+z")
        assert len(titles(app)) == 3
        await pilot.press("ctrl+d", "ctrl+d")

    at_the_screen(store, tmp_path / "app", act)
    assert len(store.sessions.list().items) == 3
    assert len(store.sessions.trashed().items) == 2
    assert {session.title for session in store.sessions.list().items} >= {"CSS of the page"}


def test_what_is_typed_is_for_the_session_it_was_asked_of(store, tmp_path):
    """Whatever happens to the list meanwhile: another size, other rows, a key that would choose others."""

    async def act(app, pilot):
        await pilot.press("down", "ctrl+r")
        await pilot.resize_terminal(60, 20)
        app._search()
        await pilot.press("tab", "ctrl+t", *" indeed")
        assert "New title" in str(app.query_one("#about", Static).render())
        await pilot.press("enter")
        assert titles(app) == ["Build fails", "Lint step indeed"]

    at_the_screen(store, tmp_path / "app", act)
    assert [one.title for one in store.sessions.list(label="work", title="indeed").items] == ["Lint step indeed"]


@pytest.mark.parametrize("size", [(60, 10), (60, 20), (200, 12)])
def test_another_size(store, tmp_path, size):
    """The choice stays, each session has one line, and where there is no room for the preview there is none."""

    async def act(app, pilot):
        await pilot.press("down")
        await pilot.resize_terminal(*size)
        await settled(app, pilot)
        assert app._selected_row().title == "Lint step"
        listed = app.query_one(OptionList)
        lines = [listed.render_line(at).text.rstrip() for at in range(2)]
        assert [line.split("  ")[0].strip() for line in lines] == ["Build fails", "Lint step"]
        assert all(line.endswith("just now") for line in lines)
        assert len(lines[0]) > listed.size.width - 8
        assert app.query_one("#side").display is (size[0] > 90 or size[1] >= 14)

    at_the_screen(store, tmp_path / "app", act)


def test_what_is_brought_back_stands_where_it_stood(store, tmp_path):
    """And an undo that fails may be tried again."""

    async def act(app, pilot):
        await pilot.press("down", "ctrl+d")
        real, app.catalog.store.sessions.restore = app.catalog.store.sessions.restore, fails
        await pilot.press("ctrl+z")
        app.catalog.store.sessions.restore = real
        assert titles(app) == ["Build fails"]
        await pilot.press("ctrl+z")
        assert titles(app) == ["Build fails", "Lint step"]

    def fails(_: str) -> clew.Session:
        raise clew.Unavailable("busy")

    at_the_screen(store, tmp_path / "app", act)


def test_what_cannot_be_done_is_told(store, tmp_path):
    """A held session stays, and the screen with it."""
    store.sessions.list(title="Build").items[0].hold()

    async def act(app, pilot):
        await pilot.press("ctrl+d")
        assert len(titles(app)) == 2

    at_the_screen(store, tmp_path / "app", act)
    assert store.sessions.trashed().items == []


def test_the_preview(store, tmp_path):
    """It shows what was said last, as it is: neither controls nor markup are obeyed."""
    shown = preview(store, next(row for row in loaded(store, tmp_path).find("lint", "everything").rows)).messages.plain
    assert "About Lint step?" in shown
    assert "A zebra, \\x1b[31m[b]not[/b] Lint step" in shown

    async def act(app, pilot):
        await settled(app, pilot)
        assert "About Build fails?" in str(app.query_one("#preview", Static).render())

    at_the_screen(store, tmp_path / "app", act)


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_widths(store, tmp_path, columns):
    """Where there is no room beside the list, the preview stands under it."""

    async def act(app, pilot):
        await settled(app, pilot)
        side, listed = app.query_one("#side").region, app.query_one(OptionList).region
        assert (side.y > listed.y) == (columns < 90)
        assert side.width > 30

    at_the_screen(store, tmp_path / "app", act, size=(columns, 24))


def loaded(store: clew.Store, cwd: Path) -> Catalog:
    catalog = Catalog(store, str(cwd))
    assert list(catalog.load())[-1] == len(store.sessions.list(limit=1000).items)
    return catalog


def test_the_catalog(store, tmp_path):
    """Every word must be there, in whatever order and case; many are counted, and the first are given."""
    catalog = loaded(store, tmp_path / "app")
    assert [row.title for row in catalog.find("STEP lint", "everything").rows] == ["Lint step"]
    assert catalog.find("lint rome", "everything").total == 0
    assert catalog.contents("ze", "everything", set()) == []
    assert len(catalog.contents("about zebra", "everything", set())) == 0
    (row, words), *_ = catalog.contents("zeb", "directory", set())
    assert "zebra" in words
    assert catalog.within(row, "directory")
    for _ in range(SHOWN):
        store.sessions.create(title="more").append(clew.user("x"))
    found = loaded(store, tmp_path).find("more", "everything")
    assert (len(found.rows), found.total) == (SHOWN, SHOWN)


def test_repositories(tmp_path):
    """The nearest folder with a version control above; none if there is none."""
    (tmp_path / "a/.git").mkdir(parents=True)
    (tmp_path / "a/b/c").mkdir(parents=True)
    assert repository(str(tmp_path / "a/b/c")) == str(tmp_path / "a")
    assert repository(str(tmp_path / "a")) == str(tmp_path / "a")


def test_the_command_that_resumes(clew_cli, db, tmp_path, monkeypatch):
    """It works from anywhere: it names the store that was named, and the directory of the session if it exists."""
    from clew.cli.root import cli

    monkeypatch.chdir(tmp_path)
    with clew.open(db) as store:
        here = store.sessions.create(cwd=tmp_path)
        (tmp_path / "my app").mkdir()
        there = store.sessions.create(cwd=tmp_path / "my app")
        gone = store.sessions.create(cwd="/src/not here")
        with cli.make_context("clew", []):
            assert resume_command(here) == f"clew --db {db} chat -c {here.handle}"
            assert resume_command(there) == f"cd '{tmp_path}/my app' && clew --db {db} chat -c {there.handle}"
            assert resume_command(gone) == f"clew --db {db} chat -c {gone.handle}"
        with cli.make_context("clew", ["--db", "a.db", "--key-file", "k"]):
            flags = f"--db {tmp_path}/a.db --key-file {tmp_path}/k"
            assert resume_command(here) == f"clew {flags} chat -c {here.handle}"
        monkeypatch.delenv("CLEW_DB")
        with cli.make_context("clew", []):
            assert resume_command(here) == f"clew chat -c {here.handle}"


def test_the_command_that_resumes_on_a_server(clew_cli, db, monkeypatch):
    """A URL that was typed is typed again; one of the environment, which may have a password, is not shown."""
    from clew.cli.root import cli

    url = "postgresql://me:secret@there/chats"
    with clew.open(db) as store:
        session = store.sessions.create()
        with cli.make_context("clew", ["--db", url]):
            assert resume_command(session) == f"clew --db {url} chat -c {session.handle}"
        monkeypatch.setenv("CLEW_DB", url)
        with cli.make_context("clew", []):
            assert resume_command(session) == f"clew chat -c {session.handle}"


async def burst(app: Picker, pilot: Pilot[PickerResult], *keys: str) -> None:
    """Sends all keys before the screen has handled the first, as a paste or a fast typist does."""
    for key in keys:
        app.post_message(events.Key(key, key if len(key) == 1 else None))
    await settled(app, pilot)


@pytest.mark.parametrize("scope", ["directory", "everything"])
def test_keys_in_one_burst_are_handled_in_order(store, tmp_path, scope):
    """Text and Enter together resume what the text finds, in a title or in a message; never what was on top before."""
    rome = store.sessions.list(title="Rome").items[0]
    rome.append(clew.user("The colosseum"))
    for text in ("rome", "colos"):

        async def act(app, pilot, text=text):
            await burst(app, pilot, *(["tab", "tab"] if scope == "directory" else []), *text, "enter")

        where = tmp_path / ("app" if scope == "directory" else "")
        assert at_the_screen(store, where, act) == PickerResult("resume", rome.id)


def test_a_burst_that_finds_nothing_resumes_nothing(store, tmp_path):
    """Enter without a result is no choice; and the line above says how to find more."""

    async def act(app, pilot):
        await burst(app, pilot, *"xyzzy", "enter")
        assert "tab widens the search" in str(app.query_one("#about", Static).render())
        await burst(app, pilot, "tab", "tab")
        assert "esc clears the search" in str(app.query_one("#about", Static).render())

    assert at_the_screen(store, tmp_path / "app", act) is None


def test_a_rename_in_one_burst(store, tmp_path):
    """Ctrl+R, Ctrl+U, a title and Enter together give the session that title."""

    async def act(app, pilot):
        await burst(app, pilot, *"lint", "ctrl+r", "ctrl+u", *"Fixed", "enter", "escape")
        assert sorted(titles(app)) == ["Build fails", "Fixed"]

    at_the_screen(store, tmp_path / "app", act)
    assert [one.title for one in store.sessions.list(title="Fixed").items] == ["Fixed"]


def test_the_preview_jumps_to_the_match(store, tmp_path):
    """The head stays, the first match is in sight and highlighted, also far above the end."""
    session = store.sessions.list(title="Lint").items[0]
    session.append([clew.user("The quokka " + "is small. " * 30)])
    session.append([clew.assistant(f"Line {n}\n" * 5) for n in range(40)])

    async def act(app, pilot):
        await burst(app, pilot, *"quokka")
        assert titles(app) == ["Lint step"]
        assert str(app.query_one("#head", Static).render()).startswith("Lint step")
        scroll, text = app.query_one("#messages"), app.query_one("#preview", Static)
        assert 0 <= text.region.y + str(text.render()).split("quokka")[0].count("\n") - scroll.region.y < 20

    at_the_screen(store, tmp_path / "app", act)
    row = loaded(store, tmp_path / "app").row(session.id)
    assert row is not None
    shown = preview(store, row, "quokka")
    assert shown.match is not None
    assert shown.messages.plain[shown.match :].startswith("quokka")
    assert [span.style for span in shown.messages.spans if span.start == shown.match] == ["reverse"]


def test_tool_branch_and_fork_are_shown(store, tmp_path):
    """In the head of the preview and in the list; and they can be searched for."""
    origin = {"tool": "claude-code", "id": "5f2c", "branch": "main"}
    made = store.sessions.create(title="Imported", cwd=tmp_path / "app", extra={"source": origin})
    made.append(clew.user("x"))
    fork = made.fork(title="Other way")

    async def act(app, pilot):
        await burst(app, pilot, *"imported claude-code main")
        assert titles(app) == ["Imported"]
        assert "claude-code" in app.query_one(OptionList).render_line(0).text
        await burst(app, pilot, "escape", *"other")
        assert "⑂ Other way" in app.query_one(OptionList).render_line(0).text

    at_the_screen(store, tmp_path / "app", act)
    catalog = loaded(store, tmp_path)
    own, other = catalog.row(made.id), catalog.row(fork.id)
    assert own is not None
    assert other is not None
    assert "Claude Code · branch main" in preview(store, own).head.plain
    assert f"fork of {made.handle} Imported" in preview(store, other).head.plain


def test_the_own_command_of_a_tool():
    """It names the id there; an id that could be an option is not run."""
    assert resume_elsewhere("claude-code", "5f2c") == "claude --resume 5f2c"
    for id in ("", "--dangerous", "a b", "a;b"):
        assert resume_elsewhere("claude-code", id) is None
    assert resume_elsewhere("", "") is None


def test_enter_on_another_tools_conversation_asks(db, tmp_path):
    """On a terminal: the tool's own command first, since the tool is installed, and clew's; Enter runs the tool."""
    (tmp_path / "project").mkdir()
    tool = tmp_path / "bin2" / "claude"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\necho "claude runs: $* in $(pwd)"\n')
    tool.chmod(0o755)
    there = tmp_path / "there"
    there.mkdir()
    with clew.open(db) as store:
        origin = {"tool": "claude-code", "id": "5f2c-77"}
        store.sessions.create(title="Imported", cwd=there, extra={"source": origin}).append(clew.user("x"))
    path = f"{tmp_path}/bin:{tool.parent}:/usr/bin:/bin"
    with Terminal(200, tmp_path, {"CLEW_DB": db, "PATH": path}) as terminal:
        terminal.run("clew", "1 conversation$(.|\n)*Imported")
        terminal.type("Enter")
        shown = terminal.shown(r"Which \[1\]")
        assert "imported from Claude Code" in shown
        assert "&& claude --resume 5f2c-77" in shown
        assert shown.index("claude --resume") < shown.index("chat -c")
        terminal.type("Enter")
        assert f"claude runs: --resume 5f2c-77 in {there}" in terminal.shown("claude runs")


def about(app: Picker) -> str:
    """The line above the list."""
    return str(app.query_one("#about", Static).render())


def test_what_is_elsewhere_is_counted(store, tmp_path):
    """Nothing in the directory: the line says how many conversations match in all directories, messages included."""

    async def act(app, pilot):
        await pilot.press(*"rome")
        await settled(app, pilot)
        assert "0 here, 1 everywhere · tab widens the search" in about(app)
        await pilot.press("escape", *"holiday")
        await settled(app, pilot)
        assert "0 here, 1 everywhere" in about(app)

    at_the_screen(store, tmp_path / "app", act)


def test_a_search_that_waits_for_the_index_says_so(store, tmp_path, monkeypatch):
    """Neither "0 conversations" nor another conversation is shown while messages are indexed."""
    began, go_on = threading.Event(), threading.Event()
    search = Catalog.contents

    def slow(self, typed, scope, known, progress=None):
        if progress is not None:
            progress(21, 50)
            began.set()
            go_on.wait(10)
        return search(self, typed, scope, known)

    monkeypatch.setattr(Catalog, "contents", slow)

    async def act(app, pilot):
        await pilot.press(*"zebra")
        while not began.is_set():
            await pilot.pause(0.01)
        await pilot.pause()
        assert "searching messages … 42 %" in about(app)
        assert "0 conversations" not in about(app)
        go_on.set()
        await settled(app, pilot)
        assert "2 conversations" in about(app)

    at_the_screen(store, tmp_path / "app", act)


def test_columns_are_aligned(store, tmp_path):
    """Tools, directories and ages begin at the same column in every line."""
    for number, tool in enumerate(("pi", "claude-code")):
        made = store.sessions.create(title=f"Imported {number}", cwd=tmp_path / "app", extra={"source": {"tool": tool}})
        made.append(clew.user("x"))

    async def act(app, pilot):
        await pilot.press("tab", "tab")
        lines = [app.query_one(OptionList).render_line(row).text for row in range(6)]
        assert len({line.index(" just now") for line in lines}) == 1
        assert len({line.index(tool) for line, tool in zip(lines, ("claude-code", "pi "), strict=False)}) == 1

    at_the_screen(store, tmp_path / "app", act)


def test_keys_to_read_copy_export_and_open(store, tmp_path):
    """Ctrl+L shows the conversation, Ctrl+Y copies its ID, Ctrl+E writes it as Markdown, Ctrl+P opens the page."""
    lint = store.sessions.list(title="Lint").items[0].id

    async def act(app, pilot):
        await pilot.press("down", "ctrl+y")
        assert app.clipboard == lint
        await pilot.press("ctrl+e")
        (written,) = (tmp_path / "app").glob("*.md")
        assert "About Lint step?" in written.read_text()
        await pilot.press("ctrl+p")

    assert at_the_screen(store, tmp_path / "app", act) == PickerResult("page", lint)


def test_a_conversation_is_read_in_the_pager(db, tmp_path):
    """At a terminal Ctrl+L starts the pager, and the picker is there again when the pager ends."""
    (tmp_path / "project").mkdir()
    with clew.open(db) as store:
        session = store.sessions.create(title="Long one", cwd=tmp_path / "project")
        session.append([clew.user("What is in the pager?"), clew.assistant("This answer.")])
    with Terminal(
        100, tmp_path, {"CLEW_DB": db, "PAGER": "sh -c 'cat; echo END OF PAGER; read line </dev/tty'"}
    ) as one:
        one.run("clew", "1 conversation(.|\n)*Long one")
        one.type("C-l")
        assert "This answer." in one.shown("END OF PAGER")
        one.type("Enter")
        assert "enter resume" in one.shown("enter resume")


def test_a_burst_at_a_real_terminal(db, tmp_path):
    """Text and Enter in one write resume what the text finds, and its last exchange is shown."""
    (tmp_path / "project").mkdir()
    with clew.open(db) as store:
        for title in ("Older one", "Newer one"):
            session = store.sessions.create(title=title, cwd=tmp_path / "project")
            session.append([clew.user(f"Question of {title}"), clew.assistant(f"Answer of {title}")])
    with Terminal(100, tmp_path, {"CLEW_DB": db, "CLEW_MODEL": "offline"}) as terminal:
        terminal.run("clew", "2 conversations(.|\n)*Newer")
        terminal.type("older", "Enter")
        shown = terminal.shown("›$")
        assert "Question of Older one" in shown
        assert "Answer of Older one" in shown
