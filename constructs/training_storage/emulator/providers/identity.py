"""IAM, KMS and parameters, through their APIs."""

from __future__ import annotations

import json
from typing import Any

from training_storage.emulator.providers.base import Context, Made, Provider, Resource, ResourceError, ignoring, or_undo


def _document(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _difference(old: Any, new: Any) -> tuple[list[Any], list[Any]]:
    before, after = list(old or ()), list(new or ())
    return [item for item in before if item not in after], [item for item in after if item not in before]


class Role(Provider):
    """AWS::IAM::Role with inline and managed policies."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the role."""
        iam = context.client("iam")
        name = properties.get("RoleName") or context.generated_name(64)
        given = {
            key: properties[key]
            for key in ("Path", "Description", "MaxSessionDuration", "PermissionsBoundary")
            if key in properties
        }
        role = iam.create_role(
            RoleName=name,
            AssumeRolePolicyDocument=_document(properties["AssumeRolePolicyDocument"]),
            **context.tagged(properties),
            **given,
        )["Role"]
        with or_undo(lambda: self._scrap(iam, name)):
            self._policies(iam, name, {}, properties)
        return Made(name, {"Arn": role["Arn"], "RoleId": role["RoleId"]})

    def _scrap(self, iam: Any, name: str) -> None:
        for policy in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
            iam.detach_role_policy(RoleName=name, PolicyArn=policy["PolicyArn"])
        for inline in iam.list_role_policies(RoleName=name)["PolicyNames"]:
            iam.delete_role_policy(RoleName=name, PolicyName=inline)
        iam.delete_role(RoleName=name)

    def _policies(self, iam: Any, name: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        gone, added = _difference(old.get("ManagedPolicyArns"), new.get("ManagedPolicyArns"))
        for arn in gone:
            with ignoring("NoSuchEntity"):
                iam.detach_role_policy(RoleName=name, PolicyArn=arn)
        for arn in added:
            iam.attach_role_policy(RoleName=name, PolicyArn=arn)
        gone, added = _difference(old.get("Policies"), new.get("Policies"))
        for policy in gone:
            with ignoring("NoSuchEntity"):
                iam.delete_role_policy(RoleName=name, PolicyName=policy["PolicyName"])
        for policy in added:
            iam.put_role_policy(
                RoleName=name, PolicyName=policy["PolicyName"], PolicyDocument=_document(policy["PolicyDocument"])
            )

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Change trust, description, policies and tags."""
        iam, name, old = context.client("iam"), resource.physical_resource_id, resource.properties
        if old["AssumeRolePolicyDocument"] != properties["AssumeRolePolicyDocument"]:
            document = _document(properties["AssumeRolePolicyDocument"])
            iam.update_assume_role_policy(RoleName=name, PolicyDocument=document)
        change = {key: properties[key] for key in ("Description", "MaxSessionDuration") if key in properties}
        if change:
            iam.update_role(RoleName=name, **change)
        if properties.get("PermissionsBoundary"):
            iam.put_role_permissions_boundary(RoleName=name, PermissionsBoundary=properties["PermissionsBoundary"])
        elif old.get("PermissionsBoundary"):
            iam.delete_role_permissions_boundary(RoleName=name)
        self._policies(iam, name, old, properties)
        gone = [tag["Key"] for tag in context.tag_list(old)]
        if gone:
            iam.untag_role(RoleName=name, TagKeys=gone)
        if context.tag_list(properties):
            iam.tag_role(RoleName=name, Tags=context.tag_list(properties))
        return Made(name, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the role with what this template put on it."""
        iam, name = context.client("iam"), resource.physical_resource_id
        self._policies(iam, name, resource.properties, {})
        iam.delete_role(RoleName=name)


def _names(arns_or_names: Any) -> list[str]:
    return [str(item).rsplit("/", 1)[-1] for item in arns_or_names or ()]


# Which calls put an inline policy on each kind of principal.
_PRINCIPALS = {
    "Roles": ("RoleName", "put_role_policy", "delete_role_policy", "attach_role_policy", "detach_role_policy"),
    "Users": ("UserName", "put_user_policy", "delete_user_policy", "attach_user_policy", "detach_user_policy"),
    "Groups": ("GroupName", "put_group_policy", "delete_group_policy", "attach_group_policy", "detach_group_policy"),
}


class InlinePolicy(Provider):
    """AWS::IAM::Policy: an inline policy on roles, users and groups."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Put the policy on its principals."""
        if not any(properties.get(kind) for kind in _PRINCIPALS):
            raise ResourceError("At least one of [Groups,Roles,Users] must be non-empty.")
        self._put(context, properties)
        made = context.generated_name(64)
        return Made(made, {"Id": made})

    def _put(self, context: Context, properties: dict[str, Any]) -> None:
        iam, document = context.client("iam"), _document(properties["PolicyDocument"])
        for kind, (argument, put, *_) in _PRINCIPALS.items():
            for name in properties.get(kind) or ():
                getattr(iam, put)(**{argument: name}, PolicyName=properties["PolicyName"], PolicyDocument=document)

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Take the policy away where it no longer belongs, and put the new one."""
        self._take(context, resource.properties, keep=properties)
        self._put(context, properties)
        return Made(resource.physical_resource_id, resource.attributes)

    def _take(self, context: Context, properties: dict[str, Any], keep: dict[str, Any]) -> None:
        iam, same_name = context.client("iam"), keep.get("PolicyName") == properties["PolicyName"]
        for kind, (argument, _, delete, *_) in _PRINCIPALS.items():
            for name in properties.get(kind) or ():
                if not (same_name and name in (keep.get(kind) or ())):
                    with ignoring("NoSuchEntity"):
                        getattr(iam, delete)(**{argument: name}, PolicyName=properties["PolicyName"])

    def delete(self, context: Context, resource: Resource) -> None:
        """Take the policy away everywhere."""
        self._take(context, resource.properties, keep={})


class ManagedPolicy(Provider):
    """AWS::IAM::ManagedPolicy."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create and attach the policy."""
        iam = context.client("iam")
        given = {key: properties[key] for key in ("Path", "Description") if key in properties}
        policy = iam.create_policy(
            PolicyName=properties.get("ManagedPolicyName") or context.generated_name(128),
            PolicyDocument=_document(properties["PolicyDocument"]),
            **given,
        )["Policy"]
        with or_undo(lambda: self._scrap(iam, policy["Arn"])):
            self._attach(iam, policy["Arn"], {}, properties)
        return Made(policy["Arn"], {"PolicyArn": policy["Arn"], "PolicyId": policy["PolicyId"], "IsAttachable": True})

    def _scrap(self, iam: Any, arn: str) -> None:
        held = iam.list_entities_for_policy(PolicyArn=arn)
        for kind, (argument, _, _, _, detach) in _PRINCIPALS.items():
            for item in held[f"Policy{kind}"]:
                getattr(iam, detach)(**{argument: item[argument]}, PolicyArn=arn)
        iam.delete_policy(PolicyArn=arn)

    def _attach(self, iam: Any, arn: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        for kind, (argument, _, _, attach, detach) in _PRINCIPALS.items():
            gone, added = _difference(old.get(kind), new.get(kind))
            for name in gone:
                with ignoring("NoSuchEntity"):
                    getattr(iam, detach)(**{argument: name}, PolicyArn=arn)
            for name in added:
                getattr(iam, attach)(**{argument: name}, PolicyArn=arn)

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Make the new document the default version, and change what the policy is attached to."""
        iam, arn = context.client("iam"), resource.physical_resource_id
        if resource.properties["PolicyDocument"] != properties["PolicyDocument"]:
            old = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
            document = _document(properties["PolicyDocument"])
            iam.create_policy_version(PolicyArn=arn, PolicyDocument=document, SetAsDefault=True)
            iam.delete_policy_version(PolicyArn=arn, VersionId=old)
        self._attach(iam, arn, resource.properties, properties)
        return Made(arn, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Detach and delete the policy."""
        iam = context.client("iam")
        self._attach(iam, resource.physical_resource_id, resource.properties, {})
        iam.delete_policy(PolicyArn=resource.physical_resource_id)


class InstanceProfile(Provider):
    """AWS::IAM::InstanceProfile."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the profile with its role."""
        iam = context.client("iam")
        name = properties.get("InstanceProfileName") or context.generated_name(128)
        path = {"Path": properties["Path"]} if "Path" in properties else {}
        profile = iam.create_instance_profile(InstanceProfileName=name, **path)["InstanceProfile"]
        with or_undo(lambda: iam.delete_instance_profile(InstanceProfileName=name)):
            self._roles(iam, name, [], _names(properties.get("Roles")))
        return Made(name, {"Arn": profile["Arn"]})

    def _roles(self, iam: Any, name: str, old: list[str], new: list[str]) -> None:
        gone, added = _difference(old, new)
        for role in gone:
            with ignoring("NoSuchEntity"):
                iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=role)
        for role in added:
            iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Change the role."""
        old, new = _names(resource.properties.get("Roles")), _names(properties.get("Roles"))
        self._roles(context.client("iam"), resource.physical_resource_id, old, new)
        return Made(resource.physical_resource_id, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the profile."""
        iam, name = context.client("iam"), resource.physical_resource_id
        self._roles(iam, name, _names(resource.properties.get("Roles")), [])
        iam.delete_instance_profile(InstanceProfileName=name)


class Key(Provider):
    """AWS::KMS::Key."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the key with its policy and rotation."""
        kms = context.client("kms")
        given = {
            name: properties[name]
            for name in ("Description", "KeyUsage", "KeySpec", "MultiRegion", "Origin")
            if name in properties
        }
        policy = {"Policy": _document(properties["KeyPolicy"])} if "KeyPolicy" in properties else {}
        tags = [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in context.tag_list(properties)]
        key = kms.create_key(**given, **policy, Tags=tags)["KeyMetadata"]
        with or_undo(lambda: kms.schedule_key_deletion(KeyId=key["KeyId"], PendingWindowInDays=7)):
            self._state(kms, key["KeyId"], properties)
        return Made(key["KeyId"], {"KeyId": key["KeyId"], "Arn": key["Arn"]})

    def _state(self, kms: Any, key_id: str, properties: dict[str, Any]) -> None:
        if properties.get("EnableKeyRotation"):
            days = (
                {"RotationPeriodInDays": properties["RotationPeriodInDays"]}
                if "RotationPeriodInDays" in properties
                else {}
            )
            kms.enable_key_rotation(KeyId=key_id, **days)
        elif properties.get("KeySpec", "SYMMETRIC_DEFAULT") == "SYMMETRIC_DEFAULT":
            kms.disable_key_rotation(KeyId=key_id)
        if properties.get("Enabled", True):
            kms.enable_key(KeyId=key_id)
        else:
            kms.disable_key(KeyId=key_id)

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Change policy, description, rotation, state and tags."""
        kms, key_id = context.client("kms"), resource.physical_resource_id
        if "KeyPolicy" in properties:
            kms.put_key_policy(KeyId=key_id, PolicyName="default", Policy=_document(properties["KeyPolicy"]))
        if properties.get("Description") != resource.properties.get("Description"):
            kms.update_key_description(KeyId=key_id, Description=properties.get("Description", ""))
        self._state(kms, key_id, properties)
        gone = [tag["Key"] for tag in context.tag_list(resource.properties)]
        if gone:
            kms.untag_resource(KeyId=key_id, TagKeys=gone)
        tags = [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in context.tag_list(properties)]
        if tags:
            kms.tag_resource(KeyId=key_id, Tags=tags)
        return Made(key_id, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Schedule the deletion, as CloudFormation does."""
        context.client("kms").schedule_key_deletion(
            KeyId=resource.physical_resource_id, PendingWindowInDays=resource.properties.get("PendingWindowInDays", 30)
        )


class Alias(Provider):
    """AWS::KMS::Alias."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the alias."""
        context.client("kms").create_alias(AliasName=properties["AliasName"], TargetKeyId=properties["TargetKeyId"])
        return Made(properties["AliasName"])

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Point the alias at another key."""
        context.client("kms").update_alias(AliasName=properties["AliasName"], TargetKeyId=properties["TargetKeyId"])
        return Made(resource.physical_resource_id)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the alias."""
        context.client("kms").delete_alias(AliasName=resource.physical_resource_id)


class Parameter(Provider):
    """AWS::SSM::Parameter."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Put the parameter, under a generated name where none is given."""
        name = properties.get("Name") or f"CFN-{context.logical_id}-{context.generated_name(40)[-12:]}"
        return self._put(context, name, properties, overwrite=False)

    def _put(self, context: Context, name: str, properties: dict[str, Any], *, overwrite: bool) -> Made:
        given = {
            key: properties[key]
            for key in ("Type", "Value", "Description", "AllowedPattern", "Tier", "Policies", "DataType")
            if key in properties
        }
        context.client("ssm").put_parameter(Name=name, Overwrite=overwrite, **given)
        return Made(name, {"Type": properties["Type"], "Value": properties["Value"], "Name": name})

    def has_attribute(self, name: str) -> bool:
        """Return the documented attributes; the registry lists another."""
        return super().has_attribute(name) or name in ("Type", "Value", "Name")

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Put the parameter again."""
        return self._put(context, resource.physical_resource_id, properties, overwrite=True)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the parameter."""
        context.client("ssm").delete_parameter(Name=resource.physical_resource_id)


PROVIDERS: dict[str, type[Provider]] = {
    "AWS::IAM::InstanceProfile": InstanceProfile,
    "AWS::IAM::ManagedPolicy": ManagedPolicy,
    "AWS::IAM::Policy": InlinePolicy,
    "AWS::IAM::Role": Role,
    "AWS::KMS::Alias": Alias,
    "AWS::KMS::Key": Key,
    "AWS::SSM::Parameter": Parameter,
}
