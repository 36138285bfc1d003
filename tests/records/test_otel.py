"""Telemetry: spans and metrics by OpenTelemetry's conventions, read back through its SDK."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import clew
from clew.errors import install_hint
from clew.records import RecordService, events, otel
from tests.records.talk import frame, given, made

CANARY = "canary-9b1d44"


class Telemetry:
    """The emitted spans and metrics."""

    def __init__(self, service: RecordService) -> None:
        self.spans = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        tracers, meters = TracerProvider(), MeterProvider([self.reader])
        tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.stop = otel.instrument(service.events, tracer_provider=tracers, meter_provider=meters)

    def metrics(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        """Each metric's points: their attributes and values."""
        data = self.reader.get_metrics_data()
        found: dict[str, list[tuple[dict[str, Any], Any]]] = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = [
                        (dict(point.attributes or {}), getattr(point, "value", None) or getattr(point, "count", None))
                        for point in metric.data.data_points
                    ]
                    found[metric.name] = points
        return found


def test_calls_are_spans(service: RecordService) -> None:
    """A span for each call: what was done, in which session, and the class of its error; no content."""
    seen = Telemetry(service)
    record = made(service, f"{CANARY}@example.com", frame(content=CANARY), title=CANARY)
    with pytest.raises(clew.Conflict):
        service.create(given(f"{CANARY}@example.com", title=CANARY))
    create, again = seen.spans.get_finished_spans()
    session = record.storage.blob_uri.removeprefix("sessions/")
    assert create.name == again.name == "create"
    assert dict(create.attributes or {}) == {"gen_ai.operation.name": "create", "gen_ai.conversation.id": session}
    assert (again.attributes or {})["error.type"] == "Conflict"
    assert (create.status.is_ok, again.status.is_ok) == (True, False)
    assert create.start_time is not None
    assert create.end_time is not None
    assert 0 < create.end_time - create.start_time < 5e9
    assert CANARY not in "".join(span.to_json() for span in (create, again))


def test_what_happens_is_counted(service: RecordService) -> None:
    """Durations by operation, purges by reason and outcome, and warnings by kind; no metric names a conversation."""
    seen = Telemetry(service)
    made(service, "talk")
    made(service, "held")
    service.update("held", {"retention": {"manualHold": True}})
    service.purge_all("workspace-reset")
    for event in (
        events.CapacityWarning(deferred=True, pending_count=1, pending_bytes=1, advice=""),
        events.CorruptionDetected(conversation_id="x", where="", purged=False),
        events.SlowWrites(p95_ms=1, limit_ms=1, samples=1),
        events.CircuitChanged(state="open"),
        events.CircuitChanged(state="closed"),
    ):
        service.events.emit(event)
    found = seen.metrics()
    durations = {point["gen_ai.operation.name"]: count for point, count in found["clew.records.operation.duration"]}
    assert durations == {"create": 2, "update": 1, "purge_all": 1}
    purged = {point["clew.purge.outcome"]: value for point, value in found["clew.records.purged"]}
    assert purged == {"purged": 1, "failed": 1}
    assert found["clew.records.purged"][0][0]["clew.purge.reason"] == "workspace-reset"
    warnings = {point["clew.warning"]: value for point, value in found["clew.records.warnings"]}
    assert warnings == dict.fromkeys(("capacity", "corruption", "slow_writes", "circuit_open"), 1)
    assert not any("gen_ai.conversation.id" in point for points in found.values() for point, _ in points)


def test_it_can_be_ended(service: RecordService) -> None:
    """After that nothing is passed on."""
    seen = Telemetry(service)
    seen.stop()
    made(service, "talk")
    assert seen.spans.get_finished_spans() == ()


def test_without_opentelemetry_it_says_what_to_install() -> None:
    """Records work without it, and importing `clew.records.otel` names the extra."""
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import clew.records\n"
        "try: import clew.records.otel\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"clew.otel needs opentelemetry-api. {install_hint('clew[otel]')}\n"
