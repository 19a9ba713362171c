"""A definition as the detectors of security rules look at it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from libs.agent_toml.definition import AgentDefinition
from libs.agent_toml.source_dangers import Danger
from libs.agent_toml.toml_positions import Path
from libs.agent_toml.tool_checks import is_typescript, tool_name
from libs.agent_toml.tool_sources import look_at
from libs.contracts.letta.request_size_limits import walk
from libs.contracts.tools.base_tools.catalogue import SERVER_TOOLS
from libs.contracts.tools.tool_permission_evaluation import called_tool, needs_of


@dataclass(frozen=True, slots=True)
class Finding:
    """Where a rule is broken, and in what way."""

    path: Path
    words: str


class Subject:
    """A definition as the detectors look at it: what is dear to find is found once."""

    def __init__(self, definition: AgentDefinition) -> None:
        self.definition = definition
        self.texts: list[tuple[Path, str]] = [
            (path, value)
            for path, value in walk(definition.model_dump(mode="json", exclude_none=True))
            if isinstance(value, str)
        ]
        self.tool_names = [tool_name(tool) for tool in definition.tool]
        self.dangers: list[tuple[int, Danger]] = [
            (index, danger)
            for index, tool in enumerate(definition.tool)
            if tool.source is not None and not is_typescript(tool)
            for danger in look_at(tool.source).dangers
        ]

    def needs(self) -> Iterator[tuple[Path, str, frozenset[str]]]:
        """The tools of the agent: where each stands, its name and what it needs."""
        for index, name in enumerate(self.definition.tools):
            tool = SERVER_TOOLS.get(name)
            if tool is not None:
                yield ("tools", index), name, needs_of(called_tool(tool))
        for index in range(len(self.definition.tool)):
            yield ("tool", index), self.tool_names[index], frozenset({"code"})
        for index, server in enumerate(self.definition.mcp_servers):
            if server.tools != []:
                yield ("mcp_servers", index), server.name, frozenset({"mcp"})

    def names_with_approval(self) -> set[str]:
        """The tools whose calls a person has to approve."""
        rules = self.definition.tool_rules
        by_rule = {rule.tool_name for rule in rules if rule.type == "requires_approval"}
        names = zip(self.tool_names, self.definition.tool, strict=True)
        return by_rule | {name for name, tool in names if tool.requires_approval}

    def addresses(self) -> Iterator[tuple[Path, str]]:
        """The addresses that the server asks for the agent."""
        for index, server in enumerate(self.definition.mcp_servers):
            if server.url is not None:
                yield ("mcp_servers", index, "url"), server.url
        for index, schedule in enumerate(self.definition.schedules):
            if schedule.callback_url is not None:
                yield ("schedules", index, "callback_url"), schedule.callback_url
