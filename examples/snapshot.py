"""Save a chat client to an encrypted file after each answer, and continue in another process.

The model is `offline`, which echoes; with an API key, use provider="claude", "openai" or "gemini".
"""

import tempfile
from pathlib import Path

from clew import chat, snapshots
from clew.chat.recording import autosave


def main(folder: Path) -> None:
    """Chats, stops, and continues from the file."""
    store = snapshots.FileStore(folder / "saved", snapshots.generate_key())
    client = chat.connect("offline")
    assert isinstance(client, chat.PersistentChatClient)  # clients that can be saved and restored
    print(autosave(client, store).chat("Why is the build failing?"))

    (saved,) = store.list()
    print("saved:", saved.provider, saved.message_count, "messages")

    again = chat.connect("offline")
    assert isinstance(again, chat.PersistentChatClient)
    again.restore(store.load(saved.id))
    print(again.chat("Where were we?"))
    print("messages now:", len(again.history))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
