r"""Redaction: removes secrets and personal data from messages before they are stored.

    rules = Rules([*builtin("email"), Rule("ticket", r"ACME-\d{6}", replacement="[ticket]")])
    store = clew.open("chats.db", redact=rules)

The rules apply to every message, whichever call stores it, and to titles, labels, free data and log entries. The
removed values are not stored anywhere. The message lists the rules that matched, and a keyed hash of each value, so
that equal values can be recognized without revealing them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from clew.base import codec
from clew.base.messages import REDACTION, AnyMessage, Message, Native, Text
from clew.errors import Invalid
from clew.redaction.builtin_rules import PERSONAL, Rule, builtin
from clew.redaction.json_texts import JsonLeaf, JsonPath, Where, is_json, leaves, spliced, to_json_string
from clew.redaction.rules import Rules, TimeBudget

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
