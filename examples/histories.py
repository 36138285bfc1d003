"""Import what another tool has stored, and search it. `python examples/histories.py ~/.claude/projects`.

Without a path it imports a made-up session of Claude Code.
"""

import json
import sys
import tempfile
from pathlib import Path

import clew
from clew import sources

SESSION = "65137170-1b5e-4d7e-9a55-2f6c0d1e3a77"


def made_up(folder: Path) -> Path:
    """A session as Claude Code writes one."""
    line = {
        "type": "user", "uuid": "0b6c31f2-5f3a-4d0e-8a51-7f2e9c4d1b60", "parentUuid": None, "sessionId": SESSION,
        "cwd": "/src/app", "timestamp": "2026-11-01T10:00:00.000Z", "version": "2.0.0",
        "message": {"role": "user", "content": "Why is the build failing?"},
    }  # fmt: skip
    path = folder / f"{SESSION}.jsonl"
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    return path


def main(folder: Path, files: list[Path]) -> None:
    """Imports the files, and prints what a search finds in them."""
    with clew.open(folder / "chats.db") as store:
        for outcome in sources.import_all(store, sources.find(map(str, files or [made_up(folder)]))):
            print(f"{outcome.path}: {len(outcome.conversations)} conversations")
        for hit in store.search("build"):
            print(f"{hit.node.handle}  {hit.node.role}: {hit.node.text}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary), [Path(one).expanduser() for one in sys.argv[1:]])
