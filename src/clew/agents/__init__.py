"""Sessions for agent runtimes: resume, fork, a transcript of all events, and an optional copy in files.

>>> import clew.agents
>>> with clew.agents.open(":memory:") as sessions:
...     session = sessions.create(cwd="/src/app", model="claude-sonnet-4-5")
...     node = session.append_and_save({"role": "user", "content": "Why is the build failing?"})
...     [node.text for node in sessions.resume(session.id).messages]
['Why is the build failing?']
"""

from clew.agents.cleanup_report import CleanupReport
from clew.agents.discovery import SkippedFile
from clew.agents.importer import ImportedSession, ImportReport, import_tree
from clew.agents.memory import Memory
from clew.agents.metadata import SessionMetadata, project_hash
from clew.agents.mirror import Mirror, MirrorReport, forget_mirror
from clew.agents.store import Options, Session, SessionStore, open
from clew.agents.transcript import Transcript, TranscriptEvent

__all__ = [
    "CleanupReport",
    "ImportReport",
    "ImportedSession",
    "Memory",
    "Mirror",
    "MirrorReport",
    "Options",
    "Session",
    "SessionMetadata",
    "SessionStore",
    "SkippedFile",
    "Transcript",
    "TranscriptEvent",
    "forget_mirror",
    "import_tree",
    "open",
    "project_hash",
]
