"""Commands about routed messages and topics: find the agents, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import Clock
from libs.contracts.bus_messages import NOT_FOUND, Accepted, Command, Rejected
from libs.contracts.groups.routing import (
    BIDDING_PART,
    Recipients,
    RoutedRequest,
    RouteMessage,
)
from libs.contracts.groups.topics import SubscribeAgent, UnsubscribeAgent
from libs.eventstore.unit_of_work import UnitOfWork
from services.groups.adapters.recipient_queries import RecipientQueries
from services.groups.domain.routed_message import RoutedMessage
from services.groups.domain.routing.recipients import (
    CANDIDATES_MAX,
    description_of,
    unfit_request,
    without_loops,
)
from services.groups.domain.routing.strategies import STRATEGIES
from services.groups.domain.topic import Topic
from services.groups.engine.routing import RoutedMessages


class RoutingHandlers:
    """Routes messages."""

    def __init__(self, routed: RoutedMessages, queries: RecipientQueries, clock: Clock) -> None:
        self.routed = routed
        self.queries = queries
        self.clock = clock

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {RouteMessage: self.route_message}

    async def route_message(self, command: RouteMessage, work: UnitOfWork) -> Accepted | Rejected:
        """Choose the agents, and say to whom the message goes first, in one commit."""
        message = await work.load_new(RoutedMessage, command.routed_message_id)
        if message.exists:
            return Accepted(result={"routed_message_id": message.id})
        request = await self.with_callers(command, work.context.org)
        if isinstance(request, Rejected):
            return request
        refused = unfit_request(request)
        if refused:
            return refused
        stages = await self.stages(request, message.id, work.context.org)
        if isinstance(stages, Rejected):
            return stages
        now = self.clock.now()
        time_left = timedelta(seconds=command.seconds_max)
        bids_until = now + BIDDING_PART * time_left if request.pattern == "contract_net" else None
        refused = message.accept(
            request, stages, deadline_at=now + time_left, bids_until=bids_until, at=now
        )
        if refused:
            return refused
        message.follow(STRATEGIES[request.pattern].plan(message.routing(now)), at=now)
        self.routed.begin_routing(message, work)
        return Accepted(result={"routed_message_id": message.id})

    async def with_callers(self, command: RouteMessage, org: str) -> RoutedRequest | Rejected:
        """The request with the runs that led to it."""
        if not command.caller_run_id:
            return command.request
        callers = await self.queries.callers_of(org, command.caller_run_id)
        if callers is None:
            reason = f"`caller_run_id`: there is no run {command.caller_run_id}"
            return Rejected(code=NOT_FOUND, reason=reason)
        return command.request.model_copy(update={"callers": callers})

    async def stages(
        self, request: RoutedRequest, seed: str, org: str
    ) -> list[list[str]] | Rejected:
        """The agents that may get the message, by stage, the best first."""
        recipients = request.recipients
        stages: list[list[str]] = []
        for stage, wanted in enumerate(by_stage(request)):
            found = await self.find(wanted, seed, org, CANDIDATES_MAX[request.pattern])
            refused = missing_agent(request, wanted, found)
            if refused:
                return refused
            left = without_loops(found, request.callers, description_of(recipients, stage))
            if isinstance(left, Rejected):
                return left
            stages.append(left)
        return stages

    async def find(self, wanted: Recipients, seed: str, org: str, limit: int) -> list[str]:
        """The agents that a message is for, the best first, but before them the one that the client
        names."""
        queries = self.queries
        if wanted.capability:
            name, tags = wanted.capability, wanted.tags
            found = await queries.with_capability(org, name, tags, seed, limit)
        elif wanted.tags:
            found = await queries.with_tags(org, wanted.tags, seed, limit)
        elif wanted.topic:
            found = await queries.subscribers(org, wanted.topic, seed, limit)
        else:
            found = await queries.present(org, wanted.agent_ids, seed, limit)
        if wanted.first:
            first = await queries.present(org, [wanted.first], seed, 1)
            found = list(dict.fromkeys([*first, *found]))[:limit]
        return found


def by_stage(request: RoutedRequest) -> list[Recipients]:
    """The recipients of each stage; only a pipeline has several."""
    recipients = request.recipients
    if request.pattern != "pipeline":
        return [recipients]
    capabilities = [Recipients(capability=name) for name in recipients.capabilities]
    return [*capabilities, *(Recipients(agent_ids=[each]) for each in recipients.agent_ids)]


def missing_agent(request: RoutedRequest, wanted: Recipients, found: list[str]) -> Rejected | None:
    """Why a message to all agents of a list is refused: one of them is not there. One of a list to
    choose from may be missing."""
    missing = [each for each in wanted.agent_ids if each not in found]
    if not missing or request.pattern == "one":
        return None
    return Rejected(code=NOT_FOUND, reason=f"`agent_ids`: Agent with ID {missing[0]} not found")


class TopicHandlers:
    """Subscribes agents to topics."""

    def __init__(self, queries: RecipientQueries, clock: Clock) -> None:
        self.queries = queries
        self.clock = clock

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {SubscribeAgent: self.subscribe, UnsubscribeAgent: self.unsubscribe}

    async def subscribe(self, command: SubscribeAgent, work: UnitOfWork) -> Accepted | Rejected:
        """Have an agent get what is published on a topic."""
        topic = await work.load(Topic, command.topic_id)
        if not await self.queries.present(work.context.org, [command.agent_id], "", 1):
            return Rejected(code=NOT_FOUND, reason=f"Agent with ID {command.agent_id} not found")
        now = self.clock.now()
        return topic.subscribe(command.name, command.agent_id, at=now) or Accepted()

    async def unsubscribe(self, command: UnsubscribeAgent, work: UnitOfWork) -> Accepted | Rejected:
        """Have an agent get nothing more of what is published on a topic."""
        topic = await work.load(Topic, command.topic_id)
        now = self.clock.now()
        return topic.unsubscribe(command.name, command.agent_id, at=now) or Accepted()
