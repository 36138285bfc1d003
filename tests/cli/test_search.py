"""`clew search`: what was said, and where."""

import pytest


@pytest.fixture
def session(talk):
    talk({"text": "An old lint step", "created_at": "2020-05-01T12:00:00Z"}, title="Old")
    return talk("Why does the lint step fail?", {"role": "assistant", "text": "An unused import."}, title="Build fails")


def found(done):
    return sorted(hit["node"]["text"] for hit in done.json)


def test_words_are_found_and_shown(clew_cli, session):
    """A hit names its message, its session and the words around the match."""
    out = clew_cli("search", "unused").out.splitlines()
    assert "assistant" in out[0]
    assert "Build fails" in out[0]
    assert out[1] == "    An unused import."
    assert clew_cli("search", "lint", "step", "--limit", "1").out.count("lint") == 1


def test_json_marks_what_matched(clew_cli, session):
    """The marks are character ranges of the snippet."""
    hit = clew_cli("search", "IMPORT", "--json").json[0]
    assert [hit["snippet"][start:end] for start, end in hit["marks"]] == ["import"]
    assert hit["session"]["id"] == session
    assert isinstance(hit["score"], float)
    assert clew_cli("search", "IMPORT", "--jsonl").lines[0]["node"]["text"] == "An unused import."


def test_filters(clew_cli, session):
    """By session, role and time; times are ISO or how long ago."""
    assert len(found(clew_cli("search", "lint", "--json"))) == 2
    assert found(clew_cli("search", "lint", "--json", "--session", session)) == ["Why does the lint step fail?"]
    assert found(clew_cli("search", "lint", "--json", "--role", "assistant")) == []
    for since in ("2d", "3h", "15m", "2020-05-02", "2020-05-01T12:30", "2020-05-01T12:00:01Z"):
        assert found(clew_cli("search", "lint", "--json", "--since", since)) == ["Why does the lint step fail?"], since
    for until in ("2d", "2020-05-01", "2020-05-01T12:30", "2020-05-01 14:30+02:00"):
        assert found(clew_cli("search", "lint", "--json", "--until", until)) == ["An old lint step"], until
    assert found(clew_cli("search", "lint", "--json", "--until", "2020-04-30")) == []


@pytest.mark.parametrize("when", ["tomorrow", "2x", "2 moons", "", "2020-13-01", "99999999999d", "-1d"])
def test_a_time_that_is_none_is_bad_usage(clew_cli, session, when):
    """It is told before the store is opened."""
    assert clew_cli("search", "lint", f"--since={when}").code == 2


def test_substrings(clew_cli, talk):
    """Text without spaces is found by any part of it."""
    talk("設定ファイルを読み込めない")
    assert found(clew_cli("search", "--substring", "ファイル", "--json")) == ["設定ファイルを読み込めない"]


def test_nothing_found_is_exit_code_1(clew_cli, session):
    """Stdout stays empty, stderr says so, and scripts see it, as with grep."""
    done = clew_cli("search", "zebra")
    assert (done.code, done.out) == (1, "")
    assert "No messages found" in done.err
    assert clew_cli("search", "zebra", "--json").json == []
    assert clew_cli("search").code == 2
    assert clew_cli("search", "x", "--session", "zzzzzz").code == 3


@pytest.mark.parametrize("odd", ['"', "*", "AND", "a OR", "NEAR(", "-x", "(", "col:x", "'", "\\", "^"])
def test_odd_words_are_never_an_error(clew_cli, session, odd):
    """Whatever is typed is looked for."""
    assert clew_cli("search", "--", odd).code in (0, 1)


def test_japanese_and_chinese_need_no_switch(clew_cli, talk):
    """A query in a script without spaces is found inside of a sentence."""
    talk("日本語の設定を確認してください", "请检查网络设置")
    assert "設定" in clew_cli("search", "設定").out
    assert "网络" in clew_cli("search", "网络").out
    assert clew_cli("search", "天気").code == 1


def test_matches_stand_out_in_colour(clew_cli, talk):
    """The match is coloured, what the message itself would do to the terminal is not."""
    talk("a \x1b[2J lint step")
    out = clew_cli("search", "lint", env={"FORCE_COLOR": "1"}).out
    assert "\x1b[1;31mlint\x1b[0m" in out
    assert "\x1b[2J" not in out
    assert "\\x1b[2J" in out


def test_filters_of_the_session(clew_cli, talk, tmp_path, monkeypatch):
    """By directory and by label, however many others match better."""
    for _ in range(9):
        talk("lint lint lint", cwd="/elsewhere")
    talk("A word about lint, here", cwd=str(tmp_path), label="work")
    monkeypatch.chdir(tmp_path)
    for args in ["--here"], ["--cwd", str(tmp_path)], ["--label", "work"], ["--here", "--label", "work"]:
        assert found(clew_cli("search", "lint", "--limit", "1", "--json", *args)) == ["A word about lint, here"], args
    assert found(clew_cli("search", "lint", "--json", "--here", "--label", "none")) == []
    assert clew_cli("search", "lint", "--here", "--cwd", "/x").code == 2
