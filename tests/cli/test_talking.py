"""What may be typed in a talk, how it is completed, and how an answer is drawn."""

from __future__ import annotations

import io
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

import clew
from clew.base.files import mount_of
from clew.base.messages import Text, Thinking, ToolCall, ToolResult
from clew.chat.protocols import Event, Reply
from clew.cli.chat import models
from clew.cli.chat.answer import Blocks, Screen
from clew.cli.chat.attachments import LARGEST, question, repeat_question
from clew.cli.chat.conversation import ChatSession
from clew.cli.chat.interrupts import ENOUGH, Interrupts
from clew.cli.chat.prompt_input import completions, reader
from clew.cli.chat.slash_commands import COMMANDS, ChatState, Quit, is_command


@pytest.fixture
def desk() -> Iterator[ChatState]:
    with clew.open(":memory:") as store:
        yield ChatState(ChatSession(store, models.parse("offline"), Interrupts(), cwd="/src"))


def say(desk: ChatState, *questions: str) -> None:
    for one in questions:
        list(desk.chat.ask(one))


def said(desk: ChatState) -> list[str]:
    session = desk.chat.session
    assert session is not None
    return [node.text for node in session.path()]


def test_a_fork_goes_on_elsewhere(desk, capsys):
    """The talk goes on in the fork; what it was forked from stays."""
    say(desk, "One")
    before = desk.chat.session
    assert desk.command("/fork Other idea") is None
    say(desk, "Two")
    assert desk.chat.session.title == "Other idea"
    assert said(desk) == ["One", "You said: One", "Two", "You said: Two"]
    assert len(before.path()) == 2
    assert before.handle in capsys.readouterr().err


def test_going_back(desk):
    """By one question, by several, to a message; what is left is a branch, and the model does not see it."""
    say(desk, "One", "Two", "Three")
    first = desk.chat.session.path()[1]
    desk.command("/rewind")
    assert said(desk)[-1] == "You said: Two"
    desk.command(f"/rewind {first.handle}")
    assert said(desk) == ["One", "You said: One"]
    desk.command("/rewind 1")
    assert said(desk) == []
    say(desk, "Four")
    assert said(desk) == ["Four", "You said: Four"]
    assert len(desk.chat.client.history) == 2
    assert len(desk.chat.session.branches()) == 1  # each of the later ends is a part of the first
    for wrong in "/rewind 9", "/rewind nothing", "/rewind ²", "/rewind 0", "/rewind 123456":
        with pytest.raises(clew.ClewError):
            desk.command(wrong)


def test_asking_again(desk, monkeypatch):
    """The same question, or in other words; the answer before is a branch."""
    say(desk, "One", "Two")
    again = desk.command("/retry")
    assert isinstance(again, clew.Native)
    assert said(desk) == ["One", "You said: One"]
    list(desk.chat.ask(again))
    assert desk.command("/edit Zwei") == "Zwei"
    say(desk, "Zwei")
    assert said(desk)[-1] == "You said: Zwei"
    monkeypatch.setenv("EDITOR", "sed -i s/Zwei/Drei/")
    assert desk.command("/edit") == "Drei"
    say(desk, "Drei")
    monkeypatch.setenv("EDITOR", "true")
    assert desk.command("/edit") is None
    for editor in "/nowhere/editor", "false":
        monkeypatch.setenv("EDITOR", editor)
        with pytest.raises(clew.Invalid, match="Editing failed"):
            desk.command("/edit")
    assert len(desk.chat.session.branches()) == 3


@pytest.fixture
def sealed_desk(tmp_path) -> Iterator[ChatState]:
    with clew.open(tmp_path / "sealed.db", key=bytes(32)) as store:
        yield ChatState(ChatSession(store, models.parse("offline"), Interrupts(), cwd="/src"))


def test_editing_writes_to_no_disk(sealed_desk, tmp_path, monkeypatch):
    """The text of a sealed store is given to the editor in a file that is in memory, and that is gone afterwards."""
    say(sealed_desk, "canary")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv(
        "EDITOR", f"sh -c 'ls {tmp_path}/tmp > {tmp_path}/seen; echo $0 >> {tmp_path}/seen; echo more > $0'"
    )
    assert sealed_desk.command("/edit") == "more"
    (name,) = (tmp_path / "seen").read_text().split()
    mount = mount_of(name)
    assert mount is not None
    assert mount.kind == "tmpfs"
    assert not os.path.exists(os.path.dirname(name))


def test_editing_is_refused_without_memory(sealed_desk, desk, monkeypatch):
    """Where no folder is in memory, a sealed store's text is not given to an editor; that of a plain one is."""
    say(sealed_desk, "canary")
    say(desk, "canary")
    monkeypatch.setattr("clew.cli.chat.slash_commands.memory_folder", lambda: None)
    monkeypatch.setenv("EDITOR", "sed -i s/canary/more/")
    with pytest.raises(clew.Invalid, match="sealed store"):
        sealed_desk.command("/edit")
    assert sealed_desk.command("/edit other words") == "other words"
    assert desk.command("/edit") == "more"


def test_saying_something_of_the_session(desk, capsys, tmp_path):
    """Labels, a title, a file of it."""
    say(desk, "One")
    desk.command("/tag work urgent")
    desk.command("/tag -urgent")
    desk.command("/title New words")
    desk.command(f"/save {tmp_path / 'talk.md'}")
    session = desk.chat.session
    assert (session.labels, session.title) == (("work",), "New words")
    text = (tmp_path / "talk.md").read_text()
    assert text.startswith("# New words\n\n## user · ")
    assert text.endswith("\n\nYou said: One\n")
    with pytest.raises(clew.Invalid, match="File exists"):
        desk.command(f"/save {tmp_path / 'talk.md'}")
    desk.command("/save")
    assert "Already stored" in capsys.readouterr().err


def test_another_model_goes_on(desk, capsys, monkeypatch):
    """The talk stays; a model that cannot be reached changes nothing."""
    say(desk, "One")
    desk.command("/model")
    assert "offline/offline" in capsys.readouterr().out
    with pytest.raises(clew.Invalid, match="no API key"):
        desk.command("/model opus")
    desk.command("/model offline/other")
    say(desk, "Two")
    assert desk.chat.session.model == "other"
    assert len(said(desk)) == 4


def test_an_incognito_talk_may_be_kept(desk, capsys):
    """Once; then it is like any other."""
    kept = []

    def keep(talk: ChatSession) -> str:
        kept.append(talk)
        return "k3m9qa"

    desk.keep = keep
    say(desk, "One")
    desk.command("/save")
    desk.command("/save")
    assert kept == [desk.chat]
    assert "Stored as k3m9qa" in capsys.readouterr().err


def test_files_wait_for_the_next_question(desk, tmp_path, capsys):
    """They are named when they are there."""
    (tmp_path / "a.txt").write_text("x")
    desk.command(f"/attach {tmp_path / 'a.txt'}")
    assert desk.files == [str(tmp_path / "a.txt")]
    with pytest.raises(clew.NotFound):
        desk.command("/attach nothing")
    (tmp_path / "huge").write_bytes(b"")
    os.truncate(tmp_path / "huge", LARGEST + 1)
    with pytest.raises(clew.Invalid, match="larger than"):
        desk.command(f"/attach {tmp_path / 'huge'}")
    desk.command("/attach")
    assert desk.files == []
    assert "no file" in capsys.readouterr().out


def test_what_went_with_a_question_goes_with_it_again(desk, tmp_path):
    """Also in other words, and also to another provider."""
    (tmp_path / "chart.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(16))
    list(desk.chat.ask(question(desk.chat.client, "What is it?", [str(tmp_path / "chart.png")])))
    asked = desk.command("/edit What is this?")
    assert isinstance(asked, clew.Native)
    assert b"data:image/png;base64,iVBOR" in asked.raw
    assert b"What is this?" in asked.raw
    list(desk.chat.ask(asked))
    node = desk.chat.last_question()

    class Other:
        provider = "claude"

    other, same = repeat_question(Other(), node), repeat_question(desk.chat.client, node)
    assert isinstance(other, clew.Native)
    assert b'"type":"image"' in other.raw
    assert b"What is this?" in other.raw
    assert same == node.native


def test_a_file_that_cannot_be_told_is_not_left_out_in_silence(desk, tmp_path):
    """The question is not sent without it; what a name has that is no letter does no harm."""
    (tmp_path / "some.bin").write_bytes(bytes(range(256)))
    with pytest.raises(clew.Invalid, match=r"offline does not accept application/octet-stream: some\.bin"):
        question(desk.chat.client, "Look", [str(tmp_path / "some.bin")])
    (tmp_path / 'a"\nb').write_text("x")
    assert question(desk.chat.client, "", [str(tmp_path / 'a"\nb')]) == """<file name="a' b">\nx\n</file>"""


def test_leaving_beginning_helping(desk, capsys, monkeypatch):
    """The rest of the commands; each is in the list."""
    say(desk, "One")
    before = desk.chat.session
    desk.command("/new")
    assert desk.chat.session is None
    say(desk, "Two")
    assert desk.chat.session != before
    assert said(desk) == ["Two", "You said: Two"]
    desk.command("/help")
    listed = capsys.readouterr().out
    assert all(f"/{name} " in listed for name in COMMANDS)
    monkeypatch.setenv("COLUMNS", "60")
    desk.command("/help")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    assert " ".join(" ".join(lines).split()) == " ".join(listed.split())
    with pytest.raises(Quit):
        desk.command("/quit")
    with pytest.raises(clew.Invalid, match="unknown command /nonsense"):
        desk.command("/nonsense")


@pytest.mark.parametrize("command", ["/fork", "/rewind", "/retry", "/edit", "/tag x", "/title x", "/save"])
def test_before_anything_was_said(desk, command):
    """What needs a session says so."""
    with pytest.raises(clew.ClewError) as caught:
        desk.command(command)
    assert caught.value.hint or caught.value.message


def test_what_was_typed_is_kept_in_memory_alone(monkeypatch):
    """Up brings back earlier questions. They are in no file that a purge would have to know of."""
    prompt_toolkit = pytest.importorskip("prompt_toolkit")
    from prompt_toolkit.history import InMemoryHistory

    made: list[InMemoryHistory] = []
    monkeypatch.setattr(prompt_toolkit, "PromptSession", lambda *, history, **_: made.append(history))
    monkeypatch.setenv("TERM", "xterm")
    reader(["Before?"])
    assert type(made[0]) is InMemoryHistory
    assert [*made[0].load_history_strings()] == ["Before?"]


def test_what_is_a_command():
    """A line that begins with one slash; a path in the middle of a paste is none."""
    assert is_command("/help")
    assert not is_command("//help")
    assert not is_command("/etc/hosts\nis broken")
    assert not is_command("help")


def test_completion(tmp_path, monkeypatch):
    """Commands, models, files; never of what is said."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "notebook").mkdir()
    assert [word for word, _ in completions("/re")] == ["/rewind", "/retry"]
    assert [word for word, _ in completions("/model so")] == ["sonnet"]
    assert "claude-local" in [word for word, _ in completions("/model c")]
    assert [word for word, _ in completions("/attach not")] == ["notebook" + os.sep, "notes.txt"]
    assert list(completions("re")) == []
    assert list(completions("/attach nowhere/x")) == []


def cut(text: str, size: int = 1000) -> list[str]:
    """The blocks of a text that comes in pieces; the last is what is left."""
    blocks = Blocks()
    done = [block for at in range(0, len(text), size) for block in blocks.add(text[at : at + size])]
    return [*done, blocks.rest()]


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_blocks_of_markdown(size):
    """Cut at empty lines, never inside of code nor in a list that goes on; however the text is cut itself."""
    text = "# One\n\nTwo\nthree\n\n\n```\na\n\nb\n```\n\nfour"
    assert cut(text, size) == ["# One\n", "Two\nthree\n", "```\na\n\nb\n```\n", "four"]
    assert cut("", size) == [""]
    assert cut("~~~\n```\n\nx", size) == ["~~~\n```\n\nx"]
    assert cut("````md\n```\n\nx\n```\n\ny\n````\n\nz", size) == ["````md\n```\n\nx\n```\n\ny\n````\n", "z"]
    assert cut("- a\n\n    more of a\n\n- b", size) == ["- a\n\n    more of a\n", "- b"]
    assert cut("```x``` in a line\n\nnext", size) == ["```x``` in a line\n", "next"]


def test_the_end_of_what_is_open():
    """As much as a screen shows, with the line that says it is code; all of it, if it is not more."""
    blocks = Blocks()
    assert list(blocks.add("```python\n" + "x = 1\n" * 1000 + "y =")) == []
    assert blocks.end(12) == "```python\n= 1\nx = 1\ny ="
    assert blocks.end(10**6) == blocks.rest()
    blocks.clear()
    assert list(blocks.add("word " * 1000)) == []
    assert blocks.end(10) == "word word "


def test_a_long_answer_is_drawn_in_time():
    """Each piece is looked at once, and drawing takes a share of the time alone: 60 KB of code took 40 s."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=80, height=24, force_terminal=True, highlight=False, markup=False)
    text = "```python\n" + "".join(f"def f{at}(x): return x + {at}  # comment\n" for at in range(1500)) + "```\n"
    began = time.process_time()
    screen = Screen(console)
    for at in range(0, len(text), 4):
        screen.add(Text(text=text[at : at + 4]))
    screen.end()
    assert time.process_time() - began < 8


def drawn(*events: Event, width: int = 60) -> list[str]:
    """What is on a terminal at the end, as its lines."""
    from rich.console import Console

    file = io.StringIO()
    screen = Screen(Console(file=file, width=width, force_terminal=False, highlight=False, markup=False))
    for event in events:
        screen.add(event)
    screen.end()
    return file.getvalue().splitlines()


def test_an_answer_is_drawn():
    """Thoughts, words, a tool call on one line; in order, parted by empty lines."""
    call = ToolCall(id="1", name="look", arguments={"city": "Rome"})
    lines = drawn(
        Thinking(text="A capi"), Thinking(text="tal."), Text(text="It is **Ro"), Text(text="me**.\n\nI look."), call,
        ToolResult(call_id="1", content=(Text(text="clear\nskies"),)), Text(text="Clear."), Reply(text="Clear."),
    )  # fmt: skip
    assert lines == [
        "A capital.", "", "It is Rome.", "", "I look.", "⚙ look: Rome → clear skies", "", "Clear.",
    ]  # fmt: skip


def test_what_was_drawn_is_taken_back_in_another_width():
    """A terminal that became narrower has broken each line into several."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=40, height=24, force_terminal=True, highlight=False, markup=False)
    screen = Screen(console)
    screen._ended = True  # nobody else draws
    with screen._lock:
        screen._take(Text(text="word " * 12))
        screen._draw()
        console.file = io.StringIO()
        console.width = 20
        screen._clear()
    assert console.file.getvalue().count("\x1b[A") == 3
    screen._clear()
    assert console.file.getvalue().count("\x1b[A") == 3


def test_what_is_interrupted_is_drawn_too():
    """A call without its result, and half a block of code."""
    assert drawn(ToolCall(id="1", name="look")) == ["⚙ look …"]
    assert drawn(Text(text="```python\nx = 1"))[-1].strip() == "x = 1"


def test_a_drawing_obeys_no_text():
    """Neither controls nor links, images, markup or emoji names."""
    lines = "\n".join(drawn(Text(text="\x1b[31mred [bold]x[/bold] :smile: [here](http://x.test)")))
    assert "\x1b" not in lines
    assert "[bold]x[/bold] :smile: here (http://x.test)" in lines
    tags = "A List<String>, <b>bold</b>\n\n<div>this</div>\n\n[1]: http://y.test\n\nand ![a picture](http://z.test)"
    lines = "\n".join(drawn(Text(text=tags)))
    for word in (
        "List<String>",
        "<b>bold</b>",
        "<div>this</div>",
        "[1]: http://y.test",
        "and !a picture (http://z.test)",
    ):
        assert word in lines
    failed = ToolResult(call_id="1", content=(Text(text="\x1b]0;title\x07"),), is_error=True)
    assert drawn(ToolCall(id="1", name="look"), failed) == ["⚙ look ✗ \\x1b]0;title\\x07"]


def test_the_first_interrupt_waits_for_a_save():
    """Inside of a shield nothing is raised; on leaving it is. Further ones are ignored, until it is enough."""
    interrupts = Interrupts()
    with interrupts.answering():
        reached = []
        with pytest.raises(KeyboardInterrupt):
            with interrupts.shield():
                signal.raise_signal(signal.SIGINT)
                reached.append("saved")
        assert reached == ["saved"]
        for _ in range(ENOUGH - 2):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with interrupts.answering(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_no_wait_for_a_server_outlasts_an_interrupt():
    """One that arrives just before the wait does not end it by itself; nor one that another thread is given."""
    ours, theirs = socket.socketpair()
    back = threading.Event()
    in_time = []

    def elsewhere() -> None:
        time.sleep(0.05)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        in_time.append(back.wait(10))
        theirs.send(b"a word")

    with ours, theirs:
        other = threading.Thread(target=elsewhere)
        with pytest.raises(KeyboardInterrupt), Interrupts().answering():
            other.start()
            ours.recv(1)
        back.set()
        other.join()
    assert in_time == [True]
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL
