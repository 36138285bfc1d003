"""A terminal chat that resumes where it stopped. `python examples/chat.py [STORE]`; an empty line ends it.

The model is an echo. With a STORE the talk is kept; without one it is in a temporary folder and gone at the end.
"""

import os
import sys
import tempfile
from collections.abc import Iterator

import clew


def model(messages: list[clew.Message]) -> clew.Message:
    """Replace this with a call of a real model."""
    usage = clew.Usage(input=sum(len(message.text.split()) for message in messages), output=3)
    return clew.assistant(f"You said: {messages[-1].text}", model="echo", usage=usage)


def current(store: clew.Store) -> clew.Session:
    """The session last active in this directory, or a new one."""
    try:
        return store.sessions.latest(cwd=os.getcwd())
    except clew.NotFound:
        return store.sessions.create(cwd=os.getcwd())


def lines() -> Iterator[str]:
    """Lines that the user types, up to an empty line."""
    while True:
        try:
            typed = input("> ").strip()
        except EOFError:
            return
        if not typed:
            return
        yield typed


def main(path: str) -> None:
    """Runs the chat."""
    with clew.open(path) as store:
        session = current(store)
        for node in session.path(last=6):
            print(f"{node.role}: {node.text}")
        for text in lines():
            session.append(clew.user(text))  # before calling the model, so that a crash does not lose the question
            answer = session.append(model([node.message for node in session.path()]))
            print(f"assistant: {answer.text}")
            if session.title is None:
                session.rename(text[:60])
        counters = session.counters
        print(f"\n{counters.messages} messages, {counters.tokens} tokens, in session {session.handle}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(os.path.join(folder, "chats.db"))
