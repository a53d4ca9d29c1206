"""The agent of nodes: settings in user data, rights, and for whom it is there at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from tests.synth.test_mounts_from_plan import Made, planned, written
from training_storage import Plan, ValidationError, plan
from training_storage.compute import NodeAgent, NodeStorage
from training_storage.compute.agent import METRICS_NAMESPACE
from training_storage.node.checkpoints.model import Best, Policy
from training_storage.node.settings import Link, Settings, load
from training_storage.workload import workload_from_dict

WORKLOAD: dict[str, Any] = {
    "name": "run1",
    "region": "us-east-1",
    "availability_zone_id": "use1-az6",
    "compute": {"instance_type": "p5en.48xlarge", "instance_count": 4},
    "dataset": {"size": "10 TB"},
    "checkpoints": {"size": "100 GiB"},
    "hot_tier": "lustre",
}


def given(**sections: Any) -> Plan:
    data = {**WORKLOAD, **sections}
    return plan(workload_from_dict({name: value for name, value in data.items() if value is not None}))


def deployed(made: Made, tmp_path: Path) -> Settings:
    """The settings as a node reads them, with a name in place of each token."""
    lines = made.text.splitlines()
    folder = tmp_path / "etc"
    folder.mkdir()
    for name in ("agent.json", "env"):
        start = next(number for number, line in enumerate(lines) if line.startswith(f'cat >"$TS_ETC/{name}"'))
        text = "\n".join(lines[start + 1 : lines.index("TS_END", start)])
        for token, value in {
            '{"Ref": "LakeBucketB1D32E10"}': "the-lake",
            '{"Ref": "AWS::Region"}': "us-east-1",
            '{"Ref": "FileSystemId"}': "fs-0123456789abcdef0",
        }.items():
            text = text.replace(token, value)
        (folder / name).write_text(text + "\n", encoding="utf-8")
    return load(str(folder / "agent.json"))


def test_settings_of_lustre_are_what_the_node_reads(app: cdk.App, tmp_path: Path) -> None:
    made = Made(app, given(checkpoints={"size": "100 GiB", "keep_hot": 5, "promote_every": 7, "restore_readers": 2}))
    assert deployed(made, tmp_path) == Settings(
        workload="run1",
        region="us-east-1",
        tier="lustre",
        lake_bucket="the-lake",
        lake_prefix="checkpoints/",
        hot_tier_id="fs-0123456789abcdef0",
        mount="/fsx",
        checkpoints="/fsx/checkpoints",
        scratch="/fsx/scratch",
        hot_buckets=(),
        links=(
            Link(path="/datasets", bucket="the-lake", prefix="datasets/", imports=True, exports=False),
            Link(path="/checkpoints", bucket="the-lake", prefix="checkpoints/", imports=True, exports=False),
        ),
        nodes=4,
        policy=Policy(keep_hot=5, promote_every=7, best=None, incomplete_expires_after_s=86_400),
        max_restore_s=300.0,
        restore_readers=2,
    )


def test_the_best_and_the_age_of_half_written_ones_reach_the_node(app: cdk.App, tmp_path: Path) -> None:
    saves = {
        "size": "100 GiB",
        "best": {"metric": "eval_loss", "goal": "min"},
        "incomplete_expire_after": "6h",
    }
    policy = deployed(Made(app, given(checkpoints=saves)), tmp_path).policy
    assert policy is not None
    assert policy.best == Best(metric="eval_loss", goal="min")
    assert policy.incomplete_expires_after_s == 6 * 3600


def test_settings_of_directory_buckets_take_their_names_from_the_paths_of_training_code(
    app: cdk.App, tmp_path: Path
) -> None:
    made = Made(app, planned(tmp_path, "object-native-2048"))
    settings = deployed(made, tmp_path)
    assert (settings.tier, settings.hot_tier_id, settings.mount) == ("express", "object-native-2048", "")
    assert settings.checkpoints == ""
    assert made.storage.agent is not None
    assert settings.hot_buckets == made.storage.agent.settings.hot_buckets
    assert settings.hot_buckets
    # A hundred names would not fit into user data twice.
    assert "hot_buckets" not in made.text


def test_settings_of_local_disks(app: cdk.App, tmp_path: Path) -> None:
    settings = deployed(Made(app, planned(tmp_path, "lora-finetune")), tmp_path)
    assert (settings.tier, settings.hot_tier_id) == ("nvme", "lora-finetune")
    assert settings.checkpoints == "/opt/dlami/nvme/checkpoints"
    assert settings.links == ()


def test_links_of_a_file_system_that_is_there_already_are_not_known(app: cdk.App) -> None:
    there = {
        "file_system_id": "fs-0123456789abcdef0",
        "mount_name": "abcdefgh",
        "security_group_id": "sg-0123456789abcdef0",
        "deployment_type": "PERSISTENT_2",
        "storage_capacity": "48000 GiB",
        "per_unit_storage_throughput": 250,
        "efa": False,
    }
    made = Made(app, given(lustre=there))
    assert made.storage.agent is not None
    assert made.storage.agent.settings.links == ()
    # No link holds the folder, so that nodes upload themselves, and go on where another one has stopped.
    assert written(made) == {".training-storage/", "checkpoints/"}
    assert {"s3:ListBucketMultipartUploads", "s3:ListMultipartUploadParts"} <= actions(made)


def actions(made: Made) -> set[str]:
    """Every action that nodes are granted."""
    return {
        action
        for each in made.statements()
        for action in ([each["Action"]] if isinstance(each["Action"], str) else each["Action"])
    }


def test_without_a_policy_nothing_runs_by_itself_and_only_places_of_ours_are_written(app: cdk.App) -> None:
    made = Made(app, given(checkpoints=None, monitoring={"enabled": False}))
    assert made.storage.agent is not None
    assert "TS_AGENT_TIMER" not in made.text
    assert '"policy":null' in made.text
    assert not [action for action in actions(made) if action.startswith(("fsx:", "cloudwatch:"))]
    assert written(made) == {".training-storage/"}


@pytest.mark.parametrize(
    "sections",
    [
        {"checkpoints": None, "hot_tier": "none"},
        {"hot_tier": "none", "dataset": {"size": "10 TB", "interface": "object"}},
    ],
    ids=["no checkpoints", "object code that saves to the lake itself"],
)
def test_nodes_with_nothing_to_look_after_have_no_agent(app: cdk.App, sections: dict[str, Any]) -> None:
    made = Made(app, given(**sections))
    assert made.storage.agent is None
    assert 'cat >"$TS_ETC/agent.json"' not in made.text
    assert ".training-storage/" not in json.dumps(made.statements())


def test_rights_on_tasks_and_metrics_are_narrow(app: cdk.App) -> None:
    made = Made(app, given())
    by_action: dict[str, dict[str, Any]] = {}
    for each in made.statements():
        for action in each["Action"] if isinstance(each["Action"], list) else [each["Action"]]:
            by_action[action] = each
    task = json.dumps(by_action["fsx:CreateDataRepositoryTask"]["Resource"])
    assert ':file-system/", {"Ref": "FileSystemId"}' in task
    assert ":task/*" in task
    assert ":task/*" in json.dumps(by_action["fsx:TagResource"]["Resource"])
    assert ":file-system/" not in json.dumps(by_action["fsx:TagResource"]["Resource"])
    assert by_action["cloudwatch:PutMetricData"]["Condition"] == {
        "StringEquals": {"cloudwatch:namespace": METRICS_NAMESPACE}
    }
    wide = {action for action, each in by_action.items() if each["Resource"] == "*"}
    assert wide == {
        "cloudwatch:GetMetricStatistics",
        "cloudwatch:PutMetricData",
        "fsx:DescribeDataRepositoryAssociations",
        "fsx:DescribeDataRepositoryTasks",
    }
    assert not [action for action in by_action if "Delete" in action]


def test_a_folder_under_a_link_to_another_bucket_is_read_there(app: cdk.App) -> None:
    made = Made(app, given(lustre={"links": [{"path": "/", "source": "s3://their-bucket/runs/"}]}))
    assert made.storage.agent is not None
    assert made.storage.agent.settings.checkpoints == "/fsx/checkpoints"
    reading = [each for each in made.statements() if "their-bucket/runs/*" in json.dumps(each["Resource"])]
    assert {each["Action"] for each in reading} == {"s3:GetObject"}


def test_what_reaches_the_nodes_is_the_agent_and_no_function(app: cdk.App) -> None:
    made = Made(app, given())
    assert made.storage.scripts.s3_object_key
    (asset,) = [path for path in Path(app.outdir).glob("asset.*") if (path / "bootstrap").is_dir()]
    names = {path.relative_to(asset).as_posix() for path in asset.rglob("*") if path.is_file()}
    assert {"agent.py", "bootstrap/bootstrap.sh", "bootstrap/agent.sh", "commands/run.py", "__init__.py"} <= names
    assert not [name for name in names if name.startswith("functions") or "__pycache__" in name]


def test_the_timer_runs_only_with_a_policy_and_where_it_is_wanted(app: cdk.App) -> None:
    agent = Made(app, given()).storage.agent
    assert agent is not None
    assert agent.runs_by_itself
    assert not NodeAgent(settings=agent.settings, data_lake=agent.data_lake, timer=False).runs_by_itself


def test_what_is_no_agent_is_refused(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Stack")
    with pytest.raises(ValidationError, match="agent"):
        NodeStorage(stack, "Storage", mounts=[], agent="yes")  # type: ignore[arg-type]  # the mistake under test


def test_where_another_link_exports_by_itself_nodes_upload_and_may(app: cdk.App) -> None:
    """FSx runs no export task beside such a link, so that what lies under one that exports nothing is uploaded."""
    links = [
        {"path": "/checkpoints", "source": "s3://their-bucket/saves/", "export": []},
        {"path": "/results", "source": "s3://their-bucket/results/", "export": ["new", "changed", "deleted"]},
    ]
    made = Made(app, given(lustre={"links": links}))
    for action in ("s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"):
        allowed = [each for each in made.statements() if action in each["Action"]]
        assert any("their-bucket/saves/*" in json.dumps(each["Resource"]) for each in allowed), action
    listing = [each for each in made.statements() if "s3:ListBucketMultipartUploads" in each["Action"]]
    assert any("their-bucket" in json.dumps(each["Resource"]) for each in listing)
    assert not [action for action in actions(made) if action.startswith("s3:Delete")]
