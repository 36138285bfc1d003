"""Settings: who counts before whom, and what a file may not say."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import clew
from clew.cli.setup.settings import SETTINGS, Settings, SettingsFile
from tests.cli.conftest import Run

LINE = '{"text": "hello"}\n'
TOKEN = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """The user's file, which is not there yet."""
    path = tmp_path / "settings" / "clew" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project's file, above the working directory, which is not there yet."""
    return tmp_path / ".clew.toml"


@pytest.fixture
def unnamed(clew_cli: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line without CLEW_DB."""
    monkeypatch.delenv("CLEW_DB")
    return clew_cli


def test_the_nearest_counts(unnamed: Run, user: Path, project: Path, tmp_path: Path) -> None:
    """A flag counts before a variable, that before the project, that before the user, that before the default."""

    def db(*flags: str, env: dict[str, str] | None = None) -> tuple[str, str]:
        shown = unnamed(*flags, "config", "show", "--origin", "--json", env=env).json["settings"]["db"]
        return shown["value"], shown["origin"]

    assert db() == (str(tmp_path / "data/clew/clew.db"), "default")
    user.write_text('db = "/u.db"')
    assert db() == ("/u.db", str(user))
    project.write_text('db = "p.db"')
    assert db() == (str(tmp_path / "p.db"), str(project))
    assert db(env={"CLEW_DB": "e.db"}) == ("e.db", "CLEW_DB")
    assert db("--db", "f.db", env={"CLEW_DB": "e.db"}) == ("f.db", "--db")
    assert db(env={"CLEW_DB": ""}) == (str(tmp_path / "p.db"), str(project))


def test_settings_are_what_commands_use(unnamed: Run, user: Path, project: Path, tmp_path: Path) -> None:
    """The store, its key and the patience come from files; a path in one is taken from where the file is."""
    (tmp_path / "store.key").write_text("ab" * 32)
    (tmp_path / "store.key").chmod(0o600)
    project.write_text('db = "sealed.db"\n')
    user.write_text(f'db = "other.db"\nkey_file = "{os.path.relpath(tmp_path / "store.key", user.parent)}"\n')
    assert unnamed("append", input=LINE).code == 0
    assert b"hello" not in (tmp_path / "sealed.db").read_bytes()
    assert "hello" in unnamed("ls").out
    assert "CLEW_KEY" in unnamed("ls", env={"CLEW_KEY": "no key"}).err  # a variable is nearer
    user.write_text('key_file = "/nowhere"\n')
    assert "key_file in" in unnamed("ls").err
    user.write_text("timeout = true\n")
    done = unnamed("ls")
    assert (done.code, "timeout" in done.err, str(user) in done.err) == (1, True, True)


def test_two_keys_in_one_file_are_one_too_many(unnamed: Run, user: Path) -> None:
    """As they are in the environment."""
    user.write_text('db = "x.db"\nkey_file = "a"\nkeyring = "b"\n')
    done = unnamed("append", input=LINE)
    assert (done.code, "use only one of them" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "variable"),
    [
        (f'api_key = "{TOKEN}"', "ANTHROPIC_API_KEY"),
        ('[openai]\napi-key = "x"', "OPENAI_API_KEY"),
        ('provider = "gemini"\ntoken = "x"', "GEMINI_API_KEY"),
        ('api_key = "x"', "ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY"),
        (f'model = "{TOKEN}"', "ANTHROPIC_API_KEY"),
        (f'[aliases]\nfast = "{TOKEN}"', "ANTHROPIC_API_KEY"),
        ('base_url = "https://me:pass@api.test/"', "API_KEY"),
        ('key = "ab"', "CLEW_KEY"),
        ('db = "postgresql://me:word@db.test/x"', "set PGPASSWORD in"),
        ('db = "postgresql://db.test/x?user=me&password=word"', "set PGPASSWORD in"),
        ('blobs = "s3://me:word@bucket/x"', "AWS_SECRET_ACCESS_KEY"),
        ('passphrase = "x"', "CLEW_PASSPHRASE"),
        (f'x = [{{ y = [["{TOKEN}"]] }}]', "ANTHROPIC_API_KEY"),
    ],
)
def test_a_secret_in_a_file_is_refused(text: str, variable: str, clew_cli: Run, user: Path) -> None:
    """By its name or by its look, wherever it is; the error names the variable to use, and not the secret."""
    user.write_text(text)
    done = clew_cli("append", input=LINE)
    assert (done.code, done.out) == (1, "")
    assert str(user) in done.err
    assert variable in done.err
    assert TOKEN not in done.err
    assert clew_cli("config", "show").code == 1


def test_a_secret_is_not_set_and_can_be_taken_out(clew_cli: Run, user: Path) -> None:
    """`config set` refuses it; `config unset` takes out what somebody wrote."""
    done = clew_cli("config", "set", "api_key", TOKEN)
    assert (done.code, TOKEN in done.err, "ANTHROPIC_API_KEY" in done.err) == (1, False, True)
    assert not user.exists()
    user.write_text(f'model = "m"  # mine\n[anthropic]\napi_key = "{TOKEN}"\n')
    assert clew_cli("config", "unset", "anthropic.api_key").code == 0
    assert TOKEN not in user.read_text()
    assert clew_cli("config", "show", "--json").json["settings"]["model"] == "m"
    assert clew_cli("config", "unset", "anthropic.api_key").code == 3
    assert clew_cli("config", "unset", "model.x").code == 3


def test_set_keeps_the_rest_of_the_file(clew_cli: Run, user: Path) -> None:
    """Comments, order and mode stay; a number is written as one; an alias goes into its table."""
    user.write_text("# mine\nmodel = 'a'   # the old one\n\n[aliases]\n# names\nfast = 'x'\n")
    user.chmod(0o640)
    for name, value in (("model", "b"), ("timeout", "2.5"), ("aliases.slow", "y")):
        assert clew_cli("config", "set", name, value).code == 0
    text = user.read_text()
    assert text.startswith('# mine\nmodel = "b"   # the old one\n')
    assert "# names\nfast = 'x'\nslow = \"y\"" in text
    assert stat.S_IMODE(user.stat().st_mode) == 0o640
    shown = clew_cli("config", "show", "--json").json["settings"]
    assert (shown["timeout"], shown["aliases.fast"], shown["aliases.slow"]) == (2.5, "x", "y")
    assert os.listdir(user.parent) == ["config.toml"]


def test_a_new_file_is_for_its_owner(clew_cli: Run, tmp_path: Path) -> None:
    """The user's, with its folder; a project's is made in the working directory, to be shared."""
    clew_cli("config", "set", "model", "m")
    made = tmp_path / "settings/clew/config.toml"
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700
    assert clew_cli("config", "set", "--project", "model", "p", "--json").json["path"] == os.path.abspath(".clew.toml")
    assert clew_cli("config", "show", "--json").json["settings"]["model"] == "p"
    assert clew_cli("config", "unset", "--project", "model").code == 0
    assert clew_cli("config", "show", "--json").json["settings"]["model"] == "m"


@pytest.mark.parametrize(
    "args",
    [["modle", "x"], ["timeout", "soon"], ["aliases", "x"], ["model.x", "y"], ["model", ""], ["allow_insecure", "1"]],
)
def test_what_cannot_be_set_is_not(args: list[str], clew_cli: Run, user: Path) -> None:
    """It is a mistake on the command line, and no file is made."""
    assert clew_cli("config", "set", *args).code == 2
    assert not user.exists()


def test_names_that_nothing_reads_are_told(clew_cli: Run, user: Path) -> None:
    """On stderr, once, with what may have been meant; the command goes on. `allow_insecure` is never read."""
    user.write_text("modle = 'x'\nallow_insecure = true\nshade = 1\n")
    clew_cli("append", input=LINE)
    done = clew_cli("ls")
    assert done.code == 0
    assert done.err.count("unknown setting 'modle'; did you mean model?") == 1
    assert "unknown setting 'shade'" in done.err
    assert "allow_insecure cannot be set in a file" in done.err
    assert "allow_insecure" not in SETTINGS


def test_a_project_does_not_say_where_requests_go(unnamed: Run, user: Path, project: Path) -> None:
    """Whoever wrote a project that is only looked at must not get the keys of the reader."""
    project.write_text('base_url = "https://elsewhere.test"\nmodel = "m"\ndb = "x.db"\n')
    done = unnamed("config", "show", "--json")
    assert (done.code, "base_url" in done.json["settings"], done.json["settings"]["model"]) == (1, False, "m")
    assert "CLEW_BASE_URL" in done.err
    assert unnamed("append", input=LINE).code == 0  # what needs no requests goes on
    assert unnamed("config", "set", "--project", "base_url", "https://x.test").code == 1
    assert unnamed("config", "show", "--json", env={"CLEW_BASE_URL": "https://mine.test"}).code == 0
    project.unlink()
    unnamed("config", "set", "base_url", "https://mine.test")
    assert unnamed("config", "show", "--json").json["settings"]["base_url"] == "https://mine.test"


def test_a_file_of_another_user_is_not_read(unnamed: Run, tmp_path: Path) -> None:
    """A folder that all may write to, above the working directory, does not decide what is done here."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    path = tmp_path / "here" / ".clew.toml"
    path.write_text('model = "theirs"\n')
    os.chown(path, 12345, 12345)
    done = unnamed("config", "show", "--json")
    assert (done.json["settings"]["model"], "belongs to another user" in done.err) == (None, True)


@pytest.mark.parametrize("text", [b"model = ", b"\xff", b"x" * (1 << 20) + b"=1", b"a=" + b"[" * 5000 + b"]" * 5000])
def test_what_is_no_toml_is_told(text: bytes, clew_cli: Run, user: Path) -> None:
    """With the name of the file; nothing is guessed, and `config set` does not write over it."""
    user.write_bytes(text)
    for args in (["append"], ["config", "set", "model", "x"]):
        done = clew_cli(*args)
        assert (done.code, str(user) in done.err) == (1, True), done.err
    assert user.read_bytes() == text


def test_secrets_in_the_environment_are_not_shown(clew_cli: Run) -> None:
    """Only that they are there."""
    done = clew_cli("config", "show", "--origin", env={"CLEW_PASSPHRASE": "correct horse"})
    assert "CLEW_PASSPHRASE" in done.out
    assert "correct horse" not in done.out + done.err


@pytest.mark.parametrize("url", ["app:pass-w@rd@db.example/app", "db.example/app?sslmode=require&password=pass-w@rd"])
def test_the_password_of_a_server_is_not_shown(url: str, clew_cli: Run) -> None:
    """`config show` has the address of a server without its password, in every form."""
    for form in ((), ("--json",), ("--jsonl",), ("--origin",)):
        done = clew_cli("config", "show", *form, env={"CLEW_DB": f"postgresql://{url}"})
        assert "db.example/app" in done.out
        assert "pass" not in done.out.replace("password=", "")


def test_a_number_beyond_reason_in_a_file_is_no_bug(clew_cli: Run, user: Path) -> None:
    """More digits than Python reads are told as what they are: a file that cannot be read."""
    user.write_text(f"timeout = {'9' * 5000}\n")
    assert "is not valid TOML" in clew_cli("config", "show").err


def test_the_name_of_a_user_is_no_secret(clew_cli: Run, user: Path) -> None:
    """A server is named with the user who connects to it; the password is elsewhere."""
    url = "postgresql://me@db.test/x"
    assert clew_cli("config", "set", "db", url).code == 0
    assert clew_cli("config", "show", "--json", env={"CLEW_DB": ""}).json["settings"]["db"] == url


def test_an_alias_stands_for_its_model(user: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In what is typed and in the settings; each alias as the nearest file has it."""
    from clew.cli.chat.models import choose

    assert choose().provider == "offline"
    user.write_text('model = "deep"\n[aliases]\nfast = "gpt-u"\ndeep = "gpt-d"\n')
    project.write_text('model = "fast"\n[aliases]\nfast = "gpt-p"\n')
    assert [choose(typed).model for typed in (None, "deep", "gpt-x")] == ["gpt-p", "gpt-d", "gpt-x"]
    monkeypatch.setenv("CLEW_MODEL", "deep")
    assert choose().model == "gpt-d"


def test_a_bad_value_names_its_place() -> None:
    """A wrong type in a file is told with the file, one in a variable with the variable."""
    import click

    with pytest.raises(clew.Invalid, match="aliases in /u must be a table of strings"):
        Settings(lambda: [SettingsFile("/u", "user", {"aliases": "x"}, ())], {}).names("aliases")
    with pytest.raises(click.UsageError, match="CLEW_TIMEOUT must be a number of seconds, not '-1'"):
        Settings(list, {"CLEW_TIMEOUT": "-1"}).find("timeout")


@pytest.mark.parametrize("value", [None, "", "/tmp/some where", "relative", " /spaced "])
@pytest.mark.parametrize("kind", ["config", "data"])
def test_folders_are_those_that_platformdirs_names(kind, value, monkeypatch):
    """It is not asked where the answer is plain, and would say the same."""
    import platformdirs

    from clew.cli.setup.settings import user_folder

    monkeypatch.delenv(name := f"XDG_{kind.upper()}_HOME", raising=False)
    if value is not None:
        monkeypatch.setenv(name, value)
    assert user_folder(kind) == getattr(platformdirs, f"user_{kind}_dir")("clew", appauthor=False)
