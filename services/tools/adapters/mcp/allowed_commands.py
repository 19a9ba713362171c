"""Which commands may be MCP servers: those that the operator lists, word for word."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from libs.contracts.environment_parsing import WrongSetting
from libs.contracts.outside_texts import decode_text
from services.tools.adapters.mcp.ports import McpServerConfig
from services.tools.sandbox.mcp_server_confinement import Granted

SETTING = "HEELER_MCP_COMMANDS"
MEMORY_MB, MEMORY_MB_MAX = 512, 1 << 16
PROCESSES, PROCESSES_MAX = 64, 4_096
NOTHING = Granted()
FIELDS: Mapping[str, type] = {
    "argv": list,
    "environment": list,
    "readable": list,
    "writable": list,
    "network": bool,
    "memory_mb": int,
    "processes": int,
}


@dataclass(frozen=True, slots=True)
class AllowedCommand:
    """A command and what it may have. `environment` names the variables that a client may set."""

    argv: tuple[str, ...]
    environment: frozenset[str] = frozenset()
    granted: Granted = NOTHING
    memory_bytes: int = MEMORY_MB << 20
    processes: int = PROCESSES


def allowed_commands(environment: Mapping[str, str] = os.environ) -> tuple[AllowedCommand, ...]:
    """HEELER_MCP_COMMANDS: a TOML file of `[[command]]` tables. Raises WrongSetting."""
    path = environment.get(SETTING)
    if not path:
        return ()
    try:
        with open(path, "rb") as file:
            table = tomllib.loads(decode_text(file.read()))
    except (OSError, ValueError) as unreadable:
        raise WrongSetting(f"{SETTING} names {path}, which cannot be read: {unreadable}") from None
    listed = table.pop("command", None)
    if table or not isinstance(listed, list):
        raise WrongSetting(f"{SETTING}: {path} must hold [[command]] tables and nothing else")
    return tuple(
        command(table, f"{SETTING}: [[command]] {number} of {path}")
        for number, table in enumerate(listed, start=1)
    )


def command(table: Mapping[str, Any], where: str) -> AllowedCommand:
    """One command of the list. Raises WrongSetting, which names the field."""
    for name, value in table.items():
        wanted = FIELDS.get(name)
        if wanted is None:
            raise WrongSetting(f"{where}: there is no {name}; use {', '.join(FIELDS)}")
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            raise WrongSetting(f"{where}: {name} must be a {wanted.__name__}")
        if isinstance(value, list) and not all(
            isinstance(text, str) and "\0" not in text for text in value
        ):
            raise WrongSetting(f"{where}: {name} must be a list of texts")
    argv = tuple(table.get("argv", ()))
    if not argv or not is_plain(argv[0]):
        raise WrongSetting(f"{where}: argv must begin with the absolute path of a program")
    for name in ("readable", "writable"):
        if not all(is_plain(path) and path != "/" for path in table.get(name, ())):
            raise WrongSetting(f"{where}: {name} must be absolute paths, and not the root")
    names = frozenset(table.get("environment", ()))
    if not all(re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) for name in names):
        raise WrongSetting(f"{where}: environment must be names of variables")
    return AllowedCommand(
        argv,
        names,
        Granted(
            tuple(table.get("readable", ())),
            tuple(table.get("writable", ())),
            table.get("network", False),
        ),
        within(table, "memory_mb", MEMORY_MB, MEMORY_MB_MAX, where) << 20,
        within(table, "processes", PROCESSES, PROCESSES_MAX, where),
    )


def is_plain(path: str) -> bool:
    """Whether a path is absolute, and says no more than it means."""
    return path.startswith("/") and os.path.normpath(path) == path and not path.startswith("//")


def within(table: Mapping[str, Any], name: str, default: int, most: int, where: str) -> int:
    """A whole number above 0, up to a bound. Raises WrongSetting."""
    value: int = table.get(name, default)
    if not 0 < value <= most:
        raise WrongSetting(f"{where}: {name} must be a number from 1 to {most}")
    return value


def match(
    allowed: tuple[AllowedCommand, ...], config: McpServerConfig
) -> tuple[AllowedCommand | None, str]:
    """The command that a configuration means, or why it means none."""
    if not allowed:
        return None, (
            "This server starts no programs as MCP servers: its operator has listed none in "
            f"{SETTING}"
        )
    wanted = (config.command, *config.args)
    found = next((candidate for candidate in allowed if candidate.argv == wanted), None)
    if found is None:
        return None, (
            "This command is none of those that the operator of this server allows: `command` and "
            f"`args` must be, word for word, an `argv` of {SETTING}"
        )
    unknown = sorted(set(config.env) - found.environment)
    if unknown:
        return None, f"`env`: {unknown[0][:100]} is no variable that the operator lets you set"
    if any("\0" in value for value in config.env.values()):
        return None, "`env`: a value has a character that no variable can hold"
    return (None, why) if (why := missing_path(found)) else (found, "")


def missing_path(command: AllowedCommand) -> str:
    """Which path that the program should see is not there; empty if all are."""
    granted = command.granted
    for field, paths in (("readable", granted.readable), ("writable", granted.writable)):
        for path in paths:
            if not os.path.exists(path):
                return (
                    f"{SETTING}: `{field}` of {command.argv[0]} names {path}, which is not there: "
                    "make it, or leave it out"
                )
    return ""
