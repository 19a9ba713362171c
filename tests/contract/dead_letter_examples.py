"""Commands that were put aside."""

from __future__ import annotations

from libs.eventstore.failed_messages.ports import DeadLetter
from tests.contract.ledger import AT

LETTER = DeadLetter(
    id="letter-1",
    org="org-1",
    created_at=AT,
    service="ledger",
    kind="command",
    name="ledger.money.deposit",
    subject="ledger.command.money.deposit.org-1.a",
    message_id="m1",
    payload={"account_id": "a", "cents": 5, "nested": [None, 1.5, "ä"]},
    payload_text=None,
    context={"message_id": "m1", "org": "org-1", "actor": "user-1"},
    attempts=4,
    first_at=AT,
    last_at=AT,
    error_class="ZeroDivisionError",
    error_text="Traceback ...",
    correlation_id="for-m1",
)
