"""Through several agents in a row: each gets what the one before it has answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from libs.contracts.agent.conversations import Message
from services.groups.domain.routing.plans import (
    Completed,
    Delivery,
    Plan,
    Routing,
    answer_among,
    as_sent,
    next_of,
)

NO_ANSWER = "<no response>"


class Pipeline:
    """Routes through the stages; each is answered by one agent, with failover within the stage."""

    def plan(self, routing: Routing) -> Plan:
        """Go on in the first stage that has no answer, or end with that of the last."""
        done: Delivery | None = None
        for stage, candidates in enumerate(routing.stages):
            done = answer_among(routing.of("answer", stage))
            if done is None:
                return next_of(routing, "answer", candidates, stage)
        assert done is not None, "a pipeline has stages"
        return Plan(end=Completed((done.number,)))

    def compose(
        self, routing: Routing, delivery: Delivery, texts: Mapping[int, str]
    ) -> Sequence[Message]:
        """What the client sent for the first stage, else the answer of the stage before."""
        sent = as_sent(routing, delivery)
        if delivery.stage == 0:
            return sent
        before = answer_among(routing.of("answer", delivery.stage - 1))
        assert before is not None, "a stage begins when the one before it was answered"
        text = texts.get(before.number) or NO_ANSWER
        return [sent[0].model_copy(update={"role": "user", "content": text})]
