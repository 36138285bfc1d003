"""Tokens are counted once: not for each line of an answer, each copy of it, or each file that repeats it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.sources import find, import_all
from clew.store.stats import stats
from clew.store.usage import Spent, conversation_usage
from tests.sources.made import SESSION, claude_line, jsonl
from tests.sources.made_usage import LANES, Made
from tests.sources.samples import APPS, SAMPLES, Sample
from tests.sources.samples.recorded import RECORDED

EVERY = [*SAMPLES, *APPS, *RECORDED]
COUNTED = {
    "claude-code": (10, 5), "codex": (110, 55), "codex-old": (35, 10), "llm": (130, 65), "copilot-cli": (0, 29),
    "vscode-document": (120, 30), "vscode-log": (120, 30), "cursor-editor": (90, 7), "open-webui-export": (32, 13),
    "open-webui-database": (32, 13), "librechat-flat": (0, 11), "librechat-nested": (0, 11), "lm-studio": (30, 8),
    "otel": (50, 11), "gemini-cli": (80, 40), "opencode": (80, 40), "pi": (50, 25), "qwen-code": (50, 25),
    "cline": (30, 15), "continue": (80, 40), "aider": (7000, 90),
    "langgraph": (5, 2), "agno": (5, 2), "agno-old": (5, 2),
}  # fmt: skip
"""Tokens in and out of all answers of a sample; formats that are not here have none."""


def used(store: clew.Store) -> tuple[int, int]:
    total = stats(store).total
    return total.tokens_in, total.tokens_out


@pytest.mark.parametrize("sample", EVERY, ids=repr)
def test_tokens_are_counted_once(sample: Sample, tmp_path: Path) -> None:
    """The sums are those of the sample, also after a second import and in the other order of files."""
    sample.write(tmp_path / "in")
    with clew.open(tmp_path / "a.db") as one, clew.open(tmp_path / "b.db") as other:
        for _ in range(2):
            list(import_all(one, find([str(tmp_path / "in")]), again=True))
            assert used(one) == COUNTED.get(sample.name, (0, 0))
        list(import_all(other, reversed(list(find([str(tmp_path / "in")])))))
        assert used(other) == COUNTED.get(sample.name, (0, 0))


def claude(line: dict[str, Any]) -> tuple[object, dict[str, Any] | None]:
    message = line.get("message") or {}
    return message.get("id"), message.get("usage")


def codex(line: dict[str, Any]) -> tuple[object, dict[str, Any] | None]:
    payload = line["payload"] if line.get("type") == "token_usage_record" else {}
    return line.get("timestamp"), payload.get("usage")  # the fake server gives every response the same id


def gemini(line: dict[str, Any]) -> tuple[object, dict[str, Any] | None]:
    return line.get("id"), line.get("tokens")


def pi(line: dict[str, Any]) -> tuple[object, dict[str, Any] | None]:
    return (line.get("id"), line.get("timestamp")), (line.get("message") or {}).get("usage")


def qwen(line: dict[str, Any]) -> tuple[object, dict[str, Any] | None]:
    return (line.get("uuid"), line.get("timestamp")), line.get("usageMetadata")


Answer = Callable[[dict[str, Any]], tuple[object, dict[str, Any] | None]]
LOGS: dict[str, tuple[Answer, str, str]] = {
    "claude-code": (claude, "input_tokens", "output_tokens"),
    "codex": (codex, "input_tokens", "output_tokens"),
    "gemini-cli": (gemini, "input", "output"),
    "pi": (pi, "input", "output"),
    "qwen-code": (qwen, "promptTokenCount", "candidatesTokenCount"),
}


@pytest.mark.parametrize("name", LOGS)
def test_the_sums_are_those_of_the_files(name: str) -> None:
    """The largest count of each answer, added up by a plain reading of the lines, is what the table above has."""
    (sample,) = (one for one in EVERY if one.name == name)
    answer, *names = LOGS[name]
    found: dict[object, list[int]] = {}
    for data in sample.files.values():
        for line in data.splitlines():
            key, usage = answer(json.loads(line))
            if usage:
                before = found.get(key, [0, 0])
                found[key] = [max(before[at], usage.get(names[at]) or 0) for at in range(2)]
    assert tuple(map(sum, zip(*found.values(), strict=True))) == COUNTED[name]


def counted(spent: Spent) -> Counter[str]:
    return Counter({**dict(zip(LANES, spent.lanes, strict=True)), "answers": spent.answers})


@pytest.mark.parametrize("transcripts", [24, 200])
def test_made_transcripts(transcripts: int, tmp_path: Path) -> None:
    """Answers split over lines, repeated, forked, resumed, retried, and of subagents: every lane, to the token.

    In total, by day, model and project, and for subagents, the sums are those that the generator counted.
    """
    made = Made(tmp_path / ".claude", transcripts)
    with clew.open(tmp_path / "a.db") as store:
        list(import_all(store, find([str(made.folder)])))
        found = stats(store)
        total = Counter[str]()
        for group, spent in found.usage.items():
            one = counted(spent)
            total.update(one)
            for name, table in made.by.items():
                table[getattr(group, name)].subtract(one)
            if group.subagent:
                made.subagents.subtract(one)
        assert total == made.total
        assert not any(any(rest.values()) for table in made.by.values() for rest in table.values())
        assert not any(made.subagents.values())
        assert found.total.tokens_in == sum(made.total[lane] for lane in ("input", "cached", "cache_write"))
        assert found.by_model["house-model"].cost_unknown == found.total.cost_unknown > 0


def test_a_conversation_with_subagents(tmp_path: Path) -> None:
    """Each subagent has a line of its own, and the total of the conversation has them all, each answer once."""
    made = Made(tmp_path / ".claude", 6)
    with clew.open(tmp_path / "a.db") as store:
        list(import_all(store, find([str(made.folder)])))
        (session,) = (one for one in store.sessions.list().items if one.subagents())
        found = conversation_usage(session)
        assert list(found.subagents) == [one.id for one in session.subagents()]
        parts = [found.own, *found.subagents.values()]
        assert sum(map(counted, parts), Counter()) == counted(found.total)
        assert sum(map(counted, found.subagents.values()), Counter()) == +made.subagents
        assert sum(map(counted, found.models.values()), Counter()) == counted(found.total)
        assert found.priced_on is not None


@pytest.mark.parametrize(("state", "cost"), [({}, 420_000), ({"hasUnknownModelCost": True}, None)])
def test_the_sum_that_claude_code_noted(state: dict[str, Any], cost: int | None, tmp_path: Path) -> None:
    """The last cost of a conversation is the one that is shown for it, unless a part of it is unknown."""
    message = {"id": "msg_1", "model": "house-model", "usage": {"input_tokens": 10, "output_tokens": 5}}
    noted = {"type": "cost-state", "sessionId": SESSION}
    lines = [
        claude_line(1, None, "user", "Hello"),
        {**noted, "totalCostUSD": 0.1},
        claude_line(2, 1, "assistant", [{"type": "text", "text": "Hi"}], message=message),
        {**noted, "totalCostUSD": 0.42, **state},
    ]
    (tmp_path / "projects/p").mkdir(parents=True)
    (tmp_path / f"projects/p/{SESSION}.jsonl").write_bytes(jsonl(lines if not state else [lines[0], *lines[2:]]))
    with clew.open(tmp_path / "a.db") as store:
        list(import_all(store, find([str(tmp_path)])))
        total = conversation_usage(store.sessions.get(SESSION)).total
        assert (round(total.cost) if not total.unpriced else None) == cost
        assert total.lanes.total == 15
