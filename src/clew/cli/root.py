"""`clew` itself: the list of commands, each loaded when it is used."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click

import clew
from clew.cli.exits import Unread, report, show_help
from clew.cli.place import store_option
from clew.cli.text import is_terminal

COMMANDS = {
    "chat": ("chat", "Talk to a model; everything is stored."),
    "run": ("run", "Ask a model as a subagent; the trace is kept apart."),
    "append": ("append", "Store messages, given as JSON lines."),
    "ls": ("listing", "List sessions, last active first."),
    "tree": ("tree", "Show messages as a tree."),
    "show": ("show", "Show a session, or the talk up to a message."),
    "search": ("search", "Find messages by their words."),
    "stats": ("stats", "Count sessions, messages, tokens and cost."),
    "conversation": ("conversation", "List, print and delete messages by id."),
    "fork": ("change", "Begin a new session that shares the talk so far."),
    "rewind": ("rewind", "Go back to a message: the conversation, the files, or both."),
    "undo": ("rewind", "Take back the last rewind."),
    "checkpoint": ("checkpoint", "Look at what is kept of working files."),
    "hook": ("hook", "Keep files and transcript of a coding agent, called by it."),
    "rename": ("change", "Give a session another title."),
    "tag": ("change", "Add labels to a session, or take them away."),
    "rm": ("trash", "Put sessions in the trash."),
    "restore": ("trash", "Bring sessions back from the trash."),
    "hold": ("trash", "Keep sessions from being deleted."),
    "release": ("trash", "Let held sessions be deleted again."),
    "purge": ("purge", "Delete sessions for good, with every trace."),
    "receipts": ("purge", "List what was purged, and when."),
    "snapshot": ("snapshot", "Save conversations whole, and restore them."),
    "key": ("key", "Make, exchange and print the key of a sealed store."),
    "retention": ("retention", "Purge what was not used for long: preview, sweep, set."),
    "audit": ("audit", "Show who did what, and when."),
    "redact": ("redact", "Find secrets that are stored."),
    "verify": ("upkeep", "Read everything and name what is damaged."),
    "doctor": ("doctor", "Check the surroundings of the store."),
    "quarantine": ("quarantine", "Deal with damaged messages."),
    "import": ("importing", "Read session files into the store."),
    "backup": ("upkeep", "Copy the store to a file, safe while others write."),
    "copy": ("copying", "Copy a whole store: a file to a server, or back."),
    "gc": ("gc", "Remove attachments from object storage that nothing needs."),
    "relocate": ("relocate", "Follow a project that has moved."),
    "mcp": ("mcp", "Let agents find and read conversations, over MCP."),
    "config": ("config", "Show and change settings, and say where they come from."),
    "completion": ("completion", "Print the script that completes commands in a shell."),
    "help": ("manual", "Explain a command, exit codes, or everything."),
    "tour": ("tour", "See it all happen in a temporary store."),
}
"""Each command, the module it is in, and what it does: help lists them without loading them."""
ALIASES = {"convo": "conversation", "conv": "conversation"}
"""Other names of commands; help does not list them."""


class Root(click.Group):
    """The group of all commands, and the one place where errors become exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command = getattr(import_module(f"clew.cli.{COMMANDS[cmd_name][0]}"), name)
        assert isinstance(command, click.Command)
        if ctx.resilient_parsing:  # a shell waits for completions
            from clew.cli.completion import teach

            teach(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, short) for name, (_, short) in COMMANDS.items()])

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _unread():  # --help and --version are answered here
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _unread():
            return super().invoke(ctx)

    def run(self, args: Sequence[str] | None = None) -> int:
        """Runs a command line and returns its exit code; whatever goes wrong is told on stderr."""
        _open_streams()
        try:
            result = super().main(args=args, prog_name="clew", standalone_mode=False)
            code = result if isinstance(result, int) else 0
            sys.stdout.flush()
        except SystemExit as done:
            return done.code if isinstance(done.code, int) else 1
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - nobody is shown a traceback
            code = report(error)
            _settle_output()
        return code

    def main(self, args: Sequence[str] | None = None, **_: Any) -> Any:  # type: ignore[override]
        """`run`, then exit: what click's test runner calls."""
        sys.exit(self.run(args))


@contextmanager
def _unread() -> Iterator[None]:
    """Tells that nobody reads the output any more in a way that click does not take for a failure."""
    try:
        yield
    except BrokenPipeError:
        raise Unread from None


def _open_streams() -> None:
    """A stream that was closed before the start reads as empty and swallows what is written."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - it lives as long as we do


def _settle_output() -> None:
    """Writes what is left for stdout. If that cannot be, lets it go: Python would complain once more as it ends."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)


@click.group(
    cls=Root,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExamples:\n"
    "  clew tour\n"
    '  echo \'{"text": "Hello"}\' | clew append --title "First words"\n'
    "  clew search hello\n\n\b\n"
    "Environment:\n"
    "  CLEW_DB          the store, if --db does not name it\n"
    "  CLEW_BLOBS       where large attachments go: s3://bucket/prefix\n"
    "  CLEW_TIMEOUT     seconds to wait for other writers (60)\n"
    "  CLEW_HOOK_TIMEOUT  seconds that 'clew hook' may take (5)\n"
    "  CLEW_KEY_FILE    the file with the key of a sealed store\n"
    "  CLEW_KEY         or the key itself, as 64 hex digits or in base64\n"
    "  CLEW_KEYRING     or its name in the keyring of the system\n"
    "  CLEW_PASSPHRASE  or the passphrase; on a terminal it is asked for\n"
    "  CLEW_MODEL       who answers: a model, PROVIDER/MODEL, or an alias\n"
    "  CLEW_PROVIDER    or the provider alone: claude, openai, gemini, …\n"
    "  CLEW_BASE_URL    where requests go, if not to the provider itself\n"
    "  CLEW_SYSTEM      what the model is told first\n"
    "  CLEW_REDACT      what is never stored: secrets, email, phone\n"
    "  CLEW_PARENT      the session that 'clew run' belongs to\n"
    "  CLEW_DEBUG       shows where an error comes from\n"
    "  ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY: tokens of the providers\n"
    "  EDITOR, PAGER, NO_COLOR, FORCE_COLOR, COLUMNS are honoured\n"
    "  'clew config' shows what counts here, and names the files of settings",
)
@store_option
@click.version_option(clew.__version__, "-V", "--version", prog_name="clew", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Keeps conversations with language models: durable, in a tree, to be found, continued, forked and rewound.

    On a terminal, without a command: a screen to find a session and go on with it.
    """
    if ctx.invoked_subcommand is None:
        if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)) or os.environ.get("TERM") == "dumb":
            show_help(ctx)
        from clew.cli.picker.command import pick

        pick(ctx)
