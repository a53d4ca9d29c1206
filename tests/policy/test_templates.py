"""Outside eyes on the templates of every example: no finding that is not acknowledged with a reason in code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.assemblies import EXAMPLES, ROOT, example, lint, synthesize

if TYPE_CHECKING:
    import aws_cdk as cdk

# cfn-lint ids that are wrong for us, each with its reason. Nothing else is ignored.
CFN_LINT_ACKNOWLEDGED: dict[str, str] = {}


@pytest.mark.parametrize("name", EXAMPLES)
def test_cdk_nag_finds_nothing_unacknowledged(name: str) -> None:
    import aws_cdk as cdk
    import cdk_nag

    def add(app: cdk.App) -> None:
        cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))

    made = synthesize(ROOT / "examples" / f"{name}.yaml", prepare=add)
    report = json.loads((made.folder / "validation-report.json").read_text(encoding="utf-8"))
    (nag,) = [part for part in report["pluginReports"] if part["pluginName"] == "AwsSolutions"]
    assert [violation["ruleName"] for violation in nag["violations"]] == []
    assert nag["suppressedViolations"]  # the pack really looked
    assert all(len(acknowledged["reason"]) > 20 for acknowledged in nag["suppressedViolations"])


@pytest.mark.parametrize("name", EXAMPLES)
def test_cfn_lint_finds_nothing(name: str) -> None:
    found = [
        f"{stack}: {match}"
        for stack, template in example(name).templates.items()
        for match in lint(template)
        if match.split()[0] not in CFN_LINT_ACKNOWLEDGED
    ]
    assert found == []


def test_cfn_lint_finds_what_is_wrong_in_every_template_that_it_is_given() -> None:
    good = {"Resources": {"Key": {"Type": "AWS::KMS::Key", "Properties": {"EnableKeyRotation": True}}}}
    wrong = {"Resources": {"Key": {"Type": "AWS::KMS::Key", "Properties": {"EnableKeyRotations": True}}}}
    found = [lint(template) for template in (wrong, good, wrong)]
    assert ["EnableKeyRotations" in str(each) for each in found] == [True, False, True]


@pytest.mark.parametrize("name", EXAMPLES)
def test_cloudformation_validate_finds_nothing(name: str) -> None:
    import cloudformation_validate as validate

    engine = validate.CompositeEngine(validate.CompositeEngineConfig())
    found = []
    for stack, template in example(name).templates.items():
        report = engine.validate_template(validate.TemplateContent(json.dumps(template), stack))
        found += [
            f"{stack}: {finding.rule_id} {finding.message}"
            for finding in report.diagnostics
            if finding.severity.name in ("FATAL", "ERROR", "WARN", "WARNING")
        ]
    assert found == []


def identity_statements(template: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Statements of every policy that hangs on an identity: managed, inline and those inside roles."""
    found: list[tuple[str, dict[str, Any]]] = []
    for logical_id, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        if resource["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            found += [(logical_id, statement) for statement in properties["PolicyDocument"]["Statement"]]
        if resource["Type"] == "AWS::IAM::Role":
            for policy in properties.get("Policies", []):
                found += [(logical_id, statement) for statement in policy["PolicyDocument"]["Statement"]]
    return found


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


# Actions that AWS defines without a resource type: only "*" is possible (service authorization reference).
WITHOUT_RESOURCE = {
    "cloudwatch:PutMetricData", "ec2:DescribeInstances", "ec2:DescribeTags", "ec2:DescribeVolumes",
    "cloudwatch:GetMetricStatistics", "fsx:DescribeDataRepositoryAssociations",
    "ec2:DescribeNetworkInterfaces", "fsx:DescribeDataRepositoryTasks", "ssm:UpdateInstanceInformation",
    "ssmmessages:CreateControlChannel", "ssmmessages:CreateDataChannel", "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel", "ec2messages:AcknowledgeMessage", "ec2messages:DeleteMessage",
    "ec2messages:FailMessage", "ec2messages:GetEndpoint", "ec2messages:GetMessages", "ec2messages:SendReply",
    "autoscaling:DescribeAutoScalingGroups", "cloudwatch:GetMetricData", "fsx:DescribeFileSystems",
    "ssm:DescribeInstanceInformation", "ssm:GetCommandInvocation", "ssm:ListCommandInvocations", "ssm:ListCommands",
    "logs:CreateLogDelivery", "logs:DeleteLogDelivery", "logs:DescribeLogGroups", "logs:DescribeResourcePolicies",
    "logs:GetLogDelivery", "logs:ListLogDeliveries", "logs:PutResourcePolicy", "logs:UpdateLogDelivery",
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_identity_policies_name_their_actions(name: str) -> None:
    wide = [
        (stack, where, action)
        for stack, template in example(name).templates.items()
        for where, statement in identity_statements(template)
        for action in listed(statement["Action"])
        if "*" in action
    ]
    assert wide == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_identity_policies_name_their_resources_where_the_action_allows_it(name: str) -> None:
    wide = [
        (stack, where, statement["Action"])
        for stack, template in example(name).templates.items()
        for where, statement in identity_statements(template)
        if "*" in listed(statement["Resource"]) and not set(listed(statement["Action"])) <= WITHOUT_RESOURCE
    ]
    assert wide == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_templates_hold_no_secret_path_or_date(name: str) -> None:
    text = json.dumps(example(name).templates)
    assert str(ROOT) not in text
    assert "AKIA" not in text
    assert "2026-" not in text
