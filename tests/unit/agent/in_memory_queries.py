"""The reads of the agent service, in memory."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from libs.contracts.agent.conversations import Message, main_conversation
from libs.contracts.agent.summaries import SummarisedMessages
from libs.contracts.letta.blocks import BlockState
from libs.contracts.memory.open_file_rendering import FILES_LISTED_MAX
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.work.agent_runs import RunProgress
from services.agent.adapters.conversation_queries import (
    APPROVALS_SEEN_MAX,
    PAUSES_SEEN_MAX,
    LostConversation,
    PausedConversation,
    WaitingApproval,
)
from services.agent.adapters.conversation_search import FoundMessage, Search
from services.agent.adapters.reconciliation_queries import (
    SWEPT_MAX,
    LostPart,
    MadeBlock,
)
from services.agent.adapters.routed_message_queries import RoutedProgress
from services.agent.adapters.run_queries import (
    CALLERS,
    WAITING_CALLS_MAX,
    CallChain,
    DueCallback,
    Orphan,
    RunOrigin,
)
from services.agent.adapters.summary_queries import (
    MESSAGE_BYTES_MAX,
    SUMMARISED_ROLES,
    TEXT_CHARS_MAX,
    DueSummary,
    WantedMessages,
)
from services.agent.adapters.tool_queries import ToolRunProgress
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.agents.attached_folders import AttachedFile, AttachedFolder
from services.agent.domain.prompts.system_prompt import (
    COUNTED_MAX,
    TAGS_SHOWN_MAX,
    ArchivalMemory,
    AttachedBlock,
)
from services.agent.domain.runs.agent_call_deadlocks import WaitingCall
from services.agent.domain.summaries.summary_transcript import HistoryMessage
from services.agent.domain.tools.custom_tools import CustomTool
from tests.unit.agent.in_memory_batch_queries import InMemoryBatchQueries
from tests.unit.agent.in_memory_replay_queries import InMemoryReplayQueries
from tests.unit.given import NOW


class InMemoryQueries(InMemoryBatchQueries, InMemoryReplayQueries):
    """Keeps the contract of `Queries`, from in-memory tables; tools and texts of files are given to
    it instead. tests/contract/test_agent_queries.py compares it with Postgres."""

    def __init__(self, database: InMemoryDatabase) -> None:
        self.database = database
        self.tools: dict[tuple[str, str], CustomTool] = {}
        self.tools_deleted: set[tuple[str, str]] = set()
        self.tools_read = 0
        self.texts: dict[str, str] = {}
        self.every_tool_run: ToolRunProgress | None = None

    def rows(self, table: str, service: str = "agent", org: str | None = None) -> list[Any]:
        """The rows of a table, of one organisation if it is named."""
        rows: list[Any] = self.database.schema(service).rows(table)
        return rows if org is None else [row for row in rows if row["org"] == org]

    async def seen_blocks(self, org: str, block_ids: list[str]) -> list[AttachedBlock]:
        rows = self.rows("blocks", "memory")
        blocks = {row["id"]: row for row in rows if row["org"] == org}
        fields = ("label", "value", "description", "limit", "read_only")
        return [
            AttachedBlock(
                block_id,
                blocks[block_id]["version"],
                *(blocks[block_id]["fields"][name] for name in fields),
                blocks[block_id].get("changed_by"),
            )
            for block_id in block_ids
            if block_id in blocks
        ]

    async def archive_owner(self, org: str, agent_id: str) -> str:
        groups = {
            row["id"]: row["manager_agent_id"]
            for row in self.rows("groups", "groups", org)
            if row["manager_type"] == "voice_sleeptime"
        }
        members = self.rows("group_members", "groups", org) if groups else []
        return next(
            (
                groups[row["group_id"]]
                for row in members
                if row["agent_id"] == agent_id and row["group_id"] in groups
            ),
            agent_id,
        )

    async def archival_memory(self, org: str, agent_id: str) -> ArchivalMemory:
        newest: list[Any] = []
        for attached in self.rows("archive_agents", "memory", org):
            if attached["agent_id"] == agent_id:
                rows = [
                    row
                    for row in self.rows("passages", "memory", org)
                    if row["collection_id"] == attached["archive_id"]
                ]
                rows.sort(key=lambda row: (row["created_at"], row["id"]), reverse=True)
                newest += rows[: COUNTED_MAX + 1]
        newest = newest[: COUNTED_MAX + 1]
        tags = sorted({tag for row in newest for tag in row["tags"]})
        return ArchivalMemory(len(newest), tuple(tags[:TAGS_SHOWN_MAX]))

    async def seen_folders(self, org: str, agent_id: str, chars_max: int) -> list[AttachedFolder]:
        every = await self.files_of_agent(org, agent_id, 1_000_000)
        files = [
            replace(file, text=self.texts.get(file.id, ""))
            if file.is_open and file.lines is not None
            else file
            for file in every[:FILES_LISTED_MAX]
        ]
        folders = {row["id"]: row for row in self.rows("folders", "memory", org)}
        found = [
            AttachedFolder(
                folder_id,
                folders[folder_id]["name"],
                folders[folder_id]["fields"]["description"],
                folders[folder_id]["fields"]["instructions"],
                [file for file in files if file.folder_id == folder_id],
            )
            for folder_id in await self.folder_ids(org, agent_id)
            if folder_id in folders
        ]
        if not found:
            return []
        return [*found[:-1], replace(found[-1], unlisted=len(every) - len(files))]

    async def folder_ids(self, org: str, agent_id: str) -> list[str]:
        rows = self.rows("agent_folders", "memory", org)
        found = [row for row in rows if row["agent_id"] == agent_id]
        found.sort(key=lambda row: (row["created_at"], row["folder_id"]))
        return [row["folder_id"] for row in found]

    async def files_of_agent(self, org: str, agent_id: str, limit: int) -> list[AttachedFile]:
        names = {row["id"]: row["name"] for row in self.rows("folders", "memory", org)}
        seen = [
            folder_id for folder_id in await self.folder_ids(org, agent_id) if folder_id in names
        ]
        opened = {
            row["file_id"]: row
            for row in self.rows("open_files", "memory", org)
            if row["agent_id"] == agent_id
        }
        files = [row for row in self.rows("files", "memory", org) if row["folder_id"] in seen]
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
        created = {row["id"]: row["created_at"] for row in self.rows("files", "memory", org)}
        files = await self.files_of_agent(org, agent_id, 1_000_000)
        found = [file for file in files if file.name in names]
        found.sort(key=lambda file: (created[file.id], file.id))
        return found[:FILES_LISTED_MAX]

    async def file_segments(
        self, org: str, file_id: str, *, first_line: int, after: int, segments: int
    ) -> list[tuple[int, int, str]]:
        return [(0, 1, self.texts[file_id])] if after < 0 and file_id in self.texts else []

    async def custom_tools(self, org: str, tool_ids: list[str]) -> list[CustomTool]:
        self.tools_read += 1
        return [self.tools[org, tool_id] for tool_id in tool_ids if (org, tool_id) in self.tools]

    async def custom_tools_named(self, org: str, names: list[str]) -> list[CustomTool]:
        there = [tool for (whose, _), tool in self.tools.items() if whose == org]
        return sorted((tool for tool in there if tool.name in names), key=lambda tool: tool.name)

    async def tool_run(self, org: str, tool_run_id: str) -> ToolRunProgress | None:
        return self.every_tool_run

    async def labels(self, org: str, block_ids: list[str]) -> dict[str, str]:
        rows = self.rows("blocks", "memory", org)
        return {row["id"]: row["label"] for row in rows if row["id"] in block_ids}

    async def attached_block(self, org: str, agent_id: str, label: str) -> str | None:
        for agent in self.rows("agents", org=org):
            if agent["id"] == agent_id:
                labels = await self.labels(org, agent["block_ids"])
                return next(
                    (block_id for block_id in agent["block_ids"] if labels.get(block_id) == label),
                    None,
                )
        return None

    async def agents_attached_to(self, org: str, block_id: str) -> list[str]:
        there = {(row["id"], row["org"]) for row in self.rows("blocks", "memory")}
        rows = [row for row in self.rows("agents") if row["org"] == org]
        return [
            row["id"]
            for row in rows
            if block_id in row["block_ids"] and (block_id, org) not in there
        ]

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
        found = [row for row in rows if (row["id"], row["conversation_id"], row["org"]) == known]
        return str(found[0]["run_id"]) if found else None

    async def due_callbacks(self, of_org: int, limit: int) -> list[DueCallback]:
        runs = {row["id"]: row for row in self.rows("runs")}
        now = NOW + timedelta(seconds=self.database.clock())
        due = [
            (row, runs[row["run_id"]])
            for row in self.rows("callbacks")
            if row["run_id"] in runs and runs[row["run_id"]]["org"] == row["org"]
            if datetime.fromisoformat(row["next_at"]) <= now
            if runs[row["run_id"]]["status"] in ("completed", "failed", "cancelled")
        ]
        turns: Counter[str] = Counter()
        order: dict[str, tuple[int, str]] = {}
        for row, _ in sorted(due, key=lambda entry: (entry[0]["next_at"], entry[0]["run_id"])):
            of = (row["conversation_id"], row["url"].split("/")[2])
            turns.update(of)
            order[row["run_id"]] = (max(turns[key] for key in of), row["next_at"])
        due.sort(key=lambda found: order[found[0]["run_id"]])
        places: Counter[str] = Counter()
        placed: list[tuple[int, Any, Any]] = []
        for row, run in due:
            places[row["org"]] += 1
            placed.append((places[row["org"]], row, run))
        placed.sort(key=lambda found: found[0])
        callbacks = [
            DueCallback(
                row["run_id"],
                row["org"],
                row["conversation_id"],
                row["url"],
                row["attempts"],
                run["fields"],
                run.get("usage"),
            )
            for place, row, run in placed
            if place <= of_org
        ]
        leases, clock = self.database.schema("agent").leases, self.database.clock()
        held = {key for key, lease in leases.items() if lease.expires_at >= clock}
        return [callback for callback in callbacks if callback.id not in held][:limit]

    async def origin_of_run(self, org: str, conversation_id: str, run_id: str) -> RunOrigin | None:
        accepted = [
            event.metadata
            for event in self.database.schema("agent").streams.get(conversation_id, [])
            if (event.topic, event.about, event.org) == ("run.accepted", run_id, org)
        ]
        names = ("correlation_id", "actor", "traceparent")
        found = [str(accepted[-1].get(name) or "") for name in names] if accepted else []
        return RunOrigin(*found) if found else None

    async def recorded_messages(
        self, org: str, conversation_id: str, message_ids: list[str]
    ) -> list[Message]:
        rows = {row["id"]: row for row in self.rows("messages", org=org)}
        there = {name: rows[name] for name in message_ids if name in rows}
        events = self.database.schema("agent").streams.get(conversation_id, [])
        found: list[Message] = []
        for row in sorted(there.values(), key=lambda row: row["position"]):
            if row["conversation_id"] != conversation_id:
                continue
            own, *behind = events[row["position"] - 1 :]
            found.append(Message.model_validate(own.payload["message"]))
            appended = (event for event in behind if event.topic == "message.appended")
            messages = (Message.model_validate(event.payload["message"]) for event in appended)
            found.extend(takewhile(lambda message: message.hidden, messages))
        return found

    async def configuration_at(self, org: str, agent_id: str, version: int) -> AgentDesign | None:
        found = [
            event.payload
            for event in self.database.schema("agent").streams.get(agent_id, [])[:version]
            if event.topic in ("agent.created", "agent.updated") and event.org == org
        ]
        return AgentDesign.model_validate(found[-1]) if found else None

    async def run_messages(self, org: str, run_id: str) -> list[dict[str, Any]]:
        rows = [
            row for row in self.rows("messages") if (row["run_id"], row["org"]) == (run_id, org)
        ]
        ordered = sorted(rows, key=lambda row: row["position"])
        return [fields for row in ordered for fields in row["v1_messages"]]

    async def call_chain(self, org: str, run_id: str) -> CallChain | None:
        runs = [row for row in self.rows("runs") if (row["id"], row["org"]) == (run_id, org)]
        called = [row for row in self.rows("called_runs", org=org) if row["run_id"] == run_id]
        callers = CALLERS.validate_python(called[0]["callers"]) if called else []
        return CallChain(runs[0]["conversation_id"], callers) if runs else None

    async def run_progress(self, org: str, run_id: str) -> RunProgress | None:
        runs = [row for row in self.rows("runs", org=org) if row["id"] == run_id]
        if not runs:
            return None
        ended = {name: runs[0].get(name) for name in ("usage", "error")}
        return RunProgress(runs[0]["status"], runs[0].get("stop_reason") or "", **ended)

    async def routed_progress(self, org: str, routed_message_id: str) -> RoutedProgress | None:
        rows = [
            row
            for row in self.rows("routed_deliveries", "groups", org)
            if row["routed_message_id"] == routed_message_id
        ]
        if not rows:
            return None
        last = max(rows, key=lambda row: row["number"])
        [message] = [
            row
            for row in self.rows("routed_messages", "groups", org)
            if row["id"] == routed_message_id
        ]
        reason = (message.get("error") or {}).get("reason", "")
        return RoutedProgress(message["status"], last["agent_id"], last["run_id"], reason)

    async def waiting_calls(self, org: str, run_id: str) -> list[WaitingCall]:
        status = {row["id"]: row["status"] for row in self.rows("runs", org=org)}
        rows = [row for row in self.rows("called_runs", org=org) if row["run_id"] in status]
        ahead = [row for row in rows if row["run_id"] == run_id]
        for row in ahead:
            ahead += [
                call
                for call in rows
                if call["caller_conversation_id"] == row["conversation_id"] and call not in ahead
                if call["waits"] and status.get(call["caller_run_id"]) == "running"
                if status[call["run_id"]] in ("created", "running")
            ]
        return [
            WaitingCall(
                row["run_id"],
                row["conversation_id"],
                row["caller_conversation_id"],
                status[row["run_id"]] == "created",
            )
            for row in ahead[:WAITING_CALLS_MAX]
        ]

    async def agents_with_tags(
        self, org: str, every: list[str], some: list[str], limit: int
    ) -> list[str]:
        found = [
            row
            for row in self.rows("agents", org=org)
            if not row.get("hidden") and set(every) <= set(row["tags"])
            if not some or set(some) & set(row["tags"])
        ]
        found.sort(key=lambda row: (row["created_at"], row["id"]))
        return [row["id"] for row in found][:limit]

    async def has_run(self, org: str, conversation_id: str, run_id: str) -> bool:
        known = (run_id, conversation_id, org)
        rows = self.rows("runs")
        return known in {(row["id"], row["conversation_id"], row["org"]) for row in rows}

    async def search_messages(self, search: Search) -> list[FoundMessage]:
        conversations = {
            row["id"]
            for row in self.rows("conversations", org=search.org)
            if row["agent_id"] == search.agent_id
        } | {main_conversation(search.agent_id)}
        newest: dict[FoundMessage, int] = {}
        for row in self.rows("messages", org=search.org):
            found = found_message(row)
            said = found.text and (search.text or "").casefold() in found.text.casefold()
            here = row["conversation_id"] in conversations
            if here and said and is_sought(found, search):
                newest[found] = max(row["position"], newest.get(found, 0))
        ordered = sorted(
            newest, key=lambda message: (message.created_at, newest[message]), reverse=True
        )
        return ordered[: search.limit]

    async def messages_named(self, search: Search, ids: list[str]) -> list[FoundMessage]:
        rows = {
            row["id"]: found_message(row)
            for row in self.rows("messages", org=search.org)
            if row["agent_id"] == search.agent_id
        }
        return [
            rows[message_id]
            for message_id in ids
            if message_id in rows and is_sought(rows[message_id], search)
        ]

    async def orphaned_runs(self, but: list[str]) -> list[Orphan]:
        schema = self.database.schema("agent")
        leases, streams, now = schema.leases, schema.streams, self.database.clock()
        run_out = [
            Orphan(key, streams[key][0].org if key in streams else "", "")
            for key, lease in sorted(leases.items(), key=lambda entry: entry[1].expires_at)
            if lease.expires_at < now and key.startswith("conv-") and key not in but
        ]
        unled = [
            Orphan(row["conversation_id"], row["org"], "")
            for row in self.rows("runs")
            if row["status"] == "running" and row["conversation_id"] not in {*leases, *but}
        ]
        return run_out[:SWEPT_MAX] + unled[:SWEPT_MAX]

    async def block_states(self, org: str, block_ids: list[str]) -> list[BlockState]:
        rows = {row["id"]: row for row in self.rows("blocks", "memory") if row["org"] == org}
        found = [rows[block_id] for block_id in block_ids if block_id in rows]
        return [BlockState(**row["fields"], metadata=row["metadata"]) for row in found]

    def conversations(self, org: str) -> list[Any]:
        rows = self.rows("conversations", org=org)
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

    async def summarised_messages(
        self, org: str, conversation_id: str, wanted: WantedMessages
    ) -> SummarisedMessages | None:
        rows = [
            row
            for row in self.summarised_rows(org, conversation_id)
            if wanted.since is None or moment_of(row) >= wanted.since
            if wanted.until is None or moment_of(row) <= wanted.until
        ][-wanted.count :]
        if not rows:
            return None
        return SummarisedMessages(
            conversation_id=conversation_id,
            first=rows[0]["position"],
            last=rows[-1]["position"],
            count=len(rows),
            bytes=sum(min(len(json.dumps(row["v1_messages"])), MESSAGE_BYTES_MAX) for row in rows),
            start=min(map(moment_of, rows)),
            end=max(map(moment_of, rows)),
        )

    def summarised_rows(self, org: str, conversation_id: str) -> list[Any]:
        """The rows of messages that summaries are about, in order."""
        rows = [
            row
            for row in self.rows("messages", org=org)
            if row["conversation_id"] == conversation_id and row["role"] in SUMMARISED_ROLES
        ]
        return sorted(rows, key=lambda row: row["position"])

    async def history_page(
        self, org: str, messages: SummarisedMessages, after: int, limit: int
    ) -> list[HistoryMessage]:
        return [
            HistoryMessage(
                row["position"],
                row["role"],
                row["text"][:TEXT_CHARS_MAX],
                row["v1_messages"]
                if len(json.dumps(row["v1_messages"])) <= MESSAGE_BYTES_MAX
                else None,
            )
            for row in self.summarised_rows(org, messages.conversation_id)
            if row["position"] > after and messages.first <= row["position"] <= messages.last
            if messages.start <= moment_of(row) <= messages.end
        ][:limit]

    async def due_summaries(self, of_org: int, limit: int) -> list[DueSummary]:
        leases, clock = self.database.schema("agent").leases, self.database.clock()
        held = {key for key, lease in leases.items() if lease.expires_at >= clock}
        running = [
            row
            for row in sorted(self.rows("summaries"), key=lambda row: row["created_at"])
            if row["status"] == "running" and row["summaries_id"] not in held
        ]
        places: Counter[str] = Counter()
        placed = []
        for row in running:
            places[row["org"]] += 1
            placed.append((places[row["org"]], row))
        placed.sort(key=lambda entry: entry[0])
        return [
            DueSummary(row["summaries_id"], row["org"], row["agent_id"], row["id"])
            for place, row in placed
            if place <= of_org
        ][:limit]

    async def waiting_approvals(self, seconds_max: float) -> list[WaitingApproval]:
        there = {row["id"] for row in self.rows("agents")}
        waiting = [row for row in self.rows("approvals") if row["agent_id"] in there]
        rows = sorted(waiting, key=lambda row: row["requested_at"])
        return [
            WaitingApproval(
                row["conversation_id"],
                row["org"],
                datetime.fromisoformat(row["requested_at"]),
                seconds_max,
            )
            for row in rows[:APPROVALS_SEEN_MAX]
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
        ][:PAUSES_SEEN_MAX]

    async def unclaimed_blocks(self, blocks: list[MadeBlock]) -> list[MadeBlock]:
        streams = self.database.schema("agent").streams

        def claimed(block: MadeBlock) -> bool:
            events = [event for event in streams.get(block.owner_id, []) if event.org == block.org]
            payloads = {event.topic: event.payload_json for event in events}
            own = json.loads(payloads.get("agent.created", "{}")).get("own_block_ids", [])
            created = json.loads(payloads.get("conversation.created", '{"config":{}}'))
            isolated = created["config"].get("isolated_blocks", {}).values()
            return block.block_id in [*own, *isolated]

        return [block for block in blocks if not claimed(block)]


def moment_of(row: Any) -> datetime:
    """When a message is dated."""
    return datetime.fromisoformat(row["created_at"])


def found_message(row: Any) -> FoundMessage:
    """A message as a search shows it."""
    return FoundMessage(row["role"], datetime.fromisoformat(row["created_at"]), row["text"])


def is_sought(message: FoundMessage, search: Search) -> bool:
    """Whether a search is about a message of its agent, whatever that says."""
    return (
        message.role in search.roles
        and (search.since is None or message.created_at >= search.since)
        and (search.until is None or message.created_at <= search.until)
    )
