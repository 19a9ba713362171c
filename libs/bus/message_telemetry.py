"""Telemetry of messages: a span for each sent one and for each handled one, and counts by
outcome."""

from __future__ import annotations

from dataclasses import replace

from libs.bus.ports import Answer, Clock, IncomingCommand
from libs.contracts.bus_messages import COMMANDS, Accepted, Command, Context, Rejected
from libs.eventstore.ports import StoredEvent
from libs.telemetry import metrics, span_attributes, tracing
from libs.telemetry.tracing import UNSEEN, Span

ACCEPTED = "accepted"
FAILED = "failed"


def sending(command: Command, context: Context) -> Span:
    """The span from sending a command to its answer: below the one that is under way, or below
    what the context says caused it."""
    tracer = tracing.tracer()
    if tracer is None:
        return UNSEEN
    return tracer.span(
        f"send {command.service}.{command.topic}",
        "producer",
        {
            span_attributes.MESSAGING_SYSTEM: "nats",
            span_attributes.MESSAGING_OPERATION: "send",
            span_attributes.MESSAGING_DESTINATION: f"{command.service}.command.{command.topic}",
            span_attributes.MESSAGE_ID: context.message_id,
            span_attributes.MESSAGE_CORRELATION: context.correlation_id,
            span_attributes.USER_ID: context.actor,
        },
        parent=None if tracer.inside else context.traceparent,
    )


def below(span: Span, context: Context) -> Context:
    """The context of what happens because of a span."""
    return replace(context, traceparent=span.traceparent) if span.traceparent else context


def handling(name: str, destination: str, context: Context) -> Span:
    """The span of whoever handles a message, below that of its sender."""
    tracer = tracing.tracer()
    if tracer is None:
        return UNSEEN
    return tracer.span(
        f"process {name}",
        "consumer",
        {
            span_attributes.MESSAGING_SYSTEM: "nats",
            span_attributes.MESSAGING_OPERATION: "process",
            span_attributes.MESSAGING_DESTINATION: destination,
            span_attributes.MESSAGE_ID: context.message_id,
            span_attributes.MESSAGE_CORRELATION: context.correlation_id,
            span_attributes.USER_ID: context.actor,
        },
        parent=context.traceparent,
    )


def observe(answer: Answer, clock: Clock) -> Answer:
    """The same answers, seen by operators. Questions about health make no traces."""

    async def watched(incoming: IncomingCommand) -> Accepted | Rejected:
        kind = COMMANDS.get(incoming.name)
        name = incoming.name if kind else metrics.UNKNOWN
        outcome = FAILED
        began = clock.monotonic()
        try:
            destination = name.replace(".", ".command.", 1)
            seen = kind is None or kind.keeps_reply
            span = handling(name, destination, incoming.context) if seen else UNSEEN
            with span:
                if span.traceparent:
                    incoming = replace(incoming, context=below(span, incoming.context))
                reply = await answer(incoming)
                outcome = reply.code if isinstance(reply, Rejected) else ACCEPTED
                span.note({span_attributes.OUTCOME: outcome})
                return reply
        finally:
            metrics.COMMANDS.labels(name, outcome).inc()
            metrics.COMMAND_SECONDS.labels(name).observe(clock.monotonic() - began)

    return watched


def reacting(upstream: str, stored: StoredEvent, context: Context) -> Span:
    """The span of a reaction to an event, below whatever made it happen."""
    name = f"{upstream}.{stored.topic}"
    return handling(name, f"{upstream}.event.{stored.topic}", context)
