r"""Redaction: removes secrets and personal data from messages before they are stored.

    rules = Rules([*builtin("email"), Rule("ticket", r"ACME-\d{6}", replacement="[ticket]")])
    store = clew.open("chats.db", redact=rules)

The rules apply to every message, whichever call stores it, and to titles, labels, free data and log entries. The
removed values are not stored anywhere. The message lists the rules that matched, and a keyed hash of each value, so
that equal values can be recognized without revealing them.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from clew.base import codec
from clew.base.messages import RECORD, REDACTION, AnyMessage, Message, Native, Text
from clew.errors import Invalid
from clew.redaction.builtin_rules import PERSONAL, Rule, builtin
from clew.redaction.linear import TimeBudget
from clew.redaction.rules import Rules

__all__ = ["NOTE", "PERSONAL", "Annotation", "Finding", "Redacted", "Rule", "Rules", "annotation", "builtin", "redact"]

NOTE = REDACTION
"""The key of the annotation in a message's `extra`."""
REPLAYABLE = "clew.replayable"
"""In a block's `extra`, false: a provider signed or encrypted the block, and redaction has changed it."""
MOST_TOKENS = 100
"""Maximum tokens in a message: a list of addresses must not become a list of hashes."""
DEEPEST = 4
"""How many levels of JSON inside JSON strings are searched."""

At = tuple[str, int | None, str]
"""A rule, and the place of its match."""
Token = Callable[[str, str], str]
"""Makes a token from a rule's id and the matched value. Equal values have equal tokens; a token reveals no more."""


class Finding(msgspec.Struct, frozen=True):
    """The matches of a rule in one place of a message; never the value itself."""

    rule: str
    block: int | None
    """The number of the block; None outside of blocks, such as in the label or in `extra`."""
    kind: str
    """The kind of block, or the member of the message."""
    count: int
    tokens: tuple[str, ...] = ()


class Redacted(NamedTuple):
    """A message after redaction."""

    said: AnyMessage
    findings: tuple[Finding, ...] = ()
    not_replayable: tuple[int, ...] = ()
    """Changed blocks that a provider had signed or encrypted: their signature is removed."""


class Annotation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The annotation of a redacted message."""

    contains_secrets: bool
    """The message contained secrets before redaction."""
    redaction_rules_applied: tuple[str, ...]
    pii_tokens: tuple[str, ...] = ()
    not_replayable: tuple[int, ...] = ()


_FIELDS = frozenset({"containsSecrets", "redactionRulesApplied", "piiTokens", "notReplayable"})
_TAGS = (b"\x01", b"\x02", b"\x03")
"""First bytes of log entries that clew wrote."""
_TOKEN = re.compile(r"[a-z0-9._-]{1,64}:[0-9a-f]{32}")


def redact(said: AnyMessage, rules: Rules, *, token: Token | None = None) -> Redacted:
    """The message with all matches replaced, and annotated; the same object if no rule matches.

    Signatures, and reasoning that a provider encrypted, are not changed; a signed block loses its signature if
    something in it is replaced. Invalid if the message cannot be stored, or if redaction takes too long.
    """
    if not isinstance(said, Message | Native):
        raise Invalid(f"a message is clew.user(…), clew.assistant(…), clew.native(…), not {type(said).__name__}")
    if not isinstance(rules, Rules):
        raise Invalid(f"rules must be redaction.Rules, not {type(rules).__name__}")
    if isinstance(said, Message):
        if _spotless(said, rules):
            return Redacted(said)  # fast path for most messages
        raw = codec.to_json(said)
        work = _Work(rules, token, len(raw))
        new = work.document(raw, free=False)
        if new is None:
            return Redacted(said)
        return work.redact_message(_mark_unsendable(codec.decode(b"\x01" + new, "a redacted message"), work.unsigned))
    beside = codec.to_json({"provider": said.provider, "label": said.label, "extra": said.extra})
    work = _Work(rules, token, len(said.raw) + len(beside))
    body = work.document(said.raw, free=True)
    frame = work.document(beside, free=False, signed=False)
    if body is None and frame is None:
        return Redacted(said)
    return work.redact_message(Native(raw=body or said.raw, **msgspec.json.decode(frame or beside)))


def redact_bytes(data: bytes, rules: Rules, *, own: bool = False, token: Token | None = None) -> bytes:
    """`redact` for JSON and UTF-8 text; other bytes are not changed. `own` if clew wrote the JSON."""
    return _Work(rules, token, len(data)).bytes(data, own)


def findings(data: bytes, rules: Rules, *, own: bool = False) -> tuple[Finding, ...]:
    """The matches that `redact_bytes` would replace."""
    work = _Work(rules, None, len(data))
    work.bytes(data, own)
    return work.findings()


def annotation(said: AnyMessage) -> Annotation | None:
    """The annotation of a stored message; None if nothing was redacted in it."""
    try:
        return msgspec.convert((said.extra or {})[NOTE], Annotation)
    except (KeyError, msgspec.ValidationError):
        return None


class _Work:
    """The redaction of one message; collects the matches."""

    def __init__(self, rules: Rules, token: Token | None, size: int) -> None:
        self.rules = rules
        self.token = token
        self.allowance = TimeBudget(size)
        self.counts: Counter[At] = Counter()
        self.tokens: dict[At, dict[str, None]] = {}
        self.secret = False
        self.unsigned: set[int] = set()

    def document(
        self, raw: bytes, *, free: bool, signed: bool = True, where: Where | None = None, depth: int = 0
    ) -> bytes | None:
        """A JSON document with all matches replaced; None if there are none."""
        changes: dict[tuple[int, int], bytes] = {}
        all = leaves(raw, free=free, signed=signed)
        keys: defaultdict[JsonPath, set[str]] = defaultdict(set)
        for leaf in all:
            if leaf.is_key:
                keys[leaf.place].add(leaf.text)
        for leaf in all:
            if leaf.kind == "text" and leaf.touchable and not (self._is_annotation(leaf) or self._formal(leaf)):
                text = self.text(leaf.text, where or leaf.where, depth)
                if text != leaf.text:
                    if leaf.is_key:
                        text = _apart(text, keys[leaf.place])
                    changes[leaf.start, leaf.end] = to_json_string(text)
                    leaf.place.change()
        for leaf in all:
            if leaf.kind != "text" and leaf.signed.changed:
                self.unsigned.add(leaf.where[0] or 0)  # outside of blocks, the message counts as one
                if leaf.kind == "signature":
                    changes[leaf.start, leaf.end] = b"null"
        return spliced(raw, changes) if changes else None

    def text(self, text: str, where: Where, depth: int = 0) -> str:
        """A text with all matches replaced, also those behind escapes if it is JSON."""

        def found(rule: Rule, value: str) -> None:
            at = (rule.id, *where)
            self.counts[at] += 1
            self.secret |= not rule.personal
            if self.token is not None:
                self.tokens.setdefault(at, {})[self.token(rule.id, value)] = None

        while True:
            text = self.rules.clean(text, self.allowance, found)
            if depth == DEEPEST or not is_json(text):
                return text
            raw = text.encode(errors="surrogatepass")
            inner = self.document(raw, free=True, signed=False, where=where, depth=depth + 1)
            if inner is None:
                return text
            text = inner.decode(errors="surrogatepass")

    def bytes(self, data: bytes, own: bool) -> bytes:
        """See `redact_bytes`."""
        if data[:1] in _TAGS:
            return data[:1] + self.bytes(data[1:], own)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return data
        try:
            if own or text.lstrip().startswith(("{", "[", '"')):
                msgspec.json.decode(data)
                return self.document(data, free=not own, signed=not own) or data
        except (msgspec.MsgspecError, RecursionError):
            pass  # text that only starts like JSON
        new = self.text(text, (None, "text"))
        return data if new == text else new.encode()

    def findings(self) -> tuple[Finding, ...]:
        """The matches, by place."""
        return tuple(Finding(*at, count, tuple(self.tokens.get(at, ()))) for at, count in self.counts.items())

    def redact_message(self, said: AnyMessage) -> Redacted:
        """The annotated message, and the matches."""
        findings = self.findings()
        before = annotation(said) or Annotation(False, ())
        tokens = {*before.pii_tokens, *(token for finding in findings for token in finding.tokens)}
        note = Annotation(
            before.contains_secrets or self.secret,
            tuple(sorted({*before.redaction_rules_applied, *(finding.rule for finding in findings)})),
            tuple(sorted(tokens)[:MOST_TOKENS]),
            tuple(sorted({*before.not_replayable, *self.unsigned})),
        )
        extra = {**(said.extra or {}), NOTE: msgspec.to_builtins(note)}
        return Redacted(msgspec.structs.replace(said, extra=extra), findings, tuple(sorted(self.unsigned)))

    def _is_annotation(self, leaf: JsonLeaf) -> bool:
        """True for parts of an annotation: a rule may match its own name."""
        place, above = leaf.place, leaf.place.above
        if leaf.is_key:
            return (place.name == "extra" and leaf.text == NOTE) or (place.name == NOTE and leaf.text in _FIELDS)
        if above is None or above.name != NOTE:
            return False
        if place.name == "piiTokens":
            return _TOKEN.fullmatch(leaf.text) is not None
        return place.name == "redactionRulesApplied" and leaf.text in self.rules.ids

    def _formal(self, leaf: JsonLeaf) -> bool:
        """True for formal values of a record. A token with a secret before its hash is not one."""
        before = leaf.text.rpartition(":")[0]
        return leaf.formal and not (leaf.place.name == "piiTokens" and self.rules.finds(before, self.allowance))


def _spotless(said: Message, rules: Rules) -> bool:
    """True if a message is only text, and no rule matches. False if it needs a full search."""
    if not (said.label is None and said.extra is None and said.model is None):
        return False
    for block in said.blocks:
        if not (isinstance(block, Text) and block.extra is None) or is_json(block.text):
            return False
        if rules.finds(block.text, TimeBudget(len(block.text))):
            return False
    return True


def _mark_unsendable(said: AnyMessage, blocks: set[int]) -> AnyMessage:
    """Marks these blocks of a neutral message: they cannot be sent to their provider again."""
    assert isinstance(said, Message)
    marked = [
        msgspec.structs.replace(block, extra={**(block.extra or {}), REPLAYABLE: False}) if n in blocks else block
        for n, block in enumerate(said.blocks)
    ]
    return msgspec.structs.replace(said, blocks=tuple(marked))


def _apart(key: str, taken: set[str]) -> str:
    """A key that is unique in its object. Adds it to `taken`."""
    number = 2
    apart = key
    while apart in taken:
        apart, number = f"{key}-{number}", number + 1
    taken.add(apart)
    return apart


_NUMBERS = (
    "schema", "sequence", "byteLength", "durationMs", "averageLatencyMs", "userUtteranceCount",
    "assistantUtteranceCount", "duration_ms", "average_latency_ms", "user_utterances", "assistant_utterances",
    "size",
)  # fmt: skip
_TIMES = ("created_at", "said_at", "changed_at", "last_interaction_at", "updated_at", "lastUpdatedAt")

FORMS = {
    **dict.fromkeys(_NUMBERS, re.compile(r"[-+.0-9eE]+")),
    **dict.fromkeys(_TIMES, re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")),
    "role": re.compile("user|assistant|system"),
    "type": re.compile("audio|transcript|code|document"),
    "format": re.compile("pcm16|opus"),
    "checksum": re.compile("[0-9a-f]{64}"),
    "uri": re.compile("blobs/[0-9a-f]{64}"),
    "piiTokens": re.compile("([a-z0-9._-]{1,64}:)?[0-9a-f]{32,128}"),
}
"""The pattern of the value under each name; other values are searched like any text."""
KEYS = frozenset({
    *FORMS, "conversation_id", "participants", "id", "displayName", "summary", "synopsis", "keywords", "actionItems",
    "exportable", "consent_capture", "changed", "title", "retention", "metrics", "begun", "frame_id", "privacy",
    "containsSecrets", "redactionRulesApplied", "attachments", "attachmentId", "audio", "sized",
})  # fmt: skip
"""All such keys; other keys are searched."""


_PIECE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?[0-9][-+.0-9eE]*+|[\[\]{},:]')
_decode = msgspec.json.Decoder(str).decode

LONG = 12
"""Numbers with at least this many digits are searched like text: a card number may be without quotes."""

_FREE = frozenset({"extra", "arguments", "data", "metadata", "parameters"})
"""Members of clew's own objects that hold free data."""
_FIXED = frozenset({"type", "role", "modality", "blob", "cwd", "forked_from", "forked_at"})
"""Members of clew's own objects whose values are keywords of clew, or ids."""

SIGNATURES = {
    ("thinking", "signature"),
    ("reasoning.text", "signature"),
    ("reasoningText", "signature"),
}
"""Where providers put a signature: the type of the object, or else its name, and the member."""
_SIGNED_PARTS = frozenset({"thoughtSignature", "thought_signature"})
CIPHERTEXTS = {
    ("thinking", "redacted"),
    ("redacted_thinking", "data"),
    ("reasoning", "encrypted_content"),
    ("reasoning.encrypted", "data"),
    ("reasoningContent", "redactedContent"),
    ("compaction", "encrypted_content"),
    ("web_search_result", "encrypted_content"),
    ("web_search_result_location", "encrypted_index"),
}
"""Members that hold data which only the provider can read."""
_INPUTS = frozenset({"input", "arguments", "args", "response"})
"""Members that hold a tool's own data, in any form."""


Where = tuple[int | None, str]
"""The number of a block and its kind; or None, and the member of the message."""
BLOCK = 3
"""Depth of the blocks of a message: its object, one of its lists, the block."""


class JsonPath:
    """An object or a list in the document."""

    __slots__ = ("above", "changed", "depth", "free", "input", "name", "record", "type")

    def __init__(self, above: JsonPath | None, name: str | int, *, free: bool, input: bool) -> None:
        self.above = above
        self.name = name
        self.depth: int = 0 if above is None else above.depth + 1
        self.type: str | None = None
        self.free = free
        """True if its keys and numbers are user data, not clew's."""
        self.input = input
        """True if nothing in it is a provider's signature."""
        self.record: bool = above is not None and (above.record or (name == RECORD and above.name == "extra"))
        """True inside the data of a record."""
        self.changed = False

    def change(self) -> None:
        """Marks it and its parents as changed."""
        place: JsonPath | None = self
        while place is not None and not place.changed:
            place.changed = True
            place = place.above

    def block(self) -> Where | None:
        """The block of the message that contains it; None if there is none."""
        place = self
        while place.depth > BLOCK and place.above is not None:
            place = place.above
        if place.depth != BLOCK or place.above is None or not isinstance(place.name, int):
            return None
        return place.name, place.type or str(place.above.name)


class JsonLeaf(NamedTuple):
    """A text, a key or a long number: its bytes in the document, its container and its name."""

    start: int
    end: int
    place: JsonPath
    name: str | int
    is_key: bool
    text: str

    @property
    def where(self) -> Where:
        """The block it is in, or the member of the message."""
        place = self.place
        block = place.block()
        if block is not None:
            return block
        while place.depth > BLOCK - 1 and place.above is not None:
            place = place.above
        return None, str(self.name if place.depth < BLOCK - 1 else place.name)

    @property
    def touchable(self) -> bool:
        """False for clew's own keys, numbers, keywords and ids."""
        if self.place.free:
            return True
        return not self.is_key and self.name not in _FIXED

    @property
    def formal(self) -> bool:
        """True for formal parts of a record: its keys, and values that match the pattern of their key."""
        place = self.place
        if self.is_key:
            return self.text == RECORD if place.name == "extra" else place.record and self.text in KEYS
        form = FORMS.get(str(place.name if isinstance(self.name, int) else self.name))
        return (place.record or not place.free) and form is not None and form.fullmatch(self.text) is not None

    @property
    def kind(self) -> str:
        """``signature``, ``ciphertext``, or ``text``."""
        place = self.place
        if self.is_key or place.input or not isinstance(self.name, str):
            return "text"
        where = (place.type or str(place.name), self.name)
        if where in SIGNATURES or self.name in _SIGNED_PARTS:
            return "signature"
        return "ciphertext" if where in CIPHERTEXTS else "text"

    @property
    def signed(self) -> JsonPath:
        """The object that a signature signs: its container. In clew's own blocks the signature is in `extra`."""
        place = self.place
        return place.above if place.name == "extra" and place.above is not None and not place.above.free else place


def leaves(raw: bytes, *, free: bool, signed: bool) -> list[JsonLeaf]:
    """The leaves of a valid JSON document, in order. Not recursive, so that deep nesting is safe.

    `free` if the document is not clew's own, `signed` if it may have a provider's signatures.
    """
    found: list[JsonLeaf] = []
    place, is_key = JsonPath(None, "", free=free, input=not signed), False
    here: str | int = ""
    stack: list[tuple[JsonPath, str | int, bool]] = []
    for token in _PIECE.finditer(raw):
        start, end = token.span()
        first = raw[start]
        if first == 0x22:
            text = _text(raw[start:end])
            found.append(JsonLeaf(start, end, place, here, is_key, text))
            if is_key:
                here = text
            elif here == "type":
                place.type = text
        elif first in b"{[":
            stack.append((place, here, is_key))
            place = JsonPath(place, here, free=place.free or here in _FREE, input=place.input or here in _INPUTS)
            here, is_key = (0, False) if first == 0x5B else ("", True)
        elif first in b"}]":
            place, here, is_key = stack.pop()
        elif first == 0x3A:
            is_key = False
        elif first == 0x2C:
            if isinstance(here, int):
                here += 1
            else:
                is_key = True
        elif end - start >= LONG and (place.free or here in _FREE):
            found.append(JsonLeaf(start, end, place, here, False, raw[start:end].decode()))
    return found


def spliced(raw: bytes, changes: Mapping[tuple[int, int], bytes]) -> bytes:
    """`raw` with the bytes of some leaves replaced."""
    parts: list[bytes] = []
    done = 0
    for (start, end), new in sorted(changes.items()):
        parts += (raw[done:start], new)
        done = end
    return b"".join([*parts, raw[done:]])


def to_json_string(text: str) -> bytes:
    """A text as JSON."""
    try:
        return json.dumps(text, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(text).encode()


def is_json(text: str) -> bool:
    """True if a text is a JSON object, list or string with escapes, which may hide a match."""
    if not text.lstrip().startswith(("{", "[", '"')) or "\\" not in text:
        return False
    try:
        json.loads(text, parse_int=len)  # Python refuses to parse very long numbers
    except (ValueError, RecursionError):
        return False
    return True


def _text(literal: bytes) -> str:
    if b"\\" not in literal:
        return literal[1:-1].decode()
    try:
        return _decode(literal)
    except msgspec.MsgspecError:  # a lone surrogate
        return str(json.loads(literal))
