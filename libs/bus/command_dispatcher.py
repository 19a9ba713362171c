"""The shell around the command handlers of a service: load, decide, save, reply; exactly once.

A handler only decides. The shell commits what it decided together with the reply, decides again
when somebody else wrote first, and gives a message that comes twice the answer it got before. The
first decision is made on what is cached, if it can be: the commit says whether that was current.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from libs.bus.json_logs import correlation
from libs.bus.ports import IncomingCommand
from libs.contracts.bus_messages import (
    COMMANDS,
    CONFLICT,
    KEY_REUSED,
    REPLY,
    Accepted,
    Command,
    Context,
    NewerVersion,
    Rejected,
    other_request,
)
from libs.eventstore import failpoints
from libs.eventstore.ports import DuplicateMessage, VersionConflict
from libs.eventstore.unit_of_work import Repository, TakenElsewhere, UnitOfWork

DECISIONS_MAX = 20

Handler = Callable[[Any, UnitOfWork], Awaitable[Accepted | Rejected]]


class UnknownCommand(NewerVersion):
    """A command, or a version of one, that this process does not know."""


class TooManyConflicts(Exception):
    """Somebody else wrote first each time; the command will be delivered again."""


class CommandDispatcher:
    """Answers the commands of one service with a table of handlers."""

    def __init__(self, repository: Repository, handlers: Mapping[type[Command], Handler]) -> None:
        self.repository = repository
        self.handlers = handlers

    async def answer(self, incoming: IncomingCommand) -> Accepted | Rejected:
        """The reply to a command, after everything it decided is durable. Raises NewerVersion for
        what only a newer process can read or decide, and any other exception for a bug."""
        correlation.set(incoming.context.correlation_id)
        kind = COMMANDS.get(incoming.name)
        if kind is None or kind not in self.handlers:
            raise UnknownCommand(incoming.name)
        if incoming.schema_version > kind.schema_version:
            raise UnknownCommand(f"{incoming.name} version {incoming.schema_version}")
        failpoints.reach_with(f"command.{incoming.name}", incoming.payload.decode)
        command = kind.model_validate_json(incoming.payload)
        for decision in range(DECISIONS_MAX):
            work = self.repository.work(incoming.context, trusting=decision == 0)
            try:
                reply = await self.handlers[kind](command, work)
                if isinstance(reply, Rejected) and work.unverified:
                    continue
                if isinstance(reply, Rejected):
                    return await self.earlier_answer(incoming.context) or reply
                if kind.keeps_reply:
                    await work.commit(reply=reply)
            except VersionConflict:
                continue
            except TakenElsewhere as taken:
                return Rejected(code=CONFLICT, reason=f"The id {taken} is taken: use another")
            except DuplicateMessage as seen:
                return same_request(REPLY.validate_json(seen.reply_json), incoming.context)
            finally:
                await work.release()
            return reply
        raise TooManyConflicts(f"{incoming.name} {command.target}")

    async def earlier_answer(self, context: Context) -> Accepted | Rejected | None:
        """The message's reply from when it took effect, if this is not its first delivery."""
        stored = await self.repository.store.stored_reply(context.message_id)
        return same_request(REPLY.validate_json(stored), context) if stored else None


def same_request(earlier: Accepted | Rejected, context: Context) -> Accepted | Rejected:
    """The earlier answer to a message of this name, unless a client has given the name to two
    different requests."""
    asked = context.fingerprint
    first = earlier.fingerprint if isinstance(earlier, Accepted) else ""
    return KEY_REUSED if other_request(asked, first) else earlier
