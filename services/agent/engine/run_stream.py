"""Publish what happens in a run: numbered, and waited for by nobody."""

from __future__ import annotations

import json
from collections.abc import Sequence

from libs.bus.ports import Bus, Clock
from libs.contracts.agent.compaction import ConversationCompacted
from libs.contracts.agent.conversations import Message, MessageAppended
from libs.contracts.agent.runs import RunCompleted, RunFailed, RunStarted
from libs.contracts.agent.stored_to_letta_messages import served_messages
from libs.contracts.agent.stream_chunks import NUMBER_MAX, OPENING_NUMBER
from libs.contracts.bus_messages import Event, JsonObject, delta_subject
from libs.work.reconciliation import Reconciliation
from services.agent.adapters.run_queries import RunQueries
from services.agent.domain.runs.step_results import error_fields
from services.agent.projections.runs import ended_fields

DELTA_BYTES_MAX = 512 * 1024


class RunStreamPublisher:
    """Publishes the runs of one conversation. `last_number` is the last one that was used.

    A delta says which number it comes `after`: who knows that one has missed nothing. That is the
    number before, unless a step was taken over and what was published of the first attempt is void.
    """

    def __init__(self, bus: Bus, org: str) -> None:
        self.bus = bus
        self.org = org
        self.last_number = OPENING_NUMBER
        self.kept_of = ""  # the run of which the bus keeps chunks that are not recorded

    async def publish_event(self, event: Event) -> None:
        """Publish what clients see of an event that was just recorded, unless its chunks were
        published already."""
        match event:
            case MessageAppended(run_id=str(run_id), sent=False, number=int(number)):
                if event.chunks is None:
                    self.last_number = number - 1
                    await self.publish_message(event.message, run_id, event.step_id)
                else:
                    self.last_number = number + len(event.chunks) - 1
                    await self.replace_chunks(run_id, self.last_number)
            case ConversationCompacted(message=summary):
                self.last_number = event.number - 1
                await self.publish_message(summary, event.run_id, event.step_id)
            case RunCompleted():
                await self.next(event.run_id, {"end": ended_fields(event)})
            case RunFailed():
                end = {**ended_fields(event), "error": error_fields(event)}
                await self.next(event.run_id, {"end": end})
                await self.drop_chunks()
            case RunStarted():
                self.last_number = OPENING_NUMBER
            case _:
                pass

    async def publish_message(self, message: Message, run_id: str, step_id: str | None) -> None:
        """Publish a recorded message as the V1 messages that it is served as."""
        for served in served_messages(message, run_id=run_id, step_id=step_id):
            await self.next(run_id, {"message": served})

    async def chunk(self, run_id: str, message: JsonObject, *, after: int | None = None) -> None:
        """Publish a chunk of a message that is not recorded yet."""
        self.kept_of = run_id
        await self.next(run_id, {"chunk": message}, verb="token", after=after)

    async def next(
        self, run_id: str, what: JsonObject, *, verb: str = "progress", after: int | None = None
    ) -> None:
        """Publish something under the next number. What is too large for the bus is read from the
        rows: at once if it is recorded, else when its step is, as any gap among tokens."""
        delta = {
            "number": self.last_number + 1,
            "after": self.last_number if after is None else after,
            **what,
        }
        self.last_number += 1
        payload = json.dumps(delta).encode()
        if len(payload) > DELTA_BYTES_MAX:
            await self.look(run_id, self.last_number)
        else:
            await self.publish(verb, run_id, payload)

    async def look(self, run_id: str, number: int) -> None:
        """Bid the followers of a run to look at its rows, unless they know up to this number."""
        await self.publish("progress", run_id, json.dumps({"look": number}).encode())

    async def replace_chunks(self, run_id: str, number: int) -> None:
        """The same, where the bus has kept the chunks of what is recorded: it need not any more."""
        self.kept_of = ""
        subject = delta_subject("agent", "run", "token", self.org, run_id)
        payload = json.dumps({"look": number}).encode()
        await self.bus.publish_delta(subject, payload, replaces_kept=True)

    async def drop_chunks(self) -> None:
        """Have the bus keep no chunks of an answer that was broken off. Safe to repeat."""
        if self.kept_of:
            await self.replace_chunks(self.kept_of, self.last_number)

    async def publish(self, verb: str, run_id: str, payload: bytes) -> None:
        """Send a delta of a run."""
        await self.bus.publish_delta(delta_subject("agent", "run", verb, self.org, run_id), payload)


CHUNKS_OF_RUNS = delta_subject("agent", "run", "token", "*", "*")


class OrphanedChunks(Reconciliation[tuple[str, str]]):
    """The runs, each after its organisation, that have ended and whose chunks the bus keeps."""

    name = "chunks of runs that have ended"
    every_seconds = 60.0  # of what the bus keeps

    def __init__(self, bus: Bus, queries: RunQueries, clock: Clock) -> None:
        super().__init__(clock)
        self.bus = bus
        self.queries = queries

    async def find(self, keys: list[str] | None) -> Sequence[tuple[str, str]]:
        """The runs of which chunks are kept and that are not active."""
        subjects = await self.bus.kept_subjects(CHUNKS_OF_RUNS)
        runs = {run_id: org for *_, org, _, run_id in (subject.split(".") for subject in subjects)}
        found = await self.queries.active_runs(list(runs.values()), list(runs)) if runs else []
        active = set(found)
        return [(org, run_id) for run_id, org in runs.items() if run_id not in active]

    async def mend(self, item: tuple[str, str]) -> bool:
        """Have the bus forget the chunks of one run."""
        org, run_id = item
        await RunStreamPublisher(self.bus, org).replace_chunks(run_id, NUMBER_MAX)
        return True
