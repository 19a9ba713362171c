"""Deterministic embeddings: texts that share words are near each other. No I/O."""

import base64
import hashlib
import json
import math
import re
import struct
from functools import lru_cache
from typing import Any

from tests.scripted_model.refusal import Invalid

INPUTS_MAX = 2048
DIMENSIONS_MAX = 3072
VECTORS_CACHED_MAX = 4096
_WORD = re.compile(r"\w+")


@lru_cache(maxsize=VECTORS_CACHED_MAX)
def vector(text: str, dimensions: int) -> tuple[float, ...]:
    """A unit vector; every word of the text adds to one axis, chosen by the word's hash."""
    axes = [0.0] * dimensions
    for word in _WORD.findall(text.lower()) or [text]:
        digest = hashlib.sha1(word.encode()).digest()
        axes[int.from_bytes(digest[:4], "big") % dimensions] += 1.0
    length = math.sqrt(sum(value * value for value in axes))
    return tuple(value / length for value in axes)


@lru_cache(maxsize=VECTORS_CACHED_MAX)
def _base64(text: str, dimensions: int) -> str:
    return base64.b64encode(struct.pack(f"<{dimensions}f", *vector(text, dimensions))).decode()


def embed(body: Any) -> bytes:
    """The JSON body of an embeddings reply; raises Invalid for a request that OpenAI refuses."""
    texts = _inputs(body)
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise Invalid("you must provide a model parameter", "model")
    dimensions = body.get("dimensions") or (3072 if "3-large" in model else 1536)
    if not isinstance(dimensions, int) or not 1 <= dimensions <= DIMENSIONS_MAX:
        raise Invalid(f"Invalid value for 'dimensions' = {dimensions}.", "dimensions")
    encode = _base64 if body.get("encoding_format") == "base64" else vector
    data = [
        {"object": "embedding", "index": index, "embedding": encode(text, dimensions)}
        for index, text in enumerate(texts)
    ]
    tokens = sum(max(1, len(text) // 4) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    reply = {"object": "list", "data": data, "model": model, "usage": usage}
    return json.dumps(reply).encode()


def _inputs(body: Any) -> list[str]:
    given = body.get("input") if isinstance(body, dict) else None
    if isinstance(given, str) or (isinstance(given, list) and given and isinstance(given[0], int)):
        given = [given]
    if not isinstance(given, list) or not given or len(given) > INPUTS_MAX:
        raise Invalid(f"'input' needs 1 to {INPUTS_MAX} texts.", "input")
    texts = [text if isinstance(text, str) else json.dumps(text) for text in given]
    if "" in texts:
        raise Invalid("'$.input' is invalid: a text is empty.", "input")
    return texts
