"""The bodies that search messages."""

from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from libs.contracts.letta.enums import MessageRole
from libs.contracts.letta.request_size_limits import Name, SearchText

FOUND_MAX = 100


def with_zone(moment: datetime) -> datetime:
    """A time in UTC, as it is without a zone. Raises ValueError beyond the years 1 to 9999."""
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC this is not within the years 1 to 9999") from None


type Moment = Annotated[datetime, AfterValidator(with_zone)]
type Roles = Annotated[list[MessageRole], Field(max_length=len(MessageRole))]


class MessageSearch(BaseModel):
    """Which messages: those with the words (`fts`), those near in meaning (`vector`), or both."""

    search_mode: Literal["vector", "fts", "hybrid"] = "hybrid"
    agent_id: Name | None = None
    conversation_id: Name | None = None
    limit: Annotated[int, Field(ge=1, le=FOUND_MAX)] = 50
    start_date: Moment | None = None
    end_date: Moment | None = None

    @model_validator(mode="after")
    def _start_is_before_end(self) -> Self:
        if self.start_date and self.end_date and self.start_date > self.end_date:
            raise ValueError("start_date is after end_date: give the earlier one as start_date")
        return self


class SearchAllMessagesRequest(MessageSearch):
    """The words to look for, in all messages that anybody wrote or said."""

    query: SearchText


class MessageSearchRequest(MessageSearch):
    """The same, by what agents are made from, too; without words all messages."""

    query: SearchText | None = None
    roles: Roles | None = None
    project_id: Name | None = None
    template_id: Name | None = None
