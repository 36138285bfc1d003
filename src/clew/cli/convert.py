"""`clew snapshot convert`: a snapshot goes on with another provider."""

from __future__ import annotations

import click
import msgspec

from clew.cli.forms import Form, json_options, out_value
from clew.cli.place import existing, store_option
from clew.cli.places import place_option, place_or, resolve
from clew.cli.text import many, out, warn
from clew.convert import ConvertedSnapshot, Report
from clew.convert import convert as converted
from clew.convert.tongues import PROVIDERS


@click.command(
    short_help="Make a snapshot for another provider.",
    epilog="\b\nExamples:\n  clew snapshot convert 7d444840 --to openai\n"
    "  clew snapshot convert 7d444840 --to gemini --dry-run",
)
@click.argument("snapshot_id", metavar="ID")
@click.option("--to", required=True, type=click.Choice(PROVIDERS), help="The provider to go on with.")
@click.option("--model", default="", help="The model to note in the new snapshot.")
@click.option("--drop-thinking", is_flag=True, help="Leave reasoning out.  [default: it becomes text]")
@click.option("--dry-run", is_flag=True, help="Only say what would be lost.")
@place_option
@json_options
@store_option
def convert(
    snapshot_id: str, to: str, model: str, drop_thinking: bool, dry_run: bool, place_name: str | None, form: Form
) -> None:
    """Makes a new snapshot of snapshot ID for another provider, and prints its id. The old one stays as it is.

    What could not be carried over is told on stderr, by its place and kind, without its content.
    """
    with place_or(existing, place_name) as store:
        before = store.load(resolve(store, snapshot_id))
        found = converted(before, to, model=model, thinking="drop" if drop_thinking else "text")
        if not dry_run:
            store.save(found.snapshot)
    if form != "text":
        out_value(_json(found, dry_run), form)
        return
    if not dry_run:
        out(found.snapshot.id)
    for loss in found.report.losses:
        warn(str(loss))
    warn(_summary(found, dry_run))


def _json(found: ConvertedSnapshot, dry_run: bool) -> dict[str, object]:
    return {
        "id": None if dry_run else found.snapshot.id,
        "converted_from": found.snapshot.metadata["converted_from"],
        "provider": found.snapshot.provider,
        "messages": found.snapshot.message_count,
        "losses": [{"detail": "", **msgspec.to_builtins(loss)} for loss in found.report.losses],
    }


def _summary(found: ConvertedSnapshot, dry_run: bool) -> str:
    count = found.snapshot.message_count
    verb = "would be" if dry_run else "is" if count == 1 else "are"
    return f"{many(count, 'message')} {verb} for {found.snapshot.provider}; {_counts(found.report)}"


def _counts(report: Report) -> str:
    counts = [(report.count(kind), kind) for kind in ("dropped", "changed", "moved", "merged", "added")]
    return ", ".join(f"{count} {kind}" for count, kind in counts if count) or "nothing was lost"
