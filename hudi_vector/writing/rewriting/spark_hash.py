"""The hash by which Spark sends rows to tasks, computed without the JVM.

py4j looks a method up by its name alone, and takes the first of that name that the JVM lists. Spark's class for this
hash has a static `hashInt` and another that is not, so that asking the JVM for it failed in a part of all sessions.
"""

from __future__ import annotations

__all__ = ["SEED", "hash_int"]

SEED = 42
"""With which Spark hashes rows."""

_BITS = 0xFFFFFFFF


def hash_int(value: int, seed: int = SEED) -> int:
    """Return what Spark's `hash` gives for one INT: the 32 bits of Murmur3, as a signed number.

    Args:
        value: The INT, from -2^31 up to 2^31 - 1.
        seed: The hash of what comes before it in a row.

    Example:
        >>> hash_int(0)
        933211791
    """
    mixed = _rotated((value & _BITS) * 0xCC9E2D51 & _BITS, 15) * 0x1B873593 & _BITS
    state = (_rotated((seed & _BITS) ^ mixed, 13) * 5 + 0xE6546B64) & _BITS
    state ^= 4  # bytes
    state = (state ^ state >> 16) * 0x85EBCA6B & _BITS
    state = (state ^ state >> 13) * 0xC2B2AE35 & _BITS
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotated(bits: int, left: int) -> int:
    return (bits << left | bits >> (32 - left)) & _BITS
