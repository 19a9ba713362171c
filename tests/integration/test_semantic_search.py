"""What is found by what it means, by the model that comes along, without a network (MEM-14)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import snowballstemmer

from libs.embeddings.bundled_model_config import DIMENSIONS, HANDLE
from libs.embeddings.vector_encoding import pack_vector
from libs.eventstore.commit_statement import commit_statement
from libs.eventstore.connection_pool import Database, open_pool
from libs.eventstore.ports import Commit
from libs.eventstore.read_model_rows import RowWrites
from services.memory.adapters.embedders.local_embedder import LocalEmbedder
from services.memory.adapters.embedders.minilm import MiniLm
from services.memory.adapters.passage_search import (
    PassageQuery,
    PostgresPassageSearch,
    QueryVector,
)
from services.memory.projections.passages import passage_row
from services.memory.projections.tables import PASSAGES
from tests.servers import PostgresServer
from tests.unit.passage_search import passage_doc

HITS_MIN = 18  # of 20: hit@3 >= 0.9

# A question, and the fact that answers it in other words.
PAIRS = (
    ("Which pet naps on the couch?", "A ginger cat sleeps on his sofa every afternoon."),
    ("Who cares for sick kids in a clinic?", "Lena works as a nurse in the children's hospital."),
    ("What food makes him ill?", "Peanuts give Omar a serious allergic reaction."),
    ("When were they married?", "The wedding of Ruth and Paul took place in June 2012."),
    ("Which car does he drive?", "Igor bought an old Volvo estate last spring."),
    ("Does she smoke?", "Nina gave up cigarettes three years ago."),
    ("Where did they spend their vacation?", "The Meyers flew to Portugal for two weeks of sun."),
    ("What musical instrument can he perform on?", "Karl practises the cello for an hour a day."),
    ("How much money does the apartment cost monthly?", "The rent of the flat is 900 euros."),
    ("Why is the website so slow?", "Page loads lag because the database has no index."),
    ("Who is the boss of the firm?", "Mrs. Tanaka was appointed chief executive of the company."),
    ("Is he able to swim?", "Sam never learned to stay afloat in deep water."),
    ("Which illness did grandmother suffer from?", "Nana was diagnosed with diabetes at seventy."),
    ("How do I get to the office by train?", "Take the S-Bahn to the main station, then walk."),
    ("What did the physician advise?", "The doctor told Anna to rest and drink plenty of tea."),
    ("Which programming language is preferred?", "Our team writes most of its code in Rust."),
    ("What is the child scared of?", "Little Ben is afraid of thunderstorms."),
    ("When does the shop close?", "The store is open until eight in the evening."),
    ("How was the film?", "Everybody thought the movie was boring and too long."),
    ("Who learns about atoms and forces?", "Felix is a student of physics in college."),
)  # fmt: skip

PEOPLE = ("Alma", "Bruno", "Carla", "Dario", "Edda")
# About much the same as the questions.
OTHERS = """
prefers window seats on planes. / collects stamps from Iceland. / waters the roses before breakfast.
lost an umbrella in the tram. / repaired the kitchen tap yesterday. / reads detective novels in bed.
paints landscapes with watercolours. / ordered new curtains for the bedroom. / votes in elections.
runs a marathon each autumn. / bakes sourdough bread on Sundays. / forgot the router's password.
keeps bees behind the barn. / teaches history at a grammar school. / cannot stand coriander.
celebrates a birthday in March. / cycles to the bakery. / drinks espresso after lunch.
camped in Norway with friends. / sings in a choir. / pays for parking by the week.
restarted the mail server at night. / leads a small bakery. / climbs indoors on Thursdays.
broke a wrist while skating. / missed the last bus home. / goes to the dentist in May.
likes Haskell and dislikes YAML. / has nightmares after horror books. / opens the gallery at noon.
fell asleep in the theatre. / failed the exam in chemistry. / adopted a parrot from a shelter.
plays chess by mail. / sold a motorbike to a neighbour. / writes letters to the editor.
"""

FILLERS = """
a an and are at be because by can did do does each every for from get give gave had has have he her
his how i in is it its last most much never no of on our so take than the their them then they
thought to too told two was were what when where which who why will with
"""
WORD = re.compile(r"[a-z]+")


def facts() -> list[str]:
    """Two hundred, of which twenty answer the questions."""
    habits = [part for line in OTHERS.split("\n") for part in line.split(" / ") if part]
    noise = [f"{name} {habit}" for habit in habits for name in PEOPLE]
    return [*(fact for _, fact in PAIRS), *noise]


def stems(text: str) -> set[str]:
    """The stems of the words that say something."""
    fillers = FILLERS.split()
    stemmer = snowballstemmer.stemmer("english")
    return {stemmer.stemWord(word) for word in WORD.findall(text.lower()) if word not in fillers}


def test_no_question_shares_a_word_with_its_answer() -> None:
    assert len(facts()) == len(set(facts())) == 200
    assert [pair for pair in PAIRS if stems(pair[0]) & stems(pair[1])] == []


async def test_nine_of_ten_questions_find_their_answer_among_the_first_three(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.create_migrated_database("semantic_search")
    embedder = LocalEmbedder(HANDLE, DIMENSIONS, MiniLm)
    async with open_pool(url) as pool:
        database = Database(pool)
        await database.fetch(*await stored(embedder))
        search = PostgresPassageSearch(database)
        missed = []
        for question, fact in PAIRS:
            [vector] = await embedder.embed([question])
            found = await search.search(
                PassageQuery(
                    org="org-1",
                    collection_ids=["archive-1"],
                    vectors=(QueryVector(HANDLE, vector),),
                    text=question,
                    limit=3,
                )
            )
            if fact not in [passage.fields["text"] for passage in found]:
                missed.append((question, [passage.fields["text"] for passage in found]))
    await embedder.aclose()
    assert len(PAIRS) - len(missed) >= HITS_MIN, missed


async def stored(embedder: LocalEmbedder) -> tuple[str, dict[str, object]]:
    """What writes the facts, embedded."""
    rows = RowWrites()
    texts = facts()
    for number, (text, vector) in enumerate(zip(texts, await embedder.embed(texts), strict=True)):
        row = passage_row(
            passage_doc(f"passage-{number}", text, "archive-1"),
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
            version=1,
            embedding_model=HANDLE,
            embedding=pack_vector(vector),
        )
        rows.upsert(PASSAGES, row)
    return commit_statement("memory", "test", [Commit(rows=rows)])
