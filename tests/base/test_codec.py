"""Messages to bytes and back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.base import codec
from clew.providers.neutral import encode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc\"\\\n", max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
EXTRA = st.none() | st.dictionaries(WORDS, JSON, max_size=3)
TEXTS = st.builds(clew.Text, text=WORDS, extra=EXTRA)
BLOCK = st.one_of(
    TEXTS,
    st.builds(clew.Thinking, text=WORDS, signature=st.none() | WORDS, redacted=st.none() | WORDS, extra=EXTRA),
    st.builds(clew.ToolCall, id=WORDS, name=WORDS, arguments=st.dictionaries(WORDS, JSON, max_size=3), extra=EXTRA),
    st.builds(clew.ToolResult, call_id=WORDS, content=st.lists(TEXTS, max_size=2).map(tuple), is_error=st.booleans()),
    st.builds(
        clew.Media, mime_type=WORDS, modality=st.sampled_from(["image", "audio", "video", "document"]), url=WORDS
    ),
    st.builds(clew.Opaque, kind=WORDS, data=JSON),
)
COUNT = st.none() | st.integers(0, 10**12)
USAGE = st.none() | st.builds(clew.Usage, input=COUNT, output=COUNT, cached=COUNT, reasoning=COUNT, cost=COUNT)
MESSAGE = st.builds(
    clew.Message, st.sampled_from(["system", "user", "assistant", "tool"]), st.lists(BLOCK, max_size=4).map(tuple),
    st.none() | WORDS, USAGE, st.none() | WORDS, EXTRA,
)  # fmt: skip


def round_trip(said: clew.Message | clew.Native) -> clew.Message | clew.Native:
    return codec.decode(encode(said).payload, "here")


@pytest.mark.checklist("D4")
@given(MESSAGE)
def test_neutral_messages_come_back(message: clew.Message) -> None:
    """Every neutral message, with free data at message and block level, comes back equal."""
    assert round_trip(message) == message


@given(JSON, st.sampled_from(["anthropic", "openai", "gemini", "someone"]), st.integers(0, 4))
def test_native_json_comes_back_byte_for_byte(data: Any, provider: str, indent: int) -> None:
    """A native message is the very bytes that were given, whatever its white space."""
    raw = json.dumps({"role": "user", "data": data}, indent=indent or None, ensure_ascii=indent % 2 == 0).encode()
    kept = round_trip(clew.native(provider, raw))
    assert isinstance(kept, clew.Native)
    assert kept.raw == raw


@pytest.mark.parametrize(
    "raw",
    [
        b'{"z":1,"a":2,"content":"x"}',
        b' {\t"a" :\r\n 1 } \n',
        b'{"n":123456789012345678901234567890,"f":1.0,"e":1E5,"m":-0,"d":0.10}',
        b'{"a":1,"a":2}',
        b'{"u":"\\u00e9\\/\\ud83d\\ude00","nul":"\\u0000"}',
        '{"é":"漢字\u2028"}'.encode(),
        b'{"role":"user","content":[{"type":"future_block","x":{"y":[1]}}],"unknown":null}',
    ],
)
def test_native_bytes_are_never_rewritten(raw: bytes) -> None:
    """Key order, white space, big integers, number forms, escapes, duplicate keys and unknown fields stay."""
    kept = round_trip(clew.native("anthropic", raw, label="l", extra={"k": 1}))
    assert kept == clew.Native("anthropic", raw, "l", {"k": 1})


def test_the_first_byte_says_how_it_was_written() -> None:
    """Bodies begin with a tag; one that is not known is damage, and so is none at all."""
    assert encode(clew.user("x")).payload[0] == codec.NEUTRAL == 1
    assert encode(clew.native("x", b"{}")).payload[0] == codec.NATIVE == 2
    for bad in (
        b"",
        b"\x00{}",
        b"\x03{}",
        b"\x01",
        b"\x01{",
        b"\x01[]",
        b"\x01{}",
        b"\x02",
        b"\x02\xff\xff\xff\xff",
        b"\x01\xff",
    ):
        with pytest.raises(clew.Corrupted, match="here"):
            codec.decode(bad, "here")


@pytest.mark.checklist("D22")
@given(st.binary(max_size=60))
def test_any_bytes_decode_or_are_damage(payload: bytes) -> None:
    """Bytes that nobody wrote are damage, never another error."""
    for tag in (b"", b"\x01", b"\x02"):
        try:
            codec.decode(tag + payload, "here")
        except clew.Corrupted:
            continue


def test_blocks_of_a_later_clew_survive_as_opaque() -> None:
    """A block of an unknown kind keeps its data as opaque, in a message and in a tool's answer; the rest is as ever."""
    known = {"type": "text", "text": "hello"}
    later = {"type": "hologram", "depth": [1, 2], "extra": {"a": 1}}
    result = {"type": "tool_result", "call_id": "c", "content": [known, later]}
    payload = b"\x01" + msgspec.json.encode({"role": "user", "blocks": [known, later, result], "extra": {"k": 1}})
    opaque = clew.Opaque(kind="hologram", data={"depth": [1, 2], "extra": {"a": 1}})
    text = clew.Text(text="hello")
    read = codec.decode(payload, "here")
    assert read == clew.Message(
        "user", (text, opaque, clew.ToolResult(call_id="c", content=(text, opaque))), extra={"k": 1}
    )
    assert round_trip(read) == read


def test_fields_of_a_later_clew_do_not_hinder() -> None:
    """Fields that this clew does not know are passed over when reading."""
    payload = b'\x01{"role":"user","mood":"fine","blocks":[{"type":"text","text":"x","font":"serif"}]}'
    assert codec.decode(payload, "here") == clew.user("x")


def test_lists_and_tuples_are_the_same() -> None:
    """What is given as a tuple comes back as a list, and a list of blocks as a tuple: nothing is lost."""
    said = clew.Message("user", [clew.Text(text="x")], extra={"pair": (1, (2, 3))})  # type: ignore[arg-type]
    assert round_trip(said) == clew.user("x", extra={"pair": [1, [2, 3]]})


def test_usage_and_blobs_are_told_without_reading_again() -> None:
    """Encoding says which tokens a message counts, and which blobs it shows; native usage is read too."""
    shown = clew.Media(mime_type="image/png", modality="image", blob="d" * 64)
    encoded = encode(clew.user(shown, clew.ToolResult(call_id="c", content=(shown,))))
    assert (encoded.usage, encoded.blobs) == ((None, None, None), frozenset({"d" * 64}))
    raw = b'{"role":"assistant","content":"x","usage":{"input_tokens":3,"output_tokens":4}}'
    assert encode(clew.native("anthropic", raw)).usage == (3, 4, None)


def test_nesting_has_a_limit_that_the_stack_does_not_change() -> None:
    """Data may be nested 200 levels; what was stored can be read from deep within a program, near 1,000 calls down."""

    def deep(levels: int) -> Any:
        data: Any = "[{" * 500
        for _ in range(levels):
            data = [data, "}]"]
        return data

    payload = encode(clew.user("x", extra={"d": deep(codec.MAX_DEPTH - 2)})).payload

    def down(levels: int) -> object:
        return down(levels - 1) if levels else codec.decode(payload, "here")

    assert down(500) == clew.user("x", extra={"d": deep(codec.MAX_DEPTH - 2)})
    for said in (
        clew.user("x", extra={"d": deep(codec.MAX_DEPTH)}),
        clew.native("x", b'{"d":' + msgspec.json.encode(deep(codec.MAX_DEPTH)) + b"}"),
        clew.native("x", b'{"d":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    ):
        with pytest.raises(clew.Invalid, match="nested"):
            encode(said)
