"""Catalogue of a server, for checks of files against it."""

from __future__ import annotations

from cli.fleet.server_transport import Transport
from cli.server import Server
from libs.agent_toml import Catalogue
from libs.contracts.tools.tool_permission_evaluation import compile_list

TOOLS_MAX = 10_000
FOLDERS_MAX = 10_000


def catalogue_of(server: Server | Transport) -> Catalogue:
    """The models, tools and folders of a server, and which tools it allows."""
    models = server.get("/v1/models/")
    embeddings = server.get("/v1/models/embedding")
    allowed = server.get("/v1/permissions/tools")
    tools = server.pages("/v1/tools/", limit=TOOLS_MAX)
    folders = server.pages("/v1/folders/", limit=FOLDERS_MAX)
    return Catalogue(
        models={model["handle"]: model["max_context_window"] for model in models},
        embeddings=[model["handle"] for model in embeddings],
        tools=[tool["name"] for tool in tools],
        folders=[folder["name"] for folder in folders],
        allowed=compile_list(allowed.get("tools"), allowed.get("capabilities")),
    )
