"""The embedded launcher: Postgres, NATS and the services on one machine, from wheels."""
