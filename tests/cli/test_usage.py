"""`clew usage` and `clew statusline`: tokens and cost as people and status bars see them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli.output.statusline import status_line
from clew.engine.node import node_row
from clew.providers.prices import Prices
from clew.sources import find, import_all
from clew.store.parts import Parts
from clew.store.usage import conversation_usage
from tests.sources.made_usage import LANES, Made

OPUS, HOUSE = "claude-opus-4-5", "house-model"


@pytest.fixture
def filled(db: str) -> str:
    """Three answers on two days: one with a list price, one without, one with a cost that a tool noted."""
    with clew.open(db) as store:
        one = store.sessions.create(cwd="/src/app", extra={"source": {"tool": "pi", "id": "x"}})
        used = clew.Usage(input=1_000_000, output=100_000, cached=2_000_000)
        at = datetime(2026, 5, 1, 12, tzinfo=UTC)
        one.append(clew.user("A"), created_at=at)
        one.append(clew.assistant("B", model=OPUS, usage=used), created_at=at)
        at = datetime(2026, 6, 3, 12, tzinfo=UTC)
        one.append(clew.assistant("C", model=HOUSE, usage=clew.Usage(input=10, output=5)), created_at=at)
        other = store.sessions.create(cwd="/src/lib")
        noted = clew.Usage(input=10, output=5, cost=500_000)
        other.append(clew.assistant("D", model=OPUS, usage=noted), created_at=at)
    return db


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("by", "rows"),
    [
        ("day", {"2026-05-01": 8_500_000, "2026-06-03": 500_000}),
        ("week", {"2026-04-27": 8_500_000, "2026-06-01": 500_000}),
        ("month", {"2026-05": 8_500_000, "2026-06": 500_000}),
        ("model", {OPUS: 9_000_000, HOUSE: None}),
        ("project", {"/src/app": 8_500_000, "/src/lib": 500_000}),
        ("tool", {"pi": 8_500_000, "": 500_000}),
    ],
)
def test_by(clew_cli: Any, by: str, rows: dict[str, int | None]) -> None:
    """Rows by time are in order; a cost is the noted one, else the list price, and null where neither is known."""
    found = clew_cli("usage", "--by", by, "--json", env={"TZ": "UTC"}).json
    assert {row[by]: row["cost"] for row in found["rows"]} == rows
    assert (found["total"]["cost"], found["total"]["cost_noted"], found["total"]["cost_unknown"]) == (
        9_000_000, 500_000, 1,
    )  # fmt: skip
    assert found["total"]["tokens"] == 3_100_030
    assert found["prices"] == Prices().date


def test_models_have_short_names(clew_cli: Any, db: str) -> None:
    """A model is called as people call it, and by its whole name where two would be called the same."""
    with clew.open(db) as store:
        session = store.sessions.create()
        for model in (OPUS, "gemini-2.5-pro@20260101", "gemini-2.5-pro"):
            session.append(clew.assistant("A", model=model, usage=clew.Usage(input=10, output=5)))
    for command in (("usage", "--by", "model"), ("stats",)):
        out = clew_cli(*command, env={"COLUMNS": "120"}).out
        assert "Opus 4.5 " in out
        assert OPUS not in out
        assert "gemini-2.5-pro@20260101 " in out


@pytest.mark.usefixtures("filled")
def test_as_text(clew_cli: Any) -> None:
    """Bars, the day of the prices, and what is unknown once; at most 80 columns."""
    lines = clew_cli("usage", env={"COLUMNS": "80", "TZ": "UTC"}).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["day", "answers", "input", "cached", "written", "output", "cost"]
    assert lines[1].split()[:7] == ["2026-05-01", "1", "1.0M", "2.0M", "0", "100.0k", "$8.50"]
    assert "█" in lines[1]
    assert lines[3].split()[-1] == "$9.00+"
    assert lines[4] == f"Cost $0.50 as the tools noted it, $8.50 at list price of {Prices().date}."
    assert lines[5] == f"Cost unknown for 1 answer of {HOUSE}."
    assert clew_cli("usage", "--since", "2026-06-01", "--project", "/src/lib").out.count("2026-06-03") == 1
    assert "No answers. Leave out --since" in clew_cli("usage", "--since", "2027-01-01").err


@pytest.mark.usefixtures("filled")
def test_a_users_own_prices(clew_cli: Any) -> None:
    """A price that the user has set takes precedence over the list, and is read strictly."""
    assert clew_cli("config", "set", f"prices.{HOUSE}", "three").code == 2
    assert clew_cli("config", "set", f"prices.{HOUSE}", "input=100000 output=200000").code == 0
    found = clew_cli("usage", "--by", "model", "--json").json
    assert {row["model"]: row["cost"] for row in found["rows"]} == {OPUS: 9_000_000, HOUSE: 2_000_000}
    assert clew_cli("stats", "--json").json["total"]["cost"] == 11_000_000


def test_one_conversation(clew_cli: Any, db: str, tmp_path: Path) -> None:
    """Its subagents have lines of their own, and are in its total."""
    made = Made(tmp_path / ".claude", 6, prompts=2)
    with clew.open(db) as store:
        list(import_all(store, find([str(made.folder)])))
        (session,) = (one for one in store.sessions.list().items if one.subagents())
        handle, total = session.handle, conversation_usage(session).total
    found = clew_cli("usage", handle, "--json").json
    assert sum(one["answers"] for one in found["subagents"].values()) == made.subagents["answers"]
    assert [found["total"][lane] for lane in LANES] == list(total.lanes)
    assert clew_cli("usage", handle).out.count("subagent ") == 2
    assert clew_cli("usage", handle, "--since", "2d").code == 2


def test_damaged_and_uncounted_answers_of_a_conversation(clew_cli: Any, db: str) -> None:
    """Both are reported below the table, and a damaged one ends with exit code 7; so does the table of all."""
    with clew.open(db) as store:
        session = store.sessions.create()
        session.append([clew.assistant("A", model=OPUS), clew.assistant("B", usage=clew.Usage(input=1, output=1))])
        handle = session.handle
        assert clew_cli("usage", handle).code == 0
        row = node_row(session.path()[1])[0]
        Parts.of(store).engine.write(lambda tx: tx.maintenance.set_bodies("nodes", [(b"spoiled", row)]))
    for arguments in ([handle], []):
        done = clew_cli("usage", *arguments)
        assert (done.code, "Tokens unknown for 1 answer." in done.out) == (7, True)
        assert "1 damaged message. List them with: clew verify" in done.out
    assert clew_cli("usage", handle, "--json").json["damaged"] == 1


def test_the_origins_of_a_cost(clew_cli: Any, db: str) -> None:
    """Noted costs, own prices and list prices are named apart; one noted answer is not "all of it"."""
    used = clew.Usage(input=10, output=5)
    with clew.open(db) as store:
        session = store.sessions.create()
        session.append([clew.assistant("A", usage=clew.Usage(input=1, output=1, cost=2_000_000))])
        session.append([clew.assistant("B", model=HOUSE, usage=used)])
        handle = session.handle
    lines = clew_cli("usage", handle).out.splitlines()
    assert lines[-2:] == ["Cost as the tools noted it.", f"Cost unknown for 1 answer of {HOUSE}."]
    clew_cli("config", "set", f"prices.{HOUSE}", "input=100000 output=200000")
    origins = "$2.00 as the tools noted it, $2.00 at your own prices"
    assert clew_cli("usage", handle).out.splitlines()[-1] == f"Cost {origins}."
    assert f"Cost {origins}." in clew_cli("usage").out
    assert f"$4.00  {origins}" in clew_cli("stats").out
    total = clew_cli("usage", "--json").json["total"]
    assert [total[f"cost_{name}"] for name in ("noted", "own", "listed")] == [2_000_000, 2_000_000, 0]


def test_an_explanation(clew_cli: Any) -> None:
    """It needs no store."""
    assert "Each answer counts once." in clew_cli("usage", "--explain").out


def test_a_status_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the agent says of itself comes first; the rest is read from its transcript, or from the latest one here."""
    made = Made(tmp_path, 1)
    (path,) = made.folder.glob("projects/*/*.jsonl")
    read = sum(made.total[lane] for lane in ("input", "cached", "cache_write"))
    told = {"transcript_path": str(path), "model": {"display_name": "Opus\x1b[31m"}, "cost": {"total_cost_usd": 1.5},
            "context_window": {"used_percentage": 41.6}}  # fmt: skip
    line = status_line(json.dumps(told).encode(), "/", Prices)
    assert line.startswith("Opus")
    assert "\x1b" not in line
    assert "$1.50" in line
    assert f"{read / 1_000_000:.1f}M in" in line or f"{read / 1000:.1f}k in" in line
    assert line.endswith("context 42%")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    assert " out · context " in status_line(b"", "/src/p0", Prices)
    for odd in (b"", b"[]", b"{", b'{"transcript_path": 5, "model": [], "cost": {"total_cost_usd": "x"}}'):
        assert status_line(odd, "/nowhere", Prices) == ""


def test_a_status_line_of_a_hostile_transcript(tmp_path: Path) -> None:
    """A line that is nested too deeply is skipped, and the others count."""
    message = {"role": "assistant", "model": OPUS, "usage": {"input_tokens": 10, "output_tokens": 5}}
    nested = '{"message":{"role":"assistant","usage":' + "[" * 200_000
    path = tmp_path / "a.jsonl"
    path.write_text(f"{nested}\n{json.dumps({'message': message})}\n")
    told = json.dumps({"transcript_path": str(path), "model": {"display_name": "Opus"}})
    assert "10 in · 5 out" in status_line(told.encode(), "/", Prices)


def test_a_status_line_is_quick(tmp_path: Path) -> None:
    """It loads neither click nor the store, and does not fail without input."""
    code = "import sys; sys.argv = ['clew', 'statusline']; from clew.cli import main; main(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
    )  # fmt: skip
    first, loaded = done.stdout.splitlines()
    assert first == ""
    assert not {"click", "sqlite3", "clew.store.store", "clew.cli.root", "tomllib"} & set(loaded.split())
