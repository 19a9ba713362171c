"""The blocks and the agents of a file as histories: each begins with its creation."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from libs.agent_document.agent_fields import AGENT_FIELDS, BLOCK_FIELDS, same_values
from libs.contracts.agent.agents import AgentCreated, AgentSecretsReplaced
from libs.contracts.agent.tool_rule_evaluation import RULES
from libs.contracts.agent_file import HistoryPart
from libs.contracts.appended_histories import PastHistory
from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.sleeptime import SLEEPTIME_TYPES
from libs.contracts.letta.agent_state import AgentConfig
from libs.contracts.letta.block_requests import CreateBlock
from libs.contracts.letta.blocks import BlockState
from libs.contracts.letta.model_configs import LLMConfig
from libs.contracts.letta.tool_rules import RequiresApprovalToolRule
from libs.contracts.memory.blocks import BlockCreated
from libs.contracts.state_size_limits import oversize_agent, oversize_block
from libs.contracts.tools.base_tools.catalogue import SERVER_TOOLS
from services.api.v1.agent_file.conversation_lines import past_event
from services.api.v1.agent_file.definition_lines import Ids, TakenTool
from services.api.v1.agent_file.entry_models import AgentEntry
from services.api.v1.agent_file.entry_problems import AgentFileInvalid, LeftOut, Path, entry_name
from services.api.v1.agent_file.import_options import COPY_SUFFIX, ImportOptions, PresentThings

CONTEXT_WINDOW_UNTIL_CHANGED = 128_000


class AgentHistories:
    """Makes the histories of the blocks and of the agents of one file."""

    def __init__(
        self, ids: Ids, options: ImportOptions, present: PresentThings, left_out: list[LeftOut]
    ) -> None:
        self.ids = ids
        self.file = ids.file
        self.options = options
        self.present = present
        self.left_out = left_out

    def leave_out(self, path: Path, why: str) -> None:
        """Note that an entry is not taken over, or not as it is there."""
        self.left_out.append(LeftOut(entry_name(path), why))

    def blocks(self) -> Iterator[HistoryPart]:
        """The memory blocks; each belongs to the first agent that has it."""
        owners = {
            name: self.ids.agent(agent.id)
            for agent in reversed(self.file.agents)
            for name in agent.block_ids
        }
        for index, entry in enumerate(self.file.blocks):
            block_id = self.ids.own("block", entry.id)
            place = self.file.place("blocks", index)
            yield self.block(place, block_id, entry, owners.get(entry.id, ""))
        for number, agent in enumerate(self.file.agents):
            owner = self.ids.agent(agent.id)
            for index, block in enumerate(agent.memory_blocks):
                place = (*self.file.agent_place(number), "memory_blocks", index)
                yield self.block(place, inline_block_id(owner, index), block, owner)

    def block(self, place: Path, block_id: str, entry: CreateBlock, owner: str) -> HistoryPart:
        """A block as it is made. One whose value is longer than its limit gets that as a limit."""
        if len(entry.value) > entry.limit:
            self.leave_out((*place, "limit"), f"{entry.limit} is less than its value has: raised")
        same = same_values(BLOCK_FIELDS, entry, "agent_file")
        same["limit"] = max(entry.limit, len(entry.value))
        block = BlockState(
            **same,
            id=block_id,
            project_id=self.options.project_id,
            created_by_id=self.options.actor,
            last_updated_by_id=self.options.actor,
        )
        problem = oversize_block(block.model_dump(mode="json"))
        if problem:
            raise AgentFileInvalid([f"{entry_name(place)}: {problem}"])
        created = BlockCreated(
            originator_id=block_id,
            originator_version=1,
            timestamp=self.options.now,
            block=block,
            agent_id=owner,
        )
        return history("memory", created)

    def agents(self) -> Iterator[HistoryPart]:
        """The agents, in the order of the file."""
        owned: set[str] = set()
        for index, entry in enumerate(self.file.agents):
            own = [name for name in dict.fromkeys(entry.block_ids) if name not in owned]
            owned.update(own)
            yield history("agent", *self.agent(index, entry, own))

    def agent(self, index: int, entry: AgentEntry, own: list[str]) -> Iterator[Event]:
        """The first events of an agent: its creation, and its secrets."""
        agent_id = self.ids.agent(entry.id)
        place = self.file.agent_place(index)
        tools = self.tools(place, entry)
        config = self.config(index, entry, tools)
        inline = [inline_block_id(agent_id, number) for number in range(len(entry.memory_blocks))]
        problem = oversize_agent(config.model_dump(mode="json"))
        if problem:
            raise AgentFileInvalid([f"{entry_name(place)}: {problem}"])
        yield AgentCreated(
            originator_id=agent_id,
            originator_version=1,
            timestamp=self.options.now,
            config=config,
            tools=[tool.name for tool in tools],
            tool_ids=[tool.id for tool in tools],
            tags=sorted(set(entry.tags)),
            block_ids=[*inline, *(self.ids.own("block", name) for name in unique(entry.block_ids))],
            own_block_ids=[*inline, *(self.ids.own("block", name) for name in own)],
        )
        secrets = self.secrets(place, entry)
        if secrets:
            yield AgentSecretsReplaced(
                originator_id=agent_id,
                originator_version=2,
                timestamp=self.options.now,
                secrets=secrets,
            )

    def config(self, index: int, entry: AgentEntry, tools: list[TakenTool]) -> AgentConfig:
        """The configuration of an agent. It refers to nothing that the file does not have."""
        place = self.file.agent_place(index)
        llm_config = entry.llm_config or model_until_changed(self.options.model)
        if llm_config is None:
            where = entry_name((*place, "llm_config"))
            raise AgentFileInvalid([f"{where}: which model? Give one, or import with `model`"])
        settings = entry.compaction_settings
        own = same_values(AGENT_FIELDS, entry, "agent_file") | {
            "id": self.ids.agent(entry.id),
            "name": self.name(index, entry),
            "llm_config": llm_config,
            "compaction_settings": None if settings is None else settings.model_dump(mode="json"),
            "enable_sleeptime": self.has_sleeptime_group(entry) or entry.enable_sleeptime,
            "tool_rules": self.rules(place, entry, tools),
            "timezone": entry.timezone or "UTC",
        }
        return AgentConfig(
            **own,
            project_id=self.options.project_id,
            created_by_id=self.options.actor,
            last_updated_by_id=self.options.actor,
            created_at=self.options.now,
            updated_at=self.options.now,
        )

    def has_sleeptime_group(self, entry: AgentEntry) -> bool:
        """Whether the file has the group that reviews an agent: of the agent it does not say so."""
        managers = (group.manager_config for group in self.file.groups)
        return any(
            manager.manager_type in SLEEPTIME_TYPES and manager.manager_agent_id == entry.id
            for manager in managers
        )

    def name(self, index: int, entry: AgentEntry) -> str:
        """The name of an agent here."""
        if self.options.name and index == 0:
            return self.options.name
        name = entry.name or f"agent_{index}"
        return name + COPY_SUFFIX if self.options.append_copy_suffix else name

    def tools(self, place: Path, entry: AgentEntry) -> list[TakenTool]:
        """The tools of an agent by name, without those that were left out."""
        taken = {tool.name: tool for name in entry.tool_ids if (tool := self.ids.tools.get(name))}
        by_name = {tool.name: tool for tool in self.ids.tools.values()}
        for number, name in enumerate(entry.tools):
            there = self.present.tools.get(name)
            if name in SERVER_TOOLS:
                taken[name] = TakenTool(SERVER_TOOLS[name].id, name)
            elif name in by_name:
                taken[name] = by_name[name]
            elif there is not None:
                taken[name] = TakenTool(there, name)
            else:
                self.leave_out((*place, "tools", number), f"there is no tool called '{name}'")
        return [taken[name] for name in sorted(taken)]

    def rules(self, place: Path, entry: AgentEntry, tools: list[TakenTool]) -> list[JsonObject]:
        """The tool rules of an agent, with one for each tool that nobody has accepted yet."""
        rules: list[JsonObject] = []
        for number, given in enumerate(entry.tool_rules):
            try:
                [rule] = RULES.validate_python([given])
            except ValidationError as invalid:
                first = invalid.errors(include_url=False)[0]
                self.leave_out((*place, "tool_rules", number), f"no rule: {first['msg']}")
                continue
            rules.append(rule.model_dump(mode="json"))
        for tool in tools:
            needed = RequiresApprovalToolRule(tool_name=tool.name).model_dump(mode="json")
            if tool.unaccepted and needed not in rules:
                rules.append(needed)
        return rules

    def secrets(self, place: Path, entry: AgentEntry) -> dict[str, str]:
        """The sealed variables of an agent's tools: what the request gave. A file has names only,
        or what somebody wrote into it by hand, which is not taken."""
        for name in entry.variables:
            if name not in self.options.secrets:
                why = "it has no value: set it by PATCH of the agent, or import with `secrets`"
                self.leave_out((*place, "secrets", name), why)
        return {**self.options.secrets}


def model_until_changed(handle: str | None) -> LLMConfig | None:
    """A config for an agent whose file has none: before it ends, the import changes it to what this
    server knows of the wanted model."""
    if handle is None:
        return None
    provider, _, model = handle.partition("/")
    return LLMConfig(
        model=model,
        model_endpoint_type=provider,
        context_window=CONTEXT_WINDOW_UNTIL_CHANGED,
        handle=handle,
    )


def inline_block_id(agent_id: str, number: int) -> str:
    """The id of a block that stands within an agent."""
    return derived_id("block", agent_id, "memory_blocks", str(number))


def unique(names: list[str]) -> list[str]:
    """Names in their order, each once."""
    return [*dict.fromkeys(names)]


def history(service: str, *events: Event) -> HistoryPart:
    """The whole history of an aggregate as a line."""
    past = PastHistory(aggregate_id=events[0].originator_id, events=tuple(map(past_event, events)))
    return HistoryPart.model_validate({"service": service, "history": past})
