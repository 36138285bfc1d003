"""Bad input gets a typed error that says what to do, and leaves nothing half-written."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew
from clew.backends import FORMAT
from clew.errors import install_hint
from clew.store.parts import Parts
from clew.store.session import delete_session
from clew.store.store import LONGEST_WAIT, Store

ID = "00000000-0000-4000-8000-000000000001"
ITSELF: dict[str, Any] = {}
ITSELF["again"] = ITSELF
LOOP: list[Any] = []
LOOP.append({"loop": LOOP})


def text(value: Any) -> clew.Text:
    return clew.Text(text=value)


def extra(value: Any) -> clew.Message:
    return clew.user("x", extra=value)


BAD: dict[str, Any] = {
    "unknown role": clew.Message("narrator", (text("x"),)),  # type: ignore[arg-type]
    "no role": clew.Message(None, (text("x"),)),  # type: ignore[arg-type]
    "role in capitals": clew.Message("User"),  # type: ignore[arg-type]
    "text that is not text": clew.user(text(5)),
    "bytes as text": clew.user(text(b"x")),
    "no text": clew.user(text(None)),
    "a block that is none": clew.user({"type": "text", "text": 5}),  # type: ignore[arg-type]
    "blocks that are none": clew.Message("user", "text"),  # type: ignore[arg-type]
    "a number as block": clew.user(5),  # type: ignore[arg-type]
    "lone surrogate": clew.user("a\ud800b"),
    "lone surrogate in a key": extra({"\udfff": 1}),
    "lone surrogate in a label": clew.user("x", label="\ud800"),
    "NUL": clew.user("a\0b"),
    "NUL in a key": extra({"\0": 1}),
    "NUL deep within": extra({"a": [{"b": "c\0"}]}),
    "NUL after a backslash": clew.user("\\\0"),
    "NaN": extra({"a": float("nan")}),
    "infinity": extra({"a": [float("inf")]}),
    "minus infinity in a call": clew.assistant(clew.ToolCall(id="c", name="f", arguments={"x": float("-inf")})),
    "bytes": extra({"a": b"x"}),
    "bytearray": extra({"a": bytearray(b"x")}),
    "a number as key": extra({1: 2}),
    "true as key": extra({True: 2}),
    "a tuple as key": extra({(1, 2): 2}),
    "a set": extra({"a": {1, 2}}),
    "a date": extra({"a": datetime(2024, 1, 1)}),
    "a decimal": extra({"a": Decimal(1)}),
    "a uuid": extra({"a": UUID(int=1)}),
    "an object": extra({"a": object()}),
    "a function": extra({"a": print}),
    "extra as a list": extra([1]),
    "contains itself": extra(ITSELF),
    "a loop of lists": extra({"a": LOOP}),
    "negative usage": clew.assistant("x", usage=clew.Usage(input=-1)),
    "usage beyond reason": clew.assistant("x", usage=clew.Usage(cost=1 << 60)),
    "usage as text": clew.assistant("x", usage=clew.Usage(input="5")),  # type: ignore[arg-type]
    "usage as true": clew.assistant("x", usage=clew.Usage(output=True)),
    "usage that is none": clew.assistant("x", usage={"input": "many"}),  # type: ignore[arg-type]
    "media of two places": clew.user(clew.Media(mime_type="a/b", modality="image", blob="a", url="b")),
    "media of an unknown kind": clew.user(clew.Media(mime_type="a/b", modality="smell", url="b")),  # type: ignore[arg-type]
    "a call without a name": clew.assistant(clew.ToolCall(id="c", name=None)),  # type: ignore[arg-type]
    "arguments that are none": clew.assistant(clew.ToolCall(id="c", name="f", arguments=[1])),  # type: ignore[arg-type]
    "native without JSON": clew.native("x", b"{"),
    "native that is a list": clew.native("x", b"[1]"),
    "native in UTF-16": clew.native("x", '{"a":1}'.encode("utf-16")),
    "native with NaN": clew.native("x", b'{"a":NaN}'),
    "native as text inside": clew.Native("x", "{}"),  # type: ignore[arg-type]
    "native without bytes": clew.Native("x", None),  # type: ignore[arg-type]
    "native without a provider": clew.Native(None, b"{}"),  # type: ignore[arg-type]
    "native with odd free data": clew.native("x", b"{}", extra={"a": float("nan")}),
    "nothing": None,
    "a string": "hello",
    "bytes alone": b"hello",
    "a dict": {"role": "user", "content": "hello"},
    "a number": 5,
    "a list of strings": ["hello"],
    "a generator": (clew.user("x") for _ in range(2)),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_messages(store: Store, sound: Callable[[Store], None], name: str) -> None:
    """A message that cannot be read back unchanged is Invalid, alone and among valid ones, in every method."""
    session = store.sessions.create()
    session.append(clew.user("before"))
    bad = BAD[name]
    for work in (
        # A text or a dict alone is a short form of a message: see test_manners.
        *(() if name in ("a string", "a dict") else (lambda: session.append(bad),)),
        lambda: session.append([clew.user("good"), bad]),
        lambda: session.compact([clew.user("good"), bad]),
        lambda: store.nodes.save([clew.user("good"), bad]),
        lambda: store.nodes.save(clew.NewNode(bad)),
    ):
        with pytest.raises(clew.Invalid) as caught:
            work()
        assert str(caught.value)
    assert [node.text for node in store.nodes.list().items] == ["before"]
    assert session.append(clew.user("after")).depth == 1
    sound(store)


def test_oversize(path: Path, sound: Callable[[Store], None]) -> None:
    """A message of the largest size is stored, one byte more is refused; the error names the limit and a way out."""
    with clew.open(path, max_body=1000) as store:
        session = store.sessions.create()
        frame = len(b'\x01{"role":"user","blocks":[{"type":"text","text":""}]}')
        session.append(clew.user("x" * (1000 - frame)))
        for bad in (clew.user("x" * (1001 - frame)), clew.native("x", b'{"a":"' + b"x" * 1000 + b'"}')):
            with pytest.raises(clew.Invalid, match="1,000") as caught:
                session.append([clew.user("good"), bad])
            assert "blob" in caught.value.hint
        assert len(session.path()) == 1
        sound(store)


def test_the_limit_is_64_mib_by_default(path: Path) -> None:
    """A body beyond 64 MiB is refused unless the store is opened with more."""
    large = clew.user("x" * (64 << 20))
    with clew.open(path, durability="relaxed") as store, pytest.raises(clew.Invalid):
        store.nodes.save(large)


def test_bad_arguments(store: Store, sound: Callable[[Store], None]) -> None:
    """Ids, handles, parents, cursors, limits, times and names that cannot be are errors of clew, and change nothing."""
    session = store.sessions.create(title="t")
    node = session.append(clew.user("x"))
    x: Any = clew.user("x")
    naive = datetime(2024, 1, 1)
    odd: Any
    bad: list[tuple[type[clew.ClewError], Callable[[], object]]] = [
        (clew.Invalid, lambda: session.append(x, id="not an id")),
        (clew.Invalid, lambda: session.append([x, x], id=[ID])),
        (clew.Invalid, lambda: session.append([x, x], id=ID)),
        (clew.Conflict, lambda: session.append([x, x], id=[ID, ID])),
        (clew.Invalid, lambda: session.append(x, created_at=naive)),
        (clew.Invalid, lambda: session.append(x, created_at="now")),  # type: ignore[call-overload]
        (clew.Invalid, lambda: session.append(x, expect_head=node.id, on_conflict="win")),  # type: ignore[call-overload]
        (clew.NotFound, lambda: session.append(x, expect_head=ID, on_conflict="branch")),
        (clew.Invalid, lambda: session.path(last=-1)),
        (clew.Invalid, lambda: store.nodes.path(node.id, last=-1)),
        (clew.Invalid, lambda: session.compact([])),
        (clew.NotFound, lambda: session.rewind(ID)),
        (clew.NotFound, lambda: store.nodes.save(clew.NewNode(x, parent=ID))),
        (clew.NotFound, lambda: store.nodes.save(x, parent="zzzzzz")),
        (
            clew.Invalid,
            lambda: store.nodes.save([clew.NewNode(x, parent=None, id=ID), clew.NewNode(x, parent=None, id=ID)]),
        ),
        (clew.Invalid, lambda: store.nodes.save(clew.NewNode(x, parent=ID, id=ID))),
        (clew.Invalid, lambda: store.nodes.save(clew.NewNode(x, created_at=naive))),
        (clew.NotFound, lambda: store.nodes.children(ID)),
        (clew.NotFound, lambda: store.nodes.subtree(ID)),
        (clew.NotFound, lambda: store.sessions.get(ID)),
        (clew.NotFound, lambda: delete_session(store.sessions.get(ID))),
        (clew.NotFound, lambda: store.sessions.get(ID).rename("x")),
        (clew.NotFound, lambda: store.sessions.get(ID).label("x")),
        (clew.Conflict, lambda: store.sessions.create(id=session.id)),
        (clew.Invalid, lambda: store.sessions.create(id="x")),
        (clew.Invalid, lambda: store.sessions.create(labels="bug")),
        (clew.Invalid, lambda: store.sessions.create(labels=[1])),  # type: ignore[list-item]
        (clew.Invalid, lambda: store.sessions.create(title=5)),  # type: ignore[arg-type]
        (clew.Invalid, lambda: store.sessions.create(title="\ud800")),
        (clew.Invalid, lambda: store.sessions.create(title="a\0b")),
        (clew.Invalid, lambda: store.sessions.create(cwd=b"/a")),  # type: ignore[arg-type]
        (clew.Invalid, lambda: store.sessions.create(cwd="/\ud800")),
        (clew.Invalid, lambda: store.sessions.create(extra={1: 2})),  # type: ignore[dict-item]
        (clew.Invalid, lambda: store.sessions.create(extra={"a": b"x"})),
        (clew.Invalid, lambda: session.rename("\udc00")),
        (clew.Invalid, lambda: session.label("\udc00")),
        (clew.Invalid, lambda: session.update(extra={"a": float("inf")})),
        (clew.Invalid, lambda: store.sessions.latest("/\ud800")),
        (clew.Invalid, lambda: store.sessions.list(label="\ud800")),
    ]
    bad += [(clew.Invalid, partial(store.sessions.list, limit=n)) for n in (0, -1, 1 << 63)]
    bad += [(clew.Invalid, partial(store.nodes.list, limit=n)) for n in (0, -1, 1 << 63)]
    bad += [(clew.Invalid, partial(store.nodes.list, offset=n)) for n in (-1, 1 << 63)]
    for odd in (
        "",
        "x",
        "n",
        "nn",
        "n-1",
        "n 1",
        "n1_0",
        "n0x1",
        "N1",
        "n" + "f" * 40,
        "\ud800",
        b"n1",
        5,
        ["n1"],
        "ff.1.0",
    ):
        bad += [(clew.Invalid, partial(store.nodes.list, cursor=odd))]
        bad += [(clew.Invalid, partial(store.sessions.list, cursor=odd))]
    for odd in (5, b"abcdef", None, ["abcdef"]):
        bad += [
            (clew.Invalid, partial(store.sessions.get, odd)),
            (clew.Invalid, partial(store.nodes.get, [odd])),
        ]
    for number, (error, work) in enumerate(bad):
        try:
            work()
        except error:
            continue
        pytest.fail(f"number {number} did not raise {error.__name__}")
    assert session.refresh().version == 2
    assert session.branches() == []
    assert store.sessions.list(total=True).total == len(store.nodes.list().items) == 1
    sound(store)


def test_parents_in_a_circle(store: Store) -> None:
    """Messages that name each other as parents are refused whole, however long the circle."""
    names = [f"00000000-0000-4000-8000-{number:012x}" for number in range(1500)]
    for count in (1, 2, 1500):
        circle = [clew.NewNode(clew.user("x"), names[(n + 1) % count], names[n]) for n in range(count)]
        with pytest.raises(clew.Invalid, match="cycle"):
            store.nodes.save([clew.NewNode(clew.user("good"), None), *circle])
    chain = [clew.NewNode(clew.user("x"), names[n + 1] if n < 1499 else None, names[n]) for n in range(1500)]
    assert store.nodes.save(chain)[0].depth == 1499


def test_a_parent_cannot_be_removed_under_its_child(store: Store, path: Path) -> None:
    """The database itself refuses to part a chain from what it grew from: foreign keys are on."""
    root = store.nodes.save(clew.user("root"))[0]
    store.nodes.save(clew.user("a"), parent=root.id)
    store.nodes.save(clew.user("b"), parent=root.id)
    with pytest.raises(clew.ClewError):
        Parts.of(store).engine.write(lambda tx: tx.delete_nodes(0, 1 << 62))
    assert len(store.nodes.list().items) == 3


# -- fuzzing

SURROGATES = st.text(st.characters(), max_size=6)  # with lone surrogates and NUL
WORDS = st.text('ab"\\ é漢\u2028\x7f', max_size=6)
TAME = st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | WORDS | st.lists(WORDS, max_size=2)
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | SURROGATES | st.binary(max_size=4) | st.datetimes()
    | st.uuids() | st.decimals() | st.builds(object) | st.just(ITSELF),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner)
    | st.dictionaries(SURROGATES | st.integers(), inner, max_size=3) | st.sets(st.integers(), max_size=2),
    max_leaves=6,
)  # fmt: skip
BLOCK = st.one_of(
    st.builds(clew.Text, text=SURROGATES | ODD, extra=ODD),
    st.builds(clew.Thinking, text=SURROGATES, signature=ODD, redacted=ODD),
    st.builds(clew.ToolCall, id=SURROGATES | ODD, name=SURROGATES, arguments=ODD),
    st.builds(
        clew.ToolResult,
        call_id=SURROGATES,
        content=st.lists(st.builds(clew.Text, text=SURROGATES) | ODD).map(tuple),
        is_error=ODD,
    ),
    st.builds(clew.Media, mime_type=SURROGATES, modality=st.just("image") | ODD, blob=ODD, url=ODD, name=ODD),
    st.builds(clew.Opaque, kind=SURROGATES, data=ODD),
    ODD,
)
USAGE = st.builds(clew.Usage, input=st.integers() | ODD, output=st.integers(0, 9), cost=ODD)
ROLE = st.sampled_from(["user", "assistant", "system", "tool"])
MESSAGE = st.one_of(
    st.builds(clew.Message, ROLE | ODD, st.lists(BLOCK, max_size=3).map(tuple) | ODD, ODD, USAGE | ODD, ODD, ODD),
    st.builds(clew.Message, ROLE, st.tuples(st.builds(clew.Text, text=SURROGATES))),
    st.builds(
        clew.Message,
        ROLE,
        st.tuples(st.builds(clew.ToolCall, id=WORDS, name=WORDS, arguments=st.dictionaries(WORDS, TAME))),
    ),
    st.builds(clew.Message, ROLE, st.just(()), extra=st.dictionaries(WORDS, TAME | ODD, max_size=2)),
    st.builds(clew.Native, SURROGATES | ODD, st.binary(max_size=30) | ODD, ODD, ODD),
    st.builds(
        clew.Native,
        st.sampled_from(["anthropic", "openai", "gemini"]),
        st.just(b'{"role":"user","content":[{}]}'),
        ODD,
        ODD,
    ),
    ODD,
)


def fuzz(path: Path, count: int) -> tuple[int, int]:
    """Appends so many odd things; returns how many were stored and how many refused."""
    stored = refused = 0
    with clew.open(path, durability="relaxed") as store:
        session = store.sessions.create()

        @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(MESSAGE, st.booleans())
        def one(said: Any, many: bool) -> None:
            nonlocal stored, refused
            head = session.head_id
            try:
                node = session.append([said])[0] if many else session.append(said)
            except clew.ClewError:
                refused += 1
                assert session.refresh().head_id == head
                return
            if isinstance(node, clew.Node):
                stored += 1
                (read,) = store.sessions.get(session.id).path(last=1)
                assert read.id == node.id
                assert read.message.role in ("user", "assistant", "system", "tool")
                assert read.said == node.said

        one()
        report = store.verify()
        assert report.ok, report.damage
        assert report.counts["nodes"] == len(session.path())
    return stored, refused


def test_fuzzed_messages(path: Path) -> None:
    """Each of 1,000 odd inputs is stored and read back, or raises an error of clew; the store stays sound."""
    stored, refused = fuzz(path, 1100)
    assert stored + refused >= 1000
    assert min(stored, refused) > 100


@pytest.mark.soak
def test_many_fuzzed_messages(path: Path) -> None:
    """The same with 50,000."""
    assert sum(fuzz(path, 50_500)) >= 50_000


# -- stores


def print_of(folder: Path) -> dict[str, str]:
    """The content of every file of a folder, by name; ignores -shm and an empty -wal."""
    files = [file for file in folder.iterdir() if file.is_file() and not file.name.endswith("-shm")]
    return {
        file.name: sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.stat().st_size or "-wal" not in file.name
    }


@pytest.mark.parametrize(
    "content", [b"hello", b"x" * 5000, b"\0" * 4096, b"SQLite format 3\0" + b"\xff" * 4080, b"SQLite format 3\0"]
)
def test_not_a_database(tmp_path: Path, content: bytes) -> None:
    """A file that is something else is refused, says so, and is left as it is, with nothing beside it."""
    (tmp_path / "chats.db").write_bytes(content)
    before = print_of(tmp_path)
    for create in (True, False):
        with pytest.raises(clew.NotAStore) as caught:
            clew.open(tmp_path / "chats.db", create=create)
        assert caught.value.hint
        assert "chats.db" in str(caught.value)
    assert print_of(tmp_path) == before


def test_a_database_of_another_program(tmp_path: Path) -> None:
    """A database of another program is refused unchanged, even if it is empty but has an application id."""
    for name, script in (
        ("table.db", "CREATE TABLE t (a)"),
        ("marked.db", "PRAGMA application_id = 77"),
        ("version.db", "PRAGMA user_version = 3"),
    ):
        with sqlite3.connect(tmp_path / name) as other:
            other.execute(script)
        other.close()
        before = print_of(tmp_path)
        with pytest.raises(clew.NotAStore, match="another program"):
            clew.open(tmp_path / name)
        assert print_of(tmp_path) == before


def test_a_newer_store(tmp_path: Path) -> None:
    """A store of a later format is refused unchanged; the error says which formats are known."""
    with clew.open(tmp_path / "chats.db") as store:
        store.sessions.create()
    with sqlite3.connect(tmp_path / "chats.db") as raw:
        raw.execute("PRAGMA user_version = 99")
    raw.close()
    before = print_of(tmp_path)
    with pytest.raises(clew.SchemaTooNew) as caught:
        clew.open(tmp_path / "chats.db")
    assert (caught.value.found, caught.value.known) == (99, FORMAT)
    assert print_of(tmp_path) == before


@pytest.mark.checklist("D21")
def test_places_where_no_store_can_be(tmp_path: Path) -> None:
    """A folder, a missing folder, a file taken for a folder, an address, an odd path: each error says what to do."""
    (tmp_path / "file").write_text("x")
    odd: list[Any] = [
        tmp_path, tmp_path / "missing" / "chats.db", tmp_path / "file" / "chats.db", "postgresql://localhost/x",
        "", "a\0b", b"chats.db", 5, None,
    ]  # fmt: skip
    for place in odd:
        with pytest.raises((clew.Invalid, clew.Unavailable)) as caught:
            clew.open(place, timeout=0.2)
        assert str(caught.value)
    with pytest.raises(clew.NotFound):
        clew.open(tmp_path / "chats.db", create=False)
    with pytest.raises(clew.Invalid):
        clew.open(tmp_path / "chats.db", durability="none")  # type: ignore[arg-type]
    assert sorted(print_of(tmp_path)) == ["file"]


def test_how_long_a_write_may_wait(tmp_path: Path) -> None:
    """Days, but not for ever: more is refused before anything is made, and the longest wait still counts right."""
    for odd in (float("inf"), float("nan"), -1, 1e10, LONGEST_WAIT + 1, "60", None):
        with pytest.raises(clew.Invalid, match="timeout"):
            clew.open(tmp_path / "chats.db", timeout=odd)  # type: ignore[arg-type]
    assert not print_of(tmp_path)
    with clew.open(tmp_path / "chats.db", timeout=LONGEST_WAIT) as store:
        store.sessions.create().append(clew.user("Hello"))


def test_odd_but_good_places(tmp_path: Path) -> None:
    """Spaces, question marks, percent signs, hashes and letters of any script are names like any other."""
    for name in ("a b.db", "q?mode=ro.db", "50%41.db", "#x.db", "漢字.db", "no-extension", "-dash"):
        with clew.open(tmp_path / name) as store:
            store.sessions.create(title=name)
        with clew.open(os.fspath(tmp_path / name), create=False) as store:
            assert store.sessions.latest().title == name
        assert (tmp_path / name).exists()


@pytest.mark.checklist("D21")
def test_opening_twice_is_opening_once(path: Path) -> None:
    """Opening an existing store changes nothing in it, and an empty file is a place for a new one."""
    path.touch()
    with clew.open(path) as store:
        session = store.sessions.create()
    for _ in range(3):
        with clew.open(path) as store:
            assert store.sessions.latest() == session


def test_a_store_is_the_owners_alone(path: Path) -> None:
    """The files of a new store can be read by their owner only."""
    with clew.open(path) as store:
        store.sessions.create()
        for file in path.parent.iterdir():
            assert file.stat().st_mode & 0o077 == 0, file.name


BECOME = "os.setgroups([]); os.setgid(65534); os.setuid(65534)"


def as_another(code: str, folder: Path) -> str:
    """Runs Python as a user who owns nothing here: root would not notice mode bits."""
    for above in [folder, *folder.parents]:
        if above.stat().st_uid == os.getuid() and str(above).startswith(tempfile.gettempdir() + os.sep):
            above.chmod(above.stat().st_mode | 0o055)  # to be able to get there at all
    # Imported first: the project itself may lie where only root can read.
    script = f"import os, sys; sys.path[:0] = {sys.path!r}; import clew; clew.open; {BECOME}\n{textwrap.dedent(code)}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become another user")
class TestReadOnly:
    """A store that may be read and not written."""

    WRITE = """
    try:
        store = clew.open({path!r})
        session = store.sessions.latest()
        print([node.text for node in session.path()])
        session.append(clew.user("more"))
    except clew.ClewError as error:
        print(type(error).__name__, bool(error.hint))
    """

    @pytest.fixture
    def made(self, path: Path) -> Path:
        with clew.open(path) as store:
            store.sessions.create().append(clew.user("hello"))
        return path

    def test_a_file_that_cannot_be_written(self, made: Path, tmp_path: Path) -> None:
        """In a folder that can be written, the store is read, and writing says ReadOnly and what to check."""
        os.chmod(made, 0o444)
        for file in tmp_path.glob("chats.db-*"):
            file.unlink()
        as_another("", tmp_path)
        os.chmod(tmp_path, 0o777)
        said = as_another(self.WRITE.format(path=str(made)), tmp_path).splitlines()
        assert said[-1] == "ReadOnly True"
        assert said[0] == "['hello']"
        with clew.open(made) as store:
            assert len(store.sessions.latest().path()) == 1

    def test_a_folder_that_cannot_be_written(self, made: Path, tmp_path: Path) -> None:
        """Without permission for the folder, the error mentions permissions, and nothing is changed."""
        os.chmod(made, 0o444)
        before = print_of(tmp_path)
        said = as_another(self.WRITE.format(path=str(made)), tmp_path).splitlines()
        assert said[-1] in ("ReadOnly True", "Unavailable True")
        assert print_of(tmp_path) == before

    def test_a_file_that_cannot_be_read(self, made: Path, tmp_path: Path) -> None:
        """A file that others may not read is Forbidden, with a hint."""
        said = as_another(self.WRITE.format(path=str(made)), tmp_path).splitlines()
        assert said[-1] == "Forbidden True"

    def test_no_place_for_a_new_store(self, tmp_path: Path) -> None:
        """If no file can be created, none is, and the error says so."""
        said = as_another(self.WRITE.format(path=str(tmp_path / "new.db")), tmp_path).splitlines()
        assert said[-1] in ("ReadOnly True", "Unavailable True")
        assert print_of(tmp_path) == {}


def test_after_close(store: Store) -> None:
    """Every use of a closed store, and of what it gave out, is Closed; leaving it twice is not an error."""
    session = store.sessions.create()
    node = session.append(clew.user("x"))
    walk = session.iter()
    store.close()
    store.close()
    uses: list[Callable[[], object]] = [
        lambda: session.append(clew.user("y")), session.path, session.refresh, session.purge, session.branches,
        lambda: session.counters, lambda: session.rename("x"), lambda: session.log.append(b"x"),
        lambda: session.blobs.put(b"x"),
        lambda: next(walk), lambda: node.handle, lambda: store.nodes.get(node.id), lambda: store.nodes.list(),
        store.sessions.latest, store.sessions.create, store.verify, lambda: store.search("x"),
        lambda: store.backup("x"),
        lambda: store.transaction().__enter__(),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(clew.Closed):
            use()
    assert (node.text, session.id) == ("x", session.id)


def test_a_store_is_not_closed_from_inside_its_transaction(store: Store) -> None:
    """Closing the store inside an open transaction is refused, and the transaction continues."""
    session = store.sessions.create()
    with store.transaction():
        session.append(clew.user("x"))
        with pytest.raises(clew.Invalid):
            store.close()
    assert len(session.path()) == 1


def test_an_interrupt_leaves_nothing_half_written(store: Store, sound: Callable[[Store], None]) -> None:
    """A key pressed in the middle of a transaction undoes it whole; the store works on."""
    session = store.sessions.create()
    session.append(clew.user("saved"))
    with pytest.raises(KeyboardInterrupt), store.transaction():
        session.append([clew.assistant("half"), clew.user("written")])
        raise KeyboardInterrupt
    assert [node.text for node in session.path()] == ["saved"]
    session.append(clew.user("on"))
    sound(store)


WITHOUT_PSYCOPG = """
import sys
sys.modules["psycopg"] = None
import clew
try:
    clew.open("postgresql://app@127.0.0.1:9/app")
except clew.Unavailable as error:
    print(error.hint)
"""


def test_a_machine_without_psycopg_says_what_to_install() -> None:
    """A store on a server cannot be opened there, and that is no bug of clew's."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_PSYCOPG], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"{install_hint('clew[postgres]')}\n", done.stderr
