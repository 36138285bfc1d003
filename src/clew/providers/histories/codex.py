"""The neutral view of messages in a Codex history: items of the Responses API, and compactions."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Text
from clew.providers.json_values import Json, as_list, as_text, as_word
from clew.providers.openai import view

_SYNTHETIC = (
    "<environment_context>", "<user_instructions>", "<subagent_notification>", "<turn_aborted>", "<skill>",
    "<user_shell_command>", "<permissions instructions>", "<collaboration_mode>", "# AGENTS.md instructions",
)  # fmt: skip
"""How texts begin that the program itself sends in the user's name."""


def role(data: Json) -> str:
    """The role of an item. Texts that the program sends in the user's name are instructions."""
    if "replacement_history" in data or "message" in data:
        return "user"
    if data.get("role") == "user" and prompt(data) is None:
        return "system"
    if isinstance(data.get("role"), str):
        return as_word(data["role"])
    return "tool" if as_word(data.get("type")).endswith("_output") else "assistant"


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of an item; of a compaction, the summary."""
    if "role" not in data and isinstance(summary := data.get("message"), str):
        kept = [one for one in as_list(data.get("replacement_history")) if one.get("role") == "user"]
        yield Text(text=summary or "\n\n".join(filter(None, map(prompt, kept))))
        return
    if isinstance(output := data.get("output"), dict) and "content" in output:
        data = {**data, "output": output["content"]}
    for block in view.blocks(data):
        if not (isinstance(block, Text) and _is_picture_tag(block.text)):
            yield block


def prompt(data: Json) -> str | None:
    """What the user typed; None for a text of the program, and for an item without text."""
    texts = [text for part in as_list(data.get("content")) if (text := as_text(part.get("text"))) is not None]
    typed = [text for text in texts if not text.lstrip().startswith(_SYNTHETIC) and not _is_picture_tag(text)]
    if typed or not texts:
        return "\n".join(typed) or None
    has_picture = any(part.get("type") == "input_image" for part in as_list(data.get("content")))
    return "(picture)" if has_picture else None


def _is_picture_tag(text: str) -> bool:
    words = text.strip()
    return words == "</image>" or (words.startswith("<image") and words.endswith(">") and "\n" not in words)
