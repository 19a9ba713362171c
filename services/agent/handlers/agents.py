"""Commands about agents: load, decide, save, reply."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from pydantic_core import to_json

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import request_as_service
from libs.contracts.agent.agents import (
    CALLABLE_ALONE,
    AttachBlock,
    AttachTool,
    CallTool,
    CreateAgent,
    DeclareCapability,
    DeleteAgent,
    DetachBlock,
    DetachTool,
    RecordFork,
    RestoreConfiguration,
    UpdateAgent,
    WithdrawCapability,
)
from libs.contracts.agent.conversations import Message, ToolCall, main_conversation
from libs.contracts.agent.summaries import summaries_id
from libs.contracts.bus_messages import (
    INVALID,
    Accepted,
    Command,
    Context,
    Rejected,
)
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta import all_request_bodies
from libs.contracts.letta.error_bodies import InvalidArgument
from libs.contracts.memory.blocks import CreateBlocks
from libs.eventstore import failpoints
from libs.eventstore.ports import VersionConflict
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.domain.agents.agent import Agent, AgentDesign, missing
from services.agent.domain.agents.agent_capabilities import declare, withdraw
from services.agent.domain.agents.agent_configuration import (
    Facts,
    created_design,
    named_tools,
    updated_design,
)
from services.agent.domain.agents.agent_tools import attach, detach
from services.agent.domain.agents.earlier_configuration import no_version, restore_configuration
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.prompts.model_context import ShownMemory, first_version, system_prompt
from services.agent.domain.summaries.agent_summaries import AgentSummaries
from services.agent.domain.tools.custom_tools import CustomTool, custom_ids
from services.agent.handlers.conversations import delete
from services.agent.handlers.ports import HandlerPorts

# A request that was handed to the client of NATS is written within so many turns of the event loop:
# by a task of its own, and uvloop writes at the end of a turn.
TURNS_TO_SEND = 4
# Conversations that go in one commit with their agent; each is a lock and an aggregate to load.
DELETED_WITH_AGENT_MAX = 32


class AgentHandlers:
    """Makes agents, changes and deletes them, gives them tools, and calls these."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """The commands of these handlers, each with its method."""
        return {
            CreateAgent: self.create_agent,
            UpdateAgent: self.update_agent,
            DeleteAgent: self.delete_agent,
            AttachBlock: self.attach_block,
            DetachBlock: self.detach_block,
            DeclareCapability: self.declare_capability,
            WithdrawCapability: self.withdraw_capability,
            RecordFork: self.record_fork,
            AttachTool: self.attach_tool,
            CallTool: self.call_tool,
            DetachTool: self.detach_tool,
            RestoreConfiguration: self.restore_configuration,
        }

    async def create_agent(self, command: CreateAgent, work: UnitOfWork) -> Accepted | Rejected:
        """Make an agent. Its own blocks come first, and what is to be committed after them is
        worked out while they are made; if it does not come after them, because this process died,
        they are deleted again (`UndoUnfinishedCreations`)."""
        agent = await work.load_new(Agent, command.agent_id)
        if agent.design is not None:
            return Accepted(result={"agent_id": agent.id})
        if agent.state.refused is not None:
            return agent.state.refused
        asked = all_request_bodies.CreateAgent.model_validate(command.request)
        design = await self.design(agent.id, asked, work.context)
        if isinstance(design, Rejected):
            return design
        design = of_deployment(design, command.deployment_id, command.entity_id)
        try:
            async with asyncio.TaskGroup() as both:  # where one fails, the other one is ended
                blocks = both.create_task(self.make_blocks(agent, design, work.context))
                prepared = both.create_task(self.prepare_creation(agent, design, work))
        except ExceptionGroup as problems:
            raise problems.exceptions[0] from None
        return blocks.result() or prepared.result()

    async def record_fork(self, command: RecordFork, work: UnitOfWork) -> Accepted | Rejected:
        """Remember what an agent was made from, or what was made from it."""
        agent = await work.load(Agent, command.agent_id)
        return agent.record_fork(command, at=self.ports.clock.now()) or Accepted()

    async def design(
        self, agent_id: str, request: all_request_bodies.CreateAgent, context: Context
    ) -> AgentDesign | Rejected:
        """The wanted design of the agent."""
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
        """The outside facts that a design depends on, looked up."""
        handles = self.ports.handles
        llm = await handles.llm(request.model) if request.model is not None else None
        if isinstance(llm, Rejected):
            return llm
        embedding = await handles.embedding(request.embedding) if request.embedding else None
        if isinstance(embedding, Rejected):
            return embedding
        unroutable = await handles.refusal(request.llm_config) if request.llm_config else None
        if unroutable:
            return unroutable
        labels = await self.ports.queries.labels(context.org, block_ids) if block_ids else {}
        now = self.ports.clock.now()
        return Facts(
            llm, embedding, labels, context.actor, now, await self.custom_tools(request, context)
        )

    async def custom_tools(
        self,
        request: all_request_bodies.CreateAgent | all_request_bodies.UpdateAgent,
        context: Context,
    ) -> list[CustomTool]:
        """The clients' tools that a request names, by id or by name."""
        ids, names = named_tools(request)
        by_id = await self.ports.queries.custom_tools(context.org, ids) if ids else []
        if not names:
            return by_id
        return by_id + await self.ports.queries.custom_tools_named(context.org, names)

    async def make_blocks(
        self, agent: Agent, design: AgentDesign, context: Context
    ) -> Rejected | None:
        """Have the memory service make the agent's own blocks; where it refuses, there is no
        agent. Two requests for one agent are two commands: the one does not get what the other
        asked for."""
        if not design.new_blocks:
            return None
        request = [context.fingerprint] if context.fingerprint else []
        cause = context.follow_up(derived_id("cmd", agent.id, "blocks", *request))
        command = CreateBlocks(blocks=design.new_blocks, agent_id=agent.id)
        reply = await request_as_service(self.ports.bus, command, cause)
        if isinstance(reply, Accepted):
            failpoints.reach("after_blocks")
            return None
        return reply

    async def prepare_creation(
        self, agent: Agent, design: AgentDesign, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Decide as if the blocks were there, up to the commit. The request for them goes first:
        it would not be written while this works."""
        for _ in range(TURNS_TO_SEND if design.new_blocks else 0):
            await asyncio.sleep(0)
        await self.hold_conversation(agent, work)
        created = await self.finish_creation(agent, design, work)
        work.prepare()
        return created

    async def hold_conversation(self, agent: Agent, work: UnitOfWork) -> None:
        """Another process may have created the agent from a copy of this command: then there are
        messages."""
        await work.hold(self.ports.engine.ports.locks.hold(main_conversation(agent.id)))

    async def finish_creation(
        self, agent: Agent, design: AgentDesign, work: UnitOfWork
    ) -> Accepted | Rejected:
        """The blocks are there: so is the agent, with its conversation. Raises VersionConflict
        where a copy of this command was first, in another process."""
        now = self.ports.clock.now()
        refused = agent.create(design, at=now)
        if refused:
            return refused
        conversation = await work.load_new(Conversation, main_conversation(agent.id))
        if conversation.exists:  # and so does the agent, whom a run may be asking from this state
            raise VersionConflict(f"{agent.id} is there")
        blocks = [first_version(block) for block in design.new_blocks]
        if design.block_ids:
            blocks += await self.ports.queries.seen_blocks(work.context.org, design.block_ids)
        prompt = system_prompt(design.config, ShownMemory(blocks), previous_messages=0, at=now)
        system = Message(
            id=self.ports.ids.new("message"), role="system", content=prompt.content, created_at=now
        )
        conversation.begin(agent.id, system, prompt.shows, at=now)
        for message in design.first_messages:
            conversation.append(message, at=now)
        return Accepted(result={"agent_id": agent.id})

    async def update_agent(self, command: UpdateAgent, work: UnitOfWork) -> Accepted | Rejected:
        """Change the fields that the request sets."""
        agent = await work.load(Agent, command.agent_id)
        if agent.design is None:
            return missing(agent.id)
        request = all_request_bodies.UpdateAgent.model_validate(command.request)
        if not request.model_fields_set:
            return Accepted()
        looked_up = request.block_ids or []
        if request.enable_sleeptime and request.block_ids is None:
            looked_up = agent.design.block_ids
        facts = await self.facts(request, work.context, looked_up)
        if isinstance(facts, Rejected):
            return facts
        try:
            updated = updated_design(agent.design, request, facts)
        except InvalidArgument as invalid:
            return Rejected(code=INVALID, reason=str(invalid.body["detail"]))
        if isinstance(updated, Rejected):
            return updated
        changed, design = updated
        return agent.update(changed, design, at=self.ports.clock.now()) or Accepted()

    async def delete_agent(self, command: DeleteAgent, work: UnitOfWork) -> Accepted | Rejected:
        """Remove an agent with its conversations and their runs; of many conversations the first,
        the others follow (`DeleteConversations`)."""
        await work.hold(self.ports.engine.ports.locks.hold(main_conversation(command.agent_id)))
        agent = await work.load(Agent, command.agent_id)
        refused = agent.delete(at=self.ports.clock.now())
        if refused:
            return refused
        conversations = await self.ports.queries.conversations_of(
            work.context.org, agent.id, DELETED_WITH_AGENT_MAX
        )
        for conversation_id in conversations:
            await work.hold(self.ports.engine.ports.locks.hold(conversation_id))
        for conversation_id in (main_conversation(agent.id), *conversations):
            delete(await work.load(Conversation, conversation_id), self.ports, work)
        summaries = await work.load(AgentSummaries, summaries_id(agent.id))
        summaries.delete(at=self.ports.clock.now())
        return Accepted()

    async def attach_block(self, command: AttachBlock, work: UnitOfWork) -> Accepted | Rejected:
        """Show a block to an agent; the answer is whether it had it not yet."""
        agent = await work.load(Agent, command.agent_id)
        if agent.design is None:
            return missing(agent.id)
        new = command.block_id not in agent.design.block_ids
        labels = await self.ports.queries.labels(
            work.context.org, [*agent.design.block_ids, command.block_id]
        )
        refused = agent.attach(command.block_id, labels, at=self.ports.clock.now())
        return refused or Accepted(result={"attached": new})

    async def detach_block(self, command: DetachBlock, work: UnitOfWork) -> Accepted | Rejected:
        """Show a block to an agent no more."""
        agent = await work.load(Agent, command.agent_id)
        return agent.detach(command.block_id, at=self.ports.clock.now()) or Accepted()

    async def declare_capability(
        self, command: DeclareCapability, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Record what an agent can do."""
        agent = await work.load(Agent, command.agent_id)
        return declare(agent, command.capability, at=self.ports.clock.now()) or Accepted()

    async def withdraw_capability(
        self, command: WithdrawCapability, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Record what an agent does not do any more."""
        agent = await work.load(Agent, command.agent_id)
        return withdraw(agent, command.name, at=self.ports.clock.now()) or Accepted()

    async def attach_tool(self, command: AttachTool, work: UnitOfWork) -> Accepted | Rejected:
        """Let an agent have a tool."""
        agent = await work.load(Agent, command.agent_id)
        held = agent.design.tool_ids if agent.design else []
        ids = custom_ids([*held, command.tool_id])
        custom = await self.ports.queries.custom_tools(work.context.org, ids) if ids else []
        return attach(agent, command.tool_id, custom, at=self.ports.clock.now()) or Accepted()

    async def detach_tool(self, command: DetachTool, work: UnitOfWork) -> Accepted | Rejected:
        """Take a tool from an agent."""
        agent = await work.load(Agent, command.agent_id)
        return detach(agent, command.tool_id, at=self.ports.clock.now()) or Accepted()

    async def call_tool(self, command: CallTool, work: UnitOfWork) -> Accepted | Rejected:
        """Carry a call out. Made again after a crash it sends the same commands."""
        agent = await work.load(Agent, command.agent_id)
        if agent.design is None:
            return missing(agent.id)
        if command.tool_name not in CALLABLE_ALONE:
            reason = f"'{command.tool_name}' is called in a conversation alone"
            return Rejected(code=INVALID, reason=reason)
        arguments = to_json(command.arguments).decode()
        call = ToolCall(id=command.call_id, name=command.tool_name, arguments=arguments)
        tools = self.ports.engine.ports.tools
        result = await tools.run(call, agent.design, "", command.call_id, work.context)
        return Accepted(result={"status": result.status, "text": result.text})

    async def restore_configuration(
        self, command: RestoreConfiguration, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Give an agent the configuration of an earlier version."""
        agent, org = await work.load(Agent, command.agent_id), work.context.org
        if agent.design is None:
            return missing(agent.id)
        past = await self.ports.queries.configuration_at(org, agent.id, command.version)
        if past is None:
            return no_version(agent.id, command.version)
        custom = await self.ports.queries.custom_tools(org, custom_ids(past.tool_ids))
        restore_configuration(
            agent,
            past,
            custom,
            actor=work.context.actor,
            version=command.version,
            at=self.ports.clock.now(),
        )
        return Accepted()


def of_deployment(design: AgentDesign, deployment_id: str, entity_id: str) -> AgentDesign:
    """The design of an agent that a deployment of a template has under this entity, if one has."""
    if not deployment_id:
        return design
    return design.with_config(deployment_id=deployment_id, entity_id=entity_id or None)
