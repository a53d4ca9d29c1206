"""Counters of LNet, the network of Lustre, as ``lnetctl`` prints them.

``lnetctl net show -v`` has messages by interface, ``lnetctl stats show`` bytes of all interfaces together::

    net:                                      statistics:
        - net type: efa                           send_count: 12
          local NI(s):                            recv_count: 12
            - nid: 10.0.0.5@efa                   send_length: 4096
              status: up                          recv_length: 1048576
              statistics:
                  send_count: 12
                  recv_count: 12

Source: Lustre Operations Manual, "Testing and Displaying Multi-Rail"; ``liblnetconfig.c`` of Lustre 2.15.
"""

from __future__ import annotations

import re

from .numbers import lines_of, whole

_NID = re.compile(r"[0-9a-fA-F.:]+@([a-z0-9]+?)\d*")
_PAIR = re.compile(r"[\s-]*([a-z_ ()A-Z]+?)\s*:\s*(\S*)\s*")


def parse_nets(text: str) -> dict[str, int]:
    """Return messages sent and received by NID, such as ``10.0.0.5@efa``; nothing where an interface can't be read.

    Args:
        text: What ``lnetctl net show -v`` printed, all of it.
    """
    if not text.endswith("\n"):
        return {}
    found: dict[str, dict[str, int]] = {}
    nid: str | None = None
    inside = False
    for line in lines_of(text):
        pair = _PAIR.fullmatch(line)
        if pair is None:
            continue
        key, value = pair.groups()
        if key == "net type":
            nid, inside = None, False
        elif key == "nid":
            nid, inside = (value if _NID.fullmatch(value) else None), False
            if nid is None or nid in found:
                return {}
            found[nid] = {}
        elif key == "statistics":
            inside = nid is not None
        elif inside and nid is not None and key in ("send_count", "recv_count") and key not in found[nid]:
            count = whole(value)
            if count is None:
                return {}
            found[nid][key] = count
    if any(len(counts) != 2 for counts in found.values()):
        return {}
    return {nid: sum(counts.values()) for nid, counts in found.items()}


def parse_stats(text: str) -> dict[str, int]:
    """Return ``send_length`` and ``recv_length`` in bytes; nothing where one of them can't be read.

    Args:
        text: What ``lnetctl stats show`` printed.
    """
    found: dict[str, int] = {}
    for line in lines_of(text):
        pair = _PAIR.fullmatch(line)
        if pair is None or pair.group(1) not in ("send_length", "recv_length"):
            continue
        length = whole(pair.group(2))
        if length is None or pair.group(1) in found:
            return {}
        found[pair.group(1)] = length
    return found if len(found) == 2 else {}


def net_of(nid: str) -> str:
    """Return the kind of network of a NID: ``efa``, ``tcp``, ``lo``; numbers of networks are left away.

    Args:
        nid: Address and network.
    """
    match = _NID.fullmatch(nid)
    return match.group(1) if match is not None else ""


def split(lengths: int, messages: dict[str, int]) -> dict[str, float]:
    """Return bytes by kind of network: each has its share of the messages, since LNet counts bytes for all together.

    Args:
        lengths: Bytes of an interval, sent and received.
        messages: Messages of the same interval by NID.
    """
    total = sum(messages.values())
    found: dict[str, float] = {}
    for nid, count in messages.items():
        found[net_of(nid)] = found.get(net_of(nid), 0.0) + (lengths * count / total if total else 0.0)
    return found
