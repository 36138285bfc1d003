"""Python agents: a context manager and a decorator capture before and settle after."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.errors import Invalid


@pytest.mark.checklist("B21")
def test_a_block_is_guarded(checkpoints, work, say):
    """The changes of a block can be undone, also if it fails."""
    (work / "a").write_text("original")
    message = say()
    with pytest.raises(ValueError, match="halfway"), checkpoints.guard(message, ["a"]):
        (work / "a").write_text("changed")
        raise ValueError("halfway")
    assert checkpoints.show(message).files[0].after is not None
    checkpoints.rewind(message)
    assert (work / "a").read_text() == "original"


def test_a_function_is_guarded_at_every_call(checkpoints, work, say):
    """The paths come from the arguments of the call, the message from the time of the call."""
    said = [say()]

    @checkpoints.guard(lambda: said[-1], lambda path, text: [path])
    def write(path, text):
        """Writes."""
        return (work / path).write_text(text)

    assert write("a", "one") == 3
    said.append(say())
    write("a", text="two")
    assert write.__doc__ == "Writes."
    checkpoints.rewind(said[1])
    assert (work / "a").read_text() == "one"
    checkpoints.rewind(said[0])
    assert not (work / "a").exists()


@pytest.mark.checklist("B21")
def test_nothing_runs_if_nothing_can_be_kept(checkpoints, work, say):
    """A capture that fails keeps the block and the function from running."""
    ran = []
    with pytest.raises(Invalid), checkpoints.guard(say(), ["../outside"]):
        ran.append(1)
    with pytest.raises(Invalid):
        checkpoints.guard(say(), ["../outside"])(lambda: ran.append(2))()
    with pytest.raises(Invalid, match="function"), checkpoints.guard(say(), list):
        ran.append(3)
    for wrong in ("abc", b"abc", 5):  # the letters of a path are no paths
        with pytest.raises(Invalid, match="list"), checkpoints.guard(say(), wrong):
            ran.append(4)
        with pytest.raises(Invalid, match="list"):
            checkpoints.settle(say(), wrong)
    assert ran == []


def test_an_async_function_is_refused(checkpoints, say):
    """It has done nothing when it returns: noted then, what it does later would pass for someone else's."""

    async def write():
        pass

    with pytest.raises(Invalid, match="async"):
        checkpoints.guard(say(), ["a"])(write)


def test_calls_that_overlap_are_each_settled(checkpoints, work, say):
    """A function that calls itself under one guard: each call notes its own path."""
    message = say()

    @checkpoints.guard(message, lambda path, *rest: [path])
    def write(path, *rest):
        if rest:
            write(*rest)
        (work / path).write_text(path)

    write("a", "b", "c")
    assert [entry.after.size for entry in checkpoints.show(message).files] == [1, 1, 1]


def test_a_guard_without_paths_guards_the_tree(checkpoints, work, say):
    """A block that runs commands: everything is captured."""
    message = say()
    with checkpoints.guard(message):
        Path(work / "new").write_text("x")
    checkpoints.rewind(message)
    assert list(work.iterdir()) == []
