"""The VPC family, through the EC2 API, so that every describe call shows it and deleting really deletes."""

from __future__ import annotations

import json
from typing import Any

from training_storage.emulator.providers.base import Context, Made, Provider, Resource, ResourceError, or_undo
from training_storage.emulator.providers.ec2_tags import TaggedProvider, retag, specification


def _given(properties: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: properties[name] for name in names if name in properties}


class Vpc(Provider):
    """AWS::EC2::VPC."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the VPC and set its DNS attributes."""
        ec2 = context.client("ec2")
        vpc = ec2.create_vpc(
            **_given(properties, "CidrBlock", "InstanceTenancy"),
            TagSpecifications=specification(context, properties, "vpc"),
        )["Vpc"]
        with or_undo(lambda: ec2.delete_vpc(VpcId=vpc["VpcId"])):
            self._dns(ec2, vpc["VpcId"], properties)
        groups = ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [vpc["VpcId"]]}])["SecurityGroups"]
        acls = ec2.describe_network_acls(Filters=[{"Name": "vpc-id", "Values": [vpc["VpcId"]]}])["NetworkAcls"]
        return Made(
            vpc["VpcId"],
            {
                "VpcId": vpc["VpcId"],
                "CidrBlock": vpc["CidrBlock"],
                "CidrBlockAssociations": [item["AssociationId"] for item in vpc.get("CidrBlockAssociationSet", ())],
                "DefaultSecurityGroup": groups[0]["GroupId"],
                "DefaultNetworkAcl": acls[0]["NetworkAclId"],
                "Ipv6CidrBlocks": [],
            },
        )

    def _dns(self, ec2: Any, vpc_id: str, properties: dict[str, Any]) -> None:
        for name, default in (("EnableDnsSupport", True), ("EnableDnsHostnames", False)):
            ec2.modify_vpc_attribute(VpcId=vpc_id, **{name: {"Value": properties.get(name, default)}})

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Change DNS attributes and tags."""
        self._dns(context.client("ec2"), resource.physical_resource_id, properties)
        retag(context, resource.physical_resource_id, resource.properties, properties)
        return Made(resource.physical_resource_id, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the VPC; what EC2 makes and deletes with it (main route table, default group) goes too."""
        ec2 = context.client("ec2")
        vpc = [{"Name": "vpc-id", "Values": [resource.physical_resource_id]}]
        left = [subnet["SubnetId"] for subnet in ec2.describe_subnets(Filters=vpc)["Subnets"]]
        left += [
            gateway["NatGatewayId"]
            for gateway in ec2.describe_nat_gateways(Filters=vpc)["NatGateways"]
            if gateway["State"] != "deleted"
        ]
        left += [
            item["VpcEndpointId"] for item in ec2.describe_vpc_endpoints(Filters=vpc)["VpcEndpoints"] if _alive(item)
        ]
        left += [
            group["GroupId"]
            for group in ec2.describe_security_groups(Filters=vpc)["SecurityGroups"]
            if group["GroupName"] != "default"
        ]
        if left:
            raise ResourceError(
                f"The vpc '{resource.physical_resource_id}' has dependencies and cannot be deleted: {', '.join(left)}"
            )
        ec2.delete_vpc(VpcId=resource.physical_resource_id)


def _alive(item: dict[str, Any]) -> bool:
    return str(item.get("State", "available")).lower() not in ("deleted", "deleting")


class Subnet(Provider):
    """AWS::EC2::Subnet, by zone name or zone id."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the subnet in the zone that was asked for."""
        ec2 = context.client("ec2")
        zone = properties.get("AvailabilityZone") or properties.get("AvailabilityZoneId")
        if zone is not None:
            zones = ec2.describe_availability_zones()["AvailabilityZones"]
            if zone not in {name for item in zones for name in (item["ZoneName"], item["ZoneId"])}:
                raise ResourceError(f"Value ({zone}) for the zone is invalid: {context.region} has no such zone")
        subnet = ec2.create_subnet(
            **_given(properties, "VpcId", "CidrBlock", "AvailabilityZone", "AvailabilityZoneId", "Ipv6CidrBlock"),
            TagSpecifications=specification(context, properties, "subnet"),
        )["Subnet"]
        with or_undo(lambda: ec2.delete_subnet(SubnetId=subnet["SubnetId"])):
            self._public(ec2, subnet["SubnetId"], properties)
        zone_names = {
            "AvailabilityZone": subnet["AvailabilityZone"],
            "AvailabilityZoneId": subnet["AvailabilityZoneId"],
        }
        return Made(
            subnet["SubnetId"],
            {
                "SubnetId": subnet["SubnetId"],
                "CidrBlock": subnet["CidrBlock"],
                "VpcId": subnet["VpcId"],
                "Ipv6CidrBlocks": [],
                **zone_names,
            },
        )

    def has_attribute(self, name: str) -> bool:
        """Return the documented attributes; the registry does not list all of them."""
        return super().has_attribute(name) or name in ("AvailabilityZone", "AvailabilityZoneId", "CidrBlock", "VpcId")

    def _public(self, ec2: Any, subnet_id: str, properties: dict[str, Any]) -> None:
        ec2.modify_subnet_attribute(
            SubnetId=subnet_id, MapPublicIpOnLaunch={"Value": properties.get("MapPublicIpOnLaunch", False)}
        )

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Change the public-address switch and tags."""
        self._public(context.client("ec2"), resource.physical_resource_id, properties)
        retag(context, resource.physical_resource_id, resource.properties, properties)
        return Made(resource.physical_resource_id, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the subnet, unless a file system or an instance is in it."""
        users = [
            item["FileSystemId"]
            for item in context.client("fsx").describe_file_systems()["FileSystems"]
            if resource.physical_resource_id in item["SubnetIds"]
        ]
        if users:
            raise ResourceError(
                f"The subnet '{resource.physical_resource_id}' has dependencies and cannot be deleted: "
                f"{', '.join(users)}"
            )
        context.client("ec2").delete_subnet(SubnetId=resource.physical_resource_id)


class InternetGateway(TaggedProvider):
    """AWS::EC2::InternetGateway."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the gateway."""
        tags = specification(context, properties, "internet-gateway")
        gateway = context.client("ec2").create_internet_gateway(TagSpecifications=tags)["InternetGateway"]
        return Made(gateway["InternetGatewayId"], {"InternetGatewayId": gateway["InternetGatewayId"]})

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the gateway."""
        context.client("ec2").delete_internet_gateway(InternetGatewayId=resource.physical_resource_id)


class GatewayAttachment(Provider):
    """AWS::EC2::VPCGatewayAttachment."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Attach the gateway."""
        ec2 = context.client("ec2")
        if "InternetGatewayId" in properties:
            ec2.attach_internet_gateway(**_given(properties, "InternetGatewayId", "VpcId"))
            return Made(f"IGW|{properties['VpcId']}", {"AttachmentType": "IGW"})
        ec2.attach_vpn_gateway(**_given(properties, "VpnGatewayId", "VpcId"))
        return Made(f"VGW|{properties['VpcId']}", {"AttachmentType": "VGW"})

    def delete(self, context: Context, resource: Resource) -> None:
        """Detach the gateway."""
        ec2 = context.client("ec2")
        if "InternetGatewayId" in resource.properties:
            ec2.detach_internet_gateway(**_given(resource.properties, "InternetGatewayId", "VpcId"))
        else:
            ec2.detach_vpn_gateway(**_given(resource.properties, "VpnGatewayId", "VpcId"))


class RouteTable(TaggedProvider):
    """AWS::EC2::RouteTable."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the table."""
        table = context.client("ec2").create_route_table(
            VpcId=properties["VpcId"], TagSpecifications=specification(context, properties, "route-table")
        )["RouteTable"]
        return Made(table["RouteTableId"], {"RouteTableId": table["RouteTableId"]})

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the table."""
        context.client("ec2").delete_route_table(RouteTableId=resource.physical_resource_id)


_ROUTE_TARGETS = (
    "CarrierGatewayId", "EgressOnlyInternetGatewayId", "GatewayId", "InstanceId", "NatGatewayId", "NetworkInterfaceId",
    "TransitGatewayId", "VpcEndpointId", "VpcPeeringConnectionId",
)  # fmt: skip
_ROUTE_DESTINATIONS = ("DestinationCidrBlock", "DestinationIpv6CidrBlock", "DestinationPrefixListId")


class Route(Provider):
    """AWS::EC2::Route."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the route."""
        context.client("ec2").create_route(**_given(properties, "RouteTableId", *_ROUTE_DESTINATIONS, *_ROUTE_TARGETS))
        destination = next(properties[name] for name in _ROUTE_DESTINATIONS if name in properties)
        return Made(f"{properties['RouteTableId']}|{destination}", {"CidrBlock": destination})

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Point the route elsewhere."""
        context.client("ec2").replace_route(**_given(properties, "RouteTableId", *_ROUTE_DESTINATIONS, *_ROUTE_TARGETS))
        return Made(resource.physical_resource_id, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the route."""
        context.client("ec2").delete_route(**_given(resource.properties, "RouteTableId", *_ROUTE_DESTINATIONS))


class RouteTableAssociation(Provider):
    """AWS::EC2::SubnetRouteTableAssociation."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Associate subnet and table."""
        answer = context.client("ec2").associate_route_table(**_given(properties, "RouteTableId", "SubnetId"))
        return Made(answer["AssociationId"], {"Id": answer["AssociationId"]})

    def delete(self, context: Context, resource: Resource) -> None:
        """Take the association away."""
        context.client("ec2").disassociate_route_table(AssociationId=resource.physical_resource_id)


class ElasticIp(TaggedProvider):
    """AWS::EC2::EIP; ``Ref`` is the address."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Allocate an address."""
        tags = specification(context, properties, "elastic-ip")
        answer = context.client("ec2").allocate_address(Domain="vpc", TagSpecifications=tags)
        return Made(answer["PublicIp"], {"PublicIp": answer["PublicIp"], "AllocationId": answer["AllocationId"]})

    def tagged_id(self, resource: Resource) -> str:
        """Tags are on the allocation."""
        return str(resource.attributes["AllocationId"])

    def delete(self, context: Context, resource: Resource) -> None:
        """Release the address."""
        context.client("ec2").release_address(AllocationId=resource.attributes["AllocationId"])


class NatGateway(TaggedProvider):
    """AWS::EC2::NatGateway."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the gateway."""
        gateway = context.client("ec2").create_nat_gateway(
            **_given(properties, "SubnetId", "AllocationId", "ConnectivityType"),
            TagSpecifications=specification(context, properties, "natgateway"),
        )["NatGateway"]
        return Made(gateway["NatGatewayId"], {"NatGatewayId": gateway["NatGatewayId"]})

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the gateway, and let go of its address, which the emulated EC2 would keep."""
        ec2 = context.client("ec2")
        ec2.delete_nat_gateway(NatGatewayId=resource.physical_resource_id)
        for address in ec2.describe_addresses()["Addresses"]:
            if address.get("AllocationId") == resource.properties.get("AllocationId") and address.get("AssociationId"):
                ec2.disassociate_address(AssociationId=address["AssociationId"])


class VpcEndpoint(Provider):
    """AWS::EC2::VPCEndpoint, gateway and interface."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the endpoint."""
        self._name_prefixes(context, properties)
        endpoint = context.client("ec2").create_vpc_endpoint(
            **_given(properties, "VpcId", "ServiceName", "RouteTableIds", "SubnetIds", "SecurityGroupIds"),
            **_given(properties, "PrivateDnsEnabled"),
            VpcEndpointType=properties.get("VpcEndpointType", "Gateway"),
            **self._policy(properties),
            TagSpecifications=specification(context, properties, "vpc-endpoint"),
        )["VpcEndpoint"]
        return Made(
            endpoint["VpcEndpointId"],
            {
                "Id": endpoint["VpcEndpointId"],
                "DnsEntries": [
                    f"{entry['HostedZoneId']}:{entry['DnsName']}"
                    for entry in endpoint.get("DnsEntries", ())
                    if "HostedZoneId" in entry
                ],
                "NetworkInterfaceIds": endpoint.get("NetworkInterfaceIds", []),
                "CreationTimestamp": str(endpoint.get("CreationTimestamp", "")),
            },
        )

    def _name_prefixes(self, context: Context, properties: dict[str, Any]) -> None:
        """Give a gateway service its prefix list where moto has none: routes to two services must not be one."""
        ec2, service = context.client("ec2"), properties["ServiceName"]
        if properties.get("VpcEndpointType", "Gateway") != "Gateway":
            return
        named = [{"Name": "prefix-list-name", "Values": [service]}]
        if not ec2.describe_managed_prefix_lists(Filters=named)["PrefixLists"]:
            ec2.create_managed_prefix_list(
                PrefixListName=service,
                AddressFamily="IPv4",
                MaxEntries=1,
                Entries=[{"Cidr": "192.0.2.0/24", "Description": "documentation addresses stand in"}],
            )

    def _policy(self, properties: dict[str, Any]) -> dict[str, str]:
        policy = properties.get("PolicyDocument")
        if policy is None:
            return {}
        return {"PolicyDocument": policy if isinstance(policy, str) else json.dumps(policy)}

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Change routes, subnets, groups, policy and tags."""
        changes: dict[str, Any] = {}
        for name in ("RouteTableIds", "SubnetIds", "SecurityGroupIds"):
            before, after = set(resource.properties.get(name) or ()), set(properties.get(name) or ())
            if after - before:
                changes[f"Add{name}"] = sorted(after - before)
            if before - after:
                changes[f"Remove{name}"] = sorted(before - after)
        context.client("ec2").modify_vpc_endpoint(
            VpcEndpointId=resource.physical_resource_id, **changes, **self._policy(properties)
        )
        retag(context, resource.physical_resource_id, resource.properties, properties)
        return Made(resource.physical_resource_id, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the endpoint."""
        answer = context.client("ec2").delete_vpc_endpoints(VpcEndpointIds=[resource.physical_resource_id])
        for failure in answer.get("Unsuccessful", ()):
            raise ResourceError(str(failure.get("Error", {}).get("Message", failure)))


class FlowLog(TaggedProvider):
    """AWS::EC2::FlowLog."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the flow log."""
        answer = context.client("ec2").create_flow_logs(
            ResourceIds=[properties["ResourceId"]],
            **_given(properties, "ResourceType", "TrafficType", "LogDestinationType", "LogDestination", "LogGroupName"),
            **_given(properties, "DeliverLogsPermissionArn", "MaxAggregationInterval", "LogFormat"),
            TagSpecifications=specification(context, properties, "vpc-flow-log"),
        )
        for failure in answer.get("Unsuccessful", ()):
            raise ResourceError(str(failure["Error"]["Message"]))
        return Made(answer["FlowLogIds"][0], {"Id": answer["FlowLogIds"][0]})

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the flow log."""
        context.client("ec2").delete_flow_logs(FlowLogIds=[resource.physical_resource_id])


PROVIDERS: dict[str, type[Provider]] = {
    "AWS::EC2::EIP": ElasticIp,
    "AWS::EC2::FlowLog": FlowLog,
    "AWS::EC2::InternetGateway": InternetGateway,
    "AWS::EC2::NatGateway": NatGateway,
    "AWS::EC2::Route": Route,
    "AWS::EC2::RouteTable": RouteTable,
    "AWS::EC2::Subnet": Subnet,
    "AWS::EC2::SubnetRouteTableAssociation": RouteTableAssociation,
    "AWS::EC2::VPC": Vpc,
    "AWS::EC2::VPCEndpoint": VpcEndpoint,
    "AWS::EC2::VPCGatewayAttachment": GatewayAttachment,
}
