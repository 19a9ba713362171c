"""Commands about conversations beside an agent's own: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import request_as_service
from libs.contracts.agent.conversations import (
    CreateConversation,
    DeleteConversation,
    ForkConversation,
    Message,
    PreviewSystemPrompt,
    RecompileConversation,
    RunCommand,
    UpdateConversation,
)
from libs.contracts.bus_messages import (
    INVALID,
    TOO_LARGE,
    Accepted,
    Command,
    Context,
    Rejected,
)
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta import conversations as bodies
from libs.contracts.letta.blocks import BlockState
from libs.contracts.letta.conversations import ConversationConfig
from libs.contracts.letta.model_configs import LLMConfig
from libs.contracts.memory.blocks import CreateBlocks
from libs.eventstore import failpoints
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.adapters.all_queries import seen_memory
from services.agent.domain.agents.agent import Agent, AgentDesign
from services.agent.domain.agents.agent import missing as missing_agent
from services.agent.domain.conversations import conversation_lifecycle
from services.agent.domain.conversations.configuration_overrides import design_in
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.conversation_lifecycle import (
    forked_messages,
    missing,
    missing_in,
    stored_settings,
)
from services.agent.domain.conversations.conversation_state import SystemPrompt
from services.agent.domain.prompts.model_context import recompiled_prompt
from services.agent.handlers.ports import HandlerPorts

PREVIEW_BYTES_MAX = 4 << 20


class ConversationHandlers:
    """Makes conversations, forks them, changes them and deletes them."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """The commands of these handlers, each with its method."""
        return {
            CreateConversation: self.create_conversation,
            ForkConversation: self.fork_conversation,
            UpdateConversation: self.update_conversation,
            DeleteConversation: self.delete_conversation,
            RecompileConversation: self.recompile_conversation,
            PreviewSystemPrompt: self.preview_system_prompt,
        }

    async def create_conversation(
        self, command: CreateConversation, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Make a conversation. Its copies of blocks come first; if it does not come after them,
        because this process died, they are deleted again (`UndoUnfinishedCreations`)."""
        agent = await work.load(Agent, command.agent_id)
        if agent.design is None:
            return missing_agent(agent.id)
        request = bodies.CreateConversation.model_validate(command.request)
        llm = await self.ports.handles.llm(request.model) if request.model else None
        if isinstance(llm, Rejected):
            return llm
        chosen = await self.block_ids_of(agent.design, request.isolated_block_labels or [], work)
        if isinstance(chosen, Rejected):
            return chosen
        copies = await self.copy_blocks(command.conversation_id, chosen, work.context)
        if isinstance(copies, Rejected):
            return copies
        settings = request.model_settings
        now = self.ports.clock.now()
        config = ConversationConfig(
            id=command.conversation_id,
            agent_id=agent.id,
            summary=request.summary,
            description=request.description,
            hidden=request.hidden,
            model=request.model or None,
            model_settings=None if settings is None else stored_settings(settings),
            context_window_limit=request.context_window_limit,
            llm_config=llm,
            isolated_blocks=copies,
            created_by_id=work.context.actor,
            last_updated_by_id=work.context.actor,
            created_at=now,
            updated_at=now,
        )
        return await self.finish(config, agent.design, [], work)

    async def block_ids_of(
        self, design: AgentDesign, labels: Sequence[str], work: UnitOfWork
    ) -> list[str] | Rejected:
        """The ids of the agent's blocks with these labels, or the refusal of an unknown label."""
        if not labels:
            return []
        known = await self.ports.queries.labels(work.context.org, design.block_ids)
        by_label = {
            known[block_id]: block_id
            for block_id in reversed(design.block_ids)
            if block_id in known
        }
        for label in labels:
            if label not in by_label:
                listed = ", ".join(sorted(by_label)) or "none"
                reason = (
                    f"`isolated_block_labels`: Block with label '{label}' not found on agent "
                    f"'{design.config.id}'. Its blocks are: {listed}"
                )
                return Rejected(code=INVALID, reason=reason)
        return [by_label[label] for label in dict.fromkeys(labels)]

    async def copy_blocks(
        self, conversation_id: str, block_ids: Sequence[str], context: Context
    ) -> dict[str, str] | Rejected:
        """Have the memory service copy these blocks as they are now; returns the copies' ids by the
        originals'."""
        blocks = await self.ports.queries.block_states(context.org, [*block_ids])
        copies = {block.id: copy_of(block, conversation_id, context.actor) for block in blocks}
        if not copies:
            return {}
        request = [context.fingerprint] if context.fingerprint else []
        cause = context.follow_up(derived_id("cmd", conversation_id, "blocks", *request))
        command = CreateBlocks(blocks=[*copies.values()], conversation_id=conversation_id)
        reply = await request_as_service(self.ports.bus, command, cause)
        if isinstance(reply, Rejected):
            return reply
        failpoints.reach("after_blocks")
        return {source: copy.id for source, copy in copies.items()}

    async def finish(
        self,
        config: ConversationConfig,
        design: AgentDesign,
        messages: list[Message],
        work: UnitOfWork,
    ) -> Accepted | Rejected:
        """Make the conversation, whose blocks are there, with its system message as of now, and
        with the messages of a fork."""
        conversation = await work.load_new(Conversation, config.id)
        refused = conversation_lifecycle.create(conversation, config)
        if refused:
            return refused
        await begin(conversation, design, self.ports, work)
        for message in messages:
            conversation.append(message, at=config.created_at)
        return Accepted(result={"conversation_id": config.id})

    async def fork_conversation(
        self, command: ForkConversation, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Make a conversation that goes on from another one, with copies of the blocks that are
        that one's own."""
        agent = await work.load(Agent, command.agent_id)
        if agent.design is None:
            return missing_agent(agent.id)
        org = work.context.org
        isolated = await self.ports.queries.isolated_blocks(org, command.source_id)
        copies = await self.copy_blocks(command.conversation_id, [*isolated.values()], work.context)
        if isinstance(copies, Rejected):
            return copies
        # A run of it may go on meanwhile: its state is looked at between two of its decisions.
        await work.hold(self.ports.engine.ports.locks.hold(command.source_id))
        source = await work.load(Conversation, command.source_id)
        if not source.exists or not source.is_of(agent.id):
            return missing_in(agent.id, source.id)
        messages = forked_messages(source.state, command.conversation_id, command.message_id)
        if isinstance(messages, Rejected):
            return messages
        now = self.ports.clock.now()
        inherited = source.state.own.model_dump(include=INHERITED) if source.state.own else {}
        config = ConversationConfig(
            **inherited,
            id=command.conversation_id,
            agent_id=agent.id,
            hidden=command.hidden,
            isolated_blocks={
                of: copies[block_id] for of, block_id in isolated.items() if block_id in copies
            },
            forked_from=source.id,
            created_by_id=work.context.actor,
            last_updated_by_id=work.context.actor,
            created_at=now,
            updated_at=now,
        )
        return await self.finish(config, agent.design, messages, work)

    async def update_conversation(
        self, command: UpdateConversation, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Change the fields that the request sets."""
        conversation = await work.load(Conversation, command.conversation_id)
        request = bodies.UpdateConversation.model_validate(command.request)
        llm: LLMConfig | Rejected | None = None
        if request.model:
            llm = await self.ports.handles.llm(request.model)
        if isinstance(llm, Rejected):
            return llm
        actor, at = work.context.actor, self.ports.clock.now()
        refused = conversation_lifecycle.update(conversation, request, llm, actor=actor, at=at)
        return refused or Accepted()

    async def delete_conversation(
        self, command: DeleteConversation, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Remove a conversation with its messages and its runs, also one that is active."""
        conversation = await work.load(Conversation, command.conversation_id)
        if conversation.state.own is None:
            return missing(conversation.id)
        delete(conversation, self.ports, work)
        return Accepted()

    async def recompile_conversation(
        self, command: RecompileConversation, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Make the system message anew."""
        loaded = await load_existing(command, work)
        if isinstance(loaded, Rejected):
            return loaded
        design, conversation = loaded
        prompt = await compile_prompt(conversation, design, self.ports, work)
        conversation.rebuild(prompt, at=self.ports.clock.now())
        return Accepted()

    async def preview_system_prompt(
        self, command: PreviewSystemPrompt, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Say what the system message would be."""
        loaded = await load_existing(command, work)
        if isinstance(loaded, Rejected):
            return loaded
        design, conversation = loaded
        prompt = await compile_prompt(conversation, design, self.ports, work)
        if len(prompt.content.encode()) > PREVIEW_BYTES_MAX:
            reason = (
                f"`dry_run`: the system prompt is larger than {PREVIEW_BYTES_MAX} bytes, the most "
                "that is shown without being kept: recompile it, and read the system message"
            )
            return Rejected(code=TOO_LARGE, reason=reason)
        return Accepted(result={"content": prompt.content})


async def load_existing(
    command: RunCommand, work: UnitOfWork
) -> tuple[AgentDesign, Conversation] | Rejected:
    """The agent's design and its conversation, or the refusal if either does not exist."""
    agent, conversation = await work.load_both(
        (Agent, command.agent_id), (Conversation, command.conversation)
    )
    if agent.design is None:
        return missing_agent(agent.id)
    if not conversation.exists or not conversation.is_of(agent.id):
        return missing_in(agent.id, conversation.id)
    return agent.design, conversation


async def begin(
    conversation: Conversation, design: AgentDesign, ports: HandlerPorts, work: UnitOfWork
) -> None:
    """Give a new conversation its system message."""
    prompt = await compile_prompt(conversation, design, ports, work)
    message_id, at = ports.ids.new("message"), ports.clock.now()
    system = Message(id=message_id, role="system", content=prompt.content, created_at=at)
    conversation.begin(design.config.id, system, prompt.shows, at=at)


async def compile_prompt(
    conversation: Conversation, design: AgentDesign, ports: HandlerPorts, work: UnitOfWork
) -> SystemPrompt:
    """The system message of a conversation of an agent as it would be made now."""
    inside = design_in(conversation.state, design)
    memory = await seen_memory(ports.queries, work.context.org, inside)
    return recompiled_prompt(conversation.state, inside.config, memory, at=ports.clock.now())


# What a fork is as its source is; what is said of it in words it has to earn itself.
INHERITED = {"model", "model_settings", "context_window_limit", "llm_config"}


def copy_of(block: BlockState, conversation_id: str, actor: str) -> BlockState:
    """A block for a conversation of its own, with what an agent sees of another one."""
    return BlockState(
        id=derived_id("block", conversation_id, block.id),
        value=block.value,
        limit=block.limit,
        label=block.label,
        description=block.description,
        metadata=block.metadata,
        read_only=block.read_only,
        created_by_id=actor,
        last_updated_by_id=actor,
    )


def delete(conversation: Conversation, ports: HandlerPorts, work: UnitOfWork) -> None:
    """Have a conversation stop existing, and let go of its run, if one is under way here."""
    unended = conversation.state.unfinished_runs
    conversation.delete(at=ports.clock.now())
    if unended:
        work.after_commit.append(
            lambda _: ports.engine.cancelled(conversation.id, unended, work.context)
        )


def too_large(payload: bytes) -> Rejected | None:
    """The refusal of what a model is asked, where that is more than is shown."""
    if len(payload) <= PREVIEW_BYTES_MAX:
        return None
    reason = f"The request is larger than {PREVIEW_BYTES_MAX} bytes, the most that is shown"
    return Rejected(code=TOO_LARGE, reason=reason)
