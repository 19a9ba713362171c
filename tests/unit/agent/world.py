"""The agent service on the twins: a store, a bus, a clock and a model that do as they are told."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.ports import IncomingCommand
from libs.bus.suspect_quarantine import Quarantine
from libs.contracts.approvals import AnswerApproval, CallAnswer
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
from libs.contracts.conversation import StartRun, main_conversation
from libs.contracts.letta.blocks import BlockState
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig
from libs.contracts.tool_permission_evaluation import ToolPolicies
from libs.embeddings.hash_embedder import OneEmbedder
from libs.eventstore.event_decoding import event_of
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import Commit, StoreUnavailable
from libs.eventstore.unit_of_work import Repository
from services.agent import projections
from services.agent.adapters.approval_queries import WaitingApproval
from services.agent.adapters.callback_queries import DUE_MAX, DueCallback
from services.agent.adapters.called_run_queries import CALLERS, CallChain, CalledRun
from services.agent.adapters.conversation_queries import LostConversation
from services.agent.adapters.conversation_search_queries import FoundMessage, Search
from services.agent.adapters.heartbeat_pause_queries import PausedConversation
from services.agent.adapters.memory_tools import MemoryTools
from services.agent.adapters.models import anthropic_request
from services.agent.adapters.models.openai_request import body_of
from services.agent.adapters.models.ports import Finished, ModelEvent, ModelFailed
from services.agent.adapters.reconciliation_queries import (
    SWEPT_MAX,
    LostPart,
    MadeBlock,
    Orphan,
)
from services.agent.adapters.tool_owner_port import Calling
from services.agent.adapters.tool_run_queries import ToolRunProgress
from services.agent.app import tool_router
from services.agent.domain.agent import Agent, AgentDesign
from services.agent.domain.agent_call_deadlocks import WaitingCall
from services.agent.domain.archival_memory_metadata import ArchivalMemory
from services.agent.domain.attached_folders import AttachedFile, AttachedFolder
from services.agent.domain.conversation import Conversation
from services.agent.domain.model_context import AttachedBlock, ModelRequest, system_prompt
from services.agent.domain.step_results import ModelReply, ToolResult
from services.agent.domain.tools.custom_tools import CustomTool
from services.agent.engine.dependencies import EngineDependencies
from services.agent.engine.run_scheduling import RunEngine
from services.agent.handlers import Handlers
from services.agent.handlers.dependencies import HandlerDependencies
from services.memory import projections as memory_projections
from services.memory.handlers import Handlers as MemoryHandlers
from services.memory.handlers.dependencies import HandlerDependencies as MemoryPorts
from tests.contract.examples import AGENT, CONFIG, EMBEDDING, LLM, RUN_CONFIG, message
from tests.scripted_model import messages_validator, validator
from tests.unit.agent_attachments import InMemoryAgentAttachments
from tests.unit.archives import InMemoryArchiveQueries
from tests.unit.folders import folder_ports
from tests.unit.given import NOW
from tests.unit.message_vectors import InMemoryMessageVectors, message_ports
from tests.unit.passage_search import InMemoryPassageSearch
from tests.unit.past_block_versions import InMemoryPastBlockVersions

CONVERSATION = main_conversation(AGENT)
ASK = "archival_memory_insert"  # the tool that these tests build; it may not run twice

Answer = ModelReply | Exception
ActiveRun = Answer | Callable[[], Awaitable[Answer]]


class FakeClock:
    """Time passes when somebody sleeps or a test says so. `ahead` is how wrong the clock is that
    people may set."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.ahead = 0.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds + self.ahead)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        await asyncio.sleep(0)


class CountingIds:
    def __init__(self) -> None:
        self.count = 0

    def new(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}-{self.count}"


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
        assert messages_validator.check(anthropic_request.body_of(request)) is None
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


class TwinQueries:
    """The reads of the agent service, from the tables of the twin."""

    def __init__(self, database: InMemoryDatabase) -> None:
        self.database = database
        self.tools: dict[tuple[str, str], CustomTool] = {}
        self.tools_deleted: set[tuple[str, str]] = set()
        self.tools_read = 0
        self.texts: dict[str, str] = {}
        self.every_tool_run: ToolRunProgress | None = None

    def rows(self, table: str, service: str = "agent") -> list[Any]:
        return self.database.schema(service).rows(table)

    async def seen_blocks(self, org: str, block_ids: list[str]) -> list[AttachedBlock]:
        rows = self.rows("blocks", "memory")
        blocks = {row["id"]: row for row in rows if row["org"] == org}
        fields = ("label", "value", "description", "limit", "read_only")
        return [
            AttachedBlock(
                one,
                blocks[one]["version"],
                *(blocks[one]["doc"][name] for name in fields),
                blocks[one].get("changed_by"),
            )
            for one in block_ids
            if one in blocks
        ]

    async def archival_memory(self, org: str, agent_id: str) -> ArchivalMemory:
        ids = {
            row["archive_id"]
            for row in self.rows("archive_agents", "memory")
            if (row["agent_id"], row["org"]) == (agent_id, org)
        }
        rows = [row for row in self.rows("passages", "memory") if row["collection_id"] in ids]
        tags = sorted({tag for row in rows for tag in row["tags"]})
        return ArchivalMemory(len(rows), tuple(tags))

    async def seen_folders(self, org: str, agent_id: str, chars_max: int) -> list[AttachedFolder]:
        files = [
            replace(one, text=self.texts.get(one.id, "")) if one.is_open else one
            for one in await self.files_of_agent(org, agent_id, 500)
        ]
        folders = {row["id"]: row for row in self.rows("folders", "memory")}
        return [
            AttachedFolder(
                one,
                folders[one]["name"],
                folders[one]["doc"]["description"],
                folders[one]["doc"]["instructions"],
                [file for file in files if file.folder_id == one],
            )
            for one in await self.folder_ids(org, agent_id)
            if one in folders
        ]

    async def folder_ids(self, org: str, agent_id: str) -> list[str]:
        rows = self.rows("agent_folders", "memory")
        found = [row for row in rows if (row["org"], row["agent_id"]) == (org, agent_id)]
        return [row["folder_id"] for row in sorted(found, key=lambda row: row["created_at"])]

    async def files_of_agent(self, org: str, agent_id: str, limit: int) -> list[AttachedFile]:
        names = {row["id"]: row["name"] for row in self.rows("folders", "memory")}
        seen = await self.folder_ids(org, agent_id)
        opened = {
            row["file_id"]: row
            for row in self.rows("open_files", "memory")
            if row["agent_id"] == agent_id
        }
        files = [row for row in self.rows("files", "memory") if row["folder_id"] in seen]
        files.sort(key=lambda row: (row["id"] not in opened, row["created_at"], row["id"]))
        return [
            AttachedFile(
                row["id"],
                row["folder_id"],
                f"{names[row['folder_id']]}/{row['name']}",
                row["lines"],
                row["id"] in opened,
                *(opened.get(row["id"], {}).get(name) for name in ("first_line", "last_line")),
            )
            for row in files
        ][:limit]

    async def files_named(self, org: str, agent_id: str, names: list[str]) -> list[AttachedFile]:
        files = await self.files_of_agent(org, agent_id, 500)
        return [file for file in files if file.name in names]

    async def file_pieces(
        self, org: str, file_id: str, *, first_line: int, after: int, pieces: int
    ) -> list[tuple[int, int, str]]:
        return [(0, 1, self.texts[file_id])] if after < 0 and file_id in self.texts else []

    async def custom_tools(self, org: str, tool_ids: list[str]) -> list[CustomTool]:
        self.tools_read += 1
        return [self.tools[org, one] for one in tool_ids if (org, one) in self.tools]

    async def custom_tools_named(self, org: str, names: list[str]) -> list[CustomTool]:
        return [one for (whose, _), one in self.tools.items() if whose == org and one.name in names]

    async def tool_run(self, org: str, tool_run_id: str) -> ToolRunProgress | None:
        return self.every_tool_run

    async def labels(self, org: str, block_ids: list[str]) -> dict[str, str]:
        rows = [row for row in self.rows("blocks", "memory") if row["org"] == org]
        return {row["id"]: row["label"] for row in rows if row["id"] in block_ids}

    async def attached_block(self, org: str, agent_id: str, label: str) -> str | None:
        [agent] = [row for row in self.rows("agents") if row["id"] == agent_id]
        labels = await self.labels(org, agent["block_ids"])
        return next((one for one in agent["block_ids"] if labels.get(one) == label), None)

    async def agents_attached_to(self, org: str, block_id: str) -> list[str]:
        rows = [row for row in self.rows("agents") if row["org"] == org]
        return [row["id"] for row in rows if block_id in row["block_ids"]]

    async def lost_blocks(self, agent_ids: list[str] | None) -> list[LostPart]:
        there = {(row["id"], row["org"]) for row in self.rows("blocks", "memory")}
        return [
            LostPart(row["id"], block_id, row["org"])
            for row in self.rows("agents")
            if agent_ids is None or row["id"] in agent_ids
            for block_id in row["block_ids"]
            if (block_id, row["org"]) not in there
        ][:SWEPT_MAX]

    async def agents_with_tool(self, org: str, tool_id: str) -> list[str]:
        rows = [row for row in self.rows("agents") if row["org"] == org]
        return [row["id"] for row in rows if tool_id in row["custom_tool_ids"]]

    async def lost_tools(self, agent_ids: list[str] | None) -> list[LostPart]:
        return [
            LostPart(row["id"], tool_id, row["org"])
            for row in self.rows("agents")
            if agent_ids is None or row["id"] in agent_ids
            for tool_id in row["custom_tool_ids"]
            if (row["org"], tool_id) in self.tools_deleted
        ][:SWEPT_MAX]

    async def latest_run(
        self,
        org: str,
        agent_id: str,
        conversation_id: str,
        request_hash: str,
        since: datetime,
        excluded: list[str],
    ) -> str | None:
        found = [
            row
            for row in self.rows("runs")
            if (row["org"], row["agent_id"], row["conversation_id"], row["request_hash"])
            == (org, agent_id, conversation_id, request_hash)
            and datetime.fromisoformat(row["created_at"]) > since
            and row["id"] not in excluded
        ]
        return max(found, key=lambda row: row["created_at"])["id"] if found else None

    async def cancelled_runs(self, orgs: list[str], run_ids: list[str]) -> list[str]:
        rows = [row for row in self.rows("runs") if row["org"] in orgs]
        return [row["id"] for row in rows if row["id"] in run_ids and row["status"] == "cancelled"]

    async def active_runs(self, orgs: list[str], run_ids: list[str]) -> list[str]:
        rows = [row for row in self.rows("runs") if row["org"] in orgs and row["id"] in run_ids]
        return [row["id"] for row in rows if row["status"] in ("created", "running")]

    async def run_of_step(self, org: str, conversation_id: str, step_id: str) -> str | None:
        known = (step_id, conversation_id, org)
        rows = self.rows("steps")
        found = [one for one in rows if (one["id"], one["conversation_id"], one["org"]) == known]
        return str(found[0]["run_id"]) if found else None

    async def due_callbacks(self) -> list[DueCallback]:
        runs = {row["id"]: row for row in self.rows("runs")}
        now = NOW + timedelta(seconds=self.database.clock())
        due = [
            (row, runs[row["run_id"]])
            for row in self.rows("callbacks")
            if row["run_id"] in runs and datetime.fromisoformat(row["next_at"]) <= now
            if runs[row["run_id"]]["status"] in ("completed", "failed", "cancelled")
        ]
        turns: Counter[str] = Counter()
        order: dict[str, tuple[int, str]] = {}
        for row, _ in sorted(due, key=lambda one: (one[0]["next_at"], one[0]["run_id"])):
            of = (row["conversation_id"], row["url"].split("/")[2])
            turns.update(of)
            order[row["run_id"]] = (max(turns[one] for one in of), row["next_at"])
        due = sorted(due, key=lambda one: order[one[0]["run_id"]])[:DUE_MAX]
        return [
            DueCallback(
                row["run_id"],
                row["org"],
                row["conversation_id"],
                row["url"],
                row["attempts"],
                run["doc"],
                run.get("usage"),
            )
            for row, run in due
        ]

    async def messages_of_run(self, org: str, run_id: str) -> list[dict[str, Any]]:
        rows = [
            one for one in self.rows("messages") if (one["run_id"], one["org"]) == (run_id, org)
        ]
        ordered = sorted(rows, key=lambda row: row["position"])
        return [doc for row in ordered for doc in row["docs"]]

    async def call_chain(self, org: str, run_id: str) -> CallChain | None:
        runs = [row for row in self.rows("runs") if (row["id"], row["org"]) == (run_id, org)]
        called = [row for row in self.rows("called_runs") if row["run_id"] == run_id]
        callers = CALLERS.validate_python(called[0]["callers"]) if called else []
        return CallChain(runs[0]["conversation_id"], callers) if runs else None

    async def called_run(self, org: str, run_id: str) -> CalledRun | None:
        runs = [row for row in self.rows("runs") if (row["id"], row["org"]) == (run_id, org)]
        return CalledRun(runs[0]["status"], runs[0].get("stop_reason") or "") if runs else None

    async def waiting_calls(self, org: str, run_id: str) -> list[WaitingCall]:
        status = {row["id"]: row["status"] for row in self.rows("runs") if row["org"] == org}
        return [
            WaitingCall(
                row["run_id"],
                row["conversation_id"],
                row["caller_conversation_id"],
                status[row["run_id"]] == "created",
            )
            for row in self.rows("called_runs")
            if row["waits"] and status.get(row["caller_run_id"]) == "running"
            if status.get(row["run_id"]) in ("created", "running")
        ]

    async def agents_with_tags(
        self, org: str, every: list[str], some: list[str], limit: int
    ) -> list[str]:
        return [
            row["id"]
            for row in self.rows("agents")
            if row["org"] == org and set(every) <= set(row["tags"])
            if not some or set(some) & set(row["tags"])
        ][:limit]

    async def has_run(self, org: str, conversation_id: str, run_id: str) -> bool:
        known = (run_id, conversation_id, org)
        rows = self.rows("runs")
        return known in {(one["id"], one["conversation_id"], one["org"]) for one in rows}

    async def search_messages(self, search: Search) -> list[FoundMessage]:
        return []

    async def messages_named(self, search: Search, ids: list[str]) -> list[FoundMessage]:
        rows = {row["id"]: row for row in self.rows("messages")}
        return [
            FoundMessage(row["role"], datetime.fromisoformat(row["created_at"]), row["text"])
            for row in (rows[one] for one in ids if one in rows)
        ]

    async def orphaned_turns(self, but: list[str]) -> list[Orphan]:
        schema = self.database.schema("agent")
        leases, streams, now = schema.leases, schema.streams, self.database.clock()
        run_out = [
            Orphan(key, streams[key][0].org if key in streams else "", "")
            for key, lease in leases.items()
            if lease.expires_at < now and key.startswith("conv-") and key not in but
        ]
        return run_out + [
            Orphan(row["conversation_id"], row["org"], "")
            for row in self.rows("runs")
            if row["status"] == "running" and row["conversation_id"] not in {*leases, *but}
        ]

    async def block_states(self, org: str, block_ids: list[str]) -> list[BlockState]:
        rows = {row["id"]: row for row in self.rows("blocks", "memory") if row["org"] == org}
        found = [rows[one] for one in block_ids if one in rows]
        return [BlockState(**row["doc"], metadata=row["metadata"]) for row in found]

    def conversations(self, org: str) -> list[Any]:
        rows = [row for row in self.rows("conversations") if row["org"] == org]
        return sorted(rows, key=lambda row: row["created_at"])

    async def isolated_blocks(self, org: str, conversation_id: str) -> dict[str, str]:
        found = [row for row in self.conversations(org) if row["id"] == conversation_id]
        return found[0]["isolated_blocks"] if found else {}

    async def conversations_of(self, org: str, agent_id: str, limit: int) -> list[str]:
        rows = [row for row in self.conversations(org) if row["agent_id"] == agent_id]
        return [row["id"] for row in rows][:limit]

    async def lost_conversations(self, agent_ids: list[str] | None) -> list[LostConversation]:
        there = {(row["id"], row["org"]) for row in self.rows("agents")}
        return [
            LostConversation(row["id"], row["org"])
            for row in self.rows("conversations")
            if agent_ids is None or row["agent_id"] in agent_ids
            if (row["agent_id"], row["org"]) not in there
        ][:SWEPT_MAX]

    async def waiting_approvals(self, seconds_max: float) -> list[WaitingApproval]:
        rows = sorted(self.rows("approvals"), key=lambda row: row["requested_at"])
        return [
            WaitingApproval(
                row["conversation_id"],
                row["org"],
                datetime.fromisoformat(row["requested_at"]),
                seconds_max,
            )
            for row in rows
        ]

    async def paused_conversations(self) -> list[PausedConversation]:
        return [
            PausedConversation(
                row["conversation_id"],
                row["org"],
                row["agent_id"],
                row["minutes"],
                datetime.fromisoformat(row["until"]),
            )
            for row in sorted(self.rows("heartbeat_pauses"), key=lambda row: row["until"])
        ]

    async def unfinished_creations(self) -> list[Orphan]:
        return [Orphan(row["agent_id"], row["org"], row["actor"]) for row in self.rows("creations")]

    async def unclaimed_blocks(self, blocks: list[MadeBlock]) -> list[MadeBlock]:
        streams = self.database.schema("agent").streams

        def claimed(block: MadeBlock) -> bool:
            payloads = {one.topic: one.payload_json for one in streams.get(block.owner_id, [])}
            own = json.loads(payloads.get("agent.created", "{}")).get("own_block_ids", [])
            created = json.loads(payloads.get("conversation.created", '{"config":{}}'))
            isolated = created["config"].get("isolated_blocks", {}).values()
            return "agent.requested" in payloads or block.block_id in [*own, *isolated]

        return [block for block in blocks if not claimed(block)]


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
        self.drivers = RunEngine(
            EngineDependencies(
                repository=self.repository,
                models=model,
                tools=self.tools,
                queries=world.queries,
                bus=self.bus,
                clock=world.clock,
                ids=world.ids,
                committed=lambda: None,
                quarantine=Quarantine(world.clock),
                policies=lambda: world.policies,
            )
        )
        ports = HandlerDependencies(
            self.repository, model, world.queries, self.bus, self.drivers, world.clock, world.ids
        )
        self.handlers = Handlers(ports)
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
        self.clock = FakeClock()
        self.ids = CountingIds()
        self.database = InMemoryDatabase(self.clock.monotonic)
        self.network = InMemoryNetwork()
        self.queries = TwinQueries(self.database)
        self.schema = self.database.schema("agent")
        self.deltas: dict[str, list[Any]] = {}
        self.tool_runs: list[str] = []
        self.policies: ToolPolicies | None = ToolPolicies()

    async def start_memory(self) -> None:
        store = InMemoryEventStore(self.database, "memory", "memory-1")
        repository = Repository(store, "memory", memory_projections.project)
        attached = InMemoryAgentAttachments(self.database)
        ports = MemoryPorts(
            clock=self.clock,
            attached=attached,
            past_block_versions=InMemoryPastBlockVersions(self.database),
            archives=InMemoryArchiveQueries(self.database),
            passages=InMemoryPassageSearch(self.database),
            embedders=OneEmbedder(),
            locks=AggregateLocks(),
            folders=folder_ports(self.database),
            messages=message_ports(
                InMemoryMessageVectors(self.database), OneEmbedder(), self.clock
            )[0],
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
        prompt = system_prompt(config, blocks, previous_messages=0, at=NOW)
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
        return [event_of("agent", one) for one in self.schema.streams.get(aggregate_id, [])]

    def story(self, aggregate_id: str = CONVERSATION) -> list[str]:
        """The topics of what happened."""
        return [event.topic for event in self.events(aggregate_id)]

    def row(self, table: str, key: str) -> JsonObject:
        [row] = [
            one for one in self.schema.rows(table) if key in (one.get("id"), one.get("run_id"))
        ]
        return row
