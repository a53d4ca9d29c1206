"""The fleet that reads the data: a launch template and an Auto Scaling group in one subnet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import aws_cdk as cdk
import constructs
import jsii
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from training_storage import _nag
from training_storage._arguments import misfits_among
from training_storage._tokens import concrete, is_concrete
from training_storage.catalog import Catalog, default_catalog
from training_storage.catalog.model import InstanceType
from training_storage.compute.bootstrap import Signal
from training_storage.compute.capacity import (
    Purchase,
    market_options,
    reservation,
    scale_down_time,
    schedule_time,
)
from training_storage.compute.efa import add_self_rules, late_group_ids, network_interfaces
from training_storage.compute.fleet_checks import (
    FLEET_KINDS,
    public_name,
    role_problems,
    seconds_of,
    shape_problems,
)
from training_storage.compute.fleet_user_data import bootstrap_user_data, bytes_of, size_before
from training_storage.compute.images import default_root_device_name, image_id
from training_storage.compute.mounts import NodeStorage
from training_storage.compute.node_rights import (
    acknowledge_node_statements,
    node_statements,
    warn_where_role_is_fixed,
)
from training_storage.compute.texts import group_description, name_tag
from training_storage.errors import ValidationError
from training_storage.rules.base import find_problems
from training_storage.rules.fleet import FLEET_RULES, FleetSettings

DEFAULT_ROOT_VOLUME_GIB = 200
"""Room for a Deep Learning image, container images and environments; our choice, not a limit of AWS."""
DEFAULT_SIGNAL_TIMEOUT_MINUTES = 60
"""No wait of ours is shorter than an hour (field report 8)."""


@jsii.implements(ec2.IConnectable, iam.IGrantable)
class GpuFleet(Construct):
    """Instances of one type, in one subnet, that boot, mount their storage, prove it, and tell the stack.

    A deploy never replaces running instances: a change of the launch template reaches the instances that start after
    it. In one stack with the network that it stands in, add ``fleet.node.add_dependency(network)``, so that nodes don't
    boot before there is a way out.

    Example:
        >>> fleet = GpuFleet(
        ...     stack, "Fleet", vpc=network.vpc, subnet=network.subnet,
        ...     instance_type="p5en.48xlarge", instance_count=64, storage=storage,
        ... )

    Args:
        scope: Scope of the construct.
        construct_id: Id in that scope.
        vpc: The VPC.
        subnet: The one subnet; with EFA a private one.
        instance_type: EC2 name such as ``p5en.48xlarge``.
        instance_count: Instances.
        max_instance_count: Largest size of the group. Left out: ``instance_count``.
        purchase: ``on-demand`` (the default), ``spot``, ``reservation`` or ``capacity-block``.
        capacity_reservation_id: The reservation or block to launch into.
        capacity_reservation_resource_group_arn: In place of the id, a resource group of reservations.
        start: Capacity block only: when the fleet scales up from 0; it must lie ahead when the stack is deployed, since
            EC2 Auto Scaling refuses a time that has passed. Left out: somebody scales it by hand.
        end: Capacity block only: when it scales down to 0. A block ends at 11:30 UTC, and EC2 starts to terminate
            instances at 11:00 (10:30 on P6e-GB200); an ``end`` within 30 minutes of that, or later, is moved to 30
            minutes before it, with a warning. Whatever is not durable by then is lost. Left out: EC2 ends the
            instances.
        placement_group: ``auto`` (the default: ``cluster`` for on-demand with EFA, otherwise ``none``), ``cluster``,
            ``none``, or a placement group that exists.
        efa: Whether nodes get EFA interfaces. Left out: yes for a type that has EFA, with two instances or more.
        type_facts: What the catalog would say about a type that it does not know; see
            ``training_storage.catalog.efa.instance_type_from_facts``. Left out: the catalog's row.
        image: ``auto`` (the default: Deep Learning Base GPU image on Amazon Linux 2023, or Neuron's), ``ami-...``, or
            ``ssm:/parameter/name``. Except for an AMI id the image is looked up by EC2 at each launch, so a node that
            is replaced may boot a newer one; to pin it, give the AMI id that the parameter names today.
        security_group: Group of the nodes. Left out: one is made, open to the outside. With EFA, rules that open all
            protocols between its members are added to it.
        role: Role of the nodes. Left out: one is made. What the nodes need is granted to it; for a role that was
            imported as not mutable a warning says what its owner must grant.
        storage: Mounts and bootstrap. Left out: nodes mount nothing.
        user_commands: Shell lines that run on each node once the storage is proven, in a shell of their own that stops
            at the first error. A node is ready when they end, so long work belongs in the background.
        user_data: User data of your own, in place of ``storage`` and ``user_commands``.
        root_volume_gib: Root volume, encrypted gp3. Left out: 200 GiB.
        root_device_name: Name of the root device in the image. Left out: ``/dev/sda1`` where the image's name has
            ``ubuntu``, else ``/dev/xvda``, as on Amazon Linux.
        signal: Whether creation waits for a signal from each node. Left out: yes; no with ``user_data``, which would
            have to send it. A capacity block starts empty, so nothing is waited for there.
        signal_timeout: How long creation waits, at most 12 hours. Left out: 60 minutes.
        catalog: Facts about types and their images. Left out: those of the package.

    Raises:
        ValidationError: Arguments that exclude each other or that EC2 would refuse; every problem at once.

    Attributes:
        auto_scaling_group: The group.
        launch_template: Its launch template.
        placement_group: The placement group made here, or None.
        role: Role of the nodes.
        security_group: Group of the nodes.
        connections: Groups added here (``add_security_group``) land on every interface.
        grant_principal: The role.
        user_data: User data as it will be; commands added here run after ours.
        efa: Whether nodes have EFA interfaces.
        facts: Row of the type; None where nothing is known.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        instance_type: str,
        instance_count: int,
        max_instance_count: int | None = None,
        purchase: Purchase = "on-demand",
        capacity_reservation_id: str | None = None,
        capacity_reservation_resource_group_arn: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        placement_group: str | ec2.IPlacementGroup = "auto",
        efa: bool | None = None,
        type_facts: InstanceType | None = None,
        image: str = "auto",
        security_group: ec2.ISecurityGroup | None = None,
        role: iam.IRole | None = None,
        storage: NodeStorage | None = None,
        user_commands: Sequence[str] = (),
        user_data: ec2.UserData | None = None,
        root_volume_gib: int = DEFAULT_ROOT_VOLUME_GIB,
        root_device_name: str | None = None,
        signal: bool | None = None,
        signal_timeout: cdk.Duration | None = None,
        catalog: Catalog | None = None,
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        if wrong := misfits_among(FLEET_KINDS, locals()):
            raise ValidationError(wrong, where=where)
        known_type, count = concrete(instance_type), concrete(instance_count)
        facts = type_facts if type_facts is not None else _row(known_type, catalog)
        if efa is None:
            # A count that is known only at deploy counts as many: EFA does no harm on one instance.
            efa = facts is not None and facts.has_efa and (count is None or count > 1)
        if placement_group == "auto":
            placement_group = "cluster" if purchase == "on-demand" and efa else "none"
        # A capacity block starts empty: its nodes boot when no stack waits any more.
        waits = purchase != "capacity-block" and (user_data is None if signal is None else signal)
        stack = cdk.Stack.of(scope)
        problems = [
            *find_problems(
                FLEET_RULES,
                FleetSettings(
                    catalog=catalog,
                    instance_type=known_type,
                    facts=facts,
                    facts_missing=facts is None and (efa or concrete(image) == "auto"),
                    instance_count=count,
                    max_instance_count=concrete(max_instance_count),
                    purchase=purchase,
                    has_reservation_id=capacity_reservation_id is not None,
                    has_reservation_group=capacity_reservation_resource_group_arn is not None,
                    capacity_reservation_id=concrete(capacity_reservation_id),
                    start=start,
                    end=end,
                    placement_group=placement_group if isinstance(placement_group, str) else "of your own",
                    efa=efa,
                    public_subnet=public_name(vpc, subnet),
                    image=concrete(image),
                    root_volume_gib=concrete(root_volume_gib),
                    signal_timeout_s=seconds_of(signal_timeout),
                    user_data_bytes=size_before(stack, storage, user_commands, user_data, signal=waits),
                ),
            ),
            *shape_problems(subnet, storage, user_commands, user_data),
            *role_problems(stack, role),
        ]
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)

        self.efa = efa
        self.facts = facts
        self.placement_group = (
            ec2.CfnPlacementGroup(self, "PlacementGroup", strategy="cluster") if placement_group == "cluster" else None
        )
        self.security_group = security_group or ec2.SecurityGroup(
            self, "SecurityGroup", vpc=vpc, description=group_description(self.node.path), allow_all_outbound=True
        )
        self._connections = ec2.Connections(security_groups=[self.security_group])
        self.role = role or iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))

        rules = add_self_rules(self, self.security_group, brought=security_group is not None) if efa else []
        if storage is not None:
            rules += storage.attach(client=self, grantee=self.role)
        policy = iam.Policy(self, "Policy", statements=node_statements(stack, signal=waits))
        # Through the role, and not by its name: a role that was imported as not to be changed stays as it is.
        self.role.attach_inline_policy(policy)
        acknowledge_node_statements(policy)
        if role is not None:
            warn_where_role_is_fixed(self, policy, storage)

        # The id of the group goes into user data as text: a reference would run in a circle.
        group_id = cdk.Lazy.uncached_string(_LogicalId(self))
        target = Signal(stack_name=stack.stack_name, logical_id=group_id) if waits else None
        self._storage = storage
        self.user_data: ec2.UserData = user_data or bootstrap_user_data(stack, storage, user_commands, target)
        self.node.add_validation(_UserDataSize(self))

        self.launch_template = ec2.CfnLaunchTemplate(
            self,
            "LaunchTemplate",
            launch_template_data=ec2.CfnLaunchTemplate.LaunchTemplateDataProperty(
                instance_type=instance_type,
                image_id=image_id(image, facts, catalog),
                user_data=cdk.Fn.base64(cdk.Lazy.uncached_string(_Rendered(self))),
                iam_instance_profile=ec2.CfnLaunchTemplate.IamInstanceProfileProperty(
                    arn=iam.InstanceProfile(self, "InstanceProfile", role=self.role).instance_profile_arn
                ),
                metadata_options=ec2.CfnLaunchTemplate.MetadataOptionsProperty(
                    http_endpoint="enabled",
                    http_tokens="required",
                    # Two hops, so that containers on the node reach the role too.
                    http_put_response_hop_limit=2,
                ),
                block_device_mappings=[
                    ec2.CfnLaunchTemplate.BlockDeviceMappingProperty(
                        device_name=root_device_name or default_root_device_name(image),
                        ebs=ec2.CfnLaunchTemplate.EbsProperty(
                            encrypted=True, volume_type="gp3", volume_size=root_volume_gib, delete_on_termination=True
                        ),
                    )
                ],
                # Groups stand on the interfaces or on the template, never on both (field report 26).
                network_interfaces=network_interfaces(facts, self.connections) if efa and facts else None,
                security_group_ids=None if efa else late_group_ids(self.connections),
                placement=_placement(placement_group, self.placement_group),
                instance_market_options=market_options(purchase),
                capacity_reservation_specification=reservation(
                    capacity_reservation_id, capacity_reservation_resource_group_arn
                ),
            ),
        )
        size = _number(instance_count)
        starts_empty = purchase == "capacity-block"
        self.auto_scaling_group = autoscaling.CfnAutoScalingGroup(
            self,
            "Resource",
            vpc_zone_identifier=[subnet.subnet_id],
            launch_template=autoscaling.CfnAutoScalingGroup.LaunchTemplateSpecificationProperty(
                launch_template_id=self.launch_template.ref,
                version=self.launch_template.attr_latest_version_number,
            ),
            min_size="0" if starts_empty else size,
            desired_capacity="0" if starts_empty else size,
            max_size=size if max_instance_count is None else _number(max_instance_count),
            health_check_type="EC2",
        )
        cdk.Tags.of(self.auto_scaling_group).add("Name", name_tag(self.node.path))
        _nag.acknowledge(
            self.auto_scaling_group,
            "AS3",
            "nodes report success or failure to the stack themselves; whom else to tell is the platform team's choice",
        )
        if waits:
            timeout = signal_timeout or cdk.Duration.minutes(DEFAULT_SIGNAL_TIMEOUT_MINUTES)
            self.auto_scaling_group.cfn_options.creation_policy = cdk.CfnCreationPolicy(
                resource_signal=cdk.CfnResourceSignal(count=instance_count, timeout=timeout.to_iso_string())
            )
        # A deploy must not undo a size that a schedule or a person has set since.
        self.auto_scaling_group.cfn_options.update_policy = cdk.CfnUpdatePolicy(
            auto_scaling_scheduled_action=cdk.CfnAutoScalingScheduledAction(
                ignore_unmodified_group_size_properties=True
            )
        )
        # Nodes boot as soon as the group is there: their rights and rules must be there before.
        self.auto_scaling_group.node.add_dependency(
            policy, self.role, self.security_group, subnet.internet_connectivity_established, *rules
        )
        if starts_empty:
            self._schedule(size, start, end)
        if is_concrete(image) and not image.startswith("ami-"):
            cdk.Annotations.of(self).add_info(
                f"image {image} is resolved by EC2 at each launch, so a node that is replaced may boot a newer image; "
                "to pin it, set image to the AMI id that the parameter names today"
            )

    # jsii sees properties of the class, not attributes of the instance: these two are read from the other side.
    @property
    def connections(self) -> ec2.Connections:
        """Groups of the nodes; groups added here land on every interface."""
        return self._connections

    @property
    def grant_principal(self) -> iam.IPrincipal:
        """The role of the nodes."""
        return self.role.grant_principal

    @property
    def auto_scaling_group_name(self) -> str:
        """Name of the Auto Scaling group."""
        return self.auto_scaling_group.ref

    def add_security_group(self, security_group: ec2.ISecurityGroup) -> None:
        """Put the nodes into one more group; with EFA it lands on every interface."""
        self.connections.add_security_group(security_group)

    def _schedule(self, size: str, start: datetime | None, end: datetime | None) -> None:
        if start is not None:
            autoscaling.CfnScheduledAction(
                self,
                "ScaleUp",
                auto_scaling_group_name=self.auto_scaling_group.ref,
                start_time=schedule_time(start),
                min_size=0,
                desired_capacity=cdk.Token.as_number(size) if not size.isdigit() else int(size),
            )
        if end is not None:
            at = scale_down_time(end, self.facts)
            autoscaling.CfnScheduledAction(
                self,
                "ScaleDown",
                auto_scaling_group_name=self.auto_scaling_group.ref,
                start_time=schedule_time(at),
                min_size=0,
                desired_capacity=0,
            )
            if at < end:
                cdk.Annotations.of(self).add_warning_v2(
                    "training_storage:fleet.capacityBlockEndMoved",
                    f"end {schedule_time(end)} is later than 30 minutes before EC2 starts to terminate the block; the "
                    f"fleet scales down at {schedule_time(at)}, and what is not durable by then is lost",
                )
        missing = [name for name, moment in (("start", start), ("end", end)) if moment is None]
        if missing:
            cdk.Annotations.of(self).add_warning_v2(
                "training_storage:fleet.capacityBlockNotScheduled",
                f"the capacity block has no {' and no '.join(missing)}: somebody has to scale the fleet by hand",
            )

    @property
    def user_data_bytes(self) -> int:
        """Bytes of the user data, counting the longest value of everything that is not known yet."""
        return bytes_of(cdk.Stack.of(self), self._storage, self.user_data)


@jsii.implements(constructs.IValidation)
class _UserDataSize:
    """Measures again at synth, after commands that were added from outside."""

    def __init__(self, fleet: GpuFleet) -> None:
        self._fleet = fleet

    def validate(self) -> list[str]:
        settings = FleetSettings(user_data_bytes=self._fleet.user_data_bytes)
        return [str(problem) for problem in find_problems(FLEET_RULES, settings)]


@jsii.implements(cdk.IStringProducer)
class _LogicalId:
    def __init__(self, fleet: GpuFleet) -> None:
        self._fleet = fleet

    def produce(self, _context: cdk.IResolveContext) -> str:
        return cdk.Stack.of(self._fleet).get_logical_id(self._fleet.auto_scaling_group)


@jsii.implements(cdk.IStringProducer)
class _Rendered:
    def __init__(self, fleet: GpuFleet) -> None:
        self._fleet = fleet

    def produce(self, _context: cdk.IResolveContext) -> str:
        return self._fleet.user_data.render()


def _row(instance_type: str | None, catalog: Catalog | None) -> InstanceType | None:
    known = (catalog or default_catalog()).instance_types
    return known.get(instance_type) if instance_type is not None else None


def _number(value: int) -> str:
    return str(value) if is_concrete(value) else cdk.Tokenization.stringify_number(value)


def _placement(
    asked: str | ec2.IPlacementGroup, made: ec2.CfnPlacementGroup | None
) -> ec2.CfnLaunchTemplate.PlacementProperty | None:
    if made is not None:
        return ec2.CfnLaunchTemplate.PlacementProperty(group_name=made.ref)
    if isinstance(asked, str):
        return None if asked == "none" else ec2.CfnLaunchTemplate.PlacementProperty(group_name=asked)
    return ec2.CfnLaunchTemplate.PlacementProperty(group_name=asked.placement_group_name)
