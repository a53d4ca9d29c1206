"""Counters of Lustre, LNet, NFS, disks and mounts: whole, cut off at every byte, and garbled."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.collector import inputs
from training_storage.node.collector import disks, lnet, lustre, mounts, nfs
from training_storage.node.collector.numbers import whole

NFS_KEY = "127.0.0.1:/ /lake"


def nfs_numbers(text: str) -> dict[str, int]:
    return nfs.parse_mountstats(text).get(NFS_KEY, {})


def disk_numbers(text: str) -> dict[str, Any]:
    return {f"{disk} {name}": n for disk, all_ in disks.parse_diskstats(text).items() for name, n in all_.items()}


def parameter_numbers(text: str) -> dict[str, Any]:
    return {
        f"{kind} {device} {name}": counter
        for kind, devices in lustre.split_parameters(text).items()
        for device, block in devices.items()
        for name, counter in lustre.parse_stats(block).items()
    }


PARAMETERS = f"llite.fsx-ffff.stats=\n{inputs.LLITE}osc.fsx-OST0000-osc-ffff.stats=\n{inputs.OSC}"
PARSERS: list[Any] = [
    pytest.param(lustre.parse_stats, inputs.LLITE, id="llite"),
    pytest.param(lustre.parse_stats, inputs.LLITE_2_12, id="llite-2.12"),
    pytest.param(lustre.parse_stats, inputs.OSC, id="osc"),
    pytest.param(parameter_numbers, PARAMETERS, id="lctl"),
    pytest.param(lnet.parse_nets, inputs.NETS, id="nets"),
    pytest.param(lnet.parse_stats, inputs.LNET_STATS, id="lnet-stats"),
    pytest.param(nfs_numbers, inputs.MOUNTSTATS, id="mountstats"),
    pytest.param(disk_numbers, inputs.DISKSTATS, id="diskstats"),
]


def test_llite_tells_what_programs_did() -> None:
    for text in (inputs.LLITE, inputs.LLITE_2_12):
        found = lustre.parse_stats(text)
        assert found["read_bytes"] == lustre.Counter(12, 12582912)
        assert found["write_bytes"] == lustre.Counter(3, 8388618)
        assert found["open"].count == 7
        assert "snapshot_time" not in found
    assert "elapsed_time" not in lustre.parse_stats(inputs.LLITE)


def test_osc_and_mdc_tell_bytes_and_waits() -> None:
    found = lustre.parse_stats(inputs.OSC)
    assert found["req_waittime"] == lustre.Counter(200, 400000)
    assert found["read_bytes"] == lustre.Counter(100, 104857600)
    assert lustre.parse_stats(inputs.MDC)["req_waittime"] == lustre.Counter(100, 200000)


def test_lctl_prints_the_same_by_device() -> None:
    assert lustre.split_parameters(PARAMETERS) == {
        "llite": {"fsx-ffff": inputs.LLITE},
        "osc": {"fsx-OST0000-osc-ffff": inputs.OSC},
    }


@pytest.mark.parametrize(
    "line",
    [
        "read_bytes 12 samples [bytes] 4096 1048576",
        "read_bytes -12 samples [bytes] 4096 1048576 12582912",
        "read_bytes 12 samples bytes 4096 1048576 12582912",
        "read_bytes 12 samples [bytes] 4096 1048576 12582912x",
        "read_bytes 12 samples [bytes] 4096 1048576 1e9",
        "read_bytes 12 samples [bytes] 1048576 4096 12582912",
        "read_bytes 12 samples [bytes] 4096 1048576 99999999999999999999999",
        "read_bytes 1٢ samples [bytes] 4096 1048576 12582912",
        "read_bytes 12 samples [bytes] 1 2 3\nread_bytes 13 samples [bytes] 1 2 3",
    ],
)
def test_a_line_that_is_not_right_is_not_there(line: str) -> None:
    assert "read_bytes" not in lustre.parse_stats(f"{line}\nopen 1 samples [regs]\n")
    assert lustre.parse_stats(f"{line}\nopen 1 samples [regs]\n")["open"].count == 1


def test_messages_by_interface_and_bytes_of_all() -> None:
    assert lnet.parse_nets(inputs.NETS) == {
        "0@lo": 4,
        "10.0.0.5@tcp": 196,
        "10.0.0.5@efa": 9800,
        "10.0.0.5@efa1": 500,
    }
    assert lnet.parse_stats(inputs.LNET_STATS) == {"send_length": 123456, "recv_length": 987654321}
    assert [lnet.net_of(nid) for nid in ("10.0.0.5@efa1", "fe80::1@tcp", "0@lo", "nonsense")] == [
        "efa",
        "tcp",
        "lo",
        "",
    ]


def test_bytes_go_with_messages_and_none_is_lost() -> None:
    split = lnet.split(1000, {"10.0.0.5@tcp": 10, "10.0.0.5@efa": 80, "10.0.0.5@efa1": 10})
    assert split == {"tcp": 100.0, "efa": 900.0}
    assert lnet.split(1000, {"10.0.0.5@efa": 7}) == {"efa": 1000.0}
    assert lnet.split(1000, {"10.0.0.5@efa": 0}) == {"efa": 0.0}


def test_an_interface_that_cannot_be_read_makes_no_answer() -> None:
    assert lnet.parse_nets(inputs.NETS.replace("send_count: 5000", "send_count: 5o00")) == {}
    assert lnet.parse_nets(inputs.NETS.replace("10.0.0.5@efa1", "10.0.0.5@efa")) == {}
    assert lnet.parse_nets(inputs.NETS.replace("              recv_count: 300\n", "")) == {}


def test_nfs_tells_what_came_from_the_server_and_what_programs_read() -> None:
    assert nfs.parse_mountstats(inputs.MOUNTSTATS) == {
        NFS_KEY: {
            "read_bytes": 900000,
            "write_bytes": 400,
            "application_read_bytes": 1020000,
            "requests": 166,
            "wait_ms": 687,
            "opens": 9,
            "errors": 1,
        }
    }


def test_nfs_of_older_kernels_counts_no_errors() -> None:
    older = "\n".join(
        line.rsplit(" ", 1)[0] if line.startswith("\t") and line.split(":")[0].strip().isupper() else line
        for line in inputs.MOUNTSTATS.split("\n")
    )
    found = nfs_numbers(older)
    assert "errors" not in found
    assert (found["read_bytes"], found["opens"], found["wait_ms"]) == (900000, 9, 687)


def test_two_mounts_of_one_export_count_once() -> None:
    block = inputs.MOUNTSTATS[
        inputs.MOUNTSTATS.index("device 127") : inputs.MOUNTSTATS.index("device tmpfs mounted on /tmp")
    ]
    twice = inputs.MOUNTSTATS + block.replace("on /lake", "on /data")
    assert list(nfs.parse_mountstats(twice)) == [NFS_KEY]


MOUNTINFO = """22 1 259:1 / / rw,noatime shared:1 - xfs /dev/root rw,attr2
36 22 0:52 / /lake rw,relatime shared:9 - nfs4 127.0.0.1:/ rw,vers=4.2
37 22 0:52 /sub /my\\040files rw,relatime - nfs4 127.0.0.1:/sub rw,vers=4.2
38 22 0:53 / /other rw - nfs4 127.0.0.1:/ rw,vers=4.2
39 22 0:54 garbled
"""


def blocks(*mounts: tuple[str, str, str]) -> str:
    text = inputs.MOUNTSTATS
    block = text[text.index("device 127") : text.index("device tmpfs mounted on /tmp")]
    return "".join(
        block.replace("127.0.0.1:/ mounted on /lake", f"{device} mounted on {path}").replace(
            "READ: 100", f"READ: {reads}"
        )
        for device, path, reads in mounts
    )


def test_mounts_of_one_file_system_count_once_though_their_counters_moved_meanwhile() -> None:
    text = blocks(
        ("127.0.0.1:/", "/lake", "100"),
        ("127.0.0.1:/sub", "/my\\040files", "101"),
        ("127.0.0.1:/", "/other", "102"),
        ("127.0.0.1:/", "/unknown", "103"),
    )
    found = nfs.parse_mountstats(text, nfs.parse_mountinfo(MOUNTINFO))

    assert {key: each["requests"] for key, each in found.items()} == {
        "127.0.0.1 0:52": 166,
        "127.0.0.1 0:53": 168,
        "127.0.0.1:/ /unknown": 169,
    }


def test_of_two_mounts_of_one_file_system_the_one_that_can_be_read_counts() -> None:
    text = blocks(("127.0.0.1:/", "/lake", "1oo"), ("127.0.0.1:/sub", "/my\\040files", "100"))
    found = nfs.parse_mountstats(text, nfs.parse_mountinfo(MOUNTINFO))

    assert [(key, each["requests"]) for key, each in found.items()] == [("127.0.0.1 0:52", 166)]


def test_an_operation_without_a_name_counts_by_its_number() -> None:
    numbered = nfs_numbers(
        inputs.MOUNTSTATS.replace("\t       WRITE", "\t          71: 5 5 0 0 0 0 10 10 0\n\t       WRITE", 1)
    )
    whole = nfs_numbers(inputs.MOUNTSTATS)

    assert (numbered["requests"], numbered["wait_ms"]) == (whole["requests"] + 5, whole["wait_ms"] + 10)


def test_a_broken_mount_is_there_without_numbers() -> None:
    assert nfs.parse_mountstats(inputs.MOUNTSTATS.replace("READ: 100", "READ: 1oo")) == {NFS_KEY: {}}


def test_whole_disks_and_no_partitions() -> None:
    assert disks.parse_diskstats(inputs.DISKSTATS) == {
        "nvme0n1": {"read_bytes": 900000 * 512, "write_bytes": 400000 * 512},
        "nvme1n1": {"read_bytes": 160000 * 512, "write_bytes": 80000 * 512},
    }
    assert disks.is_instance_store("Amazon EC2 NVMe Instance Storage        \n")
    assert not disks.is_instance_store("Amazon Elastic Block Store              \n")


def test_mounts_that_are_missing() -> None:
    mounted = mounts.parse_mounts(inputs.MOUNTS)
    assert mounted is not None
    wanted = {"/fsx": "lustre", "/lake": "mountpoint", "/my files": "s3-files"}
    assert mounts.missing(wanted, mounted) == []
    assert mounts.missing({**wanted, "/hot": "mountpoint"}, mounted) == ["/hot"]
    # An automount with nothing behind it is no file system.
    gone = mounts.parse_mounts("".join(line for line in inputs.MOUNTS.splitlines(True) if " lustre " not in line))
    assert gone is not None
    assert mounts.missing(wanted, gone) == ["/fsx"]
    assert mounts.parse_mounts(inputs.MOUNTS[:-1]) is None
    assert mounts.parse_mounts("") is None


def test_settings_of_mounts() -> None:
    assert mounts.parse_setting("KIND='lustre'\nMOUNT_PATH='/fsx'\nDNS_NAME='x'\n") == ("/fsx", "lustre")
    assert mounts.parse_setting("KIND=mountpoint\nMOUNT_PATH=/lake\n") == ("/lake", "mountpoint")
    for text in ("", "KIND='lustre'\n", "KIND='nbd'\nMOUNT_PATH='/x'\n", "KIND='lustre\nMOUNT_PATH='/x'\n"):
        assert mounts.parse_setting(text) is None


@pytest.mark.parametrize(("parse", "text"), PARSERS)
def test_cut_off_anywhere_there_is_no_wrong_number(parse: Callable[[str], dict[str, Any]], text: str) -> None:
    right = parse(text)
    assert right
    for end in range(len(text)):
        part = parse(text[:end])
        assert part.items() <= right.items(), text[:end][-60:]


@pytest.mark.parametrize(("parse", "text"), PARSERS)
def test_garbage_raises_nothing_and_makes_only_numbers(parse: Callable[[str], dict[str, Any]], text: str) -> None:
    pick = random.Random(7)
    data = text.encode()
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(pick.randint(1, 12)):
            at = pick.randrange(len(changed))
            changed[at : at + pick.randint(0, 3)] = pick.randbytes(pick.randint(0, 3))
        for value in parse(changed.decode("utf-8", "replace")).values():
            for number in (value.count, value.total) if isinstance(value, lustre.Counter) else (value,):
                assert number is None or number >= 0
    for nothing in ("", "\n", "\0\0\0", ":" * 50, "\n" * 50, "device", "osc.x.stats="):
        assert parse(nothing) in ({}, None)


@pytest.mark.parametrize("text", ["", "-1", "+1", "1_000", " 1", "1.0", "0x10", "²", "18446744073709551616", "9" * 400])
def test_what_is_no_counter(text: str) -> None:
    assert whole(text) is None


def test_the_largest_counter() -> None:
    assert whole("18446744073709551615") == 2**64 - 1
    assert whole("007") == 7
