"""The JetStream streams and consumers, declared once; every service makes sure that they exist."""

from __future__ import annotations

import json
from dataclasses import dataclass

from libs.contracts import service_registry
from libs.contracts.service_registry import events_stream, names

MESSAGE_BYTES_MAX = 8 << 20  # what NATS is set up to take, headers included

STREAM_NAMES = "$JS.API.STREAM.NAMES"  # which streams there are: at most 1024 in one answer

COMMANDS_STREAM = "COMMANDS"
STREAM_IS_FULL = 10077  # what JetStream answers where `refuses_when_full` holds
COMMAND_AGE_SECONDS_MAX = 3_600
# Longer than a sender waits: by itself JetStream gives no command to a second process. A sender
# that still waits sends again; one that was answered must not be surprised by another copy.
COMMAND_ACK_WAIT_SECONDS = 12
# More than all processes of a service keep waiting (`libs/bus/bounded_command_queue.py`), so that
# it is not this that holds a command back: who has no room for it says so.
COMMANDS_UNACKED_MAX = 16_384
COMMANDS_BYTES_MAX = 256 << 20

EVENT_AGE_SECONDS_MAX = 7 * 86_400
EVENT_DEDUPLICATION_SECONDS = 120

TOKENS_STREAM = "TOKENS"
TOKEN_AGE_SECONDS_MAX = 3 * 3_600
TOKENS_OF_A_RUN_MAX = 20_000
TOKENS_BYTES_MAX = 128 << 20

# Beside the declared streams: consumers, indexes, blocks that are half empty, streams of others.
FILE_OVERHEAD_BYTES_MAX = 2 << 30
MEMORY_OVERHEAD_BYTES_MAX = 256 << 20

DELIVERIES_OF_COMMANDS = "deliver.{service}.commands"


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """A stream: what it holds and for how long."""

    name: str
    subjects: tuple[str, ...]
    work_queue: bool
    age_seconds_max: int
    bytes_max: int = -1
    in_memory: bool = False
    messages_of_a_subject_max: int = -1
    refuses_when_full: bool = False  # else the oldest message makes room for the newest


def streams() -> tuple[StreamSpec, ...]:
    """One work queue for all commands, one stream of events for each service, and one of the
    tokens of answers that are not history yet, for who resumes a stream in the middle of one."""
    commands = StreamSpec(
        COMMANDS_STREAM,
        tuple(f"{service}.command.>" for service in names()),
        work_queue=True,
        age_seconds_max=COMMAND_AGE_SECONDS_MAX,
        bytes_max=COMMANDS_BYTES_MAX,
        refuses_when_full=True,
    )
    events = (
        StreamSpec(
            events_stream(service.name),
            (f"{service.name}.event.>",),
            work_queue=False,
            age_seconds_max=EVENT_AGE_SECONDS_MAX,
            bytes_max=service.events_bytes_max,
        )
        for service in service_registry.SERVICES
    )
    tokens = StreamSpec(
        TOKENS_STREAM,
        tuple(f"{service}.delta.*.token.>" for service in names()),
        work_queue=False,
        age_seconds_max=TOKEN_AGE_SECONDS_MAX,
        bytes_max=TOKENS_BYTES_MAX,
        in_memory=True,
        messages_of_a_subject_max=TOKENS_OF_A_RUN_MAX,
    )
    return (commands, *events, tokens)


def store_bytes_max(*, in_memory: bool) -> int:
    """The bytes that all streams may hold together, on disk or in memory."""
    held = sum(spec.bytes_max for spec in streams() if spec.in_memory == in_memory)
    return held + (MEMORY_OVERHEAD_BYTES_MAX if in_memory else FILE_OVERHEAD_BYTES_MAX)


def is_stored(answer: bytes) -> bool:
    """Whether JetStream says that a message is stored, or that a full stream refused it: no answer
    of one whose store is broken."""
    try:
        said = json.loads(answer)
        return "error" not in said or said["error"].get("err_code") == STREAM_IS_FULL
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
