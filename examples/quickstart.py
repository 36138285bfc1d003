"""Open a store, add messages, resume, fork, rewind, search."""

import tempfile
from pathlib import Path

import clew


def main(path: Path) -> None:
    """Runs all steps in the store at `path`."""
    with clew.open(path) as store:
        session = store.sessions.create(title="Build fails", cwd="/src/app")
        question = session.append(clew.user("Why is the build failing?"))
        session.append(clew.assistant("The lint step fails: an import is unused."))

    # Later, in another process.
    with clew.open(path) as store:
        session = store.sessions.latest(cwd="/src/app")
        show("where I was", session)

        other = session.fork(at=question.id, title="Other idea")
        other.append(clew.assistant("Perhaps the cache is stale."))
        show("a fork shares the question", other)

        left = session.rewind(to=question.id)
        session.append(clew.assistant("It is the type check."))
        show("rewound, and answered anew", session)
        if left is not None:
            print("  the branch still ends with:", store.nodes.get(left.head_id)[0].text)

        for hit in store.search("lint step"):
            print("found:", hit.snippet)


def show(what: str, session: clew.Session) -> None:
    """Prints a conversation."""
    print(f"{what} ({session.handle} {session.title}):")
    for node in session.path():
        print(f"  {node.handle}  {node.role:9}  {node.text}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "chats.db")
