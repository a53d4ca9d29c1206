"""Feature flags belong to the user's app: whatever is set, everything synthesizes, and what holds data keeps its id.

A logical id that follows a flag would replace a bucket, a file system or a key as soon as a user sets that flag.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import tarfile
from functools import cache
from importlib import import_module
from importlib.resources import as_file, files
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aws_cdk as cdk
import pytest

from stacks import build_stacks
from tests.assemblies import EXAMPLES, ROOT, context
from training_storage.planner import plan
from training_storage.workload import load_workload

FLAGS: dict[str, Any] = json.loads((ROOT / "tests" / "data" / "feature_flags.json").read_text(encoding="utf-8"))
"""Every flag that the locked aws-cdk-lib takes, with the value that it recommends."""

REFERENCES = "@aws-cdk/core:defaultCrossStackReferences"
TOUCHING: dict[str, tuple[Any, ...]] = {
    REFERENCES: ("strong", "weak", "both"),
    "@aws-cdk/core:enablePartitionLiterals": (True, False),
    "@aws-cdk/core:newStyleStackSynthesis": (True, False),
    "@aws-cdk/aws-iam:importedRoleStackSafeDefaultPolicyName": (True, False),
    "@aws-cdk/aws-iam:minimizePolicies": (True, False),
}
"""Flags that change a template of ours, with their values; all the others change none."""

HOLDS_DATA = {
    "AWS::FSx::FileSystem",
    "AWS::KMS::Key",
    "AWS::S3::Bucket",
    "AWS::S3Express::DirectoryBucket",
    "AWS::S3Files::FileSystem",
}
Templates = dict[str, dict[str, Any]]


def example_stacks() -> list[type[cdk.Stack]]:
    modules = [import_module(f"examples.stacks.{path.parent.name}.app")
               for path in sorted((ROOT / "examples" / "stacks").glob("*/app.py"))]  # fmt: skip
    return [
        each
        for module in modules
        for each in vars(module).values()
        if inspect.isclass(each) and issubclass(each, cdk.Stack) and each.__module__ == module.__name__
    ]


@cache
def synthesized(flags: tuple[tuple[str, str], ...]) -> Templates:
    """Return the templates of every example, as workload files and as stacks, under flags given as JSON."""
    with TemporaryDirectory() as folder:
        app = cdk.App(
            context={name: json.loads(value) for name, value in flags},
            outdir=folder,
            analytics_reporting=False,
            builtin_cloud_formation_validation=False,
        )
        for name in EXAMPLES:
            build_stacks(app, plan(load_workload(ROOT / "examples" / f"{name}.yaml")))
        for stack in example_stacks():
            stack(app, stack.__name__, env=cdk.Environment(account="111111111111", region="us-east-1"))
        made = app.synth()
        return {each.stack_name: json.loads(Path(each.template_full_path).read_text("utf-8")) for each in made.stacks}


def templates(flags: dict[str, Any]) -> Templates:
    return synthesized(tuple(sorted((name, json.dumps(value)) for name, value in flags.items() if value is not None)))


def ids_of_data(made: Templates) -> dict[tuple[str, str], str]:
    return {
        (stack, logical_id): resource["Type"]
        for stack, template in made.items()
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] in HOLDS_DATA
    }


def recommended() -> dict[str, Any]:
    return dict(FLAGS)


BASES: dict[str, dict[str, Any]] = {"none": {}, "recommended": recommended()}


def test_the_flags_of_the_app_are_the_recommended_ones() -> None:
    # docs/decisions/0003: an import refuses to let a file system go under a running fleet.
    assert {name: value for name, value in context().items() if FLAGS[name] != value} == {REFERENCES: "strong"}


def test_every_kind_of_what_holds_data_is_in_an_example() -> None:
    assert set(ids_of_data(templates({})).values()) == HOLDS_DATA


@pytest.mark.parametrize("base", BASES)
def test_what_holds_data_keeps_its_logical_id_with_all_flags_and_with_none(base: str) -> None:
    assert ids_of_data(templates(BASES[base])) == ids_of_data(templates(context()))


# Set alone each takes the value that is recommended, among all the recommended ones every other: both at once differ
# from what most apps have by that one flag. How references run is of the latter alone, which tests below make too.
ALONE = [
    ("none" if value == FLAGS[flag] and flag != REFERENCES else "recommended", flag, value)
    for flag, values in TOUCHING.items()
    for value in values
]


@pytest.mark.parametrize(("base", "flag", "value"), ALONE)
def test_what_holds_data_keeps_its_logical_id_whatever_one_flag_is(base: str, flag: str, value: Any) -> None:
    assert ids_of_data(templates(BASES[base] | {flag: value})) == ids_of_data(templates(context()))


@pytest.mark.parametrize("flag", TOUCHING)
def test_a_flag_of_the_list_changes_a_template(flag: str) -> None:
    values = [templates(recommended() | {flag: value}) for value in TOUCHING[flag]]
    assert all(one != two for one, two in pairwise(values))


def other(value: Any) -> Any:
    """Return what is not recommended: the other of two values, or nothing in place of a list."""
    return not value if isinstance(value, bool) else None


@pytest.mark.parametrize("base", BASES)
def test_no_other_flag_changes_a_template(base: str) -> None:
    # All at once, on and off: were there one that is missing in the list, these two would differ.
    others = {flag: value for flag, value in FLAGS.items() if flag not in TOUCHING}
    touching = {flag: value for flag, value in BASES[base].items() if flag in TOUCHING}
    on = templates(touching | others)
    off = templates(touching | {flag: other(value) for flag, value in others.items()})
    assert differences(on, off) == []


def entries(made: Templates) -> dict[tuple[str, str, str], Any]:
    return {
        (stack, section, name): entry
        for stack, template in made.items()
        for section, found in template.items()
        for name, entry in (found.items() if isinstance(found, dict) else [("", found)])
    }


def differences(one: Templates, two: Templates) -> list[str]:
    """Return where two apps differ: stack, section and name of what one of them lacks or has otherwise."""
    left, right = entries(one), entries(two)
    return sorted(" ".join(where) for where in left.keys() | right.keys() if left.get(where) != right.get(where))


@pytest.mark.slow
def test_the_list_of_flags_is_that_of_the_library(tmp_path: Path) -> None:
    with (
        as_file(files("aws_cdk._jsii").joinpath(f"aws-cdk-lib@{version()}.jsii.tgz")) as packed,
        tarfile.open(packed) as tar,
    ):
        members = (each for each in tar if each.name.startswith("package/cx-api/lib/") and each.name.endswith(".js"))
        tar.extractall(tmp_path, members=members, filter="data")
    script = """
      const {FLAGS, CURRENT_VERSION_EXPIRED_FLAGS: gone} = require(process.argv[1]);
      const left = Object.entries(FLAGS).filter(([name]) => !gone.includes(name));
      console.log(JSON.stringify(Object.fromEntries(left.map(([name, flag]) => [name, flag.recommendedValue]))));
    """
    features = tmp_path / "package" / "cx-api" / "lib" / "features.js"
    done = subprocess.run(["node", "-e", script, str(features)], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == FLAGS


def version() -> str:
    from importlib.metadata import version as of

    return of("aws-cdk-lib")
