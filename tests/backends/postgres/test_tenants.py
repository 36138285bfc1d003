"""Many tenants: a role sees the workspaces it was admitted to, and nothing else, whatever it asks for."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import clew
from clew.base.buckets import Bucket
from clew.errors import Conflict, Invalid, NotFound, Unavailable
from clew.store import partitions, tenants
from clew.store.session import delete_session
from tests.backends.postgres.server import Server


class NodeLocation:
    """A store with two tenants."""

    def __init__(self, server: Server, parts: int = 0) -> None:
        self.server, self.url = server, server.url()
        self.schema = self.url.partition("schema=")[2]
        self.roles = [f"r{uuid.uuid4().hex}" for _ in "ab"]
        with server.connect() as conn:
            for role in self.roles:
                conn.execute(f"CREATE ROLE {role} LOGIN")
        with clew.open(self.url) as store:
            if parts:
                partitions.divide(store, parts)
            tenants.isolate(store)
            for role, workspace in zip(self.roles, "ab", strict=True):
                tenants.admit(store, role, workspace)

    def open(self, number: int, workspace: str | None = None, blobs: Bucket | None = None) -> clew.Store:
        """The store, as a tenant sees it."""
        url = self.url.replace("clew@", f"{self.roles[number]}@")
        return clew.open(url, workspace="ab"[number] if workspace is None else workspace, blobs=blobs)

    def sql(self, number: int) -> psycopg.Connection[Any]:
        """A connection of the tenant's own making."""
        return psycopg.connect(
            host=str(self.server.folder), user=self.roles[number], dbname="postgres", autocommit=True,
            options=f"-csearch_path={self.schema}",
        )  # fmt: skip


@pytest.fixture
def place(server: Server) -> NodeLocation:
    return NodeLocation(server)


def fill(store: clew.Store, word: str) -> clew.Session:
    session = store.sessions.create(title=word, labels=[word])
    session.append([clew.user(word), clew.assistant("yes")])
    session.append(clew.user("look", session.attach(word.encode() * 50, mime_type="text/plain")))
    session.log.append([word.encode()])
    session.fork().append(clew.user(f"{word} aside"))
    assert store.search(word)
    return session


def test_a_tenant_has_a_whole_store(place: NodeLocation) -> None:
    """Within its workspace a tenant can do all that there is to do with sessions."""
    with place.open(0) as store:
        session = fill(store, "alpha")
        session.rename("beta")
        session.rewind(session.path()[0].id)
        session.compact(clew.system("in short"))
        store.sessions.trash(session.id)
        store.sessions.restore(session.id)
        assert store.verify().ok
        receipt = store.sessions.purge(session.id)
        assert (receipt.failures, receipt.pending) == ((), ())


def test_objects_are_a_workspaces_own(place: NodeLocation, tmp_path: Path) -> None:
    """In a bucket that tenants share, none sees, needs or sweeps away what another has there."""
    bucket = Bucket(tmp_path.as_uri(), over=10)
    with place.open(0, blobs=bucket) as one, place.open(1, blobs=bucket) as two:
        mine, theirs = fill(one, "alpha"), fill(two, "omega")
        with place.sql(1) as conn:
            assert conn.execute("SELECT count(*) FROM objects").fetchone() == (1,)
            assert conn.execute("DELETE FROM objects").rowcount == 1
        assert two.blobs.sweep(older=timedelta(0)).objects == 1  # its own, which it has forgotten
        media = mine.path()[2].message.blocks[1]
        assert isinstance(media, clew.Media)
        assert mine.blobs.get(media.blob or "") == b"alpha" * 50
        assert theirs.path()
        assert one.sessions.purge(everything=True).pending == ()
        assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["clew"]


def test_nothing_of_another_is_seen(place: NodeLocation) -> None:
    """Not in lists, not in a search, not by an id that is known, not by naming the other's workspace."""
    with place.open(0) as one, place.open(1) as two:
        mine = fill(one, "alpha")
        node = mine.path()[0]
        fill(two, "omega")
        for there in (two, place.open(1, workspace="a")):
            for ask in (
                lambda there=there: there.sessions.get(mine.id),
                lambda there=there: there.nodes.get([node.id]),
                lambda there=there: there.nodes.path(node.id),
                lambda there=there: there.nodes.resolve(node.handle),
                lambda there=there: there.nodes.save(clew.user("under"), parent=node.id),
            ):
                with pytest.raises(NotFound):
                    ask()
            assert there.search("alpha") == []
            assert node.id not in [one.id for one in there.nodes.list(limit=500).items]
        there.close()
        with pytest.raises(Conflict):  # an id is nobody's twice, and that is all that is told of it
            two.sessions.create().append(clew.user("mine"), id=node.id)
        assert [session.title for session in two.sessions.list().items if session.title == "alpha"] == []


def test_the_rules_are_the_servers(place: NodeLocation) -> None:
    """With a connection of its own a role reads, changes and adds no row of another's, in any table."""
    with place.open(0) as one, place.open(1) as two:
        fill(one, "alpha")
        fill(two, "omega")
    with place.server.connect(options=f"-csearch_path={place.schema}") as owner, place.sql(1) as conn:
        counts = {}
        for table in ("trees", "refs", "runs", "nodes", "log", "labels", "blobs", "chunks", "uses", "search"):
            everything = owner.execute(f"SELECT count(*) FROM {table}").fetchone()
            seen = conn.execute(f"SELECT count(*) FROM {table}").fetchone()
            assert everything is not None
            assert seen is not None
            counts[table] = (seen[0], everything[0])
        assert all(0 < seen < everything for seen, everything in counts.values()), counts
        (theirs,) = owner.execute("SELECT min(pos) FROM nodes").fetchone() or (0,)
        assert conn.execute("UPDATE nodes SET body = '' WHERE pos = %s", (theirs,)).rowcount == 0
        assert conn.execute("DELETE FROM refs WHERE workspace = 'a'").rowcount == 0
        assert conn.execute("DELETE FROM header WHERE name <> 'unclean'").rowcount == 0
        for attempt in (
            "INSERT INTO trees (workspace, created_at) VALUES ('a', 0)",
            f"INSERT INTO nodes VALUES ({theirs + 99}, 999, '\\x00', '\\x00', '\\x00')",
            "INSERT INTO tenants VALUES (current_user, 'a')",
            "UPDATE epoch SET state = 'odd'",
            "INSERT INTO header VALUES ('store_id2', '')",
            f"INSERT INTO forgotten (low, high) VALUES ({theirs}, {theirs})",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(attempt)


def test_what_was_deleted_is_told_by_who_deletes_it(place: NodeLocation) -> None:
    """A tenant deletes, and others learn of it; it can neither take that back nor say it of what is not its own."""
    with place.open(1) as store:
        session = store.sessions.create()
        session.append(clew.user("omega"))
        assert delete_session(session).messages == 1
        with place.sql(0) as conn:
            assert conn.execute("SELECT count(*) > 0 FROM forgotten").fetchone() == (True,)
            assert conn.execute("DELETE FROM forgotten").rowcount == 0
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute("UPDATE forgotten SET low = 0")


def test_no_tenant_drops_what_others_were_told(place: NodeLocation) -> None:
    """A tenant cannot make the notes of others' deletions seem old: it draws, chooses and uses up no number."""
    with place.open(0) as mine, place.open(1) as theirs:
        kept = mine.sessions.create()
        kept.append(clew.user("alpha"))
        gone = theirs.sessions.create()
        gone.append(clew.user("omega"))
        delete_session(gone)
        with place.sql(0) as conn, place.server.connect(options=f"-csearch_path={place.schema}") as owner:
            (low,) = conn.execute("SELECT min(pos) FROM nodes").fetchone() or (0,)
            notes = owner.execute("SELECT * FROM forgotten").fetchall()
            assert notes
            for attempt in (
                "SELECT nextval('forgotten_number_seq')",
                "SELECT setval('forgotten_number_seq', 900000)",
                f"INSERT INTO forgotten OVERRIDING SYSTEM VALUE VALUES (900000, {low}, {low})",
                "SELECT nextval('trees_tree_seq')",
                "INSERT INTO trees OVERRIDING SYSTEM VALUE VALUES (900000, 'a', 0)",
                f"INSERT INTO nodes (pos, ord, facts, id, body) VALUES ({low + 9}, 900000, '', '', '')",
                "UPDATE nodes SET ord = 900000",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    conn.execute(attempt)
            with pytest.raises(ZeroDivisionError), conn.transaction():
                conn.execute(f"INSERT INTO forgotten (low, high) SELECT {low}, {low} FROM generate_series(1, 101000)")
                raise ZeroDivisionError
            conn.execute("CREATE TEMP TABLE forgotten (number bigint, low bigint, high bigint)")
            conn.execute(
                f"INSERT INTO {place.schema}.forgotten (low, high) SELECT {low}, {low} FROM generate_series(1, 1001)"
            )
            assert conn.execute(f"DELETE FROM {place.schema}.forgotten").rowcount == 0
            with clew.open(place.url, workspace="a") as store:  # as the owner, who may
                store.sessions.purge(kept.id)
            assert owner.execute("SELECT * FROM forgotten ORDER BY number").fetchall()[: len(notes)] == notes


def test_the_oldest_notes_go(place: NodeLocation) -> None:
    """In a store with tenants the last 100,000 notes of deletions are kept; the oldest go first, whoever deletes."""
    with place.open(1) as store:
        session = store.sessions.create()
        session.append(clew.user("omega"))
        with place.sql(1) as conn:
            (low,) = conn.execute("SELECT min(pos) FROM nodes").fetchone() or (0,)
            conn.execute(f"INSERT INTO forgotten (low, high) SELECT {low}, {low} FROM generate_series(1, 102500)")
            first, last, count = conn.execute(
                "SELECT min(number), max(number), count(*) FROM forgotten"
            ).fetchone() or (0, 0, 0)
            assert (last, count) == (102500, last - first + 1)
            assert 100_000 <= count < 101_000


def test_no_tenant_is_in_anothers_way(place: NodeLocation) -> None:
    """Rows that a tenant puts where another's stand or will stand are refused: the other finds, stores and deletes."""
    with place.open(0) as first, place.open(1) as second, place.server.connect() as owner, place.sql(0) as conn:
        fill(first, "apple")
        session = fill(second, "pear")
        owner.execute(f"SET search_path = {place.schema}")
        select = "SELECT ref, tree, head FROM refs WHERE workspace = 'b' AND kind = 'session' ORDER BY ref LIMIT 1"
        found = owner.execute(select).fetchone()
        assert found is not None
        ref, tree, head = found
        (last,) = conn.execute("SELECT last_value FROM run_numbers").fetchone() or (0,)
        columns = "workspace, kind, %s, owner, {}, head, head_id, 1, 1, 1, 1, NULL, NULL, 0, look, NULL, mac, data"
        run = "tree, NULL, NULL, 0, 0, -1, 0, NULL, mac FROM runs LIMIT 1"
        copy = f"INSERT INTO refs SELECT %s, {columns} FROM refs WHERE kind = 'session' LIMIT 1"
        for query, values in (
            ("INSERT INTO search VALUES ('a', 'words', %s, 'x', 1, 1, '')", (head + 1,)),
            ("UPDATE search SET pos = %s WHERE pos = (SELECT min(pos) FROM search)", (head + 1,)),
            (
                "INSERT INTO runs SELECT %s, tree, NULL, NULL, 0, 0, -1, 0, NULL, mac FROM runs LIMIT 1",
                (tree << 31 | last,),
            ),
            (f"INSERT INTO runs SELECT (tree & 255) << 31 | %s, {run}", (last + 1,)),
            ("UPDATE runs SET run = run + 1", ()),
            ("UPDATE blobs SET blob = blob + 1", ()),
            ("UPDATE refs SET tree = %s", (tree,)),
            ("UPDATE refs SET ref = ref + 1", ()),
            ("UPDATE refs SET owner = %s", (ref,)),
            (copy.format("tree"), (ref + 1000, b"k" * 16)),
            (copy.format("%s"), (ref, b"k" * 16, tree)),
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(query, values)
        session.append(clew.user("lemon"))
        assert [hit.node.text for hit in second.search("lemon")] == ["lemon"]
        assert second.sessions.create().append(clew.user("new"))
        for one in second.sessions.list().items:
            assert not second.sessions.purge(one.id).failures
        assert owner.execute("SELECT 1 FROM trees WHERE tree = %s", (tree,)).fetchone() is None


def test_an_older_clew_gave_tenants_more(place: NodeLocation) -> None:
    """Switching the rules on again takes away rights that tenants no longer have."""
    with place.server.connect(options=f"-csearch_path={place.schema}") as owner:
        owner.execute(f"GRANT ALL ON forgotten, nodes, trees TO {place.roles[0]}")
        owner.execute(f"GRANT ALL ON SEQUENCE forgotten_number_seq, trees_tree_seq TO {place.roles[0]}")
    with clew.open(place.url) as store:
        tenants.isolate(store)
    with place.sql(0) as conn, pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute("SELECT nextval('forgotten_number_seq')")
    test_no_tenant_drops_what_others_were_told(place)


def test_who_is_dismissed_is_out(place: NodeLocation) -> None:
    """A workspace can be taken away; a role without any, and without rights, cannot even open the store."""
    with clew.open(place.url) as store, place.open(0) as mine:
        session = fill(mine, "alpha")
        tenants.dismiss(store, place.roles[0], "a")
        with pytest.raises(NotFound):
            mine.sessions.get(session.id)
        tenants.dismiss(store, place.roles[0])
        with pytest.raises(Unavailable):
            mine.sessions.list()
        with pytest.raises(NotFound):
            tenants.admit(store, "nobody-of-that-name", "a")
    with clew.open(":memory:") as store, pytest.raises(Invalid):
        tenants.isolate(store)


def test_a_tenant_holds_by_the_row(place: NodeLocation) -> None:
    """A role that may not change the header holds and releases its sessions, but not what the store's owner holds."""
    key = bytes(32)
    with clew.open(place.url) as store:
        store.seal(key)
    url = place.url.replace("clew@", f"{place.roles[0]}@")
    with clew.open(url, key=key, workspace="a") as tenant, clew.open(place.url, key=key, workspace="a") as owner:
        session = tenant.sessions.create()
        session.hold()
        with pytest.raises(Conflict, match="is held"):
            delete_session(session)
        session.release()
        owner.sessions.get(session.id).hold()
        with pytest.raises(Conflict, match="owner of the store"):
            session.release()
        owner.sessions.get(session.id).release()
        delete_session(session)
