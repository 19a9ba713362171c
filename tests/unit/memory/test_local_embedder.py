"""The thread that embeds: everybody in turn, within bounds, and the model that comes along."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Sequence

import pytest

from libs.embeddings.bundled_model_config import DIMENSIONS, HANDLE
from libs.embeddings.ports import EmbeddingRefused, EmbeddingUnavailable, Vector
from services.memory.adapters.embedders import local_embedder
from services.memory.adapters.embedders.local_embedder import (
    TURN_CHARS_MAX,
    TURN_TEXTS_MAX,
    LocalEmbedder,
    OrganisationEmbedder,
)
from services.memory.adapters.embedders.minilm import (
    TOKENS_AT_ONCE_MAX,
    MiniLm,
    batches,
)
from tests.hash_embedder import word_vector
from tests.waiting import wait_for


class Words:
    """A model that may be held up, and says what it embedded, and where."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.free.set()
        self.turns: list[str] = []
        self.sizes: list[int] = []
        self.threads: set[str] = set()
        self.held: list[str] = []
        self.always: list[str] = []  # are never held up

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        if texts[0] not in self.always:
            self.held.append(texts[0])
            assert self.free.wait(10)
        self.turns.append(texts[0])
        self.sizes.append(len(texts))
        self.threads.add(threading.current_thread().name)
        return [word_vector(text, 8) for text in texts]


async def test_the_vectors_come_in_the_order_of_the_texts() -> None:
    model = Words()
    embedder = LocalEmbedder("words", 8, lambda: model)
    texts = [f"word{n}" for n in range(3 * TURN_TEXTS_MAX + 1)]
    assert await embedder.embed(texts) == [word_vector(text, 8) for text in texts]
    assert await embedder.embed([]) == []
    assert threading.current_thread().name not in model.threads
    await embedder.aclose()


async def test_a_question_waits_for_a_few_texts_of_a_file_and_not_for_the_file() -> None:
    model = Words()
    model.free.clear()
    embedder = LocalEmbedder("words", 8, lambda: model)
    file = asyncio.create_task(embedder.embed([f"file{n}" for n in range(500)]))
    await asyncio.sleep(0)
    question = asyncio.create_task(embedder.embed(["question"]))
    gone = asyncio.create_task(embedder.embed(["nobody waits for this"]))
    await asyncio.sleep(0)
    gone.cancel()
    model.free.set()
    await asyncio.gather(file, question)
    assert model.turns.index("question") <= 2
    assert "nobody waits for this" not in model.turns
    assert embedder.interactive.waiting.total() == 0
    await embedder.aclose()


async def test_who_waits_for_an_answer_waits_for_no_file() -> None:
    model = Words()
    model.free.clear()
    model.always = ["question"]
    embedder = LocalEmbedder("words", 8, lambda: model)
    file = asyncio.create_task(
        OrganisationEmbedder(embedder, "org-1", background=True).embed(["chunk"] * 32)
    )
    await wait_for("a chunk that is being embedded", lambda: model.held)
    question = asyncio.create_task(OrganisationEmbedder(embedder, "org-1").embed(["question"]))
    assert await question == [word_vector("question", 8)]
    assert not file.done()
    model.free.set()
    await file
    assert len(model.threads) == 2
    await embedder.aclose()


async def test_organisations_take_turns_with_their_files_too() -> None:
    model = Words()
    model.free.clear()
    embedder = LocalEmbedder("words", 8, lambda: model)
    greedy, modest = (OrganisationEmbedder(embedder, org, True) for org in ("org-1", "org-2"))
    many = [asyncio.create_task(greedy.embed(["chunk"] * 32)) for _ in range(10)]
    await asyncio.sleep(0)
    file = asyncio.create_task(modest.embed(["chunk of another"]))
    await asyncio.sleep(0)
    model.free.set()
    await asyncio.gather(file, *many)
    assert model.turns.index("chunk of another") <= 2
    await embedder.aclose()


async def test_the_model_is_loaded_once_for_both_threads() -> None:
    models: list[Words] = []

    def load() -> Words:
        models.append(Words())
        return models[-1]

    embedder = LocalEmbedder("words", 8, load)
    await asyncio.gather(embedder.embed(["a"]), embedder.embed(["b"], background=True))
    assert len(models) == 1
    await embedder.aclose()


async def test_a_turn_takes_hardly_longer_than_one_long_text() -> None:
    model = Words()
    embedder = LocalEmbedder("words", 8, lambda: model)
    long, short = "long" * TURN_CHARS_MAX, "short"
    texts = [long, *[short] * (TURN_TEXTS_MAX + 1), long, long]
    assert len(await embedder.embed(texts)) == len(texts)
    assert model.turns == [long, short, short, long, long]
    assert model.sizes == [1, TURN_TEXTS_MAX, 1, 1, 1]
    await embedder.aclose()


async def test_full_of_background_texts_there_is_room_for_who_waits_for_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_embedder, "ORGANISATION_TEXTS_WAITING_MAX", 10)
    model = Words()
    model.free.clear()
    model.always = ["question"]
    embedder = LocalEmbedder("words", 8, lambda: model)
    file = asyncio.create_task(embedder.embed(["chunk"] * 10, "org-1", background=True))
    await asyncio.sleep(0)
    with pytest.raises(EmbeddingUnavailable, match="try again"):
        await embedder.embed(["one more"], "org-1", background=True)
    assert len(await embedder.embed(["question"], "org-1")) == 1
    model.free.set()
    await file
    assert embedder.background.waiting.total() == 0
    await embedder.aclose()


async def test_who_comes_when_too_many_wait_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_embedder, "TEXTS_WAITING_MAX", 10)
    model = Words()
    model.free.clear()
    embedder = LocalEmbedder("words", 8, lambda: model)
    first = asyncio.create_task(embedder.embed(["a"] * 9))
    await asyncio.sleep(0)
    with pytest.raises(EmbeddingUnavailable, match="try again"):
        await embedder.embed(["b"] * 2)
    second = asyncio.create_task(embedder.embed(["c"]))
    model.free.set()
    assert [len(vectors) for vectors in await asyncio.gather(first, second)] == [9, 1]
    await embedder.aclose()


async def test_organisations_take_turns_however_much_one_of_them_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_embedder, "ORGANISATION_TEXTS_WAITING_MAX", 40 * TURN_TEXTS_MAX)
    model = Words()
    model.free.clear()
    embedder = LocalEmbedder("words", 8, lambda: model)
    greedy, modest = (OrganisationEmbedder(embedder, org) for org in ("org-greedy", "org-modest"))
    many = [asyncio.create_task(greedy.embed([f"{n}"] * TURN_TEXTS_MAX)) for n in range(40)]
    await asyncio.sleep(0)
    with pytest.raises(EmbeddingUnavailable, match="try again"):
        await greedy.embed(["one more"])
    question = asyncio.create_task(modest.embed(["question"]))
    await asyncio.sleep(0)
    model.free.set()
    await asyncio.gather(question, *many)
    assert model.turns.index("question") <= 2, "it waits for one turn of the other, not for 40"
    await embedder.aclose()


async def test_without_its_package_the_model_refuses_and_says_what_to_do() -> None:
    def load() -> MiniLm:
        raise ModuleNotFoundError("No module named 'onnxruntime'")

    embedder = LocalEmbedder("words", 8, load)
    for _ in range(2):
        with pytest.raises(EmbeddingRefused, match="install what"):
            await embedder.embed(["a"])
    await embedder.aclose()


def test_texts_are_read_together_as_far_as_they_fit() -> None:
    tokens = [[1] * n for n in (256, 256, 256, 3, 3, 200)]
    parts = batches(tokens)
    assert [token for part in parts for token in part] == tokens
    assert all(len(part) * max(map(len, part)) <= TOKENS_AT_ONCE_MAX for part in parts)
    assert [len(part) for part in parts] == [2, 2, 2]
    assert batches([]) == []


async def test_the_model_that_comes_along_knows_what_words_mean() -> None:
    """MEM-14: and reads the beginning of what is too long for it."""
    embedder = LocalEmbedder(HANDLE, DIMENSIONS, MiniLm)
    texts = ["Her sister adopted a puppy", "A new dog in the family", "The compiler failed", ""]
    puppy, dog, compiler, nothing = await embedder.embed(texts)
    assert all(
        math.isclose(math.hypot(*vector), 1, abs_tol=1e-5) for vector in (puppy, dog, nothing)
    )
    assert math.sumprod(puppy, dog) > 0.4 > 0.2 > math.sumprod(puppy, compiler)
    [same] = await embedder.embed(texts[:1])
    assert math.isclose(math.sumprod(puppy, same), 1, abs_tol=1e-5), "alone or with others"
    long = "dog " * 300
    first, longer = await embedder.embed([long, long + "compiler \ud800\x00" * 100_000])
    assert math.isclose(math.sumprod(first, longer), 1, abs_tol=1e-5)
    await embedder.aclose()
