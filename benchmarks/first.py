"""A process that has just opened a new file, and appends its first messages; `appending` starts it."""

from __future__ import annotations

import json
import sys

import clew
from benchmarks.bench import encoded, messages
from benchmarks.floor import Floor, session_id
from benchmarks.measure import each


def main(kind: str, path: str, count: int) -> None:
    """Appends the messages, and prints the seconds that each took."""
    said = messages(count)
    if kind == "clew":
        with clew.open(path) as store:
            took = each(store.sessions.create().append, said)()
    else:
        floor, name = Floor(path), session_id()
        took = each(lambda body: floor.append(name, body), encoded(said))()
        floor.close()
    print(json.dumps(took))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
