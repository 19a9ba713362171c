"""The read-model tables of the scheduler service."""

from __future__ import annotations

from libs.eventstore.read_model_rows import Table

SCHEDULES = Table("schedules")
FIRINGS = Table("firings", aggregate="schedule_id")
