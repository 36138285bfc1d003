"""P6 for values of another kind: whatever damage makes of a column, it is reported, and no raw error comes of it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.base.buckets import Bucket
from clew.errors import ClewError
from clew.store.session import row_of
from clew.store.store import Store
from tests.reliability import sample
from tests.reliability.test_tampering import columns

VALUES: dict[str, Any] = {
    "nothing": None,
    "text": "twelve",
    "no text": b"\xff\xfe\x80",  # put in as text
    "a fraction": 0.5,
    "bytes": b"\x01" * 16,
    "a huge number": (1 << 63) - 1,
    "the least number": -(1 << 63),
}
NOT_NOTICED = {
    "header.created_at", "trees.created_at", "epoch.number", "epoch.ord_floor", "forgotten.number", "nodes.ord",
    "objects.created_at",
}  # fmt: skip
"""Columns in which another number may be as good as the one that was there."""
NAMES = ("store_id", "lookup_key", "created_at", "secrets", "unclean")
TITLE = "Build fails"


@pytest.fixture(scope="module", params=sample.KEYS)
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a row in every table."""
    path = tmp_path_factory.mktemp("original") / f"{request.param}.db"
    with opened(path, clock=sample.clock(), ids=sample.id_source()) as store:
        made(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        (pos,) = conn.execute("SELECT max(pos) FROM nodes").fetchone()
        conn.execute("UPDATE nodes SET body = x'00' WHERE pos = ?", (pos,))
    with opened(path) as store:
        assert len(store.quarantine.sweep(force=True).moved) == 1
        assert store.verify().ok
    return path


def opened(path: Path, **settings: Any) -> Store:
    """The store in a file whose name says how it is kept, with object storage beside it."""
    blobs = Bucket(path.with_name("objects").as_uri(), over=400)
    return clew.open(path, key=sample.KEYS[path.stem], blobs=blobs, **settings)


def made(store: Store) -> None:
    """A session with something of everything, and one in the trash."""
    session = store.sessions.create(title=TITLE, cwd="/src", labels=["bug"])
    nodes = session.append([clew.user(f"lint {number}") for number in range(4)])
    for size in (9, 99):  # the larger one goes to object storage
        session.append(clew.user("see", session.attach(b"bytes" * size, mime_type="image/png")))
    session.log.append([b"one", b"two"])
    session.fork(at=nodes[1].id, title="fork").append(clew.user("other"))
    session.rewind(nodes[2].id)
    session.append(clew.user("on"))
    session.compact(clew.system("in short"))
    store.sessions.create(agent="scout", owner=session).append(clew.user("trace"))
    store.sessions.create(title="trashed").append(clew.user("old")).text  # noqa: B018
    store.sessions.get(store.sessions.latest().id).trash()
    gone = store.sessions.create(title="gone")
    gone.append(clew.user("gone"))
    store.sessions.purge(gone.id)
    store.nodes.save([clew.user("saved"), clew.user("too")])
    store.sessions.create(title="last").append([clew.user("a"), clew.user("b")])


def spoil(path: Path, table: str, column: str, value: Any, where: str) -> bool:
    """Puts a value where the schema would not have it; False if it cannot be stored there at all."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        if conn.execute(f"SELECT count(*) FROM {table} WHERE {where} AND {column} IS NOT ?", (value,)).fetchone() == (
            0,
        ):
            return False
        (schema,) = conn.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        rewrite(conn, table, schema.replace(" NOT NULL", ""))
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("PRAGMA ignore_check_constraints = ON")
        put = "CAST(? AS TEXT)" if value == VALUES["no text"] else "?"
        try:
            changed = conn.execute(f"UPDATE {table} SET {column} = {put} WHERE {where}", (value,)).rowcount
        except (sqlite3.IntegrityError, sqlite3.OperationalError):
            changed = 0
        rewrite(conn, table, schema)
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return bool(changed)


def rewrite(conn: sqlite3.Connection, table: str, schema: str) -> None:
    conn.execute("PRAGMA writable_schema = ON")
    conn.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (schema, table))
    conn.execute("PRAGMA writable_schema = RESET")


def deeds(store: Store) -> Iterator[tuple[str, Callable[[], object]]]:
    """Everything that people do with a store: looking first, then writing."""
    sessions, nodes = store.sessions, store.nodes
    yield "readings", lambda: sample.readings(store)
    yield "trashed", lambda: [one.title for one in sessions.trashed().items]
    yield "receipts", sessions.receipts
    yield (
        "list",
        lambda: [(one.title, one.held, one.trashed_at) for one in sessions.list(label="bug", total=True).items],
    )
    yield "search", lambda: [hit.session for hit in store.search("lint")]
    yield "quarantine", store.quarantine.list
    yield "key status", store.key_status
    yield "sweep", lambda: store.quarantine.sweep(force=True, dry_run=True)
    keys = [clew.base.ids.text(key) for key in KEYS]
    for key in keys:
        yield "append", lambda: sessions.get(key).append(clew.user("more"))
        yield "append again", lambda: sessions.get(key).append(clew.user("more"))
        yield "attach", lambda: sessions.get(key).attach(b"more", mime_type="image/png")
        yield "log", lambda: sessions.get(key).log.append(b"more")
        yield "rename", lambda: sessions.get(key).rename("other").label("x")
        yield "hold", lambda: sessions.get(key).hold().release()
        yield "fork", lambda: sessions.get(key).fork().append(clew.user("forked"))
        yield "compact", lambda: sessions.get(key).compact(clew.user("short"))
        yield "rewind", lambda: sessions.get(key).rewind(None)
        yield "trash", lambda: sessions.get(key).trash()
        yield "restore", lambda: sessions.restore(key)
    yield "create", lambda: sessions.create(title="new", cwd="/src", labels=["bug"]).append(clew.user("new"))
    yield "save", lambda: nodes.save([clew.user("x"), clew.user("y")])
    yield "delete nodes", lambda: nodes.delete([node.id for node in nodes.list(limit=3).items], recursive=True)
    for key in keys:
        yield "purge", lambda: sessions.purge(key)


KEYS: list[bytes] = []


@pytest.fixture(scope="module", autouse=True)
def known() -> None:
    """The keys of the sessions in the store; plain and sealed, they are the same."""
    with clew.open(":memory:", clock=sample.clock(), ids=sample.id_source()) as store:
        made(store)
        KEYS[:] = [row_of(one).key for one in store.sessions.list(limit=50).items]


def rows(path: Path, table: str) -> list[str]:
    """Conditions that each mean one row: those of the session with everything, or the first."""
    with closing(sqlite3.connect(path)) as conn:
        ref, head = conn.execute("SELECT ref, head FROM refs WHERE tree = 1 ORDER BY ref LIMIT 1").fetchone()
        match table:
            case "header":
                return [f"name = '{name}'" for name in NAMES]
            case "nodes":
                return [f"pos = {head}", f"pos = {1 << 24 | 1}"]
            case "runs":
                return [f"run = {head >> 24}", "run = 1"]
            case "refs":
                return [f"ref = {ref}"]
            case "labels":
                return [f"ref = {ref}"]
            case "uses":
                return ["blob = 1"]
            case "objects":
                return ["blob = 2"]
            case _:
                (rowid,) = conn.execute(f"SELECT rowid FROM {table} ORDER BY rowid LIMIT 1").fetchone()
                return [f"rowid = {rowid}"]


@pytest.mark.parametrize("name", columns())
def test_a_value_of_another_kind(original: Path, tmp_path: Path, name: str) -> None:
    """NULL, text, bytes or a number where it does not belong: verify tells, and nothing but a ClewError is raised."""
    at = columns().index(name) + ("sealed" in original.name)
    kinds = [kind for number, kind in enumerate(VALUES) if (number + at) % len(VALUES) == 0]
    check(original, tmp_path, name, kinds, rows(original, name.partition(".")[0])[-1:])


@pytest.mark.soak
@pytest.mark.parametrize("name", columns())
def test_any_value_of_another_kind(original: Path, tmp_path: Path, name: str) -> None:
    """The same for each of them, and for more rows."""
    assert check(original, tmp_path, name, VALUES, rows(original, name.partition(".")[0])) or name == "epoch.one"


def check(original: Path, folder: Path, name: str, kinds: Iterable[str], places: list[str]) -> int:
    """Tries values in a column; returns how many could be put there."""
    table, _, column = name.partition(".")
    raw, missed, tried = [], [], 0
    for where in places:
        for kind in kinds:
            value = VALUES[kind]
            path = Path(shutil.copy(original, folder / original.name))
            for end in ("-search", "-lock"):
                path.with_name(path.name + end).unlink(missing_ok=True)
            shutil.rmtree(path.with_name("objects"), ignore_errors=True)
            shutil.copytree(original.with_name("objects"), path.with_name("objects"))
            if not spoil(path, table, column, value, where):
                continue
            tried += 1
            try:
                with opened(path) as store:
                    if store.verify().ok:
                        missed.append((where, kind))
                    for deed, do in deeds(store):
                        try:
                            found: Any = do()
                        except ClewError:
                            continue
                        except Exception as error:
                            raw.append((where, kind, deed, repr(error)))
                            continue
                        if deed == "readings":
                            odd = sample.errors(found) - {one.__name__ for one in errors()}
                            raw += [(where, kind, deed, one) for one in odd]
            except ClewError:
                continue  # opening refuses, or closing says so
            except Exception as error:
                raw.append((where, kind, "open", repr(error)))
    assert raw == []
    assert all(name in NOT_NOTICED and "number" in kind for _, kind in missed), missed
    return tried


def errors() -> Iterator[type[ClewError]]:
    """Every error of clew's."""
    below = [ClewError]
    for one in below:
        yield one
        below += one.__subclasses__()
