"""Vectors as parameters of statements, in the binary form of Postgres' `halfvec`: to write and to
read a text of a thousand numbers takes longer than to compare it with a thousand others."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from psycopg import adapters
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format

from libs.embeddings.ports import Vector


@dataclass(frozen=True, slots=True)
class HalfVector:
    """A vector on its way to Postgres, which takes it where a statement has it as a `halfvec`."""

    data: bytes = field(repr=False)

    @classmethod
    def of(cls, vector: Vector) -> HalfVector:
        """The vector in binary: its length, two zero bytes, and each as a float16, the large end
        first. Raises OverflowError for a number beyond 65,504, which no unit vector has."""
        return cls(struct.pack(f">hh{len(vector)}e", len(vector), 0, *vector))


class HalfVectorDumper(Dumper):
    """Sends a vector as it is; its type is what the statement casts it to."""

    format = Format.BINARY

    def dump(self, obj: HalfVector) -> Buffer:
        """The bytes of a packed vector."""
        return obj.data


adapters.register_dumper(HalfVector, HalfVectorDumper)
