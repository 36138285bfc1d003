"""Let a tool change files, and bring them back as they were before a message."""

import tempfile
from pathlib import Path

import clew
from clew.checkpoints import Checkpoints


def main(folder: Path) -> None:
    """Changes two files under a checkpoint, and rewinds."""
    project = folder / "project"
    project.mkdir()
    (project / "main.py").write_text("print('one')\n", encoding="utf-8")

    with clew.open(folder / "chats.db") as store:
        session = store.sessions.create(cwd=project)
        checkpoints = Checkpoints(session, project)
        message = session.append(clew.user("Make it say two, and add a test."))
        with checkpoints.guard(message, ["main.py", "test.py"]):
            (project / "main.py").write_text("print('two')\n", encoding="utf-8")
            (project / "test.py").write_text("assert True\n", encoding="utf-8")

        done = checkpoints.rewind(message)
        print("restored:", sorted(done.files_changed))
        print((project / "main.py").read_text(encoding="utf-8"), end="")
        print("the new file is gone:", not (project / "test.py").exists())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
