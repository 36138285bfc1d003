"""What was purged stays purged, whatever is imported after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew import agents, exports
from clew.sources.import_all import FileOutcome, import_all
from clew.sources.import_log import ImportRecorder
from clew.sources.imported_files import ImportedFiles
from clew.sources.lines import LARGE
from clew.sources.registry import find
from clew.sources.undo import undo
from tests.sources.made import SESSION, an_id, claude_line, jsonl, wrapped_prompts

WORD = "quoxavimbelotrasy"
LINES = [claude_line(1, None, "user", f"About {WORD}"), claude_line(2, 1, "assistant", "Yes")]
TITLE = {"type": "ai-title", "aiTitle": f"Talk of {WORD}", "sessionId": SESSION}
GROWN = [*LINES, TITLE, claude_line(3, 2, "user", "Go on"), {"type": "last-prompt", "lastPrompt": WORD}]


@pytest.fixture(params=["plain", "sealed"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[clew.Store]:
    key = clew.keys.generate() if request.param == "sealed" else None
    with clew.open(tmp_path / "s.db", key=key) as store:
        yield store


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "projects" / "p" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(jsonl(LINES))
    return path


def take(store: clew.Store, path: Path, *, again: bool = False) -> FileOutcome:
    (done,) = import_all(store, find([str(path)]), again=again, recorder=ImportRecorder(store, (str(path),)))
    return done


def said(store: clew.Store) -> list[str]:
    return [node.text for session in store.sessions.list() for node in session.path()]


def assert_gone(store: clew.Store, word: str = WORD) -> None:
    """The word is in no export of the store and in none of its files."""
    assert word.encode() not in b"".join(exports.jsonl(store))
    for one in Path(str(store.path)).parent.glob("s.db*"):
        assert word.encode() not in one.read_bytes(), one


def test_a_file_that_grows_brings_no_title_back(store: clew.Store, file: Path) -> None:
    """The lines that come after a purge are stored; title, labels and records that repeat purged words are not."""
    take(store, file)
    store.sessions.purge([SESSION])
    file.write_bytes(jsonl(GROWN))
    done = take(store, file)
    assert said(store) == ["Go on"]
    assert store.sessions.get(SESSION).title in (None, "Go on")
    assert done.purged == 4
    file.write_bytes(jsonl([*GROWN, claude_line(4, 3, "assistant", "Fine")]))
    take(store, file)
    assert said(store) == ["Go on", "Fine"]
    assert_gone(store)


def test_again_brings_it_back(store: clew.Store, file: Path) -> None:
    """With `again` a purged conversation is imported whole, and its new messages follow as usual."""
    take(store, file)
    store.sessions.purge([SESSION])
    assert take(store, file).conversations == ()
    assert said(store) == []
    take(store, file, again=True)
    assert said(store) == [f"About {WORD}", "Yes"]
    file.write_bytes(jsonl(GROWN))
    take(store, file)
    assert said(store) == [f"About {WORD}", "Yes", "Go on"]
    assert store.sessions.get(SESSION).title == f"Talk of {WORD}"
    store.sessions.purge([SESSION])
    take(store, file)
    assert_gone(store)


@pytest.mark.parametrize("last", [3, 4])
def test_what_came_again_stays_in_sight(store: clew.Store, file: Path, last: int) -> None:
    """Messages that `again` brought back are on a branch or at the end, also after the file was read again."""
    lines = [*LINES, claude_line(3, 2, "user", "Go on"), claude_line(4, 3, "assistant", "Fine")]
    take(store, file)
    store.sessions.purge([SESSION])
    file.write_bytes(jsonl(lines))
    take(store, file)
    take(store, file, again=True)
    ImportedFiles(store).forget(lambda _: True)
    file.write_bytes(jsonl(lines[:last]))
    take(store, file)
    session = store.sessions.get(SESSION)
    ends = [session.path(), *(store.nodes.path(branch.head_id) for branch in session.branches())]
    assert {node.text for path in ends for node in path} == {f"About {WORD}", "Yes", "Go on", "Fine"}


def test_again_changes_nothing_that_was_not_purged(store: clew.Store, file: Path) -> None:
    """Reading a file again leaves its session as it is, so that the first import can still be undone."""
    this = ImportRecorder(store, (str(file),))
    list(import_all(store, find([str(file)]), recorder=this))
    take(store, file, again=True)
    assert undo(store, this.id).sessions == (SESSION,)


def test_an_undo_forgets_no_purge(store: clew.Store, file: Path) -> None:
    """A purged conversation stays out after the import that brought it was undone."""
    this = ImportRecorder(store, (str(file),))
    list(import_all(store, find([str(file)]), recorder=this))
    store.sessions.purge([SESSION])
    undo(store, this.id)
    done = take(store, file)
    assert (said(store), done.purged) == ([], 2)
    assert_gone(store)


def test_what_an_undo_removes_may_come_back(store: clew.Store, file: Path) -> None:
    """An undo is no purge: the next import brings the conversation back whole."""
    this = ImportRecorder(store, (str(file),))
    list(import_all(store, find([str(file)]), recorder=this))
    undo(store, this.id)
    assert take(store, file).messages == 2


def test_a_deleted_message_stays_deleted(store: clew.Store, file: Path) -> None:
    """A message that was deleted alone is left out, and what follows it in the file continues the conversation."""
    file.write_bytes(jsonl([*LINES, claude_line(3, 2, "user", "zubelkrantofimy")]))
    take(store, file)
    store.nodes.delete([an_id(3)])
    lines = [*LINES, claude_line(3, 2, "user", "zubelkrantofimy"), claude_line(4, 3, "assistant", "Fine")]
    file.write_bytes(jsonl(lines))
    take(store, file)
    assert said(store) == [f"About {WORD}", "Yes", "Fine"]
    file.rename(file.with_name("moved.jsonl"))
    take(store, file.with_name("moved.jsonl"))
    assert "zubelkrantofimy" not in "".join(said(store))


def test_the_mark_of_a_large_log_goes_with_it(store: clew.Store, file: Path) -> None:
    """What is known of a file that can be read from where it ended is deleted with its conversation."""
    lines = [claude_line(n, n - 1 if n > 1 else None, "user", f"{WORD} {n}" + "x" * 1000) for n in range(1, 1200)]
    data = jsonl(lines)
    assert len(data) > LARGE
    file.write_bytes(data)
    take(store, file)
    assert [one.file.mark is not None for one in ImportedFiles(store).files()] == [True]
    store.sessions.purge([SESSION])
    assert list(ImportedFiles(store).files()) == []
    file.write_bytes(jsonl([*lines, claude_line(1200, 1199, "assistant", "Fine")]))
    done = take(store, file)
    assert (said(store), done.purged) == (["Fine"], 1199)
    assert [one.file.mark for one in ImportedFiles(store).files()] == [None]


def test_an_export_brings_nothing_back(store: clew.Store, file: Path) -> None:
    """clew's own export leaves out what was purged here, and says how much; `again` imports it."""
    take(store, file)
    kept = store.sessions.create(title="other")
    kept.append(clew.user("stays"))
    before = list(exports.jsonl(store))
    store.sessions.purge([SESSION])
    done = exports.restore(store, before)
    assert (done.messages, done.sessions, done.known, done.purged) == (0, 0, 1, 2)
    assert said(store) == ["stays"]
    done = exports.restore(store, before, again=True)
    assert (done.messages, done.sessions, done.purged) == (2, 1, 0)


def test_an_agents_tree_brings_nothing_back(store: clew.Store, tmp_path: Path) -> None:
    """A session of an agents' tree that was purged is left out and counted, until `again`."""
    folder = tmp_path / "tree" / "app" / "sessions" / SESSION
    folder.mkdir(parents=True)
    (folder / "messages.jsonl").write_text('{"role": "user", "content": "hello"}\n')
    sessions = agents.SessionStore(store)
    assert len(agents.import_tree(sessions, tmp_path / "tree").sessions) == 1
    store.sessions.purge([SESSION])
    done = agents.import_tree(sessions, tmp_path / "tree")
    assert (done.sessions, done.purged, said(store)) == ((), 1, [])
    assert len(agents.import_tree(sessions, tmp_path / "tree", again=True).sessions) == 1


def test_a_dry_run_says_the_same(store: clew.Store, file: Path) -> None:
    """A dry run leaves out what the import would leave out."""
    take(store, file)
    store.sessions.purge([SESSION])
    (would,) = import_all(store, find([str(file)]), dry_run=True)
    assert (would.messages, would.purged) == (0, 2)
    (with_all,) = import_all(store, find([str(file)]), dry_run=True, again=True)
    assert with_all.messages == 2


def test_a_title_goes_with_the_prompt_that_it_was_made_from(store: clew.Store, tmp_path: Path) -> None:
    """Text of the program around the prompt is no hindrance; forks lose the title, too, and a chosen title stays."""
    for form, path in wrapped_prompts(tmp_path, f"Fix the {WORD}").items():
        take(store, path)
        (session,) = (one for one in store.sessions.list() if one.title == f"Fix the {WORD}")
        fork, chosen = session.fork(), session.fork(title="Fix")
        store.nodes.delete(session.path()[0].id, recursive=True)
        assert WORD not in f"{session.refresh().data}{fork.refresh().data}", form
        assert (session.refresh().title, fork.refresh().title, chosen.refresh().title) == (None, None, "Fix")
