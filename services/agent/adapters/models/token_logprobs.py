"""What a provider says of the single tokens of an answer: how likely they were, and which they
are."""

from __future__ import annotations

from typing import Any

from libs.contracts.bus_messages import Json, JsonObject
from services.agent.adapters.models.answer_sanitization import storable
from services.agent.adapters.models.model_errors import MISSHAPEN
from services.agent.adapters.models.transport import TooLong

# Of an answer in all, with the alternatives. It is stored with the answer, in one event.
DETAILS_MAX = 100_000
TOKEN_CHARS_MAX = 1_000
TOKEN_ID_MAX = 2**31 - 1


class TokenLogprobs:
    """Takes what comes with the chunks of an answer."""

    def __init__(self) -> None:
        self.content: list[Json] = []
        self.refusal: list[Json] = []
        self.ids: list[int] = []
        self.count = 0
        self.is_odd = False

    def add(self, choice: Any) -> None:
        """What a choice, or a chunk of one, says. Where that has another form, nothing is kept of
        any token: the answer is worth more. Raises TooLong."""
        try:
            self.read(choice)
        except MISSHAPEN:
            self.is_odd = True

    def read(self, choice: Any) -> None:
        """The same; raises what is in MISSHAPEN where it has another form."""
        logprobs = choice.get("logprobs") or {}
        self.content += [self.token(one) for one in logprobs.get("content") or []]
        self.refusal += [self.token(one) for one in logprobs.get("refusal") or []]
        for token_id in choice.get("token_ids") or []:
            self.counted()
            if not isinstance(token_id, int) or not 0 <= token_id <= TOKEN_ID_MAX:
                raise ValueError("no id of a token")
            self.ids.append(token_id)

    def token(self, given: Any, *, alternatives: bool = True) -> JsonObject:
        """A token with its logarithmic probability, as V1 shows it."""
        self.counted()
        coded: list[Json] = [int(one) for one in (given.get("bytes") or [])[:TOKEN_CHARS_MAX]]
        token: JsonObject = {
            "token": storable(str(given["token"])[:TOKEN_CHARS_MAX]),
            "logprob": float(given["logprob"]),
            "bytes": coded if given.get("bytes") is not None else None,
        }
        if alternatives:
            others = given.get("top_logprobs") or []
            token["top_logprobs"] = [self.token(one, alternatives=False) for one in others]
        return token

    def counted(self) -> None:
        """One more of what is kept. Raises TooLong."""
        self.count += 1
        if self.count > DETAILS_MAX:
            raise TooLong(f"more than {DETAILS_MAX} tokens with their alternatives")

    @property
    def logprobs(self) -> JsonObject | None:
        """All of them; None where nothing was said."""
        if self.is_odd or not (self.content or self.refusal):
            return None
        return {"content": self.content or None, "refusal": self.refusal or None}

    @property
    def token_ids(self) -> list[int] | None:
        """All of them; None where nothing was said."""
        return None if self.is_odd else self.ids or None
