"""`clew` as a program: help, exit codes, pipes, terminals."""

import itertools
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import clew
from clew.base.visible import many, paragraphs, plain
from clew.cli import exits
from clew.cli.command_list import COMMANDS
from clew.cli.output import times
from clew.cli.output.text import clip, list_counts, readable, width
from clew.cli.root import cli
from clew.cli.setup.key_sources import VARIABLES
from clew.cli.setup.settings import SETTINGS
from clew.providers.registry import PROVIDERS
from tests.cli.conftest import leaves

LEAVES = leaves()
BESIDE = {
    "append",
    "tour",
    "completion",
    "help",
    "hook install",
    "hook uninstall",
    "mcp",
    "serve",
    "open",
    "statusline",
}
"""Commands whose output has one form."""


@pytest.mark.parametrize("name", [*COMMANDS, *(name for name in LEAVES if " " in name)])
def test_every_command_shows_an_example(name, clew_cli):
    """Help ends with an example that calls the command, and fits a terminal."""
    done = clew_cli(*name.split(), "--help")
    assert done.code == 0
    assert re.search(rf"Examples?:\n(.*\n)*.*clew {name}\b", done.out)
    assert max(map(len, done.out.splitlines())) <= 100


@pytest.mark.parametrize("name", [*COMMANDS, *(name for name in LEAVES if " " in name)])
def test_an_example_can_be_typed_as_it_is(name, clew_cli):
    """Every command line in it is understood: what stands beside it is a comment to a shell."""
    Path("snapshot.json").touch()
    epilog = re.search(r"Examples?:\n(.*?)(\n\n|$)", described(name).epilog or "", re.DOTALL)
    assert epilog is not None
    for args in (args for line in epilog[1].splitlines() for args in calls(line)):
        command: click.Command = cli
        ctx = click.Context(command, info_name="clew")
        while args and isinstance(command, click.Group) and (below := command.get_command(ctx, args[0])):
            command, ctx = below, click.Context(below, parent=ctx, info_name=args.pop(0))
        with command.make_context(ctx.info_name, args, parent=ctx.parent):
            pass


def calls(line: str) -> Iterator[list[str]]:
    """The arguments of each call of clew in a line for a shell."""
    reader = shlex.shlex(line.replace('"$(', "").replace(')"', ""), posix=True, punctuation_chars="|&;<>")
    reader.whitespace_split = True
    words = list(reader)
    for at, word in enumerate(words):
        if word == "clew":
            yield list(itertools.takewhile(lambda one: not set(one) & set("|&;<>"), words[at + 1 :]))


def described(name: str) -> click.Command:
    """The command of that name, which may have several words."""
    command: click.Command | None = cli
    for word in name.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    return command


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_command_says(name):
    """The list of commands, which loads none of them, says the same as each."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.short_help == COMMANDS[name][1]


@pytest.mark.parametrize("name", sorted(LEAVES.keys() - BESIDE))
def test_every_read_has_json(name, clew_cli):
    """What has something to say says it as JSON too."""
    done = clew_cli(*name.split(), "--help")
    assert "--json " in done.out
    assert "--jsonl" in done.out


def test_alone_off_a_terminal(program):
    """Without a command: help on stderr, nothing on stdout, exit 2."""
    for args in ([], ["key"], ["retention"], ["quarantine"]):
        done = program(*args)
        assert (done.code, done.out) == (2, "")
        assert ("Commands:" if args else "Bring in:") in done.err


def test_help_and_version(program):
    """Asked for, they are data."""
    assert program("--help").out.startswith("Usage: clew")
    assert program("-h").out == program("--help").out
    assert program("--version").out == f"clew {clew.__version__}\n"


def test_help_loads_no_command():
    """The list of commands is shown without importing them, or anything that only they need."""
    code = "import sys, clew.cli; sys.argv[1:] = ['--help']; clew.cli.main(); print(*sys.modules, file=sys.stderr)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.split()
    assert "clew.cli.root" in loaded
    unwanted = {f"clew.cli.commands.{module}" for module, _ in COMMANDS.values()} | {
        "platformdirs",
        "rich",
        "asyncio",
        "anyio",
    }
    assert unwanted.isdisjoint(loaded)


def test_help_is_quick(tmp_path):
    """Once Python has compiled it, it costs little more than importing clew and click."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}

    def took(*args: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, *args], env=env, check=True, capture_output=True)
        return time.perf_counter() - start

    took("-m", "clew", "--help")
    for _ in range(3):  # a machine that is busy for a moment gets another try
        pairs = [(took("-m", "clew", "--help"), took("-c", "import clew, click")) for _ in range(8)]
        ratio = min(one for one, _ in pairs) / min(other for _, other in pairs)
        if ratio < 1.6:
            return
    raise AssertionError(f"clew --help takes {ratio:.1f} times as long as importing clew and click")


@pytest.mark.parametrize(
    "args",
    [
        ["nonsense"],
        ["ls", "--nonsense"],
        ["ls", "--limit", "0"],
        ["ls", "--limit", "x"],
        ["rename"],
        ["--db", "", "ls"],
    ],
)
def test_bad_usage_is_2(args, clew_cli):
    """One line says what is wrong, one what to do."""
    done = clew_cli(*args)
    assert (done.code, done.out) == (2, "")
    error, hint = done.err.splitlines()
    assert error.startswith("clew: ")
    assert hint.startswith("  hint: Try 'clew")


def test_exit_codes_of_errors():
    """Each kind of error has the code that scripts know."""
    codes = {
        clew.NotFound("node", "x"): 3,
        clew.Ambiguous("node", "x", ["a", "b"]): 4,
        clew.Unavailable("busy"): 5,
        clew.StorageFull("full"): 1,
        clew.ReadOnly("no"): 1,
        clew.Sealed("x", [b"k"]): 6,
        clew.Corrupted("node x"): 7,
        clew.Invalid("bad"): 1,
        clew.Conflict("taken"): 1,
        clew.SchemaTooNew("x", 9, 1): 1,
    }
    assert {error: exits.code_of(error) for error in codes} == codes


@pytest.mark.parametrize(
    "args", [["ls"], ["tree"], ["search", "x"], ["stats"], ["audit"], ["receipts"], ["redact", "--scan"],
             ["retention", "preview"], ["snapshot", "ls"], ["quarantine", "ls"], ["conversation", "list"], ["doctor"]],
)  # fmt: skip
def test_before_the_first_message_there_is_nothing(args, clew_cli, tmp_path, monkeypatch):
    """Which is an answer, of the same form as any other, and makes no file; a store that was named has to be there."""
    assert clew_cli(*args).code == 3
    monkeypatch.delenv("CLEW_DB")
    assert clew_cli(*args).code == (1 if args[0] == "search" else 0)
    empty = clew_cli(*args, "--json").json
    assert not (tmp_path / "data").exists()
    clew_cli("append", input='{"text": "x"}')
    assert type(clew_cli(*args, "--json").json) is type(empty)
    if isinstance(empty, dict):
        assert clew_cli(*args, "--json").json.keys() == empty.keys()


def test_not_found_is_3(clew_cli, talk):
    """Neither session nor message."""
    talk("a")
    for id in ("zzzzzz", "x", "0192f0c1-2345-7abc-8def-0123456789ab"):
        done = clew_cli("show", id)
        assert (done.code, done.out) == (3, "")
        assert done.err.startswith("clew: conversation or message '")
        assert clew_cli("tree", id).code == 3


def test_ambiguous_is_4(clew_cli, db):
    """A handle that several ids begin with lists them."""
    from tests.cli.test_tree import id_of

    lines = "\n".join(f'{{"text": "x", "id": "{id_of(handle)}"}}' for handle in ("abc123a", "abc123b"))
    clew_cli("append", input=lines)
    done = clew_cli("show", "abc123")
    assert done.code == 4
    assert "abc123a" in done.err
    assert "abc123b" in done.err


def test_busy_is_5(clew_cli, talk, db):
    """A writer that does not let go is told as such, after the time that was given."""
    session = talk("a")
    conn = sqlite3.connect(db, isolation_level=None)
    conn.execute("BEGIN IMMEDIATE")
    done = clew_cli("append", session, input='{"text": "b"}', env={"CLEW_TIMEOUT": "0.2"})
    conn.execute("ROLLBACK")
    conn.close()
    assert (done.code, done.out) == (5, "")
    assert clew_cli("append", session, input='{"text": "b"}').code == 0
    assert clew_cli("ls", env={"CLEW_TIMEOUT": "soon"}).code == 2


def test_what_is_no_store_is_refused_unchanged(clew_cli, tmp_path):
    """A text file, another program's database, a folder: an error in one line, and the file is as it was."""
    text, database = tmp_path / "a.txt", tmp_path / "b.db"
    text.write_text("hello, this is a text and no database at all\n" * 40)
    conn = sqlite3.connect(database)
    conn.execute("CREATE TABLE t (x)")
    conn.commit()
    conn.close()
    for path in (text, database):
        before = path.read_bytes()
        for command in (["ls"], ["append"], ["verify"]):
            done = clew_cli(*command, "--db", str(path), input='{"text": "a"}')
            assert done.code == 1, done.err
            assert "is not a clew store" in done.err
        assert path.read_bytes() == before
    assert clew_cli("ls", "--db", str(tmp_path)).code in (1, 5)
    assert clew_cli("append", "--db", str(tmp_path / "no" / "x.db"), input='{"text": "a"}').code in (1, 5)
    assert clew_cli("ls", "--db", "mysql://x").code == 1


def test_a_bug_shows_no_traceback(program, talk, monkeypatch, clew_cli):
    """Unless CLEW_DEBUG asks for it."""
    talk("a")
    monkeypatch.setattr(clew.Store, "search", lambda *_, **__: 1 / 0)
    done = clew_cli("search", "x")
    assert done.code == 1
    assert done.err.splitlines()[0] == "clew: internal error: ZeroDivisionError"
    assert "Traceback" not in done.err
    assert "Traceback" in clew_cli("search", "x", env={"CLEW_DEBUG": "1"}).err


def test_a_reader_that_leaves_is_no_error(db, clew_cli):
    """`clew show | head` ends quietly."""
    with clew.open(db) as store:
        session = store.sessions.create()
        session.append([clew.user("x" * 1000) for _ in range(500)])
    for args in ([], ["ls"], ["help"]):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([sys.executable, "-m", "clew", *args, "--help"], stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        assert (done.returncode, done.stderr) == (141, b"")
    for args in (["show", session.id], ["show", session.id, "--jsonl"], ["tree"]):
        with subprocess.Popen(
            [sys.executable, "-m", "clew", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            assert writer.stderr is not None
            assert writer.stdout.readline()
            writer.stdout.close()
            assert writer.stderr.read() == b""
            assert writer.wait(timeout=20) == 141


def test_a_full_disk_under_stdout_is_told(program, talk):
    """Output that cannot be written is a failure, told once."""
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    talk("a")
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "clew", "ls"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "clew: No space left on device\n")


def test_a_store_where_nothing_can_be_written(talk, db, tmp_path):
    """Is not read there: who reads keeps a file beside it. What to do is told, and nothing is changed."""
    talk("a")
    folder = tmp_path / "medium"
    folder.mkdir()
    (folder / "chats.db").write_bytes(Path(db).read_bytes())
    os.chmod(folder / "chats.db", 0o400)
    os.chmod(folder, 0o500)
    as_a_user = [] if os.geteuid() else ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]  # root writes anywhere
    if as_a_user and shutil.which("setpriv") is None:
        pytest.skip("root cannot be kept from writing here")
    command = [*as_a_user, sys.executable, "-m", "clew", "ls", "--db", str(folder / "chats.db")]
    done = subprocess.run(command, capture_output=True, text=True)
    os.chmod(folder, 0o700)
    assert (done.returncode, done.stdout) == (1, "")
    assert "hint: Copy the store to a folder that you can write to; or, " in done.stderr
    assert os.listdir(folder) == ["chats.db"]


def test_a_data_folder_that_cannot_be_made(clew_cli, tmp_path, monkeypatch):
    """Is told with what to do, and does not say to try again."""
    monkeypatch.delenv("CLEW_DB")
    (tmp_path / "data").write_text("in the way")
    done = clew_cli("append", input='{"text": "a"}')
    assert (done.code, done.out) == (1, "")
    assert "with --db or CLEW_DB" in done.err


@pytest.mark.parametrize("text", ["2026-03-29", "20260329", "2026-W13-7"])
def test_a_date_ends_when_the_day_does(text, monkeypatch):
    """Also in another way of writing it, and where a day has 23 hours."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        ctx, param = click.Context(cli), click.Option(["--until"])
        since, until = times.parse_since(ctx, param, text), times.parse_until(ctx, param, text)
        assert (str(since), str(until)) == ("2026-03-28 23:00:00+00:00", "2026-03-29 22:00:00+00:00")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_end_of_the_calendar_is_a_time(clew_cli, talk):
    """What is kept until then is kept."""
    session = talk("a")
    assert clew_cli("search", "a", "--until", "9999-12-31", "--json").json != []
    assert clew_cli("retention", "set", session, "--until", "9999-12-31").code == 0
    assert clew_cli("search", "a", "--until", "9999-13-31").code == 2


HOSTILE = "a\x1b]0;owned\x07\x1b[2Jb\x9b31mc\u202ed\u2066e\x7ff\bg\rh"
COMMANDING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_stored_text_cannot_command_the_terminal(clew_cli, db):
    """Escape sequences in words, titles, labels, tool names, directories are shown and not obeyed, also in JSON."""
    with clew.open(db) as store:
        session = store.sessions.create(title=f"T {HOSTILE}", cwd=f"/src/{HOSTILE}", model=HOSTILE, labels=[HOSTILE])
        session.append(clew.user(f"lint {HOSTILE}"))
        session.append(
            clew.assistant(clew.ToolCall(id=HOSTILE, name=HOSTILE, arguments={HOSTILE: HOSTILE}), model=HOSTILE)
        )
        session.append(clew.tool(HOSTILE, call_id=HOSTILE))
        session.append(clew.user(clew.Media(mime_type=HOSTILE, modality="image", url=HOSTILE, name=HOSTILE)))
        session.append(clew.user(clew.Opaque(kind=HOSTILE, data={"x": HOSTILE})))
        session.append(clew.assistant(clew.Thinking(text=HOSTILE)))
        untitled = store.sessions.create()
        untitled.append(clew.user(HOSTILE))
        id = session.id
    commands = (
        ["ls"],
        ["tree"],
        ["show", id],
        ["search", "lint"],
        ["fork", id],
        ["verify"],
        ["label", id, HOSTILE],
        ["rename", id, HOSTILE],
    )
    for command in commands:
        for more in ([], ["--json"], ["--jsonl"]):
            done = clew_cli(*command, *more)
            assert done.code == 0, done.err
            assert not COMMANDING.search(done.out), (command, more)
            assert not COMMANDING.search(done.err), (command, more)
    for wrong in (
        ["show", HOSTILE],
        ["fork", id, "--at", HOSTILE],
        ["ls", "--db", "/tmp/" + HOSTILE],
        ["ls", "--since", HOSTILE],
        [HOSTILE],
    ):
        assert not COMMANDING.search(clew_cli(*wrong).err)


def test_json_comes_back_as_it_was_stored(clew_cli, db):
    """What is escaped for the terminal means the same to whoever reads the JSON."""
    with clew.open(db) as store:
        session = store.sessions.create()
        session.append(clew.user(HOSTILE))
    assert clew_cli("show", session.id, "--jsonl").lines[0]["text"] == HOSTILE


def test_colour_only_where_it_is_wanted(clew_cli, talk):
    """Not in a pipe, not with NO_COLOR; with FORCE_COLOR."""
    talk("a", title="T")
    assert "\x1b" not in clew_cli("ls").out
    assert "\x1b" in clew_cli("ls", env={"FORCE_COLOR": "1"}).out
    assert "\x1b" not in clew_cli("ls", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).out
    assert "\x1b" not in clew_cli("ls", env={"FORCE_COLOR": "0"}).out


def test_a_locale_without_unicode_still_shows_everything(program, talk):
    """What the terminal cannot write is escaped, and never an error."""
    talk("日本", title="設定 \U0001f9f6")
    done = program("ls", env={"PYTHONIOENCODING": "ascii"})
    assert (done.code, "\\u8a2d" in done.out) == (0, True)
    assert program("ls", "--json", env={"PYTHONIOENCODING": "ascii"}).json["sessions"][0]["title"] == "設定 \U0001f9f6"


def test_help_names_what_the_environment_can_say(clew_cli):
    """Every setting and every way to give a key, and the tokens; in lines that fit 80 columns."""
    shown = clew_cli("help", "environment").out
    named = [one.variable for one in SETTINGS.values() if one.variable] + [*VARIABLES, "CLEW_PARENT", "CLEW_DEBUG"]
    named += [row.api_keys[0] for row in PROVIDERS.values() if row.api_keys]
    assert [name for name in named if name not in shown] == []
    assert max(map(len, shown.splitlines())) <= 80


def test_text_helpers():
    """Controls are shown, widths are counted in columns."""
    assert plain("a\nb\x1bc") == "a b\\x1bc"
    assert paragraphs("a\r\nb\tc\x07") == ["a", "b\tc\\x07"]
    assert (width("日本"), width("é"), width("e\u0301"), width("a\u200bb"), width("\u2764\ufe0f")) == (4, 1, 1, 2, 1)
    assert (readable("h\udcc3\udca9 \udcff\0"), readable("\ud800")) == ("hé \ufffd\ufffd", "?")
    assert (clip("日本語です", 5), clip("abc", 3), clip("abcd", 3)) == ("日本…", "abc", "ab…")


def on_a_terminal(*args: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Runs a command on a terminal of 60 columns; returns its exit code and what is on the screen."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 60, 0, 0))
    everything = {**os.environ, "TERM": "xterm", **(env or {})}
    with subprocess.Popen(
        [sys.executable, "-m", "clew", *args], stdin=theirs, stdout=theirs, stderr=theirs, env=everything
    ) as running:
        os.close(theirs)
        screen = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux says so when the other side is closed
                break
            if not part:
                break
            screen += part
        code = running.wait(timeout=20)
    os.close(ours)
    return code, screen.decode().replace("\r\n", "\n")


def test_what_is_told_is_broken_between_words(db):
    """Not where the terminal ends; colours take no room, and a hint stays indented."""
    code, screen = on_a_terminal("chat", "Hello")
    bare = re.sub("\x1b\\[[0-9;]*[mKA]", "", screen)
    assert code == 0
    assert all(len(line.rstrip("\r")) <= 60 for line in bare.splitlines()), bare
    words = {word for line in bare.splitlines() for word in line.split()}
    assert {"ANTHROPIC_API_KEY,", "GEMINI_API_KEY;", "PROVIDER/MODEL.", "CLEW_MODEL"} <= words
    code, screen = on_a_terminal("ls", env={"CLEW_DB": "/" + "word " * 20})
    told = [line for line in re.sub("\x1b\\[[0-9;]*m", "", screen).splitlines() if line]
    assert all(len(line) <= 60 for line in told), told
    assert told[-1].startswith("  ")
    assert "\x1b" not in on_a_terminal("ls", env={"NO_COLOR": "1"})[1]


def test_on_a_terminal(talk):
    """There is colour, lines fit, and `clew` alone shows help as an answer where there can be no screen."""
    talk("lint " + "word " * 40, title="A title that is much longer than what this narrow terminal can show at once")
    for args in (["ls"], ["tree"], ["search", "lint"]):
        code, screen = on_a_terminal(*args)
        assert code == 0
        assert "\x1b[" in screen
        assert "\x1b" not in on_a_terminal(*args, env={"NO_COLOR": "1"})[1]
        lines = [line.rpartition("\x1b[K")[2] for line in screen.splitlines()]  # without progress that was erased
        assert all(width(re.sub("\x1b\\[[0-9;]*m", "", line)) <= 60 for line in lines), screen
    assert "word\nword" in on_a_terminal("show", talk("word " * 40), env={"NO_COLOR": "1", "PAGER": ""})[1]
    code, screen = on_a_terminal(env={"TERM": "dumb"})
    assert code == 0
    assert "Bring in:" in screen
    assert on_a_terminal("ls", env={"PAGER": "sed s/title/paged/"})[1].count("A paged") == 1


def test_one_is_not_many():
    """Of one thing it speaks in the singular; what there is none of is not counted."""
    assert [many(count, "message") for count in (0, 1, 2000)] == ["0 messages", "1 message", "2,000 messages"]
    assert list_counts({"trees": 1, "log entries": 1, "runs": 0, "nodes": 2000}) == "1 tree, 1 log entry, 2,000 nodes"
    assert list_counts({"trees": 2, "log entries": 2}) == "2 trees, 2 log entries"


def test_a_working_directory_that_is_gone(clew_cli, talk, tmp_path, monkeypatch):
    """It is that which is missing, and no file that somebody would look for."""
    talk("a")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = clew_cli("ls")
    assert (done.code, "the working directory no longer exists" in done.err) == (1, True)
