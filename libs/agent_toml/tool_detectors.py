"""Find tools and MCP servers of a definition that may do harm."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from libs.agent_toml.security_subject import Finding, Subject
from libs.agent_toml.toml_positions import Path
from libs.contracts.outside_texts import lines_of

# Declared by all agents that have any tools: reading and writing their own memory.
HARMLESS = frozenset({"memory"})
PROGRAM_TOOLS = ("run_code", "run_code_with_tools", "shell", "write_file")
SHELLS = ("sh", "bash", "zsh", "dash", "fish", "ksh", "cmd", "cmd.exe", "powershell", "pwsh")
RUNNERS = ("python", "python3", "node", "perl", "ruby", "env", "xargs", "sudo", "su")
FETCHERS = ("npx", "uvx", "pipx", "bunx", "pnpx", "docker", "deno")


def undeclared_needs(subject: Subject) -> Iterator[Finding]:
    """Tools that need something dangerous, where the file declares nothing."""
    allowed = subject.definition.permissions
    if allowed is not None and allowed.capabilities is not None:
        return
    for path, name, needs in subject.needs():
        dangerous = sorted(needs - HARMLESS)
        if dangerous:
            yield Finding(path, f"`{name}` needs {' and '.join(dangerous)}")


def needs_that_are_withheld(subject: Subject) -> Iterator[Finding]:
    """Tools that need what the list of the file leaves out."""
    allowed = subject.definition.permissions
    if allowed is None:
        return
    for path, name, needs in subject.needs():
        if allowed.capabilities is not None and needs - {*allowed.capabilities}:
            lacking = " and ".join(sorted(needs - {*allowed.capabilities}))
            yield Finding(path, f"`{name}` needs {lacking}, which [permissions] leaves out")
        elif allowed.tools is not None and path[0] != "mcp_servers" and name not in allowed.tools:
            yield Finding(path, f"`{name}` is not among the tools of [permissions]")


def unapproved_programs(subject: Subject) -> Iterator[Finding]:
    """Tools of the server that run anything, without an approval."""
    approved = subject.names_with_approval()
    for index, name in enumerate(subject.definition.tools):
        if name in PROGRAM_TOOLS and name not in approved:
            yield Finding(("tools", index), f"`{name}` runs without an approval")


def detector_of(
    kind: str, words: str, *, unless_approved: bool = False
) -> Callable[[Subject], Iterator[Finding]]:
    """A detector of one kind of danger in the sources of tools."""

    def detect(subject: Subject) -> Iterator[Finding]:
        for index, danger in subject.dangers:
            tool = subject.definition.tool[index]
            if danger.kind != kind or (unless_approved and tool.requires_approval):
                continue
            place = f"`{subject.tool_names[index]}`, line {danger.line} of its source"
            yield Finding(("tool", index, "source"), f"{place}: {words} ({danger.what})")

    return detect


def sources_that_read_secrets(subject: Subject) -> Iterator[Finding]:
    """Sources that name files of keys, or take the whole environment."""
    yield from detector_of("secrets", "it names a place of secrets")(subject)
    lines: dict[int, list[str]] = {}
    for index, danger in subject.dangers:
        source = subject.definition.tool[index].source
        if danger.kind != "environment" or source is None:
            continue
        if index not in lines:
            lines[index] = lines_of(source)
        line = lines[index][danger.line - 1]
        if re.search(r"environ(\s*\[|\.get\s*\(|\.setdefault\s*\()", line) is None:
            place = f"`{subject.tool_names[index]}`, line {danger.line} of its source"
            yield Finding(("tool", index, "source"), f"{place}: it takes the whole environment")


def mcp_shells(subject: Subject) -> Iterator[Finding]:
    """MCP servers that are shells, or programs told to run a text."""
    for index, server in enumerate(subject.definition.mcp_servers):
        if server.command is None:
            continue
        words = [server.command.rpartition("/")[2].lower(), *server.args]
        is_shell = words[0] in SHELLS or any(
            word.rpartition("/")[2] in SHELLS for word in words[1:]
        )
        runs_text = words[0] in RUNNERS and any(word in ("-c", "-e", "--eval") for word in words)
        has_operators = re.search(r"[;|&`]|\$\(", " ".join([server.command, *server.args]))
        if is_shell or runs_text or has_operators:
            path: Path = ("mcp_servers", index, "command")
            yield Finding(
                path, f"`{server.name}` runs {server.command} {' '.join(server.args)}"[:200]
            )


def mcp_fetched_programs(subject: Subject) -> Iterator[Finding]:
    """MCP servers that are fetched when they start."""
    for index, server in enumerate(subject.definition.mcp_servers):
        program = (server.command or "").rpartition("/")[2].lower()
        if program in FETCHERS:
            path: Path = ("mcp_servers", index, "command")
            yield Finding(path, f"`{server.name}` is started by {program}")


def sampling(subject: Subject) -> Iterator[Finding]:
    """MCP servers that may ask the agent's model."""
    for index, server in enumerate(subject.definition.mcp_servers):
        if server.sampling:
            yield Finding(("mcp_servers", index, "sampling"), f"`{server.name}` may ask the model")


def unpinned_packages(subject: Subject) -> Iterator[Finding]:
    """Packages of tools without a version."""
    for index, tool in enumerate(subject.definition.tool):
        for number, package in enumerate(tool.packages):
            if "==" not in package:
                yield Finding(("tool", index, "packages", number), f"`{package}` has no version")
