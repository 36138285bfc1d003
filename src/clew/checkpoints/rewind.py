"""Runs rewinds: plans, stores the current state, records the steps, applies them, and deletes the record."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import msgspec

from clew.base import files, ids
from clew.checkpoints import diff as lines
from clew.checkpoints import plan
from clew.checkpoints.capture import Capturing, ContentWriter, changed, state_at
from clew.checkpoints.filestate import (
    ANY,
    MISSING,
    UNSEEN,
    FileState,
    HeadChange,
    Manifest,
    PathEntry,
    Stamp,
    pack_path,
    unpack_path,
)
from clew.checkpoints.gitignore import NAME
from clew.checkpoints.plan import RewindPlan, refusal, refuse_imported, some_of
from clew.checkpoints.repository import CheckpointRepo, Journal, RewindStep, StoredCheckpoint
from clew.checkpoints.results import FileDiff, Rewound
from clew.checkpoints.root import PathBlocked, RootFolder, part_name
from clew.checkpoints.serial import display_path
from clew.checkpoints.tree_index import TreeIndex
from clew.checkpoints.tree_scan import not_ignored_by
from clew.errors import ClewError, Conflict, Corrupted, NotFound, Unavailable
from clew.store.unit import Unit

OPEN = 0o700
"""The permissions that an owner needs to change names in a folder."""
Content = Callable[[FileState], bytes]
KEPT = 32 << 20
"""Most bytes that `ContentTwice` caches."""


class ContentTwice:
    """Caches each content between its two reads, for the plan of a rewind and for its step, up to a limit."""

    def __init__(self, read: Content) -> None:
        self._read = read
        self._kept: dict[str, bytes] = {}
        self._size = 0

    def __call__(self, state: FileState) -> bytes:
        data = self._kept.pop(state.digest, None)
        if data is not None:
            self._size -= len(data)
            return data
        data = self._read(state)
        if self._size + len(data) <= KEPT:
            self._kept[state.digest] = data
            self._size += len(data)
        return data


class ApplyResult(NamedTuple):
    """Paths that were not touched because they had changed, and folders that stayed because they are not empty."""

    left: list[str]
    kept: list[str]


def apply(root: RootFolder, journal: Journal, content: Content) -> ApplyResult:
    """Applies the steps. Skips paths that are already correct and paths that have changed since the plan.

    It may be interrupted anywhere and repeated. All changes are synced to disk when it returns.
    """
    run = _Run(root, journal, content)
    try:
        return run.all()
    except OSError as error:
        raise files.unwritten(error, run.at) from error
    except PathBlocked as blocked:
        raise Unavailable(f"{blocked.at} is no longer a folder", hint="Restore the folder and rewind again.") from None


def clear(root: RootFolder, journal: Journal) -> None:
    """Removes temporary files of a rewind and restores the modes of folders it opened, as far as possible."""
    todo = [(unpack_path(step.path), step) for step in journal.steps]
    for path, _ in todo:
        with suppress(OSError):
            root.clear(path, _part(journal, path))
    for path, step in reversed(todo):
        if _is_closed(step):
            with suppress(OSError, PathBlocked):
                root.set_mode(path, step.old.mode)


def _is_closed(step: RewindStep) -> bool:
    """True if a step needs a folder in which even the owner may not change names."""
    return step.old.kind == "dir" and step.old.mode & OPEN != OPEN


def _part(journal: Journal, path: str) -> str:
    name = f"{journal.key}/{path}".encode("utf-8", "surrogateescape")
    return part_name(hashlib.blake2b(name, digest_size=12).hexdigest())


class _Run:
    def __init__(self, root: RootFolder, journal: Journal, content: Content) -> None:
        self.at = root.path
        self._root = root
        self._journal = journal
        self._content = content
        self._steps = journal.steps
        self._left: list[str] = []
        self._kept: list[str] = []

    def all(self) -> ApplyResult:
        """Applies the steps in an order that always works.

        Open folders, delete files, delete folders from the inside out, create folders from the outside in, create
        files, set modes.
        """
        todo = [(unpack_path(step.path), step) for step in self._steps]
        for path, step in todo:  # a folder sorts before its content
            if _is_closed(step):
                self._open(path, step)
        for path, _ in todo:
            self._root.clear(path, _part(self._journal, path))
        for path, step in todo:
            if step.old.kind in ("file", "link") and step.new.kind in ("missing", "dir"):
                self._remove(path, step)
        deep = sorted(todo, key=lambda one: -one[0].count("/"))
        for path, step in deep:
            if step.old.kind == "dir" and step.new.kind != "dir":
                self._remove_folder(path)
        for path, step in reversed(deep):
            if step.new.kind == "dir" and step.old.kind != "dir" and path not in self._left:
                self.at = path
                self._root.make_folder(path)
        for some in files.batches([(path, step) for path, step in todo if step.new.kind in ("file", "link")]):
            self._put(some)
        self._root.sync({path for path, _ in todo})  # some of these folders may be read-only by then
        for path, step in deep:
            if step.new.kind == "dir" and step.new.mode != ANY and path not in self._left:
                self.at = path
                self._root.set_mode(path, step.new.mode)
        return ApplyResult(self._left, self._kept)

    def _open(self, path: str, step: RewindStep) -> None:
        """Allows the owner to change names in a folder, if this process runs as the owner."""
        with suppress(FileNotFoundError, PathBlocked, PermissionError):
            self._root.set_mode(path, step.old.mode | OPEN)

    def _remove(self, path: str, step: RewindStep) -> None:
        stamp = self._check_unchanged(path, step)
        if stamp is not None and not self._root.remove(path, stamp):
            self._left.append(path)

    def _remove_folder(self, path: str) -> None:
        self.at = path
        now = self._now(path)[0]
        if now.kind == "dir" and not self._root.remove_folder(path):
            self._kept.append(path)

    def _put(self, todo: Sequence[tuple[str, RewindStep]]) -> None:
        """Replaces files and links: writes all of them beside the old ones, syncs them together, then renames them."""
        staged: list[tuple[str, str, Stamp | None]] = []
        opened: list[int] = []
        try:
            for path, step in todo:
                now, stamp = self._now(path)
                if self._is_due(path, step, now):
                    data = self._content(step.new) if step.new.kind == "file" else b""
                    part = _part(self._journal, path)
                    fd = self._root.stage(path, step.new, data, part)
                    staged.append((path, part, stamp))
                    if fd is not None:
                        opened.append(fd)
            files.sync_all(opened)
        finally:
            for fd in opened:
                os.close(fd)
        for path, part, stamp in staged:
            self.at = path
            if not self._root.swap(path, part, stamp):
                self._left.append(path)

    def _is_due(self, path: str, step: RewindStep, now: FileState) -> bool:
        """True if a path must be replaced: it is as planned, and not yet in its new state."""
        if now.same(step.new):
            return False
        gone = now.kind == "missing" and step.old.kind == "dir"
        if not gone and not now.same(step.old):
            self._left.append(path)
            return False
        return True

    def _check_unchanged(self, path: str, step: RewindStep) -> Stamp | None:
        """The stamp of the path to remove if it is unchanged; None if there is nothing to do."""
        now, stamp = self._now(path)
        if now.kind == "missing" or now.same(step.new):
            return None
        if not now.same(step.old):
            self._left.append(path)
            return None
        return stamp

    def _now(self, path: str) -> tuple[FileState, Stamp | None]:
        self.at = path
        try:
            seen = self._root.observe(path)
        except PathBlocked:
            return MISSING, None
        return seen.state, seen.stamp


NO_CHECKPOINT = "checkpoint not found"


class Rewinding:
    """Plans and runs rewinds. The caller holds the lock of the root."""

    def __init__(self, root: RootFolder, repo: CheckpointRepo, capturing: Capturing, home: str | None) -> None:
        self._root, self._home = root, home
        self._repo = repo
        self._capturing = capturing

    # -- what is asked for

    def rewind(self, message: str, *, files: bool, conversation: bool, dry_run: bool, force: bool) -> Rewound:
        """Rewinds to a message."""
        target = self._find_message(message) if conversation else None
        if conversation and target is None:
            return Rewound(False, "the message is not in the conversation", message=message, dry_run=dry_run)
        manifests = self._since(message) if files else []
        if manifests is None:
            return Rewound(False, NO_CHECKPOINT, message=message, dry_run=dry_run)
        lost = self._repo.read(lambda unit: self._repo.missing_source(unit, message)) if files and not force else None
        if lost is not None:
            error = f"checkpoints are missing: session {lost} had them and is deleted or in the trash"
            return Rewound(False, error, message=message, dry_run=dry_run)
        heads = HeadChange(self._repo.session.refresh().head_id, target) if conversation else None
        return self._go(message, manifests, heads, tree=files, dry_run=dry_run, force=force)

    def undo(self, *, steps: int, dry_run: bool, force: bool) -> Rewound:
        """Undoes the last rewinds that were not undone yet."""
        points = plan.to_undo([stored.manifest for stored in self._repo.read(self._repo.all)])
        if len(points) < steps:
            error = f"there is no rewind to undo: {len(points)} left" if points else "there is no rewind to undo"
            return Rewound(False, error, dry_run=dry_run)
        taken = points[-steps:]
        before = next((one.heads.before for one in taken if one.heads is not None), None)
        moved = any(one.heads is not None for one in taken)
        heads = HeadChange(self._repo.session.refresh().head_id, before) if moved else None
        # This includes later changes, which are not part of the rewind.
        manifests = [msgspec.structs.replace(one, files=plan.changed_entries(one), to=None) for one in taken]
        return self._go(taken[0].message, manifests, heads, tree=False, dry_run=dry_run, force=force)

    def diff(self, message: str) -> list[FileDiff]:
        """The changes that a rewind of files would make."""
        manifests = self._since(message)
        if manifests is None:
            raise NotFound("checkpoint", message)
        content, made = self._repo.content, self._plan(manifests, tree=True)
        return [self._diff(step, content) for step in made.steps if not _folder(step)]

    def pending(self) -> Journal | None:
        """The interrupted rewind."""
        return self._repo.read(self._repo.journal)

    def finish(self) -> Rewound | None:
        """Continues an interrupted rewind."""
        journal = self.pending()
        return None if journal is None else self._apply(journal, self._repo.content)

    def give_up(self) -> None:
        """Leaves files as an interrupted rewind left them, and records that state."""
        journal = self.pending()
        if journal is not None:
            clear(self._root, journal)
            self._finish(journal)

    # -- planning

    def _since(self, message: str) -> list[Manifest] | None:
        """The manifests from a message's own on, oldest first; None if there are none.

        If the message has no checkpoint, it changed nothing, and the next checkpoint has its state.
        """
        stored = self._repo.read(self._repo.all)
        first = next((one for one in stored if message in (one.manifest.message, *one.manifest.also)), None)
        if first is None:
            first = self._repo.read(lambda unit: self._below(unit, stored, message))
        return None if first is None else [one.manifest for one in stored if one.document.order >= first.document.order]

    def _below(self, unit: Unit, stored: Sequence[StoredCheckpoint], message: str) -> StoredCheckpoint | None:
        return next(
            (one for one in stored if one.manifest.to is None and unit.is_above(message, one.manifest.message)), None
        )

    def _plan(self, manifests: Sequence[Manifest], *, tree: bool) -> RewindPlan:
        """The plan that restores the first manifest; with `tree`, includes paths that only the scan of the tree has."""
        index = TreeIndex()
        if tree and self._repo.read(self._repo.worktree) is not None:
            seat, seen = self._capturing.scan(keep=False)
            assert seat is not None
            fresh = changed(seat, seen)
            manifests = [one.with_walks(fresh) if one.message == seat.data.message else one for one in manifests]
            index = seen.now
        chains = plan.build_chains(manifests, undo=not tree)
        present = {path: state_at(self._root, path) for path in chains}
        present |= {path: MISSING for path in plan.alike(chains) if not self._root.has(path)}
        there = plan.Present(present, partial(state_at, self._root), self._names)
        made = plan.make(chains, there, undo=not tree)
        hidden = {path for path in self._hidden_since(made, index) if path not in chains}
        return self._open_folders(made._replace(unseen=sorted({*made.unseen, *index.unread, *hidden})))

    def _hidden_since(self, made: RewindPlan, index: TreeIndex) -> list[str]:
        """The ignored paths that `.gitignore` files did not ignore at the checkpoint: they did not exist then."""
        files = {path: step.new for step in made.steps if os.path.basename(path := unpack_path(step.path)) == NAME}
        restored = {path: self._repo.content(new) if new.kind == "file" else None for path, new in files.items()}
        return not_ignored_by(self._root, index, restored) if restored else []

    def _names(self, folder: str) -> list[str] | None:
        return self._root.names_in(folder) if self._root.readable(folder) else None

    def _open_folders(self, made: RewindPlan) -> RewindPlan:
        """The plan with steps that open read-only folders and restore their modes."""
        steps, closed = {step.path: step for step in made.steps}, list[str]()
        for step in made.steps:
            path = unpack_path(step.path)
            folder = path.rpartition("/")[0]
            if self._root.writable(path):
                continue
            if folder and self._root.is_mine(folder):
                now = state_at(self._root, folder)
                steps.setdefault(pack_path(folder), RewindStep(pack_path(folder), now, now))
            else:
                closed.append(f"{display_path(path)}: its folder is not writable")
        every = sorted(steps.values(), key=lambda step: step.path)
        return made._replace(steps=every, blocked=made.blocked + closed)

    def _ready(
        self, manifests: Sequence[Manifest], content: Content, *, tree: bool
    ) -> tuple[RewindPlan, lines.LineCount]:
        """The plan and its line counts, after reading and checking every content it needs. Raises Corrupted."""
        made = self._plan(manifests, tree=tree)
        added = removed = 0
        for step in made.steps:
            one = self._diff(step, content)
            count = lines.count(one.before or b"", one.after or b"")
            added, removed = added + count.insertions, removed + count.deletions
        return made, lines.LineCount(added, removed)

    def _diff(self, step: RewindStep, content: Content) -> FileDiff:
        path = unpack_path(step.path)
        old = None
        if step.old.kind == "file":
            with suppress(PathBlocked):
                old = self._root.observe(path).data
        elif step.old.kind == "link":
            old = _target(step.old)
        new = None
        if step.new.kind == "file":
            try:
                new = content(step.new)
            except (NotFound, Corrupted) as error:
                raise Corrupted(f"the checkpoint of {display_path(path)}", f"{error.message}") from error
        elif step.new.kind == "link":
            new = _target(step.new)
        return FileDiff(path, step.old, step.new, old, new)

    # -- doing

    def _go(
        self,
        message: str,
        manifests: Sequence[Manifest],
        heads: HeadChange | None,
        *,
        tree: bool,
        dry_run: bool,
        force: bool,
    ) -> Rewound:
        content = ContentTwice(self._repo.content)
        try:
            made, counted = self._ready(manifests, content, tree=tree)
        except ClewError as failed:
            return Rewound(False, failed.message, message=message, dry_run=dry_run)
        imported = any(one.imported for one in manifests)
        if imported:
            made = made._replace(conflicts=sorted({*made.conflicts, *plan.overwritten(made)}))
        result = Rewound(
            True,
            None,
            tuple(display_path(unpack_path(step.path)) for step in made.steps if not _folder(step)),
            *counted,
            removed=tuple(display_path(unpack_path(step.path)) for step in made.steps if _removes(step)),
            conflicts=tuple(map(display_path, made.conflicts)),
            skipped=tuple(map(display_path, made.skipped)),
            unseen=tuple(map(display_path, made.unseen)),
            kept=tuple(map(display_path, made.kept)),
            message=message,
            dry_run=dry_run,
            imported=imported,
        )
        error = refuse_imported(self._root.path, self._home, result.conflicts, force=force) if result.imported else None
        error = error or refusal(made, force=force)
        if error is not None:
            return msgspec.structs.replace(result, can_rewind=False, error=error)
        if dry_run or not (made.steps or plan.moves(heads)):  # a repeated rewind must not hide the one before it
            return result
        try:
            journal = self._begin(message, made, heads)
        except Conflict as changed_now:
            return msgspec.structs.replace(result, can_rewind=False, error=changed_now.message)
        done = self._apply(journal, content) if journal.steps else Rewound(True)
        kept = (*result.kept, *done.kept)
        return msgspec.structs.replace(result, left=done.left, kept=kept, error=done.error, undo=journal.undo)

    def _begin(self, message: str, made: RewindPlan, heads: HeadChange | None) -> Journal:
        """Stores the current state; then records the steps and moves the conversation, in one transaction.

        Raises Conflict and does nothing if something has changed since the plan was made.
        """
        repo = self._repo
        watched = made.steps and repo.read(repo.worktree) is not None
        seen = self._capturing.scan(keep=True) if watched else None
        keep = ContentWriter(repo)
        entries = [PathEntry(step.path, self._as_planned(step, keep), step.new) for step in made.steps]
        keep.flush()
        journal = Journal(repo.root, ids.parse(repo.store.new_id()).hex(), repo.store.new_id(), tuple(made.steps))

        coming = [unpack_path(step.path) for step in made.steps if step.old.kind == "missing"]

        def work(unit: Unit) -> None:
            if seen is not None:
                self._capturing.record(unit, *seen, journal.undo, settled=False, coming=coming)
            manifest = Manifest(journal.undo, repo.root, to=message, heads=heads)
            repo.put(unit, manifest.with_entries(entries), repo.get(unit, journal.undo))
            if journal.steps:
                repo.begin(unit, journal)
            if heads is not None:
                unit.move(repo.session, heads.after)

        repo.write(work)
        if heads is not None:
            repo.session.refresh()
        return journal

    def _as_planned(self, step: RewindStep, keep: ContentWriter) -> FileState:
        """A path to be removed, with its content stored. Raises Conflict if it differs from the plan."""
        try:
            seen = self._root.observe(unpack_path(step.path))
        except PathBlocked:
            return step.old
        if not seen.state.same(step.old) and (step.old.kind != "missing" or self._root.has(unpack_path(step.path))):
            raise Conflict(
                f"{display_path(unpack_path(step.path))} has changed since the plan was made", hint="Try again."
            )
        return msgspec.structs.replace(step.old, blob=keep(seen.data)) if step.old.kind == "file" else step.old

    def _apply(self, journal: Journal, content: Content) -> Rewound:
        """Applies the steps. On failure rolls them back; if that fails too, the record stays."""
        try:
            done = apply(self._root, journal, content)
        except ClewError:
            with suppress(ClewError):
                self._take_back(journal)
            raise
        self._repo.write(self._repo.clear_journal)
        left = tuple(map(display_path, done.left))
        error = f"changed during the rewind and not touched: {some_of(left)}" if left else None
        return Rewound(True, error, left=left, kept=tuple(map(display_path, done.kept)), undo=journal.undo)

    def _take_back(self, journal: Journal) -> None:
        stored = self._repo.read(lambda unit: self._repo.get(unit, journal.undo))
        if stored is None:
            raise NotFound("checkpoint", journal.undo)
        old = {entry.path: entry.state for entry in stored.manifest.files}
        steps = tuple(RewindStep(step.path, step.new, old[step.path]) for step in journal.steps)
        apply(self._root, msgspec.structs.replace(journal, steps=steps), self._repo.content)
        self._finish(journal)

    def _finish(self, journal: Journal) -> None:
        """Marks a rewind as finished, with the state in which it left its paths.

        If it changed no files, moves the conversation back too.
        """
        repo = self._repo
        after = {step.path: state_at(self._root, unpack_path(step.path)) for step in journal.steps}

        def work(unit: Unit) -> None:
            stored = repo.get(unit, journal.undo)
            if stored is not None:
                same = {
                    one.path: UNSEEN for one in stored.manifest.files if one.state.same(after.get(one.path, UNSEEN))
                }
                manifest = stored.manifest.with_final_states(after | same)  # it has no entries for unchanged paths
                heads = manifest.heads
                if heads is not None and not plan.changed_entries(manifest) and unit.head(repo.session) == heads.after:
                    unit.move(repo.session, heads.before)
                    manifest = msgspec.structs.replace(manifest, heads=None)
                repo.put(unit, manifest, stored)
            repo.clear_journal(unit)

        repo.write(work)
        repo.session.refresh()

    # -- the conversation

    def _find_message(self, message: str) -> str | None:
        """The message on the conversation's path, possibly by another id of its checkpoint; None if it is not there."""
        head = self._repo.session.refresh().head_id
        stored = [one.manifest for one in self._repo.read(self._repo.all)]
        also = [name for one in stored if message in (one.message, *one.also) for name in (one.message, *one.also)]

        def work(unit: Unit) -> str | None:
            return next((name for name in (message, *also) if head is not None and unit.is_above(name, head)), None)

        return self._repo.read(work)


def _removes(step: RewindStep) -> bool:
    return step.new.kind == "missing" and step.old.kind != "dir"


def _folder(step: RewindStep) -> bool:
    return step.old.kind in ("dir", "missing") and step.new.kind in ("dir", "missing")


def _target(state: FileState) -> bytes:
    return unpack_path(state.target).encode("utf-8", "surrogateescape")
