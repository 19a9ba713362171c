"""A folder gets another embedding model: its chunks bit by bit, those of files on their way too."""

from __future__ import annotations

from typing import Any

import pytest

from libs.contracts.bus_messages import Rejected
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.memory.files import DeleteFile
from libs.contracts.memory.folders import DeleteFolder, UpdateFolder
from libs.contracts.memory.reembedding import ReembedChunks
from libs.embeddings.ports import Embedder, EmbeddingRefused
from libs.eventstore.event_decoding import event_of
from libs.eventstore.read_model_rows import RowWrites
from services.memory.handlers import reembedding
from services.memory.handlers.embedding_errors import PROBE
from services.memory.projections import project
from tests.contract.file_examples import FILE, FOLDER
from tests.hash_embedder import MODEL
from tests.unit.archives import InMemoryArchiveQueries
from tests.unit.memory.file_world import LONG, Flaky, World

HERE = f"{FOLDER}org-1"
OTHER = EmbeddingConfig(
    embedding_endpoint_type="openai",
    embedding_model="other",
    embedding_dim=32,
    handle="other/words",
)
STEP = ReembedChunks(folder_id=HERE)


class Both:
    """Keeps the contract of `Embedders`: the default, and another of other vectors."""

    def __init__(self) -> None:
        self.old = Flaky()
        self.new = Flaky("other/words", 32)

    def for_config(
        self, config: EmbeddingConfig | None, org: str, *, background: bool = False
    ) -> Embedder:
        if config and config.handle == "nobody/knows":
            raise EmbeddingRefused("no provider is configured")
        return self.new if config and config.handle == OTHER.handle else self.old


@pytest.fixture
def both() -> Both:
    return Both()


@pytest.fixture
def world(both: Both) -> World:
    return World(both)


def change(config: EmbeddingConfig = OTHER, **fields: Any) -> UpdateFolder:
    changes = {"embedding_config": config.model_dump(mode="json"), **fields}
    return UpdateFolder(folder_id=HERE, changes=changes)


def models(world: World) -> set[str]:
    return {row["embedding_model"] for row in world.passages()}


def running(world: World) -> bool:
    return bool(world.schema.rows("folder_reembeddings"))


async def embedded(world: World) -> int:
    return int(str((await world.tell(STEP)).result["embedded"]))


async def test_the_chunks_of_a_folder_get_the_vectors_of_its_new_model(
    world: World, both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reembedding, "PASSAGES_REEMBEDDED_AT_ONCE", 50)
    await world.upload(LONG)
    await world.upload(b"Another file\n", "file-2")
    await world.sweep()
    before = world.passages()
    await world.tell(change(name="renamed"))
    await world.tell(change())
    assert running(world), "twice is once"
    [row] = world.schema.rows("folders")
    fields: Any = row["fields"]
    assert (row["name"], fields["embedding_config"]["embedding_dim"]) == ("renamed", 32)
    assert await embedded(world) == 50
    both.new.down = True
    refused = await world.answer(STEP)
    assert isinstance(refused, Rejected)
    assert models(world) == {MODEL, "other/words"}, "what is done stays done"
    both.new.down, both.new.texts = False, 0
    while await embedded(world):
        pass
    assert not running(world)
    assert both.new.texts == len(before) - 50, "nothing is embedded twice"
    after = world.passages()
    assert {row["embedding_model"] for row in after} == {"other/words"}
    assert all(row["embedding"].count(",") == 31 for row in after)
    assert [row["text"] for row in after] == [row["text"] for row in before]
    assert world.file()["status"] == "completed"

    tables: Any = {}
    for stored in world.schema.committed:
        rows = RowWrites()
        project(event_of("memory", stored), "org-1", rows)
        rows.apply(tables)
    made = sorted(tables["passages"].values(), key=lambda row: str(row["created_at"]))
    assert made == after, "rows are made again from events"


async def test_a_file_on_its_way_goes_on_with_the_new_model_and_the_chunks_that_it_has(
    world: World, both: Both
) -> None:
    await world.upload(LONG)
    both.old.dies_at = 2
    await world.sweep()
    row = world.file()
    assert 0 < row["chunks_embedded"] < row["total_chunks"]
    await world.tell(change(OTHER.model_copy(update={"embedding_chunk_size": 16})))
    while await embedded(world):
        pass
    assert models(world) == {"other/words"}
    assert running(world), "the file is not whole yet"
    world.clock.seconds += 60
    world.start()
    await world.sweep()
    row = world.file()
    assert (row["status"], row["chunks_embedded"]) == ("completed", row["total_chunks"])
    assert len(world.passages()) == row["total_chunks"]
    assert models(world) == {"other/words"}
    shown = "\n".join(str(passage["text"]) for passage in world.passages())
    assert all(f"Line {number} " in shown for number in range(4_000))
    assert await embedded(world) == 0
    assert not running(world)


async def test_a_model_that_cannot_be_asked_changes_nothing(world: World, both: Both) -> None:
    await world.upload(b"some words\n")
    await world.sweep()
    both.new.down = True
    for config in (OTHER, OTHER.model_copy(update={"handle": "nobody/knows"})):
        assert isinstance(await world.answer(change(config, name="renamed")), Rejected)
    [row] = world.schema.rows("folders")
    fields: Any = row["fields"]
    assert (row["name"], fields["embedding_config"]["handle"]) == ("f", MODEL)
    assert not running(world)


async def test_what_is_deleted_meanwhile_is_embedded_no_more(world: World, both: Both) -> None:
    await world.upload(b"some words\n")
    await world.upload(b"other words\n", "file-2")
    await world.sweep()
    await world.tell(change())
    await world.tell(DeleteFile(file_id=FILE, folder_id=HERE))
    assert await embedded(world) == 1
    await world.tell(
        change(EmbeddingConfig(embedding_endpoint_type="x", embedding_model="y", embedding_dim=128))
    )
    await world.tell(DeleteFolder(folder_id=HERE))
    assert not running(world)
    assert isinstance(await world.answer(STEP), Rejected)


async def test_a_model_that_is_changed_while_it_embeds_leaves_no_vector(
    world: World, both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.upload(b"some words\n")
    embed = both.old.embed
    changes = [change()]

    async def changed_meanwhile(texts: Any) -> Any:
        if changes and texts != [PROBE]:
            await world.tell(changes.pop())
        return await embed(texts)

    monkeypatch.setattr(both.old, "embed", changed_meanwhile)
    await world.sweep()
    assert (world.file()["status"], models(world)) == ("completed", {"other/words"})

    changes.append(change())
    await world.tell(change(OTHER.model_copy(update={"handle": MODEL, "embedding_dim": 128})))
    assert await embedded(world) == 0, "the folder had its other model back meanwhile"
    assert models(world) == {"other/words"}
    assert await embedded(world) == 0
    assert not running(world)


async def test_a_file_that_is_completed_while_chunks_are_looked_for_is_not_forgotten(
    world: World, both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.upload(LONG)
    both.old.dies_at = 2
    await world.sweep()
    await world.tell(change())
    while await embedded(world):
        pass
    look = InMemoryArchiveQueries.passages_to_embed

    async def completed_meanwhile(self: Any, *asked: Any) -> Any:
        found = await look(self, *asked)
        world.clock.seconds += 60
        await world.sweep()
        return found

    monkeypatch.setattr(InMemoryArchiveQueries, "passages_to_embed", completed_meanwhile)
    assert await embedded(world) == 0
    assert world.file()["status"] == "completed"
    assert running(world), "its last chunks are looked for once more"
    await embedded(world)
    assert not running(world)
