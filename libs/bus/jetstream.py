"""The declared streams and their consumers in JetStream's terms."""

from __future__ import annotations

from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)

from libs.contracts.streams import (
    COMMAND_ACK_WAIT_SECONDS,
    COMMANDS_UNACKED_MAX,
    DELIVERIES_OF_COMMANDS,
    EVENT_DEDUPLICATION_SECONDS,
    StreamSpec,
)


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
        discard=DiscardPolicy.OLD,
        duplicate_window=EVENT_DEDUPLICATION_SECONDS,
        allow_msg_ttl=spec.work_queue,
    )


def commands_consumer(service: str) -> ConsumerConfig:
    """The push consumer that feeds the queue group of a service."""
    return ConsumerConfig(
        durable_name=service,
        deliver_subject=DELIVERIES_OF_COMMANDS.format(service=service),
        deliver_group=service,
        filter_subject=f"{service}.command.>",
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=COMMAND_ACK_WAIT_SECONDS,
        max_ack_pending=COMMANDS_UNACKED_MAX,
    )
