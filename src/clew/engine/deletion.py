"""Deletion of refs, and of nodes by id; the ids that a purge remembers.

A node is needed while it has a child, a ref, or a compaction that replaced it, or if it was saved without a ref. After
a ref is deleted, deletion walks up from its head and stops at the first node that is needed.

A hold on a ref covers the refs it owns, and every node on their paths or in their history. The hold column counts only
if the ref's data, which is bound to it, opens.

A purge remembers each session and each message that it removes, so that no import stores them again: keyed hashes of
their ids, as ids of empty entries in a log of the workspace's own. They are found by an index, and reveal nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from clew.backends import BODY, ID, MAX_POS, MAX_SEQ, POS, SEQ_BITS, RefRow, RunRow, Tx, creation_counter
from clew.base import ids
from clew.engine import refs
from clew.engine.engine import Engine
from clew.engine.log import add_entries
from clew.engine.node import body_context, node_payload
from clew.engine.refs import BRANCH, OWN, Refs
from clew.engine.sealing.envelope import MISTYPED, quarantine_context, ref_context, ref_owner, run_owner
from clew.errors import Conflict, Corrupted

SESSION_KINDS = ("session", "subagent")
"""Kinds of ref that are conversations."""
BATCH = 256
FOLLOWS = ("session", "subagent", "recovery", BRANCH)
"""Kinds of ref whose head moves up when its node is deleted."""


class RunCut(NamedTuple):
    """The part of a run to delete: from `first` to its end."""

    run: RunRow
    first: int


class Removed:
    """Counts what a deletion removes."""

    def __init__(self, *, shred: bool = False) -> None:
        self.messages = 0
        self.bytes = 0
        """Stored size of the bodies."""
        self.blobs = 0
        self.shred = shred
        """True to give the rest of a cut run a new data key, so that older copies of the file cannot be read."""
        self.old_keys = 0
        """Runs that keep their data key, because a message that stays in them is damaged."""
        self.ids: list[bytes] = []
        """Ids of the messages."""


def delete_ref(engine: Engine, tx: Tx, ref: RefRow, *, shred: bool = False, damaged: bool = False) -> Removed:
    """Deletes a ref, the refs it owns, and every node that only they needed.

    Conflict, and nothing deleted, if one of the refs is held. Corrupted if its row does not say, unless `damaged`.
    """
    going = with_owned(engine, tx, ref, damaged=damaged)
    trees = {one.tree for one in going if one.tree is not None}  # a subagent has a tree of its own
    blobs = _count_blobs(tx, trees)
    for one in reversed(going):  # owners last
        tx.delete_ref(one.ref)
    gone = Removed(shred=shred)
    for one in going:
        if one.head is not None:
            _prune(engine, tx, one.head, gone)
    for tree in trees:
        if not tx.delete_tree_if_empty(tree) and shred:
            _drop_unused_blobs(tx, tree)
    gone.blobs = blobs - _count_blobs(tx, trees)
    return gone


def _count_blobs(tx: Tx, trees: Iterable[int]) -> int:
    """How many blobs these trees have. Counts only in these trees: a count over the whole store may be slow."""
    return sum(len(tx.blobs.blobs_between(tree, b"", b"\xff" * 32)) for tree in trees)


def _drop_unused_blobs(tx: Tx, tree: int) -> None:
    """Deletes the unused blobs of a tree, except unfinished ones, which another process may be writing."""
    for blob in tx.blobs.blobs_unused(tree):
        if blob.mac:
            tx.blobs.delete_blob(blob.blob)


def with_owned(engine: Engine, tx: Tx, ref: RefRow, *, damaged: bool = False) -> list[RefRow]:
    """A ref and the refs it owns, owners first. Conflict and Corrupted as in `delete_ref`."""
    going = [ref]
    for one in going:
        going.extend(tx.refs_owned(one.ref))
    for one in (*owners(tx, ref), *going):
        _refuse_held(engine, tx, one, damaged=damaged)
    return going


def reachable_runs(tx: Tx, ref: RefRow) -> list[RunCut]:
    """The messages of a ref and the refs it owns: each run once, with the first seq that is not theirs.

    Includes branches, traces and compacted messages.
    """
    going = [ref]
    for one in going:
        going.extend(tx.refs_owned(one.ref))
    upto: dict[int, int] = {}
    runs: dict[int, RunRow] = {}
    heads = [one.head for one in going if one.head is not None]
    for head in heads:
        if upto.get(head >> SEQ_BITS, -1) >= head & MAX_SEQ:
            continue
        for run, last in tx.lineage(head):
            runs[run.run], upto[run.run] = run, max(last, upto.get(run.run, -1))
            if run.derived is not None:
                heads.append(run.derived)
    return [RunCut(run, upto[number] + 1) for number, run in runs.items()]


def owners(tx: Tx, ref: RefRow) -> Iterator[RefRow]:
    """The owners of a ref, the nearest first."""
    above: RefRow | None = ref
    # An owner is always older. The check stops loops in damaged rows.
    while above is not None and above.owner is not None and creation_counter(above.owner) < creation_counter(above.ref):
        above = tx.ref_at(above.owner)
        if above is not None:
            yield above


def held_by(engine: Engine, tx: Tx, pos: int) -> RefRow | None:
    """A ref whose hold covers the node at a position, or whose damaged row may hide such a hold."""
    run = tx.run(pos >> SEQ_BITS)
    for ref in () if run is None else _reaching(tx, [RunCut(run, pos & MAX_SEQ)]):
        for one in (ref, *owners(tx, ref)):
            if one.hold or not _opens(engine, one) or refs.is_hold_listed(engine, tx, one):
                return one
    return None


def shown_by(tx: Tx, pos: int) -> list[str]:
    """The ids of the sessions that have the node on their path, in a branch, or behind a compaction."""
    run = tx.run(pos >> SEQ_BITS)
    return [] if run is None else [ids.text(one.key) for one in sessions_at(tx, [RunCut(run, pos & MAX_SEQ)])]


def _refuse_held(engine: Engine, tx: Tx, ref: RefRow, *, damaged: bool = False) -> None:
    """Conflict if a ref is held. Corrupted if its row says that it is not held, but is damaged or outdated.

    With `damaged`, Corrupted only if the ref's data is bound to a hold, or the ref is listed as held.
    """
    if ref.hold:
        raise Conflict(f"{ref.kind} {ids.text(ref.key)} is held", hint="Release it first.")
    if _opens(engine, ref._replace(hold=1)) if damaged else not _opens(engine, ref):
        raise Corrupted(f"{ref.kind} {ids.text(ref.key)}", "its row does not show whether it is held")
    if refs.is_hold_listed(engine, tx, ref):
        raise Corrupted(f"{ref.kind} {ids.text(ref.key)}", "its row says that it is not held, but it is")


def _refuse_missing_end(engine: Engine, tx: Tx, run: RunRow) -> None:
    """Corrupted if no ref or run starts at a run's end while a ref of its tree is held: a ref row may be outdated."""
    last = tx.last_seq(run.run)
    end = run.run << SEQ_BITS | max(last, 0)
    if last <= run.tip or tx.runs_from(end, end) or tx.refs_in_tree(run.tree, end, end):
        return
    for ref in tx.refs_in_tree(run.tree, 0, MAX_POS):
        if ref.hold or refs.is_hold_listed(engine, tx, ref):
            raise Corrupted(
                f"{ref.kind} {ids.text(ref.key)}", "it is held, and an earlier row of a session was restored"
            )


def _opens(engine: Engine, ref: RefRow) -> bool:
    """True if a ref's data opens with the columns of its row."""
    try:
        return engine.seal.box(ref.wrapped_key, ref_owner(ref.key)).open(ref.data, ref_context(ref)) is not None
    except MISTYPED:
        return False


def prune(engine: Engine, tx: Tx, head: int) -> None:
    """Deletes unneeded nodes upward from `head`, after a ref has left it."""
    _prune(engine, tx, head, Removed())


def _prune(engine: Engine, tx: Tx, head: int, gone: Removed) -> None:
    """Walks up from `head` and deletes unneeded nodes."""
    heads = [head]
    while heads:
        pos = heads.pop()
        run = tx.run(pos >> SEQ_BITS)
        if run is None or (last := tx.last_seq(run.run)) != pos & MAX_SEQ:
            continue  # already deleted, or it has a child
        low, high = run.run << SEQ_BITS, run.run << SEQ_BITS | last
        needed = [
            run.tip,
            *(one.head & MAX_SEQ for one in tx.refs_in_tree(run.tree, low, high) if one.head is not None),
        ]
        for grown in tx.runs_from(low, high):
            needed += [at & MAX_SEQ for at in (grown.parent, grown.derived) if at is not None and low <= at <= high]
        keep = max(needed)
        if keep < last:
            _cut(engine, tx, RunCut(run, keep + 1), gone)
            if keep < 0:
                heads += [at for at in (run.parent, run.derived) if at is not None]


def plan_nodes(engine: Engine, tx: Tx, targets: Iterable[bytes], *, recursive: bool) -> list[RunCut]:
    """The parts of runs to delete for these node ids; skips unknown ids.

    Conflict if a node is held, or without `recursive` has children outside `targets`.
    """
    wanted = {
        place.row[POS]
        for place in map(tx.node, set(targets))
        if place is not None and tx.tree_workspace(place.tree) == engine.workspace
    }
    cuts = _cuts(tx, wanted, recursive=recursive)
    for ref in _reaching(tx, cuts):
        for one in (ref, *owners(tx, ref)):
            _refuse_held(engine, tx, one)
    for cut in cuts:
        _refuse_missing_end(engine, tx, cut.run)
    return cuts


def delete_nodes(engine: Engine, refs: Refs, tx: Tx, cuts: list[RunCut]) -> Removed:
    """Deletes the planned parts, all or none.

    The heads of sessions and branches, and the origins of compactions, move up to the nearest node that stays, so that
    the rest is still deleted with the session. Any other ref inside is a Conflict.
    """
    trees = {cut.run.tree for cut in cuts}
    blobs = _count_blobs(tx, trees)
    gone = Removed()
    for cut in cuts:
        low, high = cut.run.run << SEQ_BITS | cut.first, cut.run.run << SEQ_BITS | MAX_SEQ
        for ref in tx.refs_in_tree(cut.run.tree, low, high):
            _move_head_up(engine, refs, tx, ref, cuts)
        for grown in tx.runs_from(low, high):
            if grown.derived is not None and low <= grown.derived <= high:
                tx.set_run(engine.change_run(tx, grown, derived=_above(grown.derived, cuts)))
    for cut in reversed(cuts):  # children come after their parents, and must be deleted first
        _cut(engine, tx, cut, gone)
    for cut in cuts:  # a deleted session may have left nodes that only these needed
        above = _above(cut.run.run << SEQ_BITS | cut.first, cuts)
        if above is not None:
            _prune(engine, tx, above, gone)
    for tree in trees:
        tx.delete_tree_if_empty(tree)
    gone.blobs = blobs - _count_blobs(tx, trees)
    return gone


def family(tx: Tx, ref: RefRow) -> list[RefRow]:
    """A session and all subagents below it, in the trash or not: their activity is its own, and they go with it."""
    found = [ref]
    for one in found:
        # An owned ref is younger than its owner; this check stops loops caused by a damaged row.
        owned = [below for below in tx.refs_owned(one.ref) if creation_counter(below.ref) > creation_counter(one.ref)]
        found += [below for below in owned if below.kind in SESSION_KINDS]
    return found


def session_ids(tx: Tx, ref: RefRow) -> list[str]:
    """The ids of the `family` of a session."""
    return [ids.text(one.key) for one in family(tx, ref) if one.kind in SESSION_KINDS]


def refuse_changed(tx: Tx, row: RefRow, seen: dict[int, int]) -> None:
    """Raises Conflict unless the `family` of a session is as a check has `seen` it: the version of each, by number."""
    if any(seen.get(one.ref) != one.version for one in family(tx, row)):
        raise Conflict(f"{row.kind} {ids.text(row.key)} was changed meanwhile")


def sessions_at(tx: Tx, cuts: list[RunCut]) -> list[RefRow]:
    """The sessions that have nodes of these cuts on their path, in a branch, or behind a compaction."""
    found = (one for ref in _reaching(tx, cuts) for one in (ref, *owners(tx, ref)) if one.kind in SESSION_KINDS)
    return list({one.ref: one for one in found}.values())


def _cuts(tx: Tx, wanted: set[int], *, recursive: bool) -> list[RunCut]:
    """The parts of runs to delete with the nodes at `wanted`: each run once, parents before children."""
    first: dict[int, int] = {}
    queue = sorted(wanted)
    for pos in queue:
        run, seq = pos >> SEQ_BITS, pos & MAX_SEQ
        if first.get(run, MAX_SEQ + 1) <= seq:
            continue
        last = tx.last_seq(run)
        grown = [
            one for one in tx.runs_from(pos, run << SEQ_BITS | MAX_SEQ) if one.parent is not None and one.parent >= pos
        ]
        if not recursive:
            below = [run << SEQ_BITS | at for at in range(seq + 1, last + 1)] + [one.run << SEQ_BITS for one in grown]
            if not wanted.issuperset(below):
                raise Conflict("a message with replies cannot be deleted alone", hint="Delete recursively.")
        first[run] = min(seq, first.get(run, seq))
        queue.extend(one.run << SEQ_BITS for one in grown if one.parent is not None and one.parent >> SEQ_BITS == run)
    found = []
    for run, seq in first.items():
        row = tx.run(run)
        assert row is not None
        found.append(RunCut(row, seq))
    return sorted(found, key=lambda cut: cut.run.depth)


def _reaching(tx: Tx, cuts: list[RunCut]) -> Iterator[RefRow]:
    """Every ref that has nodes of these cuts on its path, or behind a compaction."""
    spans = [(cut.run, cut.run.run << SEQ_BITS | cut.first) for cut in cuts]
    seen = {run.run for run, _ in spans}
    for run, low in spans:
        yield from tx.refs_in_tree(run.tree, low, low | MAX_SEQ)
        for grown in tx.runs_from(low, low | MAX_SEQ):
            if grown.run not in seen:
                seen.add(grown.run)
                spans.append((grown, grown.run << SEQ_BITS))


def _move_head_up(engine: Engine, refs: Refs, tx: Tx, ref: RefRow, cuts: list[RunCut]) -> None:
    """Moves the head of a ref out of the cuts."""
    if ref.kind not in FOLLOWS:
        raise Conflict(f"{ref.kind} {ids.text(ref.key)} needs these messages", hint="Delete it first.")
    assert ref.head is not None
    pos = _above(ref.head, cuts)
    if pos is None and ref.kind == BRANCH:
        tx.delete_ref(ref.ref)
        return
    place = None if pos is None else tx.node_at(pos)
    state = refs.head_state(tx, ref, trashed=True)
    refs.move(tx, ref, state, pos, place.row[ID] if place else None)


def _above(pos: int, cuts: list[RunCut]) -> int | None:
    """The nearest position above `pos` that stays; None if there is none.

    The root of a compaction continues at the messages that it replaced.
    """
    first = {cut.run.run: cut for cut in cuts}
    at: int | None = pos
    while at is not None and (cut := first.get(at >> SEQ_BITS)) is not None and at & MAX_SEQ >= cut.first:
        if cut.first:
            at = at - (at & MAX_SEQ) + cut.first - 1
        else:
            at = cut.run.derived if cut.run.parent is None else cut.run.parent
    return at


def _cut(engine: Engine, tx: Tx, cut: RunCut, gone: Removed) -> None:
    """Deletes the end of a run and closes the rest, so that its positions are never reused."""
    run, low = tx.run(cut.run.run) or cut.run, cut.run.run << SEQ_BITS  # its origin may have moved up
    sound = cut.first > 0 and engine.is_signed(tx, run)
    gone.bytes += tx.body_bytes(low | cut.first, low | MAX_SEQ)
    for first in range(low | cut.first, (low | tx.last_seq(run.run)) + 1, BATCH):
        gone.ids += [row[ID] for row in tx.nodes_between(first, first + BATCH - 1)]
    tx.blobs.delete_uses(low | cut.first, low | MAX_SEQ)
    gone.messages += tx.delete_nodes(low | cut.first, low | MAX_SEQ)
    if cut.first == 0:
        tx.delete_run(run.run)
    else:
        wrapped = new_run_key(engine, tx, run, cut.first, gone) if gone.shred else run.wrapped_key
        left = run._replace(closed=1, tip=min(run.tip, cut.first - 1), wrapped_key=wrapped)
        tx.set_run(engine.sign_run(tx, left) if sound else left)


def new_run_key(engine: Engine, tx: Tx, run: RunRow, count: int, gone: Removed) -> bytes | None:
    """Encrypts the first nodes of a run under a new data key, which destroys the key of the deleted ones.

    If one of them does not open, keeps the old key: it is needed once the damage is repaired.
    """
    box, wrapped = engine.seal.new_box(run_owner(run.tree, run.run))
    if run.wrapped_key is None or wrapped is None:
        return run.wrapped_key  # the store is plain or being unsealed
    try:
        for _ in _payloads(engine, tx, run, count):
            pass
    except (Corrupted, *MISTYPED):
        gone.old_keys += 1
        return run.wrapped_key
    for table, pos, payload, context in _payloads(engine, tx, run, count):
        tx.maintenance.set_bodies(table, [(box.close(payload, context), pos)])
    return wrapped


def _payloads(engine: Engine, tx: Tx, run: RunRow, count: int) -> Iterator[tuple[str, int, bytes, bytes]]:
    """Payloads of a run's first nodes and of its quarantine: table, position, payload, context. Corrupted."""
    at, last = (run.run << SEQ_BITS) - 1, (run.run << SEQ_BITS) + count - 1
    old = engine.run_info(run).box
    for row in tx.maintenance.quarantined_after(at, count):
        if row.pos <= last:
            kept = old.open(row.body, quarantine_context(row))
            if kept is None:
                raise Corrupted("the quarantine")
            yield "quarantine", row.pos, kept, quarantine_context(row)
    while at < last:
        # Damage may have removed some.
        places = [place for place in tx.maintenance.places_after(at, BATCH) if place.row[POS] <= last]
        for place in places:
            if place.row[BODY] != b"":
                node = engine.node(place)
                yield "nodes", place.row[POS], node_payload(node), body_context(node)
        at = places[-1].row[POS] if places else last


PURGED = "purged"
"""Kind of the ref that has the hashes of a workspace."""


def remember_purged(engine: Engine, refs: Refs, tx: Tx, names: Iterable[bytes]) -> None:
    """Notes ids of sessions and messages, in the transaction that removes them."""
    hashes = list(dict.fromkeys(_purged_hash(engine, name) for name in names))
    before = tx.existing_log_ids(hashes)
    new = [one for one in hashes if one not in before]
    if new:
        row, now = refs.add_own(tx, PURGED), engine.clock()
        add_entries(engine, tx, row, [(one, now, b"") for one in new])


def recall_purged(engine: Engine, tx: Tx, names: Collection[bytes]) -> set[bytes]:
    """Those of these ids that were purged."""
    if tx.ref(engine.workspace, PURGED, OWN) is None:
        return set()
    hashes = {_purged_hash(engine, name): name for name in names}
    return {hashes[one] for one in tx.existing_log_ids(list(hashes))}


def _purged_hash(engine: Engine, name: bytes) -> bytes:
    return engine.lookup_hash(PURGED, engine.workspace.encode() + b"\0" + name)
