"""Actions that the storage constructs grant, sorted, in one place; and how a grant on a bucket is made."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from aws_cdk import IResource, Stack, region_info
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import IConstruct

from training_storage.tiers import _warnings
from training_storage.tiers._tokens import concrete

LIST_ACTIONS: Final = ("s3:ListBucket",)
READ_ACTIONS: Final = ("s3:GetObject",)
WRITE_ACTIONS: Final = ("s3:AbortMultipartUpload", "s3:PutObject")
DELETE_ACTIONS: Final = ("s3:DeleteObject",)

KEY_READ_ACTIONS: Final = ("kms:Decrypt",)
KEY_WRITE_ACTIONS: Final = ("kms:Decrypt", "kms:GenerateDataKey")
"""Writing needs Decrypt too: the parts of a multipart upload are read back under the key."""


_SPECIAL = re.compile(r"\$\{Token\[[^\]]*\]\}|[*?$]")


def keys_below(prefix: str) -> str:
    """Return the IAM pattern of the keys below a prefix; a ``*``, ``?`` or ``$`` that keys have stands for itself.

    Unescaped it would open ``v10/`` with ``v?0/``, and ``${...}`` would be read as a variable (IAM User Guide, policy
    variables).
    """
    return _SPECIAL.sub(lambda found: found[0] if len(found[0]) > 1 else f"${{{found[0]}}}", prefix) + "*"


def as_json(scope: IConstruct, statement: iam.PolicyStatement) -> str:
    """Return a statement as its owner would paste it; what is only known at deploy shows as ``${Name}``."""
    stack = Stack.of(scope)
    return json.dumps(_said(stack.resolve(statement.to_statement_json()), _known(stack)), sort_keys=True)


def _known(stack: Stack) -> dict[str, str]:
    """Return the pseudo parameters that follow from the region, where the stack says which it is."""
    if (region := concrete(stack.region)) is None:
        return {}
    facts = region_info.RegionInfo.get(region)
    found = {"AWS::Partition": facts.partition, "AWS::URLSuffix": facts.domain_suffix}
    return {name: value for name, value in found.items() if value}


def _said(value: Any, known: dict[str, str]) -> Any:
    """Turn ``Ref`` and ``Fn::Join`` into text, as ``Fn::Sub`` would have it."""
    if isinstance(value, list):
        return [_said(item, known) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"Ref"}:
        return known.get(value["Ref"], f"${{{value['Ref']}}}")
    if set(value) == {"Fn::GetAtt"}:
        return f"${{{'.'.join(value['Fn::GetAtt'])}}}"
    if set(value) == {"Fn::Join"}:
        separator, parts = value["Fn::Join"]
        said = [_said(part, known) for part in parts]
        return separator.join(said) if all(isinstance(part, str) for part in said) else value
    return {key: _said(item, known) for key, item in value.items()}


def grant_bucket(
    scope: IConstruct,
    bucket: s3.IBucket,
    key: kms.IKey | None,
    grantee: iam.IGrantable,
    *,
    prefix: str,
    object_actions: tuple[str, ...],
    key_actions: tuple[str, ...],
) -> iam.Grant:
    """Grant listing under a prefix, actions on the objects under it, and actions on the key.

    Args:
        scope: Construct that warnings are put on.
        bucket: The bucket.
        key: Its key, if it has one.
        grantee: Who gets the rights.
        prefix: Key prefix, empty for the whole bucket.
        object_actions: Actions on objects.
        key_actions: Actions on the key.

    Returns:
        The grant; one that is not successful where a part could not be given.
    """
    grants = [
        _grant(
            scope,
            bucket,
            grantee,
            LIST_ACTIONS,
            bucket.bucket_arn,
            conditions={"StringLike": {"s3:prefix": [keys_below(prefix)]}} if prefix else None,
        ),
        _grant(scope, bucket, grantee, object_actions, bucket.arn_for_objects(keys_below(prefix))),
    ]
    if key is not None:
        grants.append(_grant(scope, key, grantee, key_actions, key.key_arn))
    if not all(each.success for each in grants):
        return iam.Grant.drop(grantee, "a policy that is not ours to change lacks the right")
    whole, *rest = grants
    for each in rest:
        whole = whole.combine(each)
    return whole


def _grant(
    scope: IConstruct,
    resource: s3.IBucket | kms.IKey,
    grantee: iam.IGrantable,
    actions: tuple[str, ...],
    arn: str,
    *,
    conditions: dict[str, dict[str, Any]] | None = None,
) -> iam.Grant:
    noun, warning_id = (
        ("key", _warnings.KEY_POLICY) if actions[0].startswith("kms:") else ("bucket", _warnings.BUCKET_POLICY)
    )
    return grant_on(scope, resource, grantee, actions, arn, noun=noun, warning_id=warning_id, conditions=conditions)


def grant_on(
    scope: IConstruct,
    resource: iam.IResourceWithPolicyV2 | s3.IBucket | kms.IKey,
    grantee: iam.IGrantable,
    actions: tuple[str, ...],
    arn: str,
    *,
    noun: str,
    warning_id: str,
    conditions: dict[str, dict[str, Any]] | None = None,
) -> iam.Grant:
    """Grant in the principal's own policy, and where that is not enough in the policy of the resource.

    It is not enough for a principal that takes no policies (a service) or is known to be of another account. CDK's own
    grants then report success on an imported resource too, whose policy nobody changed; here the grant fails and a
    warning prints what the owner must add.

    Args:
        scope: Construct that the warning is put on.
        resource: What the actions are on.
        grantee: Who gets the rights.
        actions: Actions, all of one service.
        arn: ARN that the rights are given on.
        noun: What the resource is, for the warning.
        warning_id: Id of the warning.
        conditions: Conditions of the rights. Left out, none.

    Returns:
        The grant; one that is not successful where the policy of the resource lacks the right and is not ours.
    """
    # Asked once: where the grantee is a construct of Python's, each question goes to the other process and back.
    principal = grantee.grant_principal
    grant = iam.Grant.add_to_principal(
        grantee=principal, actions=list(actions), resource_arns=[arn], conditions=conditions
    )
    if grant.success and not _other_account(resource, principal):
        return grant
    statement = iam.PolicyStatement(
        actions=list(actions),
        resources=["*"] if actions[0].startswith("kms:") else [arn],  # a key policy knows only its own key
        principals=[principal],
        conditions=conditions,
    )
    if resource.add_to_resource_policy(statement).statement_added:
        # The same statement again, which is written once: it makes the grant, and unlike CDK's other ways into the
        # policy of a resource it keeps the conditions.
        return iam.Grant.add_statement_to_resource_policy(
            statement=statement, resource=resource, grantee=grantee, actions=list(actions), resource_arns=[arn]
        )
    _warnings.warn(
        scope,
        warning_id,
        f"the policy of this {noun} belongs to its owner, who must add: {as_json(scope, statement)}",
    )
    return iam.Grant.drop(grantee, f"the policy of the {noun} is not ours to change")


def _other_account(resource: IResource | iam.IResourceWithPolicyV2, principal: iam.IPrincipal) -> bool:
    here = concrete(principal.principal_account)
    if here is None:
        return False
    there = concrete(resource.env.account)
    return there is not None and here != there
