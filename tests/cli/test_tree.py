"""`clew tree`: the shape that the document draws."""

import json
from datetime import UTC, datetime, timedelta

import pytest

import clew
from clew.base.ids import ALPHABET
from clew.cli.output.tree_layout import TreeItem, arrange, snippet

SAMPLE = """\
abc123 (2024-01-15 10:30) [USER] Hello, can you help me?
    def456 (2024-01-15 10:31) [ASSISTANT] Of course! What do you need?
        gh1789 (2024-01-15 10:32) [USER] I need help with Go
            jk1012 (2024-01-15 10:33) [ASSISTANT] Sure, what's your question?
            ------
        mn0345 (2024-01-15 10:35) [USER] Actually, Python instead
            pqr678 (2024-01-15 10:36) [ASSISTANT] No problem! What about Python do you want to kn...
            ------
"""
COMPACT = """\
abc123 (2024-01-15 10:30) [USER] Hello, can you help me?
def456 (2024-01-15 10:31) [ASSISTANT] Of course! What do you need?
    gh1789 (2024-01-15 10:32) [USER] I need help with Go
    jk1012 (2024-01-15 10:33) [ASSISTANT] Sure, what's your question?
    ------
    mn0345 (2024-01-15 10:35) [USER] Actually, Python instead
    pqr678 (2024-01-15 10:36) [ASSISTANT] No problem! What about Python do you want to kn...
    ------
"""
START = datetime(2024, 1, 15, 10, 30, tzinfo=UTC)


def id_of(handle: str) -> str:
    """An id that begins with this handle."""
    bits = 0
    for letter in handle.ljust(26, "0"):
        bits = bits << 5 | ALPHABET.index(letter)
    digits = (bits >> 2).to_bytes(16, "big")[::-1].hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def line(handle: str, role: str, text: str, minute: int) -> dict[str, str]:
    at = START + timedelta(minutes=minute)
    return {"id": id_of(handle), "role": role, "text": text, "created_at": at.isoformat()}


def sample(clew_cli, talk):
    """The document's conversation, with the letters that handles do not have replaced by those they are read as."""
    session = talk(
        line("abc123", "user", "Hello, can you help me?", 0),
        line("def456", "assistant", "Of course! What do you need?", 1),
        line("mn0345", "user", "Actually, Python instead", 5),
        line("pqr678", "assistant", "No problem! What about Python do you want to know, and why today?", 6),
    )
    fork = clew_cli("fork", session, "--at", "def456").out.strip()
    more = (
        line("gh1789", "user", "I need help with Go", 2),
        line("jk1012", "assistant", "Sure, what's your question?", 3),
    )
    assert clew_cli("append", fork, input="\n".join(map(json.dumps, more))).code == 0
    return session


@pytest.mark.checklist("D15")
def test_the_documents_sample(clew_cli, talk):
    """The tree reads letter for letter as the document shows it, whatever order the branches were made in."""
    sample(clew_cli, talk)
    assert clew_cli("conversation", "list").out == SAMPLE


def test_only_forks_are_indented(clew_cli, talk):
    """A conversation without forks stays at the margin, however long it is."""
    sample(clew_cli, talk)
    assert clew_cli("tree").out == clew_cli("conversation", "list", "--compact").out == COMPACT


def test_a_session_shows_its_tree_and_a_message_what_follows_it(clew_cli, talk):
    """Of a session the whole tree with other branches; a message begins a tree of its own."""
    talk("elsewhere")
    session = sample(clew_cli, talk)
    assert clew_cli("tree", session).out == COMPACT
    below = clew_cli("tree", "mn0345").out.splitlines()
    assert [each.split()[0] for each in below] == ["mn0345", "pqr678", "------"]
    assert below[0].startswith("mn0345")


def test_what_a_session_left_is_in_its_tree(clew_cli, talk, db):
    """A rewind to before the first message begins a second root; both are the session's."""
    session = talk("old")
    with clew.open(db) as store:
        it = store.sessions.get(session)
        it.rewind(None)
        it.append(clew.user("new"))
    assert [one["snippet"] for one in clew_cli("tree", session, "--json").json] == ["old", "new"]


def test_json_is_flat_and_in_order(clew_cli, talk):
    """Each message once, in the order of the lines, with its level: deep talks do not nest JSON deeply."""
    sample(clew_cli, talk)
    tree = clew_cli("tree", "--json").json
    assert [(one["handle"], one["level"], one["last"]) for one in tree] == [
        ("abc123", 0, False),
        ("def456", 0, False),
        ("gh1789", 1, False),
        ("jk1012", 1, True),
        ("mn0345", 1, False),
        ("pqr678", 1, True),
    ]
    assert clew_cli("tree", "--jsonl").lines == tree
    assert tree[1]["parent_id"] == tree[0]["id"]
    assert tree[0]["created_at"] == "2024-01-15T10:30:00.000000Z"


def test_an_empty_store_has_no_messages(clew_cli, program):
    """Nothing on stdout, a sentence on stderr, and no file is made by looking."""
    done = program("tree", env={"CLEW_DB": ""})
    assert (done.code, done.out, done.err) == (0, "", "No messages found.\n")
    assert program("tree", "--json", env={"CLEW_DB": ""}).json == []


@pytest.mark.checklist("D15")
def test_the_newest_trees_come_last(clew_cli, talk):
    """Trees are sorted by their newest message, not by their first; a limit keeps the newest."""
    talk(line("aaaaaa", "user", "begun first, last active", 0), line("bbbbbb", "user", "late", 30))
    talk(line("cccccc", "user", "between", 10))
    roots = [one["handle"] for one in clew_cli("tree", "--json").json if one["parent_id"] is None]
    assert roots == ["cccccc", "aaaaaa"]
    assert clew_cli("tree", "--limit", "1").out.startswith("aaaaaa")


@pytest.mark.checklist("D16")
def test_orphans_are_roots():
    """A message whose parent is not there is shown as a root."""
    leaves = [TreeItem("b", "gone", START, "user", "b", "x"), TreeItem("c", "b", START, "user", "c", "y")]
    assert [(placed.item.id, placed.level) for placed in arrange(leaves)] == [("b", 0), ("c", 1)]


def test_ten_thousand_deep():
    """Depth costs no recursion, and children given before their parents find them."""
    leaves = [TreeItem(str(n), str(n - 1) if n else None, START, "user", "h", "s") for n in reversed(range(10_000))]
    placed = list(arrange(leaves))
    assert [placed[0].level, placed[-1].level, len(placed)] == [0, 9_999, 10_000]
    assert {one.level for one in arrange(leaves, compact=True)} == {0}


def test_a_deep_talk_through_the_command_line(clew_cli, db):
    """A session deeper than Python's recursion limit is printed."""
    with clew.open(db) as store:
        store.sessions.create().append([clew.user(f"m{n}") for n in range(1_500)])
    done = clew_cli("tree")
    assert done.code == 0
    assert len(done.out.splitlines()) == 1_501


@pytest.mark.checklist("D15")
def test_snippets():
    """Fifty characters and not bytes, newlines as spaces, and something to see where there are no words."""
    assert snippet(clew.user("é" * 50)) == "é" * 50
    assert snippet(clew.user("é" * 51)) == "é" * 47 + "..."
    assert snippet(clew.user("a\nb\r\nc")) == "a b c"
    image = clew.Media(mime_type="image/png", modality="image", url="http://x")
    call = clew.ToolCall(id="1", name="run", arguments={"cmd": "ls"})
    assert snippet(clew.user(image)) == "Image"
    assert snippet(clew.user(image, "words")) == "words"
    assert snippet(clew.assistant(clew.Thinking(text="hm"), call)) == "run: ls"
    assert snippet(clew.tool("done", call_id="1")) == "done"
    assert snippet(clew.assistant(clew.Thinking(text="hm"))) == "Thinking"
    assert snippet(clew.user()) == ""
