"""Conversations of CPE, which stores them in an SQLite file named ``.cpeconvo``: view them in place, or import them.

CPE has no sessions: its messages form trees by parent id. Each tree becomes a session here, with its head on the branch
that was last active. Views and imports open the file read-only; `CpeFile` adds messages to it, and deletes some.

>>> import clew.agents.cpe
>>> clew.cpeconvo.recognised("/no/such/file")
False
"""

from clew.agents.cpe.importer import CpeImportReport, CpeView, ImportedTree, SkippedMessage, import_file, view
from clew.agents.cpe.reader import recognised
from clew.agents.cpe.writer import CpeFile

__all__ = [
    "CpeFile",
    "CpeImportReport",
    "CpeView",
    "ImportedTree",
    "SkippedMessage",
    "import_file",
    "recognised",
    "view",
]
