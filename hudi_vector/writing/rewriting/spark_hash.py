"""The hash by which Spark distributes rows to tasks, computed without the JVM.

py4j finds a method by its name alone, and takes the first of that name that the JVM lists. Spark's class for this hash
has a static and a non-static method `hashInt`, so calls through the JVM failed in some sessions.
"""

from __future__ import annotations

__all__ = ["SEED", "hash_int"]

SEED = 42
"""The seed with which Spark hashes rows."""

_BITS = 0xFFFFFFFF


def hash_int(value: int, seed: int = SEED) -> int:
    """Return the value of Spark's `hash` for one INT: 32-bit Murmur3, as a signed number.

    Args:
        value: The INT, from -2^31 to 2^31 - 1.
        seed: The hash of the preceding columns of the row.

    Example:
        >>> hash_int(0)
        933211791
    """
    mixed = _rotated((value & _BITS) * 0xCC9E2D51 & _BITS, 15) * 0x1B873593 & _BITS
    state = (_rotated((seed & _BITS) ^ mixed, 13) * 5 + 0xE6546B64) & _BITS
    state ^= 4  # the length of an INT in bytes
    state = (state ^ state >> 16) * 0x85EBCA6B & _BITS
    state = (state ^ state >> 13) * 0xC2B2AE35 & _BITS
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotated(bits: int, left: int) -> int:
    return (bits << left | bits >> (32 - left)) & _BITS
