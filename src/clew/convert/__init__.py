"""Continuing with another provider: messages, snapshots and sessions of one in the words of another.

What cannot be carried over is told by a report, which has no content. What was converted stays as it was.

>>> from clew.convert import convert_messages
>>> hello = convert_messages([b'{"role": "user", "content": "Hello"}'], source="anthropic", to="gemini")
>>> hello.messages[0]
b'{"role":"user","parts":[{"text":"Hello"}]}'
>>> bool(hello.report)
False
"""

from clew.convert.core import Converted, convert_messages, repair_messages
from clew.convert.report import Loss, Report
from clew.convert.stored import ConvertedSession, ConvertedSnapshot, convert, convert_session

__all__ = [
    "Converted",
    "ConvertedSession",
    "ConvertedSnapshot",
    "Loss",
    "Report",
    "convert",
    "convert_messages",
    "convert_session",
    "repair_messages",
]
