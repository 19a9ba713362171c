"""The services in a simulated world: virtual time, a seeded schedule, planned faults."""
