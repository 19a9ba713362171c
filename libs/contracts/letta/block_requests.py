"""The bodies that make and change memory blocks."""

from typing import Annotated

from pydantic import BaseModel, Field, JsonValue, field_validator, model_validator

from libs.contracts.letta.request_size_limits import (
    INTEGER_MAX,
    BlockValue,
    Metadata,
    Name,
    Names,
    Text,
)

BLOCK_LIMIT_CHARS = 100_000

# Refused by the block itself, in words of its own.
type BlockLimit = Annotated[int, Field(json_schema_extra={"minimum": 1, "maximum": INTEGER_MAX})]


class _BlockFields(BaseModel):
    project_id: Name | None = None
    template_name: Name | None = None
    is_template: bool = False
    template_id: Name | None = None
    base_template_id: Name | None = None
    deployment_id: Name | None = None
    entity_id: Name | None = None
    preserve_on_migration: bool | None = False
    read_only: bool = False
    description: Text | None = None
    metadata: Metadata | None = {}
    hidden: bool | None = None
    tags: Names | None = None

    @field_validator("value", mode="before", check_fields=False)
    @classmethod
    def _drop_null_bytes(cls, value: JsonValue) -> JsonValue:
        # Postgres text cannot hold them.
        return value.replace("\x00", "") if isinstance(value, str) else value


class CreateBlock(_BlockFields):
    """A new memory block."""

    label: Name
    value: BlockValue
    limit: BlockLimit = BLOCK_LIMIT_CHARS

    @model_validator(mode="before")
    @classmethod
    def _no_value_is_empty(cls, data: JsonValue) -> JsonValue:
        if isinstance(data, dict) and data.get("value") is None:
            return {**data, "value": ""}
        return data


class BlockUpdate(_BlockFields):
    """A change to a memory block: only the fields in `model_fields_set` count."""

    @field_validator("label", "value", "limit", "tags", mode="before")
    @classmethod
    def _null_is_no_value(cls, sent: JsonValue) -> JsonValue:
        if sent is None:
            raise ValueError("null is no value of this field: leave it out to keep what there is")
        return sent

    label: Name | None = None
    value: BlockValue | None = None
    limit: BlockLimit | None = None
