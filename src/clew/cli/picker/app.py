"""The screen of the picker: search field, list of sessions, and preview."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from rich.text import Text
from textual import events, work
from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

import clew
from clew.base.visible import many, plain
from clew.cli.output.json import home_short
from clew.cli.output.text import clip, pad, width
from clew.cli.output.times import ago
from clew.cli.picker.catalog import Catalog, CatalogRow, Scope
from clew.cli.picker.preview import Preview, preview

NARROW = 90
"""Below this width the preview is under the list."""
LOW = 14
"""Below this height a narrow screen has no preview."""
SEARCH = "Type to search titles and messages"


class PickerResult(NamedTuple):
    """What to do after the screen closes."""

    what: Literal["resume", "print", "new", "page"]
    id: str = ""


class SessionList(OptionList):
    """The list of sessions."""

    class Resized(Message):
        """The width of the list has changed."""

    def on_resize(self) -> None:
        """Notifies the screen."""
        self.post_message(self.Resized())


class Picker(App[PickerResult]):
    """The picker. Letters search; `search_field.KEYS` has the keys of its actions."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layers: base; background: ansi_default; }
    #typed { border: none; height: 1; padding: 0 1; background: ansi_default; }
    #about, #keys, #hint { height: 1; padding: 0 1; color: ansi_bright_black; background: ansi_default; }
    #keys { dock: bottom; }
    OptionList { border: none; padding: 0 1; width: 3fr; height: 1fr; background: ansi_default; }
    #side { width: 2fr; border-left: solid ansi_bright_black; padding: 0 1; }
    #head { height: auto; margin-bottom: 1; }
    #messages { scrollbar-size-vertical: 1; }
    .narrow Horizontal { layout: vertical; }
    .narrow #side { width: 100%; height: 1fr; border-left: none; border-top: solid ansi_bright_black; }
    .narrow OptionList { width: 100%; }
    .narrow.low #side { display: none; }
    """
    HELP = (
        "enter resume · tab scope · ^l read · ^p page · ^e export · ^y copy id · ^o command · ^n new · ^r rename"
        " · ^t label · ^f fork · ^d delete · ^z undo · esc quit"
    )
    SHORT = "enter resume · ^l read · tab scope · ^p ^e ^y ^r ^t ^f ^d ^z · esc quit"

    def __init__(
        self,
        store: clew.Store,
        cwd: str,
        *,
        scope: Scope | None = None,
        hint: str = "",
        read: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__(ansi_color=True)
        self.catalog = Catalog(store, cwd)
        self.scope: Scope = scope or "directory"
        self._chosen_scope = scope is not None
        self._rows: list[CatalogRow] = []
        self._total = 0
        self._query = ""
        self._asks: Literal["rename", "label"] | None = None
        """What the input field asks for, if it is not a search."""
        self._asked_of: CatalogRow | None = None
        """The session that the input is for."""
        self._hint = hint
        """A line above the keys."""
        self._trashed: list[str] = []
        self._contents_pending = False
        """True while messages are searched."""
        self._indexed: int | None = None
        """Percent of the messages in the index, while a search waits for it."""
        self._everywhere = 0
        """Conversations that match in all directories, if there are none in the scope."""
        self._read = read
        """Shows a conversation in a pager, while the screen is suspended."""
        self._resume_pending = False
        """True after Enter while nothing is found yet: the first result is resumed."""

    def compose(self) -> ComposeResult:
        """Creates the widgets."""
        yield SearchField(placeholder=SEARCH, id="typed", compact=True)
        yield Static(id="about", markup=False)
        with Horizontal():
            yield SessionList(id="list", compact=True, markup=False)
            with Vertical(id="side"):
                yield Static(id="head", markup=False)
                with VerticalScroll(id="messages", can_focus=False):
                    yield Static(id="preview", markup=False)
        if self._hint:
            yield Static(self._hint, id="hint", markup=False)
        yield Static(id="keys", markup=False)

    def on_mount(self) -> None:
        """Starts loading."""
        self.query_one("#list").can_focus = False
        self.screen.set_focus(self.query_one(SearchField))  # at once: keys may be waiting
        self._fill()

    def on_resize(self, event: events.Resize) -> None:
        """Places the preview where it fits."""
        self.screen.set_class(event.size.width < NARROW, "narrow")
        self.screen.set_class(event.size.height < LOW, "low")
        wide = event.size.width > len(self.HELP) + 2
        self.query_one("#keys", Static).update(self.HELP if wide else clip(self.SHORT, event.size.width - 2))

    def on_session_list_resized(self, _: SessionList.Resized) -> None:
        """Redraws the list with its new width."""
        self._show(self._rows, self._chosen_id())

    @work(thread=True)
    def _fill(self) -> None:
        for count in self.catalog.load():
            if get_current_worker().is_cancelled:
                return
            self.call_from_thread(self._on_page_loaded, count)

    def _on_page_loaded(self, count: int) -> None:
        if not self._chosen_scope and self.catalog.loaded and not self.catalog.find("", self.scope).total:
            self.scope = next((one for one in self.catalog.scopes if self.catalog.find("", one).total), "everything")
        if count <= 1000 or self.catalog.loaded:
            self._search(self._chosen_id())
        self._update_status()
        self._resume_if_pending()

    # -- searching

    def on_input_changed(self, _: Input.Changed) -> None:
        """Searches after every key."""
        self._catch_up()

    def _catch_up(self) -> None:
        """Searches for what is in the input field now. An action calls it first: a change is announced later."""
        typed = self.query_one(SearchField).value
        if self._asks is None and typed != self._query:
            self._query, self._resume_pending = typed, False
            self._search()

    def _search(self, keep: str | None = None) -> None:
        found = self.catalog.find(self._query, self.scope)
        self._total = found.total
        self._show(found.rows, keep)
        self._everywhere = 0 if found.total else self.catalog.find(self._query, "everything").total
        self._contents_pending, self._indexed = bool(self._query.strip()), None
        self._update_status()
        if self._contents_pending:
            self._search_contents(self._query, self.scope, {row.id for row in found.rows})

    @work(thread=True, exclusive=True, group="contents")
    def _search_contents(self, typed: str, scope: Scope, known: set[str]) -> None:
        worker = get_current_worker()

        def progress(done: int, total: int) -> None:
            if not worker.is_cancelled:
                self.call_from_thread(self._show_progress, 100 * done // max(1, total))

        more = self.catalog.contents(typed, scope, known, progress)
        others = 0
        if not more and not known and scope != "everything":
            near = self.catalog.find(typed, "everything")
            others = near.total + len(self.catalog.contents(typed, "everything", {row.id for row in near.rows}))
        if not worker.is_cancelled:
            self.call_from_thread(self._add, typed, scope, [row for row, _ in more], others)

    def _show_progress(self, percent: int) -> None:
        self._indexed = percent
        self._update_status()

    def _add(self, typed: str, scope: Scope, rows: list[CatalogRow], others: int) -> None:
        if (typed, scope) == (self._query, self.scope):
            self._contents_pending, self._indexed, self._everywhere = False, None, others
            if rows:
                self._total += len(rows)
                self._show([*self._rows, *rows], self._chosen_id())
            else:
                self._update_status()
            self._resume_if_pending()

    def _show(self, rows: Sequence[CatalogRow], keep: str | None = None) -> None:
        self._rows = list(rows)
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options([Option(line) for line in self._lines(max(20, options.size.width - 4), datetime.now(UTC))])
        if self._rows:
            at = next((at for at, row in enumerate(self._rows) if row.id == keep), 0)
            options.highlighted = at
        else:
            self.query_one("#head", Static).update("")
            self.query_one("#preview", Static).update("")
        self._update_status()

    def _lines(self, columns: int, now: datetime) -> Iterator[Text]:
        """The sessions as lines with aligned columns: title, tool, directory, age."""
        ages = [ago(row.at, now) for row in self._rows]
        places = ["" if self.scope == "directory" else plain(os.path.basename(row.cwd)) for row in self._rows]
        most = max(11, columns // 5)
        wide = [
            min(most, max(map(width, cells), default=0)) for cells in ([row.tool for row in self._rows], places, ages)
        ]
        room = columns - sum(size + 2 for size in wide if size)
        for row, place, age in zip(self._rows, places, ages, strict=True):
            name = ("⑂ " if row.fork else "") + plain(row.title or "untitled")
            line = Text(pad(clip(name, room), room), style="" if row.title else "dim")
            for cell, size, look in zip((row.tool, place, age), wide, ("magenta", "blue", "dim"), strict=True):
                if size:
                    line.append(f"  {pad(clip(cell, size), size)}", style=look)
            yield line

    def _update_status(self) -> None:
        if self._asks is not None:
            return
        where = {"directory": home_short(self.catalog.cwd), "repository": home_short(self.catalog.repository or "")}
        place = where.get(self.scope, "all directories")
        found = many(self._total, "conversation")
        loading = "" if self.catalog.loaded else " · loading …"
        if self._contents_pending:
            share = "" if self._indexed is None else f" {self._indexed} %"
            found = f"{found} · searching …{share}" if self._total else f"searching messages …{share}"
        elif self.catalog.loaded and not self._total:
            if self.scope != "everything":
                found = f"0 here, {self._everywhere:,} everywhere"
                loading = " · tab widens the search"
            else:
                loading = " · esc clears the search" if self._query else ""
        self.query_one("#about", Static).update(plain(f"{self.scope}: {place} · {found}{loading}"))

    # -- preview

    def on_option_list_option_highlighted(self, _: OptionList.OptionHighlighted) -> None:
        """Shows the preview of the chosen session."""
        row = self._highlighted_row()
        if row is not None:
            self._preview(row, self._query)

    @work(thread=True, exclusive=True, group="preview")
    def _preview(self, row: CatalogRow, typed: str) -> None:
        shown = preview(self.catalog.store, row, typed)
        if not get_current_worker().is_cancelled:
            self.call_from_thread(self._show_preview, shown)

    def _show_preview(self, shown: Preview) -> None:
        self.query_one("#head", Static).update(shown.head)
        self.query_one("#preview", Static).update(shown.messages)
        scroll = self.query_one("#messages", VerticalScroll)
        if shown.match is None:
            scroll.scroll_end(animate=False)  # show the last messages
        else:
            before = shown.messages[: shown.match].wrap(self.console, max(10, scroll.size.width - 1))
            scroll.scroll_to(y=max(0, len(before) - 3), animate=False)

    def _selected_row(self) -> CatalogRow | None:
        """The chosen session, after the search for everything that was typed."""
        self._catch_up()
        return self._highlighted_row()

    def _chosen_id(self) -> str | None:
        row = self._highlighted_row()
        return None if row is None else row.id

    def _highlighted_row(self) -> CatalogRow | None:
        at = self.query_one(OptionList).highlighted
        return self._rows[at] if at is not None and at < len(self._rows) else None

    # -- actions

    def action_move(self, by: int) -> None:
        """Moves in the list; the cursor stays in the input field."""
        self._catch_up()
        options = self.query_one(OptionList)
        if self._rows and self._asks is None:
            options.highlighted = min(max((options.highlighted or 0) + by, 0), len(self._rows) - 1)

    def action_scope(self) -> None:
        """Switches the scope: directory, repository, everything."""
        if self._asks is not None:
            return
        self._catch_up()
        scopes = self.catalog.scopes
        self.scope = scopes[(scopes.index(self.scope) + 1) % len(scopes)]
        self._search()

    def action_resume(self) -> None:
        """Resumes the chosen session; or accepts the input."""
        if self._asks is not None:
            self._accept(self.query_one(SearchField).value)
            return
        row = self._selected_row()
        if row is not None:
            self.exit(PickerResult("resume", row.id))
        else:
            self._resume_pending = self._contents_pending or not self.catalog.loaded

    def _resume_if_pending(self) -> None:
        if self._resume_pending and self._asks is None and self._selected_row() is not None:
            self.action_resume()
        self._resume_pending &= self._contents_pending or not self.catalog.loaded

    def action_print(self) -> None:
        """Exits and prints the command that resumes the session."""
        row = self._selected_row()
        if row is not None:
            self.exit(PickerResult("print", row.id))

    def action_read(self) -> None:
        """Shows the session in a pager."""
        row = self._selected_row()
        if row is not None and self._asks is None and self._read is not None:
            with self.suspend():
                self._read(row.id)
            self.refresh()

    def action_page(self) -> None:
        """Exits and opens the session in a browser."""
        row = self._selected_row()
        if row is not None and self._asks is None:
            self.exit(PickerResult("page", row.id))

    def action_copy(self) -> None:
        """Copies the ID of the session."""
        row = self._selected_row()
        if row is not None and self._asks is None:
            self.copy_to_clipboard(row.id)
            self.notify(f"Copied {row.id}", markup=False)

    def action_export(self) -> None:
        """Writes the session to a Markdown file in the current directory."""
        row = self._selected_row()
        if row is None or self._asks is not None:
            return
        from clew.cli.setup.settings import prices
        from clew.exports.to_files import file_name, write

        try:
            session = self.catalog.store.sessions.get(row.id)
            path = os.path.join(self.catalog.cwd, file_name(session, ".md"))
            write(self.catalog.store, path, [session], form="markdown", prices=prices())
        except clew.ClewError as error:
            self.notify(plain(error.message), severity="error", markup=False)
        else:
            self.notify(f"Wrote {plain(home_short(path))}", markup=False)

    def action_new(self) -> None:
        """Exits and starts a new session."""
        self.exit(PickerResult("new"))

    def action_leave(self) -> None:
        """Cancels the input, clears the search, or exits."""
        typed = self.query_one(SearchField)
        if self._asks is not None:
            self._ask(None)
        elif typed.value:
            typed.value = ""
            self._catch_up()
        else:
            self.exit()

    def action_rename(self) -> None:
        """Asks for a new title."""
        row = self._selected_row()
        if row is not None and self._asks is None:
            self._asked_of = row
            self._ask("rename", row.title)

    def action_label(self) -> None:
        """Asks for labels."""
        row = self._selected_row()
        if row is not None and self._asks is None:
            self._asked_of = row
            self._ask("label", " ".join(row.labels))

    def action_fork(self) -> None:
        """Forks the chosen session and selects the fork."""
        row = self._selected_row()
        if row is not None and self._asks is None:
            made = self._try(lambda: self.catalog.store.sessions.fork(row.id))
            if made is not None:
                self.catalog.add(made)
                self._search(made.id)
                self.notify(f"Forked as {made.handle}", markup=False)

    def action_trash(self) -> None:
        """Moves the chosen session to the trash."""
        row = self._selected_row()
        if row is None or self._asks is not None:
            return
        gone = self._try(lambda: self.catalog.store.sessions.trash(row.id))
        if gone is not None:
            at = self._rows.index(row)
            self._trashed.append(row.id)
            self.catalog.remove(row.id)
            rest = [one.id for one in self._rows if one.id != row.id]
            self._search(rest[min(at, len(rest) - 1)] if rest else None)
            self.notify(f"Moved {gone.handle} to the trash. Press Ctrl+Z to restore it.", markup=False)

    def action_undo(self) -> None:
        """Restores the session that was moved to the trash last."""
        if self._trashed:
            back = self._try(lambda: self.catalog.store.sessions.restore(self._trashed[-1]))
            if back is not None:
                self._trashed.pop()
                self.catalog.add(back)
                self._search(back.id)

    def _ask(self, what: Literal["rename", "label"] | None, value: str = "") -> None:
        self._asks = what
        typed = self.query_one(SearchField)
        typed.placeholder = {"rename": "title", "label": "labels"}.get(what or "", SEARCH)
        typed.value = value if what is not None else self._query
        typed.cursor_position = len(typed.value)
        if what is not None:
            about = {"rename": "New title", "label": "Labels, separated by spaces"}[what]
            self.query_one("#about", Static).update(f"{about} · enter saves, esc cancels")
        else:
            self._update_status()

    def _accept(self, value: str) -> None:
        row, what = self._asked_of, self._asks
        self._ask(None)
        if row is None:
            return
        sessions = self.catalog.store.sessions
        if what == "rename":
            done = self._try(lambda: sessions.get(row.id).rename(value.strip() or None))
        else:
            wanted = {*value.split()}
            gone = [label for label in row.labels if label not in wanted]
            done = self._try(lambda: sessions.get(row.id).label(*wanted, remove=gone))
        if done is not None:
            self.catalog.change(done)
            self._search(row.id)

    def _try(self, act: Callable[[], clew.Session]) -> clew.Session | None:
        try:
            return act()
        except clew.ClewError as error:
            self.notify(plain(error.message), severity="error", markup=False)
            return None


KEYS = {
    "enter": "resume",
    "tab": "scope",
    "ctrl+o": "print",
    "ctrl+l": "read",
    "ctrl+p": "page",
    "ctrl+y": "copy",
    "ctrl+e": "export",
    "ctrl+n": "new",
    "ctrl+r": "rename",
    "ctrl+t": "label",
    "ctrl+f": "fork",
    "ctrl+d": "trash",
    "delete": "trash",
    "ctrl+z": "undo",
    "up": "move(-1)",
    "down": "move(1)",
    "pageup": "move(-10)",
    "pagedown": "move(10)",
    "escape": "leave",
    "ctrl+c": "quit",
    "ctrl+q": "quit",
}
"""Actions of the picker, by key. They need Ctrl or a key without a letter, so that none happens by accident."""


class SearchField(Input):
    """An input field that runs each key's action before it takes the next key."""

    async def on_key(self, event: events.Key) -> None:
        """Runs the picker's action for a key, or the field's own; letters are inserted by Input itself."""
        if event.key in KEYS:
            actions = [f"app.{KEYS[event.key]}"]
        else:
            actions = [binding.action for binding in self._bindings.key_to_bindings.get(event.key, ())]
        for action in actions:
            event.stop()
            event.prevent_default()
            await self.run_action(action)
