"""Conversations of CPE, which keeps them in a SQLite file called ``.cpeconvo``: looked at in place, or imported.

Its messages form trees by the ids of their parents; there are no sessions. Here each tree becomes a session, whose head
is the branch that was last active, and the other branches are those it has left. The file is opened to be read alone,
and is never changed.

>>> import clew.cpeconvo
>>> clew.cpeconvo.recognised("/no/such/file")
False
"""

from clew.cpeconvo.importing import Imported, ImportedTree, Skipped, View, import_file, view
from clew.cpeconvo.reading import recognised

__all__ = ["Imported", "ImportedTree", "Skipped", "View", "import_file", "recognised", "view"]
