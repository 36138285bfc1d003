"""Histories of other programs, read into a store: one module for each format, and the import that all of them share.

The import: registry and survey find files; import_all, importer, conversation_import, drafting, identity and writing
read and store them; layout, imported_files and import_log keep what a later import or an undo needs.

    with clew.open("chats.db") as store:
        for outcome in sources.import_all(store, sources.find(["~/.claude/projects"])):
            print(outcome.path, outcome.state, outcome.messages)

Another package adds a format by the entry point ``clew.sources``: a class that follows `Source`. It may
read files with `json_lines`, `field_bytes` and `moment`, and name messages with `derived_id`. Its `rules`, a
`ShowRules`, say how the program marks text that it writes in the user's name.
"""

from clew.sources.contract import (
    About,
    Attachment,
    Entry,
    Home,
    Part,
    Skip,
    Source,
    SourceWithRules,
    derived_id,
    moment,
)
from clew.sources.import_all import FileOutcome, import_all
from clew.sources.import_log import ImportRecorder, ImportRun, list_runs
from clew.sources.importer import ImportedConversation, ItemOutcome, import_item
from clew.sources.items import Item
from clew.sources.layout import records
from clew.sources.lines import JsonLine, json_lines
from clew.sources.registry import Found, find, source_named, sources
from clew.sources.survey import History, survey
from clew.sources.undo import Left, UndoReport, undo
from clew.sources.values import field_bytes
from clew.turns.model import MessageMark, NoteRule, ShowRules, tag

__all__ = [
    "About",
    "Attachment",
    "Entry",
    "FileOutcome",
    "Found",
    "History",
    "Home",
    "ImportRecorder",
    "ImportRun",
    "ImportedConversation",
    "Item",
    "ItemOutcome",
    "JsonLine",
    "Left",
    "MessageMark",
    "NoteRule",
    "Part",
    "ShowRules",
    "Skip",
    "Source",
    "SourceWithRules",
    "UndoReport",
    "derived_id",
    "field_bytes",
    "find",
    "import_all",
    "import_item",
    "json_lines",
    "list_runs",
    "moment",
    "records",
    "source_named",
    "sources",
    "survey",
    "tag",
    "undo",
]
