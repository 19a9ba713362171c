"""Which model embeds what, and what endpoints do wrong."""

from __future__ import annotations

import asyncio
import json
import math
import struct
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs.contracts.environment_parsing import WrongSetting
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.egress.failures import Forbidden, TooLate
from libs.egress.guarded_http_client import Answer, OutgoingRequest
from libs.egress.provider_endpoints import Endpoint
from libs.embeddings.bundled_model_config import HANDLE, LETTA_FREE, bundled_models
from libs.embeddings.ports import EmbeddingFailed, EmbeddingRefused, EmbeddingUnavailable
from services.memory.adapters.embedders import remote_embedder
from services.memory.adapters.embedders.embedder_router import EmbedderRouter
from services.memory.adapters.embedders.remote_embedder import EmbeddingEndpoint, RemoteEmbedder
from services.memory.settings import EmbeddingSettings
from tests.scripted_model.handle import ScriptedModel

ORG = "org-1"
SMALL = EmbeddingConfig(
    embedding_endpoint_type="openai",
    embedding_endpoint="http://elsewhere.example/v1",
    embedding_model="text-embedding-3-small",
    embedding_dim=1_536,
    handle="openai/text-embedding-3-small",
)


def embedders(**environment: str) -> EmbedderRouter:
    return EmbedderRouter(EmbeddingSettings.from_environment(environment))


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel() as scripted:
        yield scripted


def test_one_resolver_knows_every_handle() -> None:
    """MEM-15: agents without a config, and those of old clients, have the embedded model."""
    made = embedders(OPENAI_API_KEY="k", OLLAMA_BASE_URL="http://localhost:11434/")
    assert {made.for_config(model, ORG).model for model in (None, *bundled_models().values())} == {
        HANDLE
    }
    assert {*bundled_models()} == {HANDLE, LETTA_FREE}
    small = made.for_config(SMALL, ORG)
    assert isinstance(small, RemoteEmbedder)
    assert (small.model, small.dimensions) == ("openai/text-embedding-3-small", 1_536)
    assert small.endpoint.endpoint.base_url == "https://api.openai.com/v1", "its handle says whose"
    nomic = SMALL.model_copy(
        update={
            "handle": None,
            "embedding_endpoint_type": "ollama",
            "embedding_model": "nomic-embed-text",
            "embedding_endpoint": None,
        }
    )
    ollama = made.for_config(nomic, ORG)
    assert isinstance(ollama, RemoteEmbedder)
    assert ollama.model == "ollama/nomic-embed-text"
    assert ollama.endpoint.endpoint.base_url == "http://localhost:11434/v1"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "set OPENAI_API_KEY"),
        ({"handle": None, "embedding_endpoint_type": "pinecone"}, "no provider is configured"),
        ({"handle": None, "embedding_endpoint": "http://127.0.0.1/v1"}, "HEELER_EMBEDDING_HOSTS"),
        ({"embedding_dim": 9_999}, "`embedding_config.embedding_dim`"),
        ({"embedding_model": "m" * 201, "handle": None}, "at most 200 characters"),
    ],
)
def test_a_config_that_nobody_can_embed_is_refused_at_once(
    changes: dict[str, Any], why: str
) -> None:
    config = SMALL.model_copy(update=changes)
    if not changes:
        config = config.model_copy(update={"embedding_endpoint": None})
    with pytest.raises(EmbeddingRefused, match=why):
        embedders().for_config(config, ORG)


def test_an_endpoint_that_a_client_names_gets_no_key_of_the_operator() -> None:
    made = embedders(OPENAI_API_KEY="secret-of-the-operator")
    named = made.for_config(SMALL.model_copy(update={"handle": None}), ORG)
    assert isinstance(named, RemoteEmbedder)
    request = named.endpoint.request({})
    assert request.url == "http://elsewhere.example/v1/embeddings"
    assert "Authorization" not in request.headers
    known = made.for_config(SMALL, ORG)
    assert isinstance(known, RemoteEmbedder)
    assert "Bearer secret" in known.endpoint.request({}).headers["Authorization"]


@pytest.mark.parametrize("setting", ["OLLAMA_BASE_URL", "OPENAI_BASE_URL"])
def test_a_wrong_address_is_refused_by_its_name(setting: str) -> None:
    with pytest.raises(WrongSetting, match=setting):
        embedders(**{setting: "localhost"})


async def test_texts_are_embedded_by_an_endpoint_of_this_machine_in_batches(
    model: ScriptedModel,
) -> None:
    made = embedders(OPENAI_BASE_URL=model.base_url, OPENAI_API_KEY="k")
    embedder = made.for_config(SMALL.model_copy(update={"batch_size": 32}), ORG)
    texts = [f"word{n} and more" for n in range(70)]
    vectors = await embedder.embed([*texts, "", "\ud800"])
    assert [len(vector) for vector in vectors] == [1_536] * 72
    assert math.isclose(math.hypot(*vectors[0]), 1)
    asked = await model.requests()
    assert [len(request["input"]) for request in asked] == [
        32,
        32,
        8,
    ]
    await model.fail(429, kind="embeddings")
    with pytest.raises(EmbeddingUnavailable, match=r"try again.*429"):
        await embedder.embed(["a"])
    await model.fail(400, kind="embeddings")
    with pytest.raises(EmbeddingRefused, match="400"):
        await embedder.embed(["a"])
    wrong = made.for_config(
        SMALL.model_copy(update={"embedding_model": "other", "embedding_dim": 99}), ORG
    )
    with pytest.raises(EmbeddingRefused, match="to 1536"):
        await wrong.embed(["a"])


BEYOND_FLOATS = f'{{"data": [{{"index": 0, "embedding": [{"9" * 400}, 1]}}]}}'


class Answers:
    """An endpoint that answers as it is told to, when it is told to."""

    def __init__(self, answer: object, status: int = 200) -> None:
        self.answer = answer
        self.status = status
        self.free = asyncio.Event()
        self.free.set()
        self.asked = 0

    async def send(self, request: OutgoingRequest) -> Answer:
        self.asked += 1
        await self.free.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        text = self.answer if isinstance(self.answer, str) else json.dumps(self.answer)
        return Answer(self.status, {}, request.url, text.encode())


def endpoint_of(answers: Answers) -> EmbeddingEndpoint:
    endpoint = Endpoint("secret-key", "http://localhost/v1", secrets=("secret-key",))
    return EmbeddingEndpoint(endpoint, answers)


def remote(endpoint: EmbeddingEndpoint, org: str = ORG) -> RemoteEmbedder:
    return RemoteEmbedder(endpoint, org=org, model="openai/m", name="m", dimensions=2)


@pytest.mark.parametrize(
    ("answer", "status", "error", "why"),
    [
        ("not json", 200, EmbeddingUnavailable, "no JSON"),
        ({"data": [{"index": 0}]}, 200, EmbeddingUnavailable, "holds no vectors"),
        ({"data": []}, 200, EmbeddingUnavailable, "0 vectors for 1 texts"),
        ({"data": [{"index": 0, "embedding": [0, 0]}]}, 200, EmbeddingUnavailable, "direction"),
        ('{"data": [{"index": 0, "embedding": [NaN, 1]}]}', 200, EmbeddingUnavailable, "direction"),
        (BEYOND_FLOATS, 200, EmbeddingUnavailable, "holds no vectors"),
        ('{"data": [{"index": Infinity}]}', 200, EmbeddingUnavailable, "holds no vectors"),
        (TooLate("there was no answer"), 200, EmbeddingUnavailable, "no answer"),
        (Forbidden("it leads away"), 200, EmbeddingRefused, "may not be asked"),
        ("down", 503, EmbeddingUnavailable, "503"),
        ("wrong: secret-key", 401, EmbeddingRefused, r"wrong: \.\.\."),
    ],
    ids=[
        *("text", "empty", "few", "zero", "nan", "beyond-floats", "infinite-index"),
        *("late", "forbidden", "down", "key"),
    ],
)
async def test_what_an_endpoint_does_wrong_is_said(
    answer: object, status: int, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        await remote(endpoint_of(Answers(answer, status))).embed(["a"])


async def test_a_slow_endpoint_has_a_bounded_line_and_a_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = Answers({"data": [{"index": 0, "embedding": [3, 4]}]})
    answers.free.clear()
    embedder = remote(endpoint_of(answers))
    room = remote_embedder.ORGANISATION_REQUESTS_MAX + remote_embedder.ORGANISATION_WAITING_MAX
    calls = [asyncio.create_task(embedder.embed(["a"])) for _ in range(room)]
    await asyncio.sleep(0)
    with pytest.raises(EmbeddingUnavailable, match="requests of this organisation wait"):
        await embedder.embed(["a"])
    answers.free.set()
    assert await asyncio.gather(*calls) == [[[0.6, 0.8]]] * room
    answers.free.clear()
    monkeypatch.setattr(remote_embedder, "CALL_SECONDS_MAX", 0.01)
    with pytest.raises(EmbeddingUnavailable, match="longer than"):
        await embedder.embed(["a"])
    assert embedder.endpoint.places.free == remote_embedder.REQUESTS_MAX


async def test_an_organisation_that_asks_for_all_costs_another_no_answer() -> None:
    """Its requests fill their share of the endpoint and of the line, and never the other's."""
    answers = Answers({"data": [{"index": 0, "embedding": [3, 4]}]})
    answers.free.clear()
    endpoint = endpoint_of(answers)
    greedy = remote(endpoint, "org-greedy")
    room = remote_embedder.ORGANISATION_REQUESTS_MAX + remote_embedder.ORGANISATION_WAITING_MAX
    many = [asyncio.create_task(greedy.embed(["a"])) for _ in range(2 * room)]
    await asyncio.sleep(0)
    asked = answers.asked
    assert asked == remote_embedder.ORGANISATION_REQUESTS_MAX
    question = asyncio.create_task(remote(endpoint, "org-modest").embed(["q"]))
    await asyncio.sleep(0)
    assert answers.asked == asked + 1, "it is asked at once, behind none of the others"
    answers.free.set()
    assert await question == [[0.6, 0.8]]
    outcomes = await asyncio.gather(*many, return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, EmbeddingUnavailable)]
    assert len(refused) == room, "beyond its share it is refused, and may try again"


@pytest.mark.parametrize("numbers", [[None, None], ["1", "0"], [0, 0], [1, 0]])
async def test_vectors_without_numbers_are_in_the_order_of_the_texts(numbers: list[Any]) -> None:
    vectors = [[1, 0], [0, 1]]
    entries: list[dict[str, Any]] = [{"embedding": vector} for vector in vectors]
    for answered in (
        [{**entry, "index": number} for entry, number in zip(entries, numbers, strict=True)],
        entries,
    ):
        found = await remote(endpoint_of(Answers({"data": answered}))).embed(["a", "b"])
        turned = answered[0].get("index") in (1, "1")
        assert found == (vectors[::-1] if turned else vectors)


class FewTexts:
    """An endpoint that takes so many texts in a request, none of them `bad`."""

    def __init__(
        self,
        texts_max: int,
        status: int = 400,
        words: str = "batch size is invalid, it should not be larger than this",
    ) -> None:
        self.words = words
        self.texts_max = texts_max
        self.status = status
        self.asked: list[int] = []

    async def send(self, request: OutgoingRequest) -> Answer:
        texts = json.loads(request.body or b"")["input"]
        self.asked.append(len(texts))
        if len(texts) > self.texts_max or "bad" in texts:
            return Answer(self.status, {}, request.url, self.words.encode())
        entries = [{"embedding": [int(text), 1]} for text in texts]
        return Answer(200, {}, request.url, json.dumps({"data": entries}).encode())


class Answering:
    """An endpoint that gives one answer."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def send(self, request: OutgoingRequest) -> Answer:
        return Answer(200, {}, request.url, json.dumps(self.answer).encode())


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_an_endpoint_that_takes_fewer_texts_is_asked_for_fewer_from_then_on(
    status: int,
) -> None:
    endpoint = EmbeddingEndpoint(Endpoint("k", "http://localhost/v1"), few := FewTexts(10, status))
    texts = [str(number) for number in range(64)]
    vectors = await remote(endpoint).embed(texts)
    assert [round(first / second) for first, second in vectors] == [*range(64)]
    assert few.asked == [64, 32, 16, *[8] * 8]
    few.asked.clear()
    assert len(await remote(endpoint, "org-other").embed(texts[:20])) == 20
    assert few.asked == [8, 8, 4]


async def test_a_request_that_is_too_long_teaches_nothing_of_the_count() -> None:
    long = FewTexts(10, 400, "maximum context length is 100 tokens for a request")
    endpoint = EmbeddingEndpoint(Endpoint("k", "http://localhost/v1"), long)
    await remote(endpoint).embed([str(number) for number in range(64)])
    long.asked.clear()
    await remote(endpoint, "org-other").embed([str(number) for number in range(64)])
    assert long.asked[0] == 64


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"error": {"message": "no such model"}}, "no such model"),
        ({"data": None}, "no vectors"),
        ({"data": [{"embedding": "AAAA"}]}, "no vectors"),
        (
            {"data": [{"index": 0, "embedding": [1.0]}, {"index": 5, "embedding": [1.0]}]},
            "other numbers",
        ),
        ({"data": [{"index": 1, "embedding": [1.0]}, {"embedding": [1.0]}]}, "no vectors"),
        ([], "no vectors"),
    ],
)
def test_odd_answers_are_told_in_words(answer: Any, words: str) -> None:
    embedder = RemoteEmbedder(
        EmbeddingEndpoint(Endpoint("k", "http://localhost/v1"), Answering(answer)),
        org="org-1", model="openai/m", name="m", dimensions=1,
    )  # fmt: skip
    with pytest.raises(EmbeddingFailed) as failed:
        asyncio.run(embedder.embed(["a", "b"]))
    assert words in str(failed.value)
    assert "Error(" not in str(failed.value)


async def test_a_text_that_is_refused_alone_teaches_nothing() -> None:
    endpoint = EmbeddingEndpoint(Endpoint("k", "http://localhost/v1"), few := FewTexts(64))
    with pytest.raises(EmbeddingRefused, match="refused: it answered 400"):
        await remote(endpoint).embed([*map(str, range(31)), "bad"])
    assert len(few.asked) <= 12
    few.asked.clear()
    assert len(await remote(endpoint).embed([*map(str, range(64))])) == 64
    assert few.asked == [64]


async def test_vectors_may_come_in_base64_though_nobody_asked_for_it() -> None:
    data = [
        {"index": number, "embedding": b64encode(struct.pack("<2f", 0, 2 + number)).decode()}
        for number in range(2)
    ]
    endpoint = EmbeddingEndpoint(Endpoint("k", "http://localhost/v1"), Answering({"data": data}))
    assert await remote(endpoint).embed(["a", "b"]) == [[0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            {"data": [{"index": 0, "embedding": [1, 0]}, {"index": 1, "embedding": [1, 0, 0]}]},
            "of different lengths",
        ),
        ({"data": [{"index": n, "embedding": [1, 0, 0]} for n in (0, 1)]}, "3 numbers and not 2"),
        ({"data": [{"index": n, "embedding": "AAAA"} for n in (0, 1)]}, "is cut off"),
        ({"object": "error", "message": "no such model"}, "no such model"),
        ({"detail": "Not enough memory"}, "Not enough memory"),
        ({"error": "Incorrect API key: sk-secret"}, "Incorrect API key: ..."),
    ],
)
async def test_what_is_wrong_with_an_answer_is_said_truly(answer: Any, words: str) -> None:
    endpoint = Endpoint("sk-secret", "http://localhost/v1", secrets=("sk-secret",))
    with pytest.raises(EmbeddingFailed, match=words) as failed:
        await remote(EmbeddingEndpoint(endpoint, Answering(answer))).embed(["a", "b"])
    assert "sk-secret" not in str(failed.value)
