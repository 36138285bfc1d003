"""The `clew` command itself; each subcommand is loaded when it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

import clew
from clew.base.loading import loading
from clew.cli.command_list import ALIASES, COMMANDS, FIRST, list_by_group
from clew.cli.exits import ClosedPipe, report
from clew.cli.options import examples, show_help
from clew.cli.output.text import is_terminal
from clew.cli.setup.open_store import store_option


class Root(click.Group):
    """The group of all commands; turns errors into exit codes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _with_command(args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant. UsageError with similar names: an unknown word never goes to a model."""
        if not ctx.resilient_parsing and args and self.get_command(ctx, args[0]) is None:
            from difflib import get_close_matches

            near = get_close_matches(args[0], [*COMMANDS, *ALIASES], n=3, cutoff=0.6)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            if not near and " " in args[0]:
                hint = "; to ask a model, use: clew chat PROMPT"
            raise click.UsageError(f"unknown command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"clew.cli.commands.{COMMANDS[cmd_name][0]}")
        command = getattr(module, cmd_name, None) or getattr(module, f"{cmd_name}_")  # `import` is a keyword
        assert isinstance(command, click.Command)
        command.short_help = COMMANDS[cmd_name][1]
        if ctx.resilient_parsing:  # a shell asks for completions
            from clew.cli.commands.help import add_completions

            add_completions(command)
        return command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        list_by_group(formatter, FIRST)
        formatter.write_paragraph()
        formatter.write_text("All commands: clew help --all")
        formatter.write_text("A command in detail: clew help COMMAND")
        click.Command.format_options(self, ctx, formatter)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _report_closed_pipe():  # --help and --version print here
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _report_closed_pipe():
            return super().invoke(ctx)

    def run(self, args: Sequence[str] | None = None) -> int:
        """Runs a command line and returns its exit code; errors go to stderr."""
        _open_streams()
        try:
            with loading:  # commands import what they need
                result = super().main(args=args, prog_name="clew", standalone_mode=False)
            code = result if isinstance(result, int) else 0
            sys.stdout.flush()
        except SystemExit as done:
            return done.code if isinstance(done.code, int) else 1
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - users see no traceback
            code = report(error, as_json=_asks_for_json(sys.argv[1:] if args is None else args))
            _flush_or_discard()
        return code

    def main(self, args: Sequence[str] | None = None, **_: Any) -> Any:  # type: ignore[override]
        """`run`, then exit. Click's test runner calls this."""
        sys.exit(self.run(args))


def _with_command(args: Sequence[str]) -> list[str]:
    """The arguments, with the command that other words for it mean.

    `resume ID` is `chat -c ID`. -c, -n and -G without a command are those of `chat`: `clew -n "Hello"`.
    """
    first = args[0] if args else ""
    if first == "resume" and len(args) > 1 and not args[1].startswith("-"):
        return ["chat", "-c", *args[1:]]
    if first.partition("=")[0] in _CHAT or (first[:2] in _CHAT and not first.startswith("--")):
        return ["chat", *args]
    return list(args)


_CHAT = {"-c", "--continue", "-n", "--new", "-G", "--incognito"}


def _asks_for_json(args: Sequence[str]) -> bool:
    """True if errors are to be JSON, whether or not the arguments can be understood."""
    options = args[: args.index("--")] if "--" in args else args
    return "--json" in options or "--jsonl" in options


@contextmanager
def _report_closed_pipe() -> Iterator[None]:
    """Raises ClosedPipe for BrokenPipeError, which click would report as a failure."""
    try:
        yield
    except BrokenPipeError:
        raise ClosedPipe from None


def _open_streams() -> None:
    """Replaces streams that were closed before the start by the null device."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open until exit


def _flush_or_discard() -> None:
    """Flushes stdout; on failure redirects it to the null device, so that Python does not fail again at exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)


@click.group(
    cls=Root,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        "clew import",
        "clew search lint",
        "clew chat",
        more="Settings and variables: clew help environment",
    ),
)
@store_option
@click.version_option(clew.__version__, "-V", "--version", prog_name="clew", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Keep conversations with language models: import, search, read and continue them.

    Without a command, on a terminal, clew shows a list of conversations to read and resume. If the store is empty, it
    lists the histories of other tools on this machine and asks which to import.
    """
    if ctx.invoked_subcommand is None:
        if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)) or os.environ.get("TERM") == "dumb":
            show_help(ctx)
        from clew.cli.picker.command import pick

        pick(ctx)
