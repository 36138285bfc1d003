"""`clew tour`: everything the store is for, really done in a temporary folder, and told as it happens.

It calls what any program can call, and nothing in the library knows about it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator

import click

import clew
from clew.cli.exits import FAILED, say
from clew.cli.forest import END, INDENT, Leaf, arrange, snippet
from clew.cli.text import bold, clip, counted, dim, many, out, role_style, style
from clew.cli.victim import NOTE, kill_a_writer


@click.command(short_help="See it all happen in a temporary store.", epilog="\b\nExample:\n  clew tour")
@click.pass_context
def tour(ctx: click.Context) -> None:
    """Saves a conversation, kills a writer, resumes, forks, rewinds, searches and verifies, and says what it does.

    It works in a temporary folder, takes a few seconds, and leaves nothing behind.
    """
    out(f"{bold('clew')} keeps conversations with language models. Everything below really")
    out("happens now, in a store in a temporary folder that is gone at the end.")
    with tempfile.TemporaryDirectory(prefix="clew-tour-") as folder:
        path = os.path.join(folder, "chats.db")
        with clew.open(path) as store:
            session = _save(store)
            if not _survive(store, session, path):
                ctx.exit(say("an acknowledged message is missing", "Please report this: it must not happen.", FAILED))
            session = _fork(store, session)
            _rewind(store, session)
            _search(store)
            if not _verify(store):
                ctx.exit(say("the store is damaged", "Please report this: it must not happen.", FAILED))
    _farewell()


# -- the stations


def _save(store: clew.Store) -> clew.Session:
    _station(1, "Save a conversation", "A message is on disk, synced, when append returns.")
    _code('store = clew.open("chats.db")')
    _code('session = store.sessions.create(title="Build fails")')
    session = store.sessions.create(title="Build fails", cwd="/src/app")
    _code('session.append(clew.user("Why is the build failing?"))   …')
    session.append(clew.user("Why is the build failing?"))
    session.append(clew.assistant("The lint step fails: an import is unused.", model="some-model"))
    out()
    _talk(session.path())
    out()
    _say(f"The letters in front are handles: session {style(session.handle, '33')} can be typed as such.")
    return session


def _survive(store: clew.Store, session: clew.Session, path: str) -> bool:
    _station(
        2,
        "Kill the writer, lose nothing",
        "Another process appends messages as fast as it can. In the middle of it",
        "the process gets SIGKILL: no warning, no clean-up.",
    )
    _code(f"clew append {session.handle} < endless.jsonl &   kill -9 $!")
    before = session.counters.messages
    acknowledged, ended = kill_a_writer(session.id, path)
    nodes = session.refresh().path()[before:]
    stored = [node.id for node in nodes]
    lost = set(acknowledged) - set(stored)
    torn = sum(not node.text.startswith(NOTE) for node in nodes)
    out()
    _fact(f"{len(acknowledged):4}", f"messages were acknowledged before it died ({ended})")
    _fact(f"{len(stored):4}", "messages are stored")
    _fact(f"{len(lost):4}", f"acknowledged messages are lost, and {torn} are half written")
    out()
    _say("The session goes on where it was:")
    out()
    session.append(clew.user("Still there?"))
    _talk(session.path(last=2))
    return not lost and not torn and stored[: len(acknowledged)] == acknowledged


def _fork(store: clew.Store, session: clew.Session) -> clew.Session:
    _station(
        3,
        "Fork",
        "A second session begins at an earlier message and shares all before it.",
        "Nothing is copied, however long the talk.",
    )
    answer = session.path(until=session.path()[1].id)[-1]
    _code(f'other = session.fork(at="{answer.handle}", title="Another idea")')
    other = session.fork(at=answer.id, title="Another idea")
    other.append(
        [clew.user("Can we switch that rule off?"), clew.assistant("Yes, but removing the import is cleaner.")]
    )
    shared = other.counters.messages - 2
    out()
    _talk(other.path())
    out()
    _say(f"The first {shared} are the same messages as in {style(session.handle, '33')}, the rest is its own.")
    return other


def _rewind(store: clew.Store, session: clew.Session) -> None:
    _station(
        4,
        "Rewind",
        "Going back does not destroy: what is left behind stays in the tree.",
    )
    first = session.path()[0]
    _code(f'other.rewind(to="{first.handle}")')
    session.rewind(to=first.id)
    session.append(clew.assistant("Let me read the log again. It is the lint step."))
    out()
    _say("The whole tree now:")
    out()
    for line in _tree(store.nodes.subtree(first.id)):
        out("   " + line)


def _search(store: clew.Store) -> None:
    _station(5, "Search", "Across all sessions, ranked. The index is made on the side: appending never waits for it.")
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
    _station(6, "Verify", "Reads every byte back and checks it: bodies, tree, sessions, index.")
    _code("store.verify()")
    report = store.verify()
    out()
    mark = style("ok", "1;32") if report.ok else style("damaged", "1;31")
    for number, line in enumerate(_wrapped(f"checked {counted(report.counts)}", 68)):
        out(f"   {mark if not number else '  '}  {line}")
    return report.ok


def _farewell() -> None:
    out()
    out(bold("Your turn"))
    out()
    nexts = (
        ('echo \'{"text": "Hello"}\' | clew append --title "First words"', ""),
        ("clew ls", "your sessions, last active first"),
        ("clew show HANDLE", "one of them"),
        ("clew tree", "all of them, with their branches"),
        ("clew search hello", "what was said, and where"),
        ("clew --help", "the rest"),
    )
    program = os.path.relpath(os.path.join(os.path.dirname(sys.executable), "clew"))
    if shutil.which("clew") is None and len(program) < 40 and os.path.exists(program):
        out(f"   The program is {bold(program)} here.")
        out()
    for command, what in nexts:
        out(f"   {style(command, '36')}" + (" " * (22 - len(command)) + dim(what) if what else ""))


# -- how it is told


def _station(number: int, title: str, *lines: str) -> None:
    out()
    out(bold(f"{number}  {title}"))
    for line in lines:
        _say(line)
    out()


def _say(text: str) -> None:
    for line in _wrapped(text, 74):
        out(f"   {line}")


def _code(text: str) -> None:
    out(f"   {style(text, '36')}")


def _fact(number: str, what: str) -> None:
    out(f"   {bold(number)}  {what}")


def _talk(nodes: Iterable[clew.Node]) -> None:
    for node in nodes:
        role = role_style(node.role, node.role.ljust(9))
        out(f"   {style(node.handle, '33')}  {role}  {clip(node.text, 56)}")


def _tree(nodes: Iterable[clew.Node]) -> Iterator[str]:
    leaves = [
        Leaf(node.id, node.parent_id, node.created_at, node.role, node.handle, snippet(node.message)) for node in nodes
    ]
    notes = 0
    for leaf, level, last in arrange(leaves, compact=True):
        if leaf.snippet.startswith(NOTE):
            notes += 1
            continue
        if notes:
            yield INDENT * level + dim(f"… {many(notes, 'note')} of the killed process …")
            notes = 0
        yield f"{INDENT * level}{style(leaf.handle, '33')} [{role_style(leaf.role, leaf.role.upper())}] {leaf.snippet}"
        if last:
            yield INDENT * level + dim(END)


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    # Escape sequences have no width: a styled line is short enough as it stands.
    return [text] if "\x1b" in text else textwrap.wrap(text, width)
