"""Records, chats, mirrored sessions, subagents and snapshots, deleted in every way: a plain model says what may be
gone, and where a word that is gone may still be.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

import clew
from clew import agents, retention
from clew.agents import Mirror
from clew.cli.root import cli
from clew.engine.mirrors import PENDING
from clew.engine.node import moment
from clew.engine.titles import title_of
from clew.records import RecordService
from clew.retention import Policy
from clew.snapshots import FileStore, ObjectStore, new_snapshot
from clew.store.parts import Parts
from clew.store.session import delete_session
from clew.store.snapshots import Snapshots
from clew.testing import FakeClock
from tests.records.talk import frame, given, stored

DAY = timedelta(days=1)
KEY = bytes(range(32))
POLICIES = (Policy(None, None, records=30), Policy(10), Policy(None), Policy(90, 7, records=7), Policy(1, None))


@dataclass
class Talk:
    """What the model knows of a session."""

    id: str
    record: str | None
    """Its conversation's id, if it is a record."""
    agents: bool
    """True if an agent's runtime made it, or the session that it was forked from."""
    active: datetime
    words: list[str] = field(default_factory=list)
    trashed: datetime | None = None
    held: bool = False
    subagents: dict[str, list[str]] = field(default_factory=dict)
    """What was said in each that it owns."""
    busy: datetime | None = None
    """When one of them was last active."""

    @property
    def all_words(self) -> list[str]:
        return [*self.words, *(word for words in self.subagents.values() for word in words)]


@dataclass
class Taken:
    """What the model knows of a snapshot."""

    store: Snapshots | FileStore | ObjectStore
    words: list[str]


class World:
    """A store with all that hangs on it, and the model beside it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.pick = random.Random(seed)
        self.folder, self.root, self.away = folder, folder / "mirror", folder / "away"
        self.sealed = seed % 2 == 1
        self.key_file = folder.parent / f"{folder.name}.key"
        self.key_file.write_bytes(KEY)
        self.key_file.chmod(0o600)
        self.clock = FakeClock(1_761_048_000_000_000, tick=1000)
        self.store = clew.open(folder / "chats.db", key=KEY if self.sealed else None, clock=self.clock)
        self.agents = agents.SessionStore(self.store, mirror=Mirror(self.store, self.root, clear=True, patience=1))
        self.service = RecordService(self.store)
        self.service.initialize()
        self.policy: Policy = retention.get_policy(self.store) or Policy()
        assert self.policy == POLICIES[0]
        key = KEY if self.sealed else None
        self.files, self.bucket = FileStore(folder / "files", key), ObjectStore(f"file://{folder}/bucket", key)
        self.taken: dict[str, Taken] = {}
        self.talks: dict[str, Talk] = {}
        self.dead: set[str] = set()
        self.in_files: set[str] = set()
        """Dead words that a receipt has allowed in the store's files: they went without a purge."""
        self.in_mirror: set[str] = set()
        """Dead words that a receipt has allowed in the mirror, by naming it."""
        self.count = 0
        self._before: set[str] = set()

    # -- what is said

    def word(self) -> str:
        self.count += 1
        return f"word{self.pick.randrange(10**12):012}x{self.count}"

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock() / 1e6, tz=UTC)

    def begin(self) -> None:
        word = self.word()
        kind = self.pick.choice(["record", "chat", "agent"])
        if kind == "record":
            name = f"talk-{self.count}"
            record = stored(self.service.create(given(name, frame(content=word))))
            id = record.storage.blob_uri.removeprefix("sessions/")
            session = self.store.sessions.get(id)
        elif kind == "chat":
            session = self.store.sessions.create(title=title_of([clew.user(word)]))
            session.append(clew.user(word))
        else:
            made = self.agents.create(cwd="/src")
            made.append_and_save(clew.user(word))
            session = self.store.sessions.get(made.id)
        session = session.refresh()
        record_name = name if kind == "record" else None
        self.talks[session.id] = Talk(session.id, record_name, kind == "agent", session.updated_at, [word])

    def say(self, talk: Talk) -> None:
        if talk.trashed:
            return
        word = self.word()
        if talk.record is not None and self.pick.random() < 0.5:
            self.service.update(talk.record, {"appendMessages": [frame(self.count + 10, content=word)]})
        else:
            self.agents.append_message(talk.id, clew.user(word))
        talk.words.append(word)
        talk.active = self.store.sessions.get(talk.id).updated_at

    def fork(self, talk: Talk) -> None:
        if talk.trashed:
            return
        made = self.store.sessions.fork(talk.id)
        record = None if talk.record is None else made.id
        self.talks[made.id] = Talk(made.id, record, talk.agents, made.updated_at, list(talk.words))
        self.say(self.talks[made.id])

    def delegate(self, talk: Talk) -> None:
        if talk.trashed:
            return
        word = self.word()
        made = self.agents.create(cwd="/src", agent_name="explorer", parent=talk.id)
        made.append_and_save(clew.user(word))
        talk.subagents[made.id] = [word]
        talk.busy = self.store.sessions.get(made.id).updated_at

    def take(self, talk: Talk) -> None:
        """A snapshot, in the store or as a copy elsewhere."""
        if talk.trashed or not talk.words:
            return
        stores: list[Snapshots | FileStore | ObjectStore] = [self.store.snapshots, self.files, self.bucket]
        store = self.pick.choice(stores)
        if isinstance(store, Snapshots):
            id = store.take(talk.id).id
        else:
            snapshot = new_snapshot(provider="claude", system_prompt=" ".join(talk.words))
            store.save(snapshot)
            id = snapshot.id
        self.taken[id] = Taken(store, list(talk.words))

    def drop_snapshot(self) -> None:
        if not self.taken:
            return
        self._before = self.living()
        id = self.pick.choice(list(self.taken))
        store = self.taken.pop(id).store
        if isinstance(store, Snapshots):
            purged = self.pick.random() < 0.5
            self.settle((store.purge if purged else store.delete)(id).pending, purged=purged)
        else:
            store.delete(id)

    def trash(self, talk: Talk) -> None:
        if talk.held:
            return
        if talk.trashed:
            self.store.sessions.restore(talk.id)
            talk.trashed = None
        else:
            self.store.sessions.trash(talk.id)
            talk.trashed = self.now()

    def hold(self, talk: Talk) -> None:
        if talk.trashed:
            return
        (self.store.sessions.release if talk.held else self.store.sessions.hold)(talk.id)
        talk.held = not talk.held

    # -- what goes

    def gone(self, ids: set[str], pending: tuple[str, ...], *, purged: bool) -> None:
        """These sessions are gone, and only these; what their receipt says is left may be."""
        for id in ids:
            self.talks.pop(id)
        self.settle(pending, purged=purged)

    def settle(self, pending: tuple[str, ...], *, purged: bool) -> None:
        died = self.said - self.living() - self.dead
        self.dead |= died
        unreached = any(one.startswith(PENDING) for one in pending)
        assert not unreached or self.away.exists(), "a mirror that is in its place was not reached"
        self.in_mirror = self.in_mirror | died if unreached else set()
        rest = [one for one in pending if not one.startswith(PENDING)]
        assert rest == ([] if purged else ["traces"] * bool(rest))
        self.in_files = set() if purged else self.in_files | died

    def living(self) -> set[str]:
        """The words that the store has to keep."""
        talked = {word for talk in self.talks.values() for word in talk.all_words}
        return talked.union(*(one.words for one in self.taken.values() if isinstance(one.store, Snapshots)))

    @property
    def said(self) -> set[str]:
        return self.dead | self.living() | self._before

    def delete(self, talk: Talk) -> None:
        """By one of the ways there are; a hold keeps it from all of them."""
        self._before = self.living()
        way = self.pick.choice(["purge", "delete", "agents", "nodes", "program", "records"])
        if talk.trashed and way in ("delete", "agents", "nodes"):
            way = "purge"
        if way == "records" and talk.record is None:
            way = "program"
        if way == "nodes":
            self.delete_nodes(talk)
            return
        if way == "program":
            words = ["purge", "--yes", "--json", talk.id, "--db", str(self.folder / "chats.db")]
            done = CliRunner().invoke(cli, [*words, *(["--key-file", str(self.key_file)] if self.sealed else [])])
            assert done.exit_code in (0, 1, 8), done.output
            receipt = json.loads(done.stdout)
            assert (receipt["sessions"] == []) == talk.held
            pending = tuple(receipt["pending"])
        elif talk.held:
            return
        elif way == "records":
            assert talk.record is not None
            errors = [one.error for one in self.service.delete(talk.record, "user-requested").failures]
            left = [one for one in errors if one.startswith("traces")]
            pending = (f"{PENDING}{self.root}",) if left else ()
            assert all(str(self.root) in one for one in left)
        elif way == "purge":
            pending = self.store.sessions.purge(talk.id).pending
        elif way == "delete":
            pending = delete_session(self.store.sessions.get(talk.id)).pending
        else:
            pending = self.agents.delete(talk.id).pending
        if not talk.held:
            self.gone({talk.id}, pending, purged=way not in ("delete", "agents"))

    def delete_nodes(self, talk: Talk) -> None:
        sharing = [one for one in self.talks.values() if one.words[:1] == talk.words[:1]]
        if not talk.words or any(one.held for one in sharing):
            return
        root = self.store.sessions.get(talk.id).path()[0]
        kept = [one for one in self.taken.values() if isinstance(one.store, Snapshots)]
        if any(one.words[:1] == talk.words[:1] for one in kept):
            with pytest.raises(clew.Conflict):
                self.store.nodes.delete(root.id, recursive=True)
            return
        receipt = self.store.nodes.delete(root.id, recursive=True)
        for one in sharing:
            one.words.clear()
            one.active = moment(Parts.of(self.store).table.find_anywhere(one.id).active_at)
        self.settle(receipt.pending, purged=False)

    def due(self, now: datetime, *, records: bool) -> set[str]:
        """What the policy says, told without any code of clew's but the dates that it was given."""
        found = set()
        for talk in self.talks.values():
            record = talk.record is not None
            if records and not record:
                continue
            days = self.policy.days
            if record:
                days = self.policy.records or (None if days is None else min(max(days, 7), 180))
            busy = max(talk.active, talk.busy or talk.active)
            since = busy
            if talk.trashed is not None:
                usual = days if record else None
                days = usual if self.policy.trash_days is None else self.policy.trash_days
                since = talk.trashed
            old = days is not None and now - since >= days * DAY
            if old and not talk.held and now - busy >= timedelta(minutes=30):
                found.add(talk.id)
        return found

    def sweep(self) -> None:
        self._before = self.living()
        records, force = self.pick.random() < 0.5, self.pick.random() < 0.7
        due = self.due(self.now(), records=records)
        before = set(self.talks)
        if records:
            report = self.service.sweep(force=force)
            names = {talk.record or talk.id: talk.id for talk in self.talks.values()}
            left = before & {one.id for one in self.everything()}
            held_back = {names[one.conversation_id] for one in report.failures if "held back" in one.error}
            assert held_back in (set(), due)
            pending = tuple(f"{PENDING}{self.root}" for one in report.failures if str(self.root) in one.error)
        else:
            try:
                swept = retention.sweep(self.store, force=force)
                held_back = set()
                pending = () if swept.receipt is None else swept.receipt.pending
            except clew.SweepRefused:
                held_back, pending = due, ()
            left = before & {one.id for one in self.everything()}
        assert before - left == due - held_back
        assert not held_back or not force
        if due - held_back:
            self.gone(due - held_back, pending[:1], purged=True)

    def cleanup(self) -> None:
        """Takes agents' sessions only, each after the activity of its subagents; chats and records stay."""
        self._before = self.living()
        older = self.pick.choice([DAY, 10 * DAY])
        edge = self.now() - older
        since = {
            talk.id: talk.trashed or max(talk.active, talk.busy or talk.active)
            for talk in self.talks.values() if talk.agents
        }  # fmt: skip
        due = {id for id, start in since.items() if start <= edge}
        held = {id for id in due if self.talks[id].held}
        before = set(self.talks)
        cleaned = self.agents.cleanup(older_than=older)
        assert {*cleaned.deleted} == due - held
        assert {id for id, _ in cleaned.failures} == held
        assert before - {one.id for one in self.everything()} == due - held
        if due - held:
            self.gone(due - held, cleaned.receipt.pending, purged=True)

    def everything(self) -> list[clew.Session]:
        live = self.store.sessions.list(limit=1000, include_expired=True).items
        return live + self.store.sessions.trashed(limit=1000).items

    # -- around it

    def set_policy(self) -> None:
        self.policy = self.pick.choice(POLICIES)
        retention.set_policy(self.store, self.policy)

    def move_mirror(self) -> None:
        if self.away.exists():
            self.root.unlink()
            self.away.rename(self.root)
        else:
            self.root.rename(self.away)
            self.root.write_bytes(b"")  # else whoever writes next makes the folder again

    def rebuild(self) -> None:
        if not self.away.exists():
            self.agents.rebuild_mirror()
            self.in_mirror = set()

    def step(self) -> None:
        talks = list(self.talks.values())
        one = self.pick.choice(talks) if talks else None
        acts = [self.begin, self.begin, self.sweep, self.set_policy, self.move_mirror, self.rebuild]
        acts += [self.drop_snapshot, self.cleanup]
        about = [self.say, self.say, self.fork, self.delegate, self.take, self.take, self.trash, self.hold]
        about += [self.delete, self.delete, self.delete]
        choice = self.pick.randrange(len(acts) + len(about) + 2)
        if choice < len(acts):
            acts[choice]()
        elif choice < len(acts) + len(about):
            if one is not None:
                about[choice - len(acts)](one)
        elif choice == len(acts) + len(about):
            self.clock.advance(self.pick.choice([timedelta(hours=1), 5 * DAY, 12 * DAY]))
        else:
            self.store.search("word*")
        self.check()

    def check(self) -> None:
        """No word that is gone is in a file, unless a receipt has said so; what is not gone is there."""
        assert {one.id for one in self.everything()} == set(self.talks)
        for file in self.folder.rglob("*"):
            if not file.is_file():
                continue
            raw = file.read_bytes()
            for word in self.dead - self.allowed(file):
                assert word.encode() not in raw, (file, word)

    def allowed(self, file: Path) -> set[str]:
        """The words that may be in a file, although the store has them no more."""
        if self.root in file.parents or self.away in file.parents:
            return self.in_mirror
        for name, store in (("files", self.files), ("bucket", self.bucket)):
            if self.folder / name in file.parents:
                return {word for one in self.taken.values() if one.store is store for word in one.words}
        return self.in_files

    def close(self) -> None:
        if self.away.exists():
            self.move_mirror()
        for talk in self.talks.values():
            if not talk.trashed:
                for id, words in {talk.id: talk.words, **talk.subagents}.items():
                    assert [node.text for node in self.store.sessions.get(id).path()] == words
        for store in (self.store.snapshots, self.files, self.bucket):
            mine = {id: one for id, one in self.taken.items() if one.store is store}
            assert {one.id for one in store.list()} == set(mine)
            for id, one in mine.items():
                snapshot = store.load(id)
                shown = snapshot.messages.decode() if isinstance(store, Snapshots) else snapshot.system_prompt
                assert [word for word in one.words if word in shown] == one.words
        assert self.store.verify().ok
        self.service.dispose()
        self.agents.close()
        self.store.close()


def life(folder: Path, seed: int, steps: int) -> None:
    folder.mkdir()
    world = World(folder, seed)
    for _ in range(steps):
        world.step()
    world.close()


@pytest.mark.parametrize("seed", range(2))
def test_nothing_goes_unsaid_and_nothing_stays_unsaid(tmp_path: Path, seed: int) -> None:
    """Whatever is mixed, plain and sealed: sweeps take what the policy says, and words that are gone are in no file."""
    life(tmp_path / "store", seed, 60)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 160))
def test_nothing_goes_unsaid_and_nothing_stays_unsaid_for_long(tmp_path: Path, seed: int) -> None:
    """The same, for many lives."""
    life(tmp_path / "store", seed, 300)
