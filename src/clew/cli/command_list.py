"""The commands by what they are for, and the variables that they read: what help lists without loading a command."""

from __future__ import annotations

from collections.abc import Collection

import click

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Bring in": {
        "import": ("import_", "Import conversations of other programs, and from files."),
        "sources": ("sources", "List the histories that can be imported."),
        "append": ("append", "Store messages given as JSON lines."),
        "hook": ("hook", "Record the files and transcript of a coding agent."),
    },
    "Find and read": {
        "ls": ("ls", "List conversations, most recently active first."),
        "search": ("search", "Find messages by their words."),
        "show": ("show", "Show a conversation, or the messages up to a given one."),
        "serve": ("serve", "Read, search and compare conversations in a browser."),
        "open": ("serve", "Open a conversation in a browser."),
        "tree": ("tree", "Show messages as a tree."),
        "conversation": ("conversation", "List, print and delete messages by ID."),
        "usage": ("usage", "Show tokens and cost by day, model, project or tool."),
        "stats": ("stats", "Count conversations, messages, tokens and cost."),
        "statusline": ("statusline", "Print one line for the status bar of an agent."),
        "mcp": ("mcp", "Let agents search and read conversations over MCP."),
    },
    "Continue": {
        "chat": ("chat", "Chat with a model; every message is stored."),
        "run": ("chat", "Ask a model as a subagent, in a separate conversation."),
        "fork": ("change", "Start a new conversation from an existing one."),
        "rewind": ("rewind", "Go back to an earlier message: conversation, files, or both."),
        "undo": ("rewind", "Undo the last rewind."),
        "checkpoint": ("checkpoint", "Inspect saved versions of working files."),
        "snapshot": ("snapshot", "Save, convert and restore whole conversations."),
    },
    "Tidy": {
        "rename": ("change", "Change the title of a conversation."),
        "label": ("change", "Add labels to a conversation, or remove them."),
        "rm": ("trash", "Move conversations to the trash."),
        "trash": ("trash", "List the trash, and restore conversations from it."),
        "purge": ("purge", "Delete conversations permanently, with all traces."),
        "receipts": ("purge", "List past purges."),
        "relocate": ("change", "Update the directory of a project that has moved."),
    },
    "Protect": {
        "key": ("key", "Encrypt the store; create, rotate and export its key."),
        "redact": ("redact", "Find stored secrets, and remove them."),
        "hold": ("trash", "Protect conversations from deletion."),
        "retention": ("retention", "Set how long conversations are kept; purge expired ones."),
        "audit": ("upkeep", "Show who did what, and when."),
    },
    "Look after": {
        "export": ("export", "Write conversations to files: JSONL, Markdown, HTML, or the originals."),
        "backup": ("upkeep", "Copy the store to a file, even while it is in use."),
        "doctor": ("doctor", "Check settings, permissions, disk space and pending work."),
        "verify": ("upkeep", "Check everything in the store for damage."),
        "quarantine": ("quarantine", "Isolate, restore or purge damaged messages."),
        "copy": ("upkeep", "Copy a store from a file to a server, or back."),
        "gc": ("upkeep", "Remove unused attachments from object storage."),
        "config": ("config", "Show and change settings."),
        "completion": ("help", "Print the shell completion script."),
        "help": ("help", "Explain a command or a topic, or list all commands."),
        "tour": ("tour", "See the main features at work in a temporary store."),
    },
}
"""The commands by what they are for: their modules, and their lines in the list, printed without loading a module."""
COMMANDS = {name: row for rows in GROUPS.values() for name, row in rows.items()}
FIRST = ("import", "ls", "search", "show", "serve", "chat", "rm", "key", "export", "doctor")
"""The commands that `clew --help` lists; `clew help --all` lists the others too."""
ALIASES = {"convo": "conversation", "conv": "conversation", "resume": "chat"}
"""Other names of commands, which other tools use; help does not list them."""
ENVIRONMENT = """\
CLEW_DB            path or URL of the store
CLEW_KEY_FILE      key file of a sealed store
CLEW_KEY           or the key itself: 64 hex digits, or base64
CLEW_KEYRING       or its name in the system keyring
CLEW_PASSPHRASE    or the passphrase; on a terminal, clew asks for it
CLEW_BLOBS         object storage for large attachments: s3://bucket/prefix
CLEW_TIMEOUT       seconds to wait for other writers (60)
CLEW_HOOK_TIMEOUT  time limit of 'clew hook' in seconds (5)
CLEW_MODEL         default model: a name, PROVIDER/MODEL, or an alias
CLEW_PROVIDER      default provider: claude, openai, gemini, …
CLEW_BASE_URL      address of the model server, if not the provider's own
CLEW_SYSTEM        system prompt
CLEW_REDACT        what to remove before storing: secrets, email, phone
CLEW_PARENT        parent conversation of 'clew run'
CLEW_DEBUG         print tracebacks
ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY: API keys of the providers
EDITOR, PAGER, NO_COLOR, FORCE_COLOR and COLUMNS are respected
'clew config show --origin' lists all settings and where they come from"""
"""The variables that commands read."""


def list_by_group(formatter: click.HelpFormatter, names: Collection[str]) -> None:
    """Writes the named commands under the titles of their groups, all in two columns of the same width."""
    width = max(map(len, names))
    for title, rows in GROUPS.items():
        shown = [(name.ljust(width), short) for name, (_, short) in rows.items() if name in names]
        if shown:
            with formatter.section(title):
                formatter.write_dl(shown)
