"""Calls of tools that are code: the program that a sandbox runs, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict

from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.tools import ToolState
from libs.contracts.shortened_text import cut
from libs.contracts.tools.tool_runs import RunTool, ToolRunResult
from services.tools.domain.package_requirements import Requirement, requirements_in
from services.tools.domain.tool_definition import (
    PYTHON,
    TYPESCRIPT,
    function_name,
    why_it_cannot_run,
)
from services.tools.domain.tool_run import printed_texts, text_of
from services.tools.engine.agent_state_injection import AgentStates
from services.tools.engine.environment_variables import Variables
from services.tools.engine.package_environments import ToolPackages, Wanted
from services.tools.sandbox.ports import Limits, Outcome, Program, Sandbox

# What one call may take; `seconds` is said with the call.
CPU_SECONDS_MAX = 60
MEMORY_BYTES_MAX = 512 << 20
PROCESSES_MAX = 64
OUTPUT_BYTES_MAX = 128 << 10
FILE_BYTES_MAX = 32 << 20
SECONDS_MIN = 1.0  # for a call whose time its packages have taken
NO_NPM = (
    "Packages of npm are not installed for tools: leave `npm_requirements` out, and use what Node"
    " has, or write the tool in Python with `pip_requirements`"
)


class CustomToolRunner:
    """Keeps the contract of `ToolRunner` with a sandbox."""

    def __init__(
        self,
        sandbox: Sandbox,
        variables: Variables,
        packages: ToolPackages,
        agents: AgentStates,
    ) -> None:
        self.sandbox = sandbox
        self.variables = variables
        self.packages = packages
        self.agents = agents

    def refusal_of(self, tool: ToolState, command: RunTool) -> str:
        """Why the code of a tool cannot run here."""
        if tool.source_type == TYPESCRIPT and tool.npm_requirements:
            return NO_NPM
        wanted = requirements_of(tool)
        why = why_it_cannot_run(tool) or self.sandbox.refusal_of(
            program_of(tool, command, org="", environment={})
        )
        return why or self.packages.refusal_of(wanted)

    async def run(self, tool: ToolState, command: RunTool, org: str) -> ToolRunResult:
        """The result of the code."""
        settings = await self.variables.settings.of(org)
        environment = self.variables.merge(command, settings)
        if isinstance(environment, str):
            return ToolRunResult(status="error", text=environment)
        program = program_of(tool, command, org, environment)
        of_all = settings.requirements if tool.source_type != TYPESCRIPT else ()
        wanted = Wanted(org, requirements_of(tool), of_all, settings.generation)
        if wanted.of_tool or wanted.of_all:
            there = await self.packages.provide(wanted, command.seconds_max)
            if isinstance(there, str):
                return ToolRunResult(status="error", text=there)
            left = max(SECONDS_MIN, command.seconds_max - there.seconds)
            program = replace(program, packages=there.folder, limits=limits_of(left))
        sees_agent = self.agents.takes_agent(tool)
        if sees_agent:
            program = await self.agents.with_agent(program, command, org)
        outcome = await self.sandbox.run(program)
        if sees_agent:
            outcome = await self.agents.write_back(outcome, tool, command, org)
        return result_of(tool.name, outcome, chars_max=tool.return_char_limit)


def program_of(
    tool: ToolState, command: RunTool, org: str, environment: Mapping[str, str]
) -> Program:
    """The program that calls a tool. It knows nothing of the server but its arguments and what its
    client put into its environment."""
    return Program(
        language=TYPESCRIPT if tool.source_type == TYPESCRIPT else PYTHON,
        source=tool.source_code or "",
        function=function_name(tool),
        arguments=in_order(command.arguments, tool),
        schema=tool.args_json_schema or {},
        environment={**environment, **names_of(tool, command)},
        limits=limits_of(command.seconds_max),
        org=org,
        agent_id=command.agent_id,
    )


def in_order(arguments: JsonObject, tool: ToolState) -> JsonObject:
    """The arguments of a call; in TypeScript they are found by their place, which the schema says.
    What is left out before another one is null."""
    if tool.source_type != TYPESCRIPT:
        return arguments
    parameters = (tool.json_schema or {}).get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    names = [*properties] if isinstance(properties, dict) else []
    given = [number for number, name in enumerate(names, 1) if name in arguments]
    places = {name: arguments.get(name) for name in names[: max(given, default=0)]}
    return {**places, **arguments}


def names_of(tool: ToolState, command: RunTool) -> dict[str, str]:
    """The names about the call in the environment of V1's code."""
    agent = {"LETTA_AGENT_ID": command.agent_id} if command.agent_id else {}
    return {**agent, "LETTA_TOOL_ID": tool.id}


def limits_of(seconds: float) -> Limits:
    """The limits of a program that may run for so long."""
    return Limits(
        seconds=seconds,
        cpu_seconds=CPU_SECONDS_MAX,
        memory_bytes=MEMORY_BYTES_MAX,
        processes=PROCESSES_MAX,
        output_bytes=OUTPUT_BYTES_MAX,
        file_bytes=FILE_BYTES_MAX,
    )


def requirements_of(tool: ToolState) -> list[Requirement]:
    """The packages of Python that a tool wants."""
    return [] if tool.source_type == TYPESCRIPT else requirements_in(tool.pip_requirements or [])


def result_of(name: str, outcome: Outcome, *, chars_max: int) -> ToolRunResult:
    """The recorded result of a program that has ended."""
    match outcome.status:
        case "success":
            text = text_of(outcome.value)
        case "error":
            what = outcome.reason.strip().rpartition("\n")[2]  # the last line of a traceback
            text = f"Error executing function {name}: {what}"
        case "timeout":
            text = (
                f"'{name}' took too long and was stopped after {outcome.seconds:.1f} seconds. It "
                "may have taken effect in part: check before you call it again."
            )
        case "killed":
            text = f"'{name}' was stopped: {outcome.reason}. It may have taken effect in part."
    return ToolRunResult(
        status=outcome.status,
        text=cut(text, chars_max),
        stdout=printed_texts(outcome.stdout),
        stderr=printed_texts(outcome.stderr) or printed_texts(outcome.reason),
        **usage(outcome),
    )


class Usage(TypedDict):
    """The usage of a program, as it is recorded."""

    seconds: float
    cpu_seconds: float
    memory_bytes_max: int
    processes_max: int
    output_bytes: int


def usage(outcome: Outcome) -> Usage:
    """The fields of a result about what a program used."""
    return {
        "seconds": outcome.seconds,
        "cpu_seconds": outcome.cpu_seconds,
        "memory_bytes_max": outcome.memory_bytes_max,
        "processes_max": outcome.processes_max,
        "output_bytes": outcome.output_bytes,
    }
