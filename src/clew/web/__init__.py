"""The web page: reads, searches and compares conversations in a browser on the same machine."""

HOST = "127.0.0.1"
"""Where the page listens: the loopback address only."""
PORT = 8765
"""The port that is tried first."""
