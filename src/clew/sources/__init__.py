"""Histories of other programs, read into a store: one module for each format.

    with clew.open("chats.db") as store:
        for outcome in sources.run(store, sources.find(["~/.claude/projects"])):
            print(outcome.path, outcome.state, outcome.messages)

Another package adds a format by the entry point ``clew.sources``: a class that follows `Source`. It may
read files with `json_lines`, `field_bytes` and `moment`, and name messages with `derived_id`.
"""

from clew.sources.contract import About, Attachment, Entry, Home, Part, Skip, Source, derived_id, moment
from clew.sources.importer import ImportedConversation, ItemOutcome, import_item
from clew.sources.items import Item
from clew.sources.layout import records
from clew.sources.lines import JsonLine, json_lines
from clew.sources.registry import Found, find, source_named, sources
from clew.sources.run import FileOutcome, run
from clew.sources.runs import ImportRun, Run, list_runs
from clew.sources.survey import History, survey
from clew.sources.undo import Left, UndoReport, undo
from clew.sources.values import field_bytes

__all__ = [
    "About",
    "Attachment",
    "Entry",
    "FileOutcome",
    "Found",
    "History",
    "Home",
    "ImportRun",
    "ImportedConversation",
    "Item",
    "ItemOutcome",
    "JsonLine",
    "Left",
    "Part",
    "Run",
    "Skip",
    "Source",
    "UndoReport",
    "derived_id",
    "field_bytes",
    "find",
    "import_item",
    "json_lines",
    "list_runs",
    "moment",
    "records",
    "run",
    "source_named",
    "sources",
    "survey",
    "undo",
]
