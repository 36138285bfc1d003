"""Sessions for agent runtimes: resumed, forked, with a transcript of everything, and a copy in files if wanted.

>>> import clew.agents
>>> with clew.agents.open(":memory:") as sessions:
...     session = sessions.create(cwd="/src/app", model="claude-sonnet-4-5")
...     node = session.append_and_save({"role": "user", "content": "Why is the build failing?"})
...     [node.text for node in sessions.resume(session.id).messages]
['Why is the build failing?']
"""

from clew.agents.finding import Skipped
from clew.agents.importing import Imported, ImportedSession, import_tree
from clew.agents.memory import Memory
from clew.agents.metadata import SessionMetadata, project_hash
from clew.agents.mirror import Mirror, Rebuilt, forget_mirror
from clew.agents.options import Options
from clew.agents.session import Session
from clew.agents.store import Cleaned, SessionStore, open
from clew.agents.transcript import Event, Transcript

__all__ = [
    "Cleaned",
    "Event",
    "Imported",
    "ImportedSession",
    "Memory",
    "Mirror",
    "Options",
    "Rebuilt",
    "Session",
    "SessionMetadata",
    "SessionStore",
    "Skipped",
    "Transcript",
    "forget_mirror",
    "import_tree",
    "open",
    "project_hash",
]
