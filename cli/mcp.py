"""`heeler mcp`."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Argument, Option

from cli.commands import noun
from cli.exit_codes import CommandError, ExitCode
from cli.files_and_json import pairs
from cli.names import MCP_SERVER, id_of
from cli.output import columns, say, show, show_rows
from cli.server import given, server
from cli.verbs import add_delete, add_get, add_list, name_or_id

app = noun("MCP servers, whose tools agents may call.")

McpServer = Annotated[str, name_or_id(MCP_SERVER)]


def _where(mcp_server: Any) -> str:
    command = [mcp_server.get("command") or "", *(mcp_server.get("args") or [])]
    return str(mcp_server.get("server_url") or " ".join(command))


def _discovery(mcp_server: Any) -> str:
    discovery = mcp_server.get("discovery") or {}
    reason = discovery.get("reason")
    return f"{discovery.get('status', '')}{f': {reason}' if reason else ''}"


COLUMNS = columns(
    name="server_name", id="id", type="mcp_server_type", where=_where, discovery=_discovery
)

add_list(app, MCP_SERVER, COLUMNS, "List servers, the oldest first.")
add_get(app, MCP_SERVER, COLUMNS, "Show a server, and how the discovery of its tools went.")


@app.command()
def add(
    name: Annotated[str, Argument(help="What it is called.")],
    url: Annotated[str | None, Option(help="Its address, if it is on the web.")] = None,
    command: Annotated[
        str | None, Option(help="Its program, as its operator lists it, if it is one.")
    ] = None,
    arg: Annotated[list[str] | None, Option(help="An argument of it; repeat it.")] = None,
    env: Annotated[list[str] | None, Option(help="NAME=VALUE for it; repeat it.")] = None,
    header: Annotated[list[str] | None, Option(help="NAME=VALUE that it is sent.")] = None,
    token: Annotated[bool, Option("--token", help="Read its token from stdin, or ask.")] = False,
    sse: Annotated[bool, Option("--sse", help="It speaks server-sent events.")] = False,
) -> None:
    """Add a server: at --url, or the program --command. Its tools are discovered from now on."""
    if (url is None) == (command is None):
        raise CommandError("Say where it is: either --url or --command", ExitCode.USAGE)
    if url is not None:
        secret = _token() if token else None
        config = _on_the_web(url, pairs(header, "a header"), secret, sse=sse)
    else:
        config = {
            "mcp_server_type": "stdio",
            "command": command,
            "args": arg or [],
            "env": pairs(env, "a variable") or None,
        }
    body = {"server_name": name, "config": given(config)}
    made = server().post(MCP_SERVER.path, body)
    say(f"See its tools: heeler mcp tools {name}")
    show(made, COLUMNS)


def _on_the_web(
    url: str, headers: dict[str, str], token: str | None, *, sse: bool
) -> dict[str, Any]:
    return {
        "mcp_server_type": "sse" if sse else "streamable_http",
        "server_url": url,
        "custom_headers": headers or None,
        "auth_header": "Authorization" if token else None,
        "auth_token": f"Bearer {token}" if token else None,
    }


def _token() -> str:
    import sys

    if sys.stdin.isatty():
        import getpass

        return getpass.getpass("Token: ")
    return sys.stdin.read().strip()


@app.command()
def refresh(
    name: McpServer,
    accept: Annotated[
        list[str] | None, Option(help="A tool whose changed definition is accepted; repeat it.")
    ] = None,
) -> None:
    """Discover the tools again, now; show what was added, updated and deleted."""
    path = f"/v1/mcp-servers/{id_of(server(), MCP_SERVER, name)}"
    show(server().patch(f"{path}/refresh", accept=accept))


@app.command()
def tools(name: McpServer) -> None:
    """List the tools of a server, as agents may have them."""
    path = f"/v1/mcp-servers/{id_of(server(), MCP_SERVER, name)}"
    show_rows(server().get(f"{path}/tools"), columns("name", "id", "description"))


add_delete(app, MCP_SERVER, "Delete a server and its tools; agents have them no more.")
