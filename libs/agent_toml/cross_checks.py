"""Checks that the parts of a file go together: names, files, schedules, tool rules, settings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from libs.agent_toml.definition import AgentDefinition, MemoryBlock
from libs.agent_toml.model_providers import SETTINGS_OF, provider_of
from libs.agent_toml.reporting import Reporter, enumerate_words
from libs.agent_toml.schedule_checks import check_schedules, check_time_zone
from libs.agent_toml.schedule_tables import TYPES_OF_GROUP_KEY
from libs.agent_toml.tables import Table
from libs.agent_toml.toml_positions import Path
from libs.agent_toml.tool_checks import check_mcp_servers, check_tool_rules, check_tools
from libs.contracts.letta.request_size_limits import BLOCK_VALUE_CHARS_MAX, PROMPT_CHARS_MAX
from libs.contracts.state_size_limits import AGENT_BYTES_MAX

NEARLY_FULL = 0.9
LONG_PROMPT_CHARS = 50_000


def check_definition(definition: AgentDefinition, reporter: Reporter) -> None:
    """Report all that does not go together, and what may be a mistake."""
    _check_prompt(definition, reporter)
    check_time_zone(definition.timezone, ("timezone",), reporter)
    _check_blocks(definition.memory, reporter)
    _check_names(definition, reporter)
    _check_model(definition, reporter)
    check_tools(definition, reporter)
    check_tool_rules(definition, reporter)
    check_mcp_servers(definition, reporter)
    check_schedules(definition, reporter)
    _check_groups(definition, reporter)
    _check_size(definition, reporter)
    _warn(definition, reporter)


def _check_prompt(definition: AgentDefinition, reporter: Reporter) -> None:
    prompt, file = definition.system_prompt, definition.system_prompt_file
    if prompt is None and file is None:
        reporter.error(
            ("system_prompt",),
            "AGT101",
            "`system_prompt` is missing",
            expected="`system_prompt`, or `system_prompt_file` with the name of a file",
        )
    if file is not None and ("system_prompt",) in reporter.positions.keys:
        reporter.exclude(("system_prompt_file",), "system_prompt")
    if prompt is not None and len(prompt) > PROMPT_CHARS_MAX:
        reporter.error(
            ("system_prompt_file",),
            "AGT104",
            f"the prompt has {len(prompt)} characters",
            expected=f"at most {PROMPT_CHARS_MAX} characters",
        )
    elif prompt is not None and not prompt.strip():
        reporter.error(("system_prompt",), "AGT108", "the system prompt is empty")


def _check_blocks(blocks: Sequence[MemoryBlock], reporter: Reporter) -> None:
    for index, block in enumerate(blocks):
        path: Path = ("memory", index)
        if block.value_file is not None and (*path, "value") in reporter.positions.keys:
            reporter.exclude((*path, "value_file"), "value")
        chars = len(block.value or "")
        place = (*path, "value" if block.value_file is None else "value_file")
        if chars > BLOCK_VALUE_CHARS_MAX:
            words = f"the value of `{block.label}` has {chars} characters"
            expected = f"at most {BLOCK_VALUE_CHARS_MAX} characters"
            reporter.error(place, "AGT104", words, expected=expected)
        elif chars > block.limit:
            words = f"the value of `{block.label}` has {chars} characters, its limit is"
            reporter.error(place, "AGT202", f"{words} {block.limit}", expected="a shorter value")
        elif chars > block.limit * NEARLY_FULL:
            words = f"`{block.label}` has {chars} of {block.limit} characters"
            reporter.warn(place, "AGT402", words)


def _check_names(definition: AgentDefinition, reporter: Reporter) -> None:
    """Report what has the name of another thing of its kind."""
    _differ(definition.memory, lambda block: block.label, ("memory",), "label", reporter)
    _differ(definition.mcp_servers, lambda each: each.name, ("mcp_servers",), "name", reporter)
    _differ(definition.schedules, lambda each: each.name, ("schedules",), "name", reporter)
    _differ(definition.groups, lambda each: each.name, ("groups",), "name", reporter)
    _differ(definition.capabilities, lambda each: each.name, ("capabilities",), "name", reporter)
    for key in ("tools", "tags", "folders"):
        earlier: set[str] = set()
        for index, name in enumerate(getattr(definition, key)):
            if name in earlier:
                words = f"'{name}' stands in `{key}` twice"
                reporter.error((key, index), "AGT201", words, expected="each name once")
            earlier.add(name)


def _differ[Entry: Table](
    entries: Sequence[Entry],
    name_of_entry: Callable[[Entry], Hashable],
    path: Path,
    key: str,
    reporter: Reporter,
) -> None:
    """Report the entries that have the name of an earlier one."""
    first: dict[Hashable, int] = {}
    for index, entry in enumerate(entries):
        name = name_of_entry(entry)
        if name in first:
            line = reporter.positions.of_key((*path, first[name])).line
            words = f"another entry of `{path[0]}` has the {key} '{name}', in line {line}"
            reporter.error((*path, index, key), "AGT201", words, expected="each name once")
        first.setdefault(name, index)


def _check_model(definition: AgentDefinition, reporter: Reporter) -> None:
    """Report settings that the models of the provider do not have."""
    settings = definition.model_settings
    if settings is None:
        return
    provider = provider_of(definition)
    if not provider:
        words = "`[model_settings]` stands there, and no `model`"
        reporter.error(("model_settings",), "AGT212", words, expected="`model` or `provider_type`")
        return
    if provider not in SETTINGS_OF:
        known = list(SETTINGS_OF)
        words = f"'{provider}' is no provider of settings"
        path: Path = ("model_settings", "provider_type")
        reporter.error(path, "AGT105", words, expected=f"one of {enumerate_words(known)}",
                       suggestion=reporter.suggest(provider, known))  # fmt: skip
        return
    taken = SETTINGS_OF[provider].model_fields
    for key in settings.model_fields_set - taken.keys():
        words = f"models of `{provider}` have no setting `{key}`"
        expected = f"one of {enumerate_words([name for name in taken if name != 'provider_type'])}"
        reporter.error(("model_settings", key), "AGT209", words, expected=expected, at_key=True)


def _check_groups(definition: AgentDefinition, reporter: Reporter) -> None:
    """Report settings of groups that their type does not have."""
    no_manager = ("round_robin", "swarm", "broadcast")
    for index, group in enumerate(definition.groups):
        if group.manager_type is None:
            continue
        for key, types in TYPES_OF_GROUP_KEY.items():
            if getattr(group, key) is not None and group.manager_type not in types:
                words = f"`{key}` has no effect on a group of the type `{group.manager_type}`"
                expected = f"one of the types {enumerate_words([*types])}"
                reporter.error(("groups", index, key), "AGT209", words, expected=expected)
        if group.role == "manager" and group.manager_type in no_manager:
            words = f"a group of the type `{group.manager_type}` has no manager"
            reporter.error(("groups", index, "role"), "AGT209", words, expected="'member'")


def _check_size(definition: AgentDefinition, reporter: Reporter) -> None:
    own = definition.model_dump_json(exclude={"memory", "tool", "mcp_servers", "schedules"})
    size = len(own.encode())
    if size > AGENT_BYTES_MAX:
        words = f"the agent without its blocks has {size} bytes as JSON"
        reporter.error(("name",), "AGT213", words, expected=f"at most {AGENT_BYTES_MAX}")


def _warn(definition: AgentDefinition, reporter: Reporter) -> None:
    """Report what may be a mistake."""
    if not definition.description:
        reporter.warn(("description",), "AGT401", f"`{definition.name}` has no description")
    if definition.model is None:
        reporter.warn(("model",), "AGT404", f"`{definition.name}` names no model")
    if len(definition.system_prompt or "") > LONG_PROMPT_CHARS:
        words = f"the system prompt has {len(definition.system_prompt or '')} characters"
        reporter.warn(("system_prompt",), "AGT405", words)
    for index, block in enumerate(definition.memory):
        if not block.description and block.label not in ("human", "persona"):
            words = f"the block `{block.label}` has no description"
            reporter.warn(("memory", index), "AGT403", words)
