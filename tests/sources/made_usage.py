"""Transcripts of Claude Code made by a generator that counts what it writes, each answer once."""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

MODELS = ("claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001", "house-model")
"""The last has no list price."""
KINDS = ("plain", "repeated", "fork", "resumed", "retried", "subagents", "synthetic", "compacted")
LANES = ("input", "cached", "cache_write", "cache_write_1h", "output", "reasoning")
START = datetime(2026, 9, 1, 8, tzinfo=UTC)


class Made:
    """A folder of transcripts, and the count by hand of the answers in them."""

    def __init__(self, folder: Path, count: int, seed: int = 1, prompts: int = 4) -> None:
        self.folder = folder
        self.total: Counter[str] = Counter()
        self.by: dict[str, dict[str, Counter[str]]] = {"day": {}, "model": {}, "project": {}}
        self.subagents: Counter[str] = Counter()
        self.lines = 0
        self._random = random.Random(seed)
        for number in range(count):
            self._transcript(KINDS[number % len(KINDS)], number, prompts)

    def _transcript(self, kind: str, number: int, prompts: int) -> None:
        project = f"/src/p{number % 5}"
        one = _Log(self, project, START + timedelta(hours=7 * number))
        for turn in range(prompts):
            one.prompt(f"Prompt {turn} of {number}")
            for _ in range(1 + self._random.randrange(3)):
                one.answer(retried=kind == "retried" and turn == 1)
            if kind == "compacted" and turn == prompts // 2:
                one.compact()
            if kind == "synthetic":
                one.synthetic()
        if kind == "repeated":
            one.lines += one.lines[len(one.lines) // 2 :]
        one.write()
        if kind in ("fork", "resumed"):
            copy = one.copy(new_ids=kind == "resumed")
            copy.prompt("And now?")
            copy.answer()
            copy.write()
        if kind == "subagents":
            for _ in range(2):
                trace = one.subagent()
                trace.prompt("Find it")
                for _ in range(3):
                    trace.answer()
                trace.write()

    def count(self, usage: dict[str, int], day: str, model: str, project: str, *, subagent: bool) -> None:
        """Adds an answer, as it is in its last line."""
        known = {**usage, "answers": 1}
        self.total.update(known)
        for name, key in (("day", day), ("model", model), ("project", project)):
            self.by[name].setdefault(key, Counter()).update(known)
        if subagent:
            self.subagents.update(known)


class _Log:
    """The lines of a file."""

    def __init__(self, made: Made, project: str, at: datetime, owner: str | None = None) -> None:
        self.made, self.project, self.at, self.owner = made, project, at, owner
        self.session = owner or self._uuid()
        self.agent = self._uuid()[:8] if owner else None
        self.lines: list[dict[str, Any]] = []
        self.last: str | None = None

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self.made._random.getrandbits(128), version=4))

    def line(self, kind: str, **fields: Any) -> dict[str, Any]:
        self.at += timedelta(seconds=1 + self.made._random.randrange(20))
        known = {
            "parentUuid": self.last, "isSidechain": self.owner is not None, "userType": "external", "cwd": self.project,
            "sessionId": self.session, "version": "2.1.325", "gitBranch": "main", "type": kind, "uuid": self._uuid(),
            "timestamp": self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"), **fields,
        }  # fmt: skip
        if self.agent:
            known["agentId"] = self.agent
        self.lines.append(known)
        self.last = known["uuid"]
        return known

    def prompt(self, words: str) -> None:
        self.line("user", message={"role": "user", "content": words})

    def answer(self, *, retried: bool = False) -> None:
        """An answer of one to four lines. Their output grows; all else is the same in each."""
        pick = self.made._random.randrange
        model = MODELS[pick(len(MODELS))]
        written, hour = pick(3) * pick(20_000), pick(2)
        output = 20 + pick(4000)
        final = {
            "input": pick(300), "cached": pick(4) * pick(90_000), "cache_write": written,
            "cache_write_1h": written * hour, "output": output, "reasoning": pick(output),
        }  # fmt: skip
        ids = {"id": f"msg_01{self._uuid().replace('-', '')[:22]}", "request": f"req_01{self._uuid()[:18]}"}
        blocks: list[dict[str, Any]] = [
            {"type": "thinking", "thinking": "…", "signature": "s"},
            {"type": "text", "text": "So."},
        ]
        blocks += [{"type": "tool_use", "id": f"toolu_{self._uuid()[:12]}", "name": "Bash", "input": {}}]
        blocks = blocks[: 1 + pick(len(blocks))]
        day = None
        for number, block in enumerate(blocks):
            share = final if number == len(blocks) - 1 else {**final, "output": 1 + number, "reasoning": 0}
            said = self.line("assistant", requestId=ids["request"], message=_message(ids["id"], model, share, block))
            day = day or said["timestamp"][:10]
        if retried:
            self.line("system", subtype="api_error", retryAttempt=1, error={})
            self.line("assistant", requestId=ids["request"], message=_message(ids["id"], model, final, blocks[-1]))
        for block in blocks:
            if block["type"] == "tool_use":
                result = {"type": "tool_result", "tool_use_id": block["id"], "content": "ok"}
                self.line("user", message={"role": "user", "content": [result]})
        assert day is not None
        self.made.count(final, day, model, self.project, subagent=self.owner is not None)

    def synthetic(self) -> None:
        """What Claude Code writes itself after a crash: no model, no tokens."""
        empty = dict.fromkeys(LANES, 0)
        words = {"type": "text", "text": "No response requested."}
        self.line("assistant", message=_message(self._uuid(), "<synthetic>", empty, words))

    def compact(self) -> None:
        """A compaction: the chain begins again, with a summary."""
        self.line("system", subtype="compact_boundary", logicalParentUuid=self.last, compactMetadata={})
        self.lines[-1]["parentUuid"] = None
        self.line("user", isCompactSummary=True, message={"role": "user", "content": "What was said."})

    def copy(self, *, new_ids: bool) -> _Log:
        """The lines again in another file: with their ids, as in a fork, or with new ones, as old versions resumed."""
        other = _Log(self.made, self.project, self.at)
        names: dict[str | None, str | None] = {None: None}
        for line in self.lines:
            names[line["uuid"]] = other._uuid() if new_ids else line["uuid"]
            above = names.get(line["parentUuid"])
            other.lines.append({**line, "sessionId": other.session, "uuid": names[line["uuid"]], "parentUuid": above})
        other.last = names[self.last]
        return other

    def subagent(self) -> _Log:
        return _Log(self.made, self.project, self.at, owner=self.session)

    def write(self) -> None:
        folder = self.made.folder / "projects" / self.project.replace("/", "-")
        if self.owner:
            folder = folder / self.owner / "subagents"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / (f"agent-{self.agent}.jsonl" if self.owner else f"{self.session}.jsonl")
        path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in self.lines))
        self.made.lines += len(self.lines)


def _message(id: str, model: str, lanes: dict[str, int], block: dict[str, Any]) -> dict[str, Any]:
    hour = lanes["cache_write_1h"]
    usage = {
        "input_tokens": lanes["input"], "cache_creation_input_tokens": lanes["cache_write"],
        "cache_read_input_tokens": lanes["cached"], "output_tokens": lanes["output"],
        "cache_creation": {
            "ephemeral_5m_input_tokens": lanes["cache_write"] - hour, "ephemeral_1h_input_tokens": hour,
        },
        "output_tokens_details": {"thinking_tokens": lanes["reasoning"]}, "service_tier": "standard",
    }  # fmt: skip
    return {"id": id, "type": "message", "role": "assistant", "model": model, "content": [block],
            "stop_reason": None, "usage": usage}  # fmt: skip
