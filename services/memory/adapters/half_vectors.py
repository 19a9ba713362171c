"""Vectors as parameters of statements, in the binary form of Postgres' `halfvec`: to write and to
read a text of a thousand numbers takes longer than to compare it with a thousand others."""

from __future__ import annotations

from pgvector import HalfVector
from pgvector.psycopg.halfvec import HalfVectorBinaryDumper
from psycopg import adapters

from libs.embeddings.ports import Vector

# For every connection, without a type of its own: a statement casts a vector to what it compares.
adapters.register_dumper(HalfVector, HalfVectorBinaryDumper)


def half_vector(vector: Vector) -> HalfVector:
    """The vector as a parameter. Raises OverflowError for a number beyond 65,504, which no unit
    vector has."""
    return HalfVector([*vector])
