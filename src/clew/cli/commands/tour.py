"""`clew tour`: demonstrates the main features in a temporary store, using only the public API."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import IO

import click

import clew
from clew.base.visible import many
from clew.cli.exits import FAILED, say
from clew.cli.importing.found import show_found
from clew.cli.options import examples
from clew.cli.output.text import bold, clip, dim, list_counts, out, role_style, style
from clew.cli.output.tree_layout import END, INDENT, TreeItem, arrange, snippet
from clew.cli.setup.key_sources import VARIABLES


@click.command(epilog=examples("clew tour"))
@click.pass_context
def tour(ctx: click.Context) -> None:
    """Show the main features in a temporary store: save, crash, resume, fork, rewind, search, verify.

    Takes a few seconds and leaves no files behind. At the end, lists the histories of other tools on this machine.
    """
    out(f"{bold('clew')} stores conversations with language models. This tour runs real commands")
    out("on a temporary store, which is deleted at the end.")
    with tempfile.TemporaryDirectory(prefix="clew-tour-") as folder:
        path = os.path.join(folder, "chats.db")
        with clew.open(path) as store:
            session = _save(store)
            if not _survive(store, session, path):
                ctx.exit(say("an acknowledged message is missing", "This is a bug. Please report it.", FAILED))
            session = _fork(store, session)
            _rewind(store, session)
            _search(store)
            if not _verify(store):
                ctx.exit(say("the store is damaged", "This is a bug. Please report it.", FAILED))
    _farewell()
    show_found()


# -- the steps


def _save(store: clew.Store) -> clew.Session:
    _step(1, "Save a conversation", "When append returns, the message is on disk.")
    _code('store = clew.open("chats.db")')
    _code('session = store.sessions.create(title="Build fails")')
    session = store.sessions.create(title="Build fails", cwd="/src/app")
    _code('session.append(clew.user("Why is the build failing?"))   …')
    session.append(clew.user("Why is the build failing?"))
    session.append(clew.assistant("The lint step fails: an import is unused.", model="some-model"))
    out()
    _messages(session.path())
    out()
    _say(f"Each line starts with a handle, a short ID. This conversation has {style(session.handle, '33')}.")
    return session


def _survive(store: clew.Store, session: clew.Session, path: str) -> bool:
    _step(
        2,
        "Kill the writer, lose nothing",
        "Another process appends messages as fast as it can. It is killed with",
        "SIGKILL while writing: no warning, no cleanup.",
    )
    _code(f"clew append {session.handle} < endless.jsonl &   kill -9 $!")
    before = session.counters.messages
    acknowledged, ended = kill_a_writer(session.id, path)
    nodes = session.refresh().path()[before:]
    stored = [node.id for node in nodes]
    lost = set(acknowledged) - set(stored)
    torn = sum(not node.text.startswith(NOTE) for node in nodes)
    out()
    _fact(f"{len(acknowledged):4}", f"messages were acknowledged before the kill ({ended})")
    _fact(f"{len(stored):4}", "messages are stored")
    _fact(f"{len(lost):4}", f"acknowledged messages are lost, {torn} are incomplete")
    out()
    _say("The conversation continues:")
    out()
    session.append(clew.user("Still there?"))
    _messages(session.path(last=2))
    return not lost and not torn and stored[: len(acknowledged)] == acknowledged


def _fork(store: clew.Store, session: clew.Session) -> clew.Session:
    _step(
        3,
        "Fork",
        "A new conversation starts at an earlier message and shares all messages",
        "before it. Nothing is copied.",
    )
    answer = session.path(until=session.path()[1].id)[-1]
    _code(f'other = session.fork(at="{answer.handle}", title="Another idea")')
    other = session.fork(at=answer.id, title="Another idea")
    other.append(
        [clew.user("Can we switch that rule off?"), clew.assistant("Yes, but removing the import is cleaner.")]
    )
    shared = other.counters.messages - 2
    out()
    _messages(other.path())
    out()
    _say(f"The first {shared} messages are shared with {style(session.handle, '33')}.")
    return other


def _rewind(store: clew.Store, session: clew.Session) -> None:
    _step(
        4,
        "Rewind",
        "Rewinding deletes nothing: later messages stay in the tree as a branch.",
    )
    first = session.path()[0]
    _code(f'other.rewind(to="{first.handle}")')
    session.rewind(to=first.id)
    session.append(clew.assistant("Let me read the log again. It is the lint step."))
    out()
    _say("The whole tree:")
    out()
    for line in _tree(store.nodes.subtree(first.id)):
        out("   " + line)


def _search(store: clew.Store) -> None:
    _step(5, "Search", "Across all conversations, ranked. Indexing never delays an append.")
    _code('store.search("lint step")')
    out()
    for hit in store.search("lint step", limit=3):
        marked, at = "", 0
        for start, end in hit.marks:
            marked += hit.snippet[at:start] + style(hit.snippet[start:end], "1;31")
            at = end
        title = "" if hit.session is None else hit.session.title or ""
        out(f"   {style(hit.node.handle, '33')}  {title.ljust(12)}  {marked}{hit.snippet[at:]}")


def _verify(store: clew.Store) -> bool:
    _step(6, "Verify", "Reads and checks everything: messages, tree, conversations, index.")
    _code("store.verify()")
    report = store.verify()
    out()
    mark = style("ok", "1;32") if report.ok else style("damaged", "1;31")
    for number, line in enumerate(_wrap(f"checked {list_counts(report.counts)}", 68)):
        out(f"   {mark if not number else '  '}  {line}")
    return report.ok


def _farewell() -> None:
    out()
    out(bold("Next steps"))
    out()
    nexts = (
        ('echo \'{"text": "Hello"}\' | clew append --title "First words"', ""),
        ("clew ls", "list your conversations"),
        ("clew show HANDLE", "show one of them"),
        ("clew tree", "show all messages and branches"),
        ("clew search hello", "search all messages"),
        ("clew --help", "list all commands"),
    )
    program = os.path.relpath(os.path.join(os.path.dirname(sys.executable), "clew"))
    if shutil.which("clew") is None and len(program) < 40 and os.path.exists(program):
        out(f"   Here the program is {bold(program)}.")
        out()
    for command, what in nexts:
        out(f"   {style(command, '36')}" + (" " * (22 - len(command)) + dim(what) if what else ""))


# -- output


def _step(number: int, title: str, *lines: str) -> None:
    out()
    out(bold(f"{number}  {title}"))
    for line in lines:
        _say(line)
    out()


def _say(text: str) -> None:
    for line in _wrap(text, 74):
        out(f"   {line}")


def _code(text: str) -> None:
    out(f"   {style(text, '36')}")


def _fact(number: str, what: str) -> None:
    out(f"   {bold(number)}  {what}")


def _messages(nodes: Iterable[clew.Node]) -> None:
    for node in nodes:
        role = role_style(node.role, node.role.ljust(9))
        out(f"   {style(node.handle, '33')}  {role}  {clip(node.text, 56)}")


def _tree(nodes: Iterable[clew.Node]) -> Iterator[str]:
    items = [
        TreeItem(node.id, node.parent_id, node.created_at, node.role, node.handle, snippet(node.message))
        for node in nodes
    ]
    notes = 0
    for item, level, last in arrange(items, compact=True):
        if item.snippet.startswith(NOTE):
            notes += 1
            continue
        if notes:
            yield INDENT * level + dim(f"… {many(notes, 'note')} of the killed process …")
            notes = 0
        yield f"{INDENT * level}{style(item.handle, '33')} [{role_style(item.role, item.role.upper())}] {item.snippet}"
        if last:
            yield INDENT * level + dim(END)


def _wrap(text: str, width: int) -> list[str]:
    import textwrap

    # Lines with colours are short; textwrap would count their escape sequences.
    return [text] if "\x1b" in text else textwrap.wrap(text, width)


ENOUGH = 60
"""Acknowledged messages before the writer is killed; enough that it is busy writing on any machine."""
NOTE = "note "
"""Start of the writer's messages; the tree only counts them."""
PATIENCE = 60
"""Longest run of the writer in seconds."""


def kill_a_writer(session: str, path: str) -> tuple[list[str], str]:
    """Runs and kills a writer; returns the IDs it acknowledged, and how it ended."""
    env = {name: value for name, value in os.environ.items() if name not in VARIABLES}  # the tour's store is plain
    command = [sys.executable, "-m", "clew", "append", session, "--db", path, "--role", "assistant"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1, env=env
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        # The pipe always has lines, so the writer is never idle when it is killed.
        feeder = threading.Thread(target=_feed, args=(writer.stdin,), daemon=True)
        late = threading.Timer(PATIENCE, writer.kill)
        acknowledged: list[str] = []
        try:
            feeder.start()
            late.start()
            for line in writer.stdout:
                if line.endswith("\n"):
                    acknowledged.append(line.split('"')[3])
                if len(acknowledged) == ENOUGH:
                    writer.kill()
        finally:
            late.cancel()
            writer.kill()  # also when the tour itself is interrupted
            code = writer.wait()
            feeder.join()
    return acknowledged, f"signal {-code}" if code < 0 else f"exit code {code}"


def _feed(pipe: IO[str]) -> None:
    with suppress(OSError), pipe:  # fails when the writer is dead
        for number in range(1_000_000):
            pipe.write(f'{{"text": "{NOTE}{number} of a writer that does not know what is coming"}}\n')
