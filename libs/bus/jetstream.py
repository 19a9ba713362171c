"""The declared streams and their consumers in JetStream's terms."""

from __future__ import annotations

import nats
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)
from nats.js.client import JetStreamContext
from nats.js.errors import BadRequestError

from libs.contracts.stream_definitions import (
    COMMAND_ACK_WAIT_SECONDS,
    COMMANDS_UNACKED_MAX,
    DELIVERIES_OF_COMMANDS,
    EVENT_DEDUPLICATION_SECONDS,
    StreamSpec,
    streams,
)

STREAM_EXISTS_OTHERWISE = 10058
DECLARE_SECONDS_MAX = 10


def stream_config(spec: StreamSpec) -> StreamConfig:
    """A declared stream in NATS terms."""
    return StreamConfig(
        name=spec.name,
        subjects=list(spec.subjects),
        retention=RetentionPolicy.WORK_QUEUE if spec.work_queue else RetentionPolicy.LIMITS,
        max_age=spec.age_seconds_max,
        max_bytes=spec.bytes_max,
        max_msgs_per_subject=spec.messages_of_a_subject_max,
        storage=StorageType.MEMORY if spec.in_memory else StorageType.FILE,
        discard=DiscardPolicy.NEW if spec.refuses_when_full else DiscardPolicy.OLD,
        duplicate_window=EVENT_DEDUPLICATION_SECONDS,
        allow_msg_ttl=spec.work_queue or spec.in_memory,
        allow_rollup_hdrs=spec.in_memory,
    )


def commands_consumer(service: str) -> ConsumerConfig:
    """The push consumer that feeds the queue group of a service. With its name the client creates
    it by a subject that says what it filters, so that NATS can refuse any other to a service."""
    return ConsumerConfig(
        name=service,
        durable_name=service,
        deliver_subject=DELIVERIES_OF_COMMANDS.format(service=service),
        deliver_group=service,
        filter_subject=f"{service}.command.>",
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=COMMAND_ACK_WAIT_SECONDS,
        max_ack_pending=COMMANDS_UNACKED_MAX,
    )


async def make_stream(jetstream: JetStreamContext, spec: StreamSpec) -> bool:
    """Make a stream that is not there; whether it is there as it is declared."""
    try:
        await jetstream.add_stream(stream_config(spec))
    except BadRequestError as refused:
        if refused.err_code != STREAM_EXISTS_OTHERWISE:
            raise
        return False
    return True


async def declare_streams(url: str) -> list[str]:
    """Make or change all streams as they are declared, with the rights of the administrator;
    returns those that were changed. Safe to repeat."""
    client = await nats.connect(url, connect_timeout=DECLARE_SECONDS_MAX, allow_reconnect=False)
    try:
        jetstream = client.jetstream(timeout=DECLARE_SECONDS_MAX)
        changed = [spec for spec in streams() if not await make_stream(jetstream, spec)]
        for spec in changed:
            await jetstream.update_stream(stream_config(spec))
        return [spec.name for spec in changed]
    finally:
        await client.close()
