"""A write transaction beside others: it locks the homes of what it reads and writes, not the store.

Each row belongs to a tree, to the ref that owns it, or to itself: its home. A transaction takes the lock of a home
before it reads there, and keeps it. It waits only for its first home, so there are no deadlocks. If another one is
taken, it raises Taken: the work is repeated, and begins with that lock. Each method that is not defined here raises
NeedsLock: the work is repeated in a transaction that excludes all others (`PostgresTx`), also these.

If such a transaction commits, it is as if it had run alone at its commit:

- What it has read in a home stays as it is until its end, because every writer of the home has its lock. It has read
  what was committed before, because READ COMMITTED gives each statement a new snapshot.
- Nothing is deleted, and no key, text, owner or parent of a row changes, without the lock of the store. So what was
  found once, such as a message by its id, is there at the commit, wherever it is.
- A key that no ref has is locked: until the end, no other transaction adds that ref. The same holds for an index
  (`look`) of documents, whose refs all have the lock of that index when they are added. A transaction waits for such a
  lock only if it has none, and for a home also if it has only such locks.
- A row that is there already, or has changed, is NeedsLock and not an error, which the work might take for an answer.
- An id that no message or entry has must be among those that it stores itself: unique indexes then prove that it was
  free until the commit. If it stores none with that id, `prove` raises NeedsLock. In a store with partitions no index
  has all ids, so there it raises NeedsLock at once.
- The highest rank of a kind is read without a lock. It only sorts lists.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NoReturn, TypeVar

from clew.backends import (
    SEQ_BITS,
    BlobRow,
    BlobTx,
    BodyRow,
    HeadState,
    InsertPoint,
    LogRow,
    MaintenanceTx,
    Move,
    NodeLocation,
    NodeRow,
    RefRow,
    RunRow,
    Tx,
)
from clew.backends.postgres.connection import Connection
from clew.backends.postgres.optimistic import NeedsLock
from clew.backends.postgres.tx import SQL, PostgresTx
from clew.backends.rows import MAX_COUNTER
from clew.errors import Conflict

T = TypeVar("T")
MOST = 48
"""Locks of one transaction: the server has room for 64 of each connection."""


class Taken(NeedsLock):
    """Another transaction has a lock. `first` is the call that needs it: another attempt begins with it, and waits."""

    def __init__(self, first: Callable[[SharedTx], object]) -> None:
        self.first = first


MOVING = ("session", "subagent")
"""Kinds of refs with heads that move, and their ranks with them. No lock of an index covers their order."""
_Key = tuple[str, str, bytes]


class SharedTx(PostgresTx):
    """See above. Methods that do not say more read or write in homes of which they take the lock first."""

    __slots__ = (
        "_absent_ids", "_absent_keys", "_blobs", "_first", "_held", "_homeless", "_homes", "_keys", "_known", "_locks",
        "_looks", "_made", "_runs", "_spaces",
    )  # fmt: skip
    _begin = SQL["begin_shared"]

    def __init__(self, conn: Connection, store: int) -> None:
        super().__init__(conn, store)
        self._first = True
        """True until it takes a lock or writes: until then, it may wait for any lock."""
        self._homeless = True
        """True until it takes the lock of a home or writes: until then, it may wait for that of a home."""
        self._locks = 0
        """How many locks it has, at most."""
        self._homes: set[int] = set()
        self._looks: set[_Key] = set()
        """Trees and indexes of documents that only this transaction can change."""
        self._held: set[int] = set()
        """Refs in such homes."""
        self._made: set[int] = set()
        """Refs that it has added."""
        self._known: dict[int, RefRow] = {}
        """Current rows of some of these refs, and their numbers by key."""
        self._keys: dict[_Key, int] = {}
        self._absent_keys: set[_Key] = set()
        self._absent_ids: set[bytes] = set()
        """Ids that no message or entry had, and that it has not stored."""
        self._runs: dict[int, int] = {}
        """The trees of runs. A run never changes its tree."""
        self._blobs: set[int] = set()
        """Blobs in such homes."""
        self._spaces: dict[int, str] = {}

    def prove(self) -> None:
        """Called before the commit. NeedsLock if something may have changed that it has read."""
        if self._absent_ids:
            raise NeedsLock

    def mark(self) -> list[Any]:
        """What to `reset` to after a rollback to a savepoint."""
        values = (getattr(self, name) for name in self.__slots__)
        return [value.copy() if isinstance(value, set | dict) else value for value in values]

    def reset(self, mark: list[Any]) -> None:
        """Forgets what it did since `mark`: a rollback to a savepoint also releases locks."""
        for name, value in zip(self.__slots__, mark, strict=True):
            setattr(self, name, value)

    # -- locks

    def _take_tree(self, tree: int) -> bool:
        """Takes the lock of a tree, unless it has it. True if it did not have it."""
        home = tree & MAX_COUNTER
        if home in self._homes:
            return False
        self._locking(lambda tx: tx._take_tree(tree), "take_home", home, self._homeless)
        self._homeless = False
        self._homes.add(home)
        return True

    def _take_look(self, *look: Any) -> None:
        """Takes the lock of an index: workspace, kind and hash."""
        if look not in self._looks:
            self._locking(lambda tx: tx._take_look(*look), "take_look", *look, self._first)
            self._looks.add(look)

    def _take_run(self, run: int) -> bool:
        """Takes the lock of a run's tree."""
        if run not in self._runs:
            found = super().run(run)
            if found is None:
                raise NeedsLock
            self._runs[run] = found.tree
        return self._take_tree(self._runs[run])

    def _take_ref(self, ref: int) -> None:
        """Takes the lock of a ref's home."""
        if ref not in self._held:
            self.ref_at(ref)

    def _locking(self, first: Callable[[SharedTx], object], name: str, *values: Any) -> Any:
        """The row of a statement that takes a lock first. Taken with `first` if another transaction has that."""
        self._allow()
        began = time.monotonic()
        row = self._one(name, self.homes, *values)
        if self._homeless:  # it may have waited
            self.conn.note("lock", began)
        if row is not None and row[0] is None:
            raise Taken(first)
        self._first = False
        return row

    def _allow(self) -> None:
        """NeedsLock if it has as many locks as it may have."""
        self._locks += 1
        if self._locks > MOST:
            raise NeedsLock

    def _note(self, row: RefRow) -> RefRow:
        """Remembers a ref of which it has the lock."""
        self._homeless = False
        self._held.add(row.ref)
        self._known[row.ref] = row
        self._keys[row.workspace, row.kind, row.key] = row.ref
        if row.tree is not None:
            self._homes.add(row.tree & MAX_COUNTER)
        return row

    def _miss(self, ids: Collection[bytes]) -> None:
        """Remembers ids that no message or entry has. NeedsLock in a store with partitions."""
        if self.divided and ids:
            raise NeedsLock
        self._absent_ids.update(ids)

    def _store(self, name: str, rows: Sequence[Sequence[Any]], taken: str) -> None:
        if self._many(name, rows) != len(rows):
            raise NeedsLock

    def _in_run(self, low: int, high: int) -> None:
        """Takes the lock of the run that has all positions between two."""
        if low >> SEQ_BITS != high >> SEQ_BITS:
            raise NeedsLock
        self._take_run(low >> SEQ_BITS)

    # -- refs

    def ref(self, workspace: str, kind: str, key: bytes) -> RefRow | None:
        name = workspace, kind, key
        if name in self._absent_keys:
            return None
        if name in self._keys:
            return self.ref_at(self._keys[name])
        row = self._locking(lambda tx: tx.ref(*name), "find_ref", self._first, self._homeless, *name)
        if row is None:
            self._absent_keys.add(name)
            return None
        return self._note(RefRow._make(row))

    def ref_at(self, ref: int) -> RefRow:
        known = self._known.get(ref)
        if known is not None:
            return known
        row = self._locking(lambda tx: tx.ref_at(ref), "find_ref_at", self._homeless, ref)
        if row is None:
            raise NeedsLock
        return self._note(RefRow._make(row))

    def head_state(self, ref: int) -> HeadState:
        row = self._locking(lambda tx: tx.head_state(ref), "find_head", self._homeless, ref)
        if row is None:
            raise NeedsLock
        state = HeadState._make(row)
        self._homeless = False
        self._held.add(ref)
        if state.tree is not None:
            self._homes.add(state.tree & MAX_COUNTER)
        if state.pos is not None:
            self._runs[state.pos >> SEQ_BITS] = state.tree
        return state

    def refs_owned(self, ref: int) -> list[RefRow]:
        """An owned ref may have a tree of its own. Adding one needs the lock of its owner, too."""
        self._take_ref(ref)
        return self._settled(lambda: PostgresTx.refs_owned(self, ref))

    def refs_in_tree(self, tree: int, low: int, high: int) -> list[RefRow]:
        self._take_tree(tree)
        return self._settled(lambda: PostgresTx.refs_in_tree(self, tree, low, high))

    def refs_recent(
        self,
        workspace: str,
        kind: str,
        *,
        before: tuple[int, int] | None = None,
        look: bytes | None = None,
        label: bytes | None = None,
        limit: int,
    ) -> list[RefRow]:
        """Only the documents with an index: their ranks do not change."""
        if look is None or label is not None or kind in MOVING:
            raise NeedsLock
        rank, ref = before or (1 << 62, 1 << 62)

        def read() -> list[RefRow]:
            values = (self._first, workspace, kind, look, rank, ref, limit)
            rows = self._rows(RefRow._make, "find_look", self.homes, *values)
            if rows and rows[0].ref is None:
                raise Taken(lambda tx: tx._take_look(workspace, kind, look))
            self._first = False
            return rows

        if (workspace, kind, look) not in self._looks:
            self._allow()
            self._looks.add((workspace, kind, look))
        return self._settled(read)

    def _settled(self, read: Callable[[], list[RefRow]]) -> list[RefRow]:
        """Reads refs of which no other can be added, and once more if it did not have the locks of all of them."""
        rows, again = read(), False
        for row in rows:
            if row.ref in self._held:
                continue
            if row.tree is not None:
                again |= self._take_tree(row.tree)
            elif row.owner not in self._held:  # otherwise it has the home of its owner
                self.ref_at(row.ref)
                again = True
        rows = read() if again else rows
        return list(map(self._note, rows))

    def add_ref(self, row: RefRow) -> int:
        """Takes the lock of the key, and that of the index of a document."""
        if row.tree is not None:
            self._take_tree(row.tree)
        if row.owner is not None:
            self._take_ref(row.owner)
        if row.look is not None and row.kind not in MOVING:
            look = row.workspace, row.kind, row.look
            if look not in self._looks:
                self._take_look(*look)
                if self.top_rank(row.workspace, row.kind) >= row.rank:  # another was added to the index meanwhile
                    raise Taken(lambda tx: tx._take_look(*look))
        self._allow()
        self._first = self._homeless = False
        made = self._one("add_locked_ref", *row[1:], self.homes)
        if made is None:
            raise Taken(lambda tx: tx.ref(row.workspace, row.kind, row.key))
        self._absent_keys.discard((row.workspace, row.kind, row.key))
        self._made.add(int(made[0]))
        return self._note(row._replace(ref=int(made[0]))).ref

    def set_ref(self, row: RefRow) -> None:
        """Not to or from the trash, nor to another owner, nor to another place in an index of documents."""
        before = self.ref_at(row.ref)
        if (row.owner, row.trashed_at) != (before.owner, before.trashed_at):
            raise NeedsLock
        if row.kind not in MOVING and (row.look, row.rank) != (before.look, before.rank):
            raise NeedsLock
        try:
            super().set_ref(row)
        except Conflict:
            raise NeedsLock from None
        self._known[row.ref] = row

    def move_ref(self, ref: int, move: Move, *, up: bool) -> None:
        self._take_ref(ref)
        try:
            super().move_ref(ref, move, up=up)
        except Conflict:
            raise NeedsLock from None
        self._moved(ref, move)

    def advance(self, ref: int, seen: HeadState, move: Move, top: int) -> bool:
        self._take_tree(seen.tree)
        if not super().advance(ref, seen, move, top):
            return False
        self._held.add(ref)
        self._runs[(seen.pos or 0) >> SEQ_BITS] = seen.tree
        self._moved(ref, move)
        return True

    def _moved(self, ref: int, move: Move) -> None:
        if ref in self._known:
            self._known[ref] = self._known[ref]._replace(**move._asdict())

    def labels(self, ref: int) -> list[bytes]:
        self._take_ref(ref)
        return super().labels(ref)

    def set_labels(self, ref: int, looks: Iterable[bytes]) -> None:
        self._take_ref(ref)
        if ref not in self._made:
            super().set_labels(ref, looks)
        elif looks := list(looks):
            self._many("add_label", [(look, ref) for look in looks])

    # -- nodes and runs

    def node(self, id: bytes) -> NodeLocation | None:
        """A message is found in any home: it never changes."""
        if id in self._absent_ids:
            return None
        found = super().node(id)
        if found is None:
            self._miss([id])
        else:
            self._runs[found.row[0] >> SEQ_BITS] = found.tree
        return found

    def existing_ids(self, ids: Sequence[bytes]) -> set[bytes]:
        found = super().existing_ids(ids)
        self._miss(set(ids) - found)
        return found

    def node_at(self, pos: int) -> NodeLocation | None:
        found = super().node_at(pos)
        if found is None and self._take_run(pos >> SEQ_BITS):
            found = super().node_at(pos)
        return found

    def insert_point(self, id: bytes) -> InsertPoint | None:
        if id in self._absent_ids:
            return None
        found = super().insert_point(id)
        if found is not None and self._take_tree(found.tree):
            found = super().insert_point(id)
        if found is None:
            self._miss([id])
        else:
            self._runs[(found.pos or 0) >> SEQ_BITS] = found.tree
        return found

    def lineage(self, pos: int) -> list[tuple[RunRow, int]]:
        self._take_run(pos >> SEQ_BITS)
        found = super().lineage(pos)
        self._runs.update((run.run, run.tree) for run, _ in found)
        return found

    def nodes_between(self, low: int, high: int) -> list[NodeRow]:
        self._in_run(low, high)
        return super().nodes_between(low, high)

    def scan_bodies(self, low: int, high: int, read: Callable[[Iterable[BodyRow]], T]) -> T:
        self._in_run(low, high)
        return super().scan_bodies(low, high, read)

    def body_bytes(self, low: int, high: int) -> int:
        self._in_run(low, high)
        return super().body_bytes(low, high)

    def run(self, run: int) -> RunRow | None:
        self._take_run(run)
        return super().run(run)

    def runs_from(self, low: int, high: int) -> list[RunRow]:
        self._in_run(low, high)
        found = super().runs_from(low, high)
        self._runs.update((run.run, run.tree) for run in found)
        return found

    def last_seq(self, run: int) -> int:
        self._take_run(run)
        return super().last_seq(run)

    def tree_workspace(self, tree: int) -> str:
        """The workspace of a tree never changes."""
        if tree not in self._spaces:
            found = super().tree_workspace(tree)
            if found is None:
                raise NeedsLock
            self._spaces[tree] = found
        return self._spaces[tree]

    def add_tree(self, workspace: str, created_at: int) -> int:
        """No other transaction can see the new tree, so it needs no lock."""
        self._first = self._homeless = False
        tree = super().add_tree(workspace, created_at)
        self._homes.add(tree & MAX_COUNTER)
        self._spaces[tree] = workspace
        return tree

    def add_run(self, row: RunRow) -> int:
        self._take_tree(row.tree)
        run = super().add_run(row)
        self._runs[run] = row.tree
        return run

    def set_run(self, row: RunRow) -> None:
        self._take_tree(row.tree)
        super().set_run(row)

    def add_nodes(self, rows: Sequence[NodeRow]) -> None:
        for run in {row[0] >> SEQ_BITS for row in rows}:
            self._take_run(run)
        super().add_nodes(rows)
        self._absent_ids.difference_update(row[2] for row in rows)

    # -- logs

    def log_next(self, ref: int) -> int:
        self._take_ref(ref)
        return super().log_next(ref)

    def log_by_id(self, id: bytes) -> LogRow | None:
        """An entry is found in any home: it never changes."""
        found = super().log_by_id(id)
        if found is None:
            self._miss([id])
        return found

    def existing_log_ids(self, ids: Sequence[bytes]) -> set[bytes]:
        found = super().existing_log_ids(ids)
        self._miss(set(ids) - found)
        return found

    def add_log(self, rows: Sequence[LogRow]) -> None:
        for ref in {row.pos >> SEQ_BITS for row in rows}:
            self._take_ref(ref)
        super().add_log(rows)
        self._absent_ids.difference_update(row.id for row in rows)

    # -- blobs

    def blob(self, tree: int, look: bytes) -> BlobRow | None:
        self._take_tree(tree)
        found = super().blob(tree, look)
        self._blobs.update(() if found is None else (found.blob,))
        return found

    def blobs_between(self, tree: int, low: bytes, high: bytes) -> list[BlobRow]:
        self._take_tree(tree)
        return super().blobs_between(tree, low, high)

    def add_blob(self, row: BlobRow) -> int:
        self._take_tree(row.tree)
        blob = super().add_blob(row)
        self._blobs.add(blob)
        return blob

    def set_blob(self, row: BlobRow) -> None:
        self._take_tree(row.tree)
        super().set_blob(row)

    def add_chunk(self, pos: int, body: bytes) -> None:
        if pos >> SEQ_BITS not in self._blobs:
            raise NeedsLock
        super().add_chunk(pos, body)

    def add_uses(self, user: int, blobs: Iterable[int]) -> None:
        if user < 0:
            self._take_ref(-user)
        else:
            self._take_run(user >> SEQ_BITS)
        super().add_uses(user, blobs)

    def delete_uses(self, low: int, high: int) -> None:
        """Only if there is none: otherwise blobs may have to be deleted."""
        if low != high or low >= 0:
            raise NeedsLock
        self._take_ref(-low)
        if super().blobs_used(low, high):
            raise NeedsLock


ANYWHERE = ("state", "header", "headers", "owns_store", "top_rank", "quarantine_row")
"""Methods that read without a lock: what changes only with the lock of the store, and the highest rank."""
_PROTECTED = {name for kind in (Tx, BlobTx, MaintenanceTx) for name in vars(kind) if not name.startswith("_")}
_PROTECTED -= {*vars(SharedTx), *ANYWHERE, "blobs", "maintenance"}


def _refuse(tx: SharedTx, *args: Any, **kwargs: Any) -> NoReturn:
    raise NeedsLock


for _name in _PROTECTED:
    setattr(SharedTx, _name, _refuse)
