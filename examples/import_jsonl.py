"""Import a provider's messages from a file of JSON lines. Repeated runs store each line once."""

import tempfile
import uuid
from pathlib import Path

import clew

EXPORT = b"""\
{"role": "user", "content": "Why is the build failing?"}
{"content": [{"type": "thinking", "thinking": "", "signature": "EqQB"}, {"type": "text", "text": "The lint step."}], \
"role": "assistant", "usage": {"input_tokens": 12, "output_tokens": 7}, "id": 12345678901234567890}
"""


def import_file(store: clew.Store, file: Path, provider: str) -> clew.Session:
    """Returns the session with the file's messages. All ids derive from the path and the line number."""
    base = uuid.uuid5(uuid.NAMESPACE_URL, file.resolve().as_uri())
    try:
        session = store.sessions.get(str(base))
    except clew.NotFound:
        session = store.sessions.create(title=file.name, id=str(base))
    for number, line in enumerate(file.read_bytes().splitlines()):
        session.append(clew.native(provider, line), id=str(uuid.uuid5(base, str(number))))
    return session


def main(folder: Path) -> None:
    """Imports a file twice and shows that it is stored once, byte for byte."""
    file = folder / "export.jsonl"
    file.write_bytes(EXPORT)
    with clew.open(folder / "chats.db") as store:
        for _ in range(2):
            session = import_file(store, file, "anthropic")
        for node in session.path():
            print(f"{node.role}: {node.text}")
        raw = [node.native.raw for node in session.path() if node.native is not None]
        print("byte for byte:", b"\n".join(raw) + b"\n" == EXPORT)
        print(f"{session.counters.tokens} tokens were spent")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
