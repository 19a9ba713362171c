"""Tools: those that come with the server, and those that clients make."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import to_json

from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.request_size_limits import Name, Names, SearchText
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.base_tools.catalogue import ADDED_TOOLS
from libs.contracts.tools.base_tools.definition import BaseTool
from libs.contracts.tools.tools import CreateTool, DeleteTool, DeriveToolSchema, UpdateTool
from services.api.adapters.resource_query_builder import Where, any_of, contains, filter_of
from services.api.adapters.tools.tool_queries import (
    TOOLS,
    ToolQueries,
    all_base_tools,
    base_document,
    base_tool,
)
from services.api.http.callers import caller_of, org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import (
    PAGE_ITEMS_MAX,
    AnyRequest,
    Page,
    Query,
    body_of,
    query_of,
    valid_id,
)
from services.api.openapi.operation import delete, get, patch, post, put
from services.api.v1.read_model_responses import answer_document, slice_of

WORDS_MAX = 32
NO_VECTORS = (
    "`search_mode` vector needs embeddings of tools, which are not built yet: use fts, or hybrid,"
    " which looks for the words alone until then"
)
# A rank in one list counts 1 / (60 + rank), as V1 puts its two lists together.
RANK_OFFSET = 60
LETTA = "letta_"  # how the types of the tools begin that come with the server
# By the index of types.
IS_LETTAS = f"""v.tool_type collate "C" >= '{LETTA}' and v.tool_type collate "C" < 'letta`'"""


def split_commas(values: object) -> object:
    """Several values may be sent as one, with commas between them."""
    if not isinstance(values, list):
        return values
    return [part for value in values for part in str(value).split(",") if part]


type CommaNames = Annotated[Names, BeforeValidator(split_commas)]


class ToolFilters(Query):
    """Which tools."""

    name: Annotated[Name | None, Where('v.name collate "C" = {}')] = None
    names: Annotated[Names | None, any_of("v.name = any({})")] = None
    tool_ids: Annotated[CommaNames | None, Where("v.id = any({})", key=True)] = None
    search: Annotated[SearchText | None, contains("v.name")] = None
    tool_types: Annotated[CommaNames | None, any_of("v.tool_type = any({})")] = None
    exclude_tool_types: Annotated[CommaNames | None, Where("not v.tool_type = any({})")] = None
    tags: Annotated[CommaNames | None, any_of("v.tags && {}")] = None
    return_only_letta_tools: Annotated[bool, Where(IS_LETTAS, key=True)] = False

    def fits(self, tool: BaseTool) -> bool:
        """Whether a tool that comes with the server is one of them."""
        kind = tool.tool_type.value
        if tool.name in ADDED_TOOLS and not (self.name or self.names or self.tool_ids):
            return False  # V1's lists do not have them
        return (
            (self.name is None or tool.name == self.name)
            and (self.names is None or tool.name in self.names)
            and (self.tool_ids is None or tool.id in self.tool_ids)
            and (not self.search or self.search.casefold() in tool.name.casefold())
            and (self.tool_types is None or kind in self.tool_types)
            and (self.exclude_tool_types is None or kind not in self.exclude_tool_types)
            and (self.tags is None or kind in self.tags)
        )


class ToolCount(ToolFilters):
    """Which tools are counted."""

    exclude_letta_tools: Annotated[bool, Where(f"not ({IS_LETTAS})")] = False

    def fits(self, tool: BaseTool) -> bool:
        return not self.exclude_letta_tools and super().fits(tool)


class ToolPage(Page, ToolFilters):
    """A page of tools."""

    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = 50
    order_by: Literal["created_at"] = "created_at"


@post("/v1/tools", "tool", body=bodies.ToolCreate)
async def create_tool(request: AnyRequest) -> Response[bytes]:
    """Create a tool, or change the one of its name; its schema is derived from its Python source,
    unless one is given."""
    return await make_tool(request)


@put("/v1/tools", "tool", body=bodies.ToolCreate)
async def upsert_tool(request: AnyRequest) -> Response[bytes]:
    """Create a tool, or change the one of its name."""
    return await make_tool(request)


async def make_tool(request: AnyRequest) -> Response[bytes]:
    """The tool that a request makes."""
    api = api_of(request)
    body = await body_of(request, bodies.ToolCreate)
    fields = given_fields(body)
    tool_id = api.new_id(request, "tool")
    command = CreateTool(
        tool=ToolState.model_validate({**fields, "id": tool_id}),
        given=sorted(fields),
    )
    reply = await api.send(request, command, message_id=f"create-{tool_id}")
    return await answer_document(request, TOOLS, str(reply.result["tool_id"]))


def given_fields(body: BaseModel) -> JsonObject:
    """The fields of a body that are not null: those count, as in V1."""
    return {
        name: value for name, value in body.model_dump(mode="json").items() if value is not None
    }


@get("/v1/tools", "tools", query=ToolPage)
async def list_tools(request: AnyRequest) -> Response[bytes]:
    """List the tools that come with the server and those that clients made, the newest first."""
    page = query_of(request, ToolPage)
    queries = ToolQueries(api_of(request).reads, caller_of(request).user)
    return raw(await queries.page(filter_of(page, org_of(request)), page.fits, slice_of(page)))


@get("/v1/tools/count", "number of tools", query=ToolCount)
async def count_tools(request: AnyRequest) -> Response[bytes]:
    """Count tools, those that come with the server among them."""
    asked = query_of(request, ToolCount)
    queries = ToolQueries(api_of(request).reads, caller_of(request).user)
    return raw(str(await queries.count(filter_of(asked, org_of(request)), asked.fits)).encode())


@post("/v1/tools/add-base-tools", "tools")
async def add_base_tools(request: AnyRequest) -> Response[bytes]:
    """Say which tools come with the server: they are there without being added."""
    return raw(all_base_tools(caller_of(request).user))


@post("/v1/tools/generate-schema", "JSON schema", body=bodies.GenerateSchemaRequest)
async def generate_json_schema(request: AnyRequest) -> Response[bytes]:
    """Derive the schema that a tool of some Python source would have."""
    body = await body_of(request, bodies.GenerateSchemaRequest)
    if body.source_type == "typescript":
        reason = "`source_type`: a schema is derived from python alone, write it for typescript"
        raise Problem(400, {"detail": reason})
    api = api_of(request)
    command = DeriveToolSchema(asker=api.ids.new("schema"), source_code=body.code)
    return raw(to_json((await api.send(request, command, keyed=False)).result))


@post("/v1/tools/search", "what was found", body=bodies.ToolSearchRequest)
async def search_tools(request: AnyRequest) -> Response[bytes]:
    """Find tools with all of these words in name, description or tags; without words, all."""
    body = await body_of(request, bodies.ToolSearchRequest)
    if body.search_mode == "vector":
        raise Problem(501, {"detail": NO_VECTORS}, {"x-should-retry": "false"})
    words = (body.query or "").split()
    if len(words) > WORDS_MAX:
        raise Problem(422, {"detail": f"`query`: at most {WORDS_MAX} words are looked for"})
    asked = ToolFilters(tool_types=body.tool_types, tags=body.tags)
    queries = ToolQueries(api_of(request).reads, caller_of(request).user)
    found = await queries.search(words, filter_of(asked, org_of(request)), asked.fits, body.limit)
    results = [
        b'{"tool": %b, "embedded_text": %b, "fts_rank": %d, "vector_rank": null,'
        b' "combined_score": %b}'
        % (tool.document, to_json(tool.text), rank, to_json(1 / (RANK_OFFSET + rank)))
        for rank, tool in enumerate(found, start=1)
    ]
    return raw(b"[%b]" % b",".join(results))


@get("/v1/tools/{tool_id:str}", "tool")
async def retrieve_tool(request: AnyRequest, tool_id: str) -> Response[bytes]:
    """Retrieve a tool by its id."""
    base = base_tool(tool_id)
    if base:
        return raw(base_document(base, caller_of(request).user))
    return await answer_document(request, TOOLS, tool_id)


@patch("/v1/tools/{tool_id:str}", "tool", body=bodies.ToolUpdate)
async def update_tool(request: AnyRequest, tool_id: str) -> Response[bytes]:
    """Change the given fields of a tool; its schema and its name follow its source."""
    changeable(tool_id)
    body = await body_of(request, bodies.ToolUpdate)
    changes = given_fields(body)
    if "metadata" in changes:
        changes["metadata_"] = changes.pop("metadata")
    await api_of(request).send(request, UpdateTool(tool_id=tool_id, changes=changes))
    return await answer_document(request, TOOLS, tool_id)


@delete("/v1/tools/{tool_id:str}", "nothing")
async def delete_tool(request: AnyRequest, tool_id: str) -> Response[bytes]:
    """Delete a tool; another one may have its name then."""
    await api_of(request).send(request, DeleteTool(tool_id=changeable(tool_id)))
    return raw(b"null")


def changeable(tool_id: str) -> str:
    """The id of a tool that a client made; raises the refusal for one of the server's."""
    base = base_tool(valid_id("tool", tool_id))
    if base:
        reason = (
            f"`{base.name}` comes with the server, and is the same for everybody: it is neither"
            " changed nor deleted. Detach it from an agent that should not have it"
        )
        raise Problem(400, {"detail": reason})
    return tool_id
