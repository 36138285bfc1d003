"""Patches are read line by line, whatever their lines begin with."""

from __future__ import annotations

import difflib

from hypothesis import given
from hypothesis import strategies as st

from clew.turns.diff import DiffLine, compare, counts, patch, patched_files


def shown(lines: list[DiffLine]) -> list[str]:
    """The lines with their signs, without the lines between hunks."""
    return [f"{line.kind}{line.text}" for line in lines if line.kind != "@"]


def test_a_removed_comment_of_sql_is_no_header() -> None:
    """In the patch of an agent, a removed line that begins with two dashes stays, and names no file."""
    text = "*** Begin Patch\n*** Update File: q.sql\n@@\n--- drop old\n+++ new\n select 1\n"
    assert {name: shown(lines) for name, lines in patched_files(text).items()} == {
        "q.sql": ["--- drop old", "+++ new", " select 1"]
    }
    assert counts(patch(text)) == (1, 1)


def test_headers_are_outside_of_hunks() -> None:
    """The counts of a hunk say where it ends; what looks like a header before that is a changed line."""
    text = (
        "--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n x\n@@ -9 +9 @@\n--- more\n+++ less\n"
        "@@ -20 +20 @@\n-y\n+z\n--- a/gone.lua\n+++ /dev/null\n@@ -1 +0,0 @@\n--- last\n"
    )
    assert {name: shown(lines) for name, lines in patched_files(text).items()} == {
        "q.sql": ["--- old", "+++ new", " x", "--- more", "+++ less", "-y", "+z"], "gone.lua": ["--- last"],
    }  # fmt: skip
    assert counts(patch(text)) == (3, 4)


def test_hunks_without_counts_or_with_wrong_ones() -> None:
    """Models write hunks without counts, or with too high ones: a header with a hunk below it begins a file."""
    for hunk in ("@@", "@@ -1,9 +1,9 @@", "@@ def f() @@"):
        text = f"--- a/a.sql\n+++ b/a.sql\n{hunk}\n--- old\n+++ new\n x\n--- a/b.py\n+++ b/b.py\n{hunk}\n-y\n+z\n"
        assert {name: shown(lines) for name, lines in patched_files(text).items()} == {
            "a.sql": ["--- old", "+++ new", " x"], "b.py": ["-y", "+z"],
        }, hunk  # fmt: skip


TEXTS = st.lists(
    st.sampled_from(["-- a", "++ a", "- a", "@@ a", "a", "", "-", "+", "\\ a", "diff a", "*** a"]), max_size=8
)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=3))
def test_any_unified_diff_comes_back(changed: list[tuple[list[str], list[str]]]) -> None:
    """Every line that `difflib` writes into a diff of several files is found in its file, and nothing else."""
    text, expected = "", {}
    for number, (old, new) in enumerate(changed):
        name = f"{number}.txt"
        lines = list(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm=""))
        text += "".join(f"{line}\n" for line in lines)
        if lines:
            expected[name] = [line for line in lines[2:] if not line.startswith("@@")]
    found = patched_files(text)
    assert {name: [f"{one.kind}{one.text}" for one in lines if one.kind != "@"] for name, lines in found.items()} == (
        expected
    )


LINES = st.lists(st.sampled_from(["a", "b", "c", "", "-- d"]), min_size=1, max_size=30)


@given(LINES, LINES)
def test_a_comparison_changes_one_text_into_the_other(old: list[str], new: list[str]) -> None:
    """Each line stands where its numbers say, the rest is equal, and the heads of the hunks say the same numbers."""
    found = compare("".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new))
    kept = [line for line in found if line.kind != "@"]
    assert all(line.old is None or old[line.old - 1] == line.text for line in kept)
    assert all(line.new is None or new[line.new - 1] == line.text for line in kept)
    removed, added = {line.old for line in kept if line.kind == "-"}, {line.new for line in kept if line.kind == "+"}
    assert [line for at, line in enumerate(old, 1) if at not in removed] == [
        line for at, line in enumerate(new, 1) if at not in added
    ]
    assert patch("".join(f"{'' if line.kind == '@' else line.kind}{line.text}\n" for line in found)) == found


def test_only_what_differs_is_compared() -> None:
    """A changed line in a long text is one hunk with three lines around it."""
    old = [f"line {number % 7}" for number in range(3_000)]
    new = [*old[:1_500], "new", *old[1_501:]]
    found = compare("\n".join(old), "\n".join(new))
    assert (found[0].text, counts(found), len(found)) == ("@@ -1498,7 +1498,7 @@", (1, 1), 9)
