"""Conversion of messages, snapshots and sessions from one provider's format into another's.

A report, without content, lists every loss. The original is not changed.

>>> from clew.convert import convert_messages
>>> hello = convert_messages([b'{"role": "user", "content": "Hello"}'], source="anthropic", to="gemini")
>>> hello.messages[0]
b'{"role":"user","parts":[{"text":"Hello"}]}'
>>> bool(hello.report)
False
"""

from clew.convert.core import (
    Converted,
    ConvertedSession,
    ConvertedSnapshot,
    convert,
    convert_messages,
    convert_session,
    repair_messages,
)
from clew.convert.report import Loss, Report

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
