"""Checks of the tools, tool rules and MCP servers of a file."""

from __future__ import annotations

import re

from libs.agent_toml.definition import AgentDefinition
from libs.agent_toml.reporting import Reporter, enumerate_words
from libs.agent_toml.tables import REFERENCE
from libs.agent_toml.toml_positions import Path
from libs.agent_toml.tool_sources import UnusableSource, name_in
from libs.agent_toml.tool_tables import McpServer, Tool
from libs.contracts.letta.tool_requests import SOURCE_CHARS_MAX
from libs.contracts.tools.base_tools.catalogue import SERVER_TOOLS

PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?(==[A-Za-z0-9.!+_-]+)?")
REQUIRED_OF_RULE = {
    "max_count_per_step": ("max_count_limit",),
    "constrain_child_tools": ("children",),
    "parent_last_tool": ("children",),
    "conditional": ("child_output_mapping",),
}
OPTIONAL_OF_RULE = {
    "run_first": ("args",),
    "constrain_child_tools": ("child_arg_nodes",),
    "conditional": ("default_child", "require_output_mapping"),
}
OF_ALL_RULES = ("type", "tool_name", "prompt_template")
OF_PROGRAM = ("command", "args", "env")
OF_ADDRESS = ("transport", "headers", "auth_header", "auth_token")


def check_tools(definition: AgentDefinition, reporter: Reporter) -> None:
    """Report tools without usable source, and names that two of them have."""
    names: dict[str, int] = {}
    for index, tool in enumerate(definition.tool):
        path: Path = ("tool", index)
        name = _check_tool(tool, path, reporter)
        if name in names:
            words = f"another entry of `tool` is called '{name}'"
            reporter.error((*path, "name"), "AGT201", words, expected="each name once")
        elif name in SERVER_TOOLS:
            words = f"'{name}' is a tool that comes with the server"
            reporter.error((*path, "name"), "AGT201", words, expected="another name")
        if name:
            names.setdefault(name, index)


def tool_name(tool: Tool) -> str:
    """The name of a tool of its own source: as the file says it, or as the source does. Empty where
    neither does."""
    if tool.name:
        return tool.name
    if tool.json_schema is not None and isinstance(tool.json_schema.get("name"), str):
        return str(tool.json_schema["name"])
    if tool.source is None or is_typescript(tool):
        return ""
    try:
        return name_in(tool.source)
    except UnusableSource:
        return ""


def is_typescript(tool: Tool) -> bool:
    """Whether the source of a tool is TypeScript."""
    if tool.source_type is not None:
        return tool.source_type == "typescript"
    return tool.file is not None and tool.file.endswith((".ts", ".js"))


def _check_tool(tool: Tool, path: Path, reporter: Reporter) -> str:
    """Report what is wrong with one tool; returns its name."""
    has_source = (*path, "source") in reporter.positions.keys
    if tool.file is not None and has_source:
        reporter.exclude((*path, "file"), "source")
    if tool.file is None and tool.source is None:
        words = "the tool has no source"
        reporter.error(path, "AGT204", words, expected="`file` or `source`")
    for number, package in enumerate(tool.packages):
        if not PACKAGE.fullmatch(package):
            words = f"'{package}' is no package"
            expected = "a name, or a name and a version as in 'requests==2.32.3'"
            reporter.error((*path, "packages", number), "AGT106", words, expected=expected)
    if tool.source is not None:
        _check_source(tool, tool.source, path, reporter)
    return tool_name(tool)


def _check_source(tool: Tool, source: str, path: Path, reporter: Reporter) -> None:
    place = (*path, "file" if tool.file is not None else "source")
    if len(source) > SOURCE_CHARS_MAX:
        words = f"the source has {len(source)} characters"
        expected = f"at most {SOURCE_CHARS_MAX} characters"
        reporter.error(place, "AGT104", words, expected=expected)
        return
    if is_typescript(tool):
        if tool.json_schema is None:
            words = "a tool in TypeScript needs the schema that models are shown"
            reporter.error(path, "AGT101", words, expected="`json_schema`")
        return
    try:
        name = name_in(source)
    except UnusableSource as error:
        reporter.error(place, "AGT210", f"the source cannot be used: {error}")
        return
    if tool.name is not None and tool.name != name and tool.json_schema is None:
        words = f"the tool is called '{tool.name}', and the last function of its source '{name}'"
        reporter.error((*path, "name"), "AGT210", words, expected=f"'{name}'", suggestion=name)


def names_of_tools(definition: AgentDefinition) -> list[str]:
    """The tools that the file names, in its lists and of its own source."""
    own = [tool_name(tool) for tool in definition.tool]
    offered = [name for server in definition.mcp_servers for name in server.tools or ()]
    return list(dict.fromkeys([*definition.tools, *filter(None, own), *offered]))


def check_tool_rules(definition: AgentDefinition, reporter: Reporter) -> None:
    """Report rules about tools that the agent does not have, and keys without an effect."""
    listed = names_of_tools(definition)
    known = {*listed}
    # Tools of a server that lists none of them are not known here.
    is_open = any(server.tools is None for server in definition.mcp_servers)
    for index, rule in enumerate(definition.tool_rules):
        path: Path = ("tool_rules", index)
        required = REQUIRED_OF_RULE.get(rule.type, ())
        own = {*OF_ALL_RULES, *required, *OPTIONAL_OF_RULE.get(rule.type, ())}
        for key in required:
            if getattr(rule, key) is None:
                words = f"a rule of the type `{rule.type}` needs `{key}`"
                reporter.error((*path, key), "AGT101", words, expected=f"`{key}`")
        for key in sorted(rule.model_fields_set - own):
            words = f"`{key}` has no effect on a rule of the type `{rule.type}`"
            reporter.error((*path, key), "AGT209", words, at_key=True)
        named = [(rule.tool_name, (*path, "tool_name"))]
        named += [
            (child, (*path, "children", number)) for number, child in enumerate(rule.children or ())
        ]
        for name, place in named:
            is_known = name in known or (definition.include_base_tools and name in SERVER_TOOLS)
            if not is_known and not is_open:
                words = f"the rule is about `{name}`, and the agent has no such tool"
                expected = f"one of {enumerate_words(listed)}" if listed else "a tool that it has"
                meant = reporter.suggest(name, [*listed, *SERVER_TOOLS])
                reporter.error(place, "AGT208", words, expected=expected, suggestion=meant)


def check_mcp_servers(definition: AgentDefinition, reporter: Reporter) -> None:
    """Report servers that are neither an address nor a program, or both; and secrets in plain."""
    for index, server in enumerate(definition.mcp_servers):
        _check_mcp_server(server, ("mcp_servers", index), reporter)
    for name, value in definition.secrets.items():
        if not REFERENCE.search(value):
            words = f"the secret {name} has a value in the file"
            expected = f'the name of a variable, as in {name} = "${{{name}}}"'
            reporter.error(("secrets", name), "AGT211", words, expected=expected)


def _check_mcp_server(server: McpServer, path: Path, reporter: Reporter) -> None:
    if server.url is None and server.command is None:
        words = f"the server `{server.name}` is nowhere"
        reporter.error(path, "AGT204", words, expected="`url`, or `command` with `args`")
        return
    if server.url is not None and server.command is not None:
        words = "`url` and `command` stand beside each other"
        reporter.error((*path, "command"), "AGT203", words, expected="one of the two", at_key=True)
        return
    others = OF_PROGRAM if server.url is not None else OF_ADDRESS
    for key in others:
        if key in server.model_fields_set:
            kind = "at an address" if server.url is not None else "that is a program"
            words = f"`{key}` has no effect on a server {kind}"
            reporter.error((*path, key), "AGT209", words, at_key=True)
    if server.url is not None and not re.match(r"https?://[^\s/]", server.url, re.IGNORECASE):
        words = f"'{server.url[:100]}' is no address"
        reporter.error((*path, "url"), "AGT106", words, expected="one with http:// or https://")
    if server.auth_token is not None and not REFERENCE.search(server.auth_token):
        words = f"the token of `{server.name}` stands in the file"
        expected = 'the name of a variable, as in auth_token = "${TOKEN}"'
        reporter.error((*path, "auth_token"), "AGT211", words, expected=expected)
