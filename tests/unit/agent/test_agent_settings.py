"""Which providers the environment configures."""

from __future__ import annotations

import pytest

from libs.contracts.agent.summaries import SummaryLimits
from libs.contracts.environment_parsing import WrongSetting
from libs.egress.provider_endpoints import Endpoint
from services.agent.adapters.models.aiohttp_transport import HttpWire
from services.agent.adapters.models.openai_provider import OpenAIProvider
from services.agent.app import providers
from services.agent.settings import ProviderSettings, summary_limits


def configured(**environment: str) -> ProviderSettings:
    return ProviderSettings.from_environment(environment)


def test_without_settings_there_is_only_the_demo() -> None:
    empty = configured(OPENAI_API_KEY="", ANTHROPIC_API_KEY="", ANTHROPIC_BASE_URL="")
    assert empty == ProviderSettings(openai=None, anthropic=None)
    assert [provider.name for provider in providers(empty)] == ["demo", "scripted"]


def test_a_key_is_enough() -> None:
    settings = configured(OPENAI_API_KEY="sk-1", ANTHROPIC_API_KEY="sk-2")
    assert settings.openai == Endpoint("sk-1", "https://api.openai.com/v1")
    assert settings.anthropic == Endpoint("sk-2", "https://api.anthropic.com")
    assert [provider.name for provider in providers(settings)] == [
        *("openai", "anthropic", "demo", "scripted")
    ]


@pytest.mark.parametrize("base", ["http://a:1", "http://a:1/", "http://a:1/v1", "http://a:1/v1/"])
def test_anthropics_base_may_end_with_the_version_or_not(base: str) -> None:
    assert configured(ANTHROPIC_BASE_URL=base).anthropic == Endpoint("none", "http://a:1")


@pytest.mark.parametrize("name", ["OPENAI_API_BASE", "OPENAI_BASE_URL"])
def test_a_base_without_a_key_is_a_server_that_wants_none(name: str) -> None:
    assert configured(**{name: "http://a:1/v1/"}).openai == Endpoint("none", "http://a:1/v1")


def test_a_key_of_several_organisations_says_which() -> None:
    settings = configured(OPENAI_API_KEY="k", OPENAI_ORG_ID="org-1", OPENAI_PROJECT_ID="")
    assert settings.openai == Endpoint(
        "k", "https://api.openai.com/v1", {"OpenAI-Organization": "org-1"}
    )
    provider = providers(settings)[0]
    assert isinstance(provider, OpenAIProvider)
    assert isinstance(provider.wire, HttpWire)
    assert provider.wire.headers["OpenAI-Organization"] == "org-1"
    assert provider.wire.headers["Authorization"] == "Bearer k"


def test_how_many_summaries_an_agent_may_have_is_set_by_variables() -> None:
    assert summary_limits({}) == SummaryLimits(per_minute=1, per_hour=10)
    wanted = {"HEELER_SUMMARIES_PER_MINUTE": "5", "HEELER_SUMMARIES_PER_HOUR": "100"}
    assert summary_limits(wanted) == SummaryLimits(per_minute=5, per_hour=100)
    with pytest.raises(
        WrongSetting, match="HEELER_SUMMARIES_PER_HOUR is '0': it must be a whole number"
    ):
        summary_limits({"HEELER_SUMMARIES_PER_HOUR": "0"})
