"""Any message, however odd: only typed errors, no silent loss, a result for every call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew
from clew.convert import Converted, convert_messages, repair_messages
from clew.providers.neutral import encode
from tests.convert import vectors
from tests.convert.sdk import PROVIDERS, check
from tests.convert.test_pairs import assert_answered
from tests.providers.test_view import ANY

TARGETS = st.sampled_from(PROVIDERS)
SLOW = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)

# -- neutral messages: any block in any message

words = st.sampled_from(["", " ", "hello", "error: no", "é\u2028", "<system>"])
ids = st.sampled_from(["a", "b", "", "call_1", "x/y", "f", "long" * 20])
names = st.sampled_from(["f", "g", "", "a.b", "a/b", "ü", "n" * 100, "1st"])
media = st.builds(
    clew.Media,
    mime_type=st.sampled_from(["image/png", "image/heic", "audio/wav", "application/pdf", "text/csv", "video/mp4", ""]),
    modality=st.sampled_from(["image", "audio", "document", "video", "text"]),
    url=st.sampled_from([
        "data:image/png;base64,AA==", "data:text/csv,a%2Cb", "data:text/csv;base64,/w==", "data:;base64,!", "data:x",
        "https://a.test/x.png", "gs://b/c", "file:///etc/passwd", "", "https://generativelanguage.googleapis.com/f/1",
    ]),
    name=st.none() | st.just("n.pdf"),
)  # fmt: skip
extras = st.none() | st.just({"refusal": True}) | st.just({"k": 1})
opaque = st.builds(
    clew.Opaque,
    kind=st.sampled_from(["file", "server_tool_use", "later", "search_result"]),
    data=st.just({"text": "x"}),
)
inner = st.builds(clew.Text, text=words, extra=extras) | media | opaque
blocks = st.one_of(
    inner,
    st.builds(
        clew.Thinking, text=words, signature=st.none() | st.just("s"), redacted=st.none() | st.just("r"), extra=extras
    ),
    st.builds(clew.ToolCall, id=ids, name=names, arguments=st.sampled_from([{}, {"": "raw"}, {"x": [{"y": 1 << 90}]}])),
    st.builds(clew.ToolResult, call_id=ids, content=st.lists(inner, max_size=2).map(tuple), is_error=st.booleans()),
)
neutral = st.builds(
    clew.Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    blocks=st.lists(blocks, max_size=4).map(tuple),
)
native = st.sampled_from(PROVIDERS).flatmap(
    lambda name: st.sampled_from(vectors.raw(name)).map(lambda raw: clew.native(name, raw))
)


def checked(found: Converted) -> Converted:
    """Fails unless the provider would take what was written, and clew can store it."""
    for message in found.natives():
        encode(message)
    assert_answered(found.report.to, found.messages)
    return found


@SLOW
@given(st.lists(neutral, max_size=6), TARGETS)
def test_any_neutral_conversation(messages: list[clew.Message], to: str) -> None:
    """Any blocks in any order become a conversation that the SDK takes, with every call answered once, after it."""
    found = checked(convert_messages(messages, to=to))
    for message in found.messages:
        check(to, message)
    if to in ("anthropic", "gemini"):
        roles = [json.loads(message)["role"] for message in found.messages]
        assert roles == [("user", "assistant" if to == "anthropic" else "model")[at % 2] for at in range(len(roles))]
    again = repair_messages(found.messages, provider=to, system=found.system)
    assert again.messages == found.messages  # nothing is left to do
    assert not again.report


@SLOW
@given(st.lists(neutral | native, max_size=6), TARGETS)
def test_any_mixture(messages: list[Any], to: str) -> None:
    """Neutral messages and those of several providers are one conversation; what is the target's own stays so."""
    found = convert_messages(messages, to=to)
    for message in found.natives():
        encode(message)
    again = repair_messages(found.messages, provider=to, system=found.system)
    third = repair_messages(again.messages, provider=to, system=again.system)
    assert third.messages == again.messages


@SLOW
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                ["role", "content", "parts", "type", "usage", "tool_calls", "summary", "output", "call_id"]
            ),
            ANY | st.sampled_from(["user", "assistant", "model", "function_call", "reasoning", "tool"]),
        ),
        max_size=4,
    ),
    st.sampled_from([*PROVIDERS, "claude", "openai-compatible", "someone"]),
    TARGETS,
)
def test_odd_json(messages: list[dict[str, Any]], source: str, to: str) -> None:
    """Any JSON of a provider's message is converted or refused as Invalid, and the result can be stored."""
    raw = [json.dumps(message).encode() for message in messages]
    try:
        found = convert_messages(raw, source=source, to=to)
    except clew.Invalid:
        with pytest.raises(clew.Invalid):
            for one in raw:
                encode(clew.native(source, one))
        return
    for message in found.natives():
        encode(message)
    if source == "someone":
        checked(found)


# -- nothing is lost in silence

ABOUT = {
    "anthropic": {"id", "type", "model", "stop_reason", "usage"},
    "openai": {"id", "type", "index", "expires_at"},
    "openai-responses": {"id", "type", "status", "container_id", "outcome"},
    "gemini": set(),
}  # fmt: skip
"""Fields that describe an answer, and are nothing to another provider."""


def marked(value: Any, mark: Iterator[int], skip: set[str]) -> Any:
    """The data with an unknown field in every object, each with a unique value."""
    if isinstance(value, dict):
        inside = {name: inner if name in skip else marked(inner, mark, skip) for name, inner in value.items()}
        return {**inside, f"field{next(mark)}": f"MARK{next(mark)}"}
    return [marked(inner, mark, skip) for inner in value] if isinstance(value, list) else value


def leaves(value: Any, skip: set[str]) -> Iterator[str]:
    """The texts in a message."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name not in skip:
                yield from leaves(inner, skip)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, skip)
    elif isinstance(value, str):
        yield value


STRUCTURE = {
    "role", "type", "media_type", "mimeType", "format", "language", "outcome", "detail", "status", "fileUri", "url",
    "call_id", "tool_use_id", "tool_call_id", "data", "image_url", "file_data", "name", "id", "page_age",
}  # fmt: skip
"""Fields whose text is said in other words elsewhere, and is compared by the other tests."""


@pytest.mark.parametrize("source", PROVIDERS)
@pytest.mark.parametrize("to", PROVIDERS)
def test_what_is_missing_is_reported(source: str, to: str) -> None:
    """If any field of a message did not arrive, the report has an entry for it."""
    if source == to:
        return
    mark = count()
    missed = 0
    for at, message in enumerate(vectors.CONVERSATIONS[source]):
        odd = marked(message, mark, ABOUT[source] | {"input", "args", "response", "action", "arguments"})
        found = convert_messages([json.dumps(odd).encode()], source=source, to=to)
        sent = b"".join(found.messages).decode() + found.system
        lost = [text for text in leaves(odd, ABOUT[source] | STRUCTURE) if json.dumps(text)[1:-1] not in sent]
        lost = [text for text in lost if json.dumps(json.dumps(text)[1:-1])[1:-1] not in sent]
        assert not lost or found.report.count("dropped") or found.report.count("changed"), (at, lost)
        missed += len(lost)
        assert not any("field" in loss.detail or "MARK" in str(loss) for loss in found.report.losses)
    assert missed > 10, "the marks arrived: the test looks at nothing"


NESTED = {"server tool", "unknown block", "citations", "cache mark", "field", "file handle"}
"""What goes as a whole: a field inside of it is not told apart."""


@SLOW
@given(st.data())
def test_a_field_that_is_added_is_reported(data: st.DataObject) -> None:
    """An unknown field of any name and kind is in the report if it did not arrive."""
    source = data.draw(TARGETS)
    to = data.draw(st.sampled_from([name for name in PROVIDERS if name != source]))
    message = json.loads(json.dumps(data.draw(st.sampled_from(vectors.CONVERSATIONS[source]))))
    place = data.draw(st.sampled_from(list(objects(message, ABOUT[source]))))
    before = convert_messages([json.dumps(message).encode()], source=source, to=to)
    name = data.draw(st.sampled_from(["unheard", "cache_control", "text", "content", "name", "summary", "file_id"]))
    had = place.get(name)
    place[name] = {"deep": ["MARK"]}
    after = convert_messages([json.dumps(message).encode()], source=source, to=to)
    if b"MARK" in b"".join(after.messages):
        return
    known = {loss.what for loss in before.report.losses}
    assert set(after.report.losses) - set(before.report.losses) or had or known & NESTED
    assert after.report.count("dropped") + after.report.count("changed")


def objects(value: Any, skip: set[str]) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for name, inner in value.items():
            if name not in skip:
                yield from objects(inner, skip)
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner, skip)
