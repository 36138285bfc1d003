"""Appends to, renames, holds and forks sessions until it is killed; prints a line for each change that is stored."""

from __future__ import annotations

import random
import sys

import clew


def main(path: str, seed: str, names: list[str]) -> None:
    """Changes random sessions of `names`."""
    chosen = random.Random(seed)
    with clew.open(path) as store:
        print("ready", flush=True)
        for count in range(1_000_000):
            name, way = chosen.choice(names), chosen.choice(["append", "rename", "hold", "fork"])
            text = f"{seed} {count}"
            try:
                session = store.sessions.get(name)
                if way == "append":
                    session.append(clew.user(text))
                elif way == "rename":
                    session.rename(text)
                elif way == "hold":
                    session.hold()
                else:
                    text = store.sessions.fork(session).id
            except (clew.NotFound, clew.Conflict):
                continue
            print(way, name, text, sep="\t", flush=True)


main(sys.argv[1], sys.argv[2], sys.argv[3:])
