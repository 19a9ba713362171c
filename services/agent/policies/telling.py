"""Tell whoever follows a run what happens in it: numbered, and waited for by nobody."""

from __future__ import annotations

import json

from libs.bus.ports import Bus
from libs.contracts.conversation import MessageAppended, RunCompleted, RunFailed, RunStarted
from libs.contracts.message import Event, JsonObject, delta_subject
from libs.contracts.served import served_messages
from libs.contracts.told import OPENING_NUMBER
from services.agent.projections import ended_fields, error_of

DELTA_BYTES_MAX = 512 * 1024


class RunTeller:
    """Tells of the runs of one conversation. `told` is the last number that was used.

    A delta says which number it comes `after`: who knows that one has missed nothing. That is the
    number before, unless a step was taken over and what was told of the first attempt is void.
    """

    def __init__(self, bus: Bus, org: str) -> None:
        self.bus = bus
        self.org = org
        self.told = OPENING_NUMBER

    async def recorded(self, event: Event) -> None:
        """Tell what was just recorded, unless its pieces have been told already."""
        match event:
            case MessageAppended(run_id=str(run_id), sent=False, number=int(number)):
                if event.pieces is None:
                    self.told = number - 1
                    for doc in served_messages(event.message, run_id=run_id, step_id=event.step_id):
                        await self.next(run_id, {"message": doc})
                else:
                    self.told = number + len(event.pieces) - 1
                    await self.recorded_pieces(run_id, self.told)
            case RunCompleted():
                await self.next(event.run_id, {"end": ended_fields(event)})
            case RunFailed():
                end = {**ended_fields(event), "error": error_of(event)}
                await self.next(event.run_id, {"end": end})
            case RunStarted():
                self.told = OPENING_NUMBER
            case _:
                pass

    async def piece(self, run_id: str, doc: JsonObject, *, after: int | None = None) -> None:
        """Tell a piece of a message that is not recorded yet."""
        await self.next(run_id, {"piece": doc}, verb="token", after=after)

    async def next(
        self, run_id: str, what: JsonObject, *, verb: str = "progress", after: int | None = None
    ) -> None:
        """Tell something under the next number. What is too large for the bus is read from the
        rows: at once if it is recorded, else when its step is, as any gap among tokens."""
        delta = {"number": self.told + 1, "after": self.told if after is None else after, **what}
        self.told += 1
        payload = json.dumps(delta).encode()
        if len(payload) > DELTA_BYTES_MAX:
            await self.look(run_id, self.told)
        else:
            await self.publish(verb, run_id, payload)

    async def look(self, run_id: str, number: int) -> None:
        """Bid the followers of a run to look at its rows, unless they know up to this number."""
        await self.publish("progress", run_id, json.dumps({"look": number}).encode())

    async def recorded_pieces(self, run_id: str, number: int) -> None:
        """The same, where the bus has kept the pieces of what is recorded: it need not any more."""
        subject = delta_subject("agent", "run", "token", self.org, run_id)
        payload = json.dumps({"look": number}).encode()
        await self.bus.publish_delta(subject, payload, replaces_kept=True)

    async def publish(self, verb: str, run_id: str, payload: bytes) -> None:
        """Send a delta of a run."""
        await self.bus.publish_delta(delta_subject("agent", "run", verb, self.org, run_id), payload)
