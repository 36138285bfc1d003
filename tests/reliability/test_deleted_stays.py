"""Random lives of a store: whatever is imported after a deletion, no deleted word comes back.

Each step is done by the library or by the command line. `deletion_model` says what it may do to the store.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

import clew
from clew import agents, exports, retention
from clew.cli.root import cli
from clew.errors import Conflict, NotFound, SweepRefused
from clew.records import RecordService
from clew.redaction import Rule, Rules
from clew.sources import find, import_all, undo
from clew.sources.import_all import FileOutcome
from clew.sources.import_log import ImportRecorder, run_handle
from clew.store.redact_message import redact_message
from clew.testing import FakeClock
from tests.agents.cpe.files import Convo
from tests.records.talk import frame, given, stored
from tests.reliability.canaries import canary, content, found
from tests.reliability.deletion_model import Model, Seen, look
from tests.sources.made import claude_line, jsonl

KEY = bytes(range(32))
STEPS = 24
DAY = timedelta(days=1)


def secret(word: str) -> str:
    """A word in a form that the command line's redaction finds."""
    return f"ghp_{word}A1B2C3"


class Log:
    """A log of Claude Code that grows: of a session, or of a subagent of one."""

    def __init__(self, folder: Path, session: str, agent: str | None = None) -> None:
        self.session = session
        below = f"{session}.jsonl" if agent is None else f"{session}/subagents/agent-{agent}.jsonl"
        self.path = folder / below
        self.path.parent.mkdir(exist_ok=True, parents=True)
        self.facts = {"sessionId": session} if agent is None else {
            "sessionId": session, "agentId": agent, "isSidechain": True
        }  # fmt: skip
        self.words: dict[str, str] = {}
        """The id of the message that has a word."""

    def grow(self, chance: random.Random, others: list[Log]) -> None:
        """Adds messages, some on a new branch or with the id of one elsewhere, and lines that repeat earlier words."""
        lines = []
        for _ in range(chance.randint(1, 3)):
            own, elsewhere = [*self.words.values()], {id for log in others for id in log.words.values()}
            free = sorted(elsewhere - {*own})
            id = chance.choice(free) if free and chance.random() < 0.1 else an_id(chance)
            above = None if not own else chance.choice(own) if chance.random() < 0.15 else own[-1]
            word, role = canary(chance), chance.choice(("user", "assistant"))
            line = claude_line(len(own), None, role, f"About {secret(word)}", **self.facts)
            lines.append({**line, "uuid": id, "parentUuid": above})
            self.words[word] = id
        if chance.random() < 0.5:
            kind, name = chance.choice((("ai-title", "aiTitle"), ("last-prompt", "lastPrompt")))
            repeats = {"type": kind, name: secret(chance.choice([*self.words])), "sessionId": self.session}
            lines.insert(chance.randint(0, len(lines)), repeats)
        with self.path.open("ab") as file:
            file.write(jsonl(lines))


class SeenRecord(NamedTuple):
    """A record as a program has read it."""

    session: str
    version: int


class Life:
    """One store, all that may happen to it, and the model that it is compared with."""

    def __init__(self, folder: Path, seed: int, clock: FakeClock) -> None:
        self.chance = random.Random(seed)
        self.folder, self.logs_folder, self.tree = folder, folder / "projects" / "p", folder / "tree"
        self.logs_folder.mkdir(parents=True)
        self.clock, self.model = clock, Model()
        self.path, self.key = folder / "s.db", KEY if seed % 2 else None
        self.store = clew.open(self.path, key=self.key)
        self.words: set[str] = set()
        """Every word that there ever was."""
        self.logs: list[Log] = []
        self.cpe_file = folder / ".cpeconvo"
        self.in_cpe: dict[str | None, str] = {}
        """Messages in CPE's file, with their roles."""
        self.in_tree: list[str] = []
        """Sessions in the agents' tree."""
        self.of_agents: set[str] = set()
        """Sessions in the store that agents have, and forks of them."""
        self.runs: dict[str, set[str]] = {}
        """The words that each import has added."""
        self.watch = ImportRecorder(self.store)
        self.exports: list[list[bytes]] = []
        self.records: dict[str, SeenRecord] = {}
        """Records as they were read some time ago."""
        self.changed: set[str] = set()
        """Their sessions, if title or hold were changed since."""
        self.of_records: set[str] = set()
        """Sessions of records, and forks of them."""
        self.now = self.look()
        self.steps: list[str] = []

    # -- the store, from outside

    def look(self) -> Seen:
        return look(exports.jsonl(self.store), self.words)

    def sessions(self) -> list[str]:
        return sorted(
            id for id, line in self.now.refs.items() if line["kind"] == "session" and "trashed_at" not in line
        )

    def cli(self, *args: str, data: str = "") -> Result:
        """Runs a command; it must not crash."""
        env = {"CLEW_DB": str(self.path), "HOME": str(self.folder / "home"), "XDG_DATA_HOME": str(self.folder / "d"),
               "XDG_CONFIG_HOME": str(self.folder / "c"), "CLEW_KEY": self.key.hex() if self.key else None}  # fmt: skip
        done = CliRunner().invoke(cli, args, env=env, input=data)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert "internal error" not in done.stderr, done.stderr
        return done

    def by_command(self) -> bool:
        return self.chance.random() < 0.5

    def step(self) -> None:
        name, work = self.chance.choice(STEPS_OF)
        self.steps.append(name)
        work(self)
        self.clock.advance(timedelta(minutes=self.chance.randint(1, 600)))
        self.came()

    # -- what a step did

    def came(self, new: Iterable[str] = (), *, again: bool = False) -> None:
        before, self.now = self.now, self.look()
        self.model.came(before, self.now, {*new}, again=again)

    def went(self, gone: Iterable[str], lost: Iterable[str] = (), *, whole: bool = True) -> None:
        before, self.now = self.now, self.look()
        self.model.went(before, self.now, {*gone}, {*lost}, whole=whole)

    # -- imports

    def grow(self) -> None:
        new = not self.logs or (len(self.logs) < 4 and self.chance.random() < 0.4)
        if not new:
            log = self.chance.choice(self.logs)
        elif self.logs and self.chance.random() < 0.4:
            log = Log(self.logs_folder, self.chance.choice(self.logs).session, an_id(self.chance)[:8])
        else:
            log = Log(self.logs_folder, an_id(self.chance))
        log.grow(self.chance, self.logs)
        self.logs += [log] * new
        self.words |= {*log.words}

    def take(self) -> None:
        """An import, after a dry run that says the same."""
        files, again, this = self._some_logs(), self.chance.random() < 0.15, ImportRecorder(self.store)
        before = self.now.said
        would = list(import_all(self.store, find(files), dry_run=True, again=again))
        done = list(import_all(self.store, find(files), again=again, recorder=this))
        assert would == done
        self.came(self._words_in(files), again=again)
        self._is_complete(done, again=again)
        self.runs[this.id] = self.now.said - before

    def take_by_command(self) -> None:
        files, again = self._some_logs(), self.chance.random() < 0.15
        if not files:
            return
        command = ["import", *files, *["--again"] * again, "--json"]
        would, done = self.cli(*command, "--dry-run"), self.cli(*command)
        assert (would.exit_code, _counts(would.stdout)) == (done.exit_code, _counts(done.stdout))
        self.came(self._words_in(files), again=again)

    def watched(self) -> None:
        files = self._some_logs()
        done = list(import_all(self.store, find(files), recorder=self.watch))
        self.came(self._words_in(files))
        self._is_complete(done)

    def hook(self) -> None:
        for log in self.logs:
            if self.chance.random() < 0.5:
                event = {"hook_event_name": "UserPromptSubmit", "session_id": log.session, "cwd": "/src/app"}
                assert self.cli("hook", data=json.dumps({**event, "transcript_path": str(log.path)})).exit_code == 0
                self.came({word for one in self.logs if one.session == log.session for word in one.words})

    def undo(self) -> None:
        if not self.runs:
            return
        this = self.chance.choice([*self.runs])
        added, before = self.runs.pop(this), self.now
        try:
            would = undo(self.store, this, dry_run=True)
        except NotFound:  # it stored nothing
            return
        if self.by_command():
            assert self.cli("import", "--undo", run_handle(self.store, this)).exit_code in (0, PARTIAL)
        else:
            assert undo(self.store, this)[:4] == would[:4]
        self.now = self.look()
        self.model.undone(before, self.now, would.sessions, added)

    def export(self) -> None:
        if self.by_command():
            file = self.folder / "out.jsonl"
            assert not self.sessions() or self.cli("export", "-o", str(file)).exit_code == 0
            lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
            file.unlink(missing_ok=True)
        else:
            lines = list(exports.jsonl(self.store))
        self.exports = [*self.exports[-3:], *[lines] * bool(lines)]

    def restore(self) -> None:
        """Reads an export back: also holds of sessions that are not here."""
        if not self.exports:
            return
        lines, again, before = self.chance.choice(self.exports), self.chance.random() < 0.15, self.now
        if self.by_command():
            file = self.folder / "all.jsonl"
            file.write_bytes(b"".join(lines))
            self.cli("import", str(file), *["--again"] * again)
        else:
            with suppress(Conflict):
                exports.restore(self.store, lines, again=again)
        self.came(look(lines, self.words).text, again=again)
        self.model.held |= {id for id, line in self.now.refs.items() if "hold" in line and id not in before.refs}

    def cpe(self) -> None:
        """Adds a message to CPE's file, and imports it."""
        below, id = self.chance.choice([None, *self.in_cpe]), an_id(self.chance)[:6]
        role = "assistant" if self.in_cpe.get(below) == "user" else "user"
        file = Convo(self.cpe_file)
        file.say(id, below, role, self._word(), at=datetime.fromtimestamp(self.clock.now // 10**6, UTC).isoformat())
        file.close()
        self.in_cpe[id] = role
        again = self.chance.random() < 0.15
        if self.by_command():
            assert self.cli("import", str(self.cpe_file), *["--again"] * again).exit_code in (0, PARTIAL)
        else:
            agents.cpe.import_file(self.store, self.cpe_file, again=again)
        text = self.cpe_file.read_bytes().decode(errors="replace")
        self.came({word for word in self.words if word in text}, again=again)

    def agents_tree(self) -> None:
        """Adds messages to a tree of agents' files, and imports it."""
        if not self.in_tree or self.chance.random() < 0.3:
            self.in_tree.append(an_id(self.chance))
        folder = self.tree / "app" / "sessions" / self.chance.choice(self.in_tree)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "messages.jsonl").open("a") as file:
            file.write(json.dumps({"role": "user", "content": self._word()}) + "\n")
        again, store = self.chance.random() < 0.15, agents.SessionStore(self.store)
        if self.by_command():
            self.cli("import", str(self.tree), *["--again"] * again)
        else:
            would = agents.import_tree(store, self.tree, dry_run=True, again=again)
            assert would == agents.import_tree(store, self.tree, again=again)
        self.of_agents |= {*self.in_tree}
        text = "".join(path.read_text() for path in self.tree.rglob("*.jsonl"))
        self.came({word for word in self.words if word in text}, again=again)

    # -- deletions

    def purge(self) -> None:
        sessions = self._some(self.sessions())
        would = self.store.sessions.purge(sessions, dry_run=True)
        assert {*would.sessions} == {*sessions} - self.model.held
        if sessions and self.by_command():
            shown = json.loads(self.cli("purge", "--yes", "--json", *sessions).stdout)
            assert ([*would.sessions], would.messages) == (shown["sessions"], shown["messages"])
        else:
            done = self.store.sessions.purge(sessions)
            assert (would.sessions, would.messages, would.bytes) == (done.sessions, done.messages, done.bytes)
        self.went(would.sessions)

    def trash(self) -> None:
        for session in self._some(self.sessions(), 1):
            if session not in self.model.held:
                self._one_way(lambda: self.store.sessions.trash(session), "rm", session)
                self.model.retained.discard(session)

    def empty_trash(self) -> None:
        trashed = sorted(one.id for one in self.store.sessions.trashed(limit=1000).items)
        if self.chance.random() < 0.5:
            for one in trashed:
                self._one_way(lambda: self.store.sessions.restore(one), "trash", "restore", one)
        else:
            would = self.store.sessions.purge(trashed=True, dry_run=True)
            assert {*would.sessions} == {*trashed}
            self._one_way(lambda: self.store.sessions.purge(trashed=True), "purge", "--trash", "--yes")
            self.went(trashed)

    def delete_message(self) -> None:
        node = self._node()
        if node is None or self._is_held(node):
            return
        lost = self.now.below[node.id]
        if self.by_command():
            assert self.cli("conversation", "delete", "--cascade", node.id).exit_code in (0, PARTIAL)
        else:
            self.store.nodes.delete([node.id], recursive=True)
        self.went((), lost, whole=False)

    def redact(self) -> None:
        node = self._node()
        words = [] if node is None else [word for word in self.words if word in node.text]
        if node is None or not words or self._is_held(node):
            return
        if secret(words[0]) in node.text and self.by_command():
            would = json.loads(self.cli("redact", "--apply", node.id, "--dry-run", "--json").stdout)
            done = json.loads(self.cli("redact", "--apply", node.id, "--yes", "--json").stdout)
            assert would["sessions"] == done["sessions"]
        else:
            rules = Rules((Rule(id="w", pattern=words[0]),))
            would = redact_message(self.store, node, rules, dry_run=True)
            assert would[:4] == redact_message(self.store, node, rules)[:4]
        self.went((), words)

    def cleanup(self) -> None:
        self.clock.advance(self.chance.choice((1, 10, 40)) * DAY)
        with suppress(SweepRefused):
            would = agents.SessionStore(self.store).cleanup(older_than=20 * DAY, dry_run=True)
            done = agents.SessionStore(self.store).cleanup(older_than=20 * DAY)
            assert would.deleted == done.deleted
            assert {*done.deleted} <= self.of_agents, "a session of another program went"
            self._expired(done.deleted, 20)

    def sweep(self) -> None:
        days = self.chance.choice((14, 30, 90))
        self.clock.advance(self.chance.choice((1, 10, 40)) * DAY)
        if self.by_command():
            assert self.cli("retention", "set", "--days", str(days), "--trash-days", "7").exit_code == 0
            would = [one["session"] for one in json.loads(self.cli("retention", "preview", "--json").stdout)["going"]]
            done = json.loads(self.cli("retention", "sweep", "--force", "--json").stdout)["sessions"]
        else:
            retention.set_policy(self.store, retention.Policy(days=days, trash_days=7))
            would = [one.session for one in retention.preview(self.store).going]
            done = [*retention.sweep(self.store, force=True).sessions]
        assert {*would} == {*done}
        self._expired(done, 7)

    def _expired(self, gone: Iterable[str], days: int) -> None:
        assert self.model.retained.isdisjoint(gone), "a retained session went"
        for one in self.now.with_owned({*gone}):
            last = self.now.refs[one]["active_at"]
            assert last <= self.clock.now - days * DAY // timedelta(microseconds=1), "an active session went"
        self.went(gone)

    # -- all else

    def fork(self) -> None:
        for session in self._some(self.sessions(), 1):
            new = self.store.sessions.fork(session).id
            for kind in (self.of_agents, self.of_records):
                kind |= {new} if session in kind else set()

    def hold(self) -> None:
        for session in self._some(self.sessions(), 1):
            self.changed.add(session)
            if session in self.model.held:
                self.model.held.discard(session)
                self._one_way(lambda: self.store.sessions.release(session), "hold", "release", session)
            else:
                self._one_way(lambda: self.store.sessions.hold(session, "legal"), "hold", "add", session)
                self.model.held.add(session)

    def rename(self) -> None:
        for session in self._some(self.sessions(), 1):
            title = self._word()
            self._one_way(lambda: self.store.sessions.get(session).rename(title), "rename", session, title)
            self.changed.add(session)

    def retain(self) -> None:
        for session in self._some(self.sessions(), 1):
            if session in self.of_records:  # they are kept for 180 days at most
                continue
            self._one_way(
                lambda: self.store.sessions.get(session).retain(days=3650),
                "retention", "set", session, "--days", "3650",
            )  # fmt: skip
            self.model.retained.add(session)

    def agents_session(self) -> None:
        store = agents.SessionStore(self.store)
        made, word = store.create(cwd="/src"), self._word()
        store.append_message(made, clew.user(word))
        self.of_agents.add(made.id)
        self.came([word])

    def record(self) -> None:
        """Creates, reads or deletes a record, or changes one as it was read some time ago."""
        with RecordService(self.store, sweep=False, exportable=True) as service:
            if not self.records or self.chance.random() < 0.3:
                id, word, before = an_id(self.chance), self._word(), {*self.now.sessions}
                record = stored(service.create(given(id, frame(content=word), title="Record")))
                self.came([word])
                (session,) = {*self.now.sessions} - before
                self.records[id] = SeenRecord(session, record.storage.blob_version)
                self.of_records.add(session)
                return
            id = self.chance.choice([*self.records])
            deed = self.chance.choice(
                (self._read_record, self._change_record, self._change_record, self._delete_record)
            )
            deed(service, id, self.records[id].session)

    def _read_record(self, service: RecordService, id: str, session: str) -> None:
        record = service.get(id)
        assert (record is not None) == (session in self.sessions())
        if record is not None:
            self.records[id] = SeenRecord(session, record.storage.blob_version)
            self.changed.discard(session)

    def _change_record(self, service: RecordService, id: str, session: str) -> None:
        word, title = self._word(), self._word()
        change = {"appendMessages": [frame(9, content=word)], "title": title, "retention": {"manualHold": False}}
        if session not in self.sessions() or session in self.changed:
            with pytest.raises((NotFound, Conflict)):
                service.update(id, change, expected_version=self.records[id].version)
            return
        done = stored(service.update(id, change, expected_version=self.records[id].version))
        self.model.held.discard(session)
        self.records[id] = SeenRecord(session, done.storage.blob_version)
        self.came([word])

    def _delete_record(self, service: RecordService, id: str, session: str) -> None:
        if session in self.sessions() and session not in self.model.held:
            service.delete(id, "user-requested")
            self.went([session])

    # -- inside

    def _word(self) -> str:
        word = canary(self.chance)
        self.words.add(word)
        return word

    def _some(self, names: list[str], most: int = 2) -> list[str]:
        return self.chance.sample(names, min(len(names), self.chance.randint(1, most)))

    def _some_logs(self) -> list[str]:
        if self.logs and self.chance.random() < 0.3:
            return [str(self.logs_folder)]
        return [str(log.path) for log in self.logs if self.chance.random() < 0.6]

    def _words_in(self, files: list[str]) -> set[str]:
        return {word for log in self.logs if {str(log.path), str(self.logs_folder)} & {*files} for word in log.words}

    def _is_complete(self, done: list[FileOutcome], *, again: bool = False) -> None:
        """An import stores all that was not deleted: an undo deletes nothing for good."""
        gone = {id for log in self.logs for word, id in log.words.items() if word in self.model.deleted}
        for one in done:
            log = next(log for log in self.logs if str(log.path) == one.path)
            wanted = {word for word, id in log.words.items() if id not in gone}
            if one.state in ("imported", "unchanged"):
                assert wanted <= self.now.said, f"{len(wanted - self.now.said)} messages are missing ({one.state})"

    def _node(self) -> Any:
        nodes = [node for one in self._some(self.sessions(), 1) for node in self.store.sessions.get(one).path()]
        return self.chance.choice(nodes) if nodes else None

    def _is_held(self, node: Any) -> bool:
        return not self.model.held.isdisjoint(self.now.with_node[node.id])

    def _one_way(self, library: Callable[[], object], *command: str) -> None:
        if self.by_command():
            assert self.cli(*command).exit_code == 0
        else:
            library()

    def end(self) -> None:
        """No purged word is in any file of the store once a purge has cleared it and it is closed."""
        self.store.sessions.create().purge()
        self.came()
        self.store.close()
        assert not found({f"word {n}": word for n, word in enumerate(sorted(self.model.purged))}, content(self.path))


PARTIAL = 8
STEPS_OF: list[tuple[str, Callable[[Life], None]]] = [
    (name, getattr(Life, name))
    for name, weight in {
        "grow": 6, "take": 4, "take_by_command": 2, "watched": 2, "hook": 2, "undo": 2, "purge": 4, "trash": 1,
        "empty_trash": 1, "fork": 1, "delete_message": 2, "redact": 2, "hold": 2, "retain": 1, "rename": 1, "export": 2,
        "restore": 2, "cpe": 2, "agents_tree": 2, "agents_session": 1, "cleanup": 1, "sweep": 1, "record": 2,
    }.items()
    for _ in range(weight)
]  # fmt: skip


def an_id(chance: random.Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


def _counts(shown: str) -> Any:
    return [
        {name: row[name] for name in ("conversations", "purged") if name in row}
        for row in json.loads(shown or "{}").get("files", [])
    ]


def live(folder: Path, seed: int, patch: pytest.MonkeyPatch) -> None:
    """One life, of a plain or a sealed store. The clock is that of library and command line."""
    clock = FakeClock(int(time.time() * 1e6), tick=1)
    patch.setattr(time, "time_ns", lambda: clock() * 1000)
    patch.setattr(
        "clew.sources.lines.LARGE", 1 if seed % 3 == 0 else 1 << 20
    )  # every log is read from where it ended, or none
    folder.mkdir()
    life = Life(folder, seed, clock)
    try:
        for _ in range(STEPS):
            life.step()
        life.end()
    except BaseException as error:
        error.add_note(f"seed {seed}: {' '.join(life.steps)}")
        raise
    finally:
        life.store.close()


@pytest.mark.parametrize("seed", range(8))
def test_what_was_deleted_stays_deleted(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order of imports, deletions and all else, no purged word returns and nothing held or retained goes."""
    live(tmp_path / "s", seed, monkeypatch)


@pytest.mark.soak
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("first", range(0, 5000, 100))
def test_five_thousand_lives(first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, 5,000 times."""
    for seed in range(first, first + 100):
        live(tmp_path / str(seed), seed, monkeypatch)
