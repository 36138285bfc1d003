"""P3, P5: processes that open a session by their own key while others purge it lose nothing and leave nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import clew

PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
"""No shrinking: the processes make each run another one."""
KEY = ("app", "someone")

WORKER = """
import json, sys
import clew

path, name, script = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
with clew.open(path) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for number, what in enumerate(script):
        done = None
        while done is None:
            session = store.sessions.open("app", "someone", title="the title")
            try:
                if what == "purge":
                    receipt = session.purge()
                    assert all("not found" in one.error for one in receipt.failures), receipt
                    done = ["purge", receipt.messages]
                else:
                    session.append([clew.user(f"{name} {number} {n} canary") for n in range(what)])
                    done = ["say", number, what]
            except clew.NotFound:  # another process has purged it since
                pass
        print(json.dumps(done), flush=True)
"""

SCRIPTS = st.lists(
    st.lists(st.one_of(st.just("purge"), st.integers(1, 3)), min_size=1, max_size=5), min_size=2, max_size=3
)


def run(path: Path, scripts: list[list[str | int]]) -> list[list[list[str | int]]]:
    """Runs a process for each script, all begun at the same moment; what each has done, in its order."""
    crew = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path), f"w{number}", json.dumps(script)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number, script in enumerate(scripts)
    ]  # fmt: skip
    for one in crew:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in crew:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    found = []
    for one in crew:
        out, err = one.communicate(timeout=60)
        assert one.returncode == 0, err
        found.append([json.loads(line) for line in out.splitlines()])
    return found


@settings(max_examples=3, deadline=None, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(SCRIPTS)
@example([[1, "purge"] * 3, [2, 1] * 4, ["purge", 3] * 2])
def test_a_session_that_is_opened_and_purged(scripts: list[list[str | int]]) -> None:
    """Of each process the last messages are there, and the receipts count all others, of which no byte is left."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "s.db")
        clew.open(path).close()
        done = run(path, scripts)
        said = [[f"w{n} {one[1]} {m} canary" for one in some if one[0] == "say" for m in range(int(one[2]))]
                for n, some in enumerate(done)]  # fmt: skip
        purged = sum(int(one[1]) for some in done for one in some if one[0] == "purge")
        with clew.open(path) as store:
            store.clear_traces()
            left = [node.text for session in store.sessions.list().all() for node in session.path()]
            for n, own in enumerate(said):
                mine = [text for text in left if text.startswith(f"w{n} ")]
                assert mine == own[len(own) - len(mine) :]
            assert len(left) + purged == sum(map(len, said))
            sessions = list(store.sessions.list().all())
            assert len(sessions) <= 1
            for session in sessions:
                assert (session.title, session.extra) == ("the title", {"key": list(KEY)})
                assert session == store.sessions.open(*KEY)
            assert store.verify().ok
        kept = b"".join(one.read_bytes() for one in Path(folder).iterdir())
        assert [text for own in said for text in own if text not in left and text.encode() in kept] == []


def test_a_key_that_several_open_at_once(tmp_path: Path) -> None:
    """One of them creates the session, and all get it, also if none of them has found it before its write."""
    stores = [clew.open(tmp_path / "s.db") for _ in range(4)]
    begin = Barrier(len(stores))

    def open_all(store: clew.Store) -> list[str]:
        found = []
        for number in range(40):
            begin.wait(30)
            found.append(store.sessions.open("key", str(number)).id)
        return found

    with ThreadPoolExecutor(len(stores)) as pool:
        first, *others = pool.map(open_all, stores)
    assert len(set(first)) == 40
    assert others == [first] * 3
    for store in stores:
        store.close()
