"""The histories on this machine, listed without a question."""

from __future__ import annotations

from clew.cli.importing.found import looked_at, table, tell_unreadable, this_home
from clew.cli.output.json import out_lines
from clew.cli.output.text import bold, out


def show_found() -> None:
    """The histories on this machine as a table, or where they were looked for; asks nothing."""
    from clew.sources.survey import survey

    unreadable: dict[str, str] = {}
    found = survey(this_home(), unreadable=unreadable)
    out()
    out(bold("Your histories"))
    out()
    if found:
        out_lines(table(found), paged=False)
        out("Import them with: clew import --yes")
    else:
        show_looked_at()
    tell_unreadable(unreadable)


def show_looked_at() -> None:
    """Where histories were looked for, and none was found."""
    from clew.sources.registry import sources

    home = this_home()
    out("No histories of other tools found. Looked at ('clew sources' lists all places):")
    for source in sorted(sources(), key=lambda source: source.title.casefold()):
        places = list(source.discover(home))
        if places:
            out(f"  {source.title}: {looked_at(places[:1])}{' …' if len(places) > 1 else ''}")
