"""What a person writes without this library: the stacks of ``examples/llama3-70b.yaml`` by hand, in L1 constructs.

Every size is worked out on paper and typed in. It is what ``app.py`` is measured against, so it gives the same stacks
and resources with the same properties, and takes no short cut that its author would not take.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

NAME = "llama3-70b"
SCRIPTS = Path(__file__).resolve().parents[1] / "constructs" / "training_storage" / "node" / "bootstrap"
INSTANCES = 64
NETWORK_CARDS = 16


def policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def own_name(prefix: str) -> str:
    """A name that no other stack has: the last part of the stack's id is a UUID."""
    return cdk.Fn.join("-", [prefix, cdk.Fn.select(2, cdk.Fn.split("/", cdk.Aws.STACK_ID))])


def named(name: str) -> list[cdk.CfnTag]:
    return [cdk.CfnTag(key="Name", value=name)]


class Lake(cdk.Stack):
    def __init__(self, scope: Construct, **kwargs: Any) -> None:
        super().__init__(scope, f"{NAME}-lake", description=f"Data lake of {NAME}, kept for years", **kwargs)
        name = own_name(f"{NAME}-lake-20577f52")
        arn = f"arn:aws:s3:::{name}"
        self.key = kms.CfnKey(
            self,
            "Key",
            description=f"Data lake {NAME}-lake/DataLake",
            enable_key_rotation=True,
            key_policy=policy(
                {
                    "Effect": "Allow",
                    "Principal": {"AWS": f"arn:aws:iam::{cdk.Aws.ACCOUNT_ID}:root"},
                    "Action": "kms:*",
                    "Resource": "*",
                },
                {
                    "Sid": "FsxLinkedFileSystems",
                    "Effect": "Allow",
                    "Principal": {"AWS": "*"},
                    "Action": [
                        "kms:Decrypt",
                        "kms:DescribeKey",
                        "kms:Encrypt",
                        "kms:GenerateDataKey*",
                        "kms:ReEncrypt*",
                    ],
                    "Resource": "*",
                    "Condition": {
                        "StringEquals": {
                            "kms:CallerAccount": cdk.Aws.ACCOUNT_ID,
                            "kms:ViaService": f"s3.us-east-1.{cdk.Aws.URL_SUFFIX}",
                        },
                        "StringLike": {"kms:EncryptionContext:aws:s3:arn": [arn, f"{arn}/*"]},
                        "ArnLike": {
                            "aws:PrincipalArn": f"arn:aws:iam::{cdk.Aws.ACCOUNT_ID}:role/aws-service-role/"
                            "s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_*"
                        },
                    },
                },
            ),
        )
        self.key.apply_removal_policy(cdk.RemovalPolicy.RETAIN)
        bucket = s3.CfnBucket
        self.bucket = bucket(
            self,
            "Bucket",
            bucket_name=name,
            bucket_encryption=bucket.BucketEncryptionProperty(
                server_side_encryption_configuration=[
                    bucket.ServerSideEncryptionRuleProperty(
                        bucket_key_enabled=True,
                        server_side_encryption_by_default=bucket.ServerSideEncryptionByDefaultProperty(
                            sse_algorithm="aws:kms", kms_master_key_id=self.key.attr_arn
                        ),
                    )
                ]
            ),
            public_access_block_configuration=bucket.PublicAccessBlockConfigurationProperty(
                block_public_acls=True, block_public_policy=True, ignore_public_acls=True, restrict_public_buckets=True
            ),
            ownership_controls=bucket.OwnershipControlsProperty(
                rules=[bucket.OwnershipControlsRuleProperty(object_ownership="BucketOwnerEnforced")]
            ),
            versioning_configuration=bucket.VersioningConfigurationProperty(status="Enabled"),
            notification_configuration=bucket.NotificationConfigurationProperty(
                event_bridge_configuration=bucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
            ),
            lifecycle_configuration=bucket.LifecycleConfigurationProperty(
                rules=[
                    bucket.RuleProperty(
                        id="incomplete-uploads",
                        status="Enabled",
                        abort_incomplete_multipart_upload=bucket.AbortIncompleteMultipartUploadProperty(
                            days_after_initiation=7
                        ),
                    ),
                    bucket.RuleProperty(
                        id="checkpoints-to-infrequent-access",
                        status="Enabled",
                        prefix="checkpoints/",
                        transitions=[bucket.TransitionProperty(storage_class="STANDARD_IA", transition_in_days=30)],
                    ),
                    bucket.RuleProperty(id="logs", status="Enabled", prefix="logs/", expiration_in_days=180),
                    bucket.RuleProperty(
                        id="noncurrent-versions",
                        status="Enabled",
                        expired_object_delete_marker=True,
                        noncurrent_version_expiration=bucket.NoncurrentVersionExpirationProperty(noncurrent_days=30),
                    ),
                ]
            ),
        )
        self.bucket.apply_removal_policy(cdk.RemovalPolicy.RETAIN)
        s3.CfnBucketPolicy(
            self,
            "BucketPolicy",
            bucket=self.bucket.ref,
            policy_document=policy(
                {
                    "Effect": "Deny",
                    "Principal": {"AWS": "*"},
                    "Action": "s3:*",
                    "Resource": [self.bucket.attr_arn, f"{self.bucket.attr_arn}/*"],
                    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                }
            ),
        ).apply_removal_policy(cdk.RemovalPolicy.RETAIN)
        cdk.CfnOutput(self, "DataLakeBucketName", value=self.bucket.ref)


class Network(cdk.Stack):
    def __init__(self, scope: Construct, **kwargs: Any) -> None:
        super().__init__(scope, f"{NAME}-network", description=f"Network of {NAME}", **kwargs)
        tags = named(f"{NAME}-network/Network")
        self.vpc = ec2.CfnVPC(
            self, "Vpc", cidr_block="10.0.0.0/16", enable_dns_hostnames=True, enable_dns_support=True, tags=tags
        )
        self.subnet, private = self._subnet("Private", "10.0.0.0/18", tags)
        gateway = ec2.CfnInternetGateway(self, "InternetGateway", tags=tags)
        attachment = ec2.CfnVPCGatewayAttachment(
            self, "InternetGatewayAttachment", vpc_id=self.vpc.ref, internet_gateway_id=gateway.ref
        )
        public_subnet, public = self._subnet("Public", "10.0.64.0/24", tags)
        outward = ec2.CfnRoute(
            self,
            "PublicRoute",
            route_table_id=public.ref,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=gateway.ref,
        )
        outward.add_resource_dependency(attachment)
        address = ec2.CfnEIP(self, "NatAddress", domain="vpc", tags=tags)
        address.add_resource_dependency(attachment)
        nat = ec2.CfnNatGateway(
            self, "NatGateway", allocation_id=address.attr_allocation_id, subnet_id=public_subnet.ref, tags=tags
        )
        nat.add_resource_dependency(outward)
        ec2.CfnRoute(
            self,
            "PrivateRoute",
            route_table_id=private.ref,
            destination_cidr_block="0.0.0.0/0",
            nat_gateway_id=nat.ref,
        )
        ec2.CfnVPCEndpoint(
            self,
            "S3Endpoint",
            vpc_id=self.vpc.ref,
            vpc_endpoint_type="Gateway",
            service_name=f"com.amazonaws.{cdk.Aws.REGION}.s3",
            route_table_ids=[private.ref],
            tags=tags,
        )
        log_group = logs.CfnLogGroup(self, "FlowLogGroup", retention_in_days=30, tags=tags)
        log_group.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
        role = iam.CfnRole(
            self,
            "FlowLogRole",
            assume_role_policy_document=policy(
                {
                    "Effect": "Allow",
                    "Principal": {"Service": "vpc-flow-logs.amazonaws.com"},
                    "Action": "sts:AssumeRole",
                }
            ),
            tags=tags,
        )
        rights = iam.CfnPolicy(
            self,
            "FlowLogPolicy",
            policy_name="FlowLogPolicy",
            roles=[role.ref],
            policy_document=policy(
                {
                    "Effect": "Allow",
                    "Action": ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
                    "Resource": log_group.attr_arn,
                }
            ),
        )
        flow_log = ec2.CfnFlowLog(
            self,
            "FlowLog",
            resource_id=self.vpc.ref,
            resource_type="VPC",
            traffic_type="REJECT",
            log_destination_type="cloud-watch-logs",
            log_group_name=log_group.ref,
            deliver_logs_permission_arn=role.attr_arn,
            tags=tags,
        )
        flow_log.add_resource_dependency(rights)

    def _subnet(self, name: str, cidr: str, tags: list[cdk.CfnTag]) -> tuple[ec2.CfnSubnet, ec2.CfnRouteTable]:
        subnet = ec2.CfnSubnet(
            self,
            f"{name}Subnet",
            vpc_id=self.vpc.ref,
            cidr_block=cidr,
            availability_zone_id="use1-az6",
            map_public_ip_on_launch=False,
            tags=tags,
        )
        table = ec2.CfnRouteTable(self, f"{name}RouteTable", vpc_id=self.vpc.ref, tags=tags)
        ec2.CfnSubnetRouteTableAssociation(
            self, f"{name}RouteTableAssociation", subnet_id=subnet.ref, route_table_id=table.ref
        )
        return subnet, table


class Hot(cdk.Stack):
    def __init__(self, scope: Construct, *, lake: Lake, network: Network, **kwargs: Any) -> None:
        super().__init__(scope, f"{NAME}-hot", description=f"Hot tier of {NAME}, for one run", **kwargs)
        self.add_stack_dependency(lake)
        self.group = ec2.CfnSecurityGroup(
            self,
            "SecurityGroup",
            group_description="Lustre file system",
            vpc_id=network.vpc.ref,
            security_group_egress=[
                ec2.CfnSecurityGroup.EgressProperty(
                    ip_protocol="icmp",
                    cidr_ip="255.255.255.255/32",
                    from_port=252,
                    to_port=86,
                    description="Disallow all traffic",
                )
            ],
        )
        group_id = self.group.attr_group_id
        log_group = logs.CfnLogGroup(
            self, "LogGroup", log_group_name=f"/aws/fsx/{own_name(f'{NAME}-hot-ada7258b')}", retention_in_days=180
        )
        ingress = ec2.CfnSecurityGroupIngress(
            self,
            "SelfIngress",
            group_id=group_id,
            source_security_group_id=group_id,
            ip_protocol="-1",
            description="Lustre, among servers",
        )
        egress = ec2.CfnSecurityGroupEgress(
            self,
            "SelfEgress",
            group_id=group_id,
            destination_security_group_id=group_id,
            ip_protocol="-1",
            description="Lustre, among servers",
        )
        lustre = fsx.CfnFileSystem
        self.file_system = lustre(
            self,
            "FileSystem",
            file_system_type="LUSTRE",
            file_system_type_version="2.15",
            storage_type="SSD",
            storage_capacity=67200,
            subnet_ids=[network.subnet.ref],
            security_group_ids=[group_id],
            lustre_configuration=lustre.LustreConfigurationProperty(
                deployment_type="PERSISTENT_2",
                per_unit_storage_throughput=500,
                efa_enabled=True,
                data_compression_type="LZ4",
                weekly_maintenance_start_time="7:04:00",
                metadata_configuration=lustre.MetadataConfigurationProperty(mode="AUTOMATIC"),
                log_configuration=lustre.LogConfigurationProperty(
                    level="WARN_ERROR",
                    destination=f"arn:aws:logs:us-east-1:{cdk.Aws.ACCOUNT_ID}:log-group:{log_group.ref}",
                ),
            ),
        )
        for rule in (ingress, egress):
            self.file_system.add_resource_dependency(rule)
        datasets = fsx.CfnDataRepositoryAssociation(
            self,
            "LinkDatasets",
            file_system_id=self.file_system.ref,
            file_system_path="/datasets",
            data_repository_path=f"s3://{lake.bucket.ref}/datasets/v3/",
            batch_import_meta_data_on_create=True,
            s3=fsx.CfnDataRepositoryAssociation.S3Property(
                auto_import_policy=fsx.CfnDataRepositoryAssociation.AutoImportPolicyProperty(events=["NEW", "CHANGED"])
            ),
        )
        checkpoints = fsx.CfnDataRepositoryAssociation(
            self,
            "LinkCheckpoints",
            file_system_id=self.file_system.ref,
            file_system_path="/checkpoints",
            data_repository_path=f"s3://{lake.bucket.ref}/checkpoints/",
            batch_import_meta_data_on_create=True,
        )
        checkpoints.add_resource_dependency(datasets)
        for resource in (self.group, log_group, ingress, egress, datasets, checkpoints):
            resource.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
        self.file_system.cfn_options.deletion_policy = cdk.CfnDeletionPolicy.DELETE
        self.file_system.cfn_options.update_replace_policy = cdk.CfnDeletionPolicy.RETAIN
        cdk.CfnOutput(self, "FileSystemId", value=self.file_system.ref)
        cdk.CfnOutput(self, "FileSystemMountName", value=self.file_system.attr_lustre_mount_name)
        cdk.CfnOutput(self, "FileSystemDnsName", value=self.file_system.attr_dns_name)
        cdk.CfnOutput(self, "AssociationDatasetsId", value=datasets.attr_association_id)
        cdk.CfnOutput(self, "AssociationCheckpointsId", value=checkpoints.attr_association_id)


class Compute(cdk.Stack):
    def __init__(self, scope: Construct, *, lake: Lake, network: Network, hot: Hot, **kwargs: Any) -> None:
        super().__init__(scope, f"{NAME}-compute", description=f"GPU fleet of {NAME}, for one run", **kwargs)
        scripts = assets.Asset(self, "Scripts", path=str(SCRIPTS))
        placement = ec2.CfnPlacementGroup(self, "PlacementGroup", strategy="cluster")
        group = ec2.CfnSecurityGroup(
            self,
            "SecurityGroup",
            group_description=f"Nodes of {NAME}-compute/Fleet",
            vpc_id=network.vpc.ref,
            security_group_egress=[
                ec2.CfnSecurityGroup.EgressProperty(
                    ip_protocol="-1", cidr_ip="0.0.0.0/0", description="Allow all outbound traffic by default"
                )
            ],
        )
        role = iam.CfnRole(
            self,
            "Role",
            assume_role_policy_document=policy(
                {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
            ),
        )
        storage = iam.CfnPolicy(
            self,
            "StoragePolicy",
            policy_name="Storage",
            roles=[role.ref],
            policy_document=policy(
                {
                    "Effect": "Allow",
                    "Action": "s3:GetObject",
                    "Resource": [
                        f"arn:aws:s3:::{scripts.s3_bucket_name}/{scripts.s3_object_key}",
                        f"{lake.bucket.attr_arn}/*",
                    ],
                },
                {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": lake.bucket.attr_arn},
                {"Effect": "Allow", "Action": "kms:Decrypt", "Resource": lake.key.attr_arn},
            ),
        )
        node = iam.CfnPolicy(
            self,
            "NodePolicy",
            policy_name="Node",
            roles=[role.ref],
            policy_document=policy(
                {
                    "Effect": "Allow",
                    "Action": "ssm:UpdateInstanceInformation",
                    "Resource": f"arn:aws:ec2:us-east-1:{cdk.Aws.ACCOUNT_ID}:instance/*",
                },
                {
                    "Effect": "Allow",
                    "Action": [
                        "ec2messages:AcknowledgeMessage",
                        "ec2messages:DeleteMessage",
                        "ec2messages:FailMessage",
                        "ec2messages:GetEndpoint",
                        "ec2messages:GetMessages",
                        "ec2messages:SendReply",
                        "ssmmessages:CreateControlChannel",
                        "ssmmessages:CreateDataChannel",
                        "ssmmessages:OpenControlChannel",
                        "ssmmessages:OpenDataChannel",
                    ],
                    "Resource": "*",
                },
                {"Effect": "Allow", "Action": "cloudformation:SignalResource", "Resource": cdk.Aws.STACK_ID},
            ),
        )
        profile = iam.CfnInstanceProfile(self, "InstanceProfile", roles=[role.ref])
        rules: list[cdk.CfnResource] = []
        own, servers = group.attr_group_id, hot.group.attr_group_id
        for name, target, peer, description in (
            ("Efa", own, own, "EFA between the nodes"),
            ("FileSystem", own, servers, "Lustre, between the nodes and the servers"),
            ("Client", servers, own, "Lustre, between a client and the servers"),
        ):
            rules.append(
                ec2.CfnSecurityGroupIngress(
                    self,
                    f"{name}Ingress",
                    group_id=target,
                    source_security_group_id=peer,
                    ip_protocol="-1",
                    description=description,
                )
            )
            rules.append(
                ec2.CfnSecurityGroupEgress(
                    self,
                    f"{name}Egress",
                    group_id=target,
                    destination_security_group_id=peer,
                    ip_protocol="-1",
                    description=description,
                )
            )
        fleet_id = "Fleet"
        make = ec2.CfnLaunchTemplate
        interfaces = [(0, 0, "interface"), (0, 1, "efa-only")]
        interfaces += [(card, 0, "efa-only") for card in range(1, NETWORK_CARDS)]
        template = make(
            self,
            "LaunchTemplate",
            launch_template_data=make.LaunchTemplateDataProperty(
                instance_type="p5en.48xlarge",
                image_id="resolve:ssm:/aws/service/deeplearning/ami/x86_64/"
                "base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id",
                iam_instance_profile=make.IamInstanceProfileProperty(arn=profile.attr_arn),
                placement=make.PlacementProperty(group_name=placement.ref),
                metadata_options=make.MetadataOptionsProperty(
                    http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=2
                ),
                block_device_mappings=[
                    make.BlockDeviceMappingProperty(
                        device_name="/dev/xvda",
                        ebs=make.EbsProperty(
                            delete_on_termination=True, encrypted=True, volume_size=200, volume_type="gp3"
                        ),
                    )
                ],
                network_interfaces=[
                    make.NetworkInterfaceProperty(
                        network_card_index=card,
                        device_index=device,
                        interface_type=kind,
                        groups=[own],
                        delete_on_termination=True,
                    )
                    for card, device, kind in interfaces
                ],
                user_data=cdk.Fn.base64(user_data(scripts, lake, hot, fleet_id)),
            ),
        )
        self.fleet = autoscaling.CfnAutoScalingGroup(
            self,
            fleet_id,
            min_size=str(INSTANCES),
            max_size=str(INSTANCES),
            desired_capacity=str(INSTANCES),
            health_check_type="EC2",
            vpc_zone_identifier=[network.subnet.ref],
            launch_template=autoscaling.CfnAutoScalingGroup.LaunchTemplateSpecificationProperty(
                launch_template_id=template.ref, version=template.attr_latest_version_number
            ),
            tags=[
                autoscaling.CfnAutoScalingGroup.TagPropertyProperty(
                    key="Name", value=f"{NAME}-compute/Fleet", propagate_at_launch=True
                )
            ],
        )
        self.fleet.cfn_options.creation_policy = cdk.CfnCreationPolicy(
            resource_signal=cdk.CfnResourceSignal(count=INSTANCES, timeout="PT1H")
        )
        self.fleet.cfn_options.update_policy = cdk.CfnUpdatePolicy(
            auto_scaling_scheduled_action=cdk.CfnAutoScalingScheduledAction(
                ignore_unmodified_group_size_properties=True
            )
        )
        for resource in (role, storage, node, group, *rules):
            self.fleet.add_resource_dependency(resource)
        cdk.CfnOutput(self, "AutoScalingGroupName", value=self.fleet.ref)


def user_data(scripts: assets.Asset, lake: Lake, hot: Hot, fleet_id: str) -> str:
    bucket = lake.bucket.ref
    return f"""#!/bin/bash
umask 022
TS_ETC="${{TS_ROOT:-}}/etc/training-storage"; TS_OPT="${{TS_ROOT:-}}/opt/training-storage"
mkdir -p "$TS_ETC/mounts.d" "$TS_OPT"
cat >"$TS_ETC/settings" <<'TS_END'
TS_REGION=us-east-1
TS_SCRIPTS_BUCKET='{scripts.s3_bucket_name}'
TS_SCRIPTS_KEY={scripts.s3_object_key}
TS_MOUNTPOINTS=1
TS_STACK_NAME={NAME}-compute
TS_LOGICAL_ID='{fleet_id}'
TS_END
cat >"$TS_ETC/mounts.d/fsx" <<'TS_END'
KIND=lustre
MOUNT_PATH=/fsx
FILE_SYSTEM_ID='{hot.file_system.ref}'
DNS_NAME='{hot.file_system.attr_dns_name}'
MOUNT_NAME='{hot.file_system.attr_lustre_mount_name}'
EFA=yes
ON_TCP=report
CHECKPOINTS=checkpoints
SCRATCH=scratch
TS_END
cat >"$TS_ETC/mounts.d/lake" <<'TS_END'
KIND=mountpoint
MOUNT_PATH=/lake
BUCKET='{bucket}'
BUCKET_REGION=us-east-1
READ_ONLY=yes
THROUGHPUT_GBPS=100
OWNER_UID=1000
OWNER_GID=1000
FILE_MODE=0644
DIR_MODE=0755
TS_END
cat >"$TS_ETC/env" <<'TS_END'
TRAINING_STORAGE_REGION=us-east-1
TRAINING_STORAGE_MOUNT_FSX=/fsx
TRAINING_STORAGE_MOUNT_LAKE=/lake
TRAINING_STORAGE_WORKLOAD={NAME}
TRAINING_STORAGE_DATASETS=/fsx/datasets
TRAINING_STORAGE_CHECKPOINTS=/fsx/checkpoints
TRAINING_STORAGE_SCRATCH=/fsx/scratch
TRAINING_STORAGE_DATA_LAKE_URI=s3://{bucket}/
TRAINING_STORAGE_DATASETS_URI=s3://{bucket}/datasets/v3/
TRAINING_STORAGE_CHECKPOINTS_URI=s3://{bucket}/checkpoints/
TS_END
cat >"$TS_OPT/start.sh" <<'TS_END'
#!/bin/bash
TS_ETC="${{TS_ROOT:-}}/etc/training-storage"; TS_OPT="${{TS_ROOT:-}}/opt/training-storage"
. "$TS_ETC/settings"
# A role made in the same stack needs some seconds until S3 knows it, hence the tries.
for try in 1 2 3 4 5 6; do
  if aws s3 cp --only-show-errors --region "$TS_REGION" "s3://$TS_SCRIPTS_BUCKET/$TS_SCRIPTS_KEY" \\
    "$TS_OPT/scripts.zip" && python3 -m zipfile -e "$TS_OPT/scripts.zip" "$TS_OPT/scripts"; then
    exec bash "$TS_OPT/scripts/bootstrap.sh"
  fi
  sleep "$((try * ${{TS_RETRY_DELAY:-5}}))"
done
echo "training-storage: cannot fetch s3://$TS_SCRIPTS_BUCKET/$TS_SCRIPTS_KEY" >&2
MD=http://169.254.169.254/latest
TS_TOKEN=$(curl -sf -m 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$MD/api/token")
TS_ID=$(curl -sf -m 5 -H "X-aws-ec2-metadata-token: $TS_TOKEN" "$MD/meta-data/instance-id")
aws cloudformation signal-resource --region "$TS_REGION" --stack-name "$TS_STACK_NAME" \\
  --logical-resource-id "$TS_LOGICAL_ID" --unique-id "$TS_ID" --status FAILURE \\
  || echo "training-storage: no stack waits for this node" >&2
exit 1
TS_END
bash "$TS_OPT/start.sh" || exit 1"""


class Monitoring(cdk.Stack):
    def __init__(self, scope: Construct, *, lake: Lake, hot: Hot, compute: Compute, **kwargs: Any) -> None:
        super().__init__(scope, f"{NAME}-monitoring", description=f"Dashboard of {NAME}, for one run", **kwargs)
        fs, bucket, group = hot.file_system.ref, lake.bucket.ref, compute.fleet.ref
        widgets = [
            widget(
                (0, 0),
                "File system throughput",
                [
                    *computed("dataReadBytes / 60000000", "read", 60, "Sum", "AWS/FSx", "FileSystemId", fs),
                    *computed("dataWriteBytes / 60000000", "written", 60, "Sum", "AWS/FSx", "FileSystemId", fs),
                ],
                unit="MB/s",
                lines=[
                    (12800, "#7f7f7f", "planned read demand"),
                    (32812.5, "#d62728", "planned throughput"),
                ],
            ),
            widget(
                (8, 0),
                "Metadata operations",
                computed("metadataOperations / 60", "operations", 60, "Sum", "AWS/FSx", "FileSystemId", fs),
                unit="1/s",
                lines=[(50, "#7f7f7f", "planned file opens")],
            ),
            widget(
                (16, 0),
                "Client connections",
                [["AWS/FSx", "ClientConnections", "FileSystemId", fs, {"period": 60, "stat": "Sum"}]],
                unit="clients",
                lines=[(INSTANCES, "#7f7f7f", "instances")],
            ),
            widget(
                (0, 6),
                "Free space on the fullest storage target",
                computed("freeDataStorageCapacity / 1073741824", "free", 60, "Minimum", "AWS/FSx", "FileSystemId", fs),
                unit="GiB",
            ),
            widget(
                (8, 6),
                "Oldest change waiting in the S3 link",
                [
                    [
                        "AWS/FSx",
                        "AgeOfOldestQueuedMessage",
                        "FileSystemId",
                        fs,
                        "Publisher",
                        publisher,
                        {"period": 60, "stat": "Maximum"},
                    ]
                    for publisher in ("AutoImport", "AutoExport")
                ],
                unit="s",
                lines=[(86400, "#d62728", "one day; changes are lost after 14")],
            ),
            widget(
                (0, 12),
                "Network into the fleet (without EFA)",
                computed("networkIn / 60000000", "received", 60, "Sum", "AWS/EC2", "AutoScalingGroupName", group),
                unit="MB/s",
            ),
            widget(
                (8, 12),
                "Data lake",
                computed(
                    "bucketSizeBytes / 1073741824",
                    "S3 Standard",
                    86400,
                    "Average",
                    "AWS/S3",
                    "BucketName",
                    bucket,
                    "StorageType",
                    "StandardStorage",
                ),
                unit="GiB",
            ),
        ]
        dashboard = cloudwatch.CfnDashboard(
            self, "Dashboard", dashboard_name=f"{NAME}-storage", dashboard_body=json.dumps({"widgets": widgets})
        )
        cdk.CfnOutput(self, "DashboardName", value=dashboard.ref)


def computed(
    expression: str, label: str, period: int, statistic: str, namespace: str, *dimensions: str
) -> list[list[Any]]:
    """A metric that is not drawn, and what is drawn of it."""
    id_ = expression.split()[0]
    metric = {"id": id_, "visible": False, "period": period, "stat": statistic}
    return [
        [{"label": label, "expression": expression, "period": period}],
        [namespace, id_[0].upper() + id_[1:], *dimensions, metric],
    ]


def widget(
    at: tuple[int, int],
    title: str,
    metrics: list[list[Any]],
    *,
    unit: str,
    lines: list[tuple[float, str, str]] | None = None,
) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "view": "timeSeries",
        "title": title,
        "region": cdk.Aws.REGION,
        "metrics": metrics,
        "yAxis": {"left": {"label": unit, "min": 0, "showUnits": False}},
    }
    if lines:
        properties["annotations"] = {
            "horizontal": [
                {"value": value, "color": colour, "label": label, "yAxis": "left"} for value, colour, label in lines
            ]
        }
    return {"type": "metric", "x": at[0], "y": at[1], "width": 8, "height": 6, "properties": properties}


def build(app: cdk.App) -> None:
    env = cdk.Environment(region="us-east-1")
    lake = Lake(app, env=env)
    network = Network(app, env=env)
    hot = Hot(app, lake=lake, network=network, env=env)
    compute = Compute(app, lake=lake, network=network, hot=hot, env=env)
    Monitoring(app, lake=lake, hot=hot, compute=compute, env=env)


if __name__ == "__main__":
    app = cdk.App()
    build(app)
    app.synth()
