"""The runner of pages sees what is wrong with a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.page import blocks, commands, run

GOOD = """
```python
x = 6
```
```python
print(x * 7)  # 42
print("a", "b")  # a …
```
```python
>>> x
6
```
```python name=told.py
print("k3m9qa is 2026-01-31")
```
```console
$ python told.py
k3m9qa is 2026-01-31
$ echo one && \\
  echo two
one
two
$ echo many; echo lines
…
$ make something that is not run
```
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page in an empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "page.md"
    path.write_text(GOOD)
    return path


def test_a_good_page_runs(page: Path) -> None:
    """Blocks share a namespace, files are written, commands are run, and what is shown is what comes."""
    run(page)
    assert [block.line for block in blocks(page)] == [2, 5, 9, 13, 16]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# 42", "# 43"),
        ("x = 6", "raise ValueError"),
        (">>> x\n6", ">>> x\n7"),
        ("one\ntwo\n", "one\n"),
        ("$ echo one", "$ printf '' && false && echo one"),
        ("$ echo one", "$ ecco one"),
        ("$ python told.py\nk3m9qa is", "$ python told.py\nk3m9qa was"),
    ],
)
def test_a_wrong_page_fails(page: Path, old: str, new: str) -> None:
    """A page that says what is not so is an error."""
    assert old in GOOD
    page.write_text(GOOD.replace(old, new))
    with pytest.raises((AssertionError, ValueError)):
        run(page)


def test_a_handle_is_learned(page: Path) -> None:
    """A handle that a page has shown once means the same one in later commands, and another one there is an error."""
    shown = "```console\n$ printf '7abc' && printf 'de8\\n'\n{}\n$ echo {}\n{}\n```\n"
    page.write_text(shown.format("k3m9qa", "k3m9qa", "k3m9qa"))
    run(page)
    page.write_text(shown.format("k3m9qa", "7abcd0", "k3m9qa"))
    with pytest.raises(AssertionError):
        run(page)


def test_commands_are_told_from_their_output() -> None:
    """A command goes on where its line ends with a backslash."""
    assert list(commands("$ a \\\n  b\nc\nd\n$ e\n")) == [("a \\\n  b", "c\nd"), ("e", "")]
