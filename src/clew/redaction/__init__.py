r"""Redaction: secrets and personal data are taken out of messages before they are stored.

    rules = Rules([*builtin("email"), Rule("ticket", r"ACME-\d{6}", replacement="[ticket]")])
    store = clew.open("chats.db", redact=rules)

Every message passes here on its way into the store, whichever call it came with; so do titles, labels, free data and
log entries. What was found is not kept anywhere: the message says by which rules, and has a keyed hash of each value,
so that equal values can be told without being known.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from clew.base import codec
from clew.base.messages import AnyMessage, Message, Native, Text
from clew.errors import Invalid
from clew.redaction.builtin_rules import PERSONAL, builtin
from clew.redaction.json_texts import JsonLeaf, JsonPath, Where, is_json, leaves, spliced, to_json_string
from clew.redaction.rule import Rule
from clew.redaction.rules import Rules, TimeBudget

__all__ = ["NOTE", "PERSONAL", "Annotation", "Finding", "Redacted", "Rule", "Rules", "annotation", "builtin", "redact"]

NOTE = "clew.redaction"
"""The key of the annotation in a message's `extra`."""
REPLAYABLE = "clew.replayable"
"""In a block's `extra`, false: it was signed or encrypted by a provider, and is no longer what it was."""
MOST_TOKENS = 100
"""The most tokens a message gets: a list of addresses must not become a list of hashes."""
DEEPEST = 4
"""How many levels of JSON inside JSON strings are searched."""

At = tuple[str, int | None, str]
"""A rule, and where it found something."""
Token = Callable[[str, str], str]
"""Makes a token from a rule's id and the value it found. Equal values have equal tokens; a token reveals no more."""


class Finding(msgspec.Struct, frozen=True):
    """A find of a rule in one place of a message; never the value itself."""

    rule: str
    block: int | None
    """The number of the block; None if it is in none: in the label, in `extra`."""
    kind: str
    """The kind of block, or the member of the message."""
    count: int
    tokens: tuple[str, ...] = ()


class Redacted(NamedTuple):
    """A message without what was found in it."""

    said: AnyMessage
    findings: tuple[Finding, ...] = ()
    not_replayable: tuple[int, ...] = ()
    """Blocks that a provider had signed or encrypted, and in which something was replaced: their signature is gone."""


class Annotation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The annotation of a redacted message."""

    contains_secrets: bool
    """It did contain some; they are not in it any more."""
    redaction_rules_applied: tuple[str, ...]
    pii_tokens: tuple[str, ...] = ()
    not_replayable: tuple[int, ...] = ()


_FIELDS = frozenset({"containsSecrets", "redactionRulesApplied", "piiTokens", "notReplayable"})
_TOKEN = re.compile(r"[a-z0-9._-]{1,64}:[0-9a-f]{32}")


def redact(said: AnyMessage, rules: Rules, *, token: Token | None = None) -> Redacted:
    """The message without what the rules find in it, annotated; if they find nothing, the very same message.

    Signatures, and reasoning that a provider encrypted, are left as they are; a signed block in which something is
    replaced loses its signature. Invalid if the message cannot be stored, or if it takes too long.
    """
    if not isinstance(said, Message | Native):
        raise Invalid(f"a message is clew.user(…), clew.assistant(…), clew.native(…), not {type(said).__name__}")
    if not isinstance(rules, Rules):
        raise Invalid(f"rules are redaction.Rules, not {type(rules).__name__}")
    if isinstance(said, Message):
        if _spotless(said, rules):
            return Redacted(said)  # most messages, and this is the fast way to know
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


def redact_bytes(data: bytes, rules: Rules, *, own: bool = False) -> bytes:
    """The same for JSON and for text in UTF-8; other bytes are left as they are. `own` if it is JSON of clew's."""
    return _Work(rules, None, len(data)).bytes(data, own)


def findings(data: bytes, rules: Rules, *, own: bool = False) -> tuple[Finding, ...]:
    """The finds that `redact_bytes` would replace."""
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
    """The redaction of one message; collects the finds."""

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
        """A JSON document without what is found in it; None if nothing is."""
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
                self.unsigned.add(leaf.where[0] or 0)  # in no block: then the message is one
                if leaf.kind == "signature":
                    changes[leaf.start, leaf.end] = b"null"
        return spliced(raw, changes) if changes else None

    def text(self, text: str, where: Where, depth: int = 0) -> str:
        """A text without what is found in it, also if it is JSON and hides it behind escapes."""

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
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return data
        try:
            if own or text.lstrip().startswith(("{", "[", '"')):
                msgspec.json.decode(data)
                return self.document(data, free=not own, signed=not own) or data
        except (msgspec.MsgspecError, RecursionError):
            pass  # it is text that begins as JSON does
        new = self.text(text, (None, "text"))
        return data if new == text else new.encode()

    def findings(self) -> tuple[Finding, ...]:
        """The finds, place by place."""
        return tuple(Finding(*at, count, tuple(self.tokens.get(at, ()))) for at, count in self.counts.items())

    def redact_message(self, said: AnyMessage) -> Redacted:
        """The annotated message, and the finds."""
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
        """True for what an annotation consists of: a rule may well find something in its own name."""
        place, above = leaf.place, leaf.place.above
        if leaf.is_key:
            return (place.name == "extra" and leaf.text == NOTE) or (place.name == NOTE and leaf.text in _FIELDS)
        if above is None or above.name != NOTE:
            return False
        if place.name == "piiTokens":
            return _TOKEN.fullmatch(leaf.text) is not None
        return place.name == "redactionRulesApplied" and leaf.text in self.rules.ids

    def _formal(self, leaf: JsonLeaf) -> bool:
        """True for what a record consists of beside words; but a token must not have a secret before its hash."""
        before = leaf.text.rpartition(":")[0]
        return leaf.formal and not (leaf.place.name == "piiTokens" and self.rules.finds(before, self.allowance))


def _spotless(said: Message, rules: Rules) -> bool:
    """True if a message is text and nothing else, and nothing is found in it; False if that needs a full search."""
    if not (said.label is None and said.extra is None and said.model is None):
        return False
    for block in said.blocks:
        if not (isinstance(block, Text) and block.extra is None) or is_json(block.text):
            return False
        if rules.finds(block.text, TimeBudget(len(block.text))):
            return False
    return True


def _mark_unsendable(said: AnyMessage, blocks: set[int]) -> AnyMessage:
    """A neutral message, each of these blocks with the mark that it cannot be sent to its provider again."""
    assert isinstance(said, Message)
    marked = [
        msgspec.structs.replace(block, extra={**(block.extra or {}), REPLAYABLE: False}) if n in blocks else block
        for n, block in enumerate(said.blocks)
    ]
    return msgspec.structs.replace(said, blocks=tuple(marked))


def _apart(key: str, taken: set[str]) -> str:
    """A key that no other of its object has; it is taken now."""
    number = 2
    apart = key
    while apart in taken:
        apart, number = f"{key}-{number}", number + 1
    taken.add(apart)
    return apart
