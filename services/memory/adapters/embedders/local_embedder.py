"""A model of this process in two threads: one for texts that clients wait for, and one for those of
the background. It is loaded when first wanted, and embeds a few texts at a time, the organisations
in turn."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from libs.embeddings.ports import (
    TEXTS_MAX,
    EmbeddingRefused,
    EmbeddingUnavailable,
    Vector,
)
from services.memory.adapters.embedders.minilm import MiniLm

# Of each call so many texts are embedded before it is another's turn, and another organisation's if
# one waits: as many as hardly take longer than one that is as long as the model reads, 30 ms.
TURN_TEXTS_MAX = 8
TURN_CHARS_MAX = 1_000
# All that may wait for a thread, and of one organisation: texts are held in memory, and who comes
# last is to get an answer in time.
TEXTS_WAITING_MAX = 8_000
ORGANISATION_TEXTS_WAITING_MAX = 6_000


@dataclass(eq=False, slots=True)
class Call:
    """Texts that wait, and the vectors that are there of them."""

    org: str
    texts: Sequence[str]
    done: asyncio.Future[list[Vector]]
    vectors: list[Vector] = field(default_factory=list)

    @property
    def next_texts(self) -> Sequence[str]:
        """The texts whose turn it is: one at least."""
        begin = len(self.vectors)
        chars = 0
        for end in range(begin, min(begin + TURN_TEXTS_MAX, len(self.texts))):
            chars += len(self.texts[end])
            if end > begin and chars > TURN_CHARS_MAX:
                return self.texts[begin:end]
        return self.texts[begin : begin + TURN_TEXTS_MAX]


class EmbedderThread:
    """A thread that embeds what waits for it: the organisations by turns, and the calls of each by
    turns. `embedded` is what it does with a few texts."""

    def __init__(self, embedded: Callable[[Sequence[str]], list[Vector]], name: str) -> None:
        self.embedded = embedded
        # Of each organisation; the one whose turn is next comes first.
        self.calls: OrderedDict[str, deque[Call]] = OrderedDict()
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.working: asyncio.Task[None] | None = None
        self.waiting: Counter[str] = Counter()

    async def embed(self, org: str, texts: Sequence[str]) -> list[Vector]:
        """A vector of each text of an organisation, when it was their turn. Raises
        EmbeddingUnavailable where too many texts wait."""
        self.check_room(len(texts), org)
        call = Call(org, texts, asyncio.get_running_loop().create_future())
        self.waiting[org] += len(texts)
        try:
            self.line_up(call)
            if self.working is None or self.working.done():
                self.working = asyncio.create_task(self.work())
            return await call.done
        finally:
            self.waiting[org] -= len(texts)
            if not self.waiting[org]:
                del self.waiting[org]

    def check_room(self, texts: int, org: str) -> None:
        """Raise EmbeddingUnavailable where there is no room for so many texts."""
        for waiting, most in (
            (self.waiting[org], ORGANISATION_TEXTS_WAITING_MAX),
            (self.waiting.total(), TEXTS_WAITING_MAX),
        ):
            if waiting + texts > most:
                raise EmbeddingUnavailable(
                    f"{waiting} texts wait to be embedded, and at most {most} may:"
                    " try again in a moment"
                )

    def line_up(self, call: Call) -> None:
        """Have a call wait behind the others of its organisation."""
        self.calls.setdefault(call.org, deque()).append(call)

    def next_call(self) -> Call:
        """The call whose turn it is; the next turn is another organisation's, if one waits."""
        org, calls = self.calls.popitem(last=False)
        call = calls.popleft()
        if calls:
            self.calls[org] = calls
        return call

    async def work(self) -> None:
        """Embed what waits, a few texts of each call in turn, until nothing does."""
        loop = asyncio.get_running_loop()
        while self.calls:
            call = self.next_call()
            if call.done.done():  # nobody waits for it any more
                continue
            try:
                call.vectors += await loop.run_in_executor(
                    self.thread, self.embedded, call.next_texts
                )
            except Exception as problem:  # is whose call it is
                self.end(call, problem)
                continue
            if len(call.vectors) < len(call.texts):
                self.line_up(call)
            else:
                self.end(call, call.vectors)

    def end(self, call: Call, outcome: list[Vector] | Exception) -> None:
        """Give a call what it waits for, if it still does."""
        if call.done.done():
            return
        if isinstance(outcome, Exception):
            call.done.set_exception(outcome)
        else:
            call.done.set_result(outcome)

    def close(self) -> None:
        """Embed nothing more; what waits is given up."""
        if self.working is not None:
            self.working.cancel()
        for calls in self.calls.values():
            for call in calls:
                call.done.cancel()
        self.thread.shutdown(wait=False, cancel_futures=True)


class LocalEmbedder:
    """Keeps the contract of `Embedder`, for all organisations in turn, with a model that `load`
    makes, once, in a thread. Raises EmbeddingUnavailable where too many texts wait."""

    def __init__(self, model: str, dimensions: int, load: Callable[[], MiniLm]) -> None:
        self.model = model
        self.dimensions = dimensions
        self.load = load
        self.loaded: MiniLm | None = None
        self.loading = threading.Lock()
        self.interactive = EmbedderThread(self.embed_in_thread, "embedder")
        self.background = EmbedderThread(self.embed_in_thread, "background-embedder")

    async def embed(
        self, texts: Sequence[str], org: str = "", *, background: bool = False
    ) -> list[Vector]:
        """A vector of unit length for each text of an organisation. Texts that a client waits for
        wait for none of the background."""
        assert len(texts) <= TEXTS_MAX, "whoever has more texts calls again"
        if not texts:
            return []
        return await (self.background if background else self.interactive).embed(org, texts)

    def embed_in_thread(self, texts: Sequence[str]) -> list[Vector]:
        """The vectors of a few texts. Called in a thread: loads the model at first, and computes.
        Raises EmbeddingRefused where no model is installed."""
        with self.loading:
            if self.loaded is None:
                self.loaded = self.loaded_model()
        return self.loaded.embed(texts)

    def loaded_model(self) -> MiniLm:
        """The model, which takes a moment. Raises EmbeddingRefused where it is not installed."""
        try:
            return self.load()
        except (ImportError, OSError) as missing:
            raise EmbeddingRefused(
                f"the embedding model {self.model} is not installed ({missing}): install what"
                " services/memory/pyproject.toml names, or give the archive another model"
            ) from missing

    async def aclose(self) -> None:
        """Embed nothing more; what waits is given up."""
        self.interactive.close()
        self.background.close()


@dataclass(frozen=True, slots=True)
class OrganisationEmbedder:
    """Keeps the contract of `Embedder` for one organisation."""

    embedder: LocalEmbedder
    org: str
    background: bool = False

    @property
    def model(self) -> str:
        """The handle of the embedding model."""
        return self.embedder.model

    @property
    def dimensions(self) -> int:
        return self.embedder.dimensions

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A vector of unit length for each text."""
        return await self.embedder.embed(texts, self.org, background=self.background)
