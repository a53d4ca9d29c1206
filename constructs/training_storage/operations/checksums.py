"""Checksums of whole objects out of checksums of their parts.

A multipart upload often has a checksum of each part and none of the whole. CRCs are linear, so that of the whole
follows from those of the parts and their sizes, without a byte being read.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple


class _Crc(NamedTuple):
    bits: int
    polynomial: int  # reflected


_CRCS: Final = {
    "CRC32": _Crc(32, 0xEDB88320),
    "CRC32C": _Crc(32, 0x82F63B78),
    "CRC64NVME": _Crc(64, 0x9A6C9329AC4BC9B5),
}


def can_combine(algorithm: str) -> bool:
    """Whether the checksum of a whole follows from those of its parts; not so for SHA-1 and SHA-256."""
    return algorithm in _CRCS


def combine(algorithm: str, parts: Iterable[tuple[str, int]]) -> str:
    """Return the checksum of a whole object.

    Args:
        algorithm: ``CRC32``, ``CRC32C`` or ``CRC64NVME``.
        parts: Checksum, base64 as S3 writes it, and size in bytes of each part, in order.
    """
    crc = _CRCS[algorithm]
    whole = 0
    for text, size in parts:
        whole = _times(crc, _shift(crc, size), whole) ^ int.from_bytes(b64decode(text), "big")
    return b64encode(whole.to_bytes(crc.bits // 8, "big")).decode()


@lru_cache(maxsize=64)
def _shift(crc: _Crc, size: int) -> int:
    """Return x to the power of the bits of ``size`` bytes, modulo the polynomial: what a prefix is multiplied by."""
    power = _times(crc, *[1 << (crc.bits - 2)] * 2)  # x squared
    power = _times(crc, power, power)
    power = _times(crc, power, power)  # x to the 8th: one byte
    answer = 1 << (crc.bits - 1)  # x to the 0th, in reflected order
    while size:
        if size & 1:
            answer = _times(crc, power, answer)
        power = _times(crc, power, power)
        size >>= 1
    return answer


def _times(crc: _Crc, one: int, other: int) -> int:
    """Multiply two polynomials in reflected order, modulo that of the CRC."""
    product = 0
    for bit in range(crc.bits - 1, -1, -1):
        if one >> bit & 1:
            product ^= other
        other = other >> 1 ^ (crc.polynomial if other & 1 else 0)
    return product
