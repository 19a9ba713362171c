"""The providers of the old server, each with the variables that configure it here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deploy.letta_migration.source import LettaDatabase
from libs.contracts.bus_messages import JsonObject

# The address that a provider has where nobody says otherwise.
DEFAULT_ADDRESSES: Mapping[str, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com/v1",
}
VARIABLES: Mapping[str, tuple[str, str]] = {
    "openai": ("OPENAI_API_KEY", "OPENAI_API_BASE"),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
}


def configured_by(kind: str, base_url: str | None) -> str:
    """The setting that makes this server know a provider."""
    if kind == "letta":
        return "Letta's own models are not served here: give its agents another model"
    if kind == "ollama":
        return "OLLAMA_BASE_URL for its embeddings; OPENAI_API_BASE=<its address>/v1 for its models"
    if kind in VARIABLES:
        key, address = VARIABLES[kind]
        is_default = base_url in (None, "", DEFAULT_ADDRESSES[kind])
        return key if is_default else f"{key}, and {address}={base_url}"
    named = f"OPENAI_API_KEY, and OPENAI_API_BASE={base_url or '<its address>'}"
    return f"{named}, if it speaks OpenAI's protocol; its models are `openai/<model>` here"


def providers(database: LettaDatabase, org: str) -> Iterator[JsonObject]:
    """The providers that an organisation had, without their keys."""
    for row in database.rows(
        "providers", "(organization_id = %s or organization_id is null) and not is_deleted", [org]
    ):
        yield {
            "name": row["name"],
            "type": row["provider_type"],
            "category": row["provider_category"],
            "configured_by": configured_by(row["provider_type"] or "", row["base_url"]),
        }
