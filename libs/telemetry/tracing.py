"""Spans, where somebody asked for them; where nobody did, asking whether to make one is all.

Nothing here imports OpenTelemetry before `begin` has found an exporter to send to.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Self

from libs.telemetry.span_attributes import Attributes

if TYPE_CHECKING:
    from libs.telemetry.otlp_tracer import LiveSpan, OtlpTracer

# Something that takes time, for as long as the `with` lasts; what raises is noted.
type Span = LiveSpan | NoopSpan
type Tracer = OtlpTracer

# Several services may share a process: each sets its own before it starts its tasks.
current: ContextVar[Tracer | None] = ContextVar("tracer", default=None)


class NoopSpan:
    """The span that nobody asked for."""

    traceparent = ""

    def note(self, attributes: Attributes) -> None:
        """Do nothing: tracing is off."""

    def mark_failed(self, error_type: str) -> None:
        """Do nothing: tracing is off."""

    def rename(self, name: str) -> None:
        """Do nothing: tracing is off."""

    def end(self) -> None:
        """Do nothing: tracing is off."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


UNSEEN = NoopSpan()


def tracer() -> Tracer | None:
    """What makes spans; None if nobody asked for any, and then there is nothing to prepare."""
    return current.get()


def note(attributes: Attributes) -> None:
    """Say something about the span that is under way, if there is one."""
    tracing = current.get()
    if tracing is not None:
        tracing.note(attributes)


def mark_failed(error_type: str) -> None:
    """Say that the span that is under way went wrong, if there is one."""
    tracing = current.get()
    if tracing is not None:
        tracing.mark_failed(error_type)


def statement(name: str) -> Span:
    """A question to Postgres, as a part of whatever asks. Loops that ask for nobody leave no
    spans, or the traces would be about nothing else."""
    tracing = current.get()
    if tracing is None or not tracing.inside:
        return UNSEEN
    return tracing.statement(name)
