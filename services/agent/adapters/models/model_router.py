"""All configured providers, and the models that they offer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from pydantic_core import to_json

from libs.bus.ports import Clock
from libs.contracts.agent import scripted_replies
from libs.contracts.agent.provider_hints import provider_hint
from libs.contracts.bus_messages import INVALID, NOT_FOUND, UNAVAILABLE, Rejected
from libs.contracts.letta.error_bodies import handle_not_found
from libs.contracts.letta.model_configs import (
    EmbeddingConfig,
    LLMConfig,
    embedding_entry,
    model_entry,
)
from libs.embeddings.bundled_model_config import bundled_models
from libs.eventstore.connection_pool import Database
from libs.eventstore.ports import StoreUnavailable
from services.agent.adapters.models import demo_model
from services.agent.adapters.models.ports import (
    Finished,
    ModelEvent,
    ModelFailed,
    ModelLister,
    NoModelList,
    Provider,
    ProviderUnreachable,
    is_usable,
)
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import Failure, ModelReply

log = logging.getLogger(__name__)

REFRESH_SECONDS = 60.0
RETRY_SECONDS = 5.0
HANDLES_NAMED_MAX = 200
# The providers that need nothing from the environment.
BUILT_IN = {handle.partition("/")[0] for handle in (demo_model.HANDLE, scripted_replies.HANDLE)}
# So long a start waits for the lists of providers that the api has nothing of yet.
FIRST_LISTS_SECONDS_MAX = 15.0


@dataclass(slots=True)
class Offer:
    """The models that a provider listed last."""

    llms: dict[str, LLMConfig] = field(default_factory=dict)
    embeddings: dict[str, EmbeddingConfig] = field(default_factory=dict)
    reachable: bool = False
    heard: bool = False  # whether it ever answered this process
    unlisted: NoModelList | None = None  # where its models are those that clients name
    asked_at: float = float("-inf")
    # Held while it is asked: callers at the same time wait for the same answer.
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)


class ModelRouter:
    """Keeps the contract of `Models`, and publishes what the providers and the `embedders` offer
    in `agent.models`."""

    def __init__(
        self,
        providers: list[Provider],
        database: Database,
        clock: Clock,
        embedders: Sequence[ModelLister] = (),
    ) -> None:
        self.providers = {provider.name: provider for provider in providers}
        self.listers: dict[str, ModelLister] = {
            lister.name: lister for lister in (*providers, *embedders)
        }
        self.offers = {name: Offer() for name in self.listers}
        self.database = database
        self.clock = clock
        self.unpublished = False
        self.publishing = asyncio.Lock()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """The answer of the model that the request's agent uses; it ends with the whole."""
        config = request.config.llm_config
        provider = await self.provider_of(config)
        if isinstance(provider, Rejected):
            raise ModelFailed(Failure("llm_not_found", provider.reason))
        async with aclosing(provider.stream(request)) as events:
            async for event in events:
                yield event
                if isinstance(event, Finished):
                    return
        model = config.handle or config.model
        why = f"{model} ended without an answer"
        raise ModelFailed(Failure("llm_empty_response", why, stop_reason="invalid_llm_response"))

    async def reply(self, request: ModelRequest) -> ModelReply:
        async with aclosing(self.stream(request)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    return event.reply
        raise AssertionError("a stream ends with the whole answer, or raises")

    async def provider_of(self, config: LLMConfig) -> Provider | Rejected:
        """The provider for a model config: the one that its handle names; without a handle, the one
        that offers its model by its endpoint type, at its endpoint if several do."""
        if config.handle:
            named = self.providers.get(config.handle.partition("/")[0])
            reason = (
                f"No provider is configured for the model {config.handle}: set "
                "`llm_config.handle` to a model of `/v1/models/`"
            )
            hint = provider_hint(config.handle)
            reason = f"{reason}. {hint}" if hint else reason
            return named or Rejected(code=INVALID, reason=reason)
        fitting = self.fitting(config)
        if not fitting:
            await asyncio.gather(*(self.ask_if_stale(name) for name in self.providers))
            fitting = self.fitting(config)
        if fitting:
            return self.providers[fitting[0]]
        wanted = f"the model {config.model} with `model_endpoint_type` {config.model_endpoint_type}"
        silent = sorted(name for name in self.providers if not self.offers[name].reachable)
        if silent:
            reason = f"`llm_config`: {', '.join(silent)} cannot be reached to look up {wanted}"
            return Rejected(code=UNAVAILABLE, reason=f"{reason}: try again")
        known = sorted(handle for offer in self.offers.values() for handle in offer.llms)
        reason = (
            f"`llm_config`: no configured provider offers {wanted}: set `llm_config.handle` to one "
            f"of {known[:HANDLES_NAMED_MAX]}"
        )
        unlisted = sorted(name for name in self.providers if self.offers[name].unlisted)
        reason = ". ".join([reason, *map(words_of_missing_list, unlisted)])
        return Rejected(code=INVALID, reason=reason)

    def fitting(self, config: LLMConfig) -> list[str]:
        """The providers that offer the model of a config that names none, the best first."""
        found = [
            (address(offered.model_endpoint) != address(config.model_endpoint), name)
            for name, offer in self.offers.items()
            for offered in offer.llms.values()
            if offered.model == config.model
            and offered.model_endpoint_type == config.model_endpoint_type
        ]
        return [name for _, name in sorted(found)]

    async def refusal(self, config: LLMConfig) -> Rejected | None:
        provider = await self.provider_of(config)
        return provider if isinstance(provider, Rejected) else None

    async def payload(self, request: ModelRequest) -> bytes | Rejected:
        provider = await self.provider_of(request.config.llm_config)
        return provider if isinstance(provider, Rejected) else await provider.payload(request)

    def window_tokens(self, config: LLMConfig) -> int | None:
        names = [config.handle.partition("/")[0]] if config.handle else self.fitting(config)
        provider = self.providers.get(names[0]) if names else None
        return provider.window_tokens(config.model) if provider else None

    async def llm(self, handle: str) -> LLMConfig | Rejected:
        offer = await self.offer(handle, "llms")
        if isinstance(offer, Rejected) or handle in offer.llms:
            return offer if isinstance(offer, Rejected) else offer.llms[handle]
        assert offer.unlisted, "else the handle is in the list"
        return offer.unlisted.named_model(handle.partition("/")[2])

    async def embedding(self, handle: str) -> EmbeddingConfig | Rejected:
        if embedded := bundled_models().get(handle):
            return embedded
        offer = await self.offer(handle, "embeddings")
        if isinstance(offer, Rejected) or handle in offer.embeddings:
            return offer if isinstance(offer, Rejected) else offer.embeddings[handle]
        assert offer.unlisted, "else the handle is in the list"
        named = offer.unlisted.named_embedding
        if named is None:
            return self.refusal_of_handle(handle, "embeddings")
        return named(handle.partition("/")[2])

    async def offer(self, handle: str, kind: str) -> Offer | Rejected:
        """The offer that has a handle, or of a provider that has no list and may have it; asks the
        provider again before it says no."""
        name = handle.partition("/")[0]
        offer = self.offers.get(name)
        if offer is None:
            return self.refusal_of_handle(handle, kind)
        if handle not in getattr(offer, kind):
            await self.ask_if_stale(name)
        if handle in getattr(offer, kind):
            return offer
        if offer.unlisted and is_usable(handle.partition("/")[2]):
            return offer
        if not offer.reachable:
            reason = f"The provider {name} cannot be reached to look up {handle}: try again"
            return Rejected(code=UNAVAILABLE, reason=reason)
        return self.refusal_of_handle(handle, kind)

    def refusal_of_handle(self, handle: str, kind: str) -> Rejected:
        """The refusal of a handle that no provider offers; it names handles that are offered."""
        known = sorted(name for offer in self.offers.values() for name in getattr(offer, kind))
        known += bundled_models() if kind == "embeddings" else ()
        named = known[:HANDLES_NAMED_MAX]
        return Rejected(code=NOT_FOUND, reason=str(handle_not_found(handle, named)["detail"]))

    async def start(self) -> None:
        """Wait until what the api has nothing of yet is published: a provider is asked that was not
        there at an earlier start. Who does not answer in time is waited for no longer."""
        try:
            rows = await self.database.fetch(
                "select distinct split_part(handle, '/', 1) from agent.models"
            )
            fresh = self.listers.keys() - {name for (name,) in rows}
            async with asyncio.timeout(FIRST_LISTS_SECONDS_MAX):
                await asyncio.gather(*(self.ask_if_stale(name) for name in sorted(fresh)))
        except (TimeoutError, StoreUnavailable) as problem:
            log.warning("the list of models is not complete at the start: %r", problem)

    async def turn(self) -> None:
        """Ask every provider and embedder once, publish, and rest. None waits for another."""
        await asyncio.gather(*(self.ask_in_line(name) for name in self.listers))
        everyone = all(offer.reachable for offer in self.offers.values())
        await self.clock.sleep(REFRESH_SECONDS if everyone else RETRY_SECONDS)

    async def ask_in_line(self, name: str) -> None:
        """Ask a provider, or wait for a caller that is asking it already."""
        asking = self.offers[name].asking
        is_asked = asking.locked()
        async with asking:
            if not is_asked:
                await self.ask(name)

    async def ask_if_stale(self, name: str) -> None:
        """Ask a provider, unless it was asked just now; who is asked is waited for."""
        offer = self.offers[name]
        if self.clock.monotonic() - offer.asked_at > RETRY_SECONDS:
            await self.ask_in_line(name)
        else:
            async with offer.asking:
                return

    async def ask(self, name: str) -> None:
        """Ask one provider what it offers; what it offered before stays if it does not say."""
        offer = self.offers[name]
        offer.asked_at = self.clock.monotonic()
        try:
            llms, embeddings = await self.listers[name].models()
        except NoModelList as unlisted:
            if offer.unlisted is None:
                log.warning("%s", words_of_missing_list(name))
            offer.unlisted, offer.reachable = unlisted, True
            return
        except ProviderUnreachable as problem:
            if offer.reachable or not (offer.llms or offer.embeddings):
                log.warning("provider %s does not list its models: %s", name, problem)
            offer.reachable = False
            return
        new_llms = {str(config.handle): config for config in llms}
        new_embeddings = {str(config.handle): config for config in embeddings}
        changed = new_llms != offer.llms or new_embeddings != offer.embeddings
        self.unpublished = self.unpublished or changed or not offer.reachable
        offer.reachable = offer.heard = True
        offer.unlisted = None
        offer.llms, offer.embeddings = new_llms, new_embeddings
        async with self.publishing:
            if self.unpublished:
                self.unpublished = False  # what another provider says meanwhile is published after
                try:
                    await self.publish()
                except BaseException:
                    self.unpublished = True
                    raise

    def embeddings(self) -> list[tuple[str, EmbeddingConfig]]:
        """The embedding models by their handles: those of the providers, and the embedded one."""
        offered = [pair for offer in self.offers.values() for pair in offer.embeddings.items()]
        return [*offered, *bundled_models().items()]

    async def close(self) -> None:
        """Close what the providers and embedders have open."""
        for lister in self.listers.values():
            await lister.close()

    async def publish(self) -> None:
        """Let the api read what is on offer. What is known from an earlier start of a provider
        that has not answered yet stays. The demo is not listed beside others, and the model of
        scripts never, unless a client asks for them: whoever takes the first model that there is
        wants a real one."""
        alone = self.providers.keys() <= BUILT_IN
        hidden = {scripted_replies.HANDLE} | ({demo_model.HANDLE} if not alone else set())
        rows = [
            {"handle": handle, "kind": "llm", "position": position, "fields": model_entry(config),
             "listed": handle not in hidden}
            for position, (handle, config) in enumerate(
                pair for offer in self.offers.values() for pair in offer.llms.items()
            )
        ] + [
            {"handle": handle, "kind": "embedding", "position": position,
             "fields": embedding_entry(config), "listed": True}
            for position, (handle, config) in enumerate(self.embeddings())
        ]  # fmt: skip
        await self.database.fetch(
            "with fresh as (select * from jsonb_populate_recordset(null::agent.models, %(rows)s)),"
            " gone as (delete from agent.models m where not exists ("
            "   select from fresh f where f.kind = m.kind and f.handle = m.handle)"
            "  and split_part(m.handle, '/', 1) <> all(%(unheard)s::text[]))"
            " insert into agent.models select * from fresh"
            " on conflict (kind, handle) do update"
            " set position = excluded.position, fields = excluded.fields, listed = excluded.listed",
            {"rows": to_json(rows).decode(), "unheard": self.silent_providers()},
        )

    def silent_providers(self) -> list[str]:
        """The configured providers that have never answered this process."""
        return [name for name, offer in self.offers.items() if not offer.heard]


def words_of_missing_list(name: str) -> str:
    """The advice for a provider that does not list its models."""
    return f"The provider {name} has no list of its models: name them as `{name}/<model>`"


def address(endpoint: str | None) -> str:
    """An endpoint as it is compared."""
    return (endpoint or "").rstrip("/")
