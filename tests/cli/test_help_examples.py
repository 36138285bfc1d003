"""The examples in the help of every command run as they are."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.checkpoints import Checkpoints
from clew.snapshots import Snapshot, new_snapshot
from tests.cli.conftest import leaves
from tests.cli.test_tree import id_of

SNAPSHOT = "7d444840-9dc0-41d1-b245-5ffdce74fad2"
NOT_RUN = {
    "clew import": "asks on a terminal; elsewhere it needs --yes",
    "clew import --watch": "runs until Ctrl-C; tests/cli/test_watch.py runs it",
    "clew import --undo k3m9qa": "the ID is that of an import; tests/cli/test_import_histories.py has one",
    "clew serve": "runs until Ctrl-C; tests/cli/test_serve.py runs it",
    "clew serve --allow-write": "the same",
    "clew serve --url": "the same",
    "clew open k3m9qa": "the same, and it starts a browser",
    "clew open 7dq2xe": "the same",
    'clew chat -n -m sonnet -a chart.png "What does this show?"': "needs a provider; tests/cli/test_chat.py has one",
    "clew show k3m9qa --last 10 --follow": "runs until Ctrl-C; tests/cli/test_show.py runs it",
    "clew mcp --http 8765": "runs until Ctrl-C; tests/mcp runs it",
    "clew snapshot save k3m9qa --at s3://team/snapshots": "needs a bucket; tests/cli/test_snapshot.py has one",
    "clew key generate --keyring chats": "needs the keyring of the system; tests/cli/test_key.py has one",
    "clew key generate | vault kv put secret/clew key=-": "needs a server for secrets",
    "clew key export-recovery --key-file ~/keys/clew.key | lpr": "needs a printer",
    "CLEW_KEYRING=chats clew key seal": "needs the keyring of the system; tests/cli/test_key.py has one",
    "clew key seal --passphrase": "asks on a terminal; tests/cli/test_key.py has one",
    "clew key rotate --deep --new-passphrase": "the same",
    "clew verify --since clew-head-1.3gAQxAjm1l": "the head is shortened; tests/cli/test_upkeep.py has a whole one",
    "clew copy chats.db postgresql://app@db.example/app": "needs a server; tests/cli/test_upkeep.py has one",
    "clew completion fish | source": "needs fish; tests/cli/test_completion.py has it",
    "clew import chatgpt-export.zip --dry-run": "tests/sources has exports of ChatGPT",
    "clew chat": "asks on a terminal; tests/cli/test_talking.py runs it",
    "clew chat -c k3m9qa": "the same",
    "clew purge k3m9qa q8r2vt": "asks on a terminal; tests/cli/test_purge.py runs it",
    "clew redact --apply --all": "asks on a terminal; tests/cli/test_redact.py runs it",
    "clew purge --forget-mirror /mnt/usb/sessions": "needs a mirror; tests/cli/test_purge.py has one",
    "clew key from-recovery --out ~/keys/clew.key": "asks on a terminal",
    "clew export k3m9qa --as native > session.jsonl": "needs an import; tests/cli/test_export.py has one",
    "clew relocate /src/app /work/app --dry-run": "the directory is another one here",
    "clew quarantine restore 7dq2xe": "needs a damaged store; tests/cli/test_quarantine.py has one",
    "clew quarantine purge 7dq2xe": "the same",
    'eval "$(clew completion zsh)"': "needs zsh; tests/cli/test_completion.py has it",
    "clew tour": "tests/cli/test_tour.py runs it",
}
"""Examples that need what a test of all commands has not, each with the reason."""
SEALED = {"key unseal", "key export-recovery", "key rotate"}
"""Commands whose examples need a sealed store."""
UNDO = ["clew rewind k3m9qa x4w8tn --conversation --yes", "clew rewind k3m9qa 7dq2xe --conversation --yes"]
POLICY = "clew retention set --days 30"
MOVED = "export CLEW_DB=$HOME/moved.db"
BEFORE: dict[str, list[str]] = {
    "clew import chats.jsonl": ["clew export -o chats.jsonl"],
    "clew import .cpeconvo": ["clew export k3m9qa --as cpeconvo -o .cpeconvo"],
    "clew trash restore k3m9qa": ["clew rm k3m9qa"],
    "clew hold release k3m9qa": ["clew hold add k3m9qa"],
    "clew undo": UNDO,
    "clew undo --steps 2": UNDO,
    "clew undo k3m9qa --dry-run": UNDO,
    "clew snapshot rm 7d444840 --at ~/snapshots": ["clew snapshot save --file snapshot.json --at ~/snapshots"],
    "clew snapshot restore 7d444840 --at ~/snapshots --title Again": [
        "clew snapshot save --file snapshot.json --at ~/snapshots"
    ],
    "mkdir -p ~/keys && clew key generate --out ~/keys/clew.key": ["rm ~/keys/clew.key"],
    "clew key from-recovery --out ~/keys/clew.key < recovery.txt": ["rm ~/keys/clew.key"],
    "clew key generate --out new.key": ["rm new.key"],
    "mv ~/src/app ~/work/app && clew relocate ~/src/app ~/work/app": ["mkdir ~/work", "cp clew.db ~/moved.db", MOVED],
    "clew retention sweep": [POLICY],
    "clew retention sweep --dry-run": [POLICY],
    "clew retention sweep --force": [POLICY],
    "clew verify --db ~/clew-backup.db": ["clew backup ~/clew-backup.db"],
    "clew config unset model": ["clew config set model sonnet"],
    "clew config unset --project db": ["clew config set --project db chats.db"],
}
"""What is done before an example."""
CODES: dict[str, int] = {
    "clew search --substring _ingress": 1,
    "clew search flaky test --tool claude-code --project ~/src/app": 1,
}
"""Exit codes other than 0: a search finds nothing."""


def cases() -> Iterator[tuple[str, str]]:
    """Every example, with the name of its command."""
    for name, command in leaves().items():
        for line in (command.epilog or "").replace("\b\n", "").partition("\n\n")[0].splitlines()[1:]:
            yield name, re.sub(r"\s+#.*$", "", line.strip())


CASES = list(cases())
RUN = [(name, line) for name, line in CASES if line not in NOT_RUN]
FIRST = list({name: (name, line) for name, line in reversed(RUN)}.values())[::-1]
OTHERS = [case for case in RUN if case not in FIRST]


def snapshot() -> Snapshot:
    """The snapshot that examples name."""
    messages = b'[{"role":"user","content":"Why?"},{"role":"assistant","content":"The lint step."}]'
    return new_snapshot(provider="claude", model="a-model", messages=messages).replace(id=SNAPSHOT)


def fill(home: Path) -> None:
    """A home folder with the files and the store that examples name, and a copy of it that is sealed."""
    app = home / "src/app"
    for folder in (app, home / "keys", home / ".claude/projects/-src-app", home / "snapshots"):
        folder.mkdir(parents=True)
    line = {"type": "user", "uuid": SNAPSHOT, "parentUuid": None, "sessionId": SNAPSHOT, "cwd": str(app),
            "timestamp": "2026-11-01T10:00:00.000Z", "version": "2.0.0",
            "message": {"role": "user", "content": "Where is the config?"}}  # fmt: skip
    (home / f".claude/projects/-src-app/{SNAPSHOT}.jsonl").write_text(json.dumps(line) + "\n")
    (app / "build.log").write_text("lint: failed\n")
    (app / "session.jsonl").write_text(json.dumps(line) + "\n")
    (app / "messages.jsonl").write_text('{"text": "Hello"}\n')
    (app / "snapshot.json").write_bytes(snapshot().to_json())
    key = clew.keys.from_file(home / "keys/clew.key", create=True)
    shutil.copy(home / "keys/clew.key", app / "old.key")
    clew.keys.from_file(app / "new.key", create=True)
    (app / "recovery.txt").write_text(clew.keys.recovery(key))
    with clew.open(app / "clew.db") as store:
        session = store.sessions.create(
            title="Build fails", cwd=str(app), id=id_of("k3m9qa"), labels=["work", "urgent"]
        )
        session.append(clew.user("Why does the lint step fail? 設定"), id=id_of("7dq2xe"))
        checkpoints = Checkpoints(session, app)
        checkpoints.capture(id_of("7dq2xe"), ["build.log"])
        session.append(clew.assistant("The lint step, in the flaky test."))
        session.append(clew.user("Fix it."), id=id_of("x4w8tn"))
        session.append(clew.assistant("Done."), id=id_of("m2p5vz"))
        store.sessions.create(title="Other", id=id_of("q8r2vt")).append(clew.user("Hello"))
        store.snapshots.save(snapshot())
    shutil.copy(app / "clew.db", app / "old.db")
    shutil.copy(app / "clew.db", app / "chats.db")
    shutil.copy(app / "clew.db", app / "sealed.db")
    with clew.open(app / "sealed.db") as store:
        store.seal(key)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home folder, and beside it a copy of how it was at first."""
    home = tmp_path_factory.mktemp("filled") / "home"
    fill(home)
    shutil.copytree(home, home.parent / "kept")
    return home


@pytest.mark.parametrize(("name", "line"), FIRST, ids=[line for _, line in FIRST])
def test_an_example_runs(name: str, line: str, filled: Path, tmp_path: Path) -> None:
    """The first example of a command succeeds as it is written, in the folder of a project with two conversations."""
    run(name, line, filled, tmp_path)


@pytest.mark.parametrize(("name", "line"), OTHERS, ids=[line for _, line in OTHERS])
def test_another_example_runs(name: str, line: str, filled: Path, tmp_path: Path) -> None:
    """So do its other examples."""
    run(name, line, filled, tmp_path)


def run(name: str, line: str, filled: Path, tmp_path: Path) -> None:
    """Runs an example in a fresh copy of the home folder."""
    shutil.rmtree(filled)
    home, bin = shutil.copytree(filled.parent / "kept", filled), tmp_path / "bin"
    bin.mkdir()
    for program, text in (("clew", f'exec "{sys.executable}" -m clew "$@"'), ("jq", "cat > /dev/null")):
        (bin / program).write_text(f"#!/bin/sh\n{text}\n")
        (bin / program).chmod(0o755)
    env = {**os.environ, "HOME": str(home), "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}", "CLEW_DB": "clew.db"}
    if name in SEALED:
        env |= {"CLEW_DB": "sealed.db", "CLEW_KEY_FILE": str(home / "keys/clew.key")}
    script = "\n".join(["set -e", *BEFORE.get(line, ()), line])
    done = subprocess.run(
        ["bash", "-c", script], cwd=home / "src/app", env=env, input="",
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == CODES.get(line, 0), done.stdout + done.stderr


def test_every_command_has_an_example_that_runs() -> None:
    """Only commands that wait for Ctrl-C, and the tour, have tests of their own instead; no reason is out of date."""
    assert set(leaves()) - {name for name, _ in RUN} == {"serve", "open", "tour", "quarantine restore"}
    assert set(NOT_RUN) - {line for _, line in CASES} == set()
    assert {*BEFORE, *CODES} - {line for _, line in CASES} == set()
