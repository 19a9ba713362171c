"""Searches the web by a service of which the operator or the agent has a key: Exa or Tavily."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import from_json, to_json

from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.environment_parsing import Environment, address, header_text, one_of
from libs.egress.address_guard import AddressGuard, port_of
from libs.egress.failures import EgressFailed
from libs.egress.outgoing_requests import Bounds, OutgoingRequest

if TYPE_CHECKING:
    from libs.egress.guarded_http_client import GuardedHttp

SEARCH_SECONDS_MAX = 30.0
ANSWER_BYTES_MAX = 4 << 20
RESULTS_MAX = 100
TAVILY_RESULTS_MAX = 20
SETTING, URL_SETTING = "HEELER_WEB_SEARCH", "HEELER_WEB_SEARCH_URL"
REASON_CHARS_MAX = 500

type Category = Literal[
    "company",
    "research paper",
    "news",
    "pdf",
    "github",
    "tweet",
    "personal site",
    "linkedin profile",
    "financial report",
]


class SearchFailed(Exception):
    """There are no results; the words say why."""


class WebSearch(BaseModel):
    """The arguments of `web_search`."""

    model_config = ConfigDict(extra="ignore")

    query: str = Field(max_length=2_000)
    num_results: int = 10
    category: Category | None = None
    include_text: bool = False
    include_domains: list[str] | None = Field(None, max_length=100)
    exclude_domains: list[str] | None = Field(None, max_length=100)
    start_published_date: str | None = Field(None, max_length=40)
    end_published_date: str | None = Field(None, max_length=40)
    user_location: str | None = Field(None, max_length=40)

    @field_validator("num_results")
    @classmethod
    def within_bounds(cls, count: int) -> int:
        """As many as can be had."""
        return min(max(count, 1), RESULTS_MAX)


@dataclass(frozen=True, slots=True)
class Provider:
    """A service that searches the web: how it is asked, and what its results say."""

    key: str
    url: str
    path: str
    headers: Callable[[str], Mapping[str, str]]
    body: Callable[[WebSearch], JsonObject]
    result: Callable[[Mapping[str, Any], WebSearch], JsonObject]


def present_fields(**fields: Json) -> JsonObject:
    """The fields that have a value: not None, empty text or an empty list."""
    return {name: value for name, value in fields.items() if value not in (None, "", [])}


def exa_body(asked: WebSearch) -> JsonObject:
    """A search as Exa wants it, with the contents that V1 asks for."""
    return present_fields(
        query=asked.query,
        numResults=asked.num_results,
        type="auto",
        category=asked.category,
        includeDomains=[*(asked.include_domains or [])],
        excludeDomains=[*(asked.exclude_domains or [])],
        startPublishedDate=asked.start_published_date,
        endPublishedDate=asked.end_published_date,
        userLocation=asked.user_location,
        contents={
            "text": asked.include_text,
            "highlights": {"numSentences": 2, "highlightsPerUrl": 3, "query": asked.query},
            "summary": {"query": f"What this says about: {asked.query}"},
        },
    )


def exa_result(found: Mapping[str, Any], asked: WebSearch) -> JsonObject:
    """A result of Exa, in V1's form."""
    return {
        "title": found.get("title"),
        "url": found.get("url"),
        "published_date": found.get("publishedDate"),
        "author": found.get("author"),
        **present_fields(
            text=found.get("text") if asked.include_text else None,
            highlights=found.get("highlights"),
            summary=found.get("summary"),
        ),
    }


def tavily_body(asked: WebSearch) -> JsonObject:
    """A search as Tavily wants it; of the categories it knows the news."""
    return present_fields(
        query=asked.query,
        max_results=min(asked.num_results, TAVILY_RESULTS_MAX),
        topic="news" if asked.category == "news" else "general",
        include_raw_content=asked.include_text,
        include_domains=[*(asked.include_domains or [])],
        exclude_domains=[*(asked.exclude_domains or [])],
        start_date=(asked.start_published_date or "")[:10],
        end_date=(asked.end_published_date or "")[:10],
    )


def tavily_result(found: Mapping[str, Any], asked: WebSearch) -> JsonObject:
    """A result of Tavily, in V1's form."""
    return {
        "title": found.get("title"),
        "url": found.get("url"),
        "published_date": found.get("published_date"),
        "author": None,
        **present_fields(
            text=found.get("raw_content") if asked.include_text else None,
            summary=found.get("content"),
        ),
    }


PROVIDERS: Mapping[str, Provider] = {
    "exa": Provider(
        key="EXA_API_KEY",
        url="https://api.exa.ai",
        path="/search",
        headers=lambda key: {"x-api-key": key},
        body=exa_body,
        result=exa_result,
    ),
    "tavily": Provider(
        key="TAVILY_API_KEY",
        url="https://api.tavily.com",
        path="/search",
        headers=lambda key: {"Authorization": f"Bearer {key}"},
        body=tavily_body,
        result=tavily_result,
    ),
}


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Which service searches, where it is, and the keys of the operator by their variable."""

    provider: str = ""
    url: str = ""
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_environment(cls, environment: Environment) -> SearchSettings:
        """HEELER_WEB_SEARCH, HEELER_WEB_SEARCH_URL, EXA_API_KEY, TAVILY_API_KEY. Raises
        WrongSetting."""
        chosen = environment.get(SETTING)
        keys = {engine.key: header_text(environment, engine.key) for engine in PROVIDERS.values()}
        return cls(
            one_of(environment, SETTING, tuple(PROVIDERS), "exa") if chosen else "",
            address(environment, URL_SETTING, ("http", "https")).rstrip("/"),
            {name: key for name, key in keys.items() if key},
        )


class WebSearches:
    """Searches the web."""

    def __init__(self, settings: SearchSettings) -> None:
        self.settings = settings

    def choose_provider(self, keys: Mapping[str, str]) -> Provider:
        """The search service to ask: the configured one, else the first that there is a key for.
        Raises SearchFailed."""
        if self.settings.provider:
            provider = PROVIDERS[self.settings.provider]
            if provider.key not in keys:
                raise SearchFailed(
                    f"{provider.key} is not set: neither the server nor the agent's secrets have it"
                )
            return provider
        for provider in PROVIDERS.values():
            if provider.key in keys:
                return provider
        wanted = " or ".join(provider.key for provider in PROVIDERS.values())
        raise SearchFailed(
            f"no key for a search service: set {wanted} for the server, or as an agent's secret"
        )

    async def results(self, asked: WebSearch, secrets: Mapping[str, str]) -> list[JsonObject]:
        """The search results; the keys among the agent's secrets go before the operator's. Raises
        SearchFailed."""
        keys = {**self.settings.keys, **{name: key for name, key in secrets.items() if key}}
        provider = self.choose_provider(keys)
        key = keys[provider.key]
        request = OutgoingRequest(
            "POST",
            (self.settings.url or provider.url) + provider.path,
            {**provider.headers(key), "Content-Type": "application/json"},
            to_json(provider.body(asked)),
        )
        try:
            answer = await self.http(request.url).send(request)
        except EgressFailed as failed:
            raise SearchFailed(f"the search service was not reached: {failed}") from None
        if answer.status != 200:
            why = answer.body[:REASON_CHARS_MAX].decode("utf-8", "replace").replace(key, "...")
            raise SearchFailed(f"the search service answered with {answer.status}: {why}")
        return [provider.result(page, asked) for page in found_in(answer.body)]

    def http(self, url: str) -> GuardedHttp:
        """The client of the service. Where it is, is the operator's word: also on this machine."""
        from libs.egress.guarded_http_client import GuardedHttp  # slow to import

        parts = urlsplit(url)
        named = {f"{(parts.hostname or '').lower()}:{port_of(parts)}"} if self.settings.url else ()
        guard = AddressGuard(frozenset(named), URL_SETTING)
        bounds = Bounds(
            seconds=SEARCH_SECONDS_MAX,
            silence_seconds=SEARCH_SECONDS_MAX,
            answer_bytes=ANSWER_BYTES_MAX,
            redirects=0,
        )
        return GuardedHttp(guard, bounds)


def found_in(body: bytes) -> list[Mapping[str, Any]]:
    """The results in an answer. Raises SearchFailed for what is none."""
    try:
        answer = from_json(body)
    except ValueError:
        raise SearchFailed("the search service answered with something that is no JSON") from None
    results = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(results, list):
        raise SearchFailed("the search service answered without results")
    return [result for result in results if isinstance(result, dict)]
