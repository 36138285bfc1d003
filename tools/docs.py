"""Writes the generated pages of docs/reference, and checks the docs as a whole.

    python tools/docs.py           writes docs/reference/{cli,api,errors,checklist,json}.md, clew.1, json.schema.json,
                                   and the rooms in docs/design.md
    python tools/docs.py --check   changes nothing; says what is not current, not documented, or linked and not there

The pages come from the source: commands from click, names and sentences from signatures and docstrings, the checklist
from the marks of the tests. The check also asks tools/aio.py whether the async face is current.
"""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import click

from clew.errors import ClewError

ROOT = pathlib.Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tools import checklist, house, schemas  # noqa: E402
from tools.man import manual  # noqa: E402

SOURCE = ROOT / "src/clew"
REFERENCE = ROOT / "docs/reference"
DESIGN = ROOT / "docs/design.md"
ROOMS = re.compile(
    r"(?<=<!-- The rooms: written by tools/docs.py from tools/house.py. -->\n).*?(?=<!-- End -->)", re.DOTALL
)
WRITTEN = "<!-- Written by tools/docs.py. Change the source, then run it. -->\n\n"

AIO = """\
The classes of `clew.aio` have the methods above, awaited. What is iterated over is iterated with `async for`, and the
properties `session.handle` and `session.counters` are awaited too. `clew.aio.retention` has `preview`, `sweep`,
`set_policy` and `get_policy`, awaited."""
API = """\
Every public name, as its source has it. What a call raises is told by its docstring; the errors themselves are on
[their own page](errors.md)."""
ADAPTERS = """\
Sessions of agent frameworks. Here are the constructors, and the methods that do something of their own; the other
methods are those of the framework's interface, which its own documentation explains. Each adapter has `store`, the open
store, and `close`, which leaves a store open that was given open. A framework needs the extra of its name."""
KEYS = """
generate from_file from_env from_keyring from_passphrase Passphrase check key_id key_id_text recovery from_recovery"""
RECORDS = """
ConversationRecord ConversationRecordInput ConversationRecordMutation ConversationRecordSummary ListResult MessageFrame
FramePrivacy AttachmentRef AudioArtifactRef ParticipantRef ConversationSummary ConversationMetrics PartialMetrics
RetentionInfo PartialRetention PrivacyEnvelope StorageEnvelope RecoverySnapshot PurgeReport PurgeFailure to_json"""
EVENTS = """
Events ConversationStored ConversationDeleted ConversationExported PurgeCompleted RetentionInDoubt CapacityWarning
CorruptionDetected PrivacyWarning SlowWrites CircuitChanged OperationFinished"""

# Each part of the API page: its title, what to know first, and the names in it as module:name.
PARTS: list[tuple[str, str, list[str]]] = [
    ("Opening a store", "", ["store/store:open", "store/store:Store"]),
    (
        "Sessions",
        "Reached as `store.sessions`.",
        ["store/sessions:Sessions", "base/values:Page", "store/session:Session", "engine/watch:Watch"],
    ),
    (
        "What sessions give back",
        "",
        ["store/session:Branch", "engine/node:Counters", "engine/session_data:SessionData"],
    ),
    (
        "Nodes",
        "Reached as `store.nodes`.",
        ["store/nodes:Nodes", "store/nodes:NewNode", "engine/node:Node"],
    ),
    (
        "Units of work",
        "For adapters and tools: see [Write an adapter](../how-to/write-an-adapter.md).",
        ["store/unit:Unit", "store/document:Document", "engine/engine:Draft"],
    ),
    (
        "clew.message_tree",
        "Narrow interfaces to a tree of messages; `store.nodes` has them all.",
        [
            f"store/message_tree:{name}"
            for name in ("dialog", "MessageGetter", "MessageSaver", "MessageLister", "MessageDeleter", "TreeMessage")
        ],
    ),
    (
        "Messages",
        "Plain values: frozen, compared by content, checked when they are stored.",
        [
            f"base/messages:{name}"
            for name in ("user", "assistant", "system", "tool", "native", "Message", "Native", "Usage")
        ],
    ),
    (
        "Blocks",
        "What a message is made of. Each may carry free data in `extra`.",
        [
            "base/messages:Text",
            "base/messages:Thinking",
            "base/messages:ToolCall",
            "base/messages:ToolResult",
            "base/messages:Media",
            "base/messages:Opaque",
        ],
    ),
    ("Blobs", "Reached as `session.blobs`.", ["engine/blobs:Blobs", "engine/blobs:Blob"]),
    ("Log", "Reached as `session.log`.", ["engine/log:Log", "engine/log:Entry"]),
    (
        "Keys and deletion",
        "What `store.key_status` and `store.sessions.purge` answer.",
        ["upkeep/rekey:Status", "engine/receipts:Receipt", "engine/receipts:Kept", "engine/receipts:Failure"],
    ),
    (
        "Search, verify, backup",
        "",
        [
            "store/search/query:Hit",
            "upkeep/verify/findings:Report",
            "backends/problems:Damage",
            "backends/__init__:Backup",
        ],
    ),
    (
        "Quarantine",
        "Reached as `store.quarantine`.",
        [f"upkeep/quarantine:{name}" for name in ("Quarantine", "Swept", "Left", "Quarantined", "Event")],
    ),
    (
        "clew.checkpoints",
        "Working files as they were, and the way back. A message is named by its id, its handle or its node.",
        [
            "checkpoints/checkpoints:Checkpoints",
            "checkpoints/results:Checkpoint",
            "checkpoints/filestate:PathEntry",
            "checkpoints/filestate:FileState",
            "checkpoints/filestate:HeadChange",
            "checkpoints/results:Rewound",
            "checkpoints/results:FileDiff",
        ],
    ),
    (
        "clew.keys",
        "Where the key of a sealed store comes from. `Key` is `bytes` or a `Passphrase`: what a store is opened with.",
        [f"keys:{name}" for name in KEYS.split()],
    ),
    (
        "clew.retention",
        "How long sessions are kept, what would go, and what purges it.",
        [
            "retention/policy:Policy",
            *(f"retention/__init__:{name}" for name in ("preview", "Plan", "sweep", "SweepReport")),
            *(f"retention/__init__:{name}" for name in ("set_policy", "get_policy")),
            "store/evaluate:Due",
            "store/evaluate:Spared",
            "retention/__init__:Sweeper",
        ],
    ),
    (
        "clew.buckets",
        "Object storage for large attachments: `clew.open(…, blobs=…)`.",
        ["base/buckets:Bucket", "engine/blob_objects:Cleared"],
    ),
    ("Audit", "Reached as `store.audit`.", ["engine/audit:Audit", "engine/audit:AuditEvent"]),
    (
        "clew.exports",
        "Conversations as files.",
        [
            "exports/to_files:write",
            "exports/to_files:Exported",
            "store/jsonl:jsonl",
            "store/jsonl:restore",
            "store/jsonl:Restored",
            "exports/to_markdown:markdown",
            "exports/to_html:html",
            "exports/to_native:native",
        ],
    ),
    (
        "clew.sources",
        "Histories of other programs. [Import histories](../how-to/import-histories.md) shows them at work.",
        [
            "sources/registry:find",
            "sources/import_all:import_all",
            "sources/import_all:FileOutcome",
            "sources/importer:import_item",
            "sources/importer:ItemOutcome",
            "sources/importer:ImportedConversation",
            "sources/layout:records",
            "sources/survey:survey",
            "sources/survey:History",
            "sources/import_log:ImportRecorder",
            "sources/import_log:list_runs",
            "sources/import_log:ImportRun",
            "sources/undo:undo",
            "sources/undo:UndoReport",
            "sources/registry:sources",
            "sources/contract:Source",
            "sources/contract:About",
            "sources/contract:Entry",
            "sources/contract:Attachment",
            "sources/contract:Skip",
            "sources/contract:Home",
            "sources/items:Item",
            "sources/lines:json_lines",
            "sources/lines:JsonLine",
            "sources/values:field_bytes",
            "sources/contract:derived_id",
            "sources/contract:moment",
        ],
    ),
    (
        "clew.redaction",
        "What must not be stored. Rules are given to `clew.open`, and work on everything that comes in.",
        ["redaction/builtin_rules:Rule", "redaction/rules:Rules", "redaction/builtin_rules:builtin"]
        + [f"redaction/__init__:{name}" for name in ("redact", "Redacted", "Finding", "annotation", "Annotation")],
    ),
    ("clew.scan", "", ["store/scan:scan", "store/scan:Scan", "store/scan:Spot"]),
    ("clew.tenants", "", [f"store/tenants:{name}" for name in ("isolate", "admit", "dismiss")]),
    ("clew.partitions", "", ["store/partitions:divide"]),
    (
        "clew.records",
        "Conversations kept by policy. Shapes have the names of their fields in camelCase when they are JSON.",
        ["records/service:RecordService", "records/deferred:Pending", "records/writes:CircuitOpen"]
        + [f"records/schema:{name}" for name in RECORDS.split()],
    ),
    (
        "clew.events",
        "What the record service tells: `service.events.subscribe`.",
        [f"records/events:{name}" for name in EVENTS.split()],
    ),
    ("clew.otel", "", ["records/otel:instrument", "records/otel:instrument_store"]),
    (
        "clew.agents",
        "Sessions for agent runtimes. `Sayable` is a message: clew's own, an SDK's object, or its JSON.",
        [
            "agents/store:open",
            "agents/store:SessionStore",
            "agents/store:Session",
            "agents/metadata:SessionMetadata",
            "agents/metadata:project_hash",
            "agents/store:Options",
            "agents/transcript:Transcript",
            "agents/transcript:TranscriptEvent",
            "agents/memory:Memory",
            "agents/mirror:Mirror",
            "agents/mirror:MirrorReport",
            "agents/mirror:forget_mirror",
            "agents/cleanup_report:CleanupReport",
            "agents/importer:import_tree",
            "agents/importer:ImportReport",
            "agents/importer:ImportedSession",
            "agents/discovery:SkippedFile",
        ],
    ),
    (
        "clew.snapshots",
        "Conversations saved whole. `store.snapshots` keeps them in the store, and has the same names.",
        [f"snapshots/types:{name}" for name in ("Snapshot", "ToolSnapshot", "SnapshotSummary", "SnapshotStore")]
        + [f"snapshots/types:{name}" for name in ("Messages", "new_snapshot", "validate_snapshot_id", "generate_key")]
        + [
            "snapshots/file_store:FileStore",
            "snapshots/file_store:Files",
            "snapshots/file_store:MemoryFiles",
            "snapshots/object_store:ObjectStore",
            "store/snapshots:Snapshots",
        ],
    ),
    (
        "clew.chat",
        "Conversations with models. `clew.chat.aio` has the same names, awaited where they wait for a model.",
        [
            "chat/factory:connect",
            "providers/base_url:validate_base_url",
            *(f"chat/protocols:{name}" for name in ("ChatClient", "StreamingChatClient", "PersistentChatClient")),
            "chat/client:Client",
            "chat/conversation:Conversation",
            "chat/claude_program:ClaudeLocal",
            "providers/tools:Tool",
            "chat/protocols:Reply",
            "chat/protocols:UsageTotal",
            "chat/aio:connect",
            "chat/aio:AsyncClient",
            "chat/aio:Stream",
        ],
    ),
    (
        "clew.chat.recording",
        "Chat clients recorded as they are used: in a session of the store, or as a snapshot.",
        ["chat/recording/middleware:SavingMiddleware", "chat/recording/clients:autosave"]
        + [f"chat/recording/clients:{name}" for name in ("SavedClient", "AsyncSavedClient")]
        + [f"chat/recording/resuming:{name}" for name in ("resume", "through_last_answer", "latest_answered")],
    ),
    (
        "clew.testing.providers",
        "A provider on this machine, for tests.",
        [
            "testing/providers:ProviderServer",
            "testing/providers:Request",
            "testing/providers:self_signed",
            *(f"testing/providers:{name}" for name in ("Say", "ToolUse", "Fail", "Send")),
        ],
    ),
    (
        "clew.convert",
        "Continuing with another provider. Nothing that is converted is changed.",
        [
            *(f"convert/core:{name}" for name in ("convert_messages", "repair_messages", "Converted")),
            *(f"convert/core:{name}" for name in ("convert", "ConvertedSnapshot", "convert_session")),
            *("convert/core:ConvertedSession", "convert/report:Report", "convert/report:Loss"),
        ],
    ),
    (
        "clew.aio",
        AIO,
        ["aio/__init__:open", "aio/__init__:Opening", "aio/retention:Sweeper", "aio/proxy:Watch"],
    ),
    ("clew.mcp", "", ["mcp/tools:server"]),
    (
        "clew.agents.cpe",
        "",
        ["agents/cpe/importer:import_file", "agents/cpe/importer:view", "agents/cpe/reader:recognised"]
        + [f"agents/cpe/importer:{name}" for name in ("CpeImportReport", "ImportedTree", "SkippedMessage", "CpeView")],
    ),
    (
        "clew.testing.sources",
        "Checks for a source of histories. [Write a source](../how-to/write-a-source.md) shows them at work.",
        ["testing/sources:check", "testing/sources:SourceOutcome"],
    ),
    (
        "clew.testing",
        "",
        ["testing/contract:FakeClock", "testing/contract:SequentialIds", "testing/backend/__init__:BackendConformance"],
    ),
]


def adapters() -> Iterator[tuple[str, str, list[str]]]:
    """A part for each framework, with what its module says of itself, and its classes."""
    for path in sorted((SOURCE / "adapters").iterdir()):
        files = sorted(path.glob("*.py")) or [path]
        trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in files if file.suffix == ".py"}
        names = [
            f"{file.relative_to(SOURCE).with_suffix('').as_posix()}:{node.name}"
            for file, tree in trees.items()
            for node in tree.body
            if isinstance(node, ast.ClassDef) and re.match("Clew|Service$", node.name)
        ]
        if names:
            about = (ast.get_docstring(trees[files[0]]) or "").partition("\n\n")[0].replace("``", "`")
            first = f"{about} See [how to](../how-to/adapters-{path.stem}.md)."
            yield f"clew.adapters.{path.stem}", first, names


SHORT = {"NodeList": "list[Node]", "SessionList": "list[Session]", "QuarantinedList": "list[Quarantined]"}
"""Names that the source needs where `list` is a method, and that say less than what they stand for."""
TYPES = """\
| short | means |
|---|---|
| `AnyMessage` | `Message` or `Native`: what can be stored as one message |
| `Piece` | text, or any block |
| `Role` | `"system"`, `"user"`, `"assistant"` or `"tool"` |
| `Modality` | `"text"`, `"image"`, `"audio"`, `"video"` or `"document"` |
| `Durability` | `"full"` or `"relaxed"` |
| `Mode` | `"words"` or `"substring"` |
| `Source` | bytes, a binary file, or pieces of bytes |
| `Progress` | a function that is called with what is done and what there is to do |
| `…` as a default | not given, which is another thing than None |"""
ELSEWHERE = {"HEAD", "errors", "keys", "redaction", "retention"}
"""Public names of `clew` that are modules: they have a page, or a part of one."""


def main() -> int:
    """Writes the pages, or checks everything."""
    shown = checklist.items(), checklist.marks()
    pages = {"cli.md": cli_page(), "api.md": api_page(), "errors.md": errors_page(), "clew.1": manual()}
    pages["json.md"] = WRITTEN + schemas.page()
    pages[schemas.NAME] = schemas.text()
    pages["checklist.md"] = WRITTEN + checklist.page(*shown)
    if "--check" not in sys.argv[1:]:
        REFERENCE.mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            (REFERENCE / name).write_text(text, encoding="utf-8")
        DESIGN.write_text(design_page(), encoding="utf-8")
        return 0
    problems = [
        *stale(pages),
        *checklist.problems(*shown),
        *old_rooms(),
        *undocumented(pages),
        *broken_links(),
        *old_face(),
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


# -- checking


def stale(pages: dict[str, str]) -> Iterator[str]:
    """Generated pages that are not what they would be if they were written now."""
    for name, text in pages.items():
        page = REFERENCE / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            yield f"docs/reference/{name} is not current: run python tools/docs.py"


def undocumented(pages: dict[str, str]) -> Iterator[str]:
    """Commands without a section, an example or help for each option; public names without a place."""
    for name, command in commands():
        if f"\n## clew {name}\n" not in pages["cli.md"] or "Example" not in (command.epilog or ""):
            yield f"clew {name} has no section, or no example"
        for param in command.params:
            if isinstance(param, click.Option) and not param.help:
                yield f"clew {name} does not say what {param.opts[0]} does"
    import clew

    errors = {name for name, _ in error_classes()}
    known = {name.partition(":")[2] for _, _, names in PARTS for name in names} | errors | ELSEWHERE
    for missing in sorted(set(clew.__all__) - known):
        yield f"clew.{missing} is not in the reference"


def broken_links() -> Iterator[str]:
    """Relative links that lead nowhere, also to headings that are not there."""
    for page in documents():
        text = _without_code(page.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            there = (page.parent / name).resolve() if name else page
            if not there.exists():
                yield f"{page.relative_to(ROOT)} links to {target}, which is not there"
            elif anchor and there.suffix == ".md" and anchor not in anchors(there):
                yield f"{page.relative_to(ROOT)} links to {target}, which has no such heading"


def old_face() -> Iterator[str]:
    """The async face, if it is not what the sync classes make of it."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/aio.py"), "--check"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        yield done.stderr.strip() or "tools/aio.py --check failed"


def old_rooms() -> Iterator[str]:
    """The rooms in docs/design.md, if they are not those of the table."""
    if DESIGN.read_text(encoding="utf-8") != design_page():
        yield "docs/design.md does not draw the rooms of tools/house.py: run python tools/docs.py"


def design_page() -> str:
    """docs/design.md with the rooms as tools/house.py has them."""
    text, count = ROOMS.subn(lambda _: f"```text\n{house.picture()}\n```\n", DESIGN.read_text(encoding="utf-8"))
    assert count == 1, "docs/design.md has no place for the rooms"
    return text


def documents() -> list[pathlib.Path]:
    """Every page that people read."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page: pathlib.Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for title in re.findall(r"^#+ (.+)$", _without_code(page.read_text(encoding="utf-8")), re.MULTILINE):
        found.add(slug(title))
    return found


def slug(title: str) -> str:
    """A heading as an anchor."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


# -- the command line


def commands() -> list[tuple[str, click.Command]]:
    """Every command with its name, in the order of `clew --help`; those of a group after it."""
    from clew.cli.root import cli

    ctx = click.Context(cli, info_name="clew")
    found: list[tuple[str, click.Command]] = []
    for name in cli.list_commands(ctx):
        command = cli.get_command(ctx, name)
        assert command is not None
        found.append((name, command))
        if isinstance(command, click.Group):
            found += [(f"{name} {word}", below) for word, below in command.commands.items()]
    return found


def cli_page() -> str:
    """docs/reference/cli.md."""
    from clew.cli import exits
    from clew.cli.command_list import ENVIRONMENT, GROUPS
    from clew.cli.root import cli

    lines = [WRITTEN + "# The command line", "", _prose(cli.help), ""]
    lines += ["Data goes to stdout, everything else to stderr. An ID is a UUID or a handle.", ""]
    lines += ["| command | |", "|---|---|"]
    titles = {next(iter(rows)): title for title, rows in GROUPS.items()}
    for name, command in commands():
        if name in titles:
            lines.append(f"| **{titles[name]}** | |")
        lines.append(f"| [{name}](#{slug(f'clew {name}')}) | {command.get_short_help_str(limit=200)} |")
    lines += [
        "",
        "## Environment",
        "",
        "```text",
        ENVIRONMENT,
        "```",
        "",
        "## Exit codes",
        "",
        "| code | meaning |",
        "|---|---|",
    ]
    lines += [f"| {code} | {meaning} |" for code, meaning in exits.MEANINGS.items()]
    for name, command in commands():
        lines += ["", f"## clew {name}", "", "```text", _usage(name, command), "```", "", _prose(command.help)]
        options = [param for param in command.params if isinstance(param, click.Option)]
        if options:
            lines += ["", "| option | |", "|---|---|"]
            lines += [f"| `{_names(param)}` | {_help(param)} |" for param in options]
        lines += ["", *_epilog(command)]
    return "\n".join(lines) + "\n"


def _usage(name: str, command: click.Command) -> str:
    words = ["clew", name, "COMMAND" if isinstance(command, click.Group) else "[OPTIONS]"]
    for param in command.params:
        if isinstance(param, click.Argument):
            word = (param.metavar or param.name or "").upper().strip("[.]") + ("..." if param.nargs == -1 else "")
            words.append(word if param.required else f"[{word}]")
    return " ".join(words)


def _names(option: click.Option) -> str:
    flags = ", ".join(sorted(option.opts, key=len))
    if option.is_flag:
        return flags
    if isinstance(option.type, click.Choice) and not option.metavar:
        return f"{flags} {'/'.join(map(str, option.type.choices))}"
    return f"{flags} {option.metavar or ('N' if isinstance(option.type, click.IntRange) else 'TEXT')}"


def _help(option: click.Option) -> str:
    text = re.sub(r"\s+\[default: (.+)\]$", r" Default: \1.", option.help or "")
    return f"{text} Default: {option.default}." if option.show_default is True else text


def _prose(text: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text or "").replace("\b", "").split("\n\n"))


def _epilog(command: click.Command) -> Iterator[str]:
    """Examples and what else stands under the options, as text."""
    text = (command.epilog or "").replace("\b\n", "").strip("\n")
    if text:
        yield from ("```text", text, "```")


# -- the library


def api_page() -> str:
    """docs/reference/api.md."""
    parts = [*PARTS, ("clew.adapters", ADAPTERS, []), *adapters()]
    lines = [WRITTEN + "# The library", "", API, ""]
    lines += [f"- [{title}](#{slug(title)})" for title, _, _ in parts]
    lines += ["", "In signatures:", "", TYPES]
    for title, first, names in parts:
        lines += ["", f"## {title}", *(["", first] if first else [])]
        for name in names:
            module, _, wanted = name.partition(":")
            lines += ["", *entry(module, wanted, f"{title}." if title.startswith("clew.") else "clew.")]
    return "\n".join(lines) + "\n"


def entry(module: str, name: str, prefix: str) -> Iterator[str]:
    """A class or function with everything public in it."""
    tree = ast.parse((SOURCE / f"{module}.py").read_text(encoding="utf-8"))
    node = next(node for node in tree.body if getattr(node, "name", None) == name and not _is_overload(node))
    adapter = module.startswith("adapters/")
    shown = name if (prefix == "clew." and not _is_public(name)) or name == "Service" else prefix + name
    yield f"### {shown}"
    yield ""
    if isinstance(node, ast.FunctionDef):
        yield from ("```text", signature(node), "```", "")
        yield _doc(node)
        return
    assert isinstance(node, ast.ClassDef)
    made = next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
    if adapter and made is not None:
        yield from ("```text", signature(made).replace("__init__", name, 1).removesuffix(" -> None"), "```", "")
    yield _doc(node)
    yield from fields(node)
    if name == "BackendConformance":
        return  # its methods are the contract: tests, read where they are
    for method in node.body:
        if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if method.name.startswith("_") or _is_overload(method) or (adapter and not _doc(method)):
            continue
        yield ""
        if _is_property(method):
            returns = f": {_type(method.returns)}" if method.returns else ""
            yield f"- `.{method.name}{returns}`  "
        else:
            kind = "async " if isinstance(method, ast.AsyncFunctionDef) else ""
            yield f"- `{kind}.{signature(method, bare=True)}`  "
        yield from ("  " + line if line else "" for line in _doc(method).split("\n"))


def fields(node: ast.ClassDef) -> Iterator[str]:
    """The fields of a value, with their types and what is said of each."""
    rows = []
    for at, item in enumerate(node.body):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and not item.target.id.startswith("_"):
            after = node.body[at + 1] if at + 1 < len(node.body) else None
            said = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                said = " ".join(str(after.value.value).split()).replace("``", "`")
            kind = _type(item.annotation).replace("|", "\\|")
            default = "" if item.value is None else f" = {ast.unparse(item.value)}"
            rows.append(f"| `{item.target.id}: {kind}{default}` | {said} |")
    if rows:
        yield from ("", "| field | |", "|---|---|", *rows)


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef, *, bare: bool = False) -> str:
    """A signature in one line, or one argument per line where it is long."""
    args = re.sub(r"\bself(, )?", "", ast.unparse(node.args), count=1)
    args = args.replace("UNSET", "…").replace("lambda: ", "")
    returns = f" -> {_type(node.returns)}" if node.returns else ""
    line = f"{node.name}({args}){returns}"
    if bare or len(line) <= 100:
        return line
    parts = re.split(r", (?![^\[]*\])", args)
    return f"{node.name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"


def _doc(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    return (ast.get_docstring(node) or "").replace("``", "`")


def _type(node: ast.expr) -> str:
    text = ast.unparse(node)
    return SHORT.get(text, text)


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(mark) in ("property", "cached_property") for mark in node.decorator_list)


def _is_overload(node: ast.AST) -> bool:
    return any(ast.unparse(mark) == "overload" for mark in getattr(node, "decorator_list", ()))


def _is_public(name: str) -> bool:
    import clew

    return name in clew.__all__


# -- errors


def error_classes() -> list[tuple[str, type[Exception]]]:
    """The errors in the order of their modules, each with its class."""
    return [(node.name, cls) for node, cls in _error_nodes()]


def _error_nodes() -> list[tuple[ast.ClassDef, type[ClewError]]]:
    import clew

    found = []
    for module in ("errors", "providers/errors", "snapshots/errors"):
        tree = ast.parse((SOURCE / f"{module}.py").read_text(encoding="utf-8"))
        found += [(node, getattr(clew, node.name)) for node in tree.body if isinstance(node, ast.ClassDef)]
    return found


def errors_page() -> str:
    """docs/reference/errors.md."""
    from clew import errors
    from clew.cli.exits import code_of

    drawn, rest = (inspect.getdoc(errors) or "").split("::\n\n", 1)[1].split("\n\n", 1)
    tree = "\n".join(line.removeprefix("    ") for line in drawn.split("\n"))
    lines = [WRITTEN + "# Errors", "", "Every error that clew raises on purpose is a `clew.ClewError`.", ""]
    lines += ["```text", tree, "```", "", rest.replace("``", "`").strip()]
    for node, cls in _error_nodes():
        lines += ["", f"## {node.name}", "", _doc(node)]
        above = "".join(inspect.getsource(kind) for kind in cls.__mro__ if issubclass(kind, errors.ClewError))
        carried = sorted(set(re.findall(r"self\.(\w+) = ", above)))
        lines += ["", f"- fields: {', '.join(f'`{name}`' for name in carried)}"]
        if cls.hint:
            lines.append(f"- hint: {cls.hint}")
        lines.append(f"- exit code of the command line: {code_of(cls.__new__(cls))}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
