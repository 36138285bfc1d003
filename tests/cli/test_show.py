"""`clew show`: a conversation to read."""

import json
import re
import signal
import subprocess
import sys

import pytest

import clew
from clew.store.session import delete_session
from tests.cli.test_upkeep import damage

WORDS = {"type": "text", "text": "exit 1"}
TALK = (
    "Why is the build failing?",
    {
        "role": "assistant",
        "model": "some-model",
        "blocks": [
            {"type": "thinking", "text": "Look at\nthe log."},
            {"type": "thinking", "redacted": "abc"},
            {"type": "text", "text": "I look.\n\n\tSoon."},
            {"type": "tool_call", "id": "c1", "name": "run", "arguments": {"cmd": "make"}},
        ],
    },
    {"role": "tool", "blocks": [{"type": "tool_result", "call_id": "c1", "is_error": True, "content": [WORDS]}]},
    {"blocks": [{"type": "media", "mime_type": "image/png", "modality": "image", "url": "x:/a", "name": "screen.png"}]},
    {"provider": "anthropic", "raw": '{"role":"assistant","content":[{"type":"hologram","depth":3}]}'},
)


@pytest.mark.checklist("D17")
def test_everything_that_was_said(clew_cli, talk):
    """Role headers with handles, thinking as a quote, tool calls fenced, errors marked, media named."""
    session = talk(*TALK, title="Build fails", cwd="/src/app")
    out = clew_cli("show", session).out
    head, *rest = out.split("\n## ")
    assert head.splitlines()[0] == "# Build fails"
    assert "5 messages" in head
    assert "/src/app" in head
    nodes = clew_cli("show", session, "--jsonl").lines
    shown = [node for node in nodes if node["role"] != "tool"]
    for part, node in zip(rest, shown, strict=True):
        assert part.startswith(f"{node['role']} · {node['handle']} · ")
    assert rest[0].endswith("\n\nWhy is the build failing?\n")
    assert rest[1].splitlines()[0].endswith("· some-model")
    assert "\n> Look at\n> the log.\n" in rest[1]
    assert "\nI look.\n\n\tSoon.\n" in rest[1]
    assert "✗ run make · error\n  cmd: make\n  exit 1\n" in rest[1]
    assert "[image: image/png, screen.png]" in rest[2]
    assert "[hologram]" in rest[3]


def test_the_last_ones(clew_cli, talk):
    """--last keeps the end of the talk."""
    session = talk("a", "b", "c")
    assert [node["text"] for node in clew_cli("show", session, "--last", "2", "--jsonl").lines] == ["b", "c"]
    assert clew_cli("show", session, "--last", "0").code == 2


def test_a_message_shows_the_talk_that_led_to_it(clew_cli, talk):
    """With the handle of a message: from the root to it, and nothing after."""
    session = talk("a", "b", "c")
    middle = clew_cli("show", session, "--jsonl").lines[1]
    done = clew_cli("show", middle["handle"], "--json").json
    assert done["session"] is None
    assert [node["text"] for node in done["messages"]] == ["a", "b"]
    assert [node["text"] for node in clew_cli("show", middle["id"], "--last", "1", "--jsonl").lines] == ["b"]


def test_json_is_one_document(clew_cli, talk):
    """--json has the session and its messages; --jsonl the messages alone."""
    session = talk(*TALK, title="Build fails")
    done = clew_cli("show", session, "--json").json
    assert done["session"]["title"] == "Build fails"
    assert done["messages"] == clew_cli("show", session, "--jsonl").lines
    assert done["messages"][4]["raw"] == TALK[4]["raw"]
    assert clew_cli("show", session, "--json", "--jsonl").code == 2


def test_a_session_without_messages(clew_cli, db):
    """It has a head and no body."""
    with clew.open(db) as store:
        session = store.sessions.create(title="Empty").id
    assert "0 messages" in clew_cli("show", session).out
    assert clew_cli("show", session, "--json").json["messages"] == []


def test_the_rest_of_a_damaged_talk_is_shown(clew_cli, talk, db):
    """A message whose bytes changed is named, the others are readable, and the exit code says damaged."""
    session = talk("first", "a secret", "last")
    damage(db)
    done = clew_cli("show", session)
    assert done.code == 7
    assert "first" in done.out
    assert "last" in done.out
    assert "(damaged: " in done.out
    assert clew_cli("show", session, "--jsonl").lines[1]["damaged"]
    assert clew_cli("tree").code == 7
    assert clew_cli("verify").code == 7


def documents(clew_cli, talk):
    """A talk with everything in it that could be taken for something else."""
    text = {"type": "text", "text": "<i>no</i>"}
    hostile = "<script>alert(1)</script> ![x](http://x.test/a.png) [y](javascript:alert(2)) **bold**"
    return talk(
        hostile,
        {"role": "assistant", "blocks": [
            {"type": "text", "text": hostile},
            {"type": "thinking", "text": "one two three"},
            {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"a": "<b>"}},
        ]},
        {"role": "tool", "blocks": [
            {"type": "tool_result", "call_id": "c1", "is_error": True, "content": [text]},
        ]},
        title="<b>Title</b>",
    )  # fmt: skip


def test_a_page_loads_and_runs_nothing(clew_cli, talk):
    """Nothing that was said becomes a tag, an image, a script or a link to one."""
    out = clew_cli("show", documents(clew_cli, talk), "--as", "html").out
    for tag in ("<script", "<img", "<i>", "<b>Title", "<code><b>", 'href="javascript'):
        assert tag not in out
    assert "<strong>bold</strong>" in out
    assert "default-src 'none'" in out
    assert '<details class="think" open><summary>' in out
    assert (
        '<details class="think"><summary>' in clew_cli("show", documents(clew_cli, talk), "--as", "html", "--fold").out
    )


def test_a_page_links_to_the_web_and_to_mail_alone(clew_cli, talk):
    """Only http, https and mailto become links: other schemes start programs, and some addresses name no scheme."""
    good = ["https://a.test/x", "HTTP://b.test", "mailto:me@c.test"]
    bad = ["ms-msdt:/id", "intent://x#Intent", "//evil.test/x", "/etc/passwd", "file:///etc", "data:text/html,x"]
    bad += ["vscode://x", "java\tscript:alert(1)", "&#106;avascript:alert(1)", "x.html", "#top"]
    words = [f"[link]({url})" for url in (*good, *bad)] + [f"<{url}>" for url in (*good, *bad)]
    words += ["[ref]", "", "[ref]: ms-msdt:/id"]
    answer = {"role": "assistant", "blocks": [{"type": "text", "text": "\n\n".join(words)}]}
    out = clew_cli("show", talk("Where?", answer), "--as", "html").out
    links = [link for link in re.findall('href="([^"]*)"', out) if not link.startswith("#m")]
    assert {link.partition(":")[0].lower() for link in links} == {"http", "https", "mailto"}
    assert "ms-msdt:/id" in out


def test_folding(clew_cli, talk):
    """Thinking and tools take a line each; what was said is whole."""
    id = documents(clew_cli, talk)
    for args in ["--fold"], ["--fold", "--as", "markdown"]:
        out = clew_cli("show", id, *args).out
        assert "> thinking, 3 words" in out
        assert re.search(r"(✗|⚙) look:? \\?<b> · error", out)
        assert "alert(1)" in out
    assert "one two three" in clew_cli("show", id, "--as", "markdown").out


def test_raw_is_what_the_provider_wrote(clew_cli, talk):
    """Byte for byte, one message on a line."""
    raw = '{"role": "user",  "content": "x"}'
    id = talk({"provider": "openai", "raw": raw}, "neutral")
    first, second = clew_cli("show", id, "--as", "raw").out.splitlines()
    assert first == raw
    assert '"neutral"' in second
    assert clew_cli("show", id, "--as", "raw", "--json").code == 2
    assert clew_cli("show", id, "--as", "json").out == clew_cli("show", id, "--json").out
    assert clew_cli("show", id, "--as", "md").out == clew_cli("show", id, "--as", "markdown").out


def following(*args: str) -> subprocess.Popen[str]:
    """`clew show --follow`, which Ctrl+C reaches also where the tests themselves run in the background."""
    return subprocess.Popen(
        [sys.executable, "-m", "clew", "show", "--follow", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def test_following(talk, db):
    """--follow goes on with what others say, a line each, as it is said; Ctrl+C ends it without a word, code 130."""
    id = talk("a", "b", "c")
    with following(id, "--last", "1", "--jsonl") as running, clew.open(db) as store:
        assert running.stdout is not None
        assert running.stderr is not None
        assert json.loads(running.stdout.readline())["text"] == "c"
        session = store.sessions.get(id)
        for word in ("d", "e"):
            session.append(clew.user(word))
            assert json.loads(running.stdout.readline())["text"] == word
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 130
        assert (running.stdout.read(), running.stderr.read().strip()) == ("", "")


def test_following_as_text(talk, db):
    """As text too; and when the session is gone, that is told: code 3."""
    id = talk("a")
    with following(id) as running, clew.open(db) as store:
        assert running.stdout is not None
        seen = [running.stdout.readline() for _ in range(6)]
        assert seen[-1] == "a\n"
        store.sessions.get(id).append(clew.assistant("b"))
        seen = [running.stdout.readline() for _ in range(4)]
        assert seen[1].startswith("## assistant")
        assert seen[3] == "b\n"
        delete_session(store.sessions.get(id))
        assert running.wait(20) == 3


def test_what_cannot_be_followed(clew_cli, talk):
    """A document needs an end, and a message has nothing after it."""
    id = talk("a")
    message = clew_cli("show", id, "--jsonl").lines[0]["id"]
    for args in ((id, "--json"), (id, "--as", "html"), (message,)):
        assert clew_cli("show", "--follow", *args).code == 2


@pytest.fixture
def compacted(db) -> str:
    """A conversation of 33 messages, of which the model sees 6."""
    with clew.open(db) as store:
        session = store.sessions.create(title="Long")
        session.append([clew.user(f"old word{n}") for n in range(27)])
        session.compact([clew.user("the summary"), *(clew.assistant(f"new word{n}") for n in range(27, 32))])
        return session.id


def words(text: str) -> list[int]:
    """The numbers of the messages in a text, in order."""
    return [int(number) for number in dict.fromkeys(re.findall(r"word(\d+)", text))]


@pytest.mark.parametrize("form", [[], ["--as", "markdown"], ["--as", "html"], ["--json"], ["--jsonl"], ["--as", "raw"]])
def test_a_compacted_conversation_is_shown_whole(clew_cli, compacted, form):
    """Every form has all messages, also those that a compaction replaced; --current has those that the model sees."""
    assert words(clew_cli("show", compacted, *form).out) == list(range(32))
    assert words(clew_cli("show", compacted, "--current", *form).out) == list(range(27, 32))


def test_the_seam_of_a_compaction(clew_cli, compacted):
    """A compaction is seen where it was made: a line in a text, a field in JSON, which can be appended elsewhere."""
    for form in ([], ["--as", "markdown"], ["--as", "html"]):
        shown = clew_cli("show", compacted, *form).out
        assert shown.index("word26") < shown.index("Compacted here.") < shown.index("the summary")
    lines = clew_cli("show", compacted, "--jsonl").lines
    assert [line.get("compacted") for line in lines] == [*[None] * 27, 27, *[None] * 5]
    text = "".join(f"{json.dumps({**line, 'id': None})}\n" for line in lines)
    assert clew_cli("append", input=text).code == 0


def test_the_last_messages_across_a_compaction(clew_cli, compacted):
    """--last counts the messages of the whole history, and a message is shown with all that came before it."""
    assert words(clew_cli("show", compacted, "--last", "8").out) == list(range(25, 32))
    assert words(clew_cli("show", compacted, "--current", "--last", "8").out) == list(range(27, 32))
    message = clew_cli("show", compacted, "--jsonl").lines[-2]["id"]
    assert words(clew_cli("show", message).out) == list(range(31))
    assert words(clew_cli("show", message, "--last", "6").out) == [26, 27, 28, 29, 30]
    assert words(clew_cli("show", message, "--current").out) == list(range(27, 31))
