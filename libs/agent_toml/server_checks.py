"""Checks of the things that a file names against those that a server has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from libs.agent_toml.definition import AgentDefinition
from libs.agent_toml.reporting import Reporter, enumerate_words
from libs.agent_toml.toml_positions import Path
from libs.agent_toml.tool_checks import tool_name
from libs.contracts.tools.base_tools.catalogue import SERVER_TOOLS
from libs.contracts.tools.tool_permission_evaluation import (
    CalledTool,
    CompiledList,
    called_tool,
    needs_of,
    refusal_by_list,
)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The things that a server has. None: it was not asked, and nothing is said of that.

    `models` are the handles of its language models with the tokens that each is shown at most;
    `allowed` is the list of tools that may be called in the organisation."""

    models: Mapping[str, int] | None = None
    embeddings: Collection[str] | None = None
    tools: Collection[str] | None = None
    folders: Collection[str] | None = None
    allowed: CompiledList = field(default_factory=lambda: CompiledList(None, None))


def check_against(definition: AgentDefinition, reporter: Reporter, catalogue: Catalogue) -> None:
    """Report what the server does not have, or does not allow."""
    _check_models(definition, reporter, catalogue)
    own = {tool_name(tool) for tool in definition.tool}
    offered = {name for server in definition.mcp_servers for name in server.tools or ()}
    if catalogue.tools is not None:
        known = {*catalogue.tools, *SERVER_TOOLS, *own, *offered}
        _check_names(definition.tools, "tools", "AGT302", "tool", known, reporter)
    if catalogue.folders is not None:
        _check_names(definition.folders, "folders", "AGT303", "folder", catalogue.folders, reporter)
    for path, tool in _called_tools(definition):
        why = refusal_by_list(catalogue.allowed, tool, needs_of(tool))
        if why:
            words = f"`{tool.name}` is not allowed in this organisation: {why}"
            reporter.error(path, "AGT305", words)


def _check_models(definition: AgentDefinition, reporter: Reporter, catalogue: Catalogue) -> None:
    models, window = catalogue.models, definition.context_window
    for key, found in (("model", models), ("embedding", catalogue.embeddings)):
        handle: str | None = getattr(definition, key)
        if found is None or handle is None or handle in found:
            continue
        words = f"the server has no {key.replace('embedding', 'embedding model')} `{handle}`"
        expected = f"one of {enumerate_words(sorted(found))}"
        reporter.error((key,), "AGT301", words, expected=expected,
                       suggestion=reporter.suggest(handle, [*found]))  # fmt: skip
    shown = None if models is None or definition.model is None else models.get(definition.model)
    if shown and window and window > shown:
        words = f"`{definition.model}` is shown {shown} tokens at most, and this says {window}"
        reporter.error(("context_window",), "AGT304", words, expected=f"at most {shown}")


def _check_names(
    names: Collection[str],
    key: str,
    code: str,
    kind: str,
    known: Collection[str],
    reporter: Reporter,
) -> None:
    for index, name in enumerate(names):
        if name not in known:
            words = f"the server has no {kind} `{name}`"
            reporter.error((key, index), code, words, suggestion=reporter.suggest(name, [*known]))


def _called_tools(definition: AgentDefinition) -> list[tuple[Path, CalledTool]]:
    """The tools whose needs are known here."""
    found: list[tuple[Path, CalledTool]] = [
        (("tools", index), called_tool(SERVER_TOOLS[name]))
        for index, name in enumerate(definition.tools)
        if name in SERVER_TOOLS
    ]
    found += [
        (("tool", index), CalledTool(name, name, "custom"))
        for index, tool in enumerate(definition.tool)
        if (name := tool_name(tool))
    ]
    return found
