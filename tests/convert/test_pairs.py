"""Conversations of each provider, converted to each other one, as the other's SDK reads them."""

from __future__ import annotations

import json
from itertools import pairwise, permutations
from typing import Any

import pytest

from clew.convert import Converted, convert_messages, repair_messages
from tests.convert import vectors
from tests.convert.sdk import PROVIDERS, check

PAIRS = list(permutations(PROVIDERS, 2))


def carried(raw: tuple[bytes, ...] | list[bytes]) -> str:
    return b"\n".join(raw).decode()


@pytest.mark.parametrize(("source", "to"), PAIRS)
def test_the_other_sdk_takes_it(source: str, to: str) -> None:
    """Every message is one that the SDK's own types accept, whole."""
    found = convert_messages(vectors.raw(source), source=source, to=to, system="Be kind.")
    for message in found.messages:
        check(to, message)


@pytest.mark.parametrize(("source", "between"), PAIRS)
def test_there_and_back(source: str, between: str) -> None:
    """A conversation that went elsewhere and came home is one that its first provider accepts."""

    def there_and_back(said: Converted) -> Converted:
        there = convert_messages(said.messages, source=source, to=between, system=said.system)
        return convert_messages(there.messages, source=between, to=source, system=there.system)

    home = there_and_back(convert_messages(vectors.raw(source), source=source, to=source))
    for message in home.messages:
        check(source, message)
    assert there_and_back(home).messages == home.messages  # what was lost is lost once


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_same_provider_is_byte_for_byte(provider: str) -> None:
    """A conversion to the same provider changes and reports nothing."""
    raw = vectors.raw(provider)
    found = convert_messages(raw, source=provider, to=provider, system="Be kind.")
    assert (list(found.messages), found.system, bool(found.report)) == (raw, "Be kind.", False)


@pytest.mark.parametrize(("source", "to"), PAIRS)
def test_what_was_converted_needs_no_repair(source: str, to: str) -> None:
    """Repairing a converted conversation changes nothing."""
    found = convert_messages(vectors.raw(source), source=source, to=to)
    repaired = repair_messages(found.messages, provider=to, system=found.system)
    assert repaired.messages == found.messages
    assert not repaired.report


@pytest.mark.parametrize(("source", "to"), PAIRS)
def test_no_proof_of_one_provider_reaches_another(source: str, to: str) -> None:
    """Signatures, encrypted reasoning and handles of files stay behind, and the report says so."""
    found = convert_messages(vectors.raw(source), source=source, to=to)
    sent = carried(found.messages)
    secrets = (
        "EqQBCkYIBxgCKkA", "EmwKAhgBEgy3va3p", "EqgfCioIARgB", "Eo8B", "gAAAAABo", "gQQcompact", "AVSoXO4=", "AVSoXO5=",
        "file_011", "file-abc", "rs_1", "msg_1", "fc_1",
    )  # fmt: skip
    assert [secret for secret in secrets if secret in sent] == []
    if source != "openai":
        assert found.report.count("dropped", "signature") + found.report.count("dropped", "encrypted reasoning")


WORDS = {
    "anthropic": ["Why is the build failing?", "I look at two files.", "read_file", "setup.cfg", "no such file",
                  "the screen", "And this?", "https://pictures.test/a.jpg", "https://papers.test/paper.pdf",
                  "plain words", "a chunk", "The lint step fails.", "Fix it.", "lint E501", "The log will say.",
                  "12345678901234567890123", vectors.PNG, vectors.PDF],
    "openai": ["Why is the build failing?", "max-line-length = 79", "{not json", "print(1)", "Lint.", "French",
               "Look and listen.", vectors.PNG, "https://pictures.test/a", vectors.PDF, "I cannot help with that.",
               "Bonjour.", "still works", "Merci.", "Line length, so lint."],
    "openai-responses": ["Look at the log.", "I look.", "read_file", "max-line-length = 79", "the screen", "E501",
                         "a.py", "print(1)", "I cannot help with that.", "https://papers.test/paper.pdf", vectors.PDF],
    "gemini": ["The log will say.", "I look.", "79", "no such file", "width", "print(1)", "Lint.", vectors.PNG,
               "https://www.youtube.com/watch?v=1", "And these?", vectors.PDF],
}  # fmt: skip


@pytest.mark.parametrize(("source", "to"), PAIRS)
def test_words_pictures_and_documents_arrive(source: str, to: str) -> None:
    """Everything that the other provider can express arrives."""
    found = convert_messages(vectors.raw(source), source=source, to=to)
    sent = carried(found.messages).replace("\\\\", "").replace('\\"', '"')
    assert [words for words in WORDS[source] if words not in sent] == []


@pytest.mark.parametrize(("source", "to"), PAIRS)
def test_every_call_is_answered_right_after_it(source: str, to: str) -> None:
    """The results of a turn's calls follow it, each once, with ids that the target accepts."""
    found = convert_messages(vectors.raw(source), source=source, to=to)
    assert_answered(to, found.messages)


def assert_answered(provider: str, raw: Any) -> None:
    """Fails unless the results after each turn are those of its calls."""
    open_calls: list[str] = []
    seen: set[str] = set()
    for message in map(json.loads, raw):
        calls, results = calls_and_results(provider, message)
        if calls and not (provider == "openai-responses" and open_calls and not results):
            assert open_calls == []
        if results:
            assert len(results) == len(set(results))
            assert set(results) <= set(open_calls)
            open_calls = [call for call in open_calls if call not in results]
            if provider in ("anthropic", "gemini"):
                assert open_calls == []
        elif not calls and message.get("role") != "assistant":  # in Responses a turn is several items
            assert open_calls == [], "something else was said before the results"
        assert not seen & set(calls) or provider == "gemini"
        seen |= set(calls)
        open_calls += calls
    assert open_calls == []


def calls_and_results(provider: str, message: dict[str, Any]) -> tuple[list[str], list[str]]:
    if provider == "openai":
        calls = [call["id"] for call in message.get("tool_calls", ())]
        return calls, [message["tool_call_id"]] if message["role"] == "tool" else []
    if provider == "openai-responses":
        kind, ident = message.get("type"), message.get("call_id", "")
        return [ident] if kind == "function_call" else [], [ident] if kind == "function_call_output" else []
    if provider == "anthropic":
        blocks = message["content"]
        return (
            [block["id"] for block in blocks if block["type"] == "tool_use"],
            [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"],
        )
    called = [part["functionCall"] for part in message["parts"] if "functionCall" in part]
    told = [part["functionResponse"] for part in message["parts"] if "functionResponse" in part]
    return [one.get("id", one["name"]) for one in called], [one.get("id", one["name"]) for one in told]


@pytest.mark.parametrize(("source", "to"), [pair for pair in PAIRS if pair[1] in ("anthropic", "gemini")])
def test_turns_alternate(source: str, to: str) -> None:
    """If the target requires alternating turns that start with the user, they are."""
    found = convert_messages(vectors.raw(source), source=source, to=to)
    roles = [json.loads(message)["role"] for message in found.messages]
    assert roles[0] == "user"
    assert all(one != other for one, other in pairwise(roles))


def test_the_system_prompt_is_where_the_target_wants_it() -> None:
    """A parameter for Anthropic, Gemini and Responses, the first message for chat completions; never twice."""
    said: list[dict[str, Any]] = [{"role": "system", "content": "Be terse."}, {"role": "user", "content": "Hi"}]
    raw = [json.dumps(message).encode() for message in said]
    for to in ("anthropic", "gemini"):
        found = convert_messages(raw, source="openai", to=to, system="Be terse.")
        assert (found.system, len(found.messages)) == ("Be terse.", 1)
    hello = [b'{"role":"user","content":"Hi"}']
    found = convert_messages(hello, source="anthropic", to="openai", system="Be terse.")
    assert json.loads(found.messages[0]) == said[0]
    assert found.system == "Be terse."
    assert convert_messages(hello, source="anthropic", to="openai").system == ""
    assert len(convert_messages(hello, source="anthropic", to="openai").messages) == 1


def test_gemini_demands_signatures_and_gets_placeholders() -> None:
    """The first call of each turn that another model made carries what Google takes for a signature; no more do."""
    found = convert_messages(vectors.raw("anthropic"), source="anthropic", to="gemini")
    parts = [part for message in map(json.loads, found.messages) for part in message["parts"] if "functionCall" in part]
    assert ["thoughtSignature" in part for part in parts] == [True, False]
    assert found.report.count("added", "placeholder signature") == 1
    back = convert_messages(found.messages, source="gemini", to="anthropic")
    assert back.report.count("dropped", "signature") == 0


def test_the_report_tells_each_loss_and_its_place() -> None:
    """The report lists every change and no content."""
    found = convert_messages(vectors.raw("anthropic"), source="anthropic", to="openai")
    assert [str(loss) for loss in found.report.losses] == [
        "message 1, block 0: signature dropped",
        "message 1, block 0: thinking changed",
        "message 1, block 1: encrypted reasoning dropped",
        "message 2, block 0: error flag changed",
        "message 2, block 1: media moved",
        "message 2, block 2: cache mark dropped",
        "message 2, block 4: citations dropped",
        "message 2, block 5: media changed",
        "message 2, block 8: file handle dropped",
        "message 3, block 0: server tool changed",
        "message 3, block 1: server tool changed",
        "message 3, block 2: citations dropped",
        "message 3, block 3: file handle dropped",
        "message 3, block 4: unknown block dropped",
    ]
    assert [
        str(loss) for loss in convert_messages(vectors.raw("openai"), source="openai", to="gemini").report.losses
    ] == [
        "message 1: field (name) dropped",
        "message 2, block 0: placeholder signature added",
        "message 7, block 0: system message changed",
        "message 8: messages merged",
        "message 8, block 1: field (detail) dropped",
        "message 8, block 4: file name dropped",
        "message 8, block 5: file handle dropped",
        "message 8, block 6: unknown block dropped",
        "message 9, block 0: refusal changed",
        "message 10: field (data) dropped",
        "message 10: messages merged",
        "message 11, block 0: placeholder signature added",
        "message 13, block 1: refusal changed",
    ]
