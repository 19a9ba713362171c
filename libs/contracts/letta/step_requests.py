"""The bodies that say something of a step."""

from typing import Literal

from pydantic import BaseModel

from libs.contracts.letta.request_size_limits import Names


class ModifyFeedbackRequest(BaseModel):
    """What a client thinks of a step; null takes back what was said before."""

    feedback: Literal["positive", "negative"] | None = None
    tags: Names | None = None
