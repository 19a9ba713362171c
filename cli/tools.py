"""`heeler tools`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from cli.commands import noun
from cli.exit_codes import CommandError, ExitCode
from cli.files_and_json import json_object, text_of
from cli.names import AGENT, TOOL, find, id_of
from cli.output import columns, say, show, show_rows, show_text
from cli.server import given, server
from cli.verbs import LIST_ENTRIES, Limit, add_attachment, add_delete, add_get, name_or_id

app = noun("Tools: what agents may call.")

Tool = Annotated[str, name_or_id(TOOL)]
Packages = Annotated[
    list[str] | None, Option("--package", help="A package from PyPI: requests, numpy==2.1.0.")
]
Approval = Annotated[
    bool | None, Option("--approval/--no-approval", help="Whether a call needs an approval.")
]
Description = Annotated[str | None, Option(help="What models are told of it.")]
Tags = Annotated[list[str] | None, Option("--tag", help="May be repeated.")]

COLUMNS = columns("name", "id", type="tool_type", description="description")
FIELDS = COLUMNS | columns("tags", needs_approval="default_requires_approval")
FIELDS |= columns(
    packages=lambda tool: [_requirement(package) for package in tool["pip_requirements"] or []],
    arguments=lambda tool: _arguments(tool),
    source="source_code",
)


def _requirement(package: Any) -> str:
    version = package.get("version")
    return f"{package['name']}=={version}" if version else str(package["name"])


def _arguments(tool: Any) -> str:
    parameters = (tool["json_schema"] or {}).get("parameters") or {}
    required = parameters.get("required") or []
    return "\n".join(
        f"{name}: {schema.get('type', 'any')}{'' if name in required else ', optional'}"
        for name, schema in (parameters.get("properties") or {}).items()
    )


@app.command("list")
def list_(
    search: Annotated[str | None, Option(help="A part of the name.")] = None,
    kind: Annotated[str | None, Option("--type", help="custom, external_mcp, ...")] = None,
    tag: Tags = None,
    limit: Limit = LIST_ENTRIES,
) -> None:
    """List tools, the newest first."""
    tools = server().pages(TOOL.path, limit=limit, search=search, tool_types=kind, tags=tag)
    show_rows(tools, COLUMNS)


add_get(app, TOOL, FIELDS, "Show a tool: its arguments, its source, what it needs.")


@app.command()
def create(
    file: Annotated[Path, Argument(help="A .py file with one function; - is stdin.")],
    description: Description = None,
    tag: Tags = None,
    package: Packages = None,
    approval: Approval = None,
    replace: Annotated[
        bool, Option("--replace", help="Change the tool of that name, if there is one.")
    ] = False,
) -> None:
    """Make a tool of a Python function; its name and arguments come from the source."""
    fields = _fields(text_of(file), description, tag, package, approval)
    if not replace:
        _require_new(fields["source_code"])
    made = server().put(TOOL.path, fields)
    say(f"Attach it: heeler tools attach {made['name']} AGENT")
    show(made, FIELDS)


def _require_new(source: str) -> None:
    """The API changes a tool of the same name without a word: agents would call the new one."""
    name = server().post("/v1/tools/generate-schema", {"code": source})["name"]
    if server().get(TOOL.path, name=name):
        raise CommandError(
            f"There is a tool '{name}': change it with --replace, or rename the function",
            ExitCode.REFUSED,
        )


@app.command("set")
def set_(
    tool: Tool,
    file: Annotated[Path | None, Option("--file", "-f", help="New source; - is stdin.")] = None,
    description: Description = None,
    tag: Tags = None,
    package: Packages = None,
    approval: Approval = None,
) -> None:
    """Change what is given; agents that have the tool call the new one."""
    source = None if file is None else text_of(file)
    fields = _fields(source, description, tag, package, approval)
    tool_id = id_of(server(), TOOL, tool)
    show(server().patch(f"/v1/tools/{tool_id}", fields), FIELDS)


def _fields(
    source: str | None,
    description: str | None,
    tags: list[str] | None,
    packages: list[str] | None,
    approval: bool | None,
) -> dict[str, Any]:
    requirements = [
        {"name": name, "version": version or None}
        for name, _, version in (package.partition("==") for package in packages or [])
    ]
    fields = {
        "source_code": source,
        "description": description,
        "tags": tags or None,
        "pip_requirements": requirements or None,
        "default_requires_approval": approval,
    }
    return given(fields)


add_attachment(app, TOOL, "attach", "Let an agent call a tool.", "{agent} may call {name}.")
add_attachment(app, TOOL, "detach", "Take a tool from an agent.", "{agent} has {name} no more.")


@app.command()
def run(
    tool: Annotated[str, Argument(metavar="TOOL", help="Its name or id; or a .py file.")],
    arguments: Annotated[str, Argument(help="As JSON: '{\"sides\": 6}'; - is stdin.")] = "{}",
    agent: Annotated[
        str | None, Option(help="As this agent calls it, with its secrets; its name or id.")
    ] = None,
) -> None:
    """Call a tool once, in the sandbox. Shows what it returned; its output goes to stderr."""
    result = _run(tool, json_object(arguments, "the arguments"), agent)
    for stream in ("stdout", "stderr"):
        for text in result.get(stream) or []:
            say(text.rstrip("\n"))
    if result["status"] != "success":
        raise CommandError(_returned(result))
    show_text(_returned(result))


def _returned(result: Any) -> str:
    """V1 has one word for a call of source, and another for one of an agent."""
    return str(result.get("tool_return", result.get("func_return")))


def _run(tool: str, arguments: dict[str, Any], agent: str | None) -> Any:
    if agent is not None:
        agent_id = id_of(server(), AGENT, agent)
        name = find(server(), TOOL, tool)["name"]
        return server().post(f"/v1/agents/{agent_id}/tools/{name}/run", {"args": arguments})
    if tool.endswith(".py"):
        return server().post(
            "/v1/tools/run", {"source_code": text_of(Path(tool)), "args": arguments}
        )
    found = find(server(), TOOL, tool)
    body = {
        "source_code": found["source_code"] or "",
        "args": arguments,
        "name": found["name"],
        "json_schema": found["json_schema"],
        "pip_requirements": found["pip_requirements"],
    }
    return server().post("/v1/tools/run", given(body))


add_delete(app, TOOL, "Delete a tool; agents have it no more.")
