"""P1, P5, P16, P23, P25: many ways of using a store at once, by processes that are killed, lose and repeat nothing."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.together_worker import opened

ROOT = Path(__file__).resolve().parents[2]
KINDS = ["append", "fork", "purge", "imports", "undo", "agents", "adapter", "page"]
KILLS = int(os.environ.get("CLEW_KILLS", "1000"))
"""Kills of the long form, half of them in a plain store."""


class Workers:
    """Processes that use one store, each replaced when it is killed."""

    def __init__(self, store: Path, folder: Path, sealed: bool) -> None:
        self._store, self._folder, self._sealed = store, folder, sealed
        self._started = 0
        self.running: dict[subprocess.Popen[str], str] = {}

    def start(self, kind: str) -> None:
        self._started += 1
        command = [
            sys.executable, "-m", "tests.crash.together_worker", kind, str(self._store), str(self._folder),
            f"{kind}{self._started}", "sealed" if self._sealed else "",
        ]  # fmt: skip
        with (self._folder / f"{kind}{self._started}.err").open("w") as errors:
            one = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors, text=True)
        self.running[one] = kind

    def kill(self, one: subprocess.Popen[str]) -> None:
        assert one.poll() is None, f"{self.running[one]} ended: {self.errors()}"
        one.kill()
        one.wait()
        del self.running[one]

    def end(self) -> None:
        """Kills those that are left."""
        for one in self.running:
            one.kill()
        for one in self.running:
            one.wait()

    def errors(self) -> str:
        return "\n".join(text for path in self._folder.glob("*.err") if (text := path.read_text()))


def noted(folder: Path, what: str) -> int:
    """How often the workers have noted this."""
    return sum(path.read_text().count(f'["{what}"') for path in folder.glob("*.jsonl"))


def run(store: Path, folder: Path, *, sealed: bool, kills: int, at_work: int, least: int, seed: int) -> Counter[str]:
    """Kills processes at random moments, until `least` deep rotations have ended, too; then compares. What was done."""
    chance = random.Random(seed)
    folder.mkdir()
    opened(str(store), sealed).close()
    workers = Workers(store, folder, sealed)
    rest = list(KINDS)
    chance.shuffle(rest)
    try:
        for kind in [rest.pop() for _ in range(at_work)] + ["rotate"] * sealed:
            workers.start(kind)
        done = 0
        while done < kills or noted(folder, "rotated") < least or not noted(folder, "kept"):
            time.sleep(chance.uniform(0.05, 0.6))
            victim = chance.choice(list(workers.running))
            kind = workers.running[victim]
            if kind == "rotate" and chance.random() < 0.7:  # mostly let it end
                continue
            workers.kill(victim)
            done += 1
            if kind != "rotate":  # there is one at a time: each chooses the key that the store does not have
                rest.append(kind)
                kind = rest.pop(0)
            workers.start(kind)
    finally:
        workers.end()
    assert workers.errors() == ""
    found = compare(store, folder, sealed)
    return found + Counter(kills=done, rotations=noted(folder, "rotated"))


def compare(store: Path, folder: Path, sealed: bool) -> Counter[str]:
    """Every acknowledged message is there once, nothing that was removed is there, and the store is sound."""
    notes: dict[str, set[str]] = {"kept": set(), "going": set(), "gone": set()}
    for path in folder.glob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            what, texts = json.loads(line)
            notes.setdefault(what, set()).update(texts)
    with opened(str(store), sealed) as here:
        there = Counter(node.text for node in here.nodes.list(limit=1000).all())
        report = here.verify()
    assert report.ok, report.damage
    lost = notes["kept"] - notes["going"] - set(there)
    assert not lost, sorted(lost)
    assert not notes["gone"] & set(there)
    assert not [text for text, count in there.items() if count > 1]
    return Counter(acknowledged=len(notes["kept"]), removed=len(notes["gone"]))


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
def test_some_kills(tmp_path: Path, sealed: bool) -> None:
    """A few of everything."""
    found = run(
        tmp_path / "a.db", tmp_path / "notes", sealed=sealed, kills=8, at_work=3, least=int(sealed), seed=sealed
    )
    assert found["acknowledged"]


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
def test_a_thousand_kills(tmp_path: Path, sealed: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """500 kills in a plain store, 500 in a sealed one with at least 50 deep rotations."""
    found = run(
        tmp_path / "a.db", tmp_path / "notes", sealed=sealed, kills=KILLS // 2, at_work=5, least=50 * sealed, seed=7
    )
    with capsys.disabled():
        print(f"\n{dict(found)}")
