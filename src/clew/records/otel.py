"""Sends events as OpenTelemetry spans and metrics, named by its conventions for generative AI. Sends no content.

    stop = clew.otel.instrument(service.events)

Needs only opentelemetry-api. The application's SDK decides where spans and metrics go.
"""

from __future__ import annotations

from collections.abc import Callable

from clew.errors import install_hint

try:
    from opentelemetry import metrics, trace
except ImportError as error:  # the core does without it
    raise ImportError(f"clew.otel needs opentelemetry-api. {install_hint('clew[otel]')}") from error

from clew.records import events
from clew.records.events import Events, RecordEvent

NAME = "clew"


def instrument(
    bus: Events,
    *,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> Callable[[], None]:
    """Records spans and metrics, with the global providers by default. Returns a function that stops it."""
    return bus.subscribe(Telemetry(tracer_provider, meter_provider))


class Telemetry:
    """A subscriber that turns events into spans and metrics."""

    def __init__(
        self, tracer_provider: trace.TracerProvider | None, meter_provider: metrics.MeterProvider | None
    ) -> None:
        self._tracer = trace.get_tracer(NAME, tracer_provider=tracer_provider)
        meter = metrics.get_meter(NAME, meter_provider=meter_provider)
        self._duration = meter.create_histogram(
            "clew.records.operation.duration", unit="s", description="How long calls of the record service take."
        )
        self._purged = meter.create_counter("clew.records.purged", unit="{record}", description="Records purged.")
        self._warnings = meter.create_counter(
            "clew.records.warnings", unit="{warning}", description="Capacity, corruption, slow writes, open circuits."
        )

    def __call__(self, event: RecordEvent) -> None:
        """Handles one event."""
        if isinstance(event, events.OperationFinished):
            self._operation(event)
        elif isinstance(event, events.PurgeCompleted):
            for outcome, count in (("purged", event.purged_count), ("failed", event.failed_count)):
                if count:
                    self._purged.add(count, {"clew.purge.reason": event.reason, "clew.purge.outcome": outcome})
        elif isinstance(event, events.CapacityWarning):
            self._warnings.add(1, {"clew.warning": "capacity"})
        elif isinstance(event, events.CorruptionDetected):
            self._warnings.add(1, {"clew.warning": "corruption"})
        elif isinstance(event, events.RetentionInDoubt):
            self._warnings.add(1, {"clew.warning": "retention"})
        elif isinstance(event, events.SlowWrites):
            self._warnings.add(1, {"clew.warning": "slow_writes"})
        elif isinstance(event, events.CircuitChanged) and event.state == "open":
            self._warnings.add(1, {"clew.warning": "circuit_open"})

    def _operation(self, event: events.OperationFinished) -> None:
        about = {"gen_ai.operation.name": event.operation}
        if event.error is not None:
            about["error.type"] = event.error
        self._duration.record(event.duration_ns / 1e9, about)
        named = about if event.session_id is None else {**about, "gen_ai.conversation.id": event.session_id}
        span = self._tracer.start_span(event.operation, start_time=event.started_at_ns, attributes=named)
        if event.error is not None:
            span.set_status(trace.StatusCode.ERROR)
        span.end(event.started_at_ns + event.duration_ns)
