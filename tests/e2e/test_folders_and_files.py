"""Folders and their files: uploaded, read, searchable, and gone."""

from __future__ import annotations

import asyncio
import time
from itertools import count
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from letta_client import APIStatusError, ConflictError, Letta, NotFoundError

from tests.e2e.asking import NOBODY, SECONDS_MAX, is_id, unique
from tests.e2e.conftest import NewAgent
from tests.servers import wait_until
from tests.waiting import in_time

TEXT = b"hello file contents\nsecond line\n"


def uploaded(letta: Letta, folder_id: str, sent: str, data: bytes, **options: Any) -> Any:
    """A file that is processed, one way or the other."""
    file = letta.folders.files.upload(folder_id, file=(sent, data), **options)
    return processed(letta, folder_id, file.id)


def processed(letta: Letta, folder_id: str, file_id: str) -> Any:
    def retrieved() -> Any:
        return letta.folders.files.retrieve(file_id, folder_id=folder_id, include_content=True)

    ended = ("completed", "error")
    wait_until(
        f"{file_id} is processed", lambda: retrieved().processing_status in ended, SECONDS_MAX
    )
    return retrieved()


@pytest.mark.operation("POST /v1/folders/")
@pytest.mark.operation("GET /v1/folders/")
@pytest.mark.operation("GET /v1/folders/count")
@pytest.mark.operation("GET /v1/folders/name/{folder_name}")
@pytest.mark.operation("GET /v1/folders/{folder_id}")
@pytest.mark.operation("PATCH /v1/folders/{folder_id}")
@pytest.mark.operation("DELETE /v1/folders/{folder_id}")
@pytest.mark.operation("POST /v1/sources/")
@pytest.mark.operation("GET /v1/sources/")
@pytest.mark.operation("GET /v1/sources/count")
@pytest.mark.operation("GET /v1/sources/name/{source_name}")
@pytest.mark.operation("GET /v1/sources/{source_id}")
@pytest.mark.operation("PATCH /v1/sources/{source_id}")
@pytest.mark.operation("DELETE /v1/sources/{source_id}")
@pytest.mark.parametrize("kind", ["folders", "sources"])
def test_every_field_of_a_folder_comes_back_changes_and_goes(
    kind: str, letta: Letta, http: httpx.Client
) -> None:
    name = unique("a/folder %2F ü")
    fields = {"description": "d", "instructions": "i", "metadata": {"a": [1, None]}}
    count = http.get(f"/v1/{kind}/count").json()
    folder = http.post(f"/v1/{kind}/", json={"name": name, **fields}).json()
    path = f"/v1/{kind}/{folder['id']}"

    assert is_id("source", folder["id"])
    assert {key: folder[key] for key in fields} == fields
    assert folder["embedding_config"]["embedding_dim"] == 384
    assert http.get(path).json() == folder
    assert http.get(f"/v1/{kind}/count").json() >= count + 1
    assert http.get(f"/v1/{kind}/name/{quote(name, safe='')}").json() == folder["id"]
    assert [folder.id for folder in letta.folders.list(name=name)] == [folder["id"]]
    with pytest.raises(ConflictError, match="choose another `name`"):
        letta.folders.create(name=name)

    renamed = http.patch(path, json={"name": f"{name}-2", "metadata": None}).json()
    assert renamed == {
        **folder,
        "name": f"{name}-2",
        "metadata": None,
        "updated_at": renamed["updated_at"],
    }
    other = letta.folders.create(name=name)
    assert http.patch(path, json={"name": name}).status_code == 409

    letta.folders.delete(other.id)
    assert http.delete(path).content == b"null"
    for method in ("GET", "PATCH", "DELETE"):
        assert http.request(method, path, json={"description": "x"}).status_code == 404
    assert http.get(f"/v1/{kind}/name/{quote(name, safe='')}-2").status_code == 404
    assert letta.folders.list(name=f"{name}-2").items == []


@pytest.mark.operation("POST /v1/folders/{folder_id}/upload")
@pytest.mark.operation("GET /v1/folders/{folder_id}/files")
@pytest.mark.operation("GET /v1/folders/{folder_id}/files/{file_id}")
@pytest.mark.operation("GET /v1/folders/{folder_id}/passages")
@pytest.mark.operation("DELETE /v1/folders/{folder_id}/{file_id}")
@pytest.mark.operation("GET /v1/folders/metadata")
@pytest.mark.operation("POST /v1/sources/{source_id}/upload")
@pytest.mark.operation("GET /v1/sources/{source_id}/files")
@pytest.mark.operation("GET /v1/sources/{source_id}/files/{file_id}")
@pytest.mark.operation("GET /v1/sources/{source_id}/passages")
@pytest.mark.operation("DELETE /v1/sources/{source_id}/{file_id}")
@pytest.mark.operation("GET /v1/sources/metadata")
@pytest.mark.parametrize("kind", ["folders", "sources"])
def test_a_file_is_uploaded_read_and_deleted(kind: str, letta: Letta, http: httpx.Client) -> None:
    folder = letta.folders.create(name=unique("folder"))
    path = f"/v1/{kind}/{folder.id}"
    sent = http.post(f"{path}/upload", files={"file": ("n.txt", TEXT, "text/plain")}).json()

    assert sent["file_name"] == f"{folder.name}/n.txt"
    assert (sent["processing_status"], sent["file_size"]) == ("parsing", len(TEXT))
    file = processed(letta, folder.id, sent["id"])
    assert (file.processing_status, file.total_chunks, file.chunks_embedded) == ("completed", 1, 1)
    assert file.content == TEXT.decode()
    [listed] = http.get(f"{path}/files").json()
    assert listed == {**file.to_dict(mode="json"), "content": None, **absent(listed)}
    assert http.get(f"{path}/files/{file.id}").json() == listed
    assert http.get(f"{path}/files?include_content=true").json()[0]["content"] == TEXT.decode()
    [passage] = http.get(f"{path}/passages").json()
    assert passage["text"] == TEXT.decode().strip()
    assert (passage["file_id"], passage["source_id"]) == (file.id, folder.id)
    assert passage["file_name"] == f"{folder.name}/n.txt"
    assert len(passage["embedding"]) == passage["embedding_config"]["embedding_dim"] == 384
    assert passage["metadata"] == {}
    detailed = {"include_detailed_per_source_metadata": True}
    statistics = http.get(f"/v1/{kind}/metadata", params=detailed).json()
    [mine] = [source for source in statistics["sources"] if source["source_id"] == folder.id]
    assert (mine["file_count"], mine["total_size"]) == (1, len(TEXT))
    assert [file["file_id"] for file in mine["files"]] == [file.id]

    other = letta.folders.create(name=unique("folder"))
    with pytest.raises(NotFoundError):
        letta.folders.files.retrieve(file.id, folder_id=other.id)
    assert http.delete(f"/v1/{kind}/{other.id}/{file.id}").status_code == 404
    assert http.delete(f"{path}/{file.id}").status_code == 204
    assert http.get(f"{path}/files").json() == []
    assert http.get(f"{path}/passages").json() == []
    assert http.get(f"{path}/files/{file.id}").status_code == 404


@pytest.mark.operation("GET /v1/folders/{folder_id}/agents")
@pytest.mark.operation("GET /v1/sources/{source_id}/agents")
def test_a_folder_knows_its_agents(letta: Letta, http: httpx.Client, new_agent: NewAgent) -> None:
    folder, agent = letta.folders.create(name=unique("folder")), new_agent()
    assert letta.folders.agents.list(folder.id) == []

    letta.agents.folders.attach(folder.id, agent_id=agent.id)
    assert letta.folders.agents.list(folder.id) == [agent.id]
    assert http.get(f"/v1/sources/{folder.id}/agents").json() == [agent.id]

    letta.agents.folders.detach(folder.id, agent_id=agent.id)
    assert http.get(f"/v1/folders/{folder.id}/agents").json() == []


def absent(listed: dict[str, Any]) -> dict[str, Any]:
    """What the SDK leaves out of what it shows."""
    return {name: value for name, value in listed.items() if value is None}


def test_a_name_that_is_there_gets_a_number_is_skipped_refused_or_replaced(letta: Letta) -> None:
    folder = letta.folders.create(name=unique("folder"))
    first = uploaded(letta, folder.id, "a.txt", b"one")

    second = uploaded(letta, folder.id, "a.txt", b"two")
    assert (second.file_name, second.original_file_name) == ("a_(1).txt", "a.txt")
    skipped = letta.folders.files.with_raw_response.upload(
        folder.id, file=("a.txt", b"three"), duplicate_handling="skip"
    )
    assert skipped.headers["x-upload-result"] == "skipped"
    assert skipped.parse().id == first.id
    with pytest.raises(ConflictError, match="already exists"):
        uploaded(letta, folder.id, "a.txt", b"four", duplicate_handling="error")
    fourth = uploaded(letta, folder.id, "a.txt", b"four", duplicate_handling="replace")
    named = uploaded(letta, folder.id, "a.txt", b"five", name="other.txt")
    assert named.file_name == "other.txt"

    contents = {
        file.file_name: processed(letta, folder.id, file.id).content
        for file in letta.folders.files.list(folder.id)
    }
    assert contents == {"a.txt": "four", "a_(1).txt": "two", "other.txt": "five"}
    assert fourth.id != first.id
    with pytest.raises(NotFoundError):
        letta.folders.files.retrieve(first.id, folder_id=folder.id)


def test_what_cannot_be_read_says_what_to_do(letta: Letta, http: httpx.Client) -> None:
    folder = letta.folders.create(name=unique("folder"))

    with pytest.raises(APIStatusError, match=r"cannot be read: upload text") as unknown:
        uploaded(letta, folder.id, "a.exe", b"MZ")
    assert unknown.value.status_code == 415
    no_file = http.post(f"/v1/folders/{folder.id}/upload", data={"name": "x"})
    assert no_file.status_code == 422
    assert "`file`" in no_file.json()["detail"]
    nowhere = http.post(f"/v1/folders/source-{NOBODY}/upload", files={"file": ("a.txt", b"x")})
    assert nowhere.status_code in (404, 422)
    nested = uploaded(letta, folder.id, "a.html", b"<div>" * 10_000 + b"</div>" * 10_000)
    assert nested.processing_status == "error"
    assert "save the page as plain text" in nested.error_message
    assert uploaded(letta, folder.id, "b.txt", b"fine").processing_status == "completed"


def test_a_large_text_is_embedded_whole_and_goes_with_its_folder(
    letta: Letta, http: httpx.Client
) -> None:
    """A file of 20 MB passes through, is refused for the text in it, and costs nobody an answer;
    one of some dozen chunks is searchable as a whole; with the folder all goes."""
    folder = letta.folders.create(name=unique("folder"))
    names = (f"large-{number}.txt" for number in count(1))

    def slowest_meanwhile() -> float:
        content = b"0123456789\n" * 1_900_000
        large = letta.folders.files.upload(folder.id, file=(next(names), content))
        slowest = 0.0
        while letta.folders.files.retrieve(large.id, folder_id=folder.id).processing_status not in (
            "completed",
            "error",
        ):
            began = time.monotonic()
            http.get("/v1/health")
            slowest = max(slowest, time.monotonic() - began)
        refused = processed(letta, folder.id, large.id)
        assert refused.processing_status == "error"
        assert "10,000,000 characters" in refused.error_message
        return slowest

    asyncio.run(in_time("the slowest answer to somebody else", slowest_meanwhile, 2.0))

    text = "".join(f"Line {number} says what it says.\n" for number in range(800))
    file = uploaded(letta, folder.id, "long.md", text.encode())
    assert file.processing_status == "completed"
    assert file.total_chunks == file.chunks_embedded > 20
    assert file.content == text
    passages = http.get(f"/v1/folders/{folder.id}/passages", params={"limit": 1000}).json()
    assert len(passages) == file.total_chunks
    shown = "\n".join(passage["text"] for passage in passages)
    assert all(f"Line {number} " in shown for number in range(800))

    letta.folders.delete(folder.id)
    assert http.get(f"/v1/folders/{folder.id}/files").status_code == 404
    known = [source["source_id"] for source in http.get("/v1/folders/metadata").json()["sources"]]
    assert folder.id not in known


def test_a_folder_gets_another_model_and_its_files_follow(letta: Letta, http: httpx.Client) -> None:
    """MEM-15: it says how far it is; a model that does not answer changes nothing."""
    folder = letta.folders.create(name=unique("folder"))
    path = f"/v1/folders/{folder.id}"
    text = "".join(f"Line {number} says what it says.\n" for number in range(400))
    file = uploaded(letta, folder.id, "long.md", text.encode())
    before = http.get(f"{path}/embedding").json()
    chunks = before["passages"]
    assert (before["status"], before["embedded"], chunks > 5) == ("completed", chunks, True)
    wanted = "openai/text-embedding-3-small"

    hopeless = {
        "embedding_endpoint_type": "openai",
        "embedding_endpoint": "http://127.0.0.1:9/v1",
        "embedding_model": "m",
        "embedding_dim": 3,
    }
    for body in (hopeless, {**hopeless, "embedding_dim": 9_999}):
        refused = http.patch(path, json={"name": unique("other"), "embedding_config": body})
        assert refused.status_code == 422, refused.text
    unknown = http.put(f"{path}/embedding", json={"embedding": "openai/nothing"})
    assert (unknown.status_code, "openai/nothing" in unknown.text) == (404, True)
    assert http.get(path).json()["name"] == folder.name
    assert http.get(f"{path}/embedding").json() == before

    changed = http.put(f"{path}/embedding", json={"embedding": wanted})
    assert changed.status_code == 200, changed.text
    late = letta.folders.files.upload(folder.id, file=("late.txt", TEXT))

    def completed() -> bool:
        return bool(http.get(f"{path}/embedding").json()["status"] == "completed")

    wait_until("the chunks have their vectors", completed, SECONDS_MAX)
    after = http.get(f"{path}/embedding").json()
    assert after["embedding_config"]["handle"] == wanted
    assert after["embedded"] == after["passages"] == chunks + 1
    passages = http.get(f"{path}/passages", params={"limit": 1_000}).json()
    assert {len(passage["embedding"]) for passage in passages} == {1_536}
    assert {passage["file_id"] for passage in passages} == {file.id, late.id}
    assert letta.folders.retrieve(folder.id).embedding_config.handle == wanted

    http.patch(path, json={"embedding_config": before["embedding_config"]})
    wait_until("the chunks have their old vectors", completed, SECONDS_MAX)
    passages = http.get(f"{path}/passages", params={"limit": 1_000}).json()
    assert {len(passage["embedding"]) for passage in passages} == {384}
    letta.folders.delete(folder.id)
    assert http.get(f"{path}/embedding").status_code == 404
