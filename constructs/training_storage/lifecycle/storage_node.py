"""``StorageNode``: one small instance, started when a file system has to be looked at and no fleet is there."""

from __future__ import annotations

from typing import Final

import aws_cdk as cdk
import jsii
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from training_storage import _nag
from training_storage._arguments import SUBNET, TEXT, USER_DATA, VPC, WHOLE, misfits_among
from training_storage._tokens import is_concrete
from training_storage.errors import Problem, ValidationError
from training_storage.lifecycle._names import name_problems

WORKLOAD_TAG: Final = "training-storage:workload"
ROLE_TAG: Final = "training-storage:role"
ROLE: Final = "storage-node"
"""Value of ``ROLE_TAG``, and the end of the group's name."""

DEFAULT_INSTANCE_TYPE: Final = "m6i.large"
"""Two vCPUs and 8 GiB, up to 12.5 Gbit/s: a walk over a file system waits for metadata, not for this. Our choice."""
DEFAULT_IMAGE: Final = "ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-6.1-x86_64"
"""Amazon Linux 2023 with the kernel that its own Lustre client is built for."""
DEFAULT_ROOT_VOLUME_GIB: Final = 30

_KINDS: Final = {
    "workload": TEXT,
    "vpc": VPC,
    "subnet": SUBNET,
    "user_data": USER_DATA,
    "instance_type": TEXT,
    "image": TEXT,
    "root_volume_gib": WHOLE,
}


@jsii.implements(ec2.IConnectable, iam.IGrantable)
class StorageNode(Construct):
    """A launch template and an empty Auto Scaling group, ``NAME-storage-node``: deploying it starts nothing.

    A release that finds no node of the fleet sets the group to one instance, which mounts the file system and answers
    through Systems Manager, and back to none. It has no rights of its own: give its role what the mounts need.

    Example:
        >>> node = StorageNode(stack, "StorageNode", workload="run1", vpc=vpc, subnet=subnet, user_data=user_data)
        >>> node_storage.attach(client=node, grantee=node)

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        workload: Name of the workload; the group is named after it, and instances carry it as a tag.
        vpc: VPC of the subnet.
        subnet: The one subnet, that of the file system.
        user_data: What the instance runs at its first boot. Nobody waits for a signal from it.
        instance_type: EC2 name. Left out: m6i.large.
        image: ``ami-...``, or ``ssm:/parameter/name``, which EC2 looks up at each launch. Left out: Amazon Linux 2023.
        root_volume_gib: Root volume in GiB, encrypted gp3. Left out: 30.

    Raises:
        ValidationError: An argument is of another kind, or the name is none of a workload.

    Attributes:
        auto_scaling_group: The group.
        launch_template: Its launch template.
        role: Role of the instance.
        security_group: Group of the instance, open to the outside.
        user_data: As given; commands added later run after those of before.
        connections: Lets the instance into a file system.
        grant_principal: The role.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        workload: str,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        user_data: ec2.UserData,
        instance_type: str = DEFAULT_INSTANCE_TYPE,
        image: str = DEFAULT_IMAGE,
        root_volume_gib: int = DEFAULT_ROOT_VOLUME_GIB,
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        problems = misfits_among(_KINDS, locals())
        if problems := problems or [*name_problems(workload), *_image_problems(image)]:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)
        self.user_data = user_data
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
        self.security_group = ec2.SecurityGroup(
            self, "SecurityGroup", vpc=vpc, description="Storage node", allow_all_outbound=True
        )
        self._connections = ec2.Connections(security_groups=[self.security_group])
        self.launch_template = ec2.CfnLaunchTemplate(
            self,
            "LaunchTemplate",
            launch_template_data=ec2.CfnLaunchTemplate.LaunchTemplateDataProperty(
                instance_type=instance_type,
                image_id=f"resolve:{image}" if is_concrete(image) and image.startswith("ssm:") else image,
                user_data=cdk.Fn.base64(cdk.Lazy.uncached_string(_Rendered(user_data))),
                iam_instance_profile=ec2.CfnLaunchTemplate.IamInstanceProfileProperty(
                    arn=iam.InstanceProfile(self, "InstanceProfile", role=self.role).instance_profile_arn
                ),
                metadata_options=ec2.CfnLaunchTemplate.MetadataOptionsProperty(
                    http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1
                ),
                block_device_mappings=[
                    ec2.CfnLaunchTemplate.BlockDeviceMappingProperty(
                        device_name="/dev/xvda",
                        ebs=ec2.CfnLaunchTemplate.EbsProperty(
                            encrypted=True, volume_type="gp3", volume_size=root_volume_gib, delete_on_termination=True
                        ),
                    )
                ],
                security_group_ids=[self.security_group.security_group_id],
            ),
        )
        self.auto_scaling_group = autoscaling.CfnAutoScalingGroup(
            self,
            "Resource",
            auto_scaling_group_name=f"{workload}-{ROLE}",
            vpc_zone_identifier=[subnet.subnet_id],
            launch_template=autoscaling.CfnAutoScalingGroup.LaunchTemplateSpecificationProperty(
                launch_template_id=self.launch_template.ref,
                version=self.launch_template.attr_latest_version_number,
            ),
            min_size="0",
            max_size="1",
            desired_capacity="0",
            health_check_type="EC2",
        )
        # A deploy must not end the instance of a release that is under way.
        self.auto_scaling_group.cfn_options.update_policy = cdk.CfnUpdatePolicy(
            auto_scaling_scheduled_action=cdk.CfnAutoScalingScheduledAction(
                ignore_unmodified_group_size_properties=True
            )
        )
        for key, value in (("Name", f"{workload}-{ROLE}"), (WORKLOAD_TAG, workload), (ROLE_TAG, ROLE)):
            cdk.Tags.of(self.auto_scaling_group).add(key, value)
        _nag.acknowledge(
            self.auto_scaling_group, "AS3", "one instance at most, and the release that starts it waits for its answer"
        )

    # jsii sees properties of the class, not attributes of the instance: these two are read from the other side.
    @property
    def connections(self) -> ec2.Connections:
        """Group of the instance."""
        return self._connections

    @property
    def grant_principal(self) -> iam.IPrincipal:
        """The role of the instance."""
        return self.role.grant_principal

    @property
    def auto_scaling_group_name(self) -> str:
        """Name of the group."""
        return self.auto_scaling_group.ref


@jsii.implements(cdk.IStringProducer)
class _Rendered:
    """User data as it is at synth, with commands that were added after the construct was made."""

    def __init__(self, user_data: ec2.UserData) -> None:
        self._user_data = user_data

    def produce(self, _context: cdk.IResolveContext) -> str:
        return self._user_data.render()


def _image_problems(image: str) -> list[Problem]:
    if not is_concrete(image) or image.startswith(("ami-", "ssm:/")):
        return []
    return [
        Problem(
            what="not an image",
            path="image",
            value=image,
            allowed="ami-..., or ssm:/parameter/name",
            fix="leave it out for Amazon Linux 2023",
        )
    ]
