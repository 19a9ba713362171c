"""Commands to the agent service: load, decide, save, reply."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Protocol

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import Bus, BusUnavailable, Clock, Ids, fresh_ids, request_as_service
from libs.bus.unknown_version_backoff import log_once
from libs.contracts.agent import AttachBlock, CreateAgent, DeleteAgent, DetachBlock, UpdateAgent
from libs.contracts.bus_messages import (
    INVALID,
    KEY_REUSED,
    NOT_FOUND,
    Accepted,
    Command,
    Context,
    NewerVersion,
    Rejected,
)
from libs.contracts.conversation import (
    CancelRuns,
    Message,
    RunCommand,
    StartRun,
    main_conversation,
)
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta import all_request_bodies
from libs.contracts.letta.errors import InvalidArgument
from libs.contracts.letta.model_requests import EmbeddingConfig, LLMConfig
from libs.contracts.memory import CreateBlocks
from libs.eventstore import failpoints
from libs.eventstore.ports import VersionConflict
from libs.eventstore.unit_of_work import Repository, UnitOfWork
from services.agent.adapters.all_queries import Queries
from services.agent.domain.agent import Agent, AgentDesign, missing
from services.agent.domain.agent_configuration import Facts, created_design, updated_design
from services.agent.domain.conversation import Conversation
from services.agent.domain.conversation_state import overtaken_by
from services.agent.domain.model_context import first_version, system_prompt
from services.agent.domain.tool_rules import rules_in_force
from services.agent.engine.run_scheduling import RunEngine

log = logging.getLogger(__name__)

RETRY_MEANS_SAME_SECONDS = 600
CREATION_SECONDS_MAX = 15


class Handles(Protocol):
    """Which models there are."""

    async def llm(self, handle: str) -> LLMConfig | Rejected:
        """The config of a language model."""
        ...

    async def embedding(self, handle: str) -> EmbeddingConfig | Rejected:
        """The config of an embedding model."""
        ...

    async def refusal(self, config: LLMConfig) -> Rejected | None:
        """Why nobody could answer for a model config, if so."""
        ...


class Handlers:
    """What the agent service does when it is told to."""

    def __init__(
        self,
        repository: Repository,
        handles: Handles,
        queries: Queries,
        bus: Bus,
        engine: RunEngine,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self.repository = repository
        self.handles = handles
        self.queries = queries
        self.bus = bus
        self.engine = engine
        self.clock = clock
        self.ids = ids
        self.unfinished_since: dict[str, float] = {}  # when each creation was first seen

    def table(self) -> Mapping[type[Command], Handler]:
        """Which command goes where."""
        return {
            CreateAgent: self.create_agent,
            UpdateAgent: self.update_agent,
            DeleteAgent: self.delete_agent,
            AttachBlock: self.attach_block,
            DetachBlock: self.detach_block,
            StartRun: self.start_run,
            CancelRuns: self.cancel_runs,
        }

    # Runs

    async def start_run(self, command: StartRun, work: UnitOfWork) -> Accepted | Rejected:
        """Accept messages, and begin an attempt at the run if it is active."""
        agent, conversation = await asyncio.gather(
            work.load(Agent, command.agent_id),
            work.load(Conversation, command.conversation),
        )
        # The two are read side by side: the agent may be deleted between.
        if agent.design is None:
            return missing(agent.id)
        if not conversation.is_of(agent.id):
            return missing_conversation(command)
        if command.retry:
            # Looked for after the conversation is read: a try that is accepted from here on is a
            # conflict, and this is decided again. Both times are the api's: the clock of this
            # process may be hours off.
            since = command.run.created_at - timedelta(seconds=RETRY_MEANS_SAME_SECONDS)
            earlier = await self.queries.latest_run(
                work.context.org,
                command.agent_id,
                conversation.id,
                command.request_hash,
                since,
                command.earlier_runs,
            )
            if earlier:
                return started(earlier, command.request_hash)
        earliest, latest = asked_between(command, work.context)
        overtaken = overtaken_by(conversation.state, command.request_hash, earliest)
        if overtaken:
            return started(overtaken, command.request_hash)
        config = agent.design.config
        refused = conversation.accept(
            command,
            config.agent_type,
            tool_rules=rules_in_force(config.tool_rules, agent.design.tools),
            asked_at=latest,
            at=self.clock.now(),
        )
        if refused:
            return refused
        if conversation.running().run.id == command.run.id:
            work.take_lease = conversation.id
            fresh = self.engine.look(agent.design, conversation)
            work.after_commit.append(
                lambda epoch: self.engine.begin(conversation.id, epoch, work.context, fresh)
            )
        return started(command.run.id, command.request_hash)

    async def cancel_runs(self, command: CancelRuns, work: UnitOfWork) -> Accepted | Rejected:
        """End runs at once, wherever they stand; who drives one of them is told."""
        conversation = await work.load(Conversation, command.conversation)
        if not conversation.exists or not conversation.is_of(command.agent_id):
            return missing_conversation(command)
        fresh = fresh_ids(self.ids, "message")
        outcome = conversation.cancel(command, message_ids=fresh, at=self.clock.now())
        if isinstance(outcome, Rejected):
            return outcome
        gone = [run_id for run_id, status in outcome.items() if status == "cancelled"]
        work.after_commit.append(
            lambda _: self.engine.cancelled(conversation.id, gone, work.context)
        )
        return Accepted(result={**outcome})

    # Agents

    async def create_agent(self, command: CreateAgent, work: UnitOfWork) -> Accepted | Rejected:
        """Make an agent. Its own blocks come first; if it does not come after them, because this
        process died, they are deleted again (`UndoUnfinishedCreations`)."""
        agent = await work.load_new(Agent, command.agent_id)
        if agent.asked_otherwise(work.context.fingerprint):
            return KEY_REUSED
        if agent.design is not None:
            return Accepted(result={"agent_id": agent.id})
        if agent.state.refused is not None:
            return agent.state.refused
        asked = all_request_bodies.CreateAgent.model_validate(command.request)
        design = agent.requested or await self.design(agent.id, asked, work.context)
        if isinstance(design, Rejected):
            return design
        refused = await self.make_blocks(agent, design, work.context)
        if refused:
            return refused
        # Another process may have created it from a copy of this command: then there are messages.
        await work.hold(self.engine.ports.locks.hold(main_conversation(agent.id)))
        return await self.finish_creation(agent, design, work)

    async def design(
        self, agent_id: str, request: all_request_bodies.CreateAgent, context: Context
    ) -> AgentDesign | Rejected:
        """What the agent is to be."""
        facts = await self.facts(request, context, request.block_ids or [])
        if isinstance(facts, Rejected):
            return facts
        try:
            return created_design(agent_id, request, facts)
        except InvalidArgument as invalid:
            return Rejected(code=INVALID, reason=str(invalid.body["detail"]))

    async def facts(
        self,
        request: all_request_bodies.CreateAgent | all_request_bodies.UpdateAgent,
        context: Context,
        block_ids: list[str],
    ) -> Facts | Rejected:
        """What a design depends on, looked up."""
        llm = await self.handles.llm(request.model) if request.model is not None else None
        if isinstance(llm, Rejected):
            return llm
        embedding = await self.handles.embedding(request.embedding) if request.embedding else None
        if isinstance(embedding, Rejected):
            return embedding
        unroutable = await self.handles.refusal(request.llm_config) if request.llm_config else None
        if unroutable:
            return unroutable
        labels = await self.queries.labels(context.org, block_ids) if block_ids else {}
        return Facts(llm, embedding, labels, context.actor, self.clock.now())

    async def make_blocks(
        self, agent: Agent, design: AgentDesign, context: Context
    ) -> Rejected | None:
        """Have the memory service make the agent's own blocks; where it refuses, there is no
        agent. Two requests for one agent are two commands: the one does not get what the other
        asked for."""
        if not design.new_blocks:
            return None
        request = [context.fingerprint] if context.fingerprint and not agent.requested else []
        cause = context.caused(derived_id("cmd", agent.id, "blocks", *request))
        command = CreateBlocks(blocks=design.new_blocks, agent_id=agent.id)
        reply = await request_as_service(self.bus, command, cause)
        if isinstance(reply, Accepted):
            failpoints.reached("after_blocks")
            return None
        if agent.requested:
            agent.abandon(reply, at=self.clock.now())
            await self.commit_now(agent, context)
        return reply

    async def finish_creation(
        self, agent: Agent, design: AgentDesign, work: UnitOfWork
    ) -> Accepted | Rejected:
        """The blocks are there: so is the agent, with its conversation."""
        now = self.clock.now()
        refused = agent.create(design, at=now)
        if refused:
            return refused
        conversation = await work.load_new(Conversation, main_conversation(agent.id))
        blocks = [first_version(block) for block in design.new_blocks]
        if design.block_ids:
            blocks += await self.queries.seen_blocks(work.context.org, design.block_ids)
        prompt = system_prompt(design.config, blocks, previous_messages=0, at=now)
        system = Message(
            id=self.ids.new("message"), role="system", content=prompt.content, created_at=now
        )
        conversation.begin(agent.id, system, prompt.shows, at=now)
        for message in design.first_messages:
            conversation.append(message, at=now)
        return Accepted(result={"agent_id": agent.id})

    async def commit_now(self, agent: Agent, context: Context) -> None:
        """Make what happened to an agent durable before the command is answered."""
        work = self.repository.work(context)
        work.adopt(agent)
        await work.commit()

    async def sweep_creations(self) -> None:
        """Finish the agents that an older release has recorded as requested before it was
        interrupted: those that are seen to be unfinished for a while, as the clock counts that
        nobody sets. When they were asked for is no help, since
        whoever wrote that down may have had a wrong clock."""
        now = self.clock.monotonic()
        unfinished = await self.queries.unfinished_creations()
        known = self.unfinished_since
        self.unfinished_since = {one.id: known.get(one.id, now) for one in unfinished}
        for orphan in unfinished:
            if now - self.unfinished_since[orphan.id] < CREATION_SECONDS_MAX:
                continue
            context = Context(self.ids.new("sweep"), org=orphan.org, actor=orphan.actor)
            try:
                locks = self.engine.ports.locks
                async with locks.hold(orphan.id), locks.hold(main_conversation(orphan.id)):
                    await self.resume_creation(orphan.id, context)
            except NewerVersion as unknown:
                log_once(unknown)
            except (BusUnavailable, VersionConflict) as problem:
                log.warning("agent %s is not finished yet: %s", orphan.id, problem)

    async def resume_creation(self, agent_id: str, context: Context) -> None:
        """Make the blocks, if they are not there, and then the agent."""
        work = self.repository.work(context)
        agent = await work.load(Agent, agent_id)
        design = agent.requested
        if design is None or await self.make_blocks(agent, design, context):
            return
        if isinstance(await self.finish_creation(agent, design, work), Accepted):
            await work.commit()

    async def update_agent(self, command: UpdateAgent, work: UnitOfWork) -> Accepted | Rejected:
        """Change the fields that the request sets."""
        agent = await work.load(Agent, command.agent_id)
        if agent.design is None:
            return missing(agent.id)
        request = all_request_bodies.UpdateAgent.model_validate(command.request)
        if not request.model_fields_set:
            return Accepted()
        facts = await self.facts(request, work.context, request.block_ids or [])
        if isinstance(facts, Rejected):
            return facts
        try:
            updated = updated_design(agent.design, request, facts)
        except InvalidArgument as invalid:
            return Rejected(code=INVALID, reason=str(invalid.body["detail"]))
        if isinstance(updated, Rejected):
            return updated
        changed, design = updated
        return agent.update(changed, design, at=self.clock.now()) or Accepted()

    async def delete_agent(self, command: DeleteAgent, work: UnitOfWork) -> Accepted | Rejected:
        """Remove an agent with its conversation and its runs."""
        await work.hold(self.engine.ports.locks.hold(main_conversation(command.agent_id)))
        agent = await work.load(Agent, command.agent_id)
        refused = agent.delete(at=self.clock.now())
        if refused:
            return refused
        conversation = await work.load(Conversation, main_conversation(agent.id))
        conversation.delete(at=self.clock.now())
        return Accepted()

    async def attach_block(self, command: AttachBlock, work: UnitOfWork) -> Accepted | Rejected:
        """Show a block to an agent."""
        agent = await work.load(Agent, command.agent_id)
        if agent.design is None:
            return missing(agent.id)
        labels = await self.queries.labels(
            work.context.org, [*agent.design.block_ids, command.block_id]
        )
        return agent.attach(command.block_id, labels, at=self.clock.now()) or Accepted()

    async def detach_block(self, command: DetachBlock, work: UnitOfWork) -> Accepted | Rejected:
        """Show a block to an agent no more."""
        agent = await work.load(Agent, command.agent_id)
        return agent.detach(command.block_id, at=self.clock.now()) or Accepted()


def missing_conversation(command: RunCommand) -> Rejected:
    """The refusal for a conversation that the agent does not have; its own goes with the agent."""
    if command.conversation == main_conversation(command.agent_id):
        return missing(command.agent_id)
    reason = f"Conversation with ID {command.conversation} not found"
    return Rejected(code=NOT_FOUND, reason=reason)


def asked_between(command: StartRun, context: Context) -> tuple[datetime, datetime]:
    """When this try was made, at the earliest and at the latest. The api's clock may be wrong, and
    what it sent may have been held up on its way to the clock of the bus."""
    by_api = command.run.created_at
    by_bus = datetime.fromisoformat(context.sent_at) if context.sent_at else by_api
    return min(by_api, by_bus), max(by_api, by_bus)


def started(run_id: str, request_hash: str) -> Accepted:
    """The reply to StartRun: which run answers, and which request it answers."""
    return Accepted(result={"run_id": run_id, "request_hash": request_hash})
