"""An agent as a file."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

from litestar import Response
from pydantic_core import from_json, to_json

from libs.contracts.letta.request_size_limits import Name
from libs.encryption.passphrase_sealer import seal_with
from services.api.adapters.agents.agent_lines import WantedAgent
from services.api.http.callers import org_of
from services.api.http.downloads import download, pack_lines
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.per_path_concurrency_limits import end_turn
from services.api.http.request_parsing import AnyRequest, Query, query_of
from services.api.openapi.operation import get
from services.api.resources.agents.agent_file_export import agent_file
from services.api.resources.agents.agents import AGENTS
from services.api.v1.as_of import resolve
from services.api.v1.import_request import passphrase_of
from services.api.v1.read_model_responses import document_of
from services.api.v1.secret_sealing import open_secret

NAME = "json_build_object('name', v.name)::text"


class ExportQuery(Query):
    """Of which form the file is: that of the retired server today (`letta`) or before (`legacy`),
    or `heeler`, which has everything, also as of a moment."""

    format: Literal["letta", "legacy", "heeler"] = "letta"
    use_legacy_format: bool = False
    conversation_id: Name | None = None
    scrub_messages: bool = False
    at: Name | None = None


@get("/v1/agents/{agent_id:str}/export", "agent file", query=ExportQuery)
async def export_agent(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Write an agent to a file, from which it can be made again."""
    asked = query_of(request, ExportQuery)
    if asked.format == "heeler":
        return await full_file(request, agent_id, asked)
    return await agent_file(
        request,
        agent_id,
        form=asked.format,
        use_legacy_format=asked.use_legacy_format,
        conversation_id=asked.conversation_id,
        scrub_messages=asked.scrub_messages,
        at=asked.at,
    )


async def full_file(request: AnyRequest, agent_id: str, asked: ExportQuery) -> Response[bytes]:
    """The file that has everything, sent as it is read. Raises the 422 where less is asked for."""
    for field in ("scrub_messages", "conversation_id", "use_legacy_format"):
        if getattr(asked, field):
            detail = (
                f"`{field}` has no effect on `format=heeler`, which has all messages: leave it out"
            )
            raise Problem(422, {"detail": detail})
    agent = from_json(await document_of(request, AGENTS, agent_id, document=NAME))
    passphrase = passphrase_of(request)
    cut = await resolve(request, agent_id, asked.at) if asked.at else None
    lines = api_of(request).agent_lines.lines(
        WantedAgent(
            org=org_of(request),
            agent_id=agent_id,
            cut=cut.commit_order if cut else None,
            at=asked.at or "",
            now=api_of(request).clock.now(),
            seal=None if passphrase is None else sealing(request, passphrase),
        )
    )
    name = f"{agent['name']}.heeler.gz"
    end_turn(request.scope["state"])  # it waits with all other exports from here on
    place = api_of(request).exports.hold(org_of(request))
    return download(pack_lines(lines), name, "application/gzip", place)  # type: ignore[return-value]


def sealing(request: AnyRequest, passphrase: str) -> Callable[[dict[str, str]], Awaitable[str]]:
    """The function that seals the values of secrets for a file."""
    sealer = api_of(request).sealer

    async def seal(secrets: dict[str, str]) -> str:
        values = {name: open_secret(sealer, value) for name, value in secrets.items()}
        return await asyncio.to_thread(seal_with, passphrase, to_json(values).decode())

    return seal
