"""The environment of the memory service: where texts may be embedded besides in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from libs.contracts.environment_parsing import address, header_text
from libs.egress.address_guard import EMBEDDING_HOSTS, AddressGuard
from libs.egress.provider_endpoints import OPENAI_BASE, Endpoint, endpoint, ollama_endpoint

SCHEMES = ("https", "http")


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """The endpoints of the operator, by the name that handles begin with; which private hosts
    clients may name."""

    endpoints: Mapping[str, Endpoint]
    guard: AddressGuard

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> EmbeddingSettings:
        """OPENAI_API_KEY, and OPENAI_API_BASE or OPENAI_BASE_URL, as for models; OLLAMA_BASE_URL,
        like http://localhost:11434; HEELER_EMBEDDING_HOSTS. Raises WrongSetting."""
        base, url, ollama = (
            address(environment, name, SCHEMES)
            for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL", "OLLAMA_BASE_URL")
        )
        given = {
            "openai": endpoint(
                header_text(environment, "OPENAI_API_KEY"), base or url, OPENAI_BASE
            ),
            "ollama": ollama_endpoint(ollama),
        }
        return cls(
            {name: endpoint for name, endpoint in given.items() if endpoint},
            AddressGuard.from_environment(EMBEDDING_HOSTS, environment),
        )
