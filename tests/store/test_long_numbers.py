"""A number with more digits than Python converts is kept as it was written, and stops no reader."""

from __future__ import annotations

from pathlib import Path

import pytest

import clew
from clew.agents import jsonl
from clew.errors import Invalid
from clew.mcp import answers
from clew.providers.wire import load

LONG = "9" * 5000
NATIVE = {
    "anthropic": '{"role":"user","content":[{"type":"text","text":"x","n":%s}],"usage":{"input_tokens":%s}}',
    "openai": '{"role":"user","content":"x","n":%s,"m":-%s}',
    "gemini": '{"role":"user","parts":[{"text":"x"}],"n":[%s,%s]}',
    "other": '{"role":"user","content":"x","n":%s,"m":{"n":%s}}',
}


@pytest.mark.parametrize("provider", NATIVE)
def test_in_a_native_message(path: Path, provider: str) -> None:
    """A native message keeps its bytes; listed, searched, converted, sent and verified, it is as any other."""
    raw = (NATIVE[provider] % (LONG, LONG)).encode()
    with clew.open(path) as store:
        session = store.sessions.create(title="long")
        session.append(clew.native(provider, raw))
        session.append(clew.user("after"))
        (first, _) = session.path()
        assert first.said.raw == raw  # type: ignore[union-attr]
        assert first.message.role == "user"
        assert [one.title for one in store.sessions.list().items] == ["long"]
        assert len(store.search("after")) == 1
        assert answers.overview(store, session.id)
        assert load(raw)
        assert store.verify().ok


def test_in_an_event(path: Path) -> None:
    """A line of an agent's transcript, or of an import, is kept; read, the number is its text."""
    raw = jsonl.compact('{"uuid": "a", "n": ' + LONG + ', "half": "\\ud800"}')
    assert jsonl.decode(raw)["n"] == LONG
    assert jsonl.decode(jsonl.compact('{"n": ' + LONG + "}")) == {"n": LONG}
    assert jsonl.fields(raw)["uuid"] == b'"a"'


@pytest.mark.parametrize("value", [10**5000, [-(10**5000)], {"n": 10**4301}], ids=["one", "list", "object"])
def test_in_free_data(path: Path, value: object) -> None:
    """A number that JSON cannot carry is refused before anything is written."""
    with clew.open(path) as store:
        session = store.sessions.create()
        with pytest.raises(Invalid):
            session.append(clew.user("x", extra={"n": value}))
        with pytest.raises(Invalid):
            session.update(extra={"n": value})
        with pytest.raises(Invalid):
            store.sessions.create(extra={"n": value})
        assert session.path() == []
