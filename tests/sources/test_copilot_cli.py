"""The event logs of Copilot CLI."""

from __future__ import annotations

import zipfile
from pathlib import Path

from clew.base.messages import Opaque, Text, Thinking, ToolCall, ToolResult, Usage
from clew.sources.contract import About, Part
from clew.sources.copilot_cli import CopilotCLI
from clew.sources.items import items
from tests.sources.made import about, an_id, jsonl, messages, path, read, view
from tests.sources.samples.copilot_cli import EVENTS, FILES, SESSION, event

SOURCE = CopilotCLI()
((PATH, DATA),) = FILES.items()


def parts() -> list[Part]:
    return read(SOURCE, DATA, PATH)


def test_messages_follow_each_other() -> None:
    """Results follow their answer though the events of a subagent stand between them."""
    found = messages(parts())
    assert path(found, an_id(15)) == [an_id(number) for number in (2, 4, 11, 12, 13, 15)]


def test_a_rewind_leaves_a_branch() -> None:
    """The prompt after a rewind follows the message before the event that was taken back."""
    assert path(messages(parts()), an_id(19))[-3:] == [an_id(13), an_id(17), an_id(19)]


def test_a_compaction_begins_a_new_path() -> None:
    """The summary is a root that stands for the last message before it."""
    found = messages(parts())
    assert path(found, an_id(21)) == [an_id(20), an_id(21)]
    assert found[an_id(20)].derived == an_id(19)
    assert (view(found[an_id(20)]).role, view(found[an_id(20)]).text) == ("user", "We fixed it.")


def test_a_subagent_is_a_conversation_of_its_own() -> None:
    """It has its own path, its name, and the session as its owner."""
    found = parts()
    assert path(messages(found), an_id(10)) == [an_id(number) for number in (7, 8, 9, 10)]
    (trace,) = [one for one in found if isinstance(one, About) and one.owner is not None]
    assert (trace.conversation, trace.owner, trace.agent) == (f"{SESSION}/c2", SESSION, "explore")
    assert SOURCE.resume(SESSION) == f"copilot --resume {SESSION}"
    assert SOURCE.resume(trace.conversation) is None


def test_a_subagent_by_its_own_id() -> None:
    """Newer events name the agent beside the data."""
    lines = [EVENTS[0], event(2, "user.message", {"content": "Search"}, agentId="a1")]
    assert messages(read(SOURCE, jsonl(lines), PATH))[an_id(2)].conversation == f"{SESSION}/a1"


def test_what_a_message_says() -> None:
    """Texts, reasoning, calls, results with their failure, model and tokens are in the view."""
    found = messages(parts())
    assert view(found[an_id(2)]).blocks[0] == Text(text="Fix the test")
    assert isinstance(view(found[an_id(2)]).blocks[1], Opaque)
    answer = view(found[an_id(4)])
    assert answer.blocks[:3] == (
        Thinking(text="Read it first."),
        Text(text="I look."),
        ToolCall(id="c1", name="bash", arguments={"command": "pytest"}),
    )
    assert (answer.role, answer.model, answer.usage) == ("assistant", "claude-sonnet-5-5", Usage(output=21))
    failed, done = view(found[an_id(11)]), view(found[an_id(12)])
    assert failed.blocks == (ToolResult(call_id="c1", content=(Text(text="exit code 1"),), is_error=True),)
    assert (done.role, done.text) == ("tool", "a.py")
    assert view(found[an_id(19)]).model == "gpt-6-sol"


def test_facts() -> None:
    """Title, folder, git branch, version and model are known."""
    found = parts()
    facts = [about(found, name) for name in ("title", "cwd", "branch", "version")]
    assert facts == [["Fix the test"], ["/src/app"], ["main"], ["1.0.102"]]
    assert about(found, "model") == ["claude-sonnet-5-5", "gpt-6-sol"]
    assert str(messages(found)[an_id(2)].created_at) == "2026-11-01 10:00:02+00:00"


def test_a_rewind_to_an_unknown_event() -> None:
    """A rewind whose events are no longer in the file changes nothing."""
    lines = [*EVENTS[:2], event(16, "session.snapshot_rewind", {"upToEventId": "gone"}), EVENTS[16]]
    assert path(messages(read(SOURCE, jsonl(lines), PATH)), an_id(17)) == [an_id(2), an_id(17)]


def test_an_emptied_context() -> None:
    """After the context was cleared, the next prompt is a root."""
    lines = [*EVENTS[:2], event(16, "session.context_cleared", {"messagesCleared": 1}), EVENTS[16]]
    assert path(messages(read(SOURCE, jsonl(lines), PATH)), an_id(17)) == [an_id(17)]


def test_the_name_beside_the_log(tmp_path: Path) -> None:
    """The name that ``workspace.yaml`` has wins; in an archive it is found beside the log too."""
    folder = tmp_path / SESSION
    folder.mkdir()
    (folder / "events.jsonl").write_bytes(DATA)
    (folder / "workspace.yaml").write_text("id: x\nsummary: |-\n  Fix the\n  tests\ncwd: '/src/b'\nbranch: null\n")
    (item,) = items(str(folder / "events.jsonl"))
    found = list(SOURCE.read(item))
    assert (about(found, "title")[-1], about(found, "cwd")[-1]) == ("Fix the tests", "/src/b")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"{SESSION}/{file.name}")
    (member,) = [one for one in items(str(tmp_path / "a.zip")) if (one.member or "").endswith(".jsonl")]
    assert list(SOURCE.read(member)) == found
