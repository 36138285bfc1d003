"""`clew snapshot convert`: converts a snapshot for another provider."""

from __future__ import annotations

import click
import msgspec

from clew.cli.options import dry_run_option, examples
from clew.cli.output.json import Form, json_options, out_value
from clew.cli.output.text import many, out, warn
from clew.cli.setup.open_store import open_existing, store_option
from clew.cli.setup.snapshot_location import place_option, place_or, resolve
from clew.convert import ConvertedSnapshot, Report
from clew.convert import convert as convert_snapshot
from clew.providers import registry


@click.command(
    epilog=examples(
        "clew snapshot convert 7d444840 --to openai", "clew snapshot convert 7d444840 --to gemini --dry-run"
    ),
)
@click.argument("snapshot_id", metavar="ID")
@click.option(
    "--to", required=True, type=click.Choice(registry.names()), metavar="PROVIDER",
    help=f"Provider of the new snapshot: {', '.join(registry.names())}.",
)  # fmt: skip
@click.option("--model", default="", help="Model of the new snapshot.")
@click.option("--drop-thinking", is_flag=True, help="Drop reasoning.  [default: convert it to text]")
@dry_run_option
@place_option
@json_options
@store_option
def convert(
    snapshot_id: str, to: str, model: str, drop_thinking: bool, dry_run: bool, place_name: str | None, form: Form
) -> None:
    """Convert a snapshot for another provider into a new snapshot, and print its ID. Keeps the old one.

    Lists on stderr what could not be converted: position and kind, without content.
    """
    with place_or(open_existing, place_name) as store:
        before = store.load(resolve(store, snapshot_id))
        found = convert_snapshot(before, to, model=model, thinking="drop" if drop_thinking else "text")
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
    verb = "would be converted" if dry_run else "converted"
    return f"{many(count, 'message')} {verb} for {found.snapshot.provider}: {_counts(found.report)}"


def _counts(report: Report) -> str:
    counts = [(report.count(kind), kind) for kind in ("dropped", "changed", "moved", "merged", "added")]
    return ", ".join(f"{count} {kind}" for count, kind in counts if count) or "nothing was lost"
