"""Changes of a workload file between two deploys: each is made, or taken back whole, and no object is ever lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.assemblies import ROOT, synthesize
from training_storage.emulator import Emulator, StackFailedError, emulator

Data = dict[str, Any]

KEY = "arn:aws:kms:us-west-2:111111111111:key/01234567-89ab-cdef-0123-456789abcdef"
IN_USE = "in use by"
MANY = {"average_file_size": "256 KB", "read_rate": {"per_accelerator": "40 MB/s"}}
"""Requests for four directory buckets."""


def example(name: str, **sections: Any) -> Data:
    """An example with sections merged into it; None takes one out."""
    data: Data = YAML(typ="safe").load((ROOT / "examples" / f"{name}.yaml").read_text(encoding="utf-8"))
    for key, value in sections.items():
        if value is None:
            data.pop(key, None)
        else:
            data[key] = {**data[key], **value} if isinstance(value, dict) and key in data else value
    return data


def hot(**sections: Any) -> Data:
    return example("object-native-2048", **sections)


def on_lustre() -> Data:
    return hot(express=None, hot_tier="lustre", lustre={"removal": "delete"})


def cache(**sections: Any) -> Data:
    return example("express-cache", hot_tier="lustre", lustre={"removal": "delete"}, **sections)


class Team:
    """A workload, its file as it was deployed last, and one object in each directory bucket."""

    def __init__(self, aws: Emulator, data: Data) -> None:
        self.aws, self.name, self.region = aws, data["name"], data["region"]
        self.deploy(data)
        for bucket in self.buckets():
            self.s3.put_object(Bucket=bucket, Key="checkpoints/step-1000", Body=b"kept")
        self.first = self.buckets()

    @property
    def s3(self) -> Any:
        return self.aws.client("s3", region=self.region)

    def deploy(self, data: Data) -> None:
        self.aws.deploy_assembly(synthesize(data).folder)

    def stop(self) -> None:
        """What the page says to do first: the fleet and what looks at it go."""
        for part in ("monitoring", "compute"):
            self.aws.destroy(f"{self.name}-{part}", region=self.region)

    def groups(self) -> list[str]:
        groups = self.aws.client("autoscaling", region=self.region).describe_auto_scaling_groups()["AutoScalingGroups"]
        return [each["AutoScalingGroupName"] for each in groups]

    def buckets(self) -> list[str]:
        return sorted(bucket["Name"] for bucket in self.s3.list_directory_buckets()["Buckets"])

    def assert_nothing_is_lost(self) -> None:
        for bucket in self.first:
            kept = self.s3.get_object(Bucket=bucket, Key="checkpoints/step-1000")
            assert kept["Body"].read() == b"kept"


@pytest.fixture
def aws(request: pytest.FixtureRequest) -> Iterator[Emulator]:
    with emulator(region=request.param if hasattr(request, "param") else "us-west-2") as made:
        yield made


@pytest.fixture(scope="module")
def changing() -> Iterator[Team]:
    """A team that changes its file again and again: each time from what the change before it left."""
    with emulator(region="us-west-2") as made:
        yield Team(made, hot())


@pytest.mark.parametrize(
    "after",
    [
        hot(express={"expire_after": "3d"}),
        pytest.param(hot(express={"removal": "retain"}), marks=pytest.mark.slow),
        hot(express={"content_is_cache": True}),
        hot(express={"kms_key_arn": KEY}),
        hot(monitoring={"enabled": False}),
        hot(dataset=MANY),  # the last one: the way back is none of these
    ],
    ids=["expiry", "removal", "cache", "key", "monitoring", "more buckets"],
)
def test_a_change_in_place_keeps_the_fleet_and_the_buckets(changing: Team, after: Data) -> None:
    group = changing.groups()
    changing.deploy(after)
    assert set(changing.first) <= set(changing.buckets())
    changing.assert_nothing_is_lost()
    assert changing.groups() == group


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (hot(), on_lustre()),
        pytest.param(on_lustre(), hot(), marks=pytest.mark.slow),
        (hot(dataset=MANY), hot()),
        pytest.param(hot(), hot(express={"base_name": "renamed"}), marks=pytest.mark.slow),
        pytest.param(
            hot(express={"content_is_cache": True}),
            hot(express={"content_is_cache": True, "base_name": "renamed"}),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            hot(dataset=MANY, express={"content_is_cache": True}),
            hot(express={"content_is_cache": True}),
            marks=pytest.mark.slow,
        ),
        (cache(), cache(mountpoint={"cache": "none"})),
    ],
    ids=["to lustre", "to express", "fewer", "renamed", "renamed cache", "fewer of a cache", "no shared cache"],
)
def test_a_change_that_replaces_is_taken_back_under_a_fleet_and_made_without_one(before: Data, after: Data) -> None:
    with emulator(region=before["region"]) as aws:
        team = Team(aws, before)
        with pytest.raises(StackFailedError, match=IN_USE):
            team.deploy(after)
        assert team.buckets() == team.first
        team.deploy(before)  # nothing stands in the way of what was there
        team.stop()
        team.deploy(after)
        team.assert_nothing_is_lost()


def test_another_key_of_a_directory_bucket_is_taken_back(aws: Emulator) -> None:
    team = Team(aws, hot(express={"kms_key_arn": KEY}))
    with pytest.raises(StackFailedError, match="one customer managed KMS key"):
        team.deploy(hot(express={"kms_key_arn": KEY.replace("0123-", "4567-")}))
    team.assert_nothing_is_lost()
    team.deploy(hot(express={"kms_key_arn": KEY}))


def test_a_bucket_that_was_left_behind_stands_in_the_way_of_its_like_until_it_is_named(aws: Emulator) -> None:
    team = Team(aws, hot())
    team.stop()
    team.deploy(on_lustre())
    with pytest.raises(StackFailedError):  # under the fleet that reads Lustre
        team.deploy(hot())
    team.stop()
    with pytest.raises(StackFailedError, match=r"[Aa]lready"):
        team.deploy(hot())
    team.deploy(hot(express=None) | {"express": {"bucket_names": team.first}})
    assert team.buckets() == team.first
    team.assert_nothing_is_lost()


@pytest.mark.parametrize("name", ["legacy-nfs-finetune", "express-cache"])
def test_a_hot_stack_that_would_hold_nothing_stays_until_it_is_destroyed(name: str) -> None:
    data = example(name)
    without = example(
        name, dataset={"access": "read-mostly"}, s3_files=None, file_access="mountpoint", mountpoint={"cache": "none"}
    )
    with emulator(region=data["region"]) as aws:
        team = Team(aws, data)
        team.deploy(without)
        assert aws.stack(f"{name}-hot", region=team.region).status == "CREATE_COMPLETE"
        team.assert_nothing_is_lost()
        aws.destroy(f"{name}-hot", region=team.region)
        assert team.buckets() == []
        assert aws.client("s3files", region=team.region).list_file_systems()["fileSystems"] == []
