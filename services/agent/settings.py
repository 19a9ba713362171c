"""The environment of the agent service: which providers are configured."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

OPENAI_BASE = "https://api.openai.com/v1"
KEY_FOR_KEYLESS = "none"


@dataclass(frozen=True, slots=True)
class OpenAISettings:
    """How to reach OpenAI or what stands in for it."""

    api_key: str
    base_url: str


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """The providers; None where one is not configured."""

    openai: OpenAISettings | None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ProviderSettings:
        """OPENAI_API_KEY, and OPENAI_API_BASE or OPENAI_BASE_URL. A base without a key is a
        local server that wants none."""
        key = environment.get("OPENAI_API_KEY")
        base = environment.get("OPENAI_API_BASE") or environment.get("OPENAI_BASE_URL")
        if not key and not base:
            return cls(None)
        return cls(OpenAISettings(key or KEY_FOR_KEYLESS, (base or OPENAI_BASE).rstrip("/")))
