"""Security groups and what runs behind them: launch templates, placement groups, Auto Scaling."""

from __future__ import annotations

from typing import Any

from training_storage.emulator.providers.base import Context, Made, Provider, Resource, ResourceError, ignoring, or_undo
from training_storage.emulator.providers.ec2_tags import TaggedProvider, retag, specification


def _permission(rule: dict[str, Any]) -> dict[str, Any]:
    """Turn a rule of CloudFormation into one of the EC2 API."""
    permission: dict[str, Any] = {"IpProtocol": str(rule["IpProtocol"])}
    for port in ("FromPort", "ToPort"):
        if port in rule:
            permission[port] = int(rule[port])
    description = {"Description": rule["Description"]} if rule.get("Description") else {}
    if "CidrIp" in rule:
        permission["IpRanges"] = [{"CidrIp": rule["CidrIp"], **description}]
    if "CidrIpv6" in rule:
        permission["Ipv6Ranges"] = [{"CidrIpv6": rule["CidrIpv6"], **description}]
    for name in ("SourceSecurityGroupId", "DestinationSecurityGroupId"):
        if name in rule:
            permission["UserIdGroupPairs"] = [{"GroupId": rule[name], **description}]
    for name in ("SourcePrefixListId", "DestinationPrefixListId"):
        if name in rule:
            permission["PrefixListIds"] = [{"PrefixListId": rule[name], **description}]
    return permission


class SecurityGroup(Provider):
    """AWS::EC2::SecurityGroup with its inline rules."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the group and its inline rules."""
        ec2 = context.client("ec2")
        name = properties.get("GroupName") or context.generated_name()
        vpc = {"VpcId": properties["VpcId"]} if "VpcId" in properties else {}
        group_id = ec2.create_security_group(
            GroupName=name,
            Description=properties["GroupDescription"],
            **vpc,
            TagSpecifications=specification(context, properties, "security-group"),
        )["GroupId"]
        found = ec2.describe_security_groups(GroupIds=[group_id])["SecurityGroups"][0]
        with or_undo(lambda: ec2.delete_security_group(GroupId=group_id)):
            if properties.get("SecurityGroupEgress"):
                # inline outbound rules stand in place of the one that allows everything
                ec2.revoke_security_group_egress(GroupId=group_id, IpPermissions=found["IpPermissionsEgress"])
            self._change(ec2, group_id, {}, properties)
        return Made(group_id, {"Id": group_id, "GroupId": group_id, "VpcId": found["VpcId"]})

    def has_attribute(self, name: str) -> bool:
        """Return the documented attributes; the registry does not list VpcId."""
        return super().has_attribute(name) or name == "VpcId"

    def _change(self, ec2: Any, group_id: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        for name, word in (("SecurityGroupIngress", "ingress"), ("SecurityGroupEgress", "egress")):
            before = [_permission(rule) for rule in old.get(name) or ()]
            after = [_permission(rule) for rule in new.get(name) or ()]
            gone, added = [rule for rule in before if rule not in after], [rule for rule in after if rule not in before]
            for rule in gone:
                with ignoring("InvalidPermission.NotFound"):
                    getattr(ec2, f"revoke_security_group_{word}")(GroupId=group_id, IpPermissions=[rule])
            for rule in added:
                getattr(ec2, f"authorize_security_group_{word}")(GroupId=group_id, IpPermissions=[rule])

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Change inline rules and tags."""
        self._change(context.client("ec2"), resource.physical_resource_id, resource.properties, properties)
        retag(context, resource.physical_resource_id, resource.properties, properties)
        return Made(resource.physical_resource_id, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the group, unless a file system uses it or another group's rule names it."""
        ec2 = context.client("ec2")
        group_id = resource.physical_resource_id
        users = [
            item["GroupId"]
            for item in ec2.describe_security_groups()["SecurityGroups"]
            if item["GroupId"] != group_id
            and any(
                pair.get("GroupId") == group_id
                for rule in item["IpPermissions"] + item["IpPermissionsEgress"]
                for pair in rule.get("UserIdGroupPairs", ())
            )
        ]
        users += [
            system.file_system_id for system in _file_systems(context) if group_id in (system.security_group_ids or ())
        ]
        if users:
            raise ResourceError(f"resource {group_id} has a dependent object: {', '.join(users)}")
        ec2.delete_security_group(GroupId=group_id)


def _file_systems(context: Context) -> list[Any]:
    from moto.fsx.models import fsx_backends

    return list(fsx_backends[context.account][context.region].file_systems.values())


class _Rule(Provider):
    word = ""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Add the rule to its group."""
        group = properties.get("GroupId")
        if not group:
            raise ResourceError("GroupId is needed: rules by group name belong to EC2-Classic")
        call = getattr(context.client("ec2"), f"authorize_security_group_{self.word}")
        rules = call(GroupId=group, IpPermissions=[_permission(properties)])["SecurityGroupRules"]
        rule_id = rules[0]["SecurityGroupRuleId"]
        return Made(rule_id, {"Id": rule_id})

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Put a rule with the new description in the place of the old one."""
        self.delete(context, resource)
        made = self.create(context, properties)
        # the rule's own id is only known to EC2; the stack goes on with the one it knows
        return Made(resource.physical_resource_id, {"Id": made.attributes["Id"]})

    def delete(self, context: Context, resource: Resource) -> None:
        """Take the rule away."""
        call = getattr(context.client("ec2"), f"revoke_security_group_{self.word}")
        call(GroupId=resource.properties["GroupId"], SecurityGroupRuleIds=[resource.attributes["Id"]])


class IngressRule(_Rule):
    """AWS::EC2::SecurityGroupIngress."""

    word = "ingress"


class EgressRule(_Rule):
    """AWS::EC2::SecurityGroupEgress."""

    word = "egress"


class LaunchTemplate(Provider):
    """AWS::EC2::LaunchTemplate; a changed template is a new version of the same one."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the template."""
        given = {key: properties[key] for key in ("VersionDescription",) if key in properties}
        made = context.client("ec2").create_launch_template(
            LaunchTemplateName=properties.get("LaunchTemplateName") or context.generated_name(128),
            LaunchTemplateData=properties["LaunchTemplateData"],
            **given,
        )["LaunchTemplate"]
        return Made(made["LaunchTemplateId"], self._versions(made))

    def _versions(self, made: dict[str, Any]) -> dict[str, Any]:
        return {
            "LaunchTemplateId": made["LaunchTemplateId"],
            "DefaultVersionNumber": str(made["DefaultVersionNumber"]),
            "LatestVersionNumber": str(made["LatestVersionNumber"]),
        }

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Add a version; the default one stays."""
        ec2, template_id = context.client("ec2"), resource.physical_resource_id
        if properties["LaunchTemplateData"] != resource.properties["LaunchTemplateData"]:
            ec2.create_launch_template_version(
                LaunchTemplateId=template_id, LaunchTemplateData=properties["LaunchTemplateData"]
            )
        found = ec2.describe_launch_templates(LaunchTemplateIds=[template_id])["LaunchTemplates"][0]
        return Made(template_id, self._versions(found))

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the template."""
        context.client("ec2").delete_launch_template(LaunchTemplateId=resource.physical_resource_id)


class PlacementGroup(TaggedProvider):
    """AWS::EC2::PlacementGroup."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the group under a generated name."""
        given = {key: properties[key] for key in ("Strategy", "PartitionCount", "SpreadLevel") if key in properties}
        made = context.client("ec2").create_placement_group(
            GroupName=context.generated_name(),
            **given,
            TagSpecifications=specification(context, properties, "placement-group"),
        )["PlacementGroup"]
        return Made(made["GroupName"], {"GroupName": made["GroupName"], "GroupId": made["GroupId"]})

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the group."""
        context.client("ec2").delete_placement_group(GroupName=resource.physical_resource_id)


PROVIDERS: dict[str, type[Provider]] = {
    "AWS::EC2::LaunchTemplate": LaunchTemplate,
    "AWS::EC2::PlacementGroup": PlacementGroup,
    "AWS::EC2::SecurityGroup": SecurityGroup,
    "AWS::EC2::SecurityGroupEgress": EgressRule,
    "AWS::EC2::SecurityGroupIngress": IngressRule,
}
