"""A secret that was removed from an imported message stays away, whatever is imported after it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.exports import jsonl, restore
from clew.redaction import Rules, builtin
from clew.sources.import_all import import_all
from clew.sources.import_log import ImportRecorder
from clew.sources.importer import records
from clew.sources.registry import find
from clew.sources.undo import undo
from clew.store.redact_message import redact_message
from tests.reliability.canaries import content
from tests.sources.made import SESSION, an_id, claude_line, wrapped_prompts
from tests.sources.made import jsonl as lines

TOKEN = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
FORK = an_id(998)
RULES = Rules(builtin())
KEYS = {"plain": None, "sealed": bytes(range(32))}
TALK: list[dict[str, Any]] = [
    claude_line(1, None, "user", f"Deploy with {TOKEN}, please"),
    {"type": "last-prompt", "lastPrompt": f"Deploy with {TOKEN}, please", "sessionId": SESSION},
    claude_line(2, 1, "assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "env"}}]),
    claude_line(3, 2, "user", [{"type": "tool_result", "tool_use_id": "t1", "content": f'{{"key": "{TOKEN}"}}'}]),
    claude_line(4, 3, "assistant", "Done"),
]
BOUNDARY = {
    **claude_line(5, None, "system", ""), "type": "system", "subtype": "compact_boundary",
    "logicalParentUuid": an_id(4), "compactMetadata": {"trigger": "manual"},
}  # fmt: skip
SUMMARY = claude_line(6, 5, "user", "They deployed.", isCompactSummary=True)


@pytest.fixture(params=list(KEYS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "s.db", key=KEYS[request.param]) as store:
        yield store


def write(tmp_path: Path, name: str, records: list[dict[str, Any]]) -> Path:
    path = tmp_path / "projects" / "p" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lines(records))
    return path


def fork(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A forked copy, as Claude Code writes it: the same uuids under another session."""
    return [{**one, "sessionId": FORK} for one in records]


def bring(store: clew.Store, *paths: Path, **how: Any) -> None:
    for outcome in import_all(store, find([str(path) for path in paths]), **how):
        assert not outcome.skipped


def clean(store: clew.Store, *ids: str) -> None:
    for id in ids:
        done = redact_message(store, store.nodes.get(id)[0], RULES)
        assert done.findings and done.receipt is not None and not done.receipt.pending


def assert_gone(store: clew.Store, tmp_path: Path) -> None:
    for session in store.sessions.list().all():
        assert TOKEN not in str([session.data, [entry.data for entry in session.log.read()]])
        assert TOKEN not in b"".join(records(session, store)).decode()
        assert TOKEN not in str([node.said for node in session.history()])
    assert not store.search("ghp_0123456789abcdefghijklmnopqrstuvwxyz")
    assert TOKEN.encode() not in content(tmp_path / "s.db")
    assert store.verify().ok


def test_forks_compactions_and_calls(store: clew.Store, tmp_path: Path) -> None:
    """Messages that a fork shares, before a compaction, a result of a tool call: all sessions have the new version."""
    one = write(tmp_path, SESSION, [*TALK, BOUNDARY, SUMMARY])
    two = write(tmp_path, FORK, [*fork(TALK), claude_line(7, 4, "user", "And then?", sessionId=FORK)])
    bring(store, one, two)
    shown = {s.id: [node.id for node in s.history()] for s in store.sessions.list().all()}
    assert len(shown) == 2 and all(an_id(1) in way for way in shown.values())
    clean(store, an_id(1), an_id(3))
    assert_gone(store, tmp_path)
    assert {s.id: [node.id for node in s.history()] for s in store.sessions.list().all()} == shown
    assert [json.loads(line)["type"] for line in records(store.sessions.get(SESSION), store)] == [
        one["type"] for one in [*TALK, BOUNDARY, SUMMARY]
    ]


@pytest.mark.parametrize("again", [False, True], ids=["grown", "again"])
def test_the_same_history_again(store: clew.Store, tmp_path: Path, again: bool) -> None:
    """Neither a file that has grown, nor one that is read as a whole again, nor a new fork of it brings it back."""
    path = write(tmp_path, SESSION, TALK)
    bring(store, path)
    clean(store, an_id(1), an_id(3))
    assert_gone(store, tmp_path)
    write(tmp_path, SESSION, [*TALK, claude_line(5, 4, "user", "Next")])
    copy = write(tmp_path, FORK, [*fork([TALK[0], *TALK[2:]]), claude_line(7, 4, "user", "And then?", sessionId=FORK)])
    bring(store, path, copy, again=again)
    assert_gone(store, tmp_path)
    texts = [node.id for node in store.sessions.get(SESSION).path()]
    assert texts == [an_id(number) for number in (1, 2, 3, 4, 5)]
    assert [node.id for node in store.sessions.get(FORK).path()] == [an_id(number) for number in (1, 2, 3, 4, 7)]


def test_a_large_log_that_is_continued(store: clew.Store, tmp_path: Path) -> None:
    """What is noted to continue a log has no title that repeats it, and the title stays without it as the log grows."""
    long = [claude_line(n, n - 1, "user" if n % 2 else "assistant", "x" * 9000) for n in range(5, 130)]
    titled = {"type": "ai-title", "aiTitle": f"Deploy with {TOKEN}", "sessionId": SESSION}
    path = write(tmp_path, SESSION, [*TALK, titled, *long])
    bring(store, path)
    clean(store, an_id(1), an_id(3))
    assert_gone(store, tmp_path)
    write(tmp_path, SESSION, [*TALK, titled, *long, claude_line(130, 129, "user", "Next")])
    bring(store, path)
    assert_gone(store, tmp_path)
    assert store.sessions.get(SESSION).title == "Deploy with ***"


def test_a_title_made_beside_a_programs_text(store: clew.Store, tmp_path: Path) -> None:
    """It loses the secret and nothing else, even if it was cut within the secret."""
    for number, (start, end) in enumerate((("Use ", ""), ("word " * 14, " and more"))):
        for form, path in wrapped_prompts(tmp_path / str(number), f"{start}{TOKEN}{end}", first=number).items():
            bring(store, path)
            (session,) = (one for one in store.sessions.list().all() if TOKEN[:6] in str(one.title))
            clean(store, session.path()[0].id)
            title = session.refresh().title
            assert title is not None and title.startswith(f"{start}***") and len(title) <= 80, form
            assert TOKEN[:6] not in f"{session.refresh().data}"
            assert end or title == "Use ***", form


@pytest.mark.parametrize("tool", ["claude-code", "hf-traces"])
def test_a_title_does_not_end_in_half_a_secret(tool: str, tmp_path: Path) -> None:
    """A title that is made from the first prompt is made after redaction, so that no rule misses what is cut off."""
    prompt = f"{'word ' * 13}{TOKEN} and more"
    if tool == "claude-code":
        path = write(tmp_path, SESSION, [claude_line(1, None, "user", prompt)])
    else:
        head = {"type": "session", "harness": "x", "id": "s"}
        path = write(tmp_path, "t", [head, {"type": "message", "message": {"role": "user", "content": prompt}}])
    with clew.open(tmp_path / "s.db", redact=RULES) as store:
        bring(store, path)
        (session,) = store.sessions.list()
        assert session.title is not None and "***" in session.title
        assert TOKEN[:8] not in session.title
        assert TOKEN[:8].encode() not in content(tmp_path / "s.db")


def test_an_earlier_export(store: clew.Store, tmp_path: Path) -> None:
    """An export that was made before and is imported again does not bring it back, nor does it fail."""
    bring(store, write(tmp_path, SESSION, TALK))
    saved = b"".join(jsonl(store))
    clean(store, an_id(1), an_id(3))
    import io

    restore(store, io.BytesIO(saved))
    assert_gone(store, tmp_path)


def test_copies_of_what_was_redacted_at_import(tmp_path: Path) -> None:
    """With rules for the store, a fork's differing records are kept as before, without the secret."""
    with clew.open(tmp_path / "s.db", redact=RULES) as store:
        bring(store, write(tmp_path, SESSION, TALK), write(tmp_path, FORK, fork(TALK)))
        assert_gone(store, tmp_path)
        kept = [json.loads(line) for line in records(store.sessions.get(FORK), store)]
        assert [one["sessionId"] for one in kept] == [FORK] * len(TALK)


@pytest.mark.parametrize("how", ["again", "grown"])
def test_a_secret_in_the_branch(store: clew.Store, tmp_path: Path, how: str) -> None:
    """A secret that was removed from a message and the git branch does not return in the branch."""
    talk = [{**line, "gitBranch": f"fix-{TOKEN}"} for line in TALK]
    file = write(tmp_path, SESSION, talk)
    list(import_all(store, find([str(file)])))
    clean(store, an_id(1), an_id(3))
    if how == "grown":
        more = {**claude_line(5, 4, "user", "Next"), "gitBranch": f"fix-{TOKEN}"}
        file = write(tmp_path, SESSION, [*talk, more])
    list(import_all(store, find([str(file)]), again=how == "again"))
    assert TOKEN not in json.dumps(store.sessions.get(SESSION).extra)


PROMPT = {"type": "last-prompt", "lastPrompt": f"Deploy with {TOKEN}, please", "sessionId": SESSION}
ANSWER = [claude_line(1, None, "user", "Which key?"), claude_line(2, 1, "assistant", f"Use {TOKEN}")]


@pytest.mark.parametrize("held", [False, True])
def test_a_line_that_repeats_it_later(store: clew.Store, tmp_path: Path, held: bool) -> None:
    """It is left out, though nothing but the message had the secret, and also if the session is on hold."""
    bring(store, write(tmp_path, SESSION, ANSWER))
    clean(store, an_id(2))
    if held:
        store.sessions.hold(SESSION, "legal")
    bring(store, write(tmp_path, SESSION, [*ANSWER, PROMPT, claude_line(3, 2, "user", "Go on")]))
    assert "Go on" in [node.text for session in store.sessions.list() for node in session.path()]
    assert_gone(store, tmp_path)


def test_a_line_before_the_message(store: clew.Store, tmp_path: Path) -> None:
    """A fork's file that repeats the secret before its copy of the redacted message leaves that line out."""
    bring(store, write(tmp_path, SESSION, ANSWER))
    clean(store, an_id(2))
    bring(store, write(tmp_path, FORK, fork([PROMPT, *ANSWER, claude_line(3, 2, "user", "Go on")])))
    assert_gone(store, tmp_path)


def test_an_undo_leaves_a_redacted_session(store: clew.Store, tmp_path: Path) -> None:
    """Otherwise the next import would bring the secret back."""
    path, this = write(tmp_path, SESSION, ANSWER), ImportRecorder(store)
    bring(store, path, recorder=this)
    clean(store, an_id(2))
    assert [one.session for one in undo(store, this.id).left] == [SESSION]
    bring(store, path)
    assert_gone(store, tmp_path)
