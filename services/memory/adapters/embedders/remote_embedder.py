"""Models of endpoints that speak as OpenAI does: OpenAI, vLLM, LM Studio, LocalAI, Ollama."""

from __future__ import annotations

import asyncio
import json
import math
import re
import struct
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from pydantic_core import from_json, to_json

from libs.bus.fair_semaphore import FairSemaphore, NoPlace
from libs.egress.failures import EgressFailed, Forbidden
from libs.egress.outgoing_requests import Answer, OutgoingRequest
from libs.egress.provider_endpoints import KEY_FOR_KEYLESS, Endpoint
from libs.embeddings.ports import (
    TEXTS_MAX,
    EmbeddingFailed,
    EmbeddingRefused,
    EmbeddingUnavailable,
    Vector,
)

if TYPE_CHECKING:
    from libs.egress.guarded_http_client import GuardedHttp  # slow to import

# Texts of one request; and what all requests of one call may take together.
REQUEST_TEXTS_MAX = 64
CALL_SECONDS_MAX = 60.0
# Requests to one endpoint at once, of which an organisation has so many, and has so many wait for
# a place: an endpoint that is slow costs those who ask it for much an answer, and nobody else.
REQUESTS_MAX = 8
ORGANISATION_REQUESTS_MAX = 6
ORGANISATION_WAITING_MAX = 32
DIMENSIONS_MAX = 4_000  # more do not fit into a row beside the rest
REASON_CHARS_MAX = 300
# What passes: too many requests, a request that took too long, and whatever the endpoint suffers.
TRANSIENT = (408, 409, 425, 429)
# The statuses with which requests are refused that have too many texts, among other reasons.
TOO_MANY_TEXTS = (400, 413, 422)


WORDS_SHOWN_MAX = 300
REFUSAL_CHARS_READ = 2_000
NO_VECTORS = "its answer holds no vectors, one for each text"
# What refusals say that are about the length of texts, and not about how many there are.
LENGTH_WORDS = re.compile(r"token|length|character|\bbytes?\b|entity too large|\bbody\b", re.I)


# Where an answer that is an error, with the status of a good one, has its words.
ERROR_FIELDS = ("error", "message", "detail")
FLOAT_BYTES = 4


class OddVectors(ValueError):
    """An answer has vectors that cannot be used; the message says why."""


class RequestRefused(EmbeddingRefused):
    """An endpoint refused a request that it may take with fewer texts."""


class EmbeddingEndpoint:
    """An endpoint with its bounds, which all of its models share."""

    def __init__(self, endpoint: Endpoint, http: GuardedHttp) -> None:
        self.endpoint = endpoint
        self.http = http
        self.texts_max = REQUEST_TEXTS_MAX  # of one request; less where the endpoint takes less
        self.places = FairSemaphore(
            REQUESTS_MAX,
            of_organisation_max=ORGANISATION_REQUESTS_MAX,
            wait_seconds_max=CALL_SECONDS_MAX,
            of_organisation_waiting_max=ORGANISATION_WAITING_MAX,
            users="requests",
            thing="place",
        )

    async def embeddings(self, body: Mapping[str, Any], org: str) -> Any:
        """The answer to an organisation's request for vectors. Raises EmbeddingFailed."""
        try:
            async with self.places.hold(org):
                answer = await self.http.send(self.request(body))
        except NoPlace as full:
            raise self.unavailable(full.reason) from full
        except Forbidden as forbidden:
            raise EmbeddingRefused(f"{self.name} may not be asked: {forbidden}") from forbidden
        except EgressFailed as failed:
            raise self.unavailable(str(failed)) from failed
        if answer.status != 200:
            raise self.failure(answer)
        try:
            return from_json(answer.body)
        except ValueError as invalid:
            raise self.unavailable(f"it answered with what is no JSON: {invalid}") from invalid

    def request(self, body: Mapping[str, Any]) -> OutgoingRequest:
        """The request, with its credentials."""
        headers = {"Content-Type": "application/json", **self.endpoint.headers}
        if self.endpoint.api_key != KEY_FOR_KEYLESS:
            headers.setdefault("Authorization", f"Bearer {self.endpoint.api_key}")
        query = urlencode(self.endpoint.query)
        url = f"{self.endpoint.base_url}/embeddings{'?' if query else ''}{query}"
        return OutgoingRequest("POST", url, headers, to_json(body))

    @property
    def name(self) -> str:
        """The name of the endpoint in errors."""
        return f"the embedding endpoint {self.endpoint.base_url}"

    def failure(self, answer: Answer) -> EmbeddingFailed:
        """The exception for an HTTP error: to try again, or not."""
        words = self.without_secrets(answer.body[:4_000].decode(errors="replace"))
        reason = f"it answered {answer.status}: {words[:REASON_CHARS_MAX]}"
        if answer.status in TRANSIENT or answer.status >= 500:
            return self.unavailable(reason)
        kind = RequestRefused if answer.status in TOO_MANY_TEXTS else EmbeddingRefused
        return kind(f"{self.name} refused: {reason}")

    def without_secrets(self, words: str) -> str:
        """The endpoint's words, without the credentials."""
        for secret in self.endpoint.secrets:
            words = words.replace(secret, "...")
        return words

    def unavailable(self, reason: str) -> EmbeddingUnavailable:
        """The error for an outage that passes."""
        return EmbeddingUnavailable(f"{self.name} gives no vectors now, try again: {reason}")


class RemoteEmbedder:
    """Keeps the contract of `Embedder` with a model of an endpoint, which knows it by `name`, for
    an organisation."""

    def __init__(
        self,
        endpoint: EmbeddingEndpoint,
        *,
        org: str,
        model: str,
        name: str,
        dimensions: int,
        texts_at_once: int = REQUEST_TEXTS_MAX,
    ) -> None:
        self.endpoint = endpoint
        self.org = org
        self.model = model
        self.name = name
        self.dimensions = dimensions
        self.texts_at_once = max(1, min(texts_at_once, REQUEST_TEXTS_MAX))

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A vector of unit length for each text."""
        assert len(texts) <= TEXTS_MAX, "whoever has more texts calls again"
        step = min(self.texts_at_once, self.endpoint.texts_max)
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                return await self.vectors_by(step, texts)
        except TimeoutError as late:
            why = f"{len(texts)} texts took longer than {CALL_SECONDS_MAX:g} seconds"
            raise self.endpoint.unavailable(why) from late

    async def vectors_by(self, step: int, texts: Sequence[str]) -> list[Vector]:
        """The vectors of these texts, so many in a request, or fewer where the endpoint refuses as
        many: if it takes all of them so, it is asked for no more from then on."""
        vectors: list[Vector] = []
        is_less, counts_texts = False, True
        while len(vectors) < len(texts):
            part = texts[len(vectors) : len(vectors) + step]
            try:
                vectors += await self.request_vectors(part)
            except RequestRefused as refused:
                if len(part) == 1:
                    raise
                step, is_less = len(part) // 2, True
                counts_texts = counts_texts and says_count(str(refused))
        if is_less and counts_texts:
            self.endpoint.texts_max = min(self.endpoint.texts_max, step)
        return vectors

    async def request_vectors(self, texts: Sequence[str]) -> list[Vector]:
        """The vectors of these texts, from one request. Raises EmbeddingFailed."""
        # A text that is empty is refused by OpenAI.
        body: dict[str, Any] = {
            "model": self.name,
            "input": [text.encode(errors="replace").decode() or " " for text in texts],
            "encoding_format": "float",
        }
        if self.name.startswith("text-embedding-3"):
            body["dimensions"] = self.dimensions
        answer = await self.endpoint.embeddings(body, self.org)
        try:
            data = in_order(answer["data"])
            vectors = [unit(numbers_of(item["embedding"])) for item in data]
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as odd:
            said = error_in(answer)
            why = str(odd) if isinstance(odd, OddVectors) else NO_VECTORS
            words = self.endpoint.without_secrets(json.dumps(said))[:WORDS_SHOWN_MAX]
            why = f"it said {words}" if said else why
            raise self.endpoint.unavailable(why) from odd
        if len(vectors) != len(texts):
            why = f"it gave {len(vectors)} vectors for {len(texts)} texts"
            raise self.endpoint.unavailable(why)
        lengths = {len(vector) for vector in vectors}
        if len(lengths) > 1:
            raise self.endpoint.unavailable("its vectors are of different lengths")
        for length in lengths - {self.dimensions}:
            raise EmbeddingRefused(
                f"the model {self.name} gives {length} numbers and not"
                f" {self.dimensions}: set `embedding_config.embedding_dim` to {length}"
            )
        return vectors


def numbers_of(embedding: Any) -> list[float]:
    """The numbers of a vector, also where a server sends them as OpenAI's clients ask for them:
    the bytes of small floats in base64. Raises ValueError and TypeError."""
    if isinstance(embedding, str):
        raw = b64decode(embedding, validate=True)
        if len(raw) % FLOAT_BYTES:
            raise OddVectors("a vector is cut off")
        return list(struct.unpack(f"<{len(raw) // FLOAT_BYTES}f", raw))
    return [float(number) for number in embedding]


def error_in(answer: Any) -> Any:
    """The error in an answer without vectors; None where there is none."""
    if not isinstance(answer, dict):
        return None
    return next((answer[name] for name in ERROR_FIELDS if answer.get(name)), None)


def in_order(data: Any) -> list[Any]:
    """The vectors in the order of their texts, by their numbers; all without numbers, or with the
    same, come in that order. Raises OddVectors for other numbers, and AttributeError."""
    numbers = [item.get("index") for item in data]
    if len(set(map(str, numbers))) == 1:
        return list(data)
    places = [int(number) for number in numbers]
    if sorted(places) != [*range(len(places))]:
        raise OddVectors("its vectors have other numbers than the texts")
    return sorted(data, key=lambda item: int(item["index"]))


def says_count(words: str) -> bool:
    """Whether a refusal is about how many texts there are, and not about how long they are."""
    return not LENGTH_WORDS.search(words[:REFUSAL_CHARS_READ])


def unit(vector: list[float]) -> Vector:
    """The vector with the length 1. Raises OddVectors for one that has no direction."""
    length = math.hypot(*vector)
    if not 0 < length < math.inf:
        raise OddVectors("a vector without a direction")
    return [number / length for number in vector]
