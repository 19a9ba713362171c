"""The agent of a scenario, from its file to the requests that make it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cli.exit_codes import CommandError, ExitCode
from cli.fleet.files import read_checked
from libs.agent_toml import AgentDefinition, CheckedFile, to_create_request, tool_request
from libs.agent_toml.tables import MissingVariable
from libs.agent_toml.tool_checks import tool_name


def reading_of(file: Path) -> CheckedFile:
    """The content of an agent's file, with its problems."""
    return read_checked(file, str(file))


def definition_of(file: Path) -> AgentDefinition:
    """The agent of a file without errors. Raises CommandError."""
    from libs.agent_toml import to_text

    reading = reading_of(file)
    if reading.definition is None:
        problems = "\n".join(to_text(problem) for problem in reading.errors)
        raise CommandError(problems, ExitCode.USAGE)
    return reading.definition


def create_request(definition: AgentDefinition) -> dict[str, Any]:
    """The request that makes the agent of a file; blocks that it would share are its own. Raises
    CommandError."""
    blocks = [block.model_copy(update={"shared": False}) for block in definition.memory]
    alone = definition.model_copy(update={"memory": blocks})
    try:
        return to_create_request(alone, os.environ)
    except MissingVariable as problem:
        raise CommandError(f"{definition.name}: {problem}") from problem


def tool_requests(definition: AgentDefinition) -> dict[str, dict[str, Any]]:
    """The requests that make the tools beside the file, by their names."""
    return {name: tool_request(tool) for tool in definition.tool if (name := tool_name(tool))}
