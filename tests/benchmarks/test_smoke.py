"""The benchmark runs: every measure once, on a very small scale. Its figures mean nothing here."""

import json
import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.__main__ import MEASURES, described, main
from benchmarks.bench import QUICK, TINY, Bench, encoded, messages
from benchmarks.measure import Figure, Side, Times, each, interleave

from benchmarks import peers


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(TINY, disk=str(tmp_path), peers=False)
    yield made
    made.close()


@pytest.mark.parametrize("name", MEASURES)
def test_measures(bench: Bench, name: str) -> None:
    """Each measure yields figures, and says of each what was asked of it."""
    figures = list(MEASURES[name](bench))
    assert figures
    for figure in figures:
        assert figure.kind == "figure", figure.detail
        assert math.isfinite(figure.value)
        assert figure.lines()[0].startswith(figure.name)
    assert any(figure.target for figure in figures)
    if name == "processes":
        assert figures[0].value == 0


def test_setting(bench: Bench) -> None:
    """The durability of clew and of the floor is told as their own connections have it."""
    setting = described(bench)
    assert "journal_mode=wal synchronous=FULL" in setting["clew"]
    assert setting["floor"].count("synchronous") == 1
    assert "synchronous=FULL" in setting["floor"]


def test_durability_is_seen(tmp_path: Path) -> None:
    """A connection that writes less safely is noticed."""
    with peers.watched() as found:
        conn = sqlite3.connect(tmp_path / "a.db")
        conn.execute("PRAGMA synchronous = OFF")
        conn.execute("CREATE TABLE t (a)")
        conn.execute("INSERT INTO t VALUES (1)")
        conn.commit()
        conn.close()
    assert found == {"journal_mode=delete synchronous=OFF"}


def test_json(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --json there is one object on stdout, and the table on stderr."""
    monkeypatch.setattr("benchmarks.__main__.QUICK", TINY)
    main(["last", "--quick", "--json", "--no-peers", "--disk", str(tmp_path)])
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["figures"][0]["target"] == "<= 3x"
    assert "last 20 of" in err
    assert list(tmp_path.iterdir()) == []


def test_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    """A measure that does not exist is a usage error that lists those that do."""
    with pytest.raises(SystemExit) as error:
        main(["nothing"])
    assert error.value.code == 2
    assert "append" in capsys.readouterr().err


def test_targets() -> None:
    """A figure meets its target or misses it; without a target it does neither."""
    assert Figure("a", 1.2, at_most=1.25).met is True
    assert Figure("a", 1.3, at_most=1.25).met is False
    assert Figure("a", 2.0, at_least=2.5).met is False
    assert Figure("a", 2.0).met is None


def test_interleaving() -> None:
    """Sides take turns in a rotating order, and the first round is not counted."""
    turns: list[str] = []
    sides: dict[str, Side] = {name: (lambda name=name: each(turns.append, name)) for name in "ab"}  # type: ignore[misc]
    times = interleave(sides, rounds=2)
    assert turns == ["a", "b", "b", "a", "a", "b"]
    assert {name: len(found) for name, found in times.rounds.items()} == {"a": 2, "b": 2}


def test_the_message_has_its_size() -> None:
    """A message is about 500 bytes as it is stored."""
    sizes = [len(body) for body in encoded(messages(200))]
    assert 450 < sum(sizes) / len(sizes) < 550
    assert QUICK.long < 100_000


def test_a_spike_is_not_a_figure() -> None:
    """One slow operation changes the sums, and not the ratio."""
    times = Times({"floor": [1.0, 1.0, 1.0], "clew": [2.0, 2.0, 90.0]}, {"floor": [1.0] * 3, "clew": [2.0, 2.0, 90.0]})
    assert times.ratio("clew") == 2.0
    assert times.fastest("clew") == 2.0
    assert times.total("clew") > 30
