"""`make up MODE=compose`: Postgres, NATS and the services in containers."""
