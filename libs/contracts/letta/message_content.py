"""The parts a message's content may be made of."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, JsonValue

from libs.contracts.letta.request_size_limits import Integer


class TextContent(BaseModel):
    type: Literal["text"] = "text"
    text: str
    signature: str | None = None


class UrlImage(BaseModel):
    type: Literal["url"] = "url"
    url: str


class Base64Image(BaseModel):
    type: Literal["base64"] = "base64"
    media_type: str
    data: str
    detail: str | None = None


class LettaImage(BaseModel):
    type: Literal["letta"] = "letta"
    file_id: str
    media_type: str | None = None
    data: str | None = None
    detail: str | None = None


type ImageSource = Annotated[UrlImage | Base64Image | LettaImage, Field(discriminator="type")]


class ImageContent(BaseModel):
    type: Literal["image"] = "image"
    source: ImageSource


class ToolCallContent(BaseModel):
    type: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    input: dict[str, JsonValue]
    signature: str | None = None


class ToolReturnContent(BaseModel):
    type: Literal["tool_return"] = "tool_return"
    tool_call_id: str
    content: str
    is_error: bool


class ReasoningContent(BaseModel):
    type: Literal["reasoning"] = "reasoning"
    is_native: bool
    reasoning: str
    signature: str | None = None


class RedactedReasoningContent(BaseModel):
    type: Literal["redacted_reasoning"] = "redacted_reasoning"
    data: str


class OmittedReasoningContent(BaseModel):
    type: Literal["omitted_reasoning"] = "omitted_reasoning"
    signature: str | None = None


class SummarizedReasoningContentPart(BaseModel):
    index: Integer
    text: str


class SummarizedReasoningContent(BaseModel):
    type: Literal["summarized_reasoning"] = "summarized_reasoning"
    id: str
    summary: list[SummarizedReasoningContentPart]
    encrypted_content: str | None = None


type ContentPart = Annotated[
    TextContent
    | ImageContent
    | ToolCallContent
    | ToolReturnContent
    | ReasoningContent
    | RedactedReasoningContent
    | OmittedReasoningContent
    | SummarizedReasoningContent,
    Field(discriminator="type"),
]

type ToolReturnPart = Annotated[TextContent | ImageContent, Field(discriminator="type")]
