"""Sends events as OpenTelemetry spans and metrics, named by its conventions for generative AI. Sends no content.

    stop = clew.otel.instrument(service.events)
    stop = clew.otel.instrument_store(store)

Needs only opentelemetry-api. The application's SDK decides where spans and metrics go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from weakref import ref

from clew.errors import ClewError, install_hint

try:
    from opentelemetry import metrics, trace
except ImportError as error:  # the core does without it
    raise ImportError(f"clew.otel needs opentelemetry-api. {install_hint('clew[otel]')}") from error

from clew.records import events
from clew.records.events import Events, RecordEvent
from clew.store.store import Store, timing_of, usage_of

NAME = "clew"


def instrument(
    bus: Events,
    *,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> Callable[[], None]:
    """Records spans and metrics, with the global providers by default. Returns a function that stops it."""
    return bus.subscribe(Telemetry(tracer_provider, meter_provider))


def instrument_store(
    store: Store, *, name: str | None = None, meter_provider: metrics.MeterProvider | None = None
) -> Callable[[], None]:
    """Records metrics of an open store, with the global provider by default. Returns a function that stops it.

    `name` becomes the attribute "clew.store.name" of each, to tell several stores of a process apart.
    """
    return StoreTelemetry(store, name, meter_provider).start()


class StoreTelemetry:
    """Turns what a store waits for into metrics. Reads its size and its connections when the metrics are collected."""

    def __init__(self, store: Store, name: str | None, meter_provider: metrics.MeterProvider | None) -> None:
        self._store = ref(store)
        self._timing = timing_of(store)
        self._about = {} if name is None else {"clew.store.name": name}
        self._stopped = False
        meter = metrics.get_meter(NAME, meter_provider=meter_provider)

        def histogram(name: str, description: str) -> metrics.Histogram:
            return meter.create_histogram(f"clew.store.{name}", unit="s", description=description)

        self._seconds = {
            "lock": histogram("lock.wait", "How long writes wait for the lock, if it is not free."),
            "connection": histogram("connection.wait", "How long calls wait for a connection to the server."),
            "commit": histogram("commit.duration", "How long commits take."),
            "unit": histogram("unit.duration", "How long units of work take, with all waits."),
        }
        self._retries = meter.create_counter(
            "clew.store.retries", unit="{retry}", description="Commits that failed, broken connections, lost races."
        )
        for field, unit, description in (
            ("size", "By", "Size of the store's files, or of its tables on the server."),
            ("connections", "{connection}", "Connections to the server that threads use."),
            ("pool_size", "{connection}", "Maximum number of connections to the server."),
        ):
            meter.create_observable_gauge(
                f"clew.store.{field}", [partial(self._read, field)], unit=unit, description=description
            )

    def start(self) -> Callable[[], None]:
        """Begins to record. Returns a function that stops it."""
        end = self._timing.observe(self)

        def stop() -> None:
            self._stopped = True
            end()

        return stop

    def __call__(self, what: str, seconds: float) -> None:
        """Handles one wait, commit or retry."""
        if what == "retry":
            self._retries.add(1, self._about)
        else:
            self._seconds[what].record(seconds, self._about)

    def _read(self, field: str, options: metrics.CallbackOptions) -> list[metrics.Observation]:
        store = None if self._stopped else self._store()
        if store is None:
            return []
        try:
            value = getattr(usage_of(store), field)
        except ClewError:  # closed, or the server cannot be reached
            return []
        return [] if value is None else [metrics.Observation(value, self._about)]


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
