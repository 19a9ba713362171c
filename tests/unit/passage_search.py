"""The search among passages, from the in-memory rows of the memory service."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from libs.contracts.bus_messages import JsonObject
from libs.contracts.memory.archives import FoundPassage
from libs.embeddings.rank_fusion import FUSION_RANKS
from libs.eventstore.in_memory_database import InMemoryDatabase
from services.memory.adapters.passage_search import (
    CANDIDATES_MIN,
    FOUND_MAX,
    PassageQuery,
)

WORD = re.compile(r"\w+")


def passage_doc(
    passage_id: str,
    text: str,
    archive_id: str,
    *,
    org: str = "org-1",
    tags: Sequence[str] = (),
    file_id: str | None = None,
) -> JsonObject:
    """A passage as clients read it, as far as searches look at it."""
    return {
        "organization_id": org,
        "archive_id": archive_id,
        "file_id": file_id,
        "tags": [*tags],
        "id": passage_id,
        "text": text,
    }


class InMemoryPassageSearch:
    """Keeps the contract of `PassageSearch`."""

    def __init__(self, database: InMemoryDatabase) -> None:
        self.database = database

    async def search(self, query: PassageQuery) -> list[FoundPassage]:
        rows: list[Any] = self.database.schema("memory").rows("passages")
        rows = [row for row in rows if fits(row, query)]
        limit = min(query.limit, FOUND_MAX)
        scores: dict[str, float] = defaultdict(float)
        for ranked in lists(rows, query):
            for place, row in enumerate(ranked[: max(limit, CANDIDATES_MIN)], start=1):
                scores[row["id"]] += 1 / (FUSION_RANKS + place)
        by_id = {row["id"]: row for row in rows}
        best = sorted(scores, key=lambda passage_id: (-scores[passage_id], passage_id))[:limit]
        return [found(by_id[passage_id], scores[passage_id]) for passage_id in best]


def found(row: Any, score: float) -> FoundPassage:
    fields = {**row["fields"], "metadata": row["metadata"]}
    return FoundPassage(
        id=row["id"], collection_id=row["collection_id"], fields=fields, score=score
    )


def fits(row: Any, query: PassageQuery) -> bool:
    tags, wanted = set(row["tags"]), set(query.tags)
    at = datetime.fromisoformat(row["created_at"])
    return (
        row["org"] == query.org
        and row["collection_id"] in query.collection_ids
        and (not wanted or (wanted <= tags if query.tag_match == "all" else bool(wanted & tags)))
        and (query.after is None or at >= query.after)
        and (query.before is None or at <= query.before)
        and (not query.file_ids or row["file_id"] in query.file_ids)
    )


def lists(rows: list[Any], query: PassageQuery) -> list[list[Any]]:
    """What each way of looking finds, the best first."""
    ranked = []
    for vector in query.vectors:
        same = [row for row in rows if row["embedding_model"] == vector.model]
        vectors = {row["id"]: json.loads(row["embedding"]) for row in same}
        same = [row for row in same if len(vectors[row["id"]]) == len(vector.vector)]
        same.sort(key=lambda row: (-math.sumprod(vectors[row["id"]], vector.vector), row["id"]))
        ranked.append(same)
    words = set(words_of(query.text or ""))
    if words:
        enough = len(words) if query.vectors else 1
        shared = {row["id"]: len(words & set(words_of(row["text"]))) for row in rows}
        worded = [row for row in rows if shared[row["id"]] >= enough]
        ranked.append(sorted(worded, key=lambda row: (-shared[row["id"]], row["id"])))
    if not ranked:
        newest = sorted(rows, key=lambda row: row["id"])
        newest.sort(key=lambda row: datetime.fromisoformat(row["created_at"]), reverse=True)
        ranked.append(newest)
    return ranked


def words_of(text: str) -> list[str]:
    return WORD.findall(text.lower())
