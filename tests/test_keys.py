"""Where the key of a store comes from: each source gives it or raises, and no error shows it."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import keyring
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyring.backends.chainer import ChainerBackend

import clew
from clew import keys
from clew.base.ids import ALPHABET
from tests import keyrings
from tests.reliability.tools import need_strace

ROOT = Path(__file__).parents[1]
KEY = bytes(range(32))
HEX = KEY.hex()
BASE64 = base64.b64encode(KEY).decode()
PARAMETERS = {
    "v": 1, "kdf": "argon2id", "t": 1, "m": 8192, "p": 1, "salt": base64.b64encode(bytes(range(16))).decode()
}  # fmt: skip


def stored(**changes: object) -> bytes:
    """Parameters that are quick to derive with, and what is different in them."""
    return json.dumps(PARAMETERS | changes).encode()


def told(error: BaseException) -> str:
    """Everything that an error and those it came from could show."""
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None:
        seen.append(one)
        one = one.__cause__ or one.__context__
    return "".join(traceback.format_exception(error)) + repr([(each, each.args, vars(each)) for each in seen])


def at_once(code: str, tmp_path: Path, count: int = 8, **settings: str) -> list[str]:
    """What `count` processes print that begin to run `code` at the same moment; each must end well."""
    start = tmp_path / "start"
    script = (
        f"import os, sys, time; from clew import keys; print('ready', flush=True)\n"
        f"while not os.path.exists({str(start)!r}): time.sleep(0.001)\n{code}"
    )
    env = surroundings(tmp_path) | settings
    running = [
        subprocess.Popen([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    start.touch()
    said = [process.communicate(timeout=60)[0].strip() for process in running]
    assert [process.returncode for process in running] == [0] * count
    return said


def surroundings(tmp_path: Path) -> dict[str, str]:
    """An environment without the home folder of whoever runs the tests."""
    source = str(Path(clew.__file__).parents[1])
    return {
        "PATH": os.environ["PATH"], "PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "TMPDIR": str(tmp_path),
        "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path),
    }  # fmt: skip


# -- keys


def test_a_generated_key_is_new_each_time() -> None:
    """A key has 32 bytes, and no two are the same."""
    made = [keys.generate() for _ in range(100)]
    assert {len(key) for key in made} == {32}
    assert len(set(made)) == 100


@pytest.mark.parametrize("bad", [b"", b"x" * 31, b"x" * 33, "x" * 32, bytearray(32), None])
def test_a_key_is_32_bytes(bad: object) -> None:
    """Anything else is Invalid, with the size that was asked for."""
    for use in (keys.check, keys.key_id, keys.recovery):
        with pytest.raises(clew.Invalid, match="32 bytes"):
            use(bad)  # type: ignore[arg-type]
    assert keys.check(KEY) is KEY


@pytest.mark.checklist("A28")
def test_the_wrong_size_is_told() -> None:
    """The error says how many bytes there are, and text is shown the way to a passphrase."""
    with pytest.raises(clew.Invalid, match="this one has 31"):
        keys.check(b"x" * 31)
    with pytest.raises(clew.Invalid, match="from_passphrase"):
        keys.check("secret words")


def test_an_id_tells_keys_apart_and_not_the_key() -> None:
    """The id is the same for the same key, for ever, and another for a key that differs in one bit."""
    assert keys.key_id_text(keys.key_id(KEY)) == "8835fe56f5f4f9f6"
    ids = {keys.key_id((1 << bit).to_bytes(32, "big")) for bit in range(256)}
    assert len(ids) == 256
    assert {len(id) for id in ids} == {8}
    for bad in (b"", KEY, "8835fe56f5f4f9f6"):
        with pytest.raises(clew.Invalid):
            keys.key_id_text(bad)  # type: ignore[arg-type]


# -- from a file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A sound key file."""
    path = tmp_path / "store.key"
    path.write_text(HEX)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("content", [KEY, HEX.encode(), HEX.upper().encode(), BASE64.encode()])
def test_a_key_file_has_three_forms(file: Path, content: bytes) -> None:
    """32 bytes, 64 hex digits, or base64; a newline may follow."""
    for data in (content, content + b"\n"):
        file.write_bytes(data)
        assert keys.from_file(file) == keys.from_file(str(file)) == KEY


def test_a_raw_key_may_end_as_a_line_does(file: Path) -> None:
    """A newline that is one of the 32 bytes belongs to the key."""
    for key in (b"\n" * 32, b"x" * 31 + b"\n"):
        file.write_bytes(key)
        assert keys.from_file(file) == key
        file.write_bytes(key + b"\n")
        assert keys.from_file(file) == key


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\n", KEY[:31], KEY + b"x", KEY + b"\n\n", HEX.encode() + b"\n\n", HEX.encode() + b"\r\n", b" " + KEY,
        HEX.encode()[:-1], HEX.encode() + b"0", b"g" * 64, b"00 " * 21 + b"0", BASE64.encode()[:-1],
        b"*" + BASE64.encode()[1:], BASE64.encode() + b"\r\n", f"{BASE64[:9]} {BASE64[9:]}".encode(),
        base64.b64encode(KEY[:31]), base64.b64encode(KEY * 2), b"\xff" * 44, b"k" * 100_000,
    ],
)  # fmt: skip
def test_anything_else_in_a_key_file_is_refused(file: Path, content: bytes) -> None:
    """It is Invalid, says what a key file holds, and shows nothing of what is there."""
    file.write_bytes(content)
    with pytest.raises(clew.Invalid, match=r"does not contain a key\. A key is written as 64 hex digits") as caught:
        keys.from_file(file)
    assert len(content) < 8 or content.decode("latin-1").strip() not in told(caught.value)
    assert file.read_bytes() == content


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o666, 0o700 | 0o044])
def test_a_key_file_must_be_its_owners_alone(file: Path, mode: int) -> None:
    """Any right of another is refused, with the command that takes it away."""
    file.chmod(mode)
    for create in (False, True):
        with pytest.raises(clew.Invalid, match=f"its mode is {mode:o}") as caught:
            keys.from_file(file, create=create)
        assert f"chmod 600 '{file}'" in caught.value.hint
    assert file.stat().st_mode & 0o777 == mode
    file.chmod(0o400)
    assert keys.from_file(file) == KEY


def test_a_key_file_of_another_user_is_refused(file: Path) -> None:
    """Root, who may read everything, refuses it as well: whoever owns a file can change it."""
    if os.geteuid() == 0:
        os.chown(file, 65534, 65534)
    else:
        file = Path("/etc/passwd")
    with pytest.raises(clew.Invalid, match="belongs to another user"):
        keys.from_file(file)


def test_a_link_is_not_followed(file: Path, tmp_path: Path) -> None:
    """A symbolic link is refused, whether it leads to a sound key file or nowhere, and nothing is made behind it."""
    link, loose = tmp_path / "link", tmp_path / "loose"
    link.symlink_to(file)
    loose.symlink_to(tmp_path / "nothing")
    for path in (link, loose):
        for create in (False, True):
            with pytest.raises(clew.Invalid, match="is a symbolic link"):
                keys.from_file(path, create=create)
    assert not (tmp_path / "nothing").exists()


def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    """A folder, a pipe that nobody writes to, and a device are refused, and not waited for."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for path in (tmp_path, pipe, Path("/dev/null")):
        with pytest.raises(clew.Invalid, match="is not a regular file"):
            keys.from_file(path)


def test_a_missing_key_file_is_an_error(tmp_path: Path) -> None:
    """Nothing is made unless it is asked for."""
    with pytest.raises(clew.NotFound, match=r"key file .* not found.*create=True makes the file") as caught:
        keys.from_file(tmp_path / "k")
    assert caught.value.key == str(tmp_path / "k")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", ["", "a\0b", b"bytes", None, 7])
def test_a_key_file_is_named_by_a_path(bad: object) -> None:
    """Anything else is Invalid."""
    with pytest.raises(clew.Invalid, match="given as a path"):
        keys.from_file(bad, create=True)  # type: ignore[arg-type]


def test_a_file_that_cannot_be_opened_is_told(file: Path) -> None:
    """An error of the system is Unavailable, never a missing key."""
    with pytest.raises(clew.Unavailable, match="cannot be opened: Not a directory"):
        keys.from_file(file / "below")


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="no file here fails when it is read")
def test_a_file_that_cannot_be_read_is_told() -> None:
    """A read error is Unavailable, never a malformed key."""
    with pytest.raises(clew.Unavailable, match="cannot be read: Input/output error"):
        keys.from_file("/proc/self/mem")


def test_a_key_file_is_made_once(tmp_path: Path) -> None:
    """It is owner-only whatever the umask, holds the key that was returned, and is then left as it is."""
    path = tmp_path / "store.key"
    before = os.umask(0o777)
    try:
        key = keys.from_file(path, create=True)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o7777 == 0o600
    assert path.read_text() == key.hex() + "\n"
    assert keys.from_file(path, create=True) == keys.from_file(path) == key
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_no_key_is_never_overwritten(file: Path) -> None:
    """`create=True` leaves a file that it cannot understand as it is."""
    file.write_text("precious")
    with pytest.raises(clew.Invalid):
        keys.from_file(file, create=True)
    assert file.read_text() == "precious"


def test_a_key_file_needs_its_folder(tmp_path: Path) -> None:
    """A folder that is not there is not made."""
    with pytest.raises(clew.Invalid, match="does not exist"):
        keys.from_file(tmp_path / "none" / "k", create=True)
    assert list(tmp_path.iterdir()) == []


def test_processes_that_make_a_key_file_at_once_get_one_key(tmp_path: Path) -> None:
    """Eight processes start together, and all of them have the key that is in the file."""
    path = tmp_path / "folder" / "k"
    path.parent.mkdir()
    said = at_once(f"print(keys.from_file({str(path)!r}, create=True).hex())", tmp_path)
    assert set(said) == {keys.from_file(path).hex()}
    assert list(path.parent.iterdir()) == [path]


def test_a_new_key_file_is_durable(tmp_path: Path) -> None:
    """Its content is synced before it has its name, and its folder after; a file that was there is synced as well."""
    folder = tmp_path / "folder"
    folder.mkdir()
    code = f"from clew import keys; keys.from_file({str(folder / 'k')!r}, create=True)"
    command = [need_strace(), "-qq", "-y", "-s0", "-e", "trace=/^(fsync|fdatasync|link|linkat|unlink|unlinkat)$"]
    for expected in (["fsync k.part", "link", "unlink", "fsync folder"], ["fsync folder"]):
        done = subprocess.run(
            [*command, sys.executable, "-B", "-c", code],
            env=surroundings(tmp_path), capture_output=True, text=True, check=True,
        )  # fmt: skip
        calls = [line for line in done.stderr.splitlines() if str(folder) in line or "k" in line.split("/")]
        seen = []
        for line in calls:
            name = line.split("(")[0].removesuffix("at")
            what = re.sub(r"k\.[0-9a-f]{12}\.part", "k.part", line.rpartition("/")[2].partition(">")[0])
            seen.append(f"{name} {what}" if name == "fsync" else name)
        assert seen == expected, done.stderr


# -- from the environment


@pytest.mark.parametrize("value", [HEX, HEX.upper(), BASE64, HEX + "\n", BASE64 + "\n"])
def test_a_key_in_the_environment(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hex or base64, in CLEW_KEY or a variable of another name."""
    monkeypatch.setenv("CLEW_KEY", value)
    monkeypatch.setenv("OTHER_KEY", keys.generate().hex())
    assert keys.from_env() == KEY
    assert keys.from_env("OTHER_KEY") != KEY


def test_a_missing_variable_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is NotFound, and names the variable."""
    monkeypatch.delenv("CLEW_KEY", raising=False)
    with pytest.raises(clew.NotFound, match="environment variable 'CLEW_KEY' not found"):
        keys.from_env()


@pytest.mark.parametrize(
    "value",
    ["", "secretsecret", HEX[:-1], HEX + "00", "z" * 64, BASE64[:-1] + "*", "*" + BASE64, "secret\udcff" * 9, "é" * 64],
)
def test_a_malformed_variable_is_not_shown(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is Invalid, and neither the error nor what it came from has the value."""
    monkeypatch.setenv("CLEW_KEY", value)
    with pytest.raises(clew.Invalid, match="the environment variable CLEW_KEY does not contain a key") as caught:
        keys.from_env()
    assert not value or value not in told(caught.value)
    assert ascii(value)[1:-1] not in told(caught.value) or not value


@pytest.mark.parametrize("name", ["", HEX, BASE64, "A" * 64, "A=B", "A\0B", "\ud800", None, 7])
def test_a_key_in_place_of_a_name_is_not_shown(name: object) -> None:
    """Whoever hands over the value by mistake does not find it in a log."""
    with pytest.raises(clew.Invalid, match="not the name of an environment variable") as caught:
        keys.from_env(name)  # type: ignore[arg-type]
    assert not isinstance(name, str) or len(name) < 32 or name not in told(caught.value)


# -- from the keyring


Ring = Callable[..., keyrings.FileKeyring]


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ring:
    """Puts a keyring of the test's in place of the system's, with its temporary files in the test's folder."""
    monkeypatch.setattr(keyring.core, "_keyring_backend", None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def use(kind: type[keyrings.FileKeyring] = keyrings.FileKeyring) -> keyrings.FileKeyring:
        backend = kind()
        backend.path = str(tmp_path / "ring")
        keyring.set_keyring(backend)
        return backend

    return use


def test_a_key_in_the_keyring(ring: Ring) -> None:
    """It is found under its service and name; hex is read too."""
    backend = ring()
    backend.set_password("clew", "chats", BASE64)
    backend.set_password("other", "chats", "f" * 64)
    assert keys.from_keyring("chats") == KEY
    assert keys.from_keyring("chats", service="other") == b"\xff" * 32


def test_a_missing_entry_is_an_error(ring: Ring) -> None:
    """A key is never made unless it is asked for."""
    backend = ring()
    with pytest.raises(clew.NotFound, match=r"keyring entry 'clew/chats' not found.*create=True"):
        keys.from_keyring("chats")
    assert backend.lines() == []


@pytest.mark.checklist("C13")
def test_a_key_is_made_in_the_keyring_once(ring: Ring, tmp_path: Path) -> None:
    """It is kept as base64, and found again; the lock is owner-only and names the user."""
    backend = ring()
    key = keys.from_keyring("chats", create=True)
    assert keys.from_keyring("chats", create=True) == keys.from_keyring("chats") == key
    assert backend.lines() == [["clew", "chats", base64.b64encode(key).decode()]]
    lock = tmp_path / f"clew-keyring-{os.geteuid()}.lock"
    assert (lock.stat().st_mode & 0o7777, lock.stat().st_size) == (0o600, 0)


@pytest.mark.checklist("C13")
def test_processes_that_start_at_once_make_one_key(tmp_path: Path) -> None:
    """Eight processes ask a keyring that has no key: one makes it, and all have it."""
    said = at_once(
        "print(keys.from_keyring('chats', create=True).hex())", tmp_path,
        PYTHON_KEYRING_BACKEND="tests.keyrings.FileKeyring", KEYRING_PROPERTY_PATH=str(tmp_path / "ring"),
    )  # fmt: skip
    (line,) = (tmp_path / "ring").read_text().splitlines()
    assert set(said) == {base64.b64decode(json.loads(line)[2]).hex()}


def test_threads_that_start_at_once_make_one_key(ring: Ring) -> None:
    """The lock holds between threads as well."""
    backend = ring()
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: keys.from_keyring("chats", create=True), range(8)))
    assert len(made) == len(backend.lines()) == 1


@pytest.mark.parametrize("value", ["", "secretsecret", HEX[:-1], "é" * 44])
def test_an_entry_that_is_no_key_is_an_error(ring: Ring, value: str) -> None:
    """It is neither shown nor replaced."""
    backend = ring()
    backend.set_password("clew", "chats", value)
    for create in (False, True):
        with pytest.raises(clew.Invalid, match="is not a key") as caught:
            keys.from_keyring("chats", create=create)
        assert not value or value not in told(caught.value)
    assert len(backend.lines()) == 1


def test_a_locked_keyring_is_an_error(ring: Ring) -> None:
    """A keyring that cannot be asked has an unknown key, not none: nothing is made."""
    backend = ring(keyrings.Locked)
    for create in (False, True):
        with pytest.raises(clew.Unavailable, match=r"cannot be used now \(KeyringLocked\)"):
            keys.from_keyring("chats", create=create)
    assert backend.lines() == []


def test_a_keyring_that_refuses_a_key_does_not_show_it(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a keyring says about a value that it did not take may have the value in it, and is left out."""
    ring(keyrings.Full)
    monkeypatch.setattr(keys, "generate", lambda: KEY)
    with pytest.raises(clew.Unavailable, match=r"cannot be used now \(PasswordSetError\)") as caught:
        keys.from_keyring("chats", create=True)
    assert BASE64 not in told(caught.value)


@pytest.mark.parametrize("kind", [keyrings.Forgetful, keyrings.Overtaken])
def test_a_key_that_is_not_given_back_is_not_used(ring: Ring, kind: type[keyrings.FileKeyring]) -> None:
    """A key that the keyring has lost, or that another program has replaced, would seal a store for ever."""
    ring(kind)
    with pytest.raises(clew.Unavailable, match="did not store the key"):
        keys.from_keyring("chats", create=True)


def test_a_keyring_in_the_clear_is_refused(ring: Ring) -> None:
    """A file that is not encrypted is no keyring: nothing is read from it and nothing put into it."""
    backend = ring(keyrings.PlaintextKeyring)
    backend.set_password("clew", "chats", BASE64)
    with pytest.raises(clew.Unavailable, match=r"not encrypted.*from_file"):
        keys.from_keyring("chats", create=True)


def test_a_chain_does_not_go_on_to_one_in_the_clear(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several keyrings the first that keeps secrets is asked, and no other."""
    clear, good = ring(keyrings.PlaintextKeyring), ring()
    good.path += "-good"
    clear.set_password("clew", "chats", "f" * 64)
    keyring.set_keyring(ChainerBackend())
    monkeypatch.setattr(ChainerBackend, "backends", [clear, good])
    with pytest.raises(clew.NotFound):
        keys.from_keyring("chats")
    key = keys.from_keyring("chats", create=True)
    assert [line[2] for line in good.lines()] == [base64.b64encode(key).decode()]
    monkeypatch.setattr(ChainerBackend, "backends", [])
    with pytest.raises(clew.Unavailable, match="no keyring on this system"):
        keys.from_keyring("chats", create=True)


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("keyring.backends.null.Keyring", "the null keyring stores nothing"),
        ("keyring.backends.fail.Keyring", "there is no keyring on this system"),
        ("no.such.Keyring", r"cannot be used now \(ModuleNotFoundError\)"),
    ],
)
def test_no_keyring_is_an_error(named: str, why: str, ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a keyring there is no key, and none is made."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", named)
    for create in (False, True):
        with pytest.raises(clew.Unavailable, match=why) as caught:
            keys.from_keyring("chats", create=create)
        assert "from_file" in caught.value.hint


def test_a_missing_keyring_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(clew.Unavailable, match=r"pip install keyring"):
        keys.from_keyring("chats")


@pytest.mark.parametrize("bad", ["", "a\0b", "a\nb", "\ud800", None, 7])
def test_an_entry_is_named_by_text(bad: object) -> None:
    """Anything else is Invalid, as a name and as a service."""
    with pytest.raises(clew.Invalid, match="printable text"):
        keys.from_keyring(bad)  # type: ignore[arg-type]
    with pytest.raises(clew.Invalid, match="printable text"):
        keys.from_keyring("chats", service=bad)  # type: ignore[arg-type]


def test_a_lock_laid_out_by_another_is_refused(ring: Ring, tmp_path: Path) -> None:
    """The temporary folder is everyone's: a lock that others may touch, or a link, is not used."""
    backend = ring()
    lock = tmp_path / f"clew-keyring-{os.geteuid()}.lock"
    lock.touch()
    lock.chmod(0o666)
    with pytest.raises(clew.Invalid, match="chmod 600"):
        keys.from_keyring("chats", create=True)
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(clew.Invalid, match="symbolic link"):
        keys.from_keyring("chats", create=True)
    assert backend.lines() == []
    assert not (tmp_path / "elsewhere").exists()


# -- from a passphrase


def test_a_passphrase_gives_its_key_again() -> None:
    """The same words and parameters give the same key; a new store gets a new salt, and so another key."""
    words = keys.from_passphrase("correct horse battery staple")
    parameters, key = words.new()
    assert len(key) == 32
    assert keys.from_passphrase("correct horse battery staple").key(parameters) == key
    assert keys.from_passphrase("correct horse battery stable").key(parameters) != key
    again, other = words.new()
    assert (again != parameters, other != key) == (True, True)
    said = json.loads(parameters)
    assert len(base64.b64decode(said.pop("salt"))) == 16
    assert said == {"v": 1, "kdf": "argon2id", "t": 3, "m": 65536, "p": 4}


def test_the_derivation_never_changes() -> None:
    """Known answers, made with another implementation of Argon2id: old stores open."""
    words = keys.from_passphrase("Pässwort")
    known = "7b1c748a576b2572eeb453da613dc8751f13c586099d79f47454bfcbf18b2ef4"
    assert words.key(stored(t=3, m=65536, p=4)).hex() == known
    known = "eddb344310fd222ba0aeb9d147bdcdbe51b32144d85870c94b326e6e7c9266e2"
    assert words.key(stored(t=1, m=8192, p=1)).hex() == known


def test_accents_may_be_typed_either_way() -> None:
    """One letter, or a letter and its accent: it is the same passphrase."""
    assert keys.from_passphrase("e\u0301").key(stored()) == keys.from_passphrase("\u00e9").key(stored())


@pytest.mark.parametrize("bad", ["", "secret\ud800", "\udcffsecret", None, b"secret"])
def test_a_bad_passphrase_is_not_shown(bad: object) -> None:
    """Empty, or not text: it is Invalid, and the words are not in the error."""
    with pytest.raises(clew.Invalid, match="passphrase") as caught:
        keys.from_passphrase(bad)  # type: ignore[arg-type]
    assert "'secret" not in told(caught.value) and "secret\\" not in told(caught.value)


def test_a_passphrase_shows_nothing() -> None:
    """Neither its repr nor its text has the words."""
    words = keys.from_passphrase("secret")
    assert repr(words) == str(words) == f"{words}" == "<Passphrase>"
    assert not hasattr(words, "__dict__")


@pytest.mark.parametrize(
    "changes", [{"t": 20}, {"p": 16}, {"m": 8192}, {"salt": base64.b64encode(b"s" * 64).decode()}], ids=str
)
def test_parameters_within_bounds_are_used(changes: dict[str, object]) -> None:
    """The highest and the lowest that are allowed give a key."""
    assert len(keys.from_passphrase("x").key(stored(**changes))) == 32


@pytest.mark.parametrize(
    "changes",
    [
        {"v": 0}, {"v": 2}, {"v": "1"}, {"v": True}, {"kdf": "argon2i"}, {"kdf": None}, {"t": 0}, {"t": 21}, {"t": -1},
        {"t": 3.5}, {"t": True}, {"t": "3"}, {"t": 1 << 70}, {"m": 8191}, {"m": (1 << 20) + 1}, {"m": 1 << 32},
        {"p": 0}, {"p": 17}, {"salt": ""}, {"salt": base64.b64encode(b"s" * 15).decode()}, {"salt": "*" * 24},
        {"salt": 7}, {"salt": base64.b64encode(b"s" * 65).decode()}, {"more": 1}, {"more": "x" * 10_000},
    ],
    ids=str,
)  # fmt: skip
def test_parameters_out_of_bounds_are_refused(changes: dict[str, object]) -> None:
    """A header that would make guessing cheap, or opening dear, is Corrupted, before anything is derived."""
    with pytest.raises(clew.Corrupted, match="malformed or out of bounds"):
        keys.from_passphrase("x").key(stored(**changes))


@pytest.mark.parametrize("left_out", PARAMETERS)
def test_parameters_are_complete(left_out: str) -> None:
    """None of them has a default: a header cannot leave one out."""
    rest = {name: value for name, value in PARAMETERS.items() if name != left_out}
    with pytest.raises(clew.Corrupted):
        keys.from_passphrase("x").key(json.dumps(rest).encode())


@pytest.mark.parametrize(
    "bad",
    [b"", b"{", b"null", b"{}", b"[" * 400, b'{"v":' * 80, b"\xff", b'"\xff"', stored() + b" " * 512, stored()[:-1]],
)
def test_parameters_that_are_none_are_refused(bad: bytes) -> None:
    """What is not the small object that `new` makes is Corrupted."""
    assert not keys.check_parameters(bad)
    with pytest.raises(clew.Corrupted):
        keys.from_passphrase("x").key(bad)


@given(st.binary(max_size=600))
def test_no_bytes_are_a_surprise(bad: bytes) -> None:
    """Whatever a header holds, the error is one of ours."""
    with pytest.raises(clew.Corrupted):
        keys.from_passphrase("x").key(bad)


def test_parameters_are_bytes() -> None:
    """Text is a mistake of the caller, not damage."""
    with pytest.raises(clew.Invalid, match="parameters must be bytes, not str"):
        keys.from_passphrase("x").key(stored().decode())  # type: ignore[arg-type]


def test_a_missing_cryptography_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.kdf.argon2", None)
    with pytest.raises(clew.Unavailable, match=r"pip install cryptography"):
        keys.from_passphrase("x").new()


def test_a_build_without_argon2_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """An OpenSSL before 3.2 has no Argon2id, and cryptography says so when it is asked."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.kdf import argon2

    def none(**_: object) -> None:
        raise UnsupportedAlgorithm("This version of OpenSSL does not support argon2id")

    monkeypatch.setattr(argon2, "Argon2id", none)
    with pytest.raises(clew.Unavailable, match="this build of cryptography has no Argon2id"):
        keys.from_passphrase("x").new()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="nothing says how much memory is in use")
def test_too_little_memory_is_told() -> None:
    """The highest memory that a header may ask for is Unavailable where there is less of it."""
    import resource

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    words = keys.from_passphrase("x")
    words.key(stored())  # all that has to be imported is
    resource.setrlimit(resource.RLIMIT_AS, (used + (512 << 20), hard))
    try:
        with pytest.raises(clew.Unavailable, match="needs 1024 MiB of memory"):
            words.key(stored(m=1 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


# -- on paper


def test_a_recovery_key_is_eleven_groups() -> None:
    """It has eleven groups of five letters, none of which look alike, and is the same for ever."""
    assert keys.recovery(KEY) == "000G4-0R40M-30E20-9185G-R38E1-W8124-GK2GA-HC5RR-34D1P-70X3R-FH7P0"
    for key in (keys.generate(), b"\0" * 32, b"\xff" * 32):
        text = keys.recovery(key)
        assert re.fullmatch(f"[{ALPHABET.upper()}]{{5}}(-[{ALPHABET.upper()}]{{5}}){{10}}", text)
        assert keys.from_recovery(text) == key


@given(st.binary(min_size=32, max_size=32))
def test_a_recovery_key_is_the_key(key: bytes) -> None:
    """What was printed is read back, for every key."""
    assert keys.from_recovery(keys.recovery(key)) == key


def test_a_recovery_key_is_read_as_people_type_it() -> None:
    """Case, spaces, lines and hyphens do not matter; i and l are 1, and o is 0."""
    text = keys.recovery(KEY)
    bare = text.replace("-", "")
    typed = [
        text.lower(), bare, f"  {text}\n", text.replace("-", " "), text.replace("-", "–"), text.replace("-", "\n"),
        "-".join(bare), bare.replace("0", "o"), bare.replace("0", "O").replace("1", "l"), bare.replace("1", "I"),
    ]  # fmt: skip
    assert "0" in bare and "1" in bare
    assert [keys.from_recovery(one) for one in typed] == [KEY] * len(typed)


@pytest.mark.parametrize("key", [KEY, b"\0" * 32, b"\xff" * 32, b"k" * 32, os.urandom(32)], ids=range(5))
def test_any_wrong_letter_is_refused(key: bytes) -> None:
    """Each of the 55 letters replaced by each of the 31 others."""
    bare = keys.recovery(key).lower().replace("-", "")
    for at, right in enumerate(bare):
        for letter in ALPHABET.replace(right, ""):
            with pytest.raises(clew.Invalid, match="wrong letter"):
                keys.from_recovery(bare[:at] + letter + bare[at + 1 :])


@pytest.mark.parametrize("key", [KEY, b"k" * 32, os.urandom(32)], ids=range(3))
def test_any_two_letters_that_changed_places_are_refused(key: bytes) -> None:
    """Each pair of the 55 letters, near or far."""
    bare = keys.recovery(key).lower().replace("-", "")
    for one, other in combinations(range(55), 2):
        letters = list(bare)
        letters[one], letters[other] = letters[other], letters[one]
        if bare[one] != bare[other]:
            with pytest.raises(clew.Invalid, match="wrong letter"):
                keys.from_recovery("".join(letters))


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("", "this one has 0"), ("0" * 54, "this one has 54"), ("0" * 56, "this one has 56"), (None, "not NoneType"),
        ("u" + "0" * 54, "letter 1 of"), ("0" * 54 + "\u0661", "letter 55 of"), ("0" * 54 + "\x01", "letter 55 of"),
    ],
)  # fmt: skip
def test_what_is_no_recovery_key_is_refused(bad: object, why: str) -> None:
    """The error says what is wrong, and where, and not what was typed."""
    with pytest.raises(clew.Invalid, match=why) as caught:
        keys.from_recovery(bad)  # type: ignore[arg-type]
    assert "00000" not in told(caught.value)
