"""What the scripted model was asked and what it answered, in bounded memory."""

import json
import time
from collections import Counter, deque
from typing import Any

REQUESTS_KEPT_MAX = 256
REFUSALS_KEPT_MAX = 32
TEXTS_KEPT_MAX = 50_000

Steps = dict[str, dict[int, int]]


class Stats:
    """Counters, the last request bodies, and how often each step of each text was asked.

    `asked[text][step]` counts valid requests; `answered[text][step]` counts those whose reply
    was handed to the client in full; `last_asked[text][step]` is when it was asked last, in
    seconds since 1970. The oldest texts are dropped beyond TEXTS_KEPT_MAX, and
    `texts_dropped` counts them, so that a test can assert that nothing is missing.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.asked: Steps = {}
        self.answered: Steps = {}
        self.last_asked: dict[str, dict[int, float]] = {}
        self.validation_errors = 0
        self.refusals: deque[dict[str, Any]] = deque(maxlen=REFUSALS_KEPT_MAX)
        self.requests: deque[bytes] = deque(maxlen=REQUESTS_KEPT_MAX)
        self.texts_dropped = 0

    def ask(self, text: str, step: int) -> None:
        """Notes that this step of this text was asked."""
        if text not in self.asked and len(self.asked) >= TEXTS_KEPT_MAX:
            oldest = next(iter(self.asked))
            del self.asked[oldest]
            del self.last_asked[oldest]
            self.answered.pop(oldest, None)
            self.texts_dropped += 1
        steps = self.asked.setdefault(text, {})
        steps[step] = steps.get(step, 0) + 1
        self.last_asked.setdefault(text, {})[step] = time.time()

    def answer(self, text: str, step: int) -> None:
        """Notes that the reply to this step was handed to the client in full."""
        if text in self.asked:
            steps = self.answered.setdefault(text, {})
            steps[step] = steps.get(step, 0) + 1

    def refuse(self, reason: str, messages: object) -> None:
        """Notes a request that the validator refused, with its messages."""
        self.validation_errors += 1
        self.refusals.append({"reason": reason, "messages": messages})

    def written(self, text: str | None = None) -> bytes:
        """The body of GET /_stats, with the steps of all texts or of this one only."""
        asked, answered = self.asked, self.answered
        if text is not None:
            asked, answered = {text: asked.get(text, {})}, {text: answered.get(text, {})}
        return json.dumps(
            {
                "counts": self.counts,
                "by_text": asked,
                "answered_by_text": answered,
                "last_asked_by_text": self.last_asked,
                "texts_dropped": self.texts_dropped,
                "validation_errors": self.validation_errors,
                "refusals": list(self.refusals),
            }
        ).encode()

    def written_requests(self, last: int) -> bytes:
        """The body of GET /_requests: the last bodies as they came, oldest first."""
        kept = list(self.requests)
        return b"[" + b",".join(kept[max(0, len(kept) - last) :]) + b"]"
