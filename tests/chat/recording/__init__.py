"""Messages of a chat client are stored while they are exchanged."""
