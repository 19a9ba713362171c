"""The bodies that make and change memory blocks."""

from pydantic import BaseModel, JsonValue, field_validator, model_validator

BLOCK_LIMIT_CHARS = 100_000


class _BlockFields(BaseModel):
    project_id: str | None = None
    template_name: str | None = None
    is_template: bool = False
    template_id: str | None = None
    base_template_id: str | None = None
    deployment_id: str | None = None
    entity_id: str | None = None
    preserve_on_migration: bool | None = False
    read_only: bool = False
    description: str | None = None
    metadata: dict[str, JsonValue] | None = {}
    hidden: bool | None = None
    tags: list[str] | None = None

    @field_validator("value", mode="before", check_fields=False)
    @classmethod
    def _drop_null_bytes(cls, value: JsonValue) -> JsonValue:
        # Postgres text cannot hold them.
        return value.replace("\x00", "") if isinstance(value, str) else value


class CreateBlock(_BlockFields):
    """A new memory block."""

    label: str
    value: str
    limit: int = BLOCK_LIMIT_CHARS

    @model_validator(mode="before")
    @classmethod
    def _no_value_is_empty(cls, data: JsonValue) -> JsonValue:
        if isinstance(data, dict) and data.get("value") is None:
            return {**data, "value": ""}
        return data


class BlockUpdate(_BlockFields):
    """A change to a memory block: only the fields in `model_fields_set` count."""

    label: str | None = None
    value: str | None = None
    limit: int | None = None
