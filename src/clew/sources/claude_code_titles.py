"""Titles of Claude Code's conversations: what a person gave, the program's own, a summary, or the first prompt."""

from __future__ import annotations

import re
from typing import Any

from clew.sources.titles import from_prompt

_NOT_TYPED = (
    "<command-", "<local-command-", "<system-reminder>", "<bash-", "<user-memory-input>", "<task-notification>",
    "Caveat: The messages below", "[Request interrupted", "<tick>",
)  # fmt: skip
"""How texts begin that are in the user's name and were not typed as a prompt."""
_GLUED = re.compile(r"\s*<(ide_\w+|system-reminder)>.*?</\1>\s*", re.DOTALL)
"""What an editor puts before a prompt."""

_PROMPT = 3
"""The rank of a title made from a prompt. Of prompts the first counts, of others the last."""


class Titles:
    """The titles that a file offers. `known` are summaries in other files, by the message that they end with."""

    def __init__(self, known: dict[str, str]) -> None:
        self._leaves = dict(known)
        self._found: dict[str, tuple[int, str]] = {}
        self._summed: dict[str, bool] = {}
        """For each summary of this file whose message was not met: whether it came after other messages."""
        self._has_chain = False

    def state(self) -> dict[str, Any]:
        """What is known so far, but for summaries in other files."""
        own = {leaf: self._leaves[leaf] for leaf in self._summed}
        return {"found": self._found, "own": own, "late": self._summed, "chain": self._has_chain}

    def resume(self, state: dict[str, Any]) -> None:
        """Takes over what `state` gave."""
        self._found = {name: (rank, title) for name, (rank, title) in state["found"].items()}
        self._leaves |= state["own"]
        self._summed, self._has_chain = state["late"], state["chain"]

    def offer(self, conversation: str, rank: int, title: str | None) -> None:
        """Takes a title, unless there is one of a better rank."""
        before = self._found.get(conversation, (9, ""))[0]
        if title and title.strip() and (rank < before or (rank == before and rank < _PROMPT)):
            self._found[conversation] = rank, title

    def summary(self, leaf: str, text: str) -> None:
        """Takes a summary of the messages that end with `leaf`; these may be in another file."""
        self._leaves[leaf] = text
        self._summed[leaf] = self._has_chain

    def meet(self, conversation: str, uuid: str) -> None:
        """Takes note of a message, which may be the one that a summary ends with."""
        self._has_chain = True
        if uuid in self._leaves:
            self.offer(conversation, 2, self._leaves[uuid])
            self._summed.pop(uuid, None)

    def has_title(self, conversation: str) -> bool:
        """True if there is a title, and a prompt would not change it."""
        return conversation in self._found

    def prompt(self, conversation: str, text: str) -> None:
        """Takes a prompt, unless it is a command or a text of the program."""
        words = _GLUED.sub("", text, count=1) if text.lstrip().startswith("<") else text
        if not words.lstrip().startswith(_NOT_TYPED):
            self.offer(conversation, _PROMPT, from_prompt(words))

    def of(self, conversation: str, session: str | None) -> str | None:
        """The best title of a conversation; `session` is the one that the file is named after."""
        if conversation == session:
            for leaf, is_late in self._summed.items():
                if is_late or not self._has_chain:  # one at the beginning is another conversation's
                    self.offer(conversation, 2, self._leaves[leaf])
        return self._found.get(conversation, (9, None))[1]
