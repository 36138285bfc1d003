"""Keys and values in free data that no rule replaces, because a record cannot be read without them."""

from __future__ import annotations

import re

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
