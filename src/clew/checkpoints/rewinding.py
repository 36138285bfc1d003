"""Going back: plans a rewind, keeps what is there, notes what is about to be done, does it, and forgets the note."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import msgspec

from clew import ids
from clew.backends import Ground, RefRow, Tx, born
from clew.checkpoints import lines, plan
from clew.checkpoints.apply import apply, clear
from clew.checkpoints.capturing import Capturing, Keeper, changed, state_at
from clew.checkpoints.plan import Plan
from clew.checkpoints.root import Blocked, Root
from clew.checkpoints.shelf import Journal, Kept, Shelf, Step, above
from clew.checkpoints.states import MISSING, UNSEEN, Entry, Heads, Manifest, State, packed, unpacked
from clew.checkpoints.values import FileDiff, Rewound
from clew.checkpoints.wire import shown
from clew.errors import ClewError, Conflict, NotFound, Tampered
from clew.refs import BRANCH

NO_CHECKPOINT = "checkpoint not found"
NAMED = 5
"""Paths that an error names; the result has them all."""


class Rewinding:
    """Plans and carries out rewinds. Whoever calls holds the lock of the root."""

    def __init__(self, root: Root, shelf: Shelf, capturing: Capturing) -> None:
        self._root = root
        self._shelf = shelf
        self._capturing = capturing

    # -- what is asked for

    def rewind(self, message: str, *, files: bool, talk: bool, dry_run: bool, force: bool) -> Rewound:
        """A rewind to a message."""
        said = self._said(message) if talk else None
        if talk and said is None:
            return Rewound(False, "the message is not in the conversation", message=message, dry_run=dry_run)
        manifests = self._since(message) if files else []
        if manifests is None:
            return Rewound(False, NO_CHECKPOINT, message=message, dry_run=dry_run)
        lost = self._shelf.read(lambda tx: self._shelf.lost(tx, message)) if files and not force else None
        if lost is not None:
            error = f"checkpoints are missing: they were those of session {lost}, which is deleted or in the trash"
            return Rewound(False, error, message=message, dry_run=dry_run)
        heads = Heads(self._shelf.session.refresh().head_id, said) if talk else None
        return self._go(message, manifests, heads, tree=files, dry_run=dry_run, force=force)

    def undo(self, *, steps: int, dry_run: bool, force: bool) -> Rewound:
        """The last rewinds, taken back: so many of those that were not taken back yet."""
        points = _to_undo([kept.manifest for kept in self._shelf.read(self._shelf.all)])
        if len(points) < steps:
            error = f"there is no rewind to undo: {len(points)} left" if points else "there is no rewind to undo"
            return Rewound(False, error, dry_run=dry_run)
        taken = points[-steps:]
        before = next((one.heads.before for one in taken if one.heads is not None), None)
        moved = any(one.heads is not None for one in taken)
        heads = Heads(self._shelf.session.refresh().head_id, before) if moved else None
        # What a tree has shown since is in there too, and is not the rewind's.
        manifests = [msgspec.structs.replace(one, files=_done(one), to=None) for one in taken]
        return self._go(taken[0].message, manifests, heads, tree=False, dry_run=dry_run, force=force)

    def diff(self, message: str) -> list[FileDiff]:
        """What a rewind of files would change."""
        manifests = self._since(message)
        if manifests is None:
            raise NotFound("checkpoint", message)
        return [self._diff(step) for step in self._plan(manifests, tree=True).steps if not _folder(step)]

    def pending(self) -> Journal | None:
        """The rewind that was cut short."""
        found = self._shelf.read(self._shelf.journal)
        return None if found is None else found[1]

    def finish(self) -> Rewound | None:
        """Carries on with a rewind that was cut short."""
        journal = self.pending()
        return None if journal is None else self._apply(journal)

    def give_up(self) -> None:
        """Leaves files as a rewind that was cut short has left them, and notes how that is."""
        journal = self.pending()
        if journal is not None:
            clear(self._root, journal)
            self._ended(journal)

    # -- planning

    def _since(self, message: str) -> list[Manifest] | None:
        """The manifests from a message's own on, oldest first; None if there are none.

        A message without a checkpoint changed nothing itself: the first one after it tells how it was.
        """
        kept = self._shelf.read(self._shelf.all)
        first = next((one for one in kept if message in (one.manifest.message, *one.manifest.also)), None)
        if first is None:
            first = self._shelf.read(lambda tx: self._below(tx, kept, message))
        return None if first is None else [one.manifest for one in kept if born(one.row.ref) >= born(first.row.ref)]

    def _below(self, tx: Tx, kept: Sequence[Kept], message: str) -> Kept | None:
        return next((one for one in kept if one.manifest.to is None and above(tx, message, one.manifest.message)), None)

    def _plan(self, manifests: Sequence[Manifest], *, tree: bool) -> Plan:
        """The plan for what the first of the manifests says; with `tree`, also for what the tree shows and none has."""
        closed: tuple[str, ...] = ()
        if tree and self._shelf.read(self._shelf.worktree) is not None:
            seat, seen = self._capturing.scan(keep=False)
            assert seat is not None
            fresh = changed(seat, seen)
            manifests = [one.having(fresh) if one.message == seat.data.message else one for one in manifests]
            closed = seen.now.unread
        chains = plan.wanted(manifests, undo=not tree)
        present = {path: state_at(self._root, path) for path in chains}
        present |= {path: MISSING for path in plan.alike(chains) if not self._root.has(path)}
        made = plan.make(chains, plan.Present(present, partial(state_at, self._root), self._names))
        return self._opening(made._replace(unseen=sorted({*made.unseen, *closed})))

    def _names(self, folder: str) -> list[str] | None:
        return self._root.listed(folder) if self._root.readable(folder) else None

    def _opening(self, made: Plan) -> Plan:
        """The plan with steps for folders that have to be opened, and get the mode back that they have."""
        steps, closed = {step.path: step for step in made.steps}, list[str]()
        for step in made.steps:
            path = unpacked(step.path)
            folder = path.rpartition("/")[0]
            if self._root.writable(path):
                continue
            if folder and self._root.is_mine(folder):
                now = state_at(self._root, folder)
                steps.setdefault(packed(folder), Step(packed(folder), now, now))
            else:
                closed.append(f"{shown(path)}: its folder cannot be written")
        every = sorted(steps.values(), key=lambda step: step.path)
        return made._replace(steps=every, blocked=made.blocked + closed)

    def _ready(self, manifests: Sequence[Manifest], *, tree: bool) -> tuple[Plan, lines.Count]:
        """The plan and how many lines change, once every content that it needs was read and checked. Tampered."""
        made = self._plan(manifests, tree=tree)
        added = removed = 0
        for step in made.steps:
            one = self._diff(step)
            count = lines.count(one.before or b"", one.after or b"")
            added, removed = added + count.insertions, removed + count.deletions
        return made, lines.Count(added, removed)

    def _diff(self, step: Step) -> FileDiff:
        path = unpacked(step.path)
        old = None
        if step.old.kind == "file":
            with suppress(Blocked):
                old = self._root.look(path).data
        elif step.old.kind == "link":
            old = _target(step.old)
        new = None
        if step.new.kind == "file":
            try:
                new = self._shelf.content(step.new)
            except (NotFound, Tampered) as error:
                raise Tampered(f"the checkpoint of {shown(path)}", f"{error.message}") from error
        elif step.new.kind == "link":
            new = _target(step.new)
        return FileDiff(path, step.old, step.new, old, new)

    # -- doing

    def _go(
        self,
        message: str,
        manifests: Sequence[Manifest],
        heads: Heads | None,
        *,
        tree: bool,
        dry_run: bool,
        force: bool,
    ) -> Rewound:
        try:
            made, counted = self._ready(manifests, tree=tree)
        except ClewError as failed:
            return Rewound(False, failed.message, message=message, dry_run=dry_run)
        result = Rewound(
            True,
            None,
            tuple(shown(unpacked(step.path)) for step in made.steps if not _folder(step)),
            *counted,
            removed=tuple(shown(unpacked(step.path)) for step in made.steps if _removes(step)),
            conflicts=tuple(map(shown, made.conflicts)),
            skipped=tuple(map(shown, made.skipped)),
            unseen=tuple(map(shown, made.unseen)),
            kept=tuple(map(shown, made.kept)),
            message=message,
            dry_run=dry_run,
        )
        error = _refused(made, force=force)
        if error is not None:
            return msgspec.structs.replace(result, can_rewind=False, error=error)
        if dry_run or not (made.steps or _moves(heads)):  # asked once more, it must not hide the rewind before it
            return result
        try:
            journal = self._begin(message, made, heads)
        except Conflict as changed_now:
            return msgspec.structs.replace(result, can_rewind=False, error=changed_now.message)
        done = self._apply(journal) if journal.steps else Rewound(True)
        kept = (*result.kept, *done.kept)
        return msgspec.structs.replace(result, left=done.left, kept=kept, error=done.error, undo=journal.undo)

    def _begin(self, message: str, made: Plan, heads: Heads | None) -> Journal:
        """Keeps what is there; then notes what will be done and moves the conversation, in one transaction.

        Conflict, and nothing is done, if something has changed since it was planned.
        """
        shelf = self._shelf
        watched = made.steps and shelf.read(shelf.worktree) is not None
        seen = self._capturing.scan(keep=True) if watched else None
        keep = Keeper(shelf)
        entries = [Entry(step.path, self._as_planned(step, keep), step.new) for step in made.steps]
        keep.flush()
        journal = Journal(shelf.root, shelf.new_id().hex(), ids.text(shelf.new_id()), tuple(made.steps))

        def work(tx: Tx) -> None:
            if seen is not None:
                self._capturing.record(tx, *seen, journal.undo, settled=False)
            manifest = Manifest(journal.undo, shelf.root, to=message, heads=heads)
            shelf.put(tx, manifest.having(entries), shelf.get(tx, journal.undo))
            if journal.steps:
                shelf.begin(tx, journal)
            if heads is not None:
                self._move(tx, heads.after)

        shelf.write(work)
        if heads is not None:
            shelf.session.refresh()
        return journal

    def _as_planned(self, step: Step, keep: Keeper) -> State:
        """What is to go, its content stored. Conflict if it is not what was planned for."""
        try:
            seen = self._root.look(unpacked(step.path))
        except Blocked:
            return step.old
        if not seen.state.same(step.old) and (step.old.kind != "missing" or self._root.has(unpacked(step.path))):
            raise Conflict(f"{shown(unpacked(step.path))} was changed meanwhile", hint="Ask again.")
        return msgspec.structs.replace(step.old, blob=keep(seen.data)) if step.old.kind == "file" else step.old

    def _apply(self, journal: Journal) -> Rewound:
        """Takes the steps. If that fails they are taken back; if that fails too, the note stays."""
        try:
            done = apply(self._root, journal, self._shelf.content)
        except ClewError:
            with suppress(ClewError):
                self._take_back(journal)
            raise
        self._shelf.write(self._shelf.done)
        left = tuple(map(shown, done.left))
        error = f"changed while the rewind ran, and left alone: {_some(left)}" if left else None
        return Rewound(True, error, left=left, kept=tuple(map(shown, done.kept)), undo=journal.undo)

    def _take_back(self, journal: Journal) -> None:
        kept = self._shelf.read(lambda tx: self._shelf.get(tx, journal.undo))
        if kept is None:
            raise NotFound("checkpoint", journal.undo)
        old = {entry.path: entry.state for entry in kept.manifest.files}
        steps = tuple(Step(step.path, step.new, old[step.path]) for step in journal.steps)
        apply(self._root, msgspec.structs.replace(journal, steps=steps), self._shelf.content)
        self._ended(journal)

    def _ended(self, journal: Journal) -> None:
        """Notes that a rewind is over, with how it has left its paths. If it has done nothing, nor did it in the
        conversation.
        """
        shelf = self._shelf
        after = {step.path: state_at(self._root, unpacked(step.path)) for step in journal.steps}

        def work(tx: Tx) -> None:
            kept = shelf.get(tx, journal.undo)
            if kept is not None:
                same = {one.path: UNSEEN for one in kept.manifest.files if one.state.same(after.get(one.path, UNSEEN))}
                manifest = kept.manifest.left(after | same)  # of what it has not changed it says nothing
                heads = manifest.heads
                if heads is not None and not _done(manifest) and shelf.head(tx) == heads.after:
                    self._move(tx, heads.before)
                    manifest = msgspec.structs.replace(manifest, heads=None)
                shelf.put(tx, manifest, kept)
            shelf.done(tx)

        shelf.write(work)
        shelf.session.refresh()

    # -- the conversation

    def _said(self, message: str) -> str | None:
        """The message as the conversation has it, maybe by another id of its checkpoint; None if it has not."""
        head = self._shelf.session.refresh().head_id
        kept = [one.manifest for one in self._shelf.read(self._shelf.all)]
        also = [name for one in kept if message in (one.message, *one.also) for name in (one.message, *one.also)]

        def work(tx: Tx) -> str | None:
            return next((name for name in (message, *also) if head is not None and above(tx, name, head)), None)

        return self._shelf.read(work)

    def _move(self, tx: Tx, to: str | None) -> None:
        """Puts the head elsewhere in its tree. What it leaves stays as a branch; a branch it comes back to is none."""
        session = self._shelf.session
        refs, row = session._refs, session._row
        tip = refs.tip(tx, row)
        ground = None if to is None else tx.ground(ids.parse(to))
        if to is not None and (ground is None or ground.tree != row.tree):
            raise NotFound("node", to, hint="It was deleted.")
        head_id = None if ground is None else ground.id
        if tip.id == head_id:
            return
        if tip.id is not None and not (to is not None and above(tx, ids.text(tip.id), to)):
            refs.branch(tx, row.ref, tip.ground)
        for one in self._branches(tx, row, ground):
            tx.delete_ref(one.ref)
        refs.move(tx, row.ref, tip, None if ground is None else ground.pos, head_id)

    def _branches(self, tx: Tx, row: RefRow, ground: Ground | None) -> list[RefRow]:
        if ground is None:
            return []
        return [one for one in tx.refs_owned(row.ref) if one.kind == BRANCH and one.head_id == ground.id]


def _refused(made: Plan, *, force: bool) -> str | None:
    """Why a plan must not be carried out."""
    if made.blocked:
        return f"in the way: {_some(made.blocked)}"
    if made.conflicts and not force:
        return f"changed by someone else since: {_some([shown(path) for path in made.conflicts])}"
    if made.skipped and not force:
        some = _some([shown(path) for path in made.skipped])
        return f"too large to be kept, or no file, and so to be left as they are: {some}"
    return None


def _done(manifest: Manifest) -> tuple[Entry, ...]:
    """What a rewind has changed."""
    return tuple(one for one in manifest.files if one.after is not None and not one.after.same(one.state))


def _to_undo(manifests: Sequence[Manifest]) -> list[Manifest]:
    """The rewinds that can be taken back, oldest first.

    One that goes to where an earlier one began, as an undo does, takes that one back and all that came after it.
    """
    found: list[Manifest] = []
    for one in manifests:
        if one.to is None or not (_done(one) or _moves(one.heads)):
            continue
        undone = next((number for number, earlier in enumerate(found) if earlier.message == one.to), None)
        if undone is None:
            found.append(one)
        else:
            del found[undone:]
    return found


def _removes(step: Step) -> bool:
    return step.new.kind == "missing" and step.old.kind != "dir"


def _moves(heads: Heads | None) -> bool:
    return heads is not None and heads.before != heads.after


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _folder(step: Step) -> bool:
    return step.old.kind in ("dir", "missing") and step.new.kind in ("dir", "missing")


def _target(state: State) -> bytes:
    return unpacked(state.target).encode("utf-8", "surrogateescape")
