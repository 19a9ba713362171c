"""Decide whether a tool may be called: by all allow-lists, and by the capabilities it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from libs.contracts.environment_parsing import Environment, wrong
from libs.contracts.letta.enums import ToolType
from libs.contracts.tools.base_tools.definition import BaseTool
from libs.contracts.tools.tool_permissions import CAPABILITIES, Capability

TOOLS_VARIABLE = "HEELER_ALLOWED_TOOLS"
CAPABILITIES_VARIABLE = "HEELER_ALLOWED_CAPABILITIES"
# How often every process checks whether lists have changed; a process that is notified checks at
# once.
LOOK_EVERY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class CompiledList:
    """An allow-list as sets, for quick look-ups; None is no limit."""

    tools: frozenset[str] | None
    capabilities: frozenset[str] | None


NO_LIMIT = CompiledList(None, None)


def compile_list(tools: Iterable[str] | None, capabilities: Iterable[str] | None) -> CompiledList:
    """The compiled list of these tools and capabilities."""
    return CompiledList(
        None if tools is None else frozenset(tools),
        None if capabilities is None else frozenset(capabilities),
    )


@dataclass(frozen=True, slots=True)
class ToolPolicies:
    """All lists as they were at one time: the operator's, and those of the scopes by organisation,
    kind and id."""

    system: CompiledList = NO_LIMIT
    scopes: Mapping[tuple[str, str, str], CompiledList] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a tool. A field is empty where the caller has no such thing."""

    org: str
    project_id: str = ""
    agent_id: str = ""


@dataclass(frozen=True, slots=True)
class CalledTool:
    """A tool that somebody wants to call. Source that is not a stored tool has no id, and no list
    of tools allows it, whatever its name."""

    id: str
    name: str
    type: str


def refusal_by_policies(policies: ToolPolicies | None, caller: Caller, tool: CalledTool) -> str:
    """Why a tool may not be called, in words for a person or a model; empty if it may.

    While the lists are not known (None), no tool may be called, except that an agent may always
    speak to its user."""
    if tool.name in SPEAKING and tool.type == ToolType.letta_core.value:
        return ""
    if policies is None:
        return f"'{tool.name}' was not called: which tools are allowed is not known yet."
    needs = needs_of(tool)
    why = refusal_by_list(policies.system, tool, needs)
    if why:
        return f"'{tool.name}' is not allowed on this server: {why}."
    if not policies.scopes:
        return ""
    for kind, scope_id in (
        ("organisation", caller.org),
        ("project", caller.project_id),
        ("agent", caller.agent_id),
    ):
        found = policies.scopes.get((caller.org, kind, scope_id)) if scope_id else None
        why = refusal_by_list(found, tool, needs) if found else ""
        if why:
            return f"'{tool.name}' is not allowed for this {kind}: {why}."
    return ""


def is_withheld(policies: ToolPolicies | None, caller: Caller, capability: Capability) -> bool:
    """Whether any list leaves this capability out; true while the lists are not known (None)."""
    if policies is None:
        return True
    scopes = (
        ("organisation", caller.org),
        ("project", caller.project_id),
        ("agent", caller.agent_id),
    )
    found = [policies.scopes.get((caller.org, *scope)) for scope in scopes]
    return any(
        allow_list is not None
        and allow_list.capabilities is not None
        and capability not in allow_list.capabilities
        for allow_list in (policies.system, *found)
    )


def refusal_by_list(allowed: CompiledList, tool: CalledTool, needs: frozenset[str]) -> str:
    """Why one list does not allow a tool; empty if it does."""
    names = allowed.tools
    if names is not None and not (tool.id and (tool.name in names or tool.id in names)):
        return "it is not on the list of tools"
    capabilities = allowed.capabilities
    if capabilities is not None and not needs <= capabilities:
        lacking = ", ".join(sorted(needs - capabilities))
        return f"it needs what is not on the list of capabilities ({lacking})"
    return ""


SPEAKING = frozenset({"send_message"})
NOTHING: frozenset[str] = frozenset()
CODE: frozenset[str] = frozenset({"code"})
# What tools need, by their type; those that come with the server and differ from it, by name.
NEEDS_OF_TYPE: Mapping[str, frozenset[str]] = {
    ToolType.custom.value: CODE,
    ToolType.external_mcp.value: frozenset({"mcp"}),
    ToolType.letta_core.value: NOTHING,
    ToolType.letta_memory_core.value: frozenset({"memory"}),
    ToolType.letta_sleeptime_core.value: frozenset({"memory"}),
    ToolType.letta_voice_sleeptime_core.value: frozenset({"memory"}),
    ToolType.letta_multi_agent_core.value: frozenset({"agents"}),
    ToolType.letta_builtin.value: frozenset({"code", "filesystem"}),
    ToolType.letta_files_core.value: frozenset({"filesystem"}),
}
NEEDS_OF_BASE_TOOL: Mapping[str, frozenset[str]] = {
    "archival_memory_insert": frozenset({"memory"}),
    "archival_memory_search": frozenset({"memory"}),
    "rethink_memory": frozenset({"memory"}),
    "run_code": CODE,
    "run_code_with_tools": CODE,
    "web_search": frozenset({"network"}),
    "fetch_webpage": frozenset({"network"}),
}
EVERYTHING: frozenset[str] = frozenset(CAPABILITIES)


def needs_of(tool: CalledTool) -> frozenset[str]:
    """The capabilities that a tool needs; all of them for a type that is not known here."""
    of_type = NEEDS_OF_TYPE.get(tool.type, EVERYTHING)
    if tool.type in (ToolType.custom.value, ToolType.external_mcp.value):
        return of_type  # whatever it is called
    return NEEDS_OF_BASE_TOOL.get(tool.name, of_type)


def called_tool(tool: BaseTool) -> CalledTool:
    """A tool that comes with the server, as `refusal_by_policies` takes it."""
    return CalledTool(tool.id, tool.name, tool.tool_type.value)


def system_list(environment: Environment) -> CompiledList:
    """The operator's own list: HEELER_ALLOWED_TOOLS, names or ids, and HEELER_ALLOWED_CAPABILITIES,
    with commas between; `none` allows none. Raises WrongSetting."""
    names = parse_list(environment.get(TOOLS_VARIABLE, ""))
    capabilities = parse_list(environment.get(CAPABILITIES_VARIABLE, ""))
    unknown = set(capabilities or ()) - EVERYTHING
    if unknown:
        must = f"it must be some of {', '.join(CAPABILITIES)}, with commas between, or none"
        raise wrong(CAPABILITIES_VARIABLE, environment[CAPABILITIES_VARIABLE], must)
    return compile_list(names, capabilities)


def parse_list(text: str) -> list[str] | None:
    """The words of a list with commas between; None if there is none."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        return None
    return [] if words == ["none"] else words


# The published view, its rows, and a fingerprint that changes whenever one of them does.
POLICIES_VIEW = {
    "source": "tools.tool_permission_view",
    "rows": "select org, kind, scope_id, tools, capabilities from tools.tool_permission_view",
    "fingerprint": "select count(*) || ' ' ||"
    " coalesce(bit_xor(hashtextextended(id || ' ' || revision, 0)), 0)"
    " from tools.tool_permission_view",
}

PolicyRow = tuple[str, str, str, list[str] | None, list[str] | None]


def policies_of(system: CompiledList, rows: Iterable[PolicyRow]) -> ToolPolicies:
    """All lists, from the operator's and the rows of the view."""
    return ToolPolicies(
        system,
        {(org, kind, scope): compile_list(names, caps) for org, kind, scope, names, caps in rows},
    )
