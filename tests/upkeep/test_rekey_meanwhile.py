"""Whatever is written in the middle of an exchange of keys is there after it."""

from __future__ import annotations

from pathlib import Path

import pytest

import clew
from clew.store.parts import Parts
from clew.upkeep import rekey

OLD, NEW = bytes(range(32)), bytes(range(32, 64))


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("kind", ["seal", "rotate", "deep", "unseal"])
def test_writes_between_the_batches(path: Path, kind: rekey.Kind, alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between any two batches everything can be read, and appended to, renamed, logged, attached and forked.

    Alone, one session goes on where it ended, and nothing else is done: its appends do not look at the store first.
    """
    monkeypatch.setattr(rekey, "BATCH", 3)
    monkeypatch.setattr(rekey, "BYTES", 200_000)
    with clew.open(path, key=None if kind == "seal" else OLD) as store:
        sessions = [store.sessions.create(title=f"{n}") for n in range(3)]
        said: list[list[str]] = [[] for _ in sessions]
        logged: list[list[bytes]] = [[] for _ in sessions]
        blobs: list[tuple[int, str, bytes]] = []

        def write(round: int) -> None:
            if alone and round:
                said[2].append(f"alone in round {round}")
                sessions[2].append(clew.user(said[2][-1]))
                return
            fork = sessions[1].fork()
            for n in (2, 0, 1, 2):  # it ends and begins with the same one, which goes on without looking
                session = sessions[n]
                for _ in range(2):
                    text = f"{n} in round {round}, {len(said[n])}"
                    session.append(clew.user(text))
                    said[n].append(text)
                logged[n].append(b"%d" % round)
                session.log.append(logged[n][-1])
                if n == 0:
                    attach(round)
                    fork.append(clew.user("forked"))
                    sessions[1].rename(f"after {round}")

        def attach(round: int) -> None:
            content = b"%d" % round * 1000
            block = sessions[0].attach(content, mime_type="text/plain")
            assert block.blob is not None
            sessions[0].append(clew.user("see", block))
            said[0].append("see")
            blobs.append((0, block.blob, content))

        def check() -> None:
            for n, session in enumerate(sessions):
                assert [node.text for node in session.path()] == said[n]
                assert [entry.data for entry in session.log.read()] == logged[n]
            for n, digest, content in blobs:
                assert sessions[n].blobs.get(digest) == content

        write(0)
        engine = Parts.of(store).engine
        rekey.begin(engine, kind, NEW if kind != "unseal" else None)
        write(1)
        rounds, stage = 2, -1
        while engine.write(lambda tx: rekey._step(engine, tx)) is not None:
            mark = engine.read(lambda tx: rekey.read_mark(engine, tx))
            assert mark is not None
            if mark.stage != stage or rounds % 10 == 3:  # were it every time, it would never come to an end
                stage = mark.stage
                write(rounds)
                check()
            rounds += 1
        assert rounds > 5
        assert store.verify().ok
        rekey.finish(engine)
        write(99)
        check()
        assert store.verify().ok
    key = {"seal": NEW, "rotate": NEW, "deep": NEW, "unseal": None}[kind]
    with clew.open(path, key=key) as store:
        sessions = [store.sessions.get(session.id) for session in sessions]
        check()
