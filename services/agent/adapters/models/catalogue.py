"""All configured providers, and the models that they offer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

from pydantic_core import to_json

from libs.bus.ports import Clock
from libs.contracts.letta.errors import handle_not_found
from libs.contracts.letta.model_requests import EmbeddingConfig, LLMConfig
from libs.contracts.letta.models import embedding_entry, model_entry
from libs.contracts.message import NOT_FOUND, UNAVAILABLE, Rejected
from libs.eventstore.database import Database
from services.agent.adapters.models.port import (
    Finished,
    ModelEvent,
    ModelFailed,
    Provider,
    ProviderUnreachable,
)
from services.agent.domain.context import ModelRequest
from services.agent.domain.turn import Failure, ModelReply

log = logging.getLogger(__name__)

REFRESH_SECONDS = 60.0
RETRY_SECONDS = 5.0
HANDLES_NAMED_MAX = 200


@dataclass(slots=True)
class Offer:
    """What a provider was last heard to offer."""

    llms: dict[str, LLMConfig] = field(default_factory=dict)
    embeddings: dict[str, EmbeddingConfig] = field(default_factory=dict)
    reachable: bool = False
    asked_at: float = float("-inf")
    # Held while it is asked: whoever wants to know at the same time waits for the same answer.
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)


class Catalogue:
    """Answers for all providers, and publishes what they offer in `agent.models`."""

    def __init__(self, providers: list[Provider], database: Database, clock: Clock) -> None:
        self.providers = {provider.name: provider for provider in providers}
        self.offers = {provider.name: Offer() for provider in providers}
        self.database = database
        self.clock = clock
        self.unpublished = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """The answer of the model that the request's agent uses; it ends with the whole."""
        handle = request.config.llm_config.handle or ""
        provider = self.providers.get(handle.partition("/")[0])
        if provider is None:
            reason = f"No provider is configured for the model {handle or '(no handle)'}"
            raise ModelFailed(Failure("llm_not_found", reason))
        async with aclosing(provider.stream(request)) as events:
            async for event in events:
                yield event
                if isinstance(event, Finished):
                    return
        raise ModelFailed(Failure("llm_empty_response", f"{handle} ended without an answer"))

    async def reply(self, request: ModelRequest) -> ModelReply:
        """The whole answer of the model that the request's agent uses."""
        async with aclosing(self.stream(request)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    return event.reply
        raise AssertionError("a stream ends with the whole answer, or raises")

    async def llm(self, handle: str) -> LLMConfig | Rejected:
        """The config of a language model."""
        offer = await self.offer(handle, "llms")
        return offer if isinstance(offer, Rejected) else offer.llms[handle]

    async def embedding(self, handle: str) -> EmbeddingConfig | Rejected:
        """The config of an embedding model."""
        offer = await self.offer(handle, "embeddings")
        return offer if isinstance(offer, Rejected) else offer.embeddings[handle]

    async def offer(self, handle: str, kind: str) -> Offer | Rejected:
        """The offer that has a handle; asks the provider again before it says no."""
        name = handle.partition("/")[0]
        offer = self.offers.get(name)
        if offer is None:
            return self.unknown(handle, kind)
        if handle not in getattr(offer, kind):
            async with offer.asking:
                stale = self.clock.monotonic() - offer.asked_at > RETRY_SECONDS
                if handle not in getattr(offer, kind) and stale:
                    await self.ask(name)
        if handle in getattr(offer, kind):
            return offer
        if not offer.reachable:
            reason = f"The provider {name} cannot be reached to look up {handle}: try again"
            return Rejected(code=UNAVAILABLE, reason=reason)
        return self.unknown(handle, kind)

    def unknown(self, handle: str, kind: str) -> Rejected:
        """The refusal of a handle that nobody offers, with those that somebody does."""
        known = sorted(one for offer in self.offers.values() for one in getattr(offer, kind))
        named = known[:HANDLES_NAMED_MAX]
        return Rejected(code=NOT_FOUND, reason=str(handle_not_found(handle, named)["detail"]))

    async def turn(self) -> None:
        """Ask every provider once, publish, and rest."""
        for name in self.providers:
            async with self.offers[name].asking:
                await self.ask(name)
        everyone = all(offer.reachable for offer in self.offers.values())
        await self.clock.sleep(REFRESH_SECONDS if everyone else RETRY_SECONDS)

    async def ask(self, name: str) -> None:
        """Ask one provider what it offers; what it offered before stays if it does not say."""
        offer = self.offers[name]
        offer.asked_at = self.clock.monotonic()
        try:
            llms, embeddings = await self.providers[name].models()
        except ProviderUnreachable as problem:
            if offer.reachable or not offer.llms:
                log.warning("provider %s does not list its models: %s", name, problem)
            offer.reachable = False
            return
        new_llms = {str(config.handle): config for config in llms}
        new_embeddings = {str(config.handle): config for config in embeddings}
        changed = new_llms != offer.llms or new_embeddings != offer.embeddings
        self.unpublished = self.unpublished or changed or not offer.reachable
        offer.reachable = True
        offer.llms, offer.embeddings = new_llms, new_embeddings
        if self.unpublished:
            await self.publish()
            self.unpublished = False

    async def close(self) -> None:
        """Close what the providers have open."""
        for provider in self.providers.values():
            await provider.close()

    async def publish(self) -> None:
        """Let the api read what is on offer."""
        rows = [
            {"handle": handle, "kind": "llm", "position": position, "doc": model_entry(config)}
            for position, (handle, config) in enumerate(
                pair for offer in self.offers.values() for pair in offer.llms.items()
            )
        ] + [
            {"handle": handle, "kind": "embedding", "position": position,
             "doc": embedding_entry(config)}
            for position, (handle, config) in enumerate(
                pair for offer in self.offers.values() for pair in offer.embeddings.items()
            )
        ]  # fmt: skip
        await self.database.fetch(
            "with fresh as (select * from jsonb_populate_recordset(null::agent.models, %(rows)s)),"
            " gone as (delete from agent.models m where not exists ("
            "   select from fresh f where f.kind = m.kind and f.handle = m.handle))"
            " insert into agent.models select * from fresh"
            " on conflict (kind, handle) do update"
            " set position = excluded.position, doc = excluded.doc",
            {"rows": to_json(rows).decode()},
        )
