"""OAuth with MCP servers, by the SDK: code with PKCE, discovery and registration of the client, all
through the guarded client; and the tokens that come of it, renewed when they end."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from libs.egress.address_guard import AddressGuard
from services.tools.adapters.mcp.http_transport import http_client
from services.tools.adapters.mcp.ports import Keep, McpFailed, McpPerson, McpServerConfig

CLIENT_NAME = "Heeler"
NOWHERE = "http://localhost/"  # where nobody is asked
CONNECT_SECONDS_MAX = 15.0
BAD_STATUS = 400
WORDS_CHARS_MAX = 300
VERSION = "2025-06-18"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": VERSION,
        "capabilities": {},
        "clientInfo": {"name": "heeler", "version": "1"},
    },
}


class Grant:
    """Keeps the contract of the SDK's storage with one JSON text: tokens, when they end, the client
    that they are for, and where they are renewed."""

    def __init__(self, text: str, keep: Keep) -> None:
        self.known: dict[str, Any] = json.loads(text) if text else {}
        self.keep = keep
        self.provider: OAuthClientProvider | None = None

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens, if there are any."""
        known = self.known.get("tokens")
        return OAuthToken.model_validate(known) if known else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep the tokens that the server issued."""
        assert self.provider is not None
        metadata = self.provider.context.oauth_metadata
        ends = None if tokens.expires_in is None else time.time() + tokens.expires_in
        self.known |= {
            "tokens": tokens.model_dump(mode="json", exclude_none=True),
            "ends": ends,
            "metadata": metadata.model_dump(mode="json", exclude_none=True) if metadata else None,
        }
        await self.keep(json.dumps(self.known))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The client as it was registered."""
        known = self.known.get("client")
        return OAuthClientInformationFull.model_validate(known) if known else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Know the client; it is kept with the tokens that are for it."""
        self.known["client"] = client_info.model_dump(mode="json", exclude_none=True)


class Provider(OAuthClientProvider):
    """The SDK's, which knows after a restart, too, when tokens end and where they are renewed."""

    async def _initialize(self) -> None:
        await super()._initialize()
        storage = self.context.storage
        assert isinstance(storage, Grant)
        self.context.token_expiry_time = storage.known.get("ends")
        metadata = storage.known.get("metadata")
        if metadata:
            self.context.oauth_metadata = OAuthMetadata.model_validate(metadata)


def provider_of(config: McpServerConfig, keep: Keep, person: McpPerson | None = None) -> Provider:
    """The provider of tokens for requests to a server. Without a person nobody can be asked, and a
    server that needs one may not be used."""

    async def callback() -> AuthorizationCodeResult:
        assert person is not None
        code, state, issuer = await person.answer()
        return AuthorizationCodeResult(code=code, state=state, iss=issuer or None)

    storage = Grant(config.grant, keep)
    provider = Provider(
        server_url=config.url,
        client_metadata=OAuthClientMetadata(
            client_name=CLIENT_NAME,
            redirect_uris=[AnyUrl(person.redirect_uri if person else NOWHERE)],
            grant_types=["authorization_code", "refresh_token"],
        ),
        storage=storage,
        redirect_handler=person.go_to if person else None,
        callback_handler=callback if person else None,
    )
    storage.provider = provider
    return provider


async def authorize(
    guard: AddressGuard, config: McpServerConfig, person: McpPerson, keep: Keep
) -> None:
    """Have a person let a server be used, and keep what it grants. Raises McpFailed."""
    provider = provider_of(replace(config, grant=""), keep, person)
    client = http_client(guard, config, CONNECT_SECONDS_MAX, lambda _: None, own_auth=provider)
    accepts = {"Accept": "application/json, text/event-stream"}
    try:
        async with client as http:
            asked = (
                http.stream("GET", config.url, headers=accepts)
                if config.transport == "sse"
                else http.stream("POST", config.url, headers=accepts, json=HELLO)
            )
            async with asked as response:
                status = response.status_code
    except McpFailed:
        raise
    except Exception as error:  # whatever foreign servers bring the SDK to raise
        raise McpFailed("unauthorized", f"it could not be authorized: {words_of(error)}") from error
    if status >= BAD_STATUS:
        raise McpFailed("unauthorized", f"it still answers {status} after it was authorized")


def words_of(error: Exception) -> str:
    """The words of an exception; one of the network names an address with its query."""
    if isinstance(error, httpx2.HTTPError):
        return type(error).__name__
    return " ".join(str(error).split())[:WORDS_CHARS_MAX]
