"""Runs aider: a prompt, a second run with an edit, a prompt that looks like the program's own lines, a failure.

It is installed in a virtual environment of its own: ``/tmp/samples-npm/aider/bin/pip install aider-chat==0.86.2``.
"""

from __future__ import annotations

from tools.samples.workbench import PROGRAMS, Workbench, workbench

EDIT = """I change it.

a.txt
```
<<<<<<< SEARCH
alpha
=======
beta
>>>>>>> REPLACE
```
"""


def main() -> None:
    """Makes the sample."""
    with workbench() as bench:
        write(bench)
        name = ".aider.chat.history.md"
        data = (bench.work / name).read_bytes().replace(str(PROGRAMS / "aider" / "bin").encode(), b"/usr/bin")
        bench.save("aider", {name: data})


def write(bench: Workbench) -> None:
    """Lets the program write its history."""
    server = bench.server
    bench.env |= {"OPENAI_API_KEY": "x", "OPENAI_API_BASE": server.base_url("openai"), "AIDER_ANALYTICS": "false"}
    options = (
        "--model", "openai/a-model", "--no-git", "--yes", "--no-show-model-warnings", "--no-check-update",
        "--edit-format", "diff", "--map-tokens", "0",
    )  # fmt: skip

    def ask(prompt: str, *more: str, timeout: float = 90) -> None:
        bench.run(PROGRAMS / "aider" / "bin" / "aider", *options, "--message", prompt, *more, timeout=timeout)

    server.say("Rome.\n\n> not a line of the program", thinking="Which one?")
    ask("Where are we going?")
    server.say(EDIT)
    ask("Change a.txt", "a.txt")
    server.say("Yes, a heading.")
    ask("#### Is this a heading?\n\n> and this a quotation?")
    server.fail(400, "bad request")
    ask("This one fails")


if __name__ == "__main__":
    main()
