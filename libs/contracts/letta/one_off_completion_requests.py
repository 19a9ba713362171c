"""The body that asks a model a single question."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import PydanticCustomError

from libs.contracts.letta.request_size_limits import Metadata, Name, Prompt


def not_blank(prompt: str) -> str:
    """A prompt that says something."""
    if not prompt.strip():
        raise PydanticCustomError("prompt_empty", "`prompt` needs more than white space")
    return prompt


def object_schema(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """A JSON schema that can stand for the arguments of a call."""
    if not schema:
        return None
    properties, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(properties, dict) or schema.get("type", "object") != "object":
        raise PydanticCustomError(
            "schema_of_no_object",
            "`response_schema` has to be the JSON schema of an object, with `properties`",
        )
    if not isinstance(required, list) or not all(isinstance(one, str) for one in required):
        raise PydanticCustomError(
            "schema_required", "`required` of `response_schema` has to be a list of names"
        )
    return schema


type ResponseSchema = Annotated[Metadata | None, AfterValidator(object_schema)]


class GenerateRequest(BaseModel):
    """What is asked, and of which form the answer has to be."""

    prompt: Annotated[Prompt, Field(min_length=1), AfterValidator(not_blank)]
    system_prompt: Prompt | None = None
    override_model: Name | None = None
    response_schema: ResponseSchema = None
