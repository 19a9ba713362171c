"""Lists that are ordered by different measures as one: reciprocal rank fusion."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

# How far a place in one list counts against a place in another: what is first there has 1/61.
FUSION_RANKS = 60


def fuse_ranks[T: Hashable](*lists: Sequence[T]) -> list[tuple[T, float]]:
    """The items of the lists, each once, with its score, the best first: 1 / (60 + its place) of
    each list that it is in. Items with the same score stay in the order of the lists."""
    scores: dict[T, float] = {}
    for ranked in lists:
        for place, found in enumerate(ranked, start=1):
            scores[found] = scores.get(found, 0.0) + 1 / (FUSION_RANKS + place)
    return sorted(scores.items(), key=lambda scored: -scored[1])
