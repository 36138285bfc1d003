"""A source: the history of a made-up program, read into a store by public names alone.

The program keeps each conversation in a file of its own: a line about the conversation, then a line for each message. A
package names the class in its entry points, and `clew import` finds it:

    [project.entry-points."clew.sources"]
    notes = "my_package:Notes"
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import clew
from clew.sources import (
    About,
    Entry,
    Home,
    Item,
    Part,
    ShowRules,
    Skip,
    derived_id,
    field_bytes,
    find,
    import_all,
    json_lines,
    moment,
    tag,
)


class Notes:
    """The answers to what clew asks of a source; see `clew.sources.Source`."""

    name = "notes"
    title = "Notes"
    deletes_after = None
    rules = ShowRules(notes=(tag("reminder", "reminder"),))
    """The program writes reminders around prompts: clew shows them as notes, and leaves them out of titles."""

    def discover(self, home: Home) -> Iterator[str]:
        """The program's files on this machine, as patterns."""
        yield os.path.join(home.path, ".notes", "*.jsonl")

    def resume(self, conversation: str) -> str | None:
        """The command that continues a conversation in the program itself."""
        return f"notes --continue {conversation}"

    def recognise(self, path: str, head: bytes) -> bool:
        """By the first bytes, because the name of a file may lie."""
        return head.startswith(b'{"notes":')

    def read(self, item: Item) -> Iterator[Part]:
        """The records in the order of the file, line by line: memory does not grow with the file."""
        conversation, last = "", None
        for line in json_lines(item):
            if isinstance(line, Skip):
                yield line
            elif isinstance(line.fields.get("notes"), str):
                conversation, title = line.fields["notes"], line.fields.get("title")
                yield About(conversation=conversation, title=title if isinstance(title, str) else None)
                yield Entry(conversation=conversation, raw=line.data, key="about")
            elif body := field_bytes(line.data, "message"):
                # Every copy of the file gives a message the same id, so that it is stored once.
                id = derived_id(self.name, conversation, str(line.fields.get("id")))
                yield Entry(
                    conversation=conversation, raw=line.data, key=id, id=id, message=line.native("openai", body),
                    parent=last, created_at=moment(line.fields.get("at")),
                )  # fmt: skip
                last = id
            else:
                yield Skip(line.number, "neither a message nor about the conversation")


def write_sample(path: Path) -> None:
    """Writes a file as the program does."""
    lines = [
        {"notes": "trip", "title": "A trip"},
        {"id": 1, "at": "2026-01-05T10:00:00Z", "message": {"role": "user", "content": "Where to?"}},
        {"id": 2, "at": "2026-01-05T10:00:09Z", "message": {"role": "assistant", "content": "To the sea."}},
    ]
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8")


def main() -> None:
    """Imports a sample twice: the second import stores nothing."""
    with tempfile.TemporaryDirectory() as folder, clew.open(Path(folder, "chats.db")) as store:
        sample = Path(folder, "trip.jsonl")
        write_sample(sample)
        for _ in range(2):
            for outcome in import_all(store, find([str(sample)], only=Notes()), again=True):
                print(outcome.state, outcome.messages)
        for session in store.sessions:
            print(session.title, [node.text for node in session.path()])


if __name__ == "__main__":
    main()
