"""Gauges that are read on request, since they cannot be counted as they happen."""

from __future__ import annotations

from contextlib import suppress

from prometheus_client import Gauge

from libs.bus.service_host import Service
from libs.eventstore.backlog_counts import consumer_lag, dead_letters, relay_lag
from libs.eventstore.connection_pool import Database
from libs.eventstore.ports import StoreUnavailable
from libs.eventstore.postgres import PostgresEventStore
from libs.telemetry import metrics


def connections(service: str, database: Database) -> None:
    """Report the use of a service's pool."""
    stats = database.pool.get_stats()
    idle = stats.get("pool_available", 0)
    metrics.CONNECTIONS.labels(service, "idle").set(idle)
    metrics.CONNECTIONS.labels(service, "busy").set(stats.get("pool_size", 0) - idle)


class ServiceGauges:
    """Looks at one service in one process. What is the same for all its processes is told by one
    of them, the one that does the job; the others tell nothing."""

    def __init__(self, service: Service, store: PostgresEventStore) -> None:
        self.service = service
        self.store = store
        self.database = store.database

    async def look(self) -> None:
        """Set every gauge. Without Postgres those that it knows keep their values."""
        name = self.service.name
        connections(name, self.database)
        metrics.LEASES.labels(name).set(len(self.store.held))
        try:
            await self.look_at_logs()
            for look in self.service.looks:
                await look()
        except StoreUnavailable:
            return

    async def look_at_logs(self) -> None:
        """Report the lag of this process in the logs that it works through."""
        name = self.service.name
        if self.service.relay.leadership.epoch is None:
            forget(metrics.RELAY_LAG, name)
            forget(metrics.DEAD_LETTERS, name)
        else:
            metrics.RELAY_LAG.labels(name).set(await relay_lag(self.database, name))
            metrics.DEAD_LETTERS.labels(name).set(await dead_letters(self.database, name))
        for consumer in self.service.consumers:
            if consumer.leadership.epoch is None:
                forget(metrics.CONSUMER_LAG, name, consumer.upstream)
            else:
                behind = await consumer_lag(self.database, name, consumer.upstream)
                metrics.CONSUMER_LAG.labels(name, consumer.upstream).set(behind)


def forget(gauge: Gauge, *labels: str) -> None:
    """Say nothing rather than something old."""
    with suppress(KeyError):
        gauge.remove(*labels)
