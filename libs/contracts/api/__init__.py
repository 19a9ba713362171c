"""The messages of the api's own aggregates."""
