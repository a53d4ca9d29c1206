"""The example of every public construct runs as it stands, in a stack that has what an example may take for given."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

import training_storage
from tests.assemblies import ROOT
from training_storage import compute, monitoring, tiers

PUBLIC = {
    name: value
    for module in (training_storage, tiers, compute, monitoring)
    for name in module.__all__
    if inspect.isclass(value := getattr(module, name)) and issubclass(value, Construct)
}
WITHOUT_EXAMPLE = {"ImportedNetwork"}
"""What users meet by way of another construct or the reference stacks."""


def example_of(construct: type[Construct]) -> str:
    """Return the example of a docstring: a session, a block in fences, or an indented block after two colons."""
    doc = inspect.getdoc(construct) or ""
    session = [line.strip()[4:] for line in doc.splitlines() if re.match(r"\s*(>>>|\.\.\.) ", line)]
    if session:
        return "\n".join(session)
    fenced = re.search(r"```python\n(.*?)\n\s*```", doc, re.DOTALL)
    if fenced:
        return textwrap.dedent(fenced[1])
    block = re.search(r"Example::\n\n((?:    .*\n|\n)+)", doc)
    return textwrap.dedent(block[1]) if block else ""


def free_names(code: str) -> set[str]:
    """Return the names that code uses and does not make."""
    names = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)]
    return {node.id for node in names} - {node.id for node in names if isinstance(node.ctx, ast.Store)}


def given(stack: cdk.Stack, example: str) -> dict[str, Any]:
    """What examples take for given, each made only where the example names it and does not make it."""
    vpc = ec2.Vpc(stack, "GivenVpc", max_azs=1)
    subnet = vpc.private_subnets[0]

    def file_system() -> tiers.LustreFileSystem:
        return tiers.LustreFileSystem(stack, "GivenHot", vpc=vpc, subnet=subnet, storage_capacity_gib=1200)

    def instance() -> ec2.Instance:
        return ec2.Instance(
            stack,
            "GivenInstance",
            vpc=vpc,
            instance_type=ec2.InstanceType("g6e.12xlarge"),
            machine_image=ec2.MachineImage.latest_amazon_linux2023(),
        )

    def role() -> iam.Role:
        return iam.Role(stack, "GivenRole", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))

    def storage() -> compute.NodeStorage:
        return compute.NodeStorage(stack, "GivenStorage", mounts=[compute.LustreMount(file_system=file_system())])

    makers: dict[str, Callable[[], Any]] = {
        "hot": file_system,
        "file_system": file_system,
        "fleet": instance,
        "my_instance": instance,
        "lake": lambda: tiers.DataLake(stack, "GivenLake"),
        "network": lambda: compute.TrainingNetwork(stack, "GivenNetwork", availability_zone_id="use1-az6"),
        "role": role,
        "analysts": role,
        "storage": storage,
    }
    made = {name: makers[name]() for name in sorted(free_names(example) & set(makers))}
    modules = (training_storage, tiers, compute, monitoring)
    names = {name: getattr(module, name) for module in modules for name in module.__all__}
    return {
        **names,
        "cdk": cdk,
        "ec2": ec2,
        "s3": s3,
        "self": stack,
        "stack": stack,
        "vpc": vpc,
        "subnet": subnet,
        **made,
    }


def test_there_are_constructs_to_look_at() -> None:
    assert {"DataLake", "LustreFileSystem", "DataRepositoryAssociation", "GpuFleet", "TrainingStorage"} <= set(PUBLIC)


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - WITHOUT_EXAMPLE))
def test_the_example_of_a_construct_runs(
    name: str, make_app: Callable[[], cdk.App], monkeypatch: pytest.MonkeyPatch
) -> None:
    example = example_of(PUBLIC[name])
    made_by = ".from_" if name.startswith("Imported") else f"{name}("
    assert made_by in example
    monkeypatch.chdir(ROOT / "examples")  # where the workload files lie that examples load
    app = make_app()
    stack = cdk.Stack(app, "Examples", env=cdk.Environment(region="us-east-1"))
    exec(compile(example, f"<example of {name}>", "exec"), given(stack, example))
    resources = app.synth().get_stack_by_name("Examples").template["Resources"]
    assert len(resources) > len(ec2_only(make_app()))


def ec2_only(app: cdk.App) -> dict[str, Any]:
    """Resources of a stack with the given network alone."""
    stack = cdk.Stack(app, "Examples", env=cdk.Environment(region="us-east-1"))
    given(stack, "")
    return dict(app.synth().get_stack_by_name("Examples").template["Resources"])
