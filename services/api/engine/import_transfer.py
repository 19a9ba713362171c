"""Sends what a source has to the services that own it, the agents last."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Set
from contextlib import aclosing
from hashlib import sha256

from pydantic import ValidationError
from pydantic_core import to_json

from libs.contracts.agent.agents import DeleteAgent
from libs.contracts.agent.conversations import main_conversation
from libs.contracts.agent_file import LINE, Definition, FileText, HistoryPart
from libs.contracts.api.import_errors import BadSource
from libs.contracts.api.imports import EntryError, ImportCounts
from libs.contracts.appended_histories import (
    APPENDED_BYTES_MAX,
    APPENDED_EVENTS_MAX,
    PastEvent,
    PastHistory,
    append_command,
)
from libs.contracts.bus_messages import NOT_FOUND, Rejected
from libs.contracts.memory.archives import EmptyArchive
from libs.eventstore import failpoints
from services.api.domain.agent_import import ImportState
from services.api.domain.line_parts import AnyLine
from services.api.engine.continued_definitions import ContinuedDefinitions
from services.api.engine.import_approvals import Approvals
from services.api.engine.import_definitions import Definitions
from services.api.engine.import_files import Files
from services.api.engine.import_plan import CONTINUE, LINE_AT_ONCE_BYTES_MAX, Plan
from services.api.engine.import_ports import ImportPorts, Sender

PROGRESS_SECONDS = 2.0
GONE_SECONDS_MAX = 120.0
GONE_LOOK_SECONDS = 0.25
PASSAGE_TOPIC = "passage.created"
# What is made of histories, which only what is gone may begin again.
HISTORIES_OF = ("block-", "archive-", "conv-")

type OnProgress = Callable[[ImportCounts], Awaitable[object]]


class Batch:
    """The next events for one service, of the source from `line` on."""

    def __init__(self, service: str, line: int) -> None:
        self.service = service
        self.line = line
        self.histories: list[PastHistory] = []
        self.events = 0
        self.bytes = 0

    def fits(self, size: int, events: int = 1) -> bool:
        """Whether so many events of so many bytes may go with the others."""
        is_small = self.bytes + size <= APPENDED_BYTES_MAX
        return not self.events or (is_small and self.events + events <= APPENDED_EVENTS_MAX)

    def add(self, history: PastHistory, size: int) -> None:
        """Add the events of a history, which follow those that were added of it."""
        self.bytes += size
        self.events += len(history.events)
        before = self.histories[-1] if self.histories else None
        if before is None or before.aggregate_id != history.aggregate_id or before.complete:
            self.histories.append(history)
            return
        self.histories[-1] = before.model_copy(
            update={
                "events": (*before.events, *history.events),
                "complete": history.complete,
            }
        )


async def ignore(_: ImportCounts) -> None:
    """Tell nobody how far it is."""


class Transfer:
    """One attempt to transfer a source, from where the last one stopped."""

    def __init__(self, ports: ImportPorts, sender: Sender, plan: Plan, state: ImportState) -> None:
        self.ports = ports
        self.sender = sender
        self.plan = plan
        # What the lines of the retired server's files are depends on what is there.
        is_letta = plan.wanted.source.form == "letta"
        self.begins_at = ImportCounts() if is_letta else state.done
        self.on_progress: OnProgress = ignore
        self.continues = plan.wanted.options.conflicts == CONTINUE
        kind = ContinuedDefinitions if self.continues else Definitions
        self.definitions = kind(ports, sender, plan)
        self.files = Files(ports, sender, self.definitions.renewed_folders)
        self.approvals = Approvals(ports.queries, plan.wanted.org)
        made = plan.checks.own - plan.decision.present
        self.own_blocks = frozenset(map(plan.ids.of, made))
        # Agents that come from a file whose tools nobody has accepted.
        from_file = plan.wanted.source.form == "heeler" and not self.continues
        is_guarded = from_file and not plan.wanted.options.accept_tools
        self.guarded = frozenset(plan.agent_ids if is_guarded else ())
        self.batch: Batch | None = None
        self.place = ImportCounts()
        self.sent = ImportCounts()
        self.reported_at = ports.clock.monotonic()
        self.in_flight: asyncio.Task[None] | None = None

    @property
    def left_out(self) -> list[EntryError]:
        """The entries that the import goes on without, since their services refused them."""
        return self.definitions.left_out

    async def run(self) -> list[str]:
        """Transfer what is left, and return the ids of the agents. Raises BadSource and
        BusUnavailable."""
        await self.clear_the_way()
        try:
            await self.send_lines()
        finally:
            if self.in_flight is not None:
                self.in_flight.cancel()
        await self.definitions.finish()
        return self.plan.agent_ids

    async def send_lines(self) -> None:
        """Send the lines of the source. Raises BadSource and BusUnavailable."""
        number = 0
        async with aclosing(self.ports.sources.lines(self.plan.wanted)) as lines:
            async for raw in lines:
                number += 1
                await self.take(number, raw)
        await self.settle()

    async def clear_the_way(self) -> None:
        """Delete the agents that are replaced, and wait until what goes with them is gone. What an
        earlier attempt of this import has made stays."""
        plan, queries = self.plan, self.ports.queries
        if self.begins_at.lines or self.continues or not plan.decision.keeps_ids:
            return  # that was done when the first line was sent, or nothing is in the way
        agents = plan.checks.agent_ids
        own = [each for each in plan.checks.own if each.startswith(HISTORIES_OF)]
        ours = await queries.begun_by(plan.wanted.import_id, [*agents, *own])
        for agent_id in plan.decision.replaced:
            if agent_id not in ours:
                await self.delete(agent_id)
        left = {*agents, *own} - plan.decision.present - ours
        await self.wait_until_gone(sorted(left), [each for each in agents if each not in ours])
        archives = sorted(plan.checks.archives - plan.decision.present - ours)
        for archive_id in await queries.deleted_archives(plan.wanted.org, archives):
            await self.empty(archive_id)

    async def delete(self, agent_id: str) -> None:
        """Delete an agent that is replaced, if it is still there. Raises BadSource."""
        reply = await self.sender.ask(DeleteAgent(agent_id=agent_id), "replace", agent_id)
        if isinstance(reply, Rejected) and reply.code != NOT_FOUND:
            raise BadSource([EntryError(entry=agent_id, message=reply.reason)])

    async def wait_until_gone(self, things: list[str], agents: list[str]) -> None:
        """Wait until none of these things is there any more, and no schedule of these agents: they
        follow their agents. Raises BadSource, at once for what another import makes."""
        until = self.ports.clock.monotonic() + GONE_SECONDS_MAX
        before = {*things}
        while left := await self.left_of(things, agents):
            coming = await self.ports.queries.coming(self.plan.wanted.import_id, sorted(left))
            coming |= (left & {*things}) - before
            if coming:
                words = "another import makes it at the same time: wait for its end"
                errors = [EntryError(entry=each, message=words) for each in sorted(coming)]
                raise BadSource(errors, conflict=True)
            if self.ports.clock.monotonic() > until:
                words = "it should have gone with its agent, and is still there: delete it"
                raise BadSource([EntryError(entry=left_id, message=words) for left_id in left])
            before = left
            await self.ports.clock.sleep(GONE_LOOK_SECONDS)

    async def left_of(self, things: list[str], agents: list[str]) -> set[str]:
        """Which of these things and schedules are there, but not from this import."""
        queries, wanted = self.ports.queries, self.plan.wanted
        left = await queries.present(things)
        left -= await queries.begun_by(wanted.import_id, sorted(left))
        return left | await queries.schedules_of(wanted.org, agents)

    async def empty(self, archive_id: str) -> None:
        """Remove what a deleted archive has left: its passages are about to come again."""
        while True:
            reply = await self.sender.ask(EmptyArchive(archive_id=archive_id))
            if isinstance(reply, Rejected) or not reply.result.get("removed"):
                return

    async def take(self, number: int, raw: bytes) -> None:
        """Transfer a line; of those that were transferred before, only what others refer to."""
        try:
            line = await self.read(raw)
        except ValidationError as invalid:
            raise BadSource.at_line(number, str(invalid)) from None
        match line:
            case Definition():
                await self.settle()
                await self.definitions.take(number, line)
            case HistoryPart():
                events = self.place.events + len(line.history.events)
                if number > self.begins_at.lines:
                    await self.take_history(number, line, len(raw))
                self.place = ImportCounts(lines=number, events=events)
            case FileText():
                await self.settle()
                if number > self.begins_at.lines or self.continues:
                    await self.take_file(number, line)
            case _:
                pass
        if not isinstance(line, HistoryPart):
            self.place = ImportCounts(lines=number, events=self.place.events)
        await asyncio.sleep(0)

    async def read(self, raw: bytes) -> AnyLine:
        """A line with the ids that things get here. Raises ValidationError."""

        def mapped() -> AnyLine:
            return LINE.validate_json(self.plan.ids.apply(raw))

        return await asyncio.to_thread(mapped) if len(raw) > LINE_AT_ONCE_BYTES_MAX else mapped()

    async def take_file(self, number: int, part: FileText) -> None:
        """Take a part of a file; one that is refused is left out where the import goes on with what
        was begun. Raises BadSource."""
        try:
            await self.files.take(number, part)
        except BadSource as refused:
            if not self.continues:
                raise
            self.definitions.leave_out(part.file_id, refused)

    async def take_history(self, number: int, part: HistoryPart, size: int) -> None:
        """Add the events of a history, in a line of so many bytes, to what is sent next."""
        if self.is_present(part):
            return
        history = (
            self.history_without_words(part)
            if self.plan.wanted.options.strip_messages
            else part.history
        )
        if part.service == "agent" and history.aggregate_id in self.guarded:
            added = [await self.approvals.add(event) for event in history.events]
            history = history.model_copy(update={"events": tuple(added)})
        if not self.continues and history.aggregate_id in self.plan.agent_ids:
            own = self.own_blocks
            events = tuple(with_own_blocks(event, own) for event in history.events)
            history = history.model_copy(update={"events": events})
        if size <= APPENDED_BYTES_MAX and len(history.events) <= APPENDED_EVENTS_MAX:
            await self.enqueue(part.service, history, number, size)
            return
        begin = held = 0
        for index, event in enumerate(history.events):
            size = len(to_json(event))
            is_full = held + size > APPENDED_BYTES_MAX or index - begin >= APPENDED_EVENTS_MAX
            if is_full and index > begin:
                await self.enqueue(part.service, events_of(history, begin, index), number, held)
                begin, held = index, 0
                await asyncio.sleep(0)
            held += size
        rest = events_of(history, begin, len(history.events))
        await self.enqueue(part.service, rest, number, held)

    async def enqueue(self, service: str, history: PastHistory, line: int, size: int) -> None:
        """Add events to what is sent next, or send that first where they do not fit."""
        if self.batch is not None and not (
            self.batch.service == service and self.batch.fits(size, len(history.events))
        ):
            await self.flush()
        if self.batch is None:
            self.batch = Batch(service, line)
        self.batch.add(history, size)

    def history_without_words(self, part: HistoryPart) -> PastHistory:
        """A history without what was said: of an agent's own conversation the system message."""
        history = part.history
        is_conversation = (
            part.service == "agent" and history.aggregate_id not in self.plan.agent_ids
        )
        if not is_conversation or self.plan.wanted.source.form == "letta":
            return history
        is_own = history.aggregate_id in map(main_conversation, self.plan.agent_ids)
        kept = history.events[:1] if is_own and history.first_version == 1 else ()
        return history.model_copy(update={"events": kept, "complete": True})

    def is_present(self, part: HistoryPart) -> bool:
        """Whether a history is that of something which is used as it is there."""
        if self.continues:
            return False
        present = self.plan.decision.present
        if part.history.aggregate_id in present:
            return True
        first = part.history.events[0] if part.history.events else None
        return (
            first is not None
            and first.topic == PASSAGE_TOPIC
            and first.payload.get("archive_id") in present
        )

    async def settle(self) -> None:
        """Send what was gathered, and wait until all is there."""
        await self.flush()
        await self.arrive()

    async def flush(self) -> None:
        """Begin to send what was gathered, when what was sent before is there: the next is read
        meanwhile."""
        batch, self.batch = self.batch, None
        await self.arrive()
        if batch is not None:
            self.in_flight = asyncio.create_task(self.send(batch, self.place))

    async def arrive(self) -> None:
        """Wait until what was sent is there."""
        sent = self.in_flight
        if sent is not None:
            await sent
            self.in_flight = None

    async def send(self, batch: Batch, place: ImportCounts) -> None:
        """Send events, and say how far that is: all lines before this place are there then."""
        command = append_command(batch.service)(
            import_id=self.plan.wanted.import_id,
            histories=tuple(batch.histories),
            continues=self.continues,
        )
        entry = f"line {batch.line}"
        # Its name follows from what is in it: an attempt that began elsewhere makes other parts.
        digest = sha256(command.model_dump_json().encode()).hexdigest()
        await self.sender.send(command, entry, "append", batch.service, digest)
        failpoints.reach(f"import.after_{batch.service}")
        now = self.ports.clock.monotonic()
        if now - self.reported_at >= PROGRESS_SECONDS and place.lines > self.begins_at.lines:
            self.reported_at = now
            await self.on_progress(place)


def with_own_blocks(event: PastEvent, own: Set[str]) -> PastEvent:
    """An event of an agent, whose own blocks are those that came with it: others that it names are
    not deleted with it."""
    named = event.payload.get("own_block_ids")
    if not isinstance(named, list):
        return event
    kept = [block_id for block_id in named if block_id in own]
    return event.model_copy(update={"payload": {**event.payload, "own_block_ids": kept}})


def events_of(history: PastHistory, begin: int, end: int) -> PastHistory:
    """A part of a history: its events from `begin` to before `end`."""
    return PastHistory(
        aggregate_id=history.aggregate_id,
        first_version=history.first_version + begin,
        complete=history.complete and end == len(history.events),
        events=history.events[begin:end],
    )
