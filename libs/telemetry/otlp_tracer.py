"""Spans through OpenTelemetry to an OTLP collector. Imported only where one is configured."""

from __future__ import annotations

import threading
from contextvars import Token
from types import TracebackType
from typing import Self

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from libs.contracts.version import HEELER_VERSION
from libs.telemetry import span_attributes
from libs.telemetry.span_attributes import Attributes, Kind
from libs.telemetry.sql_span_names import summary_of

TRACEPARENT = "traceparent"
LAST_EXPORT_SECONDS_MAX = 1.0

W3C = TraceContextTextMapPropagator()
KINDS: dict[Kind, trace.SpanKind] = {
    "internal": trace.SpanKind.INTERNAL,
    "server": trace.SpanKind.SERVER,
    "client": trace.SpanKind.CLIENT,
    "producer": trace.SpanKind.PRODUCER,
    "consumer": trace.SpanKind.CONSUMER,
}


class LiveSpan:
    """A span that is exported when it ends."""

    def __init__(self, span: trace.Span) -> None:
        self.span = span
        self.token: Token[contexts.Context] | None = None

    @property
    def traceparent(self) -> str:
        """The span as a W3C header value; the one of a `NoopSpan` is empty."""
        return traceparent_of(self.span)

    def note(self, attributes: Attributes) -> None:
        """Add attributes that became known meanwhile."""
        self.span.set_attributes(attributes)

    def mark_failed(self, error_type: str) -> None:
        """Note that it went wrong, though nothing is raised."""
        self.span.set_attribute(span_attributes.ERROR_TYPE, error_type)
        self.span.set_status(trace.StatusCode.ERROR)

    def rename(self, name: str) -> None:
        """Give the span a better name that became known."""
        self.span.update_name(name)

    def end(self) -> None:
        """It is over: for what cannot be in a `with`. Nothing is below such a span."""
        self.span.end()

    def __enter__(self) -> Self:
        self.token = contexts.attach(trace.set_span_in_context(self.span))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self.token is not None, "what is left was entered"
        contexts.detach(self.token)
        if kind is not None:
            self.mark_failed(kind.__qualname__)
        self.end()


class OtlpTracer:
    """Makes the spans of one service, which hold what people and models said only with `content`.
    They are sent in batches by a thread of its own: when the collector is away or slow they are
    dropped, and nobody waits."""

    def __init__(self, service: str, endpoint: str | None, *, content: bool) -> None:
        self.content = content
        self.provider = TracerProvider(
            resource=Resource.create(
                {
                    span_attributes.SERVICE_NAME: service,
                    span_attributes.SERVICE_VERSION: HEELER_VERSION,
                }
            ),
            shutdown_on_exit=False,
        )
        self.provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
        self.tracer = self.provider.get_tracer(
            "heeler", HEELER_VERSION, schema_url=span_attributes.SCHEMA_URL
        )

    @property
    def inside(self) -> bool:
        """Whether a span is under way here."""
        return trace.get_current_span().get_span_context().is_valid

    def span(
        self, name: str, kind: Kind, attributes: Attributes, *, parent: str | None = None
    ) -> LiveSpan:
        """A span below the one that is under way, or below `parent`, a W3C header value; an empty
        one means that this is where a trace begins."""
        above = None if parent is None else W3C.extract({TRACEPARENT: parent}, contexts.Context())
        return LiveSpan(
            self.tracer.start_span(name, above, kind=KINDS[kind], attributes={**attributes})
        )

    def statement(self, text: str) -> LiveSpan:
        """The span of an SQL statement, or of what a few words call it."""
        name = summary_of(text)
        system = {span_attributes.DB_SYSTEM: "postgresql", span_attributes.DB_SUMMARY: name}
        return self.span(name, "client", system)

    def note(self, attributes: Attributes) -> None:
        """Say something about the span that is under way."""
        trace.get_current_span().set_attributes(attributes)

    def mark_failed(self, error_type: str) -> None:
        """Say that the span that is under way went wrong."""
        LiveSpan(trace.get_current_span()).mark_failed(error_type)

    def close(self) -> None:
        """Send what is left, but do not let a collector that is away hold the process up."""
        last = threading.Thread(target=self.provider.shutdown, daemon=True)
        last.start()
        last.join(LAST_EXPORT_SECONDS_MAX)


def traceparent_of(span: trace.Span) -> str:
    """The traceparent header of a span: `00-<trace>-<span>-<flags>`."""
    its = span.get_span_context()
    return f"00-{its.trace_id:032x}-{its.span_id:016x}-{its.trace_flags:02x}"
