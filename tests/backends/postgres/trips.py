"""How often a connection waits for the server."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import psycopg


@contextmanager
def counted(conn: psycopg.Connection[Any]) -> Iterator[list[int]]:
    """Its round trips meanwhile, the one number of the list at the end: turns from what it sends to what comes back.

    As libpq itself has traced them, message by message.
    """
    found = [0]
    with tempfile.TemporaryFile("w+") as file:
        conn.pgconn.trace(file.fileno())
        try:
            yield found
        finally:
            conn.pgconn.untrace()
        file.seek(0, os.SEEK_SET)
        directions = [line.split("\t")[1] for line in file if line.count("\t") >= 2]
    found[0] = sum(sent == "F" and back == "B" for sent, back in pairwise(directions))
