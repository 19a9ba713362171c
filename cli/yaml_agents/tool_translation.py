"""The tools and MCP servers of an agent in YAML."""

from __future__ import annotations

import re
from typing import Any

from cli.yaml_agents.translated_agent import Translation


def take_tools(done: Translation) -> None:
    """Take the tools over: names of those on the server, and sources of own ones."""
    names: list[str] = []
    for tool in done.take(("tools",)) or []:
        match tool:
            case str():
                is_own = re.fullmatch(r"\w+", tool) and _is_there(done, f"tools/{tool}.py")
                if is_own:
                    _own_tool(done, {"name": tool}, f"tools/{tool}.py")
                else:
                    names.append(tool)
            case {"name": str(name), "from_file": str(file)} | {
                "name": str(name),
                "file": str(file),
            }:
                _own_tool(done, {"name": name}, file)
            case {"name": str(name), "source_code": str(source)}:
                done.data.setdefault("tool", []).append({"name": name, "source": source})
            case {"name": str(name)}:
                names.append(name)
            case {"type": str(kind)}:
                done.remark("tools", f"left out: '{kind}' is a tool of another server")
            case _:
                done.remark("tools", "left out: a tool without a name")
    if names:
        done.data["tools"] = names


def _is_there(done: Translation, file: str) -> bool:
    try:
        return bool(done.agent.beside(file))
    except OSError:
        return False


def _own_tool(done: Translation, tool: dict[str, Any], file: str) -> None:
    try:
        path = done.agent.beside(file)
    except OSError as problem:
        done.remark(f"tools.{tool['name']}", f"left out: {file}: {problem.strerror}")
        return
    name = f"tools/{path.name}"
    done.files[name] = path
    done.data.setdefault("tool", []).append({**tool, "file": name})


def take_mcp_servers(done: Translation) -> None:
    """Take the MCP servers over of which the agent has tools; secrets become variables."""
    common = done.agent.common.get("mcp_servers") or []
    own = done.take(("mcp_servers",)) or []
    wanted = {
        str(entry.get("server")): entry.get("tools")
        for entry in done.take(("mcp_tools",)) or []
        if isinstance(entry, dict)
    }
    servers = [*_servers(own), *(each for each in _servers(common) if each.get("name") in wanted)]
    for server in servers:
        tools = wanted.get(str(server.get("name")))
        made = _mcp_server(done, server)
        if isinstance(tools, list):
            made["tools"] = [str(tool) for tool in tools]
        done.data.setdefault("mcp_servers", []).append(made)
    for name in wanted.keys() - {str(server.get("name")) for server in servers}:
        done.remark(f"mcp_tools.{name}", "left out: this file does not say where the server is")


def _servers(given: Any) -> list[dict[str, Any]]:
    if isinstance(given, dict):
        return [{"name": name, **value} for name, value in given.items() if isinstance(value, dict)]
    return [server for server in given if isinstance(server, dict)]


def _mcp_server(done: Translation, given: dict[str, Any]) -> dict[str, Any]:
    place = f"mcp_servers.{given.get('name')}"
    made: dict[str, Any] = {"name": str(given.get("name") or "mcp")}
    if url := given.get("server_url") or given.get("url"):
        made["url"] = str(url)
        if given.get("type") == "sse" or given.get("transport") == "sse":
            made["transport"] = "sse"
    if given.get("command"):
        made["command"] = str(given["command"])
        made["args"] = [str(word) for word in given.get("args") or []]
    for key, target in (("env", "env"), ("custom_headers", "headers"), ("headers", "headers")):
        if isinstance(given.get(key), dict):
            made[target] = {
                str(name): _reference(done, f"{place}.{key}.{name}", str(value))
                for name, value in given[key].items()
            }
    if given.get("auth_token"):
        made["auth_token"] = _reference(done, f"{place}.auth_token", str(given["auth_token"]))
    if given.get("auth_header"):
        made["auth_header"] = str(given["auth_header"])
    return made


def _reference(done: Translation, place: str, value: str) -> str:
    """A secret as the name of an environment variable: values are not written into files."""
    if re.fullmatch(r"\$\{\w+\}", value):
        return value
    if plain := re.fullmatch(r"\$(\w+)", value):
        return f"${{{plain[1]}}}"
    variable = re.sub(r"\W+", "_", place.removeprefix("mcp_servers.")).upper().strip("_")
    if variable[:1].isdigit():
        variable = f"MCP_{variable}"
    done.remark(place, f"its value is not written: set the environment variable {variable}")
    return f"${{{variable}}}"
