"""Tools: made from source, listed beside those of the server, changed, found and deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from letta_client import ConflictError, Letta, NotFoundError

from libs.contracts.tools.base_tools.catalogue import BASE_TOOLS
from tests.e2e.asking import MODEL, USER, is_id, unique

SOURCE = '''
def {name}(sides: int, times: int = 1) -> str:
    """Roll a die.

    Args:
        sides (int): how many sides it has
        times: how often
    """
    return "4"
'''
SCHEMA = {
    "type": "object",
    "properties": {
        "sides": {"type": "integer", "description": "how many sides it has"},
        "times": {"type": "integer", "description": "how often"},
    },
    "required": ["sides"],
}
FIELDS: dict[str, Any] = {
    "tags": ["dice", "games"],
    "return_char_limit": 1234,
    "pip_requirements": [{"name": "numpy", "version": "2.0.0"}, {"name": "rich", "version": None}],
    "npm_requirements": [{"name": "left-pad", "version": None}],
    "default_requires_approval": True,
    "enable_parallel_execution": True,
}


@pytest.fixture
def name(http: httpx.Client) -> Iterator[str]:
    """The name of tools that are gone when the test is over."""
    name = unique("roll")
    name = "".join(letter if letter.isalnum() else "_" for letter in name)
    yield name
    for tool in http.get("/v1/tools/", params={"search": name}).json():
        http.delete(f"/v1/tools/{tool['id']}")


@pytest.mark.operation("POST /v1/tools/")
def test_a_tool_is_made_from_its_source_changed_and_deleted(
    letta: Letta, http: httpx.Client, name: str
) -> None:
    created = letta.tools.create(source_code=SOURCE.format(name=name), **FIELDS)
    path = f"/v1/tools/{created.id}"
    known = http.get(path).json()

    tool_hash = known["metadata_"].pop("tool_hash")
    assert is_id("tool", created.id)
    assert known == {
        "id": created.id,
        "tool_type": "custom",
        "description": "Roll a die.",
        "source_type": "python",
        "name": name,
        "source_code": SOURCE.format(name=name),
        "json_schema": {"name": name, "description": "Roll a die.", "parameters": SCHEMA},
        "args_json_schema": {},
        "created_by_id": USER,
        "last_updated_by_id": USER,
        "metadata_": {},
        "project_id": None,
        **FIELDS,
    }
    assert letta.tools.retrieve(created.id).to_dict() == created.to_dict()

    changes: dict[str, Any] = {
        "tags": ["one"],
        "return_char_limit": 5,
        "pip_requirements": [],
        "default_requires_approval": False,
        "enable_parallel_execution": False,
        "description": "Rolls.",
        "metadata": {"large": 1e308, "b": 1, "a": 2},
    }
    for field, value in changes.items():
        letta.tools.update(created.id, **{field: value})
        shown = http.get(path).json()
        if field == "metadata":
            assert shown["metadata_"] == {**value, "tool_hash": tool_hash}
        else:
            assert shown[field] == value, field
    assert http.get(path).text.index('"large"') < http.get(path).text.index('"b"')

    assert http.delete(path).content == b"null"
    for method in ("GET", "PATCH", "DELETE"):
        answer = http.request(method, path, json={"tags": []} if method == "PATCH" else None)
        assert (answer.status_code, answer.json()) == (
            404,
            {"detail": f"Tool with ID {created.id} not found"},
        )
    assert letta.tools.list(name=name).items == []
    with pytest.raises(NotFoundError):
        letta.tools.retrieve(created.id)


@pytest.mark.operation("PUT /v1/tools/")
def test_a_name_is_one_tools_until_it_is_renamed_or_deleted(letta: Letta, name: str) -> None:
    first = letta.tools.create(source_code=SOURCE.format(name=name), tags=["kept"])
    same = letta.tools.create(source_code=SOURCE.format(name=name), return_char_limit=8)
    assert (same.id, same.return_char_limit, same.tags) == (first.id, 8, ["kept"])

    again = letta.tools.upsert(
        source_code=SOURCE.format(name=name).replace("a die", "two dice"), return_char_limit=9
    )
    assert (again.id, again.description, again.return_char_limit, again.tags) == (
        first.id,
        "Roll two dice.",
        9,
        ["kept"],
    )

    renamed = letta.tools.update(first.id, source_code=SOURCE.format(name=f"{name}_2"))
    assert (renamed.id, renamed.name) == (first.id, f"{name}_2")
    second = letta.tools.upsert(source_code=SOURCE.format(name=name))
    assert second.id != first.id
    with pytest.raises(ConflictError, match="exists already"):
        letta.tools.update(first.id, source_code=SOURCE.format(name=name))

    letta.tools.delete(second.id)
    assert letta.tools.update(first.id, source_code=SOURCE.format(name=name)).name == name
    with pytest.raises(ConflictError, match="comes with the server"):
        letta.tools.upsert(source_code=SOURCE.format(name="send_message"))


def test_many_that_make_a_tool_of_one_name_at_once_make_one(http: httpx.Client, name: str) -> None:
    body = {"source_code": SOURCE.format(name=name)}
    methods = ["POST", "PUT"] * 4
    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(lambda method: http.request(method, "/v1/tools/", json=body), methods)]
    [tool] = http.get("/v1/tools/", params={"name": name}).json()
    assert {answer.json()["id"] for answer in answers} == {tool["id"]}


@pytest.mark.operation("GET /v1/tools/")
@pytest.mark.operation("GET /v1/tools/count")
@pytest.mark.operation("POST /v1/tools/add-base-tools")
def test_lists_hold_the_servers_tools_once_and_what_clients_made(
    letta: Letta, http: httpx.Client, name: str
) -> None:
    made = [
        letta.tools.create(source_code=SOURCE.format(name=f"{name}_{number}"), tags=[name]).id
        for number in range(3)
    ]
    base = [tool.id for tool in BASE_TOOLS.values()]

    def ids(**asked: Any) -> list[str]:
        answer = http.get("/v1/tools/", params={"limit": 1000, **asked})
        assert answer.status_code == 200, answer.text
        return [tool["id"] for tool in answer.json()]

    everything = ids(order="asc")
    assert everything[: len(base)] == base
    assert everything[-3:] == made
    assert len(set(everything)) == len(everything)
    assert ids() == everything[::-1]
    assert http.get("/v1/tools/count").json() == len(everything)
    assert http.get("/v1/tools/count", params={"exclude_letta_tools": True}).json() == len(
        everything
    ) - len(base)
    assert [tool["id"] for tool in http.post("/v1/tools/add-base-tools").json()] == base
    assert ids(order="asc") == everything

    for order, whole in (("asc", everything), ("desc", everything[::-1])):
        for place in (0, len(base) - 1, len(base), len(whole) - len(base), len(whole) - 1):
            cursor = whole[place]
            for limit in (2, len(base)):
                part = {"order": order, "limit": limit}
                assert ids(**part, after=cursor) == whole[place + 1 : place + 1 + limit]
                assert ids(**part, before=cursor) == whole[max(place - limit, 0) : place]
        assert ids(order=order, after=whole[1], before=whole[-2]) == whole[2:-2]
    assert [tool.id for tool in letta.tools.list(limit=7)] == everything[::-1]

    one = http.get(f"/v1/tools/{base[0]}").json()
    assert (one["id"], one["name"]) == (base[0], next(iter(BASE_TOOLS)))
    assert ids(name=f"{name}_1") == [made[1]]
    assert ids(names=[f"{name}_1", "memory_insert"]) == [made[1], BASE_TOOLS["memory_insert"].id]
    assert ids(tool_ids=f"{made[0]},{base[3]}") == [made[0], base[3]]
    assert ids(search=name.upper()) == made[::-1]
    assert ids(tags=name, tool_types="custom") == made[::-1]
    assert set(ids(exclude_tool_types=["custom", "external_mcp"])) == set(base)
    assert ids(return_only_letta_tools=True, order="asc") == base
    refused = http.get("/v1/tools/", params={"after": "tool-00000000-0000-4000-8000-000000000000"})
    assert refused.status_code == 400


@pytest.mark.operation("POST /v1/tools/search")
def test_tools_are_found_by_their_words(letta: Letta, http: httpx.Client, name: str) -> None:
    made = letta.tools.create(source_code=SOURCE.format(name=name), tags=["Spiele 100%_"])

    [found] = letta.tools.search(query=f"{name.upper()} die 100%_", tool_types=["custom"])
    assert (found.tool.id, found.vector_rank) == (made.id, None)
    assert letta.tools.search(query=f"{name} nowhere") == []
    inserts = [tool.tool.name for tool in letta.tools.search(query="archival insert")]
    assert inserts == ["archival_memory_insert"]
    refused = http.post("/v1/tools/search", json={"query": "x", "search_mode": "vector"})
    assert refused.status_code == 501
    long = http.post("/v1/tools/search", json={"query": "a " * 40})
    assert long.status_code == 422


@pytest.mark.operation("POST /v1/tools/generate-schema")
@pytest.mark.operation("PATCH /v1/tools/{tool_id}")
@pytest.mark.operation("DELETE /v1/tools/{tool_id}")
@pytest.mark.operation("GET /v1/tools/{tool_id}")
def test_what_is_no_tool_is_refused_with_the_field_and_the_fix(
    letta: Letta, http: httpx.Client, name: str
) -> None:
    source = SOURCE.format(name=name)
    shown = http.post("/v1/tools/generate-schema", json={"code": source})
    assert shown.json() == {"name": name, "description": "Roll a die.", "parameters": SCHEMA}
    given = {"name": name, "description": "Mine.", "parameters": {"type": "object"}}
    for body, word in (
        ({"source_code": "def x(:"}, "invalid syntax"),
        ({"source_code": "x = 1"}, "no function"),
        ({"source_code": source, "json_schema": {**given, "name": "other"}}, "json_schema.name"),
        ({"source_code": "() => 1", "source_type": "typescript"}, "`json_schema`"),
    ):
        answer = http.post("/v1/tools/", json=body)
        assert (answer.status_code, word in answer.json()["detail"]) == (400, True), answer.text
    for body in ({}, {"source_code": "x" * 200_001}, {"source_code": source, "source_type": 1}):
        assert http.post("/v1/tools/", json=body).status_code == 422
    deep: Any = {}
    for _ in range(30):
        deep = {"items": deep}
    answer = http.post("/v1/tools/", json={"source_code": source, "json_schema": deep})
    assert answer.status_code == 422
    assert http.get("/v1/tools/count", params={"search": name}).json() == 0

    typed = letta.tools.create(source_code="() => 1", source_type="typescript", json_schema=given)
    assert (typed.name, typed.description, typed.json_schema) == (name, "Mine.", given)
    assert http.get("/v1/tools/nonsense").status_code == 422
    base = BASE_TOOLS["send_message"].id
    for method in ("PATCH", "DELETE"):
        answer = http.request(method, f"/v1/tools/{base}", json={"tags": ["mine"]})
        assert (answer.status_code, "comes with the server" in answer.text) == (400, True)


WRITTEN = '''def {name}(sides: int) -> int:
    """Roll a die.

    Args:
        sides: how many sides it has
    """
    import dice

    return dice.roll(sides)
'''


def writes(answer: Any) -> str:
    """A prompt for which the scripted model answers so."""
    return f"It rolls dice. CALL:structured_output:{json.dumps(answer)}"


@pytest.mark.operation("POST /v1/tools/generate-tool")
def test_a_model_writes_a_tool_that_is_shown_and_not_stored(
    letta: Letta, http: httpx.Client, name: str
) -> None:
    """API-12: by the handle of a model; the schema follows from the source, which is not run."""
    source = WRITTEN.format(name=name)
    answer = {
        "source_code": source,
        "sample_args": {"sides": 6},
        "pip_requirements": [{"name": "dice", "version": "4.0"}],
    }
    body = {
        "tool_name": name,
        "prompt": writes(answer),
        "handle": MODEL,
        "starter_code": f"def {name}(): ...",
        "validation_errors": ["no docstring"],
    }
    path = "/v1/tools/generate-tool"
    written = letta.post(path, body=body, cast_to=dict[str, Any])
    tool = written["tool"]
    assert (tool["name"], tool["source_code"]) == (name, source)
    assert tool["json_schema"]["parameters"]["properties"]["sides"]["type"] == "integer"
    assert tool["description"] == "Roll a die."
    assert tool["pip_requirements"] == [{"name": "dice", "version": "4.0"}]
    assert (written["sample_args"], written["response"]) == ({"sides": 6}, "")
    assert http.get("/v1/tools/count", params={"search": name}).json() == 0
    made = letta.tools.create(source_code=tool["source_code"])
    assert made.name == name, "it can be stored as it is"
    letta.tools.delete(str(made.id))


@pytest.mark.operation("POST /v1/tools/generate-tool")
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"source_code": "def broken(:", "sample_args": {}}, "invalid syntax"),
        ({"source_code": WRITTEN.format(name="other"), "sample_args": {}}, "`other`"),
        ({"source_code": "x = 1", "sample_args": {}}, "no function"),
        ({"source_code": "x = 1", "sample_args": "none"}, "`sample_args`"),
        ({"sample_args": {}}, "`source_code`"),
    ],
    ids=["syntax", "name", "function", "arguments", "source"],
)
def test_what_a_model_writes_that_is_no_tool_is_a_502_that_says_why(
    http: httpx.Client, name: str, answer: dict[str, Any], why: str
) -> None:
    body = {"tool_name": name, "prompt": writes(answer), "handle": MODEL, "validation_errors": []}
    refused = http.post("/v1/tools/generate-tool", json=body)
    assert (refused.status_code, why in refused.json()["detail"]) == (502, True), refused.text
    assert refused.headers["x-should-retry"] == "false"


@pytest.mark.operation("POST /v1/tools/generate-tool")
def test_a_tool_is_written_by_a_model_that_is_there_for_a_request_that_says_what(
    http: httpx.Client, name: str
) -> None:
    path, body = "/v1/tools/generate-tool", {"prompt": "FAIL:401", "validation_errors": []}
    asked = {**body, "tool_name": name}
    failed = http.post(path, json={**asked, "handle": MODEL})
    assert (failed.status_code, "LLM provider error" in failed.text) == (502, True)
    unknown = http.post(path, json={**asked, "handle": "openai/nobody"})
    assert (unknown.status_code, "openai/nobody" in unknown.text) == (404, True)
    for wrong in (
        {**asked, "prompt": " "},
        {**asked, "tool_name": "no name"},
        {**asked, "starter_code": "x" * 200_001},
        {**asked, "validation_errors": None},
        body,
    ):
        assert http.post(path, json=wrong).status_code == 422
