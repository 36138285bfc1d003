"""The names that programs rely on."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType

import pytest

import clew
import clew.agents
import clew.aio
import clew.aio.agents
import clew.chat
import clew.chat.aio
import clew.chat.recording
import clew.convert
import clew.records
import clew.records.events
import clew.testing
import clew.testing.providers
from clew.engine.audit import Audit
from clew.engine.blobs import Blobs
from clew.engine.log import Log
from clew.store.nodes import Nodes
from clew.store.sessions import Sessions
from clew.upkeep.quarantine import Quarantine

NAMES: dict[object, str] = {
    clew: "open Store Session Node Message Native Text Thinking ToolCall ToolResult Media Opaque Usage NewNode "
    "Counters Branch Page user assistant system tool native errors ClewError NotFound Ambiguous Conflict SweepRefused "
    "Invalid NotAStore Sealed WrongKey Corrupted Unavailable StorageFull ReadOnly Forbidden MissingPackage "
    "ShutdownIncomplete SchemaTooNew Closed keys redaction retention __version__",
    clew.Store: "sessions nodes audit quarantine search verify backup transaction close path __enter__ __exit__",
    clew.Node: "id handle parent_id created_at message native role text depth counters redactions",
    clew.Session: "append path iter history watch fork rewind branches subagents compact rename label update attach "
    "purge hold release held hold_reason retain expires_at trash trashed_at "
    "refresh blobs log counters id handle title cwd model labels extra head_id version created_at updated_at agent "
    "forked_from forked_at owner_id __enter__ __exit__",
    Sessions: "create get latest list fork hold release trash trashed restore purge",
    Quarantine: "sweep list restore purge on_event",
    Nodes: "save save_dialog get list path children subtree delete resolve handles",
    Blobs: "put get open stat",
    Log: "append read",
    clew.keys: "Key Passphrase generate check from_file from_env from_keyring from_passphrase key_id key_id_text "
    "recovery from_recovery",
    clew.redaction: "Rule Rules builtin redact Redacted Finding Annotation annotation NOTE",
    clew.errors: "ClewError NotFound Ambiguous Conflict Invalid Sealed WrongKey Corrupted Unavailable "
    "StorageFull SchemaTooNew SweepRefused",
    clew.retention: "Policy preview sweep set_policy get_policy Plan SweepReport Due Spared Sweeper",
    Audit: "record read jsonl",
    clew.aio: "open Sweeper Watch",
    clew.records: "RecordService Pending Policy CircuitOpen ConversationRecord ConversationRecordInput "
    "ConversationRecordMutation ConversationRecordSummary MessageFrame RecoverySnapshot PurgeReport to_json "
    "validate_record validate_input validate_mutation validate_frame validate_snapshot",
    clew.records.RecordService: "initialize dispose is_initialized create update get list delete purge_all "
    "commit_snapshot get_snapshot commit_conversation recoverable attach open_attachment export set_privacy "
    "set_policy policy sweep sweeper events pending",
    clew.records.events: "Events RecordEvent ConversationStored ConversationDeleted PurgeCompleted CapacityWarning "
    "CorruptionDetected RetentionInDoubt SlowWrites CircuitChanged OperationFinished",
    clew.agents: "open SessionStore Session SessionMetadata Options Transcript TranscriptEvent Mirror MirrorReport "
    "Memory CleanupReport forget_mirror import_tree ImportReport ImportedSession SkippedFile project_hash",
    clew.agents.SessionStore: "create start load load_latest resume fork list delete cleanup append_message "
    "append_event load_messages load_messages_up_to transcript transcript_path memory mirror rebuild_mirror flush "
    "close",
    clew.agents.Session: "id metadata messages last add save append_and_save append_event transcript "
    "conversation refresh",
    clew.aio.agents: "open over import_tree SessionStore Session Transcript Memory",
    clew.convert: "convert convert_messages convert_session repair_messages Converted ConvertedSession "
    "ConvertedSnapshot Loss Report",
    clew.testing: "BackendConformance FakeClock SequentialIds",
    clew.chat: "ChatClient StreamingChatClient PersistentChatClient connect validate_base_url InvalidBaseURL "
    "MAX_BASE_URL_LENGTH Client ClaudeLocal Tool Reply UsageTotal ProviderError",
    clew.chat.aio: "connect AsyncClient Stream",
    clew.chat.recording: "SavingMiddleware SavedClient AsyncSavedClient autosave resume through_last_answer "
    "latest_answered",
    clew.testing.providers: "ProviderServer Request Say Fail Send ToolUse self_signed",
}


@pytest.mark.parametrize("thing", NAMES, ids=lambda thing: getattr(thing, "__name__", ""))
def test_public_names_are_there(thing: object) -> None:
    """Every name of the published list exists."""
    assert [name for name in NAMES[thing].split() if not hasattr(thing, name)] == []


def test_the_door_says_what_it_offers() -> None:
    """`clew.__all__` has every public name that is not a module, and each of them is there."""
    assert set(NAMES[clew].split()) - {"__version__"} <= set(clew.__all__)
    assert all(hasattr(clew, name) for name in clew.__all__)


def public(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Classes and functions that a module defines under a public name, and their public members."""
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(thing):
            yield name, thing
            for member, value in vars(thing).items():
                if not member.startswith("_") and (
                    inspect.isfunction(value) or isinstance(value, property | staticmethod | classmethod)
                ):
                    yield f"{name}.{member}", value
        elif inspect.isfunction(thing):
            yield name, thing


@pytest.mark.parametrize(
    "module",
    (
        "clew errors base.ids base.files keys base.messages redaction engine.node store.nodes engine.blobs engine.log "
        "engine.watch store.session store.sessions store.search.query upkeep.verify backends "
        "upkeep.quarantine store.store store.scan store.evaluate engine.audit retention.policy retention "
        "aio aio.retention aio.proxy "
        "testing testing.contract testing.backend records.events store.jsonl records.otel "
        "records records.schema records.validation records.service records.deferred records.aio "
        "agents agents.store agents.transcript agents.memory agents.mirror agents.importer "
        "agents.metadata aio.agents "
        "convert convert.report convert.core testing.snapshots "
        "chat.aio providers.base_url chat.client chat.factory chat.conversation chat.claude_program "
        "chat.protocols providers.tools testing.providers "
        "mcp mcp.tools mcp.http mcp.answers "
        "agents.cpe agents.cpe.reader agents.cpe.importer "
        "sources sources.contract sources.items sources.importer sources.import_all sources.import_log sources.undo "
        "sources.survey sources.layout sources.registry sources.imported_files"
    ).split(),
)
def test_public_things_are_documented(module: str) -> None:
    """Every public class, function, method and property says what it does."""
    found = importlib.import_module("clew" if module == "clew" else f"clew.{module}")
    assert found.__doc__
    # An implementation of a contract, and a subclass that only fills in, may leave the words to what it implements.
    bare = [name for name, thing in public(found) if not inspect.getdoc(thing)]
    assert bare == []


def test_hits_reports_and_pages() -> None:
    """What search, verify, backup and list return has the fields that were promised."""
    with clew.open(":memory:") as store:
        session = store.sessions.create()
        session.append(clew.user("lint step"))
        (hit,) = store.search("lint")
        assert (hit.node, hit.session, type(hit.snippet), type(hit.score)) == (session.path()[0], session, str, float)
        assert [hit.snippet[start:end] for start, end in hit.marks] == ["lint"]
        report = store.verify()
        assert (report.ok, report.damage, type(report.counts)) == (True, [], dict)
        page = store.sessions.list(total=True)
        assert (page.items, page.next_cursor, page.total) == ([session], None, 1)


def test_types_are_shipped() -> None:
    """`py.typed` lies beside the modules, and the package names its version."""
    assert (Path(clew.__file__).parent / "py.typed").exists()
    meta = distribution("clew")
    assert meta.version == clew.__version__
