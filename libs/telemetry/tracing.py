"""Spans, where somebody asked for them; where nobody did, asking whether to make one is all.

Nothing here imports OpenTelemetry before `begin` has found an exporter to send to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Literal, Protocol, Self

type Value = str | bool | int | float | Sequence[str]
type Attributes = Mapping[str, Value]
type Kind = Literal["internal", "server", "client", "producer", "consumer"]


class Span(Protocol):
    """Something that takes time, for as long as the `with` lasts; what raises is noted."""

    @property
    def traceparent(self) -> str:
        """The span as a W3C header value; empty if there is none."""

    def note(self, attributes: Attributes) -> None:
        """Add attributes that became known meanwhile."""

    def mark_failed(self, error_type: str) -> None:
        """It went wrong, though nothing is raised."""

    def rename(self, name: str) -> None:
        """A better name became known."""

    def end(self) -> None:
        """It is over: for what cannot be in a `with`. Nothing is below such a span."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class Tracer(Protocol):
    """Makes the spans of one service; `otlp_tracer.OtlpTracer` does."""

    @property
    def content(self) -> bool:
        """Whether spans may hold what people and models said."""

    @property
    def inside(self) -> bool:
        """Whether a span is under way here."""

    def span(
        self, name: str, kind: Kind, attributes: Attributes, *, parent: str | None = None
    ) -> Span:
        """A span below the one that is under way, or below `parent`, a W3C header value; an empty
        one begins a trace."""

    def statement(self, text: str) -> Span:
        """The span of an SQL statement, or of what a few words call it."""

    def note(self, attributes: Attributes) -> None:
        """Add attributes to the span that is under way."""

    def mark_failed(self, error_type: str) -> None:
        """Mark the span that is under way as failed."""


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
    """The maker of spans; None if nobody asked for any, and then there is nothing to prepare."""
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
