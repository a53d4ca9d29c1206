"""The examples as a user deploys them: one cloud assembly each, made once a test run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from training_storage.planner import Plan, plan
from training_storage.workload import Workload

if TYPE_CHECKING:
    import aws_cdk as cdk

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = tuple(sorted(path.stem for path in (ROOT / "examples").glob("*.yaml")))


def context() -> dict[str, Any]:
    """Context of cdk.json."""
    return dict(json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"])


@dataclass(frozen=True)
class Assembly:
    """Templates of one app, in deployment order."""

    folder: Path
    templates: dict[str, dict[str, Any]]

    def of(self, stack: str, resource_type: str) -> dict[str, dict[str, Any]]:
        """Resources of one type in one stack, by logical id."""
        resources = self.templates[stack]["Resources"]
        return {key: value for key, value in resources.items() if value["Type"] == resource_type}

    def all(self, resource_type: str) -> list[dict[str, Any]]:
        """Resources of one type in every stack."""
        return [resource for stack in self.templates for resource in self.of(stack, resource_type).values()]


def synthesize(
    workload: Path | dict[str, Any] | Plan,
    *,
    prepare: Callable[[cdk.App], None] | None = None,
    flags: dict[str, Any] | None = None,
    folder: str | None = None,
) -> Assembly:
    """Build the reference stacks for a workload file, its data or its plan, and synthesize them."""
    import aws_cdk as cdk

    from stacks import build_stacks
    from training_storage.workload import load_workload

    app = cdk.App(
        context=context() | (flags or {}),
        outdir=folder or mkdtemp(prefix="cdk.out."),
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
    )
    if prepare is not None:
        prepare(app)
    if isinstance(workload, Path):
        workload = plan(load_workload(workload))
    elif isinstance(workload, dict):
        workload = plan(Workload.model_validate(workload))
    build_stacks(app, workload)
    made = app.synth()
    return Assembly(
        folder=Path(made.directory),
        templates={stack.stack_name: dict(stack.template) for stack in made.stacks},
    )


@cache
def example(name: str) -> Assembly:
    """The assembly of one example, synthesized once."""
    return synthesize(ROOT / "examples" / f"{name}.yaml")


@cache
def _linter(region: str) -> Any:
    from cfnlint.config import ConfigMixIn
    from cfnlint.runner import Runner

    return Runner(ConfigMixIn(regions=[region]))


def lint(template: Mapping[str, Any], region: str = "us-east-1") -> list[str]:
    """What cfn-lint finds in a template. Its rules are loaded once a process: that takes longer than most checks."""
    from cfnlint.decode.decode import decode_str

    decoded, errors = decode_str(json.dumps(template))
    found = errors or _linter(region).validate_template(decoded)
    return [f"{match.rule.id} {match.message}" for match in found]
