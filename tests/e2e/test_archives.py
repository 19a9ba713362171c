"""Archives and passages: what agents remember beyond their blocks, through the real SDK."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from letta_client import (
    APIStatusError,
    Letta,
    NotFoundError,
    UnprocessableEntityError,
)

from tests.e2e.asking import EMBEDDING, USER, invoke, says, unique
from tests.e2e.conftest import NewAgent
from tests.waiting import wait_for


def having(http: httpx.Client, archive_id: str) -> list[str]:
    """The agents that have an archive."""
    answer = http.get(f"/v1/archives/{archive_id}/agents", params={"order": "asc"})
    return [archive["id"] for archive in answer.json()]


@pytest.mark.operation("POST /v1/archives/")
@pytest.mark.operation("GET /v1/archives/{archive_id}")
@pytest.mark.operation("PATCH /v1/archives/{archive_id}")
@pytest.mark.operation("GET /v1/archives/")
@pytest.mark.operation("DELETE /v1/archives/{archive_id}")
def test_an_archive_is_made_read_changed_listed_and_deleted(letta: Letta) -> None:
    """Every field comes back, and what is deleted is gone for everybody."""
    name = unique("facts")
    made = letta.archives.create(
        name=name, description="What we know", embedding="openai/text-embedding-3-small"
    )
    assert made.id.startswith("archive-")
    assert (made.name, made.description, made.created_by_id) == (name, "What we know", USER)
    assert made.embedding_config
    assert made.embedding_config.handle == "openai/text-embedding-3-small"
    assert made.vector_db_provider == "native"
    assert letta.archives.retrieve(made.id) == made

    changed = letta.archives.update(made.id, name=f"{name}-2", description="More")
    assert (changed.name, changed.description) == (f"{name}-2", "More")
    assert letta.archives.retrieve(made.id) == changed
    other = letta.archives.create(name=f"{name}-2")
    found = letta.archives.list(name=f"{name}-2", order="asc").items
    assert [archive.id for archive in found] == [made.id, other.id]
    assert letta.archives.list(name=f"{name}-2", order="asc", after=made.id).items == [other]

    letta.archives.delete(made.id)
    for gone in (
        lambda: letta.archives.retrieve(made.id),
        lambda: letta.archives.update(made.id, name="x"),
        lambda: letta.archives.delete(made.id),
        lambda: letta.archives.passages.create(made.id, text="x"),
    ):
        with pytest.raises(NotFoundError, match=made.id):
            gone()
    assert [archive.id for archive in letta.archives.list(name=f"{name}-2").items] == [other.id]


@pytest.mark.operation("POST /v1/archives/")
def test_an_archive_for_a_model_that_nobody_serves_is_refused(
    letta: Letta, http: httpx.Client
) -> None:
    """At once, and not when its first passage is to be embedded."""
    name = unique("facts")
    config = {
        "embedding_endpoint_type": "hugging-face",
        "embedding_endpoint": "https://embeddings.example",
        "embedding_model": "a-model",
        "embedding_dim": 1_024,
    }
    answer = http.post("/v1/archives/", json={"name": name, "embedding_config": config})
    assert answer.status_code == 422
    assert "a-model" in answer.json()["detail"]
    assert letta.archives.list(name=name).items == []


def embedding(http: httpx.Client, archive_id: str, wanted: str = "") -> httpx.Response:
    """What embeds an archive, or from now on."""
    path = f"/v1/archives/{archive_id}/embedding"
    return http.put(path, json={"embedding": wanted}) if wanted else http.get(path)


def searched(http: httpx.Client, archive_id: str, query: str) -> list[str]:
    """The texts that a search finds, the best first."""
    body = {"archive_id": archive_id, "query": query}
    return [hit["passage"]["text"] for hit in http.post("/v1/passages/search", json=body).json()]


async def test_an_archive_gets_another_model_and_its_passages_follow(
    letta: Letta, http: httpx.Client
) -> None:
    """MEM-15: it says how far it is, and finds everything meanwhile and afterwards."""
    archive = letta.archives.create(name=unique("facts"))
    for text in ("Ada walks in the Alps", "Bob grows tomatoes", "Eve plays chess"):
        letta.archives.passages.create(archive.id, text=text)
    before = embedding(http, archive.id).json()
    assert (before["status"], before["passages"], before["embedded"]) == ("completed", 3, 3)
    wanted = "openai/text-embedding-3-small"
    changed = embedding(http, archive.id, wanted)
    assert changed.status_code == 200, changed.text
    assert changed.json()["embedding_config"]["handle"] == wanted
    assert len(searched(http, archive.id, "tomatoes")) == 3
    await wait_for(
        "it is embedded", lambda: embedding(http, archive.id).json()["status"] == "completed"
    )
    assert embedding(http, archive.id).json()["embedded"] == 3
    found = searched(http, archive.id, "who has tomatoes")
    assert (found[0], len(found)) == ("Bob grows tomatoes", 3)
    read = letta.archives.retrieve(archive.id).embedding_config
    assert read
    assert read.handle == wanted
    unknown = embedding(http, archive.id, "openai/nothing")
    assert (unknown.status_code, "openai/nothing" in unknown.text) == (404, True)


@pytest.mark.operation("POST /v1/archives/{archive_id}/passages")
@pytest.mark.operation("POST /v1/archives/{archive_id}/passages/batch")
@pytest.mark.operation("DELETE /v1/archives/{archive_id}/passages/{passage_id}")
@pytest.mark.operation("POST /v1/passages/search")
@pytest.mark.operation("GET /v1/embeddings/total_storage_size")
def test_passages_of_an_archive_come_and_go(letta: Letta, http: httpx.Client) -> None:
    """MEM-04: tags and times are combined, within the query."""
    archive = letta.archives.create(name=unique("facts"), embedding=EMBEDDING).id
    passages = letta.archives.passages
    one = passages.create(
        archive,
        text="Ada walks in the Alps",
        tags=["hobby", "hobby"],
        metadata={"page": 3},
        created_at="2025-03-01T10:00:00Z",
    )
    assert one.id
    assert (one.text, one.tags, one.metadata) == ("Ada walks in the Alps", ["hobby"], {"page": 3})
    assert one.archive_id == archive
    assert str(one.created_at) == "2025-03-01 10:00:00+00:00"
    assert one.embedding
    assert 0.99 < sum(number * number for number in one.embedding) < 1.01
    many = passages.create_many(
        archive, passages=[{"text": f"Fact {n}", "tags": ["n", str(n % 2)]} for n in range(5)]
    )
    assert [each.text for each in many] == [f"Fact {n}" for n in range(5)]

    def found(**fields: Any) -> list[str]:
        listed = letta.passages.search(archive_id=archive, **fields)
        return [each.passage.text for each in listed]

    assert found(query="walks in the Alps", limit=1) == ["Ada walks in the Alps"]
    assert {*found(query="fact", tags=["n", "1"], tag_match_mode="all")} == {"Fact 1", "Fact 3"}
    assert len(found(query="fact", tags=["hobby", "0"])) == 4
    assert found(query="fact", end_date="2025-12-31") == ["Ada walks in the Alps"]
    assert found(limit=2) == ["Fact 4", "Fact 3"] or len(found(limit=2)) == 2
    size = http.get("/v1/embeddings/total_storage_size").json()
    assert 0 < size < 1

    passages.delete(one.id, archive_id=archive)
    assert "Ada walks in the Alps" not in found(query="walks in the Alps")
    with pytest.raises(NotFoundError, match=one.id):
        passages.delete(one.id, archive_id=archive)
    other = letta.archives.create(name=unique("facts")).id
    with pytest.raises(NotFoundError):
        passages.delete(many[0].id or "", archive_id=other)


def test_a_batch_is_put_in_whole_or_not_at_all(letta: Letta) -> None:
    """Too many, too long or empty is refused in words, and nothing is saved."""
    archive = letta.archives.create(name=unique("facts")).id
    for passages, words in (
        ([{"text": "good"}, {"text": "  "}], r"passages\[1\].*must not be empty"),
        ([{"text": "good"}, {"text": "x" * 100_001}], "at most 100000"),
        ([{"text": "good"}] * 201, "at most 200"),
    ):
        with pytest.raises(UnprocessableEntityError, match=words):
            letta.archives.passages.create_many(archive, passages=passages)  # type: ignore[arg-type]
    assert letta.passages.search(archive_id=archive) == []


@pytest.mark.operation("POST /v1/agents/{agent_id}/archival-memory")
@pytest.mark.operation("GET /v1/agents/{agent_id}/archival-memory/search")
def test_an_agent_without_an_embedding_config_has_passages_without_vectors(
    letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(embedding=None)
    assert agent.embedding_config is None

    made = letta.agents.passages.create(agent.id, text="The cat sleeps on the roof")

    for passage in (*made, *letta.agents.passages.list(agent.id)):
        assert (passage.embedding, passage.embedding_config) == (None, None)
    found = letta.agents.passages.search(agent.id, query="Where does the animal rest?")
    assert [passage.content for passage in found.results] == ["The cat sleeps on the roof"]


@pytest.mark.operation("POST /v1/agents/{agent_id}/archival-memory")
@pytest.mark.operation("GET /v1/agents/{agent_id}/archival-memory")
@pytest.mark.operation("DELETE /v1/agents/{agent_id}/archival-memory/{memory_id}")
@pytest.mark.operation("GET /v1/agents/{agent_id}/archival-memory/search")
def test_an_agent_remembers_searches_and_forgets(letta: Letta, new_agent: NewAgent) -> None:
    """API-15, MEM-04: dates are read in the agent's time zone; a date alone means its whole day."""
    agent = new_agent(timezone="Europe/Berlin")
    memory = letta.agents.passages
    [alps] = memory.create(
        agent.id,
        text="Bob likes hiking in the Alps",
        tags=["hobby"],
        created_at="2025-06-01T22:30:00Z",
    )
    [cat] = memory.create(agent.id, text="Bob's cat is called Whiskers")
    assert alps.id
    assert cat.id
    assert [passage.id for passage in memory.list(agent.id)] == [alps.id, cat.id]
    assert [passage.id for passage in memory.list(agent.id, ascending=False)] == [cat.id, alps.id]
    assert [passage.id for passage in memory.list(agent.id, after=alps.id)] == [cat.id]
    assert [passage.id for passage in memory.list(agent.id, search="WHISKERS")] == [cat.id]

    found = memory.search(agent.id, query="hiking", top_k=2)
    assert found.count == 2
    assert (found.results[0].id, found.results[0].tags) == (alps.id, ["hobby"])
    assert found.results[0].timestamp == "2025-06-02T00:30:00+02:00"
    assert found.results[1].tags == []

    def ids(**fields: Any) -> list[str]:
        return [result.id for result in memory.search(agent.id, query="Bob", **fields).results]

    assert ids(tags=["hobby"]) == [alps.id]
    assert ids(end_datetime="2025-06-02") == [alps.id]
    assert ids(end_datetime="2025-06-01") == []
    assert ids(start_datetime="2025-06-02", end_datetime="2025-06-02") == [alps.id]
    assert memory.search(agent.id, query="  ").results == []
    for start, words in (("tomorrow-ish", "start_datetime"), ("2027-01-01", "after the end")):
        with pytest.raises(UnprocessableEntityError, match=words):
            ids(start_datetime=start, end_datetime="2026-01-01")

    memory.delete(cat.id, agent_id=agent.id)
    assert [passage.id for passage in memory.list(agent.id)] == [alps.id]
    with pytest.raises(NotFoundError, match=cat.id):
        memory.delete(cat.id, agent_id=agent.id)
    with pytest.raises(NotFoundError):
        memory.delete(alps.id, agent_id=new_agent().id)


@pytest.mark.parametrize(
    ("zone", "moment", "bound"),
    [
        ("Asia/Tokyo", "9999-12-31T23:00:00Z", {"start_datetime": "0001-01-01"}),
        ("America/New_York", "0001-01-01T01:00:00Z", {"end_datetime": "9999-12-31"}),
    ],
    ids=["last-year", "first-year"],
)
def test_a_passage_of_a_time_that_its_agents_calendar_does_not_have_is_found(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, zone: str, moment: str, bound: Any
) -> None:
    """MEM-04: it was a 500, for every search that found it."""
    agent = new_agent(timezone=zone, tools=["archival_memory_search"])
    letta.agents.passages.create(agent.id, text="The end of days", created_at=moment)
    search = letta.agents.passages.search
    [found] = search(agent.id, query="end").results
    assert found.timestamp == moment.replace("Z", "+00:00")
    told = invoke(http, agent.id, "archival_memory_search", query="end")
    assert (told["status"], "The end of days" in told["tool_return"]) == ("success", True)
    assert search(agent.id, query="end", **bound).count == 1, "a bound that is beyond in UTC"
    for beyond in ("9999-12-31T23:00:00-05:00", "0001-01-01T01:00:00+05:00"):
        with pytest.raises(UnprocessableEntityError, match=r"created_at.*years 1 to 9999"):
            letta.agents.passages.create(agent.id, text="Never", created_at=beyond)


@pytest.mark.operation("PATCH /v1/agents/{agent_id}/archives/attach/{archive_id}")
@pytest.mark.operation("PATCH /v1/agents/{agent_id}/archives/detach/{archive_id}")
@pytest.mark.operation("GET /v1/archives/{archive_id}/agents")
async def test_agents_share_an_archive(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    """MEM-20, MEM-32: who has it attached sees it, and nobody else; more than one works."""
    first, second = new_agent(), new_agent()
    word = unique("rhubarb")
    shared = letta.archives.create(name=unique("shared")).id
    letta.archives.passages.create(shared, text=f"All like {word}")
    letta.agents.passages.create(first.id, text=f"Only the first knows {word} too")

    def seen(agent_id: str) -> int:
        return letta.agents.passages.search(agent_id, query=word).count

    assert (seen(first.id), seen(second.id)) == (1, 0)
    for _ in range(2):
        for agent in (first, second):
            assert letta.agents.archives.attach(shared, agent_id=agent.id) is None
    assert (seen(first.id), seen(second.id)) == (2, 1)
    assert having(http, shared) == [first.id, second.id]
    assert len(letta.archives.list(agent_id=first.id).items) == 2

    letta.agents.archives.detach(shared, agent_id=second.id)
    assert (seen(first.id), seen(second.id)) == (2, 0)
    with pytest.raises(NotFoundError):
        letta.agents.archives.attach(shared, agent_id="agent-00000000-0000-4000-8000-000000000000")
    letta.agents.delete(first.id)
    await wait_for(
        "the deleted agent is detached",
        lambda: having(http, shared) == [],
    )
    assert [passage.passage.text for passage in letta.passages.search(archive_id=shared)] == [
        f"All like {word}"
    ]


async def test_first_inserts_at_once_make_one_archive(letta: Letta, new_agent: NewAgent) -> None:
    """It goes with its agent."""
    agent = new_agent()

    def insert(number: int) -> str:
        [made] = letta.agents.passages.create(agent.id, text=f"Fact {number}")
        return made.archive_id or ""

    with ThreadPoolExecutor(16) as pool:
        archives = set(pool.map(insert, range(50)))
    assert len(archives) == 1
    [own] = archives
    assert len(letta.agents.passages.list(agent.id)) == 50
    assert letta.archives.retrieve(own).name == f"{agent.name}'s Archive"

    letta.agents.delete(agent.id)

    def gone() -> bool:
        try:
            letta.archives.retrieve(own)
        except APIStatusError as answer:
            return answer.status_code == 404
        return False

    await wait_for("the archive is gone", gone)


def test_an_agent_stores_and_finds_by_its_tools(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    """MEM-14, MEM-15: what goes wrong is told to the model."""
    tools = ["archival_memory_insert", "archival_memory_search"]
    agent = new_agent(tools=tools, timezone="Asia/Tokyo")
    word = unique("rhubarb")
    stored = invoke(http, agent.id, tools[0], content=f"Likes {word}", tags=["taste", "food"])
    assert (stored["status"], stored["tool_return"]) == ("success", "Stored in archival memory.")
    [passage] = letta.agents.passages.list(agent.id)
    assert (passage.text, passage.tags) == (f"Likes {word}", ["taste", "food"])

    context = http.get(f"/v1/agents/{agent.id}/context").json()
    assert context["num_archival_memory"] == 1

    def found(**fields: Any) -> list[str]:
        answer = invoke(http, agent.id, tools[1], **fields)
        assert answer["status"] == "success", answer
        if answer["tool_return"] == "No results found.":
            return []
        [shown] = json.loads(answer["tool_return"])
        assert shown["timestamp"].endswith("+09:00")
        assert shown["tags"] == ["taste", "food"]
        return [shown["content"]]

    hit = [f"Likes {word}"]
    assert found(query=word) == hit
    assert found(query=word, page=1) == []
    assert found(query=word, tags=["taste", "nope"]) == hit
    assert found(query=word, tags=["taste", "nope"], tag_match_mode="all") == []
    assert found(query=word, start_datetime="last 2 days", end_datetime="today") == hit
    assert found(query=word, end_datetime="2020-01-01") == []
    for tool, arguments, said in (
        (tools[0], {"content": "  "}, "`content` must not be empty"),
        (tools[0], {"content": "x", "tags": [""]}, "each tag"),
        (tools[1], {"query": "x", "tag_match_mode": "some"}, "tag_match_mode"),
        (tools[1], {"query": "x", "start_datetime": "soon"}, "`start_datetime` is 'soon'"),
        (tools[1], {"query": "x", "start_datetime": "2026", "end_datetime": "2025"}, "is after"),
    ):
        answer = invoke(http, agent.id, tool, **arguments)
        assert answer["status"] == "error", (tool, arguments)
        assert said in answer["tool_return"]
    assert len(letta.agents.passages.list(agent.id)) == 1


def test_an_agent_finds_what_is_meant_without_sharing_a_word(
    letta: Letta, new_agent: NewAgent
) -> None:
    """MEM-05: by the model that comes along, offline."""
    agent = new_agent(embedding="heeler/all-MiniLM-L6-v2")
    for text in (
        "My dog chases squirrels in the park every morning",
        "The invoice of the plumber was paid by bank transfer",
        "Grandma bakes an apple pie on Sundays",
    ):
        letta.agents.passages.create(agent.id, text=text)
    for query, word in (
        ("What pet does she own?", "dog"),
        ("money for repairing pipes", "plumber"),
        ("dessert at the weekend", "pie"),
    ):
        [best] = letta.agents.passages.search(agent.id, query=query, top_k=1).results
        assert word in best.content, query


def test_a_long_list_ends_early_and_goes_on(
    letta: Letta, new_agent: NewAgent, http: httpx.Client
) -> None:
    """A page of passages has a size in bytes; `after` its last passage the list goes on."""
    agent = new_agent()
    own = letta.agents.passages.create(agent.id, text="x" * 100_000)[0].archive_id
    for _ in range(2):
        letta.archives.passages.create_many(
            own or "", passages=[{"text": "y" * 99_999} for _ in range(45)]
        )
    first = letta.agents.passages.list(agent.id, limit=1_000)
    assert 60 < len(first) < 91
    rest = letta.agents.passages.list(agent.id, limit=1_000, after=first[-1].id)
    assert len(first) + len(rest) == 91


def test_fifty_writers_append_to_one_shared_block(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    """MEM-32: every append that was told as done is there exactly once, and the limit holds."""
    line = len("\nwriter-00")
    block = letta.blocks.create(label="board", value="Board", limit=len("Board") + 40 * line)
    agents = [new_agent(block_ids=[block.id]).id for _ in range(5)]

    def write(agent_number: int) -> dict[str, str]:
        told = {}
        for n in range(10):
            text = f"writer-{agent_number}{n}"
            answer = invoke(
                http, agents[agent_number], "memory_insert", label="board", new_string=text
            )
            told[text] = answer["status"]
        return told

    with ThreadPoolExecutor(len(agents)) as pool:
        told = {
            text: status
            for each in pool.map(write, range(len(agents)))
            for text, status in each.items()
        }
    value = letta.blocks.retrieve(block.id).value
    done = sorted(text for text, status in told.items() if status == "success")
    assert sorted(value.split("\n")[1:]) == done
    assert len(done) == 40
    assert len(value) == block.limit


def prompt_of(letta: Letta, agent_id: str) -> str:
    """The system message of an agent, as its next step would find it, or has made it."""
    letta.agents.messages.create(agent_id, messages=says("Hello"))
    [first] = letta.agents.messages.list(agent_id, order="asc", limit=1).items
    assert first.message_type == "system_message"
    return str(first.to_dict()["content"])


def test_a_prompt_says_what_is_in_the_archives(letta: Letta, new_agent: NewAgent) -> None:
    """To who has a tool for them, and anew only when that has changed."""
    told, untold = new_agent(tools=["archival_memory_search"]), new_agent()
    assert "archival memory:" not in prompt_of(letta, told.id)
    for agent in (told, untold):
        letta.agents.passages.create(agent.id, text="Likes green tea", tags=["food", "<b>"])
        letta.agents.passages.create(agent.id, text="Paints", tags=["art", "food"])
    prompt = prompt_of(letta, told.id)
    assert "- Memories in archival memory: 2\n" in prompt
    [tags] = [line for line in prompt.split("\n") if line.startswith("- Tags in archival")]
    assert all(tag in tags for tag in ("art", "food"))
    assert prompt_of(letta, told.id) == prompt, "a provider finds it in its cache"
    assert "archival memory:" not in prompt_of(letta, untold.id)
    for passage in letta.agents.passages.list(told.id):
        letta.agents.passages.delete(str(passage.id), agent_id=told.id)
    assert "archival memory:" not in prompt_of(letta, told.id)


def test_agents_that_share_a_block_see_who_changed_it(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    block = letta.blocks.create(label="board", value="Board")
    writer, reader = (new_agent(block_ids=[block.id]) for _ in range(2))
    assert "last_changed_by" not in prompt_of(letta, reader.id)
    invoke(http, writer.id, "memory_insert", label="board", new_string="Tea at five")
    prompt = prompt_of(letta, reader.id)
    assert "Tea at five" in prompt
    assert prompt.count("- last_changed_by=") == 1
    assert f"- last_changed_by=another agent ({writer.id})\n" in prompt
    assert "last_changed_by" not in prompt_of(letta, writer.id)
    letta.blocks.update(block.id, value="Tea at six")
    prompt = prompt_of(letta, reader.id)
    assert "Tea at six" in prompt
    assert "last_changed_by" not in prompt, "a person did"
