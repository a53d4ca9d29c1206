"""Actions that the storage constructs grant, sorted, in one place; and how a grant on a bucket is made."""

from __future__ import annotations

import json
from typing import Any, Final

from aws_cdk import IResource, Stack
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


def as_json(scope: IConstruct, statement: iam.PolicyStatement) -> str:
    """Return a statement as its owner would paste it; what is only known at deploy shows as ``${Name}``."""
    return json.dumps(_said(Stack.of(scope).resolve(statement.to_statement_json())), sort_keys=True)


def _said(value: Any) -> Any:
    """Turn ``Ref`` and ``Fn::Join`` into text, as ``Fn::Sub`` would have it."""
    if isinstance(value, list):
        return [_said(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"Ref"}:
        return f"${{{value['Ref']}}}"
    if set(value) == {"Fn::GetAtt"}:
        return f"${{{'.'.join(value['Fn::GetAtt'])}}}"
    if set(value) == {"Fn::Join"}:
        separator, parts = value["Fn::Join"]
        said = [_said(part) for part in parts]
        return separator.join(said) if all(isinstance(part, str) for part in said) else value
    return {key: _said(item) for key, item in value.items()}


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

    A principal that takes no policies (a service, another account) needs the statements in the bucket's policy. Where
    that policy is not ours to change, CDK would still report success; here the grant then fails and a warning prints
    what the bucket's owner must add.

    Args:
        scope: Construct that the warning is put on.
        bucket: The bucket.
        key: Its key, if it has one.
        grantee: Who gets the rights.
        prefix: Key prefix, empty for the whole bucket.
        object_actions: Actions on objects.
        key_actions: Actions on the key.
    """
    conditions = {"StringLike": {"s3:prefix": [f"{prefix}*"]}} if prefix else None
    grant = iam.Grant.add_to_principal_or_resource(
        grantee=grantee,
        actions=list(LIST_ACTIONS),
        resource_arns=[bucket.bucket_arn],
        resource=bucket,
        conditions=conditions,
    ).combine(
        iam.Grant.add_to_principal_or_resource(
            grantee=grantee,
            actions=list(object_actions),
            resource_arns=[bucket.arn_for_objects(f"{prefix}*")],
            resource=bucket,
        )
    )
    given = _told_to_owner(scope, bucket, grant, _warnings.BUCKET_POLICY, "bucket")
    if key is not None:
        on_key = key.grant(grantee, *key_actions)
        given = _told_to_owner(scope, key, on_key, _warnings.KEY_POLICY, "key") and given
        grant = grant.combine(on_key)
    return grant if given else iam.Grant.drop(grantee, "a policy that is not ours to change lacks the right")


def _told_to_owner(
    scope: IConstruct, resource: s3.IBucket | kms.IKey, grant: iam.Grant, warning_id: str, noun: str
) -> bool:
    """Whether every statement that is needed went into a policy; what did not is printed for the owner of the resource.

    CDK takes adding to the policy of an imported resource for done. Adding again tells the truth, and no policy keeps a
    statement twice. In one account the principal's own policy is enough; CDK also writes to the resource where it only
    can't tell whether the accounts are the same.
    """
    if grant.principal_statements and not _other_account(scope, resource):
        return True
    refused = [each for each in grant.resource_statements if not resource.add_to_resource_policy(each).statement_added]
    if refused:
        printed = ", ".join(as_json(scope, each) for each in refused)
        _warnings.warn(scope, warning_id, f"the policy of this {noun} belongs to its owner, who must add: {printed}")
    return not refused


def _other_account(scope: IConstruct, resource: IResource) -> bool:
    here, there = concrete(Stack.of(scope).account), concrete(resource.env.account)
    return here is not None and there is not None and here != there
