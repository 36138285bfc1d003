"""Where a key comes from: files, variables, the keyring, a person who types a passphrase."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import clew
from clew.cli.setup.key_sources import NEW_VARIABLES, VARIABLES
from tests.cli.conftest import Run
from tests.cli.terminal import at_a_terminal

KEY = bytes(range(32))
ID = clew.keys.key_id(KEY).hex()
LINE = '{"text": "a canary"}\n'
WORDS = "correct horse battery"


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    path = tmp_path / "store.key"
    path.write_text(KEY.hex())
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """A keyring of the test's own; returns what is in it."""
    import keyring as package

    from tests.keyrings import FileKeyring

    before, made = package.get_keyring(), FileKeyring()
    made.path = str(tmp_path / "keyring")
    monkeypatch.setattr(package.core, "_keyring_backend", made)
    assert package.get_keyring() is not before
    return lambda: [line[1] for line in made.lines()]


def test_a_key_makes_a_sealed_store(clew_cli: Run, db: str, key_file: str) -> None:
    """A store that is not there and a key that is: it is sealed from its first byte, and opens in each way."""
    assert clew_cli("append", "--key-file", key_file, input=LINE).code == 0
    assert b"canary" not in Path(db).read_bytes()
    ways = [
        (["ls", "--key-file", key_file], {}),
        (["--key-file", key_file, "ls"], {}),
        (["ls"], {"CLEW_KEY_FILE": key_file}),
        (["ls"], {"CLEW_KEY": KEY.hex()}),
        (["ls"], {"CLEW_KEY": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}),
    ]
    for args, env in ways:
        assert "a canary" in clew_cli(*args, env=env).out
    assert clew_cli("ls").code == 6
    assert f"is sealed with key {ID}" in clew_cli("ls").err
    assert "--key-file" in clew_cli("ls").err


def test_the_keyring(clew_cli: Run, keyring: Callable[[], list[str]]) -> None:
    """CLEW_KEYRING names an entry; generate makes one, never a second of the name, and nothing else makes any."""
    env = {"CLEW_KEYRING": "chats"}
    missing = clew_cli("append", input=LINE, env=env)
    assert missing.code == 6
    assert "'clew key generate --keyring chats' creates a new one" in missing.err
    assert keyring() == []
    made = clew_cli("key", "generate", "--keyring", "chats", "--json").json
    assert made["keyring"] == "chats"
    assert clew_cli("key", "generate", "--keyring", "chats").code == 1
    assert keyring() == ["chats"]
    assert clew_cli("append", input=LINE, env=env).code == 0
    assert clew_cli("key", "status", "--json", env=env).json["key_ids"] == [made["key_id"]]


def test_a_keyring_that_cannot_be_asked_is_an_error(program: Run, clew_cli: Run, db: str) -> None:
    """Where there is none, no store is made, and none is touched."""
    none = {"CLEW_KEYRING": "chats", "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    done = program("append", input=LINE.encode(), env=none)
    assert done.code == 5
    assert "keyring" in done.err
    assert not os.path.exists(db)


@pytest.mark.parametrize("name", VARIABLES)
def test_an_empty_variable_never_makes_a_plain_store(name: str, clew_cli: Run, db: str) -> None:
    """A variable that is set and empty is a mistake, not a wish for a store without a key."""
    assert clew_cli("append", input=LINE, env={name: ""}).code == 6
    assert not os.path.exists(db)


def test_two_keys_are_one_too_many(clew_cli: Run, db: str, key_file: str) -> None:
    """Two ways at once are refused, and both named; the flag stands above its own variable."""
    done = clew_cli("append", input=LINE, env={"CLEW_KEY": KEY.hex(), "CLEW_PASSPHRASE": WORDS})
    assert done.code == 2
    assert "CLEW_KEY and CLEW_PASSPHRASE both set a key" in done.err
    done = clew_cli("append", "--key-file", key_file, input=LINE, env={"CLEW_KEYRING": "x"})
    assert done.code == 2
    assert "--key-file" in done.err
    assert "CLEW_KEYRING" in done.err
    assert not os.path.exists(db)
    assert clew_cli("append", "--key-file", key_file, input=LINE, env={"CLEW_KEY_FILE": "/nowhere"}).code == 0


def test_a_plain_store_is_not_opened_with_a_key(clew_cli: Run, talk: Callable[..., str], key_file: str) -> None:
    """A key that is given says that the store is thought to be sealed: one that is not is refused."""
    talk("a")
    done = clew_cli("ls", "--key-file", key_file)
    assert done.code == 1
    assert "is not sealed" in done.err


def test_help_names_every_way(clew_cli: Run) -> None:
    """`clew help environment` lists each variable."""
    text = clew_cli("help", "environment").out
    assert all(name in text for name in VARIABLES)
    assert len(NEW_VARIABLES) == len(VARIABLES)


def test_a_passphrase_is_asked_for(clew_cli: Run, db: str) -> None:
    """On a terminal, without echo, also if stdin is a pipe, three times at most; elsewhere it is an error."""
    assert clew_cli("append", input=LINE, env={"CLEW_PASSPHRASE": WORDS}).code == 0
    assert clew_cli("ls").code == 6
    ask = f"Passphrase for {db}:"
    seen = at_a_terminal("ls", answers=[(ask, "wrong"), (ask, WORDS)])
    assert seen.code == 0, seen.screen
    assert "Wrong passphrase." in seen.screen
    assert "a canary" in seen.screen
    assert WORDS not in seen.screen
    more = at_a_terminal("append", answers=[(ask, WORDS)], input=b'{"text": "more"}')
    assert more.code == 0, more.screen
    before = Path(db).read_bytes()
    seen = at_a_terminal("ls", answers=[(ask, "wrong")] * 3)
    assert (seen.code, "is sealed with key" in " ".join(seen.screen.split())) == (6, True)
    assert at_a_terminal("ls", answers=[(ask, "")]).code == 6
    assert at_a_terminal("ls", answers=[(ask, "\x03")]).code == 130
    assert Path(db).read_bytes() == before


def test_no_passphrase_is_asked_for_a_store_with_a_key(clew_cli: Run, db: str, key_file: str) -> None:
    """No words open it, so none are asked for."""
    clew_cli("append", "--key-file", key_file, input=LINE)
    assert at_a_terminal("ls").code == 6


def test_the_tour_needs_no_key(program: Run) -> None:
    """Its own store is plain, whatever key is set for the user's."""
    done = program("tour", env={"CLEW_KEY": KEY.hex()})
    assert (done.code, "(signal 9)" in done.out) == (0, True)


def test_no_flag_takes_a_secret() -> None:
    """No command has an option or an argument for a key or a passphrase itself."""
    from tests.cli.conftest import leaves

    for command in leaves().values():
        for param in command.params:
            for flag in param.opts:
                if {"passphrase", "key", "secret"} & set(flag.strip("-").split("-")):
                    assert flag in ("--key-file", "--new-key-file", "--passphrase", "--new-passphrase")
                    assert not flag.endswith("passphrase") or param.is_flag  # type: ignore[attr-defined]
