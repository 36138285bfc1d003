"""`clew tour`: it is real, and it ends well."""

import os
import re


def test_the_tour(program, tmp_path):
    """It kills a writer, loses nothing, finds, verifies, fits 80 columns, and leaves nothing behind."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = program("tour", env={"TMPDIR": str(scratch), "CLEW_DB": str(tmp_path / "mine.db")})
    assert (done.code, done.err) == (0, "")
    (acknowledged,) = map(int, re.findall(r"(\d+)  messages were acknowledged", done.out))
    (stored,) = map(int, re.findall(r"(\d+)  messages are stored", done.out))
    assert 60 <= acknowledged <= stored <= acknowledged + 1
    assert "(signal 9)" in done.out
    assert "0  acknowledged messages are lost, 0 are incomplete" in done.out
    stations = re.findall(r"^\d  (.*)$", done.out, re.MULTILINE)
    assert stations == ["Save a conversation", "Kill the writer, lose nothing", "Fork", "Rewind", "Search", "Verify"]
    assert "   ok  checked" in done.out
    assert "clew append --title" in done.out
    assert max(map(len, done.out.partition("Your histories")[0].splitlines())) <= 80
    assert os.listdir(scratch) == []
    assert not (tmp_path / "mine.db").exists()


def test_it_uses_public_names_only():
    """Nothing in the tour reaches behind the library's public face."""
    import inspect

    import clew
    from clew.cli.commands import tour

    source = inspect.getsource(tour)
    assert set(re.findall(r"\bclew\.([a-zA-Z_]+)", source)) - {"cli", "db"} <= {*dir(clew)}
    assert not re.search(r"\b(store|session|node|other|hit|report)\._", source)
