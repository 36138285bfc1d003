"""Conversations as files: clew's own JSONL, Markdown, HTML, and the form of the tool they came from.

with clew.open("chats.db") as store:
exports.write(store, "chats.jsonl", form="jsonl")        # everything, without loss
exports.write(store, "notes", store.sessions.list(), form="markdown")  # a folder, a file each
exports.restore(other, open("chats.jsonl", "rb"))
"""

from clew.exports.from_jsonl import Restored, restore
from clew.exports.to_files import FORMS, Exported, Form, write
from clew.exports.to_html import html
from clew.exports.to_jsonl import jsonl
from clew.exports.to_markdown import Detail, markdown
from clew.exports.to_native import native

__all__ = [
    "FORMS",
    "Detail",
    "Exported",
    "Form",
    "Restored",
    "html",
    "jsonl",
    "markdown",
    "native",
    "restore",
    "write",
]
