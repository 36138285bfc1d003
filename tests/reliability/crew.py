"""Processes that use one store at once, some of which are killed; what they wrote down, and what is stored then."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import clew
from clew.errors import NotFound
from tests.reliability.actor import opened
from tests.reliability.history import Op, check, load

ROOT = Path(__file__).resolve().parents[2]


class Crew:
    """The processes of one round."""

    def __init__(self, store: str, folder: Path) -> None:
        self._store, self._folder = store, folder
        self._started = 0
        with opened(store) as here:
            if here.key_status().state == "unsealing":  # cut short in the round before
                here.unseal()
            self.shared = [here.sessions.create().id for _ in range(2)]
        self.living: dict[str, subprocess.Popen[str]] = {}
        self.killed: list[str] = []

    def start(self, what: str, again: str = "") -> str:
        """One more, which is not at work yet."""
        self._started += 1
        name = f"{what}{self._started}"
        journal = self._folder / f"{name}.jsonl"
        command = [
            sys.executable, "-m", "tests.reliability.actor", self._store, str(journal), what,
            ",".join(self.shared), again,
        ]  # fmt: skip
        self.living[name] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
        return name

    def ready(self, name: str) -> None:
        """Waits until it has opened the store."""
        stdout = self.living[name].stdout
        assert stdout is not None
        assert stdout.readline() == "ready\n", self.living[name].communicate()[1]

    def go(self, name: str, end: float) -> None:
        """Lets it begin."""
        stdin = self.living[name].stdin
        assert stdin is not None
        stdin.write(f"{end}\n")
        stdin.flush()

    def kill(self, name: str) -> str:
        """SIGKILL. Returns its last call, if another can make it again."""
        victim = self.living.pop(name)
        victim.kill()
        victim.communicate()
        self.killed.append(name)
        journal = self._folder / f"{name}.jsonl"
        lines = journal.read_text().splitlines() if journal.exists() else []
        try:
            last: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        except ValueError:
            return ""
        return json.dumps({"parts": last["parts"], "ids": last["ids"]}) if "ids" in last else ""

    def finish(self) -> list[Op]:
        """Waits for all that live: none of them may have failed."""
        for name, one in self.living.items():
            _, err = one.communicate(timeout=120)
            assert (one.returncode, err) == (0, ""), f"{name}: {err}"
        return load(sorted(self._folder.glob("*.jsonl")))


def play(store: str, folder: Path, *, seconds: float, actors: int = 3, kills: int = 2, seed: int = 0) -> list[Op]:
    """One round: processes at work, some killed and replaced, one of which changes keys. Nothing may be wrong."""
    chance = random.Random(seed)
    crew = Crew(store, folder)
    first = [crew.start(what) for what in ["actor"] * actors + ["keys"]]
    for name in first:
        crew.ready(name)
    end = time.monotonic() + seconds
    for name in first:
        crew.go(name, end)
    for number in range(kills):
        time.sleep(chance.uniform(0.5, 1.5) * seconds / (kills + 2))
        victims = [name for name in crew.living if name.startswith("keys") == (number % 3 == 2)]
        name = chance.choice(victims)
        crew.go(crew.start("keys" if name.startswith("keys") else "actor", crew.kill(name)), end)
    ops = crew.finish()
    with opened(store) as here:
        used = {session for op in ops for session in [*op.parts, *op.seen]}
        final = {session: texts(here, session) for session in {*crew.shared, *used}}
        report = here.verify()
    (folder / "final.json").write_text(json.dumps({"shared": crew.shared, "final": final}))  # to look at afterwards
    assert report.ok, report.damage
    wrong = check(ops, final, crew.shared)
    assert not wrong, "\n".join(wrong)
    return ops


def texts(store: clew.Store, session: str) -> list[str] | None:
    """What a session holds; None if it is gone."""
    try:
        return [node.text for node in store.sessions.get(session).path()]
    except NotFound:
        return None


def rounds(store: str, folder: Path, *, seconds: float, each: float = 20.0) -> str:
    """Round after round on one store, until processes were at work for so long in all. What was done, for people."""
    clew.open(store).close()
    done: Counter[str] = Counter()
    for number in range(math.ceil(seconds / each)):
        here = folder / str(number)
        here.mkdir()
        ops = play(store, here, seconds=each, actors=4, kills=6, seed=uuid.uuid4().int)
        done.update(f"{op.kind} {op.outcome}" for op in ops)
    return f"{number + 1} rounds of {each:g} s: " + ", ".join(f"{done[kind]} {kind}" for kind in sorted(done))
