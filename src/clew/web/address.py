"""Where the page listens: the loopback address only."""

HOST = "127.0.0.1"
PORT = 8765
"""The port that is tried first."""
