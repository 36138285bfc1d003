"""Conversations as files: clew's own JSONL, Markdown, HTML, a file of CPE, and the form of the tool they came from.

>>> with clew.open("chats.db") as store:
...     exports.write(store, "chats.jsonl", form="jsonl")  # everything, without loss
...     exports.write(store, "notes", store.sessions.list(), form="markdown")  # a folder, a file each
...     exports.restore(other, open("chats.jsonl", "rb"))
"""

from clew.exports.to_files import FORMS, Exported, Form, cpeconvo, write
from clew.exports.to_html import html
from clew.exports.to_markdown import Detail, markdown
from clew.exports.to_native import NativeFile, native, native_files
from clew.store.jsonl import Restored, jsonl, restore

__all__ = [
    "FORMS",
    "Detail",
    "Exported",
    "Form",
    "NativeFile",
    "Restored",
    "cpeconvo",
    "html",
    "jsonl",
    "markdown",
    "native",
    "native_files",
    "restore",
    "write",
]
