"""The network of the reference stacks: one VPC with one private subnet in one zone, or a VPC that is already there.

Other constructs only take a VPC and a subnet; this one makes them, on L1, because only there can a subnet be pinned by
zone ID, and because an L2 VPC brings a custom resource into the template.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Literal

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from training_storage._arguments import FLAG, TEXT, TEXTS, misfits, optional
from training_storage._tokens import concrete, is_concrete
from training_storage.compute.texts import name_tag
from training_storage.errors import ValidationError
from training_storage.rules.base import find_problems
from training_storage.rules.network import (
    INTERFACE_ENDPOINTS,
    NETWORK_RULES,
    PRIVATE_PREFIX_LENGTH,
    PUBLIC_PREFIX_LENGTH,
    NetworkSettings,
)

Internet = Literal["nat", "none"]

_PUBLIC_SUBNET_INDEX = 64
"""The first /24 behind the private /18."""


class TrainingNetwork(Construct):
    """A VPC for one training run: a /16 with one private /18 in one zone, and with NAT one public /24.

    DNS support and DNS host names are on, because Lustre is mounted by name. S3 traffic takes a gateway endpoint, which
    costs nothing, and never the NAT gateway. The default security group stays as EC2 makes it and is used by nothing:
    its rules can only be removed by a custom resource.

    Example:
        >>> network = TrainingNetwork(stack, "Network", availability_zone_id="use1-az6")
        >>> GpuFleet(
        ...     stack, "Fleet", vpc=network.vpc, subnet=network.subnet, instance_type="g6e.48xlarge", instance_count=2
        ... )

    Args:
        scope: Scope of the construct.
        construct_id: Id in that scope.
        availability_zone_id: Zone ID such as ``use1-az6``; zone names are refused, they differ between accounts.
        internet: ``nat`` (the default) or ``none``: then interface endpoints for ssm, ssmmessages, ec2messages, logs,
            monitoring, cloudformation, kms and sts take its place.
        express: Whether S3 Express gets a gateway endpoint too. Left out: no.
        cidr: The /16. Left out: ``10.0.0.0/16``.
        flow_logs: Whether rejected traffic is logged, for a month. Left out: yes. Rejected flows show a security group
            that lacks the Lustre ports; accepted flows of a training run would be a large bill for little.

    Raises:
        ValidationError: The zone ID, the range or ``internet`` is not one of those above.

    Attributes:
        vpc: The VPC.
        subnet: The private subnet, for instances and file systems.
        availability_zone_id: As given.
        route_table_ids: Route table of the private subnet.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        availability_zone_id: str,
        internet: Internet = "nat",
        express: bool = False,
        cidr: str = "10.0.0.0/16",
        flow_logs: bool = True,
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        if wrong := misfits(
            {
                "availability_zone_id": (availability_zone_id, TEXT),
                "internet": (internet, TEXT),
                "express": (express, FLAG),
                "cidr": (cidr, TEXT),
                "flow_logs": (flow_logs, FLAG),
            }
        ):
            raise ValidationError(wrong, where=where)
        settings = NetworkSettings(
            own=True,
            availability_zone_id=concrete(availability_zone_id),
            internet=internet,
            cidr=concrete(cidr),
        )
        problems = find_problems(NETWORK_RULES, settings)
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)

        self.availability_zone_id = availability_zone_id
        private_cidr, public_cidr = _subnet_ranges(cidr)
        self._vpc = ec2.CfnVPC(self, "Resource", cidr_block=cidr, enable_dns_support=True, enable_dns_hostnames=True)
        cdk.Tags.of(self).add("Name", name_tag(self.node.path))
        private = ec2.CfnSubnet(
            self,
            "PrivateSubnet",
            vpc_id=self._vpc.ref,
            cidr_block=private_cidr,
            availability_zone_id=availability_zone_id,
            map_public_ip_on_launch=False,
        )
        private_routes = self._route_table("Private", private)
        self.route_table_ids: list[str] = [private_routes.ref]
        public, public_routes = (
            self._nat(availability_zone_id, public_cidr, private_routes) if internet == "nat" else (None, None)
        )

        self.vpc: ec2.IVpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=self._vpc.ref,
            vpc_cidr_block=cidr,
            availability_zones=[private.attr_availability_zone],
            private_subnet_ids=[private.ref],
            private_subnet_route_table_ids=[private_routes.ref],
            public_subnet_ids=[public.ref] if public else None,
            public_subnet_route_table_ids=[public_routes.ref] if public_routes else None,
        )
        self.subnet: ec2.ISubnet = self.vpc.private_subnets[0]
        add_gateway_endpoints(self, vpc_id=self._vpc.ref, route_table_ids=self.route_table_ids, express=express)
        if internet == "none":
            self._interface_endpoints(cidr)
        if flow_logs:
            self._flow_logs()

    @classmethod
    def from_attributes(
        cls,
        scope: Construct,
        construct_id: str,
        *,
        vpc_id: str,
        subnet_id: str,
        availability_zone_id: str,
        availability_zone: str | None = None,
        route_table_ids: Sequence[str] = (),
        express: bool = False,
        has_gateway_endpoints: bool = False,
    ) -> ImportedNetwork:
        """Take a VPC that is already there; see ``ImportedNetwork``."""
        return ImportedNetwork(
            scope,
            construct_id,
            vpc_id=vpc_id,
            subnet_id=subnet_id,
            availability_zone_id=availability_zone_id,
            availability_zone=availability_zone,
            route_table_ids=route_table_ids,
            express=express,
            has_gateway_endpoints=has_gateway_endpoints,
        )

    def _route_table(self, name: str, subnet: ec2.CfnSubnet) -> ec2.CfnRouteTable:
        table = ec2.CfnRouteTable(self, f"{name}RouteTable", vpc_id=self._vpc.ref)
        ec2.CfnSubnetRouteTableAssociation(
            self, f"{name}RouteTableAssociation", route_table_id=table.ref, subnet_id=subnet.ref
        )
        return table

    def _nat(
        self, availability_zone_id: str, public_cidr: str, private_routes: ec2.CfnRouteTable
    ) -> tuple[ec2.CfnSubnet, ec2.CfnRouteTable]:
        gateway = ec2.CfnInternetGateway(self, "InternetGateway")
        attachment = ec2.CfnVPCGatewayAttachment(
            self, "InternetGatewayAttachment", vpc_id=self._vpc.ref, internet_gateway_id=gateway.ref
        )
        public = ec2.CfnSubnet(
            self,
            "PublicSubnet",
            vpc_id=self._vpc.ref,
            cidr_block=public_cidr,
            availability_zone_id=availability_zone_id,
            map_public_ip_on_launch=False,
        )
        public_routes = self._route_table("Public", public)
        out = ec2.CfnRoute(
            self,
            "PublicRoute",
            route_table_id=public_routes.ref,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=gateway.ref,
        )
        address = ec2.CfnEIP(self, "NatAddress", domain="vpc")
        nat = ec2.CfnNatGateway(self, "NatGateway", subnet_id=public.ref, allocation_id=address.attr_allocation_id)
        # An address or a route made before the gateway is attached fails the stack.
        for resource in (out, address):
            resource.add_resource_dependency(attachment)
        nat.add_resource_dependency(out)
        ec2.CfnRoute(
            self,
            "PrivateRoute",
            route_table_id=private_routes.ref,
            destination_cidr_block="0.0.0.0/0",
            nat_gateway_id=nat.ref,
        )
        return public, public_routes

    def _interface_endpoints(self, cidr: str) -> None:
        group = ec2.SecurityGroup(
            self,
            "EndpointSecurityGroup",
            vpc=self.vpc,
            description="HTTPS from the VPC to the interface endpoints",
            allow_all_outbound=False,
        )
        group.add_ingress_rule(ec2.Peer.ipv4(cidr), ec2.Port.tcp(443), "HTTPS from the VPC")
        for service in INTERFACE_ENDPOINTS:
            # The L2 knows that some services have another name in aws-cn.
            ec2.InterfaceVpcEndpoint(
                self,
                f"{_SERVICE_IDS[service]}Endpoint",
                vpc=self.vpc,
                service=ec2.InterfaceVpcEndpointAwsService(service),
                subnets=ec2.SubnetSelection(subnets=[self.subnet]),
                security_groups=[group],
                open=False,
                private_dns_enabled=True,
            )

    def _flow_logs(self) -> None:
        group = logs.LogGroup(
            self, "FlowLogGroup", retention=logs.RetentionDays.ONE_MONTH, removal_policy=cdk.RemovalPolicy.DESTROY
        )
        role = iam.Role(self, "FlowLogRole", assumed_by=iam.ServicePrincipal("vpc-flow-logs.amazonaws.com"))
        policy = iam.Policy(
            self,
            "FlowLogPolicy",
            roles=[role],
            statements=[
                iam.PolicyStatement(
                    actions=["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
                    resources=[group.log_group_arn],
                )
            ],
        )
        flow_log = ec2.CfnFlowLog(
            self,
            "FlowLog",
            resource_id=self._vpc.ref,
            resource_type="VPC",
            traffic_type="REJECT",
            log_destination_type="cloud-watch-logs",
            log_group_name=group.log_group_name,
            deliver_logs_permission_arn=role.role_arn,
        )
        flow_log.node.add_dependency(policy)


_SERVICE_IDS = {
    "ssm": "Ssm",
    "ssmmessages": "SsmMessages",
    "ec2messages": "Ec2Messages",
    "logs": "Logs",
    "monitoring": "Monitoring",
    "cloudformation": "CloudFormation",
    "kms": "Kms",
    "sts": "Sts",
}


class ImportedNetwork(Construct):
    """A VPC and its one private subnet that are already there, by their ids; nothing is looked up.

    The VPC needs DNS support and DNS host names, or Lustre can't be mounted by name. Without route tables no gateway
    endpoint is made, and a warning says so: S3 traffic through a NAT gateway is charged by the gigabyte.

    Args:
        scope: Scope of the construct.
        construct_id: Id in that scope.
        vpc_id: The VPC.
        subnet_id: The private subnet.
        availability_zone_id: Zone ID of that subnet.
        availability_zone: Its zone name in this account, such as ``us-east-1a``. Left out: not known, and the subnet's
            ``availability_zone`` can't be read.
        route_table_ids: Route tables of the subnet that get gateway endpoints for S3 (and S3 Express). Left out: no
            endpoint is made.
        express: Whether S3 Express gets a gateway endpoint too.
        has_gateway_endpoints: Say True where the VPC has its gateway endpoints already; this silences the warning.

    Raises:
        ValidationError: ``availability_zone_id`` is not a zone ID.

    Attributes:
        vpc: The VPC.
        subnet: The subnet.
        availability_zone_id: As given.
        route_table_ids: As given.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc_id: str,
        subnet_id: str,
        availability_zone_id: str,
        availability_zone: str | None = None,
        route_table_ids: Sequence[str] = (),
        express: bool = False,
        has_gateway_endpoints: bool = False,
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        if wrong := misfits(
            {
                "vpc_id": (vpc_id, TEXT),
                "subnet_id": (subnet_id, TEXT),
                "availability_zone_id": (availability_zone_id, TEXT),
                "availability_zone": (availability_zone, optional(TEXT)),
                "route_table_ids": (route_table_ids, TEXTS),
                "express": (express, FLAG),
                "has_gateway_endpoints": (has_gateway_endpoints, FLAG),
            }
        ):
            raise ValidationError(wrong, where=where)
        problems = find_problems(
            NETWORK_RULES, NetworkSettings(own=False, availability_zone_id=concrete(availability_zone_id))
        )
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)

        self.availability_zone_id = availability_zone_id
        self.route_table_ids: list[str] = list(route_table_ids)
        # The zones of the region stand in where the zone's name is not known: the L2 wants a list that is not empty.
        self.vpc: ec2.IVpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=vpc_id,
            availability_zones=[availability_zone] if availability_zone else cdk.Fn.get_azs(),
        )
        cdk.Annotations.of(self.vpc).acknowledge_warning(
            "@aws-cdk/aws-ec2:vpcAttributeIsListTokenavailabilityZones", "the one subnet is given by its id"
        )
        self.subnet: ec2.ISubnet = ec2.Subnet.from_subnet_attributes(
            self,
            "Subnet",
            subnet_id=subnet_id,
            availability_zone=availability_zone,
            route_table_id=self.route_table_ids[0] if self.route_table_ids else None,
        )
        if self.route_table_ids:
            add_gateway_endpoints(self, vpc_id=vpc_id, route_table_ids=self.route_table_ids, express=express)
            return
        # Nothing of ours reads the route table of this subnet, so that warning of the L2 has no meaning here.
        cdk.Annotations.of(self.subnet).acknowledge_warning(
            "@aws-cdk/aws-ec2:noSubnetRouteTableId", "no construct of this library reads the route table"
        )
        if not has_gateway_endpoints:
            cdk.Annotations.of(self).add_warning_v2(
                "training_storage:network.noGatewayEndpoint",
                "no route tables are given, so no gateway endpoint for S3 is made; if the VPC has none, S3 traffic "
                "goes through the NAT gateway and is charged by the gigabyte. Give route_table_ids, or say "
                "has_gateway_endpoints where the VPC has its own",
            )


def add_gateway_endpoints(scope: Construct, *, vpc_id: str, route_table_ids: Sequence[str], express: bool) -> None:
    """Make the free gateway endpoint of S3, and with ``express`` that of S3 Express, on route tables."""
    services = {"S3Endpoint": "s3"} | ({"S3ExpressEndpoint": "s3express"} if express else {})
    for construct_id, service in services.items():
        ec2.CfnVPCEndpoint(
            scope,
            construct_id,
            vpc_id=vpc_id,
            vpc_endpoint_type="Gateway",
            service_name=f"com.amazonaws.{cdk.Aws.REGION}.{service}",
            route_table_ids=list(route_table_ids),
        )


def _subnet_ranges(cidr: str) -> tuple[str, str]:
    """Return the private /18 and the public /24 of a /16, also of one that is not known yet."""
    if not is_concrete(cidr):
        private = cdk.Fn.select(0, cdk.Fn.cidr(cidr, 4, str(32 - PRIVATE_PREFIX_LENGTH)))
        public = cdk.Fn.select(_PUBLIC_SUBNET_INDEX, cdk.Fn.cidr(cidr, 256, str(32 - PUBLIC_PREFIX_LENGTH)))
        return private, public
    whole = ipaddress.IPv4Network(cidr)
    private_range = next(whole.subnets(new_prefix=PRIVATE_PREFIX_LENGTH))
    public_range = list(whole.subnets(new_prefix=PUBLIC_PREFIX_LENGTH))[_PUBLIC_SUBNET_INDEX]
    return str(private_range), str(public_range)
