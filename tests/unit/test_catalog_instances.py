"""Instance types: against the DescribeInstanceTypes capture that moto ships, and the rules of their layouts."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import moto.ec2
import pytest

from training_storage.catalog import (
    InstanceType,
    NetworkInterface,
    default_catalog,
    efa_layout,
    instance_type_from_facts,
)
from training_storage.errors import CatalogError

TYPES = default_catalog().instance_types
NOT_IN_CAPTURE = {"p6e-gb200.36xlarge"}
DLAMI = "/aws/service/deeplearning/ami/{}/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"
NEURON = "/aws/service/neuron/dlami/base/amazon-linux-2023/latest/image_id"
WITH_EFA = [row for row in TYPES.values() if row.has_efa]

# Where our row differs from the capture on purpose.
DIFFERENCES = {
    # The API says 524,288 MiB a device; HBM is 1.5 TB for 16 chips, 96 GiB each.
    ("trn2.3xlarge", "accelerator_memory_gib"): (96, 512),
    ("trn2.48xlarge", "accelerator_memory_gib"): (96, 512),
    # The capture has no accelerator block for trn2u; it is a trn2.48xlarge with other links between instances.
    ("trn2u.48xlarge", "accelerators"): (16, None),
    ("trn2u.48xlarge", "accelerator_model"): ("Trainium2", None),
    ("trn2u.48xlarge", "accelerator_memory_gib"): (96, None),
    # The advertised total (karpenter's table); the cards share it, so that their sum says more or less.
    ("g6e.24xlarge", "network_gbps"): (200, 400),
    ("g6e.48xlarge", "network_gbps"): (400, 1600),
    ("p6-b200.48xlarge", "network_gbps"): (3200, 1600),
    ("p6-b300.48xlarge", "network_gbps"): (6400, 6750),
    ("trn2.3xlarge", "network_gbps"): (200, 50),
}


@cache
def capture() -> dict[str, Any]:
    path = Path(moto.ec2.__file__).parent / "resources" / "instance_types.json.gz"
    return dict(json.loads(gzip.decompress(path.read_bytes())))


def captured(name: str) -> dict[str, object]:
    row = capture()[name]
    network, store = row["NetworkInfo"], row.get("InstanceStorageInfo", {})
    kinds = (("GpuInfo", "Gpus"), ("NeuronInfo", "NeuronDevices"), ("InferenceAcceleratorInfo", "Accelerators"))
    devices = [device for block, key in kinds for device in row.get(block, {}).get(key, [])]
    device = devices[0] if devices else None
    return {
        # A fraction of a GPU counts 0 GPUs and names its share.
        "accelerators": device and (device["Count"] or device["GpuPartitionSize"]),
        "accelerator_model": device and device["Name"],
        "accelerator_memory_gib": device and round(device["MemoryInfo"]["SizeInMiB"] / 1024, 1),
        "vcpus": row["VCpuInfo"]["DefaultVCpus"],
        "memory_gib": row["MemoryInfo"]["SizeInMiB"] / 1024,
        "architecture": row["ProcessorInfo"]["SupportedArchitectures"][0],
        "network_gbps": sum(card["BaselineBandwidthInGbps"] for card in network["NetworkCards"]),
        "network_cards": network["MaximumNetworkCards"],
        "efa_interfaces": network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        "primary_card_has_efa": "efa-only" in network["NetworkCards"][0]["InterfaceTypes"],
        "local_nvme_gb": store.get("TotalSizeInGB", 0),
        "local_nvme_disks": sum(disk["Count"] for disk in store.get("Disks", [])),
        "usage_classes": set(row["SupportedUsageClasses"]),
        "placement_strategies": set(row["PlacementGroupInfo"]["SupportedStrategies"]),
        "capacity_block": "capacity-block" in row["SupportedUsageClasses"],
    }


def test_there_are_71_types_and_70_of_them_are_in_the_capture() -> None:
    assert len(TYPES) == 71
    assert set(TYPES) - set(capture()) == NOT_IN_CAPTURE


@pytest.mark.parametrize("name", sorted(set(TYPES) - NOT_IN_CAPTURE))
def test_the_row_agrees_with_the_capture(name: str) -> None:
    found = {}
    for field, theirs in captured(name).items():
        ours = getattr(TYPES[name], field)
        ours = set(ours) if isinstance(ours, tuple) else ours
        if ours != theirs:
            found[name, field] = (ours, theirs)
    assert found == {key: pair for key, pair in DIFFERENCES.items() if key[0] == name}


@pytest.mark.parametrize("row", TYPES.values(), ids=lambda row: row.name)
def test_ip_bandwidth_is_that_of_one_ena_interface(row: InstanceType) -> None:
    # Contract: 100 Gbit/s for every type with several network cards, else the type's network.
    assert row.ip_gbps == (100 if row.network_cards > 1 else row.network_gbps)


@pytest.mark.parametrize("row", TYPES.values(), ids=lambda row: row.name)
def test_capacity_block_says_the_same_as_the_usage_classes(row: InstanceType) -> None:
    assert row.capacity_block == ("capacity-block" in row.usage_classes)


@pytest.mark.parametrize("row", [row for row in TYPES.values() if not row.has_efa], ids=lambda row: row.name)
def test_a_type_without_efa_has_no_layout_and_no_efa_to_fsx(row: InstanceType) -> None:
    assert row.efa_layout == ()
    assert not row.fsx_efa_client
    assert row.fsx_efa_interfaces == 0


class TestReport24Layouts:
    """Device index counted up with the card index is refused by EC2: each card has device numbers of its own."""

    @pytest.mark.parametrize("row", WITH_EFA, ids=lambda row: row.name)
    def test_report_24_card_and_device_pairs_are_unique(self, row: InstanceType) -> None:
        pairs = [(each.network_card_index, each.device_index) for each in row.efa_layout]
        assert len(set(pairs)) == len(pairs)

    @pytest.mark.parametrize("row", WITH_EFA, ids=lambda row: row.name)
    def test_report_24_devices_are_0_or_1_and_cards_exist(self, row: InstanceType) -> None:
        assert {each.device_index for each in row.efa_layout} <= {0, 1}
        assert {each.network_card_index for each in row.efa_layout} <= set(range(row.network_cards))

    @pytest.mark.parametrize("row", WITH_EFA, ids=lambda row: row.name)
    def test_report_24_the_primary_is_the_one_interface_with_an_address(self, row: InstanceType) -> None:
        assert row.efa_layout[0] == NetworkInterface(0, 0, "interface")
        assert {each.interface_type for each in row.efa_layout[1:]} == {"efa-only"}

    @pytest.mark.parametrize("row", WITH_EFA, ids=lambda row: row.name)
    def test_report_24_one_efa_interface_a_card_and_as_many_as_the_row_says(self, row: InstanceType) -> None:
        cards = [each.network_card_index for each in row.efa_layout if each.interface_type != "interface"]
        assert len(cards) == len(set(cards)) == row.efa_interfaces

    @pytest.mark.parametrize("row", WITH_EFA, ids=lambda row: row.name)
    def test_report_24_every_card_takes_the_interface_that_it_gets(self, row: InstanceType) -> None:
        if row.name in NOT_IN_CAPTURE:
            return
        cards = {card["NetworkCardIndex"]: card for card in capture()[row.name]["NetworkInfo"]["NetworkCards"]}
        for each in row.efa_layout:
            card = cards[each.network_card_index]
            assert each.interface_type in card["InterfaceTypes"]
            assert each.device_index < card["MaximumNetworkInterfaces"]

    @pytest.mark.parametrize(
        ("name", "count"),
        # EC2 User Guide efa-acc-inst-types
        [("p5.48xlarge", 32), ("p5e.48xlarge", 32), ("p5en.48xlarge", 16), ("p4d.24xlarge", 4), ("p6-b200.48xlarge", 8),
         ("p6-b300.48xlarge", 16), ("g6e.48xlarge", 4), ("trn1n.32xlarge", 16), ("g5.48xlarge", 1)],
    )  # fmt: skip
    def test_report_24_number_of_efa_interfaces(self, name: str, count: int) -> None:
        assert sum(each.interface_type == "efa-only" for each in TYPES[name].efa_layout) == count

    def test_p6_b300_has_no_efa_on_card_0(self) -> None:
        assert TYPES["p6-b300.48xlarge"].efa_layout[1:] == tuple(
            NetworkInterface(card, 0, "efa-only") for card in range(1, 17)
        )

    def test_p6e_gb200_has_efa_on_the_odd_cards(self) -> None:
        # EC2 User Guide: even cards share their network device with the odd card before them.
        assert [each.network_card_index for each in TYPES["p6e-gb200.36xlarge"].efa_layout] == [
            0, 1, 3, 5, 7, 9, 11, 13, 15,
        ]  # fmt: skip


class TestFsx:
    @pytest.mark.parametrize(
        ("name", "interfaces"),
        # FSx for Lustre User Guide configure-efa-clients; 16 on p6-b300, where an older table says 2
        [("p6-b300.48xlarge", 16), ("p6-b200.48xlarge", 8), ("p6e-gb200.36xlarge", 8), ("p5.48xlarge", 8),
         ("p5e.48xlarge", 8), ("p5en.48xlarge", 8), ("g6e.48xlarge", 2), ("g6e.24xlarge", 2), ("g7e.48xlarge", 2),
         ("trn1.32xlarge", 2), ("trn1n.32xlarge", 2), ("g6.8xlarge", 1), ("p5.4xlarge", 1), ("gr6.8xlarge", 1)],
    )  # fmt: skip
    def test_efa_connections_of_one_client(self, name: str, interfaces: int) -> None:
        assert TYPES[name].fsx_efa_interfaces == interfaces

    @pytest.mark.parametrize(
        ("name", "clients"),
        # 1,024 connections of one file system over the connections of one client
        [("p6-b300.48xlarge", 64), ("p5.48xlarge", 128), ("g6e.48xlarge", 512), ("g6.8xlarge", 1024)],
    )
    def test_the_most_clients_over_efa(self, name: str, clients: int) -> None:
        assert default_catalog().lustre.max_efa_connections // TYPES[name].fsx_efa_interfaces == clients

    @pytest.mark.parametrize("row", WITH_EFA, ids=lambda row: row.name)
    def test_no_more_connections_than_interfaces(self, row: InstanceType) -> None:
        assert row.fsx_efa_interfaces <= row.efa_interfaces

    @pytest.mark.parametrize("name", ["p4d.24xlarge", "p4de.24xlarge", "p3dn.24xlarge", "g5.48xlarge", "g4dn.metal",
                                      "dl2q.24xlarge", "trn2.48xlarge", "trn2u.48xlarge", "trn2.3xlarge"])  # fmt: skip
    def test_nitro_3_and_trn2_are_no_efa_clients(self, name: str) -> None:
        assert TYPES[name].fsx_efa_client is False

    def test_g7_with_efa_is_not_known(self) -> None:
        unknown = {name for name, row in TYPES.items() if row.fsx_efa_client is None}
        assert unknown == {"g7.8xlarge", "g7.12xlarge", "g7.24xlarge", "g7.48xlarge"}

    def test_gds_is_the_closed_list_and_p5_4xlarge_is_not_known(self) -> None:
        # FSx for Lustre User Guide: P5, P5e, P5en, P6-B200; whether p5.4xlarge counts as P5 is not said
        assert {name for name, row in TYPES.items() if row.gds} == {
            "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge",
        }  # fmt: skip
        assert {name for name, row in TYPES.items() if row.gds is None} == {"p5.4xlarge"}


class TestMountpoint:
    @pytest.mark.parametrize(
        ("name", "gbps"),
        # awslabs/mountpoint-s3 instance_throughput.rs
        [("p5.48xlarge", 3200), ("p6-b300.48xlarge", 6400), ("p4d.24xlarge", 400), ("g6e.48xlarge", 400),
         ("g5.48xlarge", 100), ("p5.4xlarge", 100), ("trn1n.32xlarge", 1600)],
    )  # fmt: skip
    def test_report_33_throughput_by_its_own_table(self, name: str, gbps: float) -> None:
        assert TYPES[name].mountpoint_gbps == gbps

    def test_no_row_means_none(self) -> None:
        assert {name for name, row in TYPES.items() if row.mountpoint_gbps is not None} == set(
            default_catalog().object_storage.mountpoint_gbps
        )
        assert TYPES["p6e-gb200.36xlarge"].mountpoint_gbps is None
        assert TYPES["g6.8xlarge"].mountpoint_gbps is None


class TestImages:
    @pytest.mark.parametrize("row", TYPES.values(), ids=lambda row: row.name)
    def test_family_by_maker(self, row: InstanceType) -> None:
        wanted = {"NVIDIA": "dl-base-gpu", "AWS": "neuron", "Qualcomm": None}
        # NVIDIA driver installation guide, kernel modules: the open ones of these images need Turing or newer
        volta = row.accelerator_model == "V100"
        assert row.image_family == (None if volta else wanted[str(row.accelerator_manufacturer)])

    def test_no_image_is_known_for_v100_and_the_row_says_why(self) -> None:
        (row,) = (row for row in TYPES.values() if row.accelerator_model == "V100")
        assert default_catalog().image_parameter(row) is None
        assert "open kernel modules" in row.source.text

    @pytest.mark.parametrize(
        ("name", "parameter"),
        [
            ("p5.48xlarge", DLAMI.format("x86_64")),
            ("p6e-gb200.36xlarge", DLAMI.format("arm64")),
            ("trn1.32xlarge", NEURON),
            ("inf2.48xlarge", NEURON),
            ("dl2q.24xlarge", None),
            ("unheard.48xlarge", None),
        ],
    )  # fmt: skip
    def test_parameter_of_the_right_architecture(self, name: str, parameter: str | None) -> None:
        assert default_catalog().image_parameter(name) == parameter

    def test_a_type_from_facts_has_no_image(self) -> None:
        assert default_catalog().image_parameter(facts()) is None


def facts(**changes: Any) -> InstanceType:
    given: dict[str, Any] = {
        "accelerators": 8, "network_cards": 8, "efa_interfaces": 8, "primary_card_has_efa": True,
        "network_gbps": 3200, "architecture": "x86_64", "local_nvme_gb": 0, "fsx_efa_client": True,
    }  # fmt: skip
    return instance_type_from_facts("p9.48xlarge", **{**given, **changes})


class TestTypeFacts:
    def test_report_27_eight_cards_with_eight_efa_interfaces(self) -> None:
        layout = facts().efa_layout
        assert layout[:2] == (NetworkInterface(0, 0, "interface"), NetworkInterface(0, 1, "efa-only"))
        assert layout[2:] == tuple(NetworkInterface(card, 0, "efa-only") for card in range(1, 8))

    def test_no_efa_on_the_primary_card(self) -> None:
        layout = facts(network_cards=9, primary_card_has_efa=False).efa_layout
        assert [each.network_card_index for each in layout] == list(range(9))

    def test_without_efa_the_layout_is_empty(self) -> None:
        assert facts(efa_interfaces=0, fsx_efa_client=False).efa_layout == ()

    @pytest.mark.parametrize(
        ("cards", "client", "interfaces"), [(8, True, 2), (1, True, 1), (8, False, 0), (1, False, 0)]
    )
    def test_fsx_interfaces_are_2_with_several_cards_else_1(self, cards: int, client: bool, interfaces: int) -> None:
        row = facts(network_cards=cards, efa_interfaces=cards, fsx_efa_client=client)
        assert row.fsx_efa_interfaces == interfaces

    def test_what_the_facts_do_not_say_is_not_known(self) -> None:
        row = facts()
        assert (row.known, row.gds, row.mountpoint_gbps, row.on_demand_usd_per_hour) == (False, None, None, None)
        assert (row.source.trust, row.placement_strategies) == ("user", ("cluster",))

    @pytest.mark.parametrize(("cards", "primary", "most"), [(8, True, 8), (8, False, 7), (1, False, 0)])
    def test_more_efa_interfaces_than_cards_is_refused_with_the_most(
        self, cards: int, primary: bool, most: int
    ) -> None:
        with pytest.raises(CatalogError) as refused:
            efa_layout(cards, most + 1, primary)
        (problem,) = refused.value.problems
        assert problem.value == most + 1
        assert f"at most {most}" in problem.allowed


class TestNames:
    @pytest.mark.parametrize(
        ("wrong", "near"),
        [("p5.48xlage", "p5.48xlarge"), ("P5EN.48XLARGE", "p5en.48xlarge"), ("g6e48xlarge", "g6e.48xlarge"),
         ("p6b200.48xlarge", "p6-b200.48xlarge"), ("ssssssss", None)],
    )  # fmt: skip
    def test_nearest_instance_type(self, wrong: str, near: str | None) -> None:
        assert default_catalog().nearest_instance_type(wrong) == near

    @pytest.mark.parametrize(
        ("wrong", "near"),
        [("eu-west1", "eu-west-1"), ("us-east-11", "us-east-1"), ("us-esat-1", "us-east-1"), ("mars", None)],
    )
    def test_nearest_region(self, wrong: str, near: str | None) -> None:
        assert default_catalog().nearest_region(wrong) == near
