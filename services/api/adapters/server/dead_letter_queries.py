"""The dead letters of all services in one view, made from those that the services publish."""

from __future__ import annotations

from libs.contracts.service_registry import names

DEAD_LETTER_VIEW = "({})".format(
    " union all ".join(f"select * from {service}.dead_letter_view" for service in names())
)
# Of all organisations: it is a number on the health page.
OPEN_LETTERS = "select {}".format(
    " + ".join(
        f"(select count(*) from {service}.dead_letter_view where status <> 'replayed')"
        for service in names()
    )
)
