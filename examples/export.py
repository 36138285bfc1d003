"""Write a conversation to Markdown, HTML and JSONL, and read the JSONL into another store."""

import tempfile
from pathlib import Path

import clew
from clew import exports


def main(folder: Path) -> None:
    """Exports one conversation in three forms."""
    with clew.open(folder / "chats.db") as store:
        session = store.sessions.create(title="Build fails")
        session.append([clew.user("Why is the build failing?"), clew.assistant("The *lint* step fails.")])
        exports.write(store, folder / "build.md", [session], form="markdown")
        exports.write(store, folder / "build.html", [session], form="html")
        exports.write(store, folder / "all.jsonl")

    print((folder / "build.md").read_text(encoding="utf-8"))
    with clew.open(folder / "other.db") as other:
        with (folder / "all.jsonl").open("rb") as lines:
            exports.restore(other, lines)
        print("in the other store:", [one.title for one in other.sessions.list().items])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
