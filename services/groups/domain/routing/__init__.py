"""The strategies by which messages are routed, one module for each pattern."""
