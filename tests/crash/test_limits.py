"""P8 under the limits of a process: no file can be opened, or none can grow. Each case runs in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.backends.sqlite.reserve import SIZE

STAYS = "01900000-0000-7000-8000-000000000001"
SETUP = """
import os, resource, sys
import clew
from clew.store.session import delete_session
FILES, SIZE = resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE
OTHER_KEY = bytes(range(1, 33))
folder, free = sys.argv[1], int(sys.argv[2])
path = os.path.join(folder, "s.db")

def limit(kind, value):
    resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))

def no_files(free=0):
    while (last := os.open(os.devnull, os.O_RDONLY)) < max(map(int, os.listdir("/proc/self/fd"))) - 1:
        pass  # every number below is taken
    limit(FILES, last + 1 + free)

def lift():
    for kind in (FILES, SIZE):
        limit(kind, resource.getrlimit(kind)[1])

def refused(call):
    try:
        call()
    except clew.Unavailable as error:
        assert error.hint, error
        return error
    return None
"""
CALLS = {
    "append": "store.sessions.latest().append(clew.user('more'))",
    "create": "store.sessions.create(title='new')",
    "path": "store.sessions.latest().path()",
    "search": "store.search('hello')",
    "purge": "store.sessions.purge([one.id for one in store.sessions.list().items if one.title == 'gone'])",
    "delete": "[delete_session(one) for one in store.sessions.list().items if one.title == 'gone']",
    "put": "store.sessions.latest().blobs.put(bytes(600_000))",
    "log": "store.sessions.latest().log.append(b'{}')",
    "nodes": "store.nodes.list()",
    "backup": "store.backup(os.path.join(folder, os.urandom(4).hex()))",
    "verify": "store.verify()",
    "seal": "store.key_status().state == 'sealed' or store.seal(OTHER_KEY)",
    "snapshots": "store.snapshots.list()",
    "quarantine": "store.quarantine.sweep()",
    "audit": "list(store.audit.read())",
    "trash": "[one.trash() for one in store.sessions.list().items if one.title == 'gone']",
    "watch": "list(store.sessions.latest().watch(timeout=0.01))",
}
"""Each first needs another part of clew, or another file."""


def run(code: str, folder: Path, free: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SETUP + code, folder, str(free)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a store that has a session to keep, with the id `STAYS`, and one to purge."""
    with clew.open(tmp_path / "s.db") as store:
        for title in ("gone", "stays"):
            session = store.sessions.create(title=title, id=STAYS if title == "stays" else None)
            for number in range(20):
                session.append(clew.user(f"hello {number}"))
    return tmp_path


NO_FILES = """
store = clew.open(path)
call = lambda: {call}
no_files(free)
print(refused(call))
lift()
call()
assert store.verify().ok
assert len(store.sessions.get({stays!r}).path()) >= 20
store.close()
"""


@pytest.mark.parametrize("call", CALLS)
def test_a_call_when_no_file_can_be_opened(folder: Path, call: str) -> None:
    """Without a free descriptor a call works or is Unavailable with a hint; the same handle works once there is one."""
    run(NO_FILES.format(call=CALLS[call], stays=STAYS), folder)


@pytest.mark.soak
@pytest.mark.parametrize("free", range(1, 9))
@pytest.mark.parametrize("call", CALLS)
def test_a_call_with_few_descriptors(folder: Path, call: str, free: int) -> None:
    """The same with every number of free descriptors up to eight: a call may run out of them at any step."""
    run(NO_FILES.format(call=CALLS[call], stays=STAYS), folder, free)


FILES = "import clew.chat, clew.snapshots; files = clew.snapshots.FileStore(folder + '/snapshots', key=OTHER_KEY)"
PARTS = {
    "passphrase": ("words = clew.keys.from_passphrase('correct horse')", "words.new()"),
    "redaction": ("import clew.redaction as r", "r.Rules(r.builtin('email'))"),
    "list sealed snapshots": (FILES, "files.list()"),
    "save a sealed snapshot": (FILES + "; talk = clew.chat.connect('offline')", "files.save(talk.save())"),
    "records": (
        "from clew.records import RecordService; records = RecordService(store); records.initialize()",
        "records.list()",
    ),
    "agents": (
        "from clew.agents import SessionStore; agents = SessionStore(store)",
        "agents.create(cwd='/').append_event({{}})",
    ),
    "claude": ("import clew.chat", "clew.chat.connect('claude', 'm', token='x').close()"),
    "openai": ("import clew.chat", "clew.chat.connect('openai', 'm', token='x').close()"),
    "gemini": ("import clew.chat", "clew.chat.connect('gemini', 'm', token='x').close()"),
    "conversion": (
        "import clew.chat; from clew.snapshots import new_snapshot; talk = clew.chat.connect('offline')",
        "talk.restore(new_snapshot(provider='gemini', model='m', messages=b'[]'), convert=True)",
    ),
    "command line": ("from clew.cli.root import cli", "command(cli.run(['--db', path, 'show', {stays!r}]))"),
}
"""Parts that are loaded when they are first used: what is done before no file can be opened, and what after."""
NO_PARTS = """
def command(code):
    if code:
        raise clew.Unavailable("the command ended with 5", hint="yes") if code == 5 else AssertionError(code)

store = clew.open(path)
{before}
call = lambda: {call}
no_files()
print(refused(call))
lift()
call()
store.close()
"""


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_first_used_when_no_file_can_be_opened(folder: Path, part: str) -> None:
    """It works or is Unavailable with a hint, not a package that is missing; it works once there is a descriptor."""
    before, call = PARTS[part]
    run(NO_PARTS.format(before=before, call=call.format(stays=STAYS)), folder)


OPEN = """
no_files(free)
told = refused(lambda: clew.open(path).close())
assert told or free > 3
told = refused(lambda: clew.open(os.path.join(folder, "new.db")).close())
assert told or free > 3
lift()
for name in ("s.db", "new.db"):
    with clew.open(os.path.join(folder, name)) as store:
        assert store.verify().ok
"""


@pytest.mark.parametrize("free", range(6))
def test_opening_with_few_descriptors(folder: Path, free: int) -> None:
    """Opening and making a store is Unavailable with a hint, also by a process that has loaded nothing of clew yet."""
    run(OPEN, folder, free)


NO_GROWTH = """
store = clew.open(path)
session = store.sessions.latest()
limit(SIZE, {size})
kept, told = [], None
while told is None:
    said = clew.user(os.urandom(3000).hex())
    told = refused(lambda: kept.append(session.append(said).id))
assert isinstance(told, clew.StorageFull), repr(told)
assert "ulimit -f" in told.hint, told.hint
for call in (
    lambda: session.blobs.put(os.urandom(4_000_000)),
    lambda: store.search("hello"),
    lambda: store.backup(os.path.join(folder, "copy")),
    lambda: store.sessions.purge([one.id for one in store.sessions.list().items if one.title == "gone"]),
):
    refused(call)
lift()
assert [node.id for node in session.path()][20:] == kept
session.append(said)
assert len(session.path()) == 21 + len(kept)
assert store.verify().ok
store.close()
"""


@pytest.mark.parametrize("size", [SIZE // 16, SIZE // 2, 2 * SIZE])
def test_files_that_cannot_grow(folder: Path, size: int) -> None:
    """At the limit on file sizes an append is StorageFull and names the limit; nothing acknowledged is lost."""
    run(NO_GROWTH.format(size=size), folder)
