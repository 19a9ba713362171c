"""An archive of logs and tickets, nearly all alike, with a few passages on other subjects."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)

# Of each kind there are as many as of any other; what differs is in braces.
LOGS = (
    "{when} ERROR payment-service: request {id} to host db-{n} timed out after {ms} ms",
    "{when} INFO api-gateway: GET /v1/orders/{id} answered 200 in {ms} ms for client {n}",
    "{when} WARN scheduler: job {id} on node worker-{n} is late by {ms} ms, trying again",
    "Ticket {id}: customer {n} cannot log in since {when}, password was reset, case is closed",
    "Ticket {id}: invoice {n} was paid twice, {ms} euros were sent back on {when}",
)
# What else is there, each with a question that says it in other words.
OTHERS: tuple[tuple[str, str], ...] = (
    (
        "Grandmother's plum cake needs two pounds of fruit and a pinch of cinnamon.",
        "How do I bake the family's dessert with plums?",
    ),
    (
        "The lighthouse keeper fed seagulls every morning before sunrise.",
        "Who gave food to the birds at the beacon by the sea?",
    ),
    (
        "Maria is allergic to penicillin and must never be given it.",
        "Which antibiotic is dangerous for Maria?",
    ),
    (
        "The violin was tuned a half step lower for the baroque concert.",
        "How was the string instrument prepared for the old music?",
    ),
    (
        "Our tomcat hides under the sofa whenever there is thunder.",
        "Where does the pet go in a storm?",
    ),
    (
        "The marathon in Lisbon begins at the old bridge over the Tagus.",
        "Where do the runners start in Portugal?",
    ),
    (
        "Basil grows best on the south window and wants water twice a week.",
        "How should I look after the herb in my kitchen?",
    ),
    (
        "The treaty of 1648 ended thirty years of war in Europe.",
        "Which agreement brought peace to the continent in the 17th century?",
    ),
    (
        "Penguins huddle together to survive the Antarctic winter.",
        "How do flightless birds stay warm at the South Pole?",
    ),
    ("My brother proposed to Anna on top of the Ferris wheel.", "How did the couple get engaged?"),
    (
        "The glacier above the village has lost a third of its ice since 1980.",
        "How much has the mountain's frozen river melted?",
    ),
    (
        "A chess opening called the Sicilian answers the king's pawn from the side.",
        "Which defence is played against moving the pawn in front of the king?",
    ),
    (
        "The carpenter sanded the oak table and rubbed it with linseed oil.",
        "How was the wooden furniture finished?",
    ),
    (
        "Saturn's rings are made of ice and rock, from dust to houses in size.",
        "What do the bands around the sixth planet consist of?",
    ),
    (
        "For the camping trip we need a tent, two sleeping bags and a gas stove.",
        "What equipment must be packed to sleep outdoors?",
    ),
    (
        "The museum shows Vermeer's letter reader until the end of March.",
        "Until which month can the Dutch painting be seen?",
    ),
    (
        "Honey bees dance to tell each other where flowers are.",
        "How do insects communicate the way to nectar?",
    ),
    (
        "He learned to sail on a small wooden dinghy near Kiel.",
        "Where was his first experience with boats?",
    ),
    (
        "The choir rehearses Bach's Christmas Oratorio on Tuesdays.",
        "On which day do the singers practise?",
    ),
    (
        "A broken ankle kept the striker from playing in the final.",
        "Why did the footballer miss the last match?",
    ),
    (
        "Vinegar and baking soda remove limescale from the kettle.",
        "What cleans deposits out of something that boils water?",
    ),
    (
        "The novel begins with a funeral in a rainy mountain town.",
        "What is the opening scene of the book?",
    ),
    (
        "Her wedding dress was sewn from silk that came from Lyon.",
        "What fabric did the bride wear?",
    ),
    (
        "The volcano on Iceland closed European airports in spring 2010.",
        "What natural event stopped air traffic?",
    ),
)


def log_of(number: int) -> str:
    """A passage that is like many others; the same for the same number."""
    chance = random.Random(number)
    when = START + timedelta(minutes=chance.randrange(500_000))
    return LOGS[number % len(LOGS)].format(
        when=f"{when:%Y-%m-%d %H:%M}",
        id=chance.randrange(1_000_000),
        n=chance.randrange(1_000),
        ms=chance.randrange(100, 60_000),
    )
