"""Chats of VS Code: documents and logs of changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew.base.messages import Opaque, Text, Thinking, ToolCall, ToolResult, Usage
from clew.sources.contract import Entry, Home, Part, derived_id
from clew.sources.items import items
from clew.sources.vscode import NAME, VSCode
from tests.sources.made import about, an_id, document_of, entries, messages, path, read, view
from tests.sources.samples import vscode as sample

SOURCE = VSCode()


def id_of(key: str, number: int) -> str:
    return derived_id(NAME, sample.SESSION, f"{key}_{an_id(number)}")


def parts(folder: Path, name: str, data: bytes) -> list[Part]:
    for other, text in sample.WORKSPACE.items():
        (folder / other).parent.mkdir(parents=True, exist_ok=True)
        (folder / other).write_bytes(text)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    (item,) = items(str(folder / name))
    return list(SOURCE.read(item))


@pytest.fixture(params=["document", "log"])
def found(request: pytest.FixtureRequest, tmp_path: Path) -> list[Part]:
    if request.param == "document":
        return parts(tmp_path, sample.DOCUMENT, sample.document())
    return parts(tmp_path, sample.LOG, sample.log())


def test_requests_and_responses_follow_each_other(found: list[Part]) -> None:
    """Both forms of a chat give the same messages under the same ids."""
    told = messages(found)
    last = id_of("request", 4)
    assert path(told, last)[:-1] == [id_of(kind, number) for number in (1, 3) for kind in ("request", "response")]
    assert [view(told[id]).text.splitlines()[0] for id in path(told, last)] == [
        "Run the tests", "I run the tests in app.py.", "Fix it", "Fixed.", "And now?",
    ]  # fmt: skip


def test_what_a_response_says(found: list[Part]) -> None:
    """Text with the names of files, thoughts, calls with their results and failures, unknown parts."""
    answer = view(messages(found)[id_of("response", 1)])
    assert answer.blocks == (
        Thinking(text="I run them."),
        Text(text="I run the tests in app.py."),
        ToolCall(id="c1", name="run_in_terminal", arguments={"command": "npm test"}),
        ToolResult(call_id="c1", content=(Text(text="1 failed"),), is_error=True),
        ToolCall(id="c2__vscode-17", name="copilot_readFile", arguments={"path": "app.py"}),
        ToolResult(call_id="c2__vscode-17", content=(Text(text="print(1)"),)),
        Opaque(kind="made.up", data={"kind": "made.up", "x": 1}),
        Text(text="One fails."),
    )
    assert (answer.role, answer.model, answer.usage) == (
        "assistant", "copilot/gpt-6-sol", Usage(input=120, output=30),
    )  # fmt: skip


def test_facts(found: list[Part]) -> None:
    """Title, folder, git branch, model and times are known."""
    facts = [about(found, name) for name in ("title", "cwd", "branch", "model")]
    assert facts == [["Run the tests"], ["/src/my app"], ["main"], ["copilot/gpt-6-sol"]]
    told = messages(found)
    assert str(told[id_of("request", 1)].created_at) == "2026-10-26 07:33:21+00:00"
    assert str(told[id_of("response", 1)].created_at) == "2026-10-26 07:33:21.500000+00:00"


def test_an_unfinished_response_is_not_the_final_one(found: list[Part]) -> None:
    """The response that still runs is kept under an id of its own, so that the whole one can follow."""
    (pending,) = [entry for entry in messages(found).values() if entry.note is not None]
    assert pending.id != id_of("response", 4)
    assert (pending.parent, view(pending).text) == (id_of("request", 4), "Now")
    assert about(found, "head") == [pending.id]


def test_requests_that_were_taken_away_are_a_branch(tmp_path: Path) -> None:
    """A request that a later change removed is still there, and follows what it followed."""
    told = messages(parts(tmp_path, sample.LOG, sample.log()))
    assert path(told, id_of("response", 2))[1:3] == [id_of("response", 1), id_of("request", 2)]
    assert told[id_of("request", 3)].parent == id_of("response", 1)


def test_every_byte_of_a_document(tmp_path: Path) -> None:
    """The frame and the requests give the document back."""
    assert document_of(parts(tmp_path, sample.DOCUMENT, sample.document())) == sample.document()


def test_changes_that_do_not_fit() -> None:
    """They are kept and noted, and the chat is read without them."""
    odd: list[dict[str, Any]] = [
        {"kind": 1, "k": ["requests", 9, "vote"], "v": 1},
        {"kind": 2, "k": ["version"], "v": 3, "i": -5},
        {"kind": 3, "k": ["none"]},
        {"kind": 1, "k": [["x"]], "v": 1},
        {"kind": 1, "k": "requests", "v": 1},
    ]
    found = read(SOURCE, sample.log([*sample.CHANGES, *odd]), sample.LOG)
    notes = [entry.note for entry in entries(found) if entry.message is None]
    assert [note is not None for note in notes] == [*[False] * 9, True, False, True, False, True, True, True]
    assert id_of("response", 3) in messages(found)


def test_a_prompt_that_is_hidden_is_not_the_head(tmp_path: Path) -> None:
    """A request that the next prompt will replace is kept, and the chat ends before it."""
    chat = {**sample.CHAT, "requests": [sample.FIRST, {**sample.SECOND, "shouldBeRemovedOnSend": {"requestId": "r"}}]}
    found = parts(tmp_path, sample.DOCUMENT, sample.document(chat))
    assert about(found, "head") == [id_of("response", 1)]
    assert id_of("response", 3) in messages(found)


def test_a_prompt_as_plain_text(tmp_path: Path) -> None:
    """Very old chats have the prompt as text."""
    chat = {**sample.CHAT, "requests": [{"requestId": "r", "message": "Hello", "response": [{"value": "Hi"}]}]}
    told = messages(parts(tmp_path, sample.DOCUMENT, sample.document(chat)))
    assert [view(entry).text for entry in told.values()] == ["Hello", "Hi"]


def test_where_editors_are_looked_for() -> None:
    """Every editor of the family, on each system."""
    for system, place in [
        ("linux", "/h/.config/VSCodium/User"),
        ("darwin", "/h/Library/Application Support/Cursor/User"),
        ("win32", "/h/AppData/Roaming/Windsurf/User"),
    ]:
        assert f"{place}/workspaceStorage/*/chatSessions" in set(SOURCE.discover(Home("/h", {}, system)))


def test_entries_keep_their_types() -> None:
    """A chat without requests keeps its record."""
    (kept,) = read(SOURCE, sample.document({**sample.CHAT, "requests": []}), sample.DOCUMENT)
    assert isinstance(kept, Entry)
