"""The JSON documents of the commands, as types: tools/schemas.py makes the schemas in the reference from them.

Every document that a test of tests/cli prints is compared with them.

A document is an object with `schema_version`, and either the fields of one of the command's types, or `items`, a
list. A new field does not change the version; renaming or removing one does. With `--jsonl` each line is one item, or
the object itself, without `schema_version`.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, Required, TypedDict


class SessionFields(TypedDict):
    """A conversation."""

    id: str
    handle: str
    title: str | None
    cwd: str | None
    model: str | None
    labels: list[str]
    agent: str | None
    created_at: str
    updated_at: str
    messages: int
    turns: int
    tokens_in: int
    tokens_out: int
    cost: int | None
    head_id: str | None
    forked_from: str | None
    forked_at: str | None
    version: int
    held: bool
    hold_reason: str | None
    expires_at: str | None
    trashed_at: str | None
    extra: dict[str, Any]


class ListedSession(TypedDict, total=False):
    """A conversation in a list. One that cannot be read has only `id`, `handle` and `damaged`."""

    id: Required[str]
    handle: Required[str]
    title: str | None
    cwd: str | None
    model: str | None
    labels: list[str]
    agent: str | None
    created_at: str
    updated_at: str
    messages: int
    turns: int
    tokens_in: int
    tokens_out: int
    cost: int | None
    head_id: str | None
    forked_from: str | None
    forked_at: str | None
    version: int
    held: bool
    hold_reason: str | None
    expires_at: str | None
    trashed_at: str | None
    extra: dict[str, Any]
    tool: str | None
    branch: str | None
    damaged: str


class SessionList(TypedDict):
    """A page of conversations."""

    sessions: list[ListedSession]
    next_cursor: str | None


class MessageFields(TypedDict):
    """A message, in the form that `clew append` reads. A damaged one has `damaged` and no content."""

    id: str
    handle: str
    parent_id: str | None
    created_at: str
    role: str
    text: NotRequired[str]
    blocks: NotRequired[list[dict[str, Any]]]
    provider: NotRequired[str]
    raw: NotRequired[str]
    model: NotRequired[str]
    usage: NotRequired[dict[str, Any]]
    label: NotRequired[str]
    extra: NotRequired[dict[str, Any]]
    compacted: NotRequired[int]
    damaged: NotRequired[str]


class ShownConversation(TypedDict):
    """A conversation and its messages; `session` is null for messages without one."""

    session: SessionFields | None
    messages: list[MessageFields]


class FoundIn(TypedDict):
    """The conversation of a message that was found."""

    id: str
    handle: str
    title: str | None
    cwd: str | None
    tool: str | None
    branch: str | None


class SearchHit(TypedDict):
    """A message that was found. `marks` are the positions of the words in `snippet`."""

    session: FoundIn | None
    node: MessageFields
    snippet: str
    marks: list[list[int]]
    score: float


class TreeLine(TypedDict):
    """A message as a line of a tree."""

    id: str
    handle: str
    parent_id: str | None
    created_at: str
    role: str
    snippet: str
    agent: str | None
    under: str | None
    level: int
    last: bool
    cpe_id: NotRequired[str]


class Totals(TypedDict):
    """Sums over conversations; the cost is in millionths of a dollar."""

    sessions: int
    messages: int
    turns: int
    tokens_in: int
    tokens_out: int
    cost: int | None
    cost_unknown: int


class StatsFields(TypedDict):
    """Totals of all conversations, and by model, day, project, tool and branch."""

    total: Totals
    by_model: dict[str, Totals]
    by_day: dict[str, Totals]
    by_project: dict[str, Totals]
    by_tool: dict[str, Totals]
    by_branch: dict[str, Totals]
    unknown: int
    damaged: int


class Spent(TypedDict):
    """Tokens and cost of answers, in millionths of a dollar. A row has a field that says which answers."""

    day: NotRequired[str]
    week: NotRequired[str]
    month: NotRequired[str]
    model: NotRequired[str]
    project: NotRequired[str]
    tool: NotRequired[str]
    answers: int
    input: int
    cached: int
    cache_write: int
    cache_write_1h: int
    output: int
    reasoning: int
    tokens: int
    cost: int | None
    cost_noted: int
    cost_own: int
    cost_listed: int
    cost_unknown: int
    tokens_unknown: int


class UsageFields(TypedDict):
    """Tokens and cost by day, week, month, model, project or tool."""

    by: str
    rows: list[Spent]
    total: Spent
    subagents: Spent
    prices: str | None
    damaged: int


class ConversationUsage(TypedDict):
    """Tokens and cost of one conversation, of its subagents, and by model."""

    own: Spent
    subagents: dict[str, Spent]
    total: Spent
    models: dict[str, Spent]
    prices: str | None
    damaged: int


class ActedOn(TypedDict):
    """What happened to one item: a success has what the command says of it, a failure has `error`."""

    asked: str
    ok: bool
    session: NotRequired[ListedSession]
    snapshot: NotRequired[str]
    node: NotRequired[str]
    deleted: NotRequired[int]
    failures: NotRequired[list[dict[str, Any]]]
    pending: NotRequired[list[str]]
    error: NotRequired[str]
    hint: NotRequired[str | None]
    code: NotRequired[int]


class Failure(TypedDict):
    """A conversation that could not be deleted."""

    session: str
    error: str


class KeptMessages(TypedDict):
    """Messages of a deleted conversation that others need."""

    session: str
    messages: int
    needed_by: list[str]


class ReceiptFields(TypedDict):
    """The receipt of a purge."""

    id: str | None
    reason: str
    started_at: str
    finished_at: str | None
    sessions: list[str]
    messages: int
    blobs: int
    bytes: int
    failures: list[Failure]
    kept: list[KeptMessages]
    pending: list[str]
    beyond: list[str]
    outside: int
    redacted: list[str]


class PurgeFields(ReceiptFields):
    """The receipt of a purge, and the files of other tools that still have the conversations."""

    originals: list[str]


class MirrorForgotten(TypedDict):
    """A mirror that is no longer waited for."""

    mirror: str
    pending: Any


class PolicyFields(TypedDict):
    """How many days conversations are kept; null is for ever."""

    days: int | None
    trash_days: int | None
    records: int | None


class DueSession(TypedDict):
    """A conversation that the next sweep purges."""

    session: str
    last_activity: str
    expires_at: str
    why: str


class SparedSession(TypedDict):
    """A conversation that is due and stays."""

    session: str
    why: str
    by: str | None


class SweepPlan(TypedDict):
    """What a sweep would purge."""

    now: str
    total: int
    going: list[DueSession]
    spared: list[SparedSession]
    kept: list[KeptMessages]
    failures: list[Failure]
    messages: int
    blobs: int
    bytes: int
    doubts: list[str]


class SweepFields(TypedDict):
    """What a sweep purged."""

    total: int
    sessions: list[str]
    spared: list[SparedSession]
    failures: list[Failure]
    messages: int
    receipt: str | None
    pending: list[str]


class KeyStatus(TypedDict):
    """Whether a store is sealed, its keys, and how far a change of them is."""

    state: str
    key_ids: list[str]
    passphrase: bool
    done: int
    total: int
    unclean: bool


class RecoveryKey(TypedDict):
    """A key as letters to print."""

    recovery_key: str
    key_id: str


class MadeKey(TypedDict):
    """A new key, and where it is."""

    key_id: str
    key: NotRequired[str]
    file: NotRequired[str]
    keyring: NotRequired[str]


class AuditEntry(TypedDict):
    """Who did what, and when."""

    id: str
    at: str
    kind: str
    subject: str | None
    actor: str | None
    reason: str | None
    amount: int | None


class Finding(TypedDict):
    """A secret in a message or a field."""

    rule: str
    block: int | None
    kind: str
    count: int


class FoundSecret(TypedDict):
    """Where secrets are."""

    what: str
    session: str | None
    id: str
    findings: list[Finding]


class SecretScan(TypedDict):
    """Secrets that a scan found, by rule and by place, and what was read."""

    counts: dict[str, int]
    found: list[FoundSecret]
    read: dict[str, int]
    unreadable: list[str]


class RedactedMessage(TypedDict):
    """A message whose secrets were removed."""

    message: str
    counts: dict[str, int]
    sessions: list[str]
    copies: int
    receipt: str | None
    pending: NotRequired[list[str]]
    dry_run: NotRequired[bool]


class DamageFields(TypedDict):
    """Damage that `clew verify` found."""

    what: str
    where: str
    why: str
    session: str | None
    position: int | None


class VerifyFields(TypedDict):
    """What was checked, and the damage."""

    ok: bool
    counts: dict[str, int]
    damage: list[DamageFields]


class StoreHead(TypedDict):
    """A text that identifies the state of the store."""

    head: str


class CheckFields(TypedDict):
    """One check of `clew doctor`."""

    name: str
    state: str
    what: str
    hint: str


class QuarantinedMessage(TypedDict):
    """A message in quarantine."""

    node: str
    session: str | None
    at: str
    why: str
    bytes: int
    kept: bool


class LeftMessage(TypedDict):
    """A damaged message that was not moved."""

    where: str
    why: str


class QuarantineSweep(TypedDict):
    """Messages that were moved to quarantine."""

    bodies: int
    moved: list[str]
    left: list[LeftMessage]
    receipt: QuarantineReceipt | None


class QuarantineReceipt(TypedDict):
    """Messages that were purged from quarantine."""

    id: str | None
    reason: str
    started_at: str
    finished_at: str | None
    messages: int
    bytes: int
    failures: list[Failure]
    pending: list[str]


class ExportedFields(TypedDict):
    """Files that were written, and what was left out."""

    files: list[str]
    conversations: int
    damaged: list[str]
    refused: list[str]


class BackupFields(TypedDict):
    """A copy of the store."""

    path: str
    size: int


class CopiedFields(TypedDict):
    """A store that was copied."""

    source: str
    target: str
    rows: int


class ClearedObjects(TypedDict):
    """Objects that were removed from object storage."""

    objects: int
    bytes: int
    dry_run: bool


class MovedSession(TypedDict):
    """A conversation with its new directory."""

    id: str
    cwd: str


class MovedProject(TypedDict):
    """Conversations of a project that has moved."""

    sessions: list[MovedSession]


class ConfigFields(TypedDict):
    """The settings that apply: values, or with --origin objects that say where each comes from."""

    settings: dict[str, Any]


class ChangedSetting(TypedDict):
    """A setting, and the file that was changed."""

    path: str
    name: str
    value: NotRequired[Any]


class HookStatus(TypedDict):
    """Whether the hooks are in a file of settings."""

    path: str
    state: str
    command: str | None
    missing: list[str]


class SnapshotFields(TypedDict):
    """A snapshot in a list."""

    id: str
    provider: str
    model: str
    created_at: str
    message_count: int
    token_count: int


class SavedSnapshot(TypedDict):
    """A snapshot that was saved."""

    id: str
    provider: str
    message_count: int


class ConvertedSnapshot(TypedDict):
    """A snapshot for another provider, and what the conversion lost."""

    id: NotRequired[str]
    converted_from: str
    provider: str
    messages: int
    losses: list[dict[str, Any]]


class FileFields(TypedDict):
    """A file as it was."""

    exists: NotRequired[bool]
    type: NotRequired[str]
    mode: NotRequired[str]
    hash: NotRequired[str | None]
    size: NotRequired[int]
    target: NotRequired[str]
    skipped: NotRequired[str]


DiffFields = TypedDict(
    "DiffFields",
    {"path": str, "from": FileFields | None, "to": FileFields | None, "insertions": int, "deletions": int},
)
"""What a rewind would change in a file."""


class CheckpointFile(FileFields):
    """A file before a change, and after it."""

    path: str
    after: NotRequired[FileFields]


class CheckpointFields(TypedDict):
    """Working files as they were before a message changed them."""

    user_message_uuid: str
    created_at: str
    also: list[str]
    rewound_to: str | None
    heads: Any
    files: list[CheckpointFile]
    handle: NotRequired[str]


class RewoundFiles(TypedDict):
    """What a rewind of files did, or would do."""

    canRewind: bool
    error: NotRequired[str]
    filesChanged: NotRequired[list[str]]
    insertions: NotRequired[int]
    deletions: NotRequired[int]
    message: NotRequired[str]
    undo: NotRequired[str]
    removed: NotRequired[list[str]]
    conflicts: NotRequired[list[str]]
    unseen: NotRequired[list[str]]
    kept: NotRequired[list[str]]
    skipped: NotRequired[dict[str, str]]
    left: NotRequired[list[str]]
    imported: NotRequired[bool]
    dryRun: NotRequired[bool]


class Answer(TypedDict):
    """An answer of a model."""

    type: Literal["reply"]
    session: str | None
    id: str | None
    text: str
    stop: str | None
    model: str | None
    usage: dict[str, int] | None


class SourceFields(TypedDict):
    """A program whose histories can be imported."""

    name: str
    title: str
    looked_for: dict[str, list[str]]
    here: list[str]
    files: int
    bytes: int
    deletes_after: int | None
    imported_files: int
    imported_at: str | None


class FoundHistory(TypedDict):
    """A history on this machine."""

    source: str
    title: str
    paths: list[str]
    files: int
    size: int
    projects: int
    conversations: int
    messages: int
    oldest: str | None
    newest: str | None
    deletes_after: int | None
    exact: bool


class ImportedConversation(TypedDict):
    """A conversation of a file. `known` messages were stored before; it `inherits` those of another one."""

    session: str
    messages: int
    known: int
    records: int
    subagent: bool
    inherits: bool


class SkippedPart(TypedDict):
    """A part of a file that could not be read."""

    path: NotRequired[str]
    line: NotRequired[int]
    at: NotRequired[str]
    why: str


class ImportedFile(TypedDict):
    """A file that was read, or not."""

    path: str
    source: str | None
    state: str
    conversations: list[ImportedConversation]
    skipped: list[str]
    notes: list[str]
    purged: int


class ImportFields(TypedDict):
    """What an import stored; `run` names it for --undo."""

    run: str | None
    files: list[ImportedFile]


class ImportedSession(TypedDict):
    """A conversation of a file that clew or an agent runtime wrote."""

    id: str
    messages: int
    known: int
    events: NotRequired[int]
    checkpoints: NotRequired[int]


class ImportedSessions(TypedDict):
    """What was read from files that clew or an agent runtime wrote."""

    sessions: list[ImportedSession]
    skipped: list[SkippedPart]
    purged: NotRequired[int]
    memories: NotRequired[list[str]]


class ImportRun(TypedDict):
    """A past import."""

    id: str
    handle: str
    started_at: str
    paths: list[str]
    sessions: int
    messages: int
    undone: bool


COMMANDS: dict[str, tuple[Any, ...]] = {
    "import": (list[FoundHistory], ImportFields, ImportedSessions, list[ImportRun]),
    "sources": (list[SourceFields],),
    "hook status": (list[HookStatus],),
    "ls": (SessionList,),
    "search": (list[SearchHit],),
    "show": (ShownConversation,),
    "tree": (list[TreeLine],),
    "conversation list": (list[TreeLine],),
    "conversation print": (ShownConversation,),
    "conversation delete": (list[ActedOn],),
    "usage": (UsageFields, ConversationUsage),
    "stats": (StatsFields,),
    "chat": (Answer,),
    "run": (Answer,),
    "fork": (SessionFields,),
    "rewind": (RewoundFiles, SessionFields),
    "undo": (RewoundFiles, SessionFields),
    "checkpoint ls": (list[CheckpointFields],),
    "checkpoint show": (CheckpointFields,),
    "checkpoint diff": (list[DiffFields],),
    "snapshot ls": (list[SnapshotFields],),
    "snapshot save": (SavedSnapshot,),
    "snapshot restore": (SessionFields,),
    "snapshot rm": (list[ActedOn],),
    "snapshot convert": (ConvertedSnapshot,),
    "rename": (SessionFields,),
    "label": (SessionFields,),
    "rm": (list[ActedOn],),
    "trash ls": (SessionList,),
    "trash restore": (list[ActedOn],),
    "purge": (PurgeFields, MirrorForgotten),
    "receipts": (list[ReceiptFields],),
    "relocate": (MovedProject,),
    "key generate": (MadeKey,),
    "key from-recovery": (MadeKey,),
    "key export-recovery": (RecoveryKey,),
    "key status": (KeyStatus,),
    "key seal": (KeyStatus,),
    "key unseal": (KeyStatus,),
    "key rotate": (KeyStatus,),
    "redact": (SecretScan, RedactedMessage, list[RedactedMessage]),
    "hold add": (list[ActedOn],),
    "hold release": (list[ActedOn],),
    "retention preview": (SweepPlan,),
    "retention sweep": (SweepFields, SweepPlan),
    "retention set": (PolicyFields, list[SessionFields]),
    "audit": (list[AuditEntry],),
    "export": (ExportedFields,),
    "backup": (BackupFields,),
    "doctor": (list[CheckFields],),
    "verify": (VerifyFields, StoreHead),
    "quarantine ls": (list[QuarantinedMessage],),
    "quarantine sweep": (QuarantineSweep,),
    "quarantine restore": (list[ActedOn],),
    "quarantine purge": (QuarantineReceipt,),
    "copy": (CopiedFields,),
    "gc": (ClearedObjects,),
    "config show": (ConfigFields,),
    "config set": (ChangedSetting,),
    "config unset": (ChangedSetting,),
}
"""The types of each command's document; `list[…]` stands for `items`."""
