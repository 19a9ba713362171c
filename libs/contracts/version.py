"""The versions that the server reports."""

HEELER_VERSION = "0.1.0"

# The V1 server that this one stands in for.
LETTA_VERSION = "0.16.8"
