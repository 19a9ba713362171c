"""The forms that the parts of a wanted agent have in requests of their own: a plan is made of no
others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from libs.agent_document.desired import DesiredAgent, Json
from libs.agent_document.differences import FIELDS
from libs.contracts.letta.agent_requests import UpdateAgent
from libs.contracts.letta.error_bodies import InvalidArgument
from libs.contracts.letta.mcp_servers import UpdateMCPServerRequest
from libs.contracts.letta.tool_requests import ToolCreate
from services.api.http.error_responses import Problem
from services.api.resources.tools.tool_permissions import PermissionsWanted

OF_FIELDS = FIELDS.keys() - {"name"}  # which is beside them


def check_forms(agent: DesiredAgent) -> None:
    """Raise the 422 for the first part of an agent that no request could have. The words do not
    repeat its values, which may be secrets."""
    unknown = sorted(agent.fields.keys() - OF_FIELDS)
    if unknown:
        raise _problem(agent, f"`fields` of agents have no '{unknown[0]}'")
    for name, value in agent.fields.items():
        if FIELDS[name].merges and not isinstance(value, Mapping):
            raise _problem(agent, f"`{name}` should be an object")
    for place, form, value in _parts(agent):
        try:
            form.model_validate(value)
        except ValidationError as invalid:
            error = invalid.errors(include_input=False, include_url=False)[0]
            where = ".".join(map(str, (place, *error["loc"])))
            raise _problem(agent, f"`{where}`: {error['msg']}") from None
        except InvalidArgument as invalid:
            raise _problem(agent, str(invalid)) from None


def _problem(agent: DesiredAgent, words: str) -> Problem:
    return Problem(422, {"detail": f"{agent.file}: {words}"})


def _parts(agent: DesiredAgent) -> Iterator[tuple[str, type[BaseModel], Json]]:
    # Of a field that is merged a file may say a part, which is no whole form.
    whole: dict[str, Any] = {
        name: value for name, value in agent.fields.items() if not FIELDS[name].merges
    }
    yield "fields", UpdateAgent, whole
    for tool in agent.own_tools:
        yield f"own_tools.{tool.name}", ToolCreate, {**tool.fields, "source_code": tool.source_code}
    for server in agent.mcp_servers:
        config = {"config": server.config}
        yield f"mcp_servers.{server.name}", UpdateMCPServerRequest, config
    if agent.permissions is not None:
        yield "permissions", PermissionsWanted, agent.permissions
