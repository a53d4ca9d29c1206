"""The helper for users' snapshots on templates that CDK really makes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3_assets as assets

from tests.assemblies import EXAMPLES, example
from training_storage.testing import logical_ids, still

DIGEST = "sha256:" + "0f" * 32


def stack_with_every_asset(app: cdk.App, source: Path, **options: Any) -> dict[str, Any]:
    """A stack with a function, a nested stack, a granted file asset, and a digest that is no asset."""
    stack = cdk.Stack(app, "Mine", **options)
    function = lambda_.Function(
        stack,
        "Function",
        code=lambda_.Code.from_asset(str(source)),
        handler="handler.main",
        runtime=lambda_.Runtime.PYTHON_3_13,
        environment={"IMAGE": DIGEST},
    )
    asset = assets.Asset(stack, "File", path=str(source / "handler.py"))
    asset.grant_read(function)
    nested = cdk.NestedStack(stack, "Nested")
    iam.Role(nested, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"), description=asset.s3_object_key)
    cdk.CfnOutput(stack, "Url", value=asset.s3_object_url)
    return dict(app.synth().get_stack_by_name("Mine").template)


def source(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "handler.py").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("env", [None, cdk.Environment(account="111111111111", region="cn-north-1")], ids=["any", "cn"])
def test_other_bytes_in_every_asset_give_the_same_template(
    env: cdk.Environment | None, make_app: Callable[[], cdk.App], tmp_path: Path
) -> None:
    one = stack_with_every_asset(make_app(), source(tmp_path / "one", "x = 1\n"), env=env)
    two = stack_with_every_asset(make_app(), source(tmp_path / "two", "x = 2\n"), env=env)
    assert one != two
    assert still(one) == still(two)


def test_a_digest_of_the_users_own_stays(app: cdk.App, tmp_path: Path) -> None:
    made = still(stack_with_every_asset(app, source(tmp_path / "one", "x = 1\n")))
    (function,) = [each for each in made["Resources"].values() if each["Type"] == "AWS::Lambda::Function"]
    assert function["Properties"]["Environment"]["Variables"] == {"IMAGE": DIGEST}


def test_the_bootstrap_check_is_left_out(app: cdk.App, tmp_path: Path) -> None:
    made = stack_with_every_asset(app, source(tmp_path / "one", "x = 1\n"))
    assert "BootstrapVersion" in made["Parameters"]
    assert {"Parameters", "Rules"} & set(still(made)) == set()


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_hash_is_left_in_an_example(name: str) -> None:
    text = [str(still(template)) for template in example(name).templates.values()]
    assert re.findall(r"\b[0-9a-f]{64}\b", "".join(text)) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_logical_ids_of_an_example_are_those_of_its_templates(name: str) -> None:
    for template in example(name).templates.values():
        assert set(logical_ids(template)) == set(template["Resources"])
