"""A logs.db that llm 0.31 began and llm 0.36 continued: ``python -m tools.samples.llm OLD/llm NEW/llm``.

With each version: a turn with a system prompt, a tool call that works and one that fails, parallel calls, a picture, a
fragment, a resumed conversation, a request that fails, and a run that is killed. The newer one continues a conversation
of the older one, and forks a thread. The database is written as SQL, without search tables.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from clew.testing.providers import ProviderServer, ToolUse
from tools.samples.common import OUT, clean_text, environment, home, server

PLACE = Path("/tmp/clew-samples-llm")
MODELS = """
- model_id: local
  model_name: a-model
  api_base: "{url}/v1"
  supports_tools: true
  vision: true
"""
FUNCTIONS = """
def double(n: int) -> int:
    "Twice a number"
    return 2 * n

def broken(n: int) -> int:
    "Never works"
    raise ValueError("it is broken")
"""
FORK = """
import llm, llm.cli, sqlite_utils, sys
from llm.logs import LogStore
db = sqlite_utils.Database(sys.argv[1])
thread = next(db.query("select * from threads where name like 'Run%'"))
turn = next(db.query("select * from turns where thread_id = ? order by id", [thread["id"]]))
print(LogStore(db).fork(turn["tip_message_hash"], name="A fork", forked_from=thread["id"]))
"""


class Llm:
    """The program in a home of its own."""

    def __init__(self, program: str, place: Path) -> None:
        self._program = program
        self._place = place

    def __call__(self, *words: str) -> str:
        """Runs it to its end; what it printed."""
        done = subprocess.run(self._command(words), cwd=self._place / "work", env=self._env(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
        return done.stdout + done.stderr

    def kill(self, *words: str) -> None:
        """Runs it, and kills it after three seconds."""
        process = subprocess.Popen(self._command(words), cwd=self._place / "work", env=self._env(),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
        time.sleep(3)
        process.kill()
        process.wait()

    def _command(self, words: tuple[str, ...]) -> list[str]:
        return [self._program, "-m", "local", "--key", "none", *words] if words[0] != "-c" else [self._program, *words]

    def _env(self) -> dict[str, str]:
        return environment(self._place, LLM_USER_PATH=str(self._place / "llm"))


def talk(llm: Llm, model: ProviderServer, which: str) -> None:
    """The turns of one version."""
    model.say("Rome.")
    llm("-s", "Be brief.", f"Capital of Italy? ({which})")
    calls = [ToolUse("double", {"n": 21}, "call_a"), ToolUse("broken", {"n": 1}, "call_b")]
    model.say("I compute.", calls=calls, thinking="Two calls.")
    model.say("42, and one is broken.")
    llm("--functions", FUNCTIONS, f"Run both ({which})")
    model.say("As before.")
    llm("-c", "--key", "none", "And again?")
    model.say("A red pixel.")
    llm("-a", "pixel.png", f"What is this? ({which})")
    model.say("About rivers.")
    llm("-f", "note.txt", f"What is it about? ({which})")
    model.fail(400, "out of order")
    llm(f"This request fails ({which})")
    model.say("Never ending.", stalls=3)
    llm.kill(f"This run is killed ({which})")


def dump(path: Path) -> str:
    """The database as SQL; tables for search, which can be built again, are left out."""
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        virtual = [name for name, sql in rows if "VIRTUAL" in sql.upper()]
        drop = {name for name, _ in rows if any(name.startswith(one) for one in virtual) or name == "_llm_migrations"}
        lines = [sql + ";" for name, sql in rows if name not in drop and not name.startswith("sqlite_")]
        for name, _ in rows:
            if name in drop or name.startswith("sqlite_"):
                continue
            for row in database.execute(f'SELECT * FROM "{name}"'):
                values = ", ".join(database.execute("SELECT quote(?)", (value,)).fetchone()[0] for value in row)
                lines.append(f'INSERT INTO "{name}" VALUES ({values});')
    return "\n".join(lines) + "\n"


def main(old: str, new: str) -> None:
    """Writes the sample."""
    with home(PLACE) as place, server() as model:
        (place / "llm").mkdir()
        (place / "llm" / "extra-openai-models.yaml").write_text(MODELS.format(url=model.url))
        (place / "work" / "note.txt").write_text("Rivers run to the sea.\n")
        before, after = Llm(old, place), Llm(new, place)
        talk(before, model, "old")
        model.say("It was about rivers.")
        after("-c", "--key", "none", "What was it about?")
        talk(after, model, "new")
        database = place / "llm" / "logs.db"
        python = str(Path(new).with_name("python"))
        fork = subprocess.run([python, "-c", FORK, str(database)], capture_output=True, text=True, check=True)
        model.say("In the fork.")
        after("--cid", fork.stdout.strip(), "Where are we?")
        (OUT / "llm").mkdir(parents=True, exist_ok=True)
        (OUT / "llm" / "logs.sql").write_text(clean_text(dump(database), {str(place): "/home/user"}))


if __name__ == "__main__":
    main(*sys.argv[1:])
