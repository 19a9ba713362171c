"""Memory blocks as clients read them."""

from pydantic import BaseModel, ConfigDict, JsonValue

from libs.contracts.letta import JsonObject
from libs.contracts.letta.block_requests import BLOCK_LIMIT_CHARS, CreateBlock

# An agent's blocks with these labels get a description if the client gave none.
DEFAULT_DESCRIPTIONS = {
    "human": "The human block: What you know about the person you talk to, so that you can "
    "treat them as someone you know.",
    "persona": "The persona block: Who you are and how you behave, so that you stay the same "
    "from one conversation to the next.",
}


class BlockState(BaseModel):
    """A memory block; its fields are in the recorded order."""

    model_config = ConfigDict(frozen=True)

    value: str
    limit: int = BLOCK_LIMIT_CHARS
    project_id: str | None = None
    template_name: str | None = None
    is_template: bool = False
    template_id: str | None = None
    base_template_id: str | None = None
    deployment_id: str | None = None
    entity_id: str | None = None
    preserve_on_migration: bool | None = False
    label: str | None = None
    read_only: bool = False
    description: str | None = None
    metadata: dict[str, JsonValue] | None = {}
    hidden: bool | None = None
    id: str
    created_by_id: str | None = None
    last_updated_by_id: str | None = None
    tags: list[str] = []


def block_state(block: BlockState) -> JsonObject:
    """The block as clients read it."""
    return block.model_dump(mode="json")


def created_block(request: CreateBlock, id: str) -> BlockState:
    """The block that a request makes; as part of an agent, add `with_default_description`."""
    fields = request.model_dump()
    return BlockState(**{**fields, "tags": request.tags or []}, id=id)


def with_default_description(block: BlockState) -> BlockState:
    """The block with the default description of its label, if it has none of its own."""
    if block.description is not None or block.label not in DEFAULT_DESCRIPTIONS:
        return block
    return block.model_copy(update={"description": DEFAULT_DESCRIPTIONS[block.label]})
