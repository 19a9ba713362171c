"""The agent service in memory: a store, a bus, a clock and a model that do as they are told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta
from typing import Any

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.ports import IncomingCommand
from libs.bus.process_ports import PortArguments
from libs.contracts.agent.approvals import AnswerApproval, CallAnswer
from libs.contracts.agent.conversations import main_conversation
from libs.contracts.agent.runs import StartRun
from libs.contracts.bus_messages import (
    INVALID,
    NOT_FOUND,
    UNAVAILABLE,
    Accepted,
    Command,
    Context,
    Event,
    JsonObject,
    Rejected,
    delta_subject,
)
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig
from libs.contracts.tools.tool_permission_evaluation import ToolPolicies
from libs.eventstore.event_decoding import event_of
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import Commit, StoreUnavailable
from libs.eventstore.unit_of_work import Repository
from services.agent import projections
from services.agent.adapters.memory_tools import MemoryTools
from services.agent.adapters.models.ports import Finished, ModelEvent, ModelFailed
from services.agent.adapters.tool_owner_port import Calling
from services.agent.app import tool_router
from services.agent.domain.agents.agent import Agent, AgentDesign
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.prompts.model_context import ModelRequest, ShownMemory, system_prompt
from services.agent.domain.runs.step_results import ModelReply, ToolResult
from services.agent.domain.tools.custom_tools import CustomTool
from services.agent.engine.batches import Batches
from services.agent.engine.ports import EnginePorts
from services.agent.engine.run_scheduling import RunEngine
from services.agent.handlers import Handlers
from services.agent.handlers.ports import HandlerPorts
from services.memory import projections as memory_projections
from services.memory.handlers import Handlers as MemoryHandlers
from services.memory.handlers.ports import HandlerPorts as MemoryPorts
from tests.clock_and_ids import CountingIds, ManualClock
from tests.contract.examples import AGENT, CONFIG, EMBEDDING, LLM, RUN_CONFIG, message
from tests.hash_embedder import OneEmbedder
from tests.scripted_model import messages_validator, validator
from tests.unit.agent import anthropic_documents
from tests.unit.agent.in_memory_queries import InMemoryQueries
from tests.unit.agent.openai_documents import body_of
from tests.unit.agent_attachments import InMemoryAgentAttachments
from tests.unit.archives import InMemoryArchiveQueries
from tests.unit.folders import InMemoryFolderQueries, not_processed
from tests.unit.given import NOW
from tests.unit.message_vectors import InMemoryMessageVectors, message_embedding
from tests.unit.passage_search import InMemoryPassageSearch
from tests.unit.past_block_versions import InMemoryPastBlockVersions

CONVERSATION = main_conversation(AGENT)
ASK = "archival_memory_insert"  # the tool that these tests build; it may not run twice

Answer = ModelReply | Exception
ActiveRun = Answer | Callable[[], Awaitable[Answer]]


class FakeModel:
    """Answers with what it is given, in order, and refuses what a strict provider refuses."""

    def __init__(self, *turns: ActiveRun) -> None:
        self.turns = list(turns)
        self.asked: list[ModelRequest] = []
        self.window: int | None = None  # as its server names it in an error

    def window_tokens(self, _config: LLMConfig) -> int | None:
        return self.window

    async def reply(self, request: ModelRequest) -> ModelReply:
        assert validator.check(body_of(request)) is None
        assert messages_validator.check(anthropic_documents.body_of(request)) is None
        self.asked.append(request)
        turn = self.turns.pop(0)
        answer = await turn() if callable(turn) else turn
        if isinstance(answer, Exception):
            if isinstance(answer, ModelFailed):
                self.window = answer.failure.window or self.window
            raise answer
        return answer

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield Finished(await self.reply(request))

    async def llm(self, handle: str) -> LLMConfig | Rejected:
        if handle != LLM.handle:
            return Rejected(code=NOT_FOUND, reason=f"Handle {handle} not found")
        return LLM

    async def refusal(self, config: LLMConfig) -> Rejected | None:
        if config.handle or config.model == LLM.model:
            return None
        return Rejected(code=INVALID, reason=f"`llm_config`: nobody offers {config.model}")

    async def embedding(self, handle: str) -> EmbeddingConfig | Rejected:
        if handle == EMBEDDING.handle:
            return EMBEDDING
        return Rejected(code=UNAVAILABLE, reason=f"{handle} cannot be looked up")


class FaultyStore(InMemoryEventStore):
    """A store whose answers to commits under a lease get lost, before or after they happen."""

    lost_after: set[int]
    lost_before: set[int]
    fenced = 0

    async def commit(self, commit: Commit) -> int | None:
        if commit.fence is None:
            return await super().commit(commit)
        self.fenced += 1
        if self.fenced in self.lost_before:
            raise StoreUnavailable("it did not happen")
        epoch = await super().commit(commit)
        if self.fenced in self.lost_after:
            raise StoreUnavailable("it did happen")
        return epoch


def but_once(
    idempotent: Callable[[str, AgentDesign], bool],
) -> Callable[[str, AgentDesign], bool]:
    """Which calls may be made again, but for those of the tool that these tests build."""
    return lambda name, design: name != ASK and idempotent(name, design)


class Process:
    """One process of the agent service."""

    def __init__(self, world: World, holder: str, model: FakeModel) -> None:
        self.model = model
        self.bus = InMemoryBus(world.network)
        self.store = FaultyStore(world.database, "agent", holder)
        self.store.lost_after, self.store.lost_before = set(), set()
        self.repository = Repository(self.store, "agent", projections.project)
        self.tools = tool_router(
            self.bus, world.queries, world.clock, policies=lambda: world.policies
        )
        shared: PortArguments = {
            "repository": self.repository,
            "bus": self.bus,
            "clock": world.clock,
            "ids": world.ids,
            "committed": lambda: None,
        }
        self.drivers = RunEngine(
            EnginePorts(
                **shared,
                models=model,
                tools=self.tools,
                queries=world.queries,
                policies=lambda: world.policies,
            )
        )
        ports = HandlerPorts(**shared, handles=model, queries=world.queries, engine=self.drivers)
        self.batches = Batches(self.drivers.ports)
        self.handlers = Handlers(ports, self.batches)
        self.shell = CommandDispatcher(self.repository, self.handlers.table())

        self.tools.idempotent = but_once(self.tools.idempotent)  # type: ignore[method-assign]

    @property
    def memory_tools(self) -> MemoryTools:
        """The tools that the memory service owns, as this process reaches them."""
        owner = self.tools.owners["memory"]
        assert isinstance(owner, MemoryTools)
        return owner

    async def tell(
        self, command: Command, message_id: str, *, sent_at: str = "", fingerprint: str = ""
    ) -> Accepted | Rejected:
        name = f"{command.service}.{command.topic}"
        context = Context(
            message_id,
            org="org-1",
            actor="user-1",
            correlation_id="c-1",
            sent_at=sent_at,
            fingerprint=fingerprint,
        )
        return await self.shell.answer(
            IncomingCommand(name, command.model_dump_json().encode(), context)
        )

    async def say(
        self, run_id: str, text: str = "Hi", *, seconds_ago: int = 0, **fields: Any
    ) -> Accepted | Rejected:
        """Send one user message that the client asked for some time ago."""
        command = self.start_run(run_id, text, seconds_ago=seconds_ago, **fields)
        return await self.tell(command, f"say-{run_id}")

    async def answer(
        self, run_id: str, *answers: CallAnswer, says: str = "", **fields: Any
    ) -> Accepted | Rejected:
        """Answer calls that wait for the client, and maybe say something more."""
        asked = dict(self.start_run(run_id, says, **fields))
        messages = asked.pop("messages") if says else []
        command = AnswerApproval(**asked | {"messages": messages}, answers=list(answers))
        return await self.tell(command, f"answer-{run_id}")

    def start_run(
        self, run_id: str, text: str = "Hi", *, seconds_ago: int = 0, **fields: Any
    ) -> StartRun:
        """What says one user message."""
        number = int(run_id.rpartition("-")[2])
        asked_at = RUN_CONFIG.created_at - timedelta(seconds=seconds_ago)
        run = RUN_CONFIG.model_copy(update={"id": run_id, "created_at": asked_at})
        said = message(100 + number, role="user", content=text)
        asked = {"max_steps": 50, "request_hash": f"hash of {run_id}", **fields}
        return StartRun(agent_id=AGENT, run=run, messages=[said], **asked)

    async def idle(self) -> None:
        """Until nothing is driven here."""
        while self.drivers.tasks:
            await asyncio.wait(self.drivers.tasks.values())
            await asyncio.sleep(0)


class World:
    """What the processes share, and the memory service."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.ids = CountingIds()
        self.database = InMemoryDatabase(self.clock.monotonic)
        self.network = InMemoryNetwork()
        self.queries = InMemoryQueries(self.database)
        self.schema = self.database.schema("agent")
        self.deltas: dict[str, list[Any]] = {}
        self.tool_runs: list[str] = []
        self.policies: ToolPolicies | None = ToolPolicies()

    async def start_memory(self) -> None:
        store = InMemoryEventStore(self.database, "memory", "memory-1")
        repository = Repository(store, "memory", memory_projections.project)
        attached = InMemoryAgentAttachments(self.database)
        vectors = InMemoryMessageVectors(self.database)
        ports = MemoryPorts(
            clock=self.clock,
            attached=attached,
            past_block_versions=InMemoryPastBlockVersions(self.database),
            archives=InMemoryArchiveQueries(self.database),
            passages=InMemoryPassageSearch(self.database),
            embedders=OneEmbedder(),
            locks=AggregateLocks(),
            folders=InMemoryFolderQueries(self.database),
            file_added=not_processed,
            message_vectors=vectors,
            embed_messages=message_embedding(vectors, OneEmbedder(), self.clock).catch_up,
        )
        shell = CommandDispatcher(repository, MemoryHandlers(ports).table())
        await InMemoryBus(self.network).serve("memory", shell.answer)

    def process(self, holder: str, *turns: ActiveRun) -> Process:
        return Process(self, holder, FakeModel(*turns))

    async def agent(
        self,
        *,
        block_ids: list[str] | None = None,
        agent_id: str = AGENT,
        tags: list[str] | None = None,
        parallel: bool = True,
        tools: list[str] | None = None,
        custom: list[CustomTool] | None = None,
        **fields: Any,
    ) -> None:
        """An agent with its conversation, already there. `fields` are those of its config."""
        repository = Repository(
            InMemoryEventStore(self.database, "agent", "setup"), "agent", projections.project
        )
        llm = LLM.model_copy(update={"parallel_tool_calls": parallel})
        config = CONFIG.model_copy(update={"id": agent_id, "llm_config": llm, **fields})
        tools = tools or ["memory_insert", "conversation_search", ASK]
        design = AgentDesign(config=config, tools=tools, tags=tags or [], block_ids=block_ids or [])
        for tool in custom or []:
            self.queries.tools["org-1", tool.id] = tool
            design.tools.append(tool.name)
            design.tool_ids.append(tool.id)
        work = repository.work(Context("setup", org="org-1"))
        agent = await work.load(Agent, agent_id)
        assert agent.create(design, at=NOW) is None
        talk = await work.load(Conversation, main_conversation(agent_id))
        blocks = await self.queries.seen_blocks("org-1", design.block_ids)
        prompt = system_prompt(config, ShownMemory(blocks), previous_messages=0, at=NOW)
        system = message(1, role="system", content=prompt.content)
        talk.begin(agent_id, system, prompt.shows, at=NOW)
        await work.commit()

    def build_tool(
        self, process: Process, run: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Let a process have the tool that may not run twice; each run is noted."""

        async def runner(calling: Calling) -> ToolResult:
            self.tool_runs.append(f"{process.store.holder} {calling.call.id}")
            if run is not None:
                await run()
            return ToolResult("success", "kept")

        process.memory_tools.runners[ASK] = runner

    async def hear(self, process: Process, run_id: str) -> None:
        """Note the deltas of a run."""
        heard = self.deltas.setdefault(run_id, [])
        subject = delta_subject("agent", "run", "*", "org-1", run_id)
        await process.bus.subscribe_deltas(subject, lambda _, sent: heard.append(json.loads(sent)))

    def lease_expires(self) -> None:
        """Time passes in which nobody renews a lease."""
        self.clock.seconds += 11

    def lease_is_free(self) -> bool:
        lease = self.schema.leases.get(CONVERSATION)
        return lease is None or lease.expires_at < self.clock.seconds

    def events(self, aggregate_id: str = CONVERSATION) -> list[Event]:
        return [event_of("agent", stored) for stored in self.schema.streams.get(aggregate_id, [])]

    def story(self, aggregate_id: str = CONVERSATION) -> list[str]:
        """The topics of what happened."""
        return [event.topic for event in self.events(aggregate_id)]

    def row(self, table: str, key: str) -> JsonObject:
        [row] = [
            row for row in self.schema.rows(table) if key in (row.get("id"), row.get("run_id"))
        ]
        return row
