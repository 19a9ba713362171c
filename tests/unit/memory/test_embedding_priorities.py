"""Whose texts are embedded first: those that a client waits for, and files after them."""

from __future__ import annotations

from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.memory.archives import CreateArchive, InsertPassages, NewPassage, SearchPassages
from libs.contracts.memory.folders import UpdateFolder
from libs.contracts.memory.reembedding import ChangeArchiveEmbedding, ReembedChunks, ReembedPassages
from libs.contracts.memory.semantic_message_search import NearestMessages
from libs.embeddings.ports import Embedder
from services.memory.engine.message_embedding import TEXTS_OF_A_SEARCH_MAX
from tests.contract.file_examples import FOLDER
from tests.hash_embedder import HashEmbedder, OneEmbedder
from tests.unit.memory.file_world import World
from tests.unit.memory.memory_service import Memory, said

OTHER = EmbeddingConfig(
    embedding_endpoint_type="openai",
    embedding_model="other",
    embedding_dim=32,
    handle="other/words",
)
ARCHIVE = "archive-1"


class Noted(OneEmbedder):
    """Keeps the contract of `Embedders`, and how many texts it embedded, by their priority."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.later = HashEmbedder(), HashEmbedder()

    def for_config(
        self, config: EmbeddingConfig | None, org: str, *, background: bool = False
    ) -> Embedder:
        found = self.later if background else self.first
        if config is not None and config.handle == OTHER.handle:
            found.model, found.dimensions = "other/words", 32
        return found

    def texts(self) -> tuple[int, int]:
        """How many texts went first since this was asked before, and how many later."""
        counts = self.first.texts, self.later.texts
        self.first.texts = self.later.texts = 0
        return counts


async def test_a_client_who_waits_goes_first_and_files_and_other_models_later() -> None:
    noted = Noted()
    memory = await Memory(noted).start()
    await memory.ask(CreateArchive(archive_id=ARCHIVE, name="Facts"), "m-1")
    passage = NewPassage(id="passage-1", text="mountains")
    await memory.ask(InsertPassages(archive_id=ARCHIVE, passages=[passage]), "m-2")
    assert noted.texts() == (1, 0), "an insert"
    await memory.ask(SearchPassages(asker="a", query="hills", collection_ids=[ARCHIVE]), "m-3")
    assert noted.texts() == (1, 0), "a search"
    await memory.ask(ChangeArchiveEmbedding(archive_id=ARCHIVE, embedding_config=OTHER), "m-4")
    assert noted.texts() == (1, 0), "whether the new model answers"
    await memory.ask(ReembedPassages(archive_id=ARCHIVE), "m-5")
    assert noted.texts() == (0, 1), "the passages by the new model"


async def test_a_long_history_of_messages_is_embedded_behind_who_searches() -> None:
    noted = Noted()
    memory = await Memory(noted).start()
    said(memory, *(f"tea {number}" for number in range(3 * TEXTS_OF_A_SEARCH_MAX)))
    await memory.ask(NearestMessages(asker="a", query="tea"), "m-1")
    first, later = noted.texts()
    assert first > 1
    assert later == 0
    await memory.message_embedding.sweep()
    first, later = noted.texts()
    assert first == 0
    assert later > 0


async def test_the_chunks_of_files_are_embedded_behind_who_waits() -> None:
    noted = Noted()
    world = World(noted)
    await world.upload(b"words\n")
    await world.sweep()
    assert noted.texts() == (0, 1)
    changes = {"embedding_config": OTHER.model_dump(mode="json")}
    await world.tell(UpdateFolder(folder_id=f"{FOLDER}org-1", changes=changes))
    noted.texts()
    await world.tell(ReembedChunks(folder_id=f"{FOLDER}org-1"))
    assert noted.texts() == (0, 1), "also by another model"
