"""`clew conversation`: the words, forms and exit codes of the document for messages by id."""

from __future__ import annotations

import pytest

import clew
from tests.cli.test_tree import SAMPLE, id_of, sample


@pytest.mark.checklist("D14")
@pytest.mark.parametrize("group", ["conversation", "convo", "conv"])
@pytest.mark.parametrize("name", ["list", "ls"])
def test_list(clew_cli, talk, group, name):
    """The tree, letter for letter as the document shows it, by every name."""
    sample(clew_cli, talk)
    assert clew_cli(group, name).out == SAMPLE


@pytest.mark.checklist("D14")
def test_an_empty_list(clew_cli, monkeypatch):
    """It says so, and is no failure."""
    monkeypatch.delenv("CLEW_DB")
    done = clew_cli("conversation", "list")
    assert (done.code, done.out) == (0, "No messages found.\n")


def test_a_tools_result_has_the_documents_name(clew_cli, talk):
    """TOOL_RESULT; what has no words shows what it is."""
    call = {"type": "tool_call", "id": "1", "name": "look", "arguments": {"at": "x"}}
    text = {"type": "text", "text": "y"}
    image = {"type": "media", "mime_type": "image/png", "modality": "image", "url": "https://x.test/a.png"}
    talk(
        {"role": "user", "blocks": [image]},
        {"role": "assistant", "blocks": [call]},
        {"role": "tool", "blocks": [{"type": "tool_result", "call_id": "1", "content": [text]}]},
    )  # fmt: skip
    ends = [line.split("[", 1)[1] for line in clew_cli("conversation", "list").out.splitlines()[:-1]]
    assert ends == ["USER] Image", "ASSISTANT] look: x", "TOOL_RESULT] y"]


@pytest.mark.checklist("D17")
@pytest.mark.parametrize("name", ["print", "show", "view"])
def test_print(clew_cli, talk, name):
    """The talk up to a message and never what follows it: headers with ids, thinking quoted, calls as JSON."""
    id = talk(
        "One",
        {"role": "assistant", "blocks": [{"type": "thinking", "text": "Hm."}, {"type": "text", "text": "1"},
                                         {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"a": 1}}]},
        {"role": "tool", "blocks": [{"type": "tool_result", "call_id": "c1", "is_error": True, "content": []}]},
        "After",
    )  # fmt: skip
    nodes = clew_cli("show", id, "--json").json["messages"]
    out = clew_cli("conversation", name, nodes[2]["handle"]).out
    for node in nodes[:2]:
        assert f"## {node['role']} · {node['handle']} · " in out
    assert "\n> Hm.\n" in out
    assert '```json\n{\n  "a": 1\n}\n```' in out
    assert f'\n**look** `{{"a":1}}` · error · {nodes[2]["handle"]}\n' in out
    assert "After" not in out
    assert clew_cli("conversation", name, "nothing").code == 3


@pytest.mark.checklist("D14")
@pytest.mark.parametrize("name", ["delete", "rm", "remove"])
def test_delete(clew_cli, talk, name):
    """A leaf goes; a message that others follow goes only with --cascade; each id is reported by itself."""
    sample(clew_cli, talk)
    done = clew_cli("conversation", name, "jk1012", "abc123", "zzzzzz")
    assert done.code == 8
    assert done.out == "jk1012: message deleted\n"
    assert "message 'zzzzzz' not found" in done.err
    assert done.err.startswith("clew: abc123: ")
    assert "--cascade" in done.err
    assert clew_cli("conversation", name, "abc123").code == 1
    assert "abc123" in clew_cli("tree").out
    done = clew_cli("conversation", name, "--cascade", "def456")
    assert (done.code, done.out) == (0, "def456: message and 3 later messages deleted\n")
    assert clew_cli("tree").out.count("\n") == 2


def test_a_deleted_root_leaves_no_title(clew_cli):
    """The session that is left is not called by the deleted words, and what is not cleared yet is named."""
    assert clew_cli("chat", "-m", "offline", "xylophone tuning").code == 0
    assert "xylophone" in clew_cli("ls").out
    root = clew_cli("tree").out[:6]
    done = clew_cli("conversation", "delete", "--cascade", root)
    assert (done.code, "clew purge" in done.err) == (0, True)
    for words in (("ls", "--all"), ("ls", "--json"), ("tree",)):
        assert "xylophone" not in clew_cli(*words).out


def test_deleting_an_unknown_message(clew_cli, talk):
    """Deleting an unknown id fails; the id of a session is refused, with a hint."""
    id = talk("One")
    assert clew_cli("conversation", "delete", id_of("abc123")).code == 3
    done = clew_cli("conversation", "delete", id)
    assert done.code == 1
    assert "clew rm" in done.err


def test_a_dry_run_deletes_nothing(clew_cli, talk):
    """It says what would be."""
    sample(clew_cli, talk)
    before = clew_cli("tree").out
    done = clew_cli("conversation", "delete", "--dry-run", "--cascade", "def456", "abc123")
    assert done.out.splitlines()[0] == "def456: message and 4 later messages would be deleted"
    assert clew_cli("tree").out == before


def test_delete_as_json(clew_cli, talk):
    """For scripts: each id with what became of it."""
    sample(clew_cli, talk)
    done = clew_cli("conversation", "delete", "--json", "pqr678", "abc123")
    assert [(item["asked"], item["ok"]) for item in done.json] == [("pqr678", True), ("abc123", False)]
    assert clew_cli("conversation", "delete", "--jsonl", "mn0345").lines[0]["deleted"] == 1


def test_a_held_message_stays(clew_cli, talk):
    """A hold keeps what it covers, also from here."""
    id = talk("One")
    clew_cli("hold", "add", id)
    node = clew_cli("show", id, "--json").json["messages"][0]["handle"]
    assert clew_cli("conversation", "delete", node).code == 1


def test_subagents_stand_under_their_parent(clew_cli, db, tmp_path, monkeypatch):
    """Under the message that called them, named; and so in the tree of their parent, and of its directory."""
    monkeypatch.chdir(tmp_path)
    with clew.open(db) as store:
        parent = store.sessions.create(cwd=tmp_path)
        call = parent.append([clew.user("Review"), clew.assistant("I ask.")])[1]
        trace = store.sessions.create(agent="review", owner=parent, extra={"called_at": call.id})
        trace.append([clew.user("Look"), clew.assistant("Good.")])
        parent.append(clew.user("Thanks"))
        other = store.sessions.create(cwd="/elsewhere")
        other.append(clew.user("Elsewhere"))
        handle = parent.handle

    def shape(*args: str) -> list[str]:
        lines = clew_cli("tree", *args).out.splitlines()
        return [line[: len(line) - len(line.lstrip())] + line.partition("] ")[2] for line in lines if "[" in line]

    talk = ["Review", "I ask.", "    ↳ review: Look", "    Good.", "    Thanks"]
    assert shape(handle) == talk
    assert shape("--here") == talk
    assert shape() == [*talk, "Elsewhere"]
    shown = clew_cli("tree", handle, "--json").json
    assert [(one["agent"], one["parent_id"], one["under"]) for one in shown if one["agent"]] == [
        ("review", None, call.id)
    ]
    assert clew_cli("tree", handle, "--here").code == 2
