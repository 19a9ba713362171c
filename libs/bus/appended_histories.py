"""Append what happened elsewhere to the log of a service: the handlers of `AppendHistories` and of
`UndoAppendedHistories`, for the aggregates that the service names.

Nothing is believed: each event is decoded as today's class reads it, and folded. What the events
make of an aggregate is then checked by the service, so that nothing can be imported that no command
could have made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from libs.bus.command_dispatcher import Handler
from libs.bus.fair_semaphore import FairSemaphore
from libs.bus.pauses import with_pauses
from libs.bus.ports import Clock
from libs.contracts.appended_histories import (
    APPENDED_EVENTS_MAX,
    AppendHistories,
    PastEvent,
    PastHistory,
    UndoAppendedHistories,
    append_command,
    is_fit_id,
    undo_command,
)
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import (
    CONFLICT,
    UNPROCESSABLE,
    Accepted,
    Command,
    Event,
    Rejected,
)
from libs.eventstore.event_decoding import UnknownEvent, event_of
from libs.eventstore.ports import IMPORT, StoredEvent
from libs.eventstore.row_claims import claims_of
from libs.eventstore.unit_of_work import UnitOfWork

UNDONE_AGGREGATES_MAX = 200  # in one commit
# Commands that a process appends at a time; the others wait in line.
APPENDS_AT_ONCE_MAX = 1


def keep_as_it_came(event: Event) -> Event:
    """The event as it came."""
    return event


@dataclass(frozen=True, slots=True)
class Appendable[A: Aggregate[Any]]:
    """A kind of aggregate whose history may come from outside.

    `begins_with` are the events that such a history begins with, `events` all that may be in it.
    `check` says what is wrong with the aggregate after all its events, if anything is. `delete`
    records the event that ends it. `as_recorded` leaves out of an event what must not have effects
    here.
    """

    kind: type[A]
    begins_with: tuple[type[Event], ...]
    events: tuple[type[Event], ...]
    check: Callable[[A, UnitOfWork], Awaitable[str | None]]
    delete: Callable[[A, datetime], object]
    as_recorded: Callable[[Event], Event] = keep_as_it_came


class HistoryHandlers:
    """The handlers of the commands that append histories to a service and take them back."""

    def __init__(self, service: str, appendable: Sequence[Appendable[Any]], clock: Clock) -> None:
        self.service = service
        self.clock = clock
        self.places = FairSemaphore(
            APPENDS_AT_ONCE_MAX,
            of_organisation_max=APPENDS_AT_ONCE_MAX,
            users="imports",
            thing="place",
        )
        self.by_topic = {event.topic: each for each in appendable for event in each.events}
        self.by_first_topic = {
            event.topic: each for each in appendable for event in each.begins_with
        }

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {append_command(self.service): self.append, undo_command(self.service): self.undo}

    async def append(self, command: AppendHistories, work: UnitOfWork) -> Accepted | Rejected:
        """Append all of it, or say which event of which history is at fault."""
        count = sum(len(history.events) for history in command.histories)
        if count > APPENDED_EVENTS_MAX:
            words = f"`histories` has {count} events: send at most {APPENDED_EVENTS_MAX} at once"
            return unprocessable(words)
        await work.hold(self.places.hold(work.context.org))
        work.import_id = command.import_id
        work.continues_import = command.continues
        appended = 0
        for history in command.histories:
            outcome = await self.append_one(history, command, work)
            if isinstance(outcome, Rejected):
                return outcome
            appended += outcome
        refused = await self.refuse_rows_of_others(work)
        return refused or Accepted(result={"appended": appended})

    async def refuse_rows_of_others(self, work: UnitOfWork) -> Rejected | None:
        """The refusal of events that would write rows of other aggregates: messages, runs and steps
        have ids of their own, and a file may name those of anybody. A process edge, as `fold` is:
        what no row can show is the file's fault."""
        claimed: dict[str, str] = {}
        for aggregate in work.loaded.values():
            events: list[Any] = aggregate.pending_events
            try:
                rows = work.project(aggregate.id, events)
                claims = claims_of(aggregate.id, rows)
            except Exception as impossible:
                what = impossible or type(impossible).__name__
                return unprocessable(f"{aggregate.id}: it cannot be shown: {what}")
            taken = await claims.of_others(work.repository.store)
            for values in claims.values.values():
                taken += [
                    value
                    for value in values
                    if claimed.setdefault(value, aggregate.id) != aggregate.id
                ]
            if taken:
                reason = f"{aggregate.id}: {taken[0]} is the id of something else"
                return Rejected(code=CONFLICT, reason=reason)
        return None

    async def append_one(
        self, history: PastHistory, command: AppendHistories, work: UnitOfWork
    ) -> int | Rejected:
        """Append one history; returns how many of its events were not there yet."""
        name = history.aggregate_id
        kind = self.by_topic.get(history.events[0].topic) if history.events else None
        if not is_fit_id(name):
            return unprocessable(f"`{name[:100]}` is no id")
        if kind is None:
            return unprocessable(f"The history of {name} does not begin with an event of its kind")
        aggregate = await work.load(kind.kind, name)
        before = await self.versions_before(aggregate, command, work)
        if isinstance(before, Rejected):
            return before
        known = aggregate.version - before + 1 - history.first_version
        if known < 0:
            return Rejected(
                code=CONFLICT,
                reason=f"{name} is at version {aggregate.version - before}, and the history begins"
                f" with {history.first_version}",
            )
        # Those that came before are looked at where somebody else may have written them: between
        # two commands of one import nobody writes more than a few.
        in_doubt_max = known if command.continues else APPENDED_EVENTS_MAX
        if 0 < known <= in_doubt_max and not await self.has_imported(history, before, work):
            return Rejected(
                code=CONFLICT,
                reason=f"{name} went on by itself since it was imported: leave it out",
            )
        async for past in with_pauses(history.events[known:]):
            problem = self.fold(past, aggregate, kind, work)
            if problem:
                return unprocessable(f"{name}, event {aggregate.version + 1}: {problem}")
        problem = await kind.check(aggregate, work) if history.complete else None
        return (
            unprocessable(f"{name}: {problem}") if problem else max(len(history.events) - known, 0)
        )

    async def has_imported(self, history: PastHistory, before: int, work: UnitOfWork) -> bool:
        """Whether what stands in the place of a history was imported, by this import or by one that
        was given up: such events need not be appended again, others are not those of the history.
        """
        behind = before + history.first_version - 1
        stored = await work.repository.store.load(history.aggregate_id, behind)
        return all(IMPORT in event.metadata for event in stored.events[: len(history.events)])

    async def versions_before(
        self, aggregate: Aggregate[Any], command: AppendHistories, work: UnitOfWork
    ) -> int | Rejected:
        """The number of an aggregate's events before the history that is appended began: none,
        unless it was deleted since. Refused for one that is there, and not by this import."""
        if not aggregate.exists:
            return 0
        begun = await work.repository.store.import_of(aggregate.id)
        is_ours = begun is not None and begun.import_id == command.import_id
        if aggregate.deleted and is_ours:
            return Rejected(code=CONFLICT, reason=f"{aggregate.id} was imported and deleted again")
        if aggregate.deleted:
            return aggregate.version
        if not is_ours and not command.continues:
            return Rejected(code=CONFLICT, reason=f"{aggregate.id} exists already")
        return begun.version - 1 if begun is not None else 0

    def fold(
        self, past: PastEvent, aggregate: Aggregate[Any], kind: Appendable[Any], work: UnitOfWork
    ) -> str | None:
        """Let one event happen to an aggregate; what is wrong with it, if anything is. A process
        edge: whatever folding raises, the file is at fault."""
        if self.by_topic.get(past.topic) is not kind:
            return f"`{past.topic}` is no event of its kind"
        begins = not aggregate.exists or aggregate.deleted
        if begins and past.topic not in self.by_first_topic:
            return f"`{past.topic}` is no first event"
        stored = StoredEvent(
            aggregate.id,
            aggregate.version + 1,
            past.topic,
            past.schema_version,
            work.context.org,
            aggregate.id,
            "",
            {},
            past.occurred_at,
        )
        try:
            event = event_of(self.service, stored, past.payload)
            if not is_fit_id(event.about):
                return f"`{event.about[:100]}` is no id"
            aggregate.append_past(kind.as_recorded(event))
        except UnknownEvent as unknown:
            return f"{unknown} is not known: it was written by a newer release"
        except ValidationError as invalid:
            first = invalid.errors(include_url=False)[0]
            return f"`{'.'.join(map(str, first['loc']))}`: {first['msg']}"
        except Exception as impossible:
            return f"it cannot have happened: {impossible or type(impossible).__name__}"
        if begins:
            work.begins.add((aggregate.id, aggregate.version))
        return None

    async def undo(self, command: UndoAppendedHistories, work: UnitOfWork) -> Accepted:
        """Delete the next aggregates that the import began."""
        begun = await work.repository.store.begun_by_import(
            command.import_id, command.after, UNDONE_AGGREGATES_MAX
        )
        for aggregate_id, topic in begun:
            kind = self.by_first_topic.get(topic)
            if kind is None:
                continue
            aggregate = await work.load(kind.kind, aggregate_id)
            latest = await work.repository.store.import_of(aggregate_id)
            is_ours = latest is not None and latest.import_id == command.import_id
            if aggregate.exists and not aggregate.deleted and is_ours:
                kind.delete(aggregate, self.clock.now())
        is_last = len(begun) < UNDONE_AGGREGATES_MAX
        return Accepted(result={"after": "" if is_last else begun[-1][0]})


def unprocessable(reason: str) -> Rejected:
    """The refusal of a history."""
    return Rejected(code=UNPROCESSABLE, reason=reason)
