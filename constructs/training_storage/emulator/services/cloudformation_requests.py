"""What a call of CloudFormation's API says: template, parameters, tags, and what the caller acknowledged."""

from __future__ import annotations

from typing import Any

from moto.cloudformation.exceptions import CloudFormationError, ValidationError

from training_storage.emulator.stack import EmulatedStack
from training_storage.emulator.template import Template

# https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_CreateStack.html
_INLINE_BYTES = 51_200
# Types that need an acknowledgement, each with the property that makes the acknowledgement one of names:
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/control-access-with-iam.html
_IAM = {
    "AWS::IAM::AccessKey": "",
    "AWS::IAM::Group": "GroupName",
    "AWS::IAM::InstanceProfile": "InstanceProfileName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::IAM::Policy": "",
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::User": "UserName",
    "AWS::IAM::UserToGroupAddition": "",
}


class InsufficientCapabilitiesError(CloudFormationError):
    """The caller has not acknowledged what the template does."""

    code = "InsufficientCapabilitiesException"


def read_flag(response: Any, name: str) -> bool:
    """Return a yes-or-no parameter; no when left out."""
    return str(response._get_param(name, False)).lower() == "true"


def require_capabilities(response: Any, template: Template, *, macros: bool = True) -> None:
    """Refuse a template that makes identities, or uses a macro, without the caller's word for it."""
    given, needed = set(response._get_param("Capabilities", [])), ""
    for resource in template.resources.values():
        name = _IAM.get(resource["Type"])
        if name is None:
            continue
        if name and (resource.get("Properties") or {}).get(name) is not None:
            needed = "CAPABILITY_NAMED_IAM"
            break
        needed = "CAPABILITY_IAM"
    enough = {"CAPABILITY_IAM": {"CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"}}.get(needed, {needed})
    if needed and not enough & given:
        raise InsufficientCapabilitiesError(f"Requires capabilities : [{needed}]")
    if macros and template.section("Transform") and "CAPABILITY_AUTO_EXPAND" not in given:
        raise InsufficientCapabilitiesError("Requires capabilities : [CAPABILITY_AUTO_EXPAND]")


def read_body(response: Any, stack: EmulatedStack | None = None) -> str:
    """Return the template's text: given inline, by its address in S3, or that of the stack."""
    if stack is not None and response._get_bool_param("UsePreviousTemplate", False):
        return str(stack.template)
    body, url = response._get_param("TemplateBody"), response._get_param("TemplateURL")
    if body:
        if len(str(body).encode()) > _INLINE_BYTES:
            raise ValidationError(
                message=f"1 validation error detected: Value at 'templateBody' failed to satisfy constraint: "
                f"Member must have length less than or equal to {_INLINE_BYTES}"
            )
        return str(body)
    if not url:
        raise ValidationError(message="Either Template URL or Template Body must be specified.")
    return str(response._get_stack_from_s3_url(url))


def read_parameters(response: Any, previous: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters given; UsePreviousValue takes what was given before, not what it resolved to."""
    given = {}
    for parameter in response._get_param("Parameters", []):
        key = parameter["ParameterKey"]
        if not parameter.get("UsePreviousValue"):
            given[key] = parameter.get("ParameterValue", "")
        elif key in previous:
            given[key] = previous[key]
        # a previous value that was never given was the default, and still is
    return given


def read_tags(response: Any) -> dict[str, str]:
    """Return the tags given."""
    return {item["Key"]: item["Value"] for item in response._get_param("Tags", [])}
