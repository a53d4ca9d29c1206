"""The hand-written app that benchmarks measure ours against makes the same thing, so that the comparison is fair."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from benchmarks import bare_app
from tests.assemblies import Assembly, context, example

NAME = "llama3-70b"
STACKS = [f"{NAME}-{part}" for part in ("lake", "network", "hot", "compute", "monitoring")]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    app = cdk.App(
        context=context(),
        outdir=str(tmp_path_factory.mktemp("cdk.out")),
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
    )
    bare_app.build(app)
    made = app.synth()
    return Assembly(folder=Path(made.directory), templates={s.stack_name: dict(s.template) for s in made.stacks})


def properties(value: Any, path: str) -> Iterator[str]:
    """Paths of everything inside; functions of CloudFormation count as values, and members of lists look alike."""
    if isinstance(value, list):
        for item in value:
            yield from properties(item, f"{path}[]")
    elif isinstance(value, dict) and not any(key == "Ref" or key.startswith("Fn::") for key in value):
        for key, item in value.items():
            yield from properties(item, f"{path}.{key}")
    else:
        yield path


def shape(template: dict[str, Any]) -> Counter[str]:
    """How often each property is set on resources of each type, policies and attributes of resources too."""
    return Counter(
        line
        for resource in template["Resources"].values()
        for attribute, value in resource.items()
        if attribute != "Type"
        for line in properties(value, f"{resource['Type']} {attribute}")
    )


def test_both_have_the_same_stacks(bare: Assembly) -> None:
    assert sorted(bare.templates) == sorted(example(NAME).templates) == sorted(STACKS)


@pytest.mark.parametrize("stack", STACKS)
def test_both_have_the_same_resources(bare: Assembly, stack: str) -> None:
    types = [
        Counter(resource["Type"] for resource in made.templates[stack]["Resources"].values())
        for made in (bare, example(NAME))
    ]
    assert types[0] == types[1]


@pytest.mark.parametrize("stack", STACKS)
def test_both_set_the_same_properties(bare: Assembly, stack: str) -> None:
    ours, theirs = shape(example(NAME).templates[stack]), shape(bare.templates[stack])
    assert (ours - theirs, theirs - ours) == (Counter(), Counter())


@pytest.mark.parametrize("stack", STACKS)
def test_both_have_the_same_outputs_and_exports(bare: Assembly, stack: str) -> None:
    def named(template: dict[str, Any]) -> tuple[set[str], int]:
        outputs = template.get("Outputs", {})
        return {key for key, value in outputs.items() if "Export" not in value}, len(outputs)

    assert named(bare.templates[stack]) == named(example(NAME).templates[stack])


@pytest.mark.parametrize("stack", STACKS)
def test_both_upload_the_same_files(bare: Assembly, stack: str) -> None:
    def uploads(made: Assembly) -> Counter[str]:
        manifest = json.loads((made.folder / f"{stack}.assets.json").read_text(encoding="utf-8"))
        files = [each["source"]["path"] for each in manifest["files"].values()]
        return Counter(path for path in files if not path.endswith(".template.json"))

    assert uploads(bare) == uploads(example(NAME))


@pytest.mark.parametrize("stack", STACKS)
def test_both_templates_are_about_as_long(bare: Assembly, stack: str) -> None:
    # Logical ids are shorter by hand; texts such as user data and the dashboard are as long.
    ours, theirs = (len(json.dumps(made.templates[stack])) for made in (example(NAME), bare))
    assert theirs == pytest.approx(ours, rel=0.15)
