"""The configuration of an MCP server as whoever connects to it needs it: with its secrets open."""

from __future__ import annotations

from collections.abc import Mapping

from libs.contracts.tools.mcp_servers import SealedMcpConfig
from libs.encryption.sealer import CannotOpen, Sealer
from services.tools.adapters.mcp.ports import McpFailed, McpServerConfig

AUTHORIZATION = "Authorization"
BEARER = "Bearer"


def open_config(
    sealer: Sealer, config: SealedMcpConfig, *, server_id: str, org: str, name: str, version: int
) -> McpServerConfig:
    """The configuration with its secrets open. Raises McpFailed if no key opens one."""
    try:
        return McpServerConfig(
            id=server_id,
            org=org,
            name=name,
            transport=config.transport,
            version=version,
            url=sealer.open(config.secret_url) if config.secret_url else config.url,
            headers=headers_of(sealer, config),
            command=config.command,
            args=tuple(config.args),
            env=opened_values(sealer, config.env),
            sampling=config.sampling,
        )
    except CannotOpen as cannot:
        words = f"A secret of the MCP server '{name}' cannot be opened: {cannot}"
        raise McpFailed("unauthorized", words) from None


def headers_of(sealer: Sealer, config: SealedMcpConfig) -> dict[str, str]:
    """The headers of each request. A token by itself is sent as Bearer, as in V1."""
    headers = opened_values(sealer, config.headers)
    name = config.auth_header or AUTHORIZATION
    if config.auth_token and name.lower() not in {header.lower() for header in headers}:
        token = sealer.open(config.auth_token)
        bare = name.lower() == AUTHORIZATION.lower() and " " not in token
        headers[name] = f"{BEARER} {token}" if bare else token
    return headers


def opened_values(sealer: Sealer, sealed: Mapping[str, str] | None) -> dict[str, str]:
    """The same with its values open."""
    known = (sealed or {}).items()
    return {name: sealer.open(value) if value else "" for name, value in known}
