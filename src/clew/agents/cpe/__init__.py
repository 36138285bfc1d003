"""Conversations of CPE, which stores them in an SQLite file named ``.cpeconvo``: view them in place, or import them.

CPE has no sessions: its messages form trees by parent id. Each tree becomes a session here, with its head on the branch
that was last active. The file is opened read-only and never changed.

>>> import clew.agents.cpe
>>> clew.cpeconvo.recognised("/no/such/file")
False
"""

from clew.agents.cpe.importer import CpeImportReport, CpeView, ImportedTree, SkippedMessage, import_file, view
from clew.agents.cpe.reader import recognised

__all__ = ["CpeImportReport", "CpeView", "ImportedTree", "SkippedMessage", "import_file", "recognised", "view"]
