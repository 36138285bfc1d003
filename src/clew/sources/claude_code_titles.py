"""Titles of Claude Code's conversations: the user's, the program's own, or a summary; and the first prompt."""

from __future__ import annotations

import re
from typing import Any

from clew.sources.contract import StaleMark

_NOT_TYPED = (
    "<command-", "<local-command-", "<system-reminder>", "<bash-", "<user-memory-input>", "<task-notification>",
    "Caveat: The messages below", "[Request interrupted", "<tick>",
)  # fmt: skip
"""How texts begin that are in the user's name and were not typed as a prompt."""
_GLUED = re.compile(r"\s*<(ide_\w+|system-reminder)>.*?</\1>\s*", re.DOTALL)
"""What an editor puts before a prompt."""


class Titles:
    """The titles that a file offers. `known` are summaries in other files, by the message that they end with."""

    def __init__(self, known: dict[str, str]) -> None:
        self._leaves: dict[str, str | None] = dict(known)
        """The text of each summary; None for one before a mark."""
        self._found: dict[str, tuple[int, str | None]] = {}
        """The best title of each conversation and its rank; None for one before a mark, which is stored."""
        self._summed: dict[str, bool] = {}
        """For each summary of this file whose message was not met: whether it came after other messages."""
        self._has_chain = False
        self._prompted: set[str] = set()
        """The conversations whose first prompt was read."""

    def state(self) -> dict[str, Any]:
        """The titles so far, without summaries in other files. Has no texts, so that it cannot contain a secret."""
        ranks = {conversation: rank for conversation, (rank, _) in self._found.items()}
        return {
            "ranks": ranks, "summed": self._summed, "chain": self._has_chain, "prompted": sorted(self._prompted)
        }  # fmt: skip

    def resume(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        self._found = {conversation: (rank, None) for conversation, rank in state["ranks"].items()}
        self._leaves |= dict.fromkeys(state["summed"])
        self._summed, self._has_chain, self._prompted = state["summed"], state["chain"], set(state["prompted"])

    def offer(self, conversation: str, rank: int, title: str | None) -> None:
        """Takes a title, unless there is one of a better rank. Of the same rank the last counts."""
        before = self._found.get(conversation, (9, ""))[0]
        if title and title.strip() and rank <= before:
            self._found[conversation] = rank, title

    def summary(self, leaf: str, text: str) -> None:
        """Takes a summary of the messages that end with `leaf`; these may be in another file."""
        self._leaves[leaf] = text
        self._summed[leaf] = self._has_chain

    def meet(self, conversation: str, uuid: str) -> None:
        """Takes note of a message, which may be the one that a summary ends with."""
        self._has_chain = True
        if uuid in self._leaves:
            if self._leaves[uuid] is None:
                raise StaleMark
            self.offer(conversation, 2, self._leaves[uuid])
            self._summed.pop(uuid, None)

    def has_prompt(self, conversation: str) -> bool:
        """True if the first prompt was read."""
        return conversation in self._prompted

    def prompt(self, conversation: str, text: str) -> str | None:
        """The words of the first prompt; None if it is a command, a text of the program, or has no words."""
        words = _GLUED.sub("", text, count=1) if text.lstrip().startswith("<") else text
        if not words.strip() or words.lstrip().startswith(_NOT_TYPED):
            return None
        self._prompted.add(conversation)
        return words

    def of(self, conversation: str, session: str | None) -> str | None:
        """The best title of a conversation; `session` is the one that the file is named after."""
        if conversation == session:
            for leaf, is_late in self._summed.items():
                if is_late or not self._has_chain:  # one at the beginning is another conversation's
                    self.offer(conversation, 2, self._leaves[leaf])
        return self._found.get(conversation, (9, None))[1]
