"""The collector on a node of files: what arrives at the agent's port, over looks, resets and faults."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.collector import inputs
from training_storage.node.collector import collect
from training_storage.node.collector.collect import Collector, Sender
from training_storage.node.collector.differences import WHOLE, Differences, total
from training_storage.node.collector.mountpoint import Meter
from training_storage.node.collector.otlp import parse_export
from training_storage.node.collector.sources import Sources, run_command
from training_storage.node.metrics.ours import OURS

MIB = 1 << 20
STORE = "Amazon EC2 NVMe Instance Storage         \n"
EBS = "Amazon Elastic Block Store              \n"


class Machine:
    """A node whose files are in a folder, and whose minutes pass when it is looked at."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TS_ROOT", str(root))
        self.root, self.now, self.said, self.answers = root, 1000.0, list[str](), dict[str, str | None]()
        self.meter = Meter()
        for path in ("/proc/mounts", "/proc/self/mountstats", "/proc/diskstats"):
            inputs.write(root, path, "\n" if path != "/proc/mounts" else "proc /proc proc rw 0 0\n")
        self.answers = {"lnetctl net": inputs.NETS, "lnetctl stats": inputs.LNET_STATS}
        self.collector = self.start()

    def start(self) -> Collector:
        return Collector(
            workload="run1",
            instance="i-1",
            sources=Sources(self.answer),
            meter=self.meter,
            say=self.said.append,
            clock=lambda: self.now,
            steady=lambda: self.now,
        )

    def answer(self, arguments: Sequence[str]) -> str | None:
        return self.answers.get(arguments[0] if arguments[0] != "lnetctl" else " ".join(arguments[:2]))

    def mounted(self, text: str = inputs.MOUNTS) -> None:
        inputs.write(self.root, "/proc/mounts", text)
        for name, kind in (("fsx", "lustre"), ("lake", "mountpoint")):
            inputs.write(self.root, f"/etc/training-storage/mounts.d/{name}", f"KIND='{kind}'\nMOUNT_PATH='/{name}'\n")

    def look(self) -> list[dict[str, Any]]:
        self.now += 60.0
        return self.collector.look()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def arrived(records: list[dict[str, Any]]) -> dict[tuple[str, tuple[str, ...]], float]:
    """Sum of each metric by its dimensions, as CloudWatch makes them of records."""
    found: dict[tuple[str, tuple[str, ...]], float] = {}
    for each in records:
        for directive in each["_aws"]["CloudWatchMetrics"]:
            for names in directive["Dimensions"]:
                for metric in directive["Metrics"]:
                    key = (metric["Name"], tuple(f"{name}={each[name]}" for name in names))
                    found[key] = found.get(key, 0.0) + each[metric["Name"]]
    return found


def fleet(records: list[dict[str, Any]]) -> dict[str, float]:
    return {name: value for (name, dimensions), value in arrived(records).items() if dimensions == ("Workload=run1",)}


def test_a_node_of_every_kind_counts_each_byte_once_over_the_fleet(machine: Machine) -> None:
    machine.mounted()
    inputs.lustre_stats(machine.root, reads=10, opens=5, waits=100)
    inputs.write(machine.root, "/proc/self/mountstats", inputs.MOUNTSTATS)
    inputs.write(machine.root, "/proc/diskstats", inputs.DISKSTATS)
    inputs.write(machine.root, "/sys/block/nvme0n1/device/model", EBS)
    inputs.write(machine.root, "/sys/block/nvme1n1/device/model", STORE)
    machine.answers = {"lnetctl net": inputs.NETS, "lnetctl stats": inputs.LNET_STATS}
    assert fleet(machine.look()) == {"MountsMissing": 0.0}

    inputs.lustre_stats(machine.root, reads=40, opens=25, waits=150)
    inputs.write(
        machine.root,
        "/proc/self/mountstats",
        inputs.MOUNTSTATS.replace("1000000 500 20000 30 900000 400", "1000000 500 20000 30 1900000 700")
        .replace("OPEN: 6", "OPEN: 16")
        .replace("READ: 100 100 0 20000 900000 10 500 520 1", "READ: 150 150 0 20000 900000 10 1500 1520 3"),
    )
    inputs.write(
        machine.root, "/proc/diskstats", inputs.DISKSTATS.replace("160000", "162000").replace("900000", "999999")
    )
    machine.answers = {
        "lnetctl net": inputs.NETS.replace("send_count: 5000", "send_count: 5900").replace(
            "recv_count: 96", "recv_count: 196"
        ),
        "lnetctl stats": inputs.LNET_STATS.replace("123456", "623456").replace("987654321", "988154321"),
    }
    machine.meter.add(parse_export(inputs.mountpoint_export()) or [])
    records = machine.look()

    lustre, nfs, bucket = 2 * 30 * MIB, 1_000_000, 5_000_000
    sums = arrived(records)
    for where, value in {
        ("Workload=run1",): lustre + nfs + bucket,
        ("Workload=run1", "InstanceId=i-1"): lustre + nfs + bucket,
        ("Workload=run1", "Kind=lustre"): lustre,
        ("Workload=run1", "Kind=nfs"): nfs,
        ("Workload=run1", "Kind=mountpoint"): bucket,
        ("Workload=run1", "Kind=nvme"): 2000 * 512,
    }.items():
        assert sums[("StorageReadBytes", where)] == value
    whole = fleet(records)
    assert whole["StorageWriteBytes"] == 300 + 1e6
    assert whole["ApplicationReadBytes"] == 2 * 2 * 30 * MIB
    assert whole["FileOpens"] == 20 + 10 + 9
    assert whole["StorageRequestErrors"] == 2 + 4
    assert whole["ThrottledRequests"] == 3
    assert whole["EfaBytes"] == pytest.approx(900_000)
    assert whole["TcpBytes"] == pytest.approx(100_000)
    # 100 requests to data servers of 2 ms, 50 to the metadata server of 0.5, 60 of NFS in 1000 ms, 20 of 50 ms to S3.
    assert whole["StorageRpcWaitTime"] == pytest.approx((100 * 2 + 50 * 0.5 + 1000 + 20 * 50) / (100 + 50 + 60 + 20))


def test_records_keep_to_the_table_and_name_each_metric_once(machine: Machine) -> None:
    machine.mounted()
    inputs.lustre_stats(machine.root, reads=1, opens=1)
    machine.look()
    inputs.lustre_stats(machine.root, reads=2, opens=2)
    for each in machine.look():
        assert each["_aws"]["LogGroupName"] == "/training-storage/run1/metrics"
        assert each["_aws"]["Timestamp"] == round(machine.now * 1000)
        assert each["IntervalSeconds"] == 60.0
        names = [metric["Name"] for directive in each["_aws"]["CloudWatchMetrics"] for metric in directive["Metrics"]]
        assert len(names) == len(set(names))
        for directive in each["_aws"]["CloudWatchMetrics"]:
            for metric in directive["Metrics"]:
                row = OURS[metric["Name"]]
                assert (row.source, metric["Unit"]) == ("collector", row.unit)
                assert {tuple(names) for names in directive["Dimensions"]} <= set(row.dimensions)


@pytest.mark.parametrize("folder", ["/proc", "/sys"])
def test_lustre_in_both_places(machine: Machine, folder: str) -> None:
    for reads in (1, 4):
        inputs.lustre_stats(machine.root, reads=reads, opens=reads, folder=folder)
        records = machine.look()
    assert fleet(records)["StorageReadBytes"] == 2 * 3 * MIB


def test_lctl_where_files_are_not_there(machine: Machine) -> None:
    machine.answers["lctl"] = f"osc.a.stats=\n{inputs.OSC}llite.b.stats=\n{inputs.LLITE}"
    machine.look()
    machine.answers["lctl"] = (
        (machine.answers["lctl"] or "")
        .replace("104857600 ", "104858600 ")
        .replace("open                      7", "open 9")
    )
    assert fleet(machine.look())["StorageReadBytes"] == 1000
    machine.answers["lctl"] = (machine.answers["lctl"] or "")[:-1]
    assert "StorageReadBytes" not in fleet(machine.look())


def test_a_reset_is_skipped_and_counting_goes_on(machine: Machine) -> None:
    for reads in (50, 60, 3, 10):
        inputs.lustre_stats(machine.root, reads=reads, opens=reads)
        found = fleet(machine.look())
        assert found.get("StorageReadBytes") == {50: None, 60: 20 * MIB, 3: None, 10: 14 * MIB}[reads]


def test_what_cannot_be_read_makes_the_sum_unknown_and_not_smaller(machine: Machine) -> None:
    broken = "/proc/fs/lustre/osc/fsx-OST0001-osc-ffff/stats"
    inputs.lustre_stats(machine.root, reads=10, opens=1)
    machine.look()
    inputs.lustre_stats(machine.root, reads=20, opens=2)
    inputs.write(machine.root, broken, "snapshot_time 1 secs.nsecs\nread_bytes 20 samples [byt")
    found = fleet(machine.look())
    assert "StorageReadBytes" not in found
    assert found["FileOpens"] == 1
    inputs.lustre_stats(machine.root, reads=30, opens=3)
    # What the broken one did meanwhile nobody knows.
    assert "StorageReadBytes" not in fleet(machine.look())
    inputs.lustre_stats(machine.root, reads=40, opens=4)
    assert fleet(machine.look())["StorageReadBytes"] == 2 * 10 * MIB


def test_counters_that_appear_start_at_zero_only_where_the_text_went_on_behind_them() -> None:
    look = Differences()
    look.look({"a": {WHOLE: 1, "open": 1, "statfs": 1}})
    moved = look.look({"a": {WHOLE: 1, "read_bytes": 7, "open": 3, "statfs": 1}})["a"]
    assert (moved["read_bytes"], moved["open"], moved["statfs"]) == (7, 2, 0)
    # The text before may have been cut off before this line.
    assert look.look({"a": {"read_bytes": 7, "open": 3, "statfs": 1, "ping": 900}})["a"].get("ping") is None
    # A line of the text before could not be read: it may have been this one.
    assert look.look({"a": {"brw": 900, "read_bytes": 7, "open": 3, "statfs": 1}})["a"].get("brw") is None
    assert Differences().look({"a": {"x": 1}}) == {}


def test_first_bytes_after_a_mount_count_and_a_line_that_was_garbled_is_no_zero(machine: Machine) -> None:
    place = "/proc/fs/lustre/osc/fsx-OST0000-osc-ffff/stats"
    head = "snapshot_time 1606843200.1 secs.nsecs\n"
    tail = "obd_ping 5 samples [usec] 90 120 500 51000\n"
    read = "read_bytes 2 samples [bytes] 4096 4096 8192 9\n"
    for text, known in (
        (head + tail, None),
        (head + read + tail, 8192),
        (head + read + tail, 0),
        (head + read.replace("4096 8192", "4096 81x2") + tail, None),
        (head + read + tail, None),
        (head + read + tail, 0),
    ):
        inputs.write(machine.root, place, text)
        assert fleet(machine.look()).get("StorageReadBytes") == known, text


def test_a_device_that_comes_late_brings_no_past() -> None:
    look = Differences()
    look.look({"a": {"x": 1}})
    assert total(look.look({"a": {"x": 3}, "b": {"x": 10**15}}), "x") == 2
    assert total(look.look({"b": {"x": 10**15 + 5}}), "x") == 5
    assert look.look(None) == {}
    assert look.look({"b": {"x": 10**15 + 9}}) == {}


def test_a_source_that_breaks_is_named_once_and_takes_no_other_along(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs.lustre_stats(machine.root, reads=1, opens=1)
    whole = Sources.nfs

    def broken(_: Sources) -> None:
        raise RuntimeError("nobody knows this format")

    monkeypatch.setattr(Sources, "nfs", broken)
    for reads in (2, 3, 4):
        inputs.lustre_stats(machine.root, reads=reads, opens=reads)
        records = machine.look()
    assert fleet(records)["StorageReadBytes"] == 2 * MIB
    assert [text for text in machine.said if "mountstats" in text and "nobody knows" in text] == machine.said
    assert len(machine.said) == 1
    monkeypatch.setattr(Sources, "nfs", whole)
    inputs.write(machine.root, "/proc/self/mountstats", inputs.MOUNTSTATS)
    machine.look()
    assert machine.said[1:] == ["/proc/self/mountstats can be read again"]


def test_interfaces_that_change_make_no_split(machine: Machine) -> None:
    inputs.lustre_stats(machine.root, reads=1, opens=1)
    machine.answers = {"lnetctl net": inputs.NETS, "lnetctl stats": inputs.LNET_STATS}
    machine.look()
    assert {"EfaBytes", "TcpBytes"} <= fleet(machine.look()).keys()
    machine.answers["lnetctl net"] = inputs.NETS[: inputs.NETS.index("        - nid: 10.0.0.5@efa1")]
    assert "EfaBytes" not in fleet(machine.look())


def test_a_node_without_storage_says_nothing(machine: Machine) -> None:
    assert machine.look() == []
    assert machine.look() == []
    assert machine.said == []


def test_what_is_not_there_is_named_once_and_counted_again_once_it_is(machine: Machine) -> None:
    inputs.lustre_stats(machine.root, reads=1, opens=1)
    machine.answers["lnetctl net"] = None
    (machine.root / "proc/mounts").unlink()
    machine.mounted("")
    for _ in range(3):
        assert not {"EfaBytes", "MountsMissing"} & fleet(machine.look()).keys()
    assert [text.split(" can't")[0] for text in machine.said] == ["/proc/mounts", "messages and bytes of lnetctl"]
    machine.mounted()
    assert fleet(machine.look())["MountsMissing"] == 0.0
    assert machine.said[2:] == ["/proc/mounts can be read again"]


@pytest.fixture
def agent() -> Any:
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("127.0.0.1", 0))
    listening.settimeout(5)
    yield listening
    listening.close()


class Minutes:
    """Steady time that passes in sleep alone, and what happens before each look."""

    def __init__(self, *before: Any) -> None:
        self.now, self.before, self.slept = 0.0, list(before), list[float]()

    def steady(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        if self.before:
            self.before.pop(0)()


def test_lines_arrive_at_the_agent(machine: Machine, agent: socket.socket) -> None:
    machine.mounted()
    inputs.lustre_stats(machine.root, reads=1, opens=1)
    time = Minutes(lambda: inputs.lustre_stats(machine.root, reads=2, opens=4))
    values = {"TRAINING_STORAGE_WORKLOAD": "run1", "TRAINING_STORAGE_INSTANCE_ID": "i-9"}
    code = collect.run(
        values,
        say=machine.said.append,
        sources=Sources(machine.answer),
        sender=Sender(agent.getsockname()),
        otlp=("127.0.0.1", 0),
        sleep=time.sleep,
        steady=time.steady,
        looks=2,
    )
    assert code == 0
    first, node, lustre = (json.loads(agent.recv(65536)) for _ in range(3))
    assert (first["MountsMissing"], node["FileOpens"], lustre["StorageReadBytes"]) == (0.0, 3.0, 2.0 * MIB)
    assert (lustre["Workload"], lustre["InstanceId"], lustre["Kind"]) == ("run1", "i-9", "lustre")
    assert machine.said == []
    assert time.slept == [60.0, 60.0]


def test_without_an_agent_records_are_dropped_and_counted(machine: Machine, agent: socket.socket) -> None:
    machine.mounted()
    address = agent.getsockname()
    agent.close()
    back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    back.settimeout(5)
    time = Minutes(lambda: None, lambda: back.bind(address))
    sender = Sender(address)
    collect.run(
        {"TRAINING_STORAGE_WORKLOAD": "run1"},
        say=machine.said.append,
        sources=Sources(machine.answer),
        sender=sender,
        otlp=("127.0.0.1", 0),
        sleep=time.sleep,
        steady=time.steady,
        looks=4,
    )
    assert sender.dropped == 2
    assert json.loads(back.recv(65536))["RecordsDropped"] == 2
    assert machine.said == [
        "the agent takes no records; 1 are dropped so far",
        "the agent takes records; 2 are dropped so far",
    ]
    back.close()


def test_a_port_that_is_taken_is_said_and_all_else_goes_on(machine: Machine, agent: socket.socket) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        time = Minutes()
        machine.mounted()
        collect.run(
            {"TRAINING_STORAGE_WORKLOAD": "run1"},
            say=machine.said.append,
            sources=Sources(machine.answer),
            sender=Sender(agent.getsockname()),
            otlp=taken.getsockname(),
            sleep=time.sleep,
            steady=time.steady,
            looks=1,
        )
    assert ["is taken" in text for text in machine.said] == [True]
    assert json.loads(agent.recv(65536))["MountsMissing"] == 0.0


def test_a_look_that_is_late_is_not_made_up_for(machine: Machine) -> None:
    time = Minutes()
    time.before = [lambda: setattr(time, "now", time.now + 600.0)]
    collect.run(
        {"TRAINING_STORAGE_WORKLOAD": "run1"},
        say=machine.said.append,
        sources=Sources(machine.answer),
        sender=Sender(("127.0.0.1", 9)),
        otlp=("127.0.0.1", 0),
        sleep=time.sleep,
        steady=time.steady,
        looks=3,
    )
    assert time.slept == [60.0, 0.0, 60.0]


def test_without_a_workload_it_ends_and_says_why(machine: Machine) -> None:
    assert collect.run({}, say=machine.said.append) == 2
    assert "TRAINING_STORAGE_WORKLOAD" in machine.said[0]


def test_settings_come_from_the_file_of_the_bootstrap(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs.write(
        machine.root, "/etc/training-storage/env", 'TRAINING_STORAGE_WORKLOAD="my run"\nTRAINING_STORAGE_REGION=x\n'
    )
    monkeypatch.delenv("TRAINING_STORAGE_WORKLOAD", raising=False)
    assert collect.settings()["TRAINING_STORAGE_WORKLOAD"] == "my run"
    monkeypatch.setenv("TRAINING_STORAGE_WORKLOAD", "other")
    assert collect.settings()["TRAINING_STORAGE_WORKLOAD"] == "other"


def test_memory_does_not_grow_with_looks(machine: Machine) -> None:
    machine.mounted()
    sizes = []
    for minute in range(20):
        inputs.lustre_stats(machine.root, reads=minute + 1, opens=minute + 1)
        machine.meter.add(parse_export(inputs.mountpoint_export()) or [])
        machine.look()
        sizes.append(sum(len(repr(vars(each))) for each in vars(machine.collector)["_lustre"].values()))
    assert sizes[-1] - sizes[5] < 200


def test_a_command_says_what_it_printed_or_nothing() -> None:
    assert run_command([sys.executable, "-c", "print('a\\nb')"]) == "a\nb\n"
    assert run_command([sys.executable, "-c", "print('a'); raise SystemExit(2)"]) is None
    assert run_command(["no-such-command-of-lustre"]) is None


def test_a_command_that_nothing_ends_holds_nothing_up_and_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that sleeps in the kernel: it stays when it is killed."""
    mark = tmp_path / "started"
    command = ["sh", "-c", f"echo x >>{mark}; while [ ! -e {tmp_path}/end ]; do sleep 0.05; done; echo done"]
    monkeypatch.setattr(subprocess.Popen, "kill", lambda _: None)
    begun = time.monotonic()
    assert run_command(command, 0.3) is None
    assert run_command(command, 0.3) is None
    assert time.monotonic() - begun < 2
    assert mark.read_text() == "x\n"

    (tmp_path / "end").touch()
    until = time.monotonic() + 5
    while (found := run_command(command, 0.3)) is None and time.monotonic() < until:
        time.sleep(0.02)
    assert found == "done\n"


def test_a_target_that_stays_unreadable_makes_no_smaller_sum(machine: Machine) -> None:
    stats = machine.root / "proc/fs/lustre/osc"
    found = []
    for minute in range(6):
        inputs.lustre_stats(machine.root, reads=100 * (minute + 1), opens=10 * (minute + 1))
        broken = sorted(stats.glob("*/stats"))[0]
        if minute in (1, 2, 3):
            broken.write_text("")
        found.append(fleet(machine.look()).get("StorageReadBytes"))

    assert found == [None, None, None, None, None, 200 * MIB]


def test_what_one_kind_does_not_know_makes_no_smaller_sum_over_all_kinds(machine: Machine) -> None:
    found = []
    for minute in range(5):
        inputs.lustre_stats(machine.root, reads=100 * (minute + 1), opens=10 * (minute + 1))
        text = inputs.MOUNTSTATS.replace("READ: 100", "READ: 1oo") if minute in (2, 3) else inputs.MOUNTSTATS
        inputs.write(machine.root, "/proc/self/mountstats", text)
        found.append(fleet(machine.look()))

    assert [each.get("FileOpens") for each in found] == [None, 10, None, None, None]
    assert [each.get("StorageReadBytes") for each in found] == [None, 200 * MIB, 200 * MIB, 200 * MIB, 200 * MIB]
