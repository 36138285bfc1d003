"""Kills a writer while it writes. Every acknowledged message is stored."""

import subprocess
import sys
import tempfile
from pathlib import Path

import clew

WRITER = """
import sys, clew
session = clew.open(sys.argv[1]).sessions.latest()
for number in range(1_000_000):
    node = session.append(clew.user(f"note {number}"))
    print(node.id, flush=True)  # an acknowledgement: append has returned
"""


def main(path: Path) -> None:
    """Starts the writer, kills it, and counts its messages."""
    with clew.open(path) as store:
        session = store.sessions.create(title="Notes")
        acknowledged = killed_writer(path)
        stored = [node.id for node in session.path()]
        print(f"{len(acknowledged)} acknowledged, {len(stored)} stored, {len(set(acknowledged) - set(stored))} lost")
        session.append(clew.user("and it goes on"))
        print("the store is", "sound" if store.verify().ok else "damaged")


def killed_writer(path: Path) -> list[str]:
    """The ids that the writer acknowledged before SIGKILL."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        ids = []
        for line in writer.stdout:
            ids.append(line.strip())
            if len(ids) == 50:
                writer.kill()
    return [id for id in ids if len(id) == 36]  # the pipe may have cut off the last line


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "chats.db")
