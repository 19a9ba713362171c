"""Vectors as events hold them, and the model that needs none."""

from __future__ import annotations

import math

import pytest

from libs.embeddings.vector_encoding import halfvec, pack_vector, unpack_vector
from tests.hash_embedder import HashEmbedder


async def test_a_vector_comes_back_from_its_text_as_float16_has_it() -> None:
    [vector] = await HashEmbedder().embed(["Bob likes hiking in the Alps"])
    back = unpack_vector(pack_vector(vector))
    assert len(pack_vector(vector)) < 3 * len(vector)
    assert all(
        math.isclose(number, two, abs_tol=5e-4) for number, two in zip(vector, back, strict=True)
    )
    assert unpack_vector(pack_vector(back)) == back, "packing is stable"


def test_postgres_reads_the_same_numbers() -> None:
    halves = unpack_vector(pack_vector([0.12345, -1.0, 6.1e-5, 0.0]))
    read = [float(number) for number in halfvec(halves).strip("[]").split(",")]
    assert unpack_vector(pack_vector(read)) == halves


@pytest.mark.parametrize(("text", "why"), [("AA==", "half a number"), ("no base64!", "base64")])
def test_what_is_no_vector_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        unpack_vector(text)


async def test_texts_that_share_words_are_near_and_the_same_text_is_the_same() -> None:
    embedder = HashEmbedder()
    alps, again, near, far = await embedder.embed(
        ["hiking in the Alps", "hiking in the Alps", "The ALPS, hiking!", "compilers"]
    )
    assert alps == again
    assert math.isclose(math.hypot(*alps), 1.0)
    assert math.sumprod(alps, near) > 0.8 > 0.2 > math.sumprod(alps, far)
    assert (embedder.calls, embedder.texts) == (1, 4)


async def test_any_text_has_a_vector() -> None:
    for vector in await HashEmbedder().embed(["", "😀", "\ud800", "\x00"]):
        assert math.isclose(math.hypot(*vector), 1.0)
