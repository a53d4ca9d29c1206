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
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_ssm as ssm
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

NAME = "llama3-70b"
PACKAGE = Path(__file__).resolve().parents[1] / "constructs" / "training_storage"
METRICS_LOG = f"/training-storage/{NAME}/metrics"
OURS = ".training-storage"
WORKLOAD_TAG = "training-storage:workload"
INSTANCES = 64
NETWORK_CARDS = 16
STEPS = (
    "preconditions",
    "node",
    "survey",
    "export",
    "manifest",
    "compare",
    "quiet",
    "prove",
    "storage-node-off",
    "delete-monitoring",
    "delete-compute",
    "quiet-again",
    "delete-hot",
)
ENDS = {"survey": "check", "storage-node-off": "prove", "delete-hot": "release"}


def policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def own_name(prefix: str) -> str:
    """A name that no other stack has: the last part of the stack's id is a UUID."""
    return cdk.Fn.join("-", [prefix, cdk.Fn.select(2, cdk.Fn.split("/", cdk.Aws.STACK_ID))])


def allow(actions: str | list[str], resources: Any, **conditions: Any) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": actions, "Resource": resources}
    return statement | ({"Condition": conditions} if conditions else {})


def trust(service: str) -> dict[str, Any]:
    return policy({"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"})


def arn(service: str, resource: str) -> str:
    return f"arn:aws:{service}:us-east-1:{cdk.Aws.ACCOUNT_ID}:{resource}"


def attached(role: iam.CfnRole, name: str, *statements: dict[str, Any]) -> iam.CfnPolicy:
    return iam.CfnPolicy(
        cdk.Stack.of(role), name, policy_name=name, roles=[role.ref], policy_document=policy(*statements)
    )


def node_scripts(scope: Construct) -> assets.Asset:
    """What instances run, without what only functions do."""
    return assets.Asset(
        scope,
        "Scripts",
        path=str(PACKAGE / "node"),
        exclude=["__pycache__", "/functions"],
        ignore_mode=cdk.IgnoreMode.GIT,
    )


def function_code(scope: Construct) -> lambda_.CfnFunction.CodeProperty:
    """The package of functions, without what only instances run."""
    code = assets.Asset(
        scope,
        "Code",
        path=str(PACKAGE),
        exclude=["*", "!node", "!node/**", "node/bootstrap", "**/__pycache__"],
        ignore_mode=cdk.IgnoreMode.GIT,
    )
    return lambda_.CfnFunction.CodeProperty(s3_bucket=code.s3_bucket_name, s3_key=code.s3_object_key)


def named(name: str) -> list[cdk.CfnTag]:
    return [cdk.CfnTag(key="Name", value=name)]


class Lake(cdk.Stack):
    def __init__(self, scope: Construct, **kwargs: Any) -> None:
        super().__init__(scope, f"{NAME}-lake", description=f"Data lake of {NAME}, kept for years", **kwargs)
        name = own_name(f"{NAME}-lake-20577f52")
        objects = f"arn:aws:s3:::{name}"
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
                        "StringLike": {"kms:EncryptionContext:aws:s3:arn": [objects, f"{objects}/*"]},
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
            metrics_configurations=[
                bucket.MetricsConfigurationProperty(id=name, prefix=f"{name}/") for name in ("datasets", "checkpoints")
            ],
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
                    *(
                        bucket.RuleProperty(id=id_, status="Enabled", prefix=f"{OURS}/{prefix}/", expiration_in_days=30)
                        for id_, prefix in (
                            ("node-answers", "answers"),
                            ("finished-removals", "checkpoints/pruning"),
                            ("finished-orders", "checkpoints/orders"),
                            ("preload-lists", "preload/lists"),
                        )
                    ),
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
        self._release()
        cdk.CfnOutput(self, "DataLakeBucketName", value=self.bucket.ref)

    def _release(self) -> None:
        what = f"Proves that runs of {NAME} are in S3, and releases them"
        log_group = logs.CfnLogGroup(self, "ReleaseLogGroup", retention_in_days=365)
        log_group.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
        role = iam.CfnRole(
            self, "ReleaseRole", description=what, assume_role_policy_document=trust("lambda.amazonaws.com")
        )
        bucket, tagged = self.bucket.attr_arn, f"ResourceTag/{WORKLOAD_TAG}"
        rights = attached(
            role,
            "ReleasePolicy",
            allow(["logs:CreateLogStream", "logs:PutLogEvents"], log_group.attr_arn),
            allow(
                [
                    "autoscaling:DescribeAutoScalingGroups",
                    "cloudwatch:GetMetricData",
                    "ec2:DescribeInstances",
                    "fsx:DescribeDataRepositoryAssociations",
                    "fsx:DescribeDataRepositoryTasks",
                    "fsx:DescribeFileSystems",
                    "ssm:DescribeInstanceInformation",
                    "ssm:GetCommandInvocation",
                    "ssm:ListCommandInvocations",
                    "ssm:ListCommands",
                ],
                "*",
            ),
            allow("ssm:SendCommand", "arn:aws:ssm:us-east-1::document/AWS-RunShellScript"),
            allow("ssm:SendCommand", arn("ec2", "instance/*"), StringEquals={f"ssm:r{tagged[1:]}": NAME}),
            allow(
                "autoscaling:SetDesiredCapacity",
                arn("autoscaling", f"autoScalingGroup:*:autoScalingGroupName/{NAME}-storage-node"),
            ),
            allow(
                [
                    "cloudformation:DeleteStack",
                    "cloudformation:DescribeStackEvents",
                    "cloudformation:DescribeStackResources",
                    "cloudformation:DescribeStacks",
                ],
                [arn("cloudformation", f"stack/{NAME}-{part}/*") for part in ("compute", "hot", "monitoring")],
            ),
            allow("fsx:CreateDataRepositoryTask", arn("fsx", "file-system/*"), StringEquals={f"aws:{tagged}": NAME}),
            allow(["fsx:CreateDataRepositoryTask", "fsx:TagResource"], arn("fsx", "task/*")),
            allow("s3:ListBucket", bucket),
            allow("s3:ListBucket", bucket, StringLike={"s3:prefix": [f"{OURS}/*"]}),
            allow(["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"], f"{bucket}/{OURS}/*"),
            allow(["kms:Decrypt", "kms:GenerateDataKey"], self.key.attr_arn),
            allow("s3:ListBucket", bucket, StringLike={"s3:prefix": ["checkpoints/*"]}),
            allow("s3:GetObject", [f"{bucket}/checkpoints/*", f"{bucket}/datasets/v3/*"]),
            allow("s3:ListBucket", bucket, StringLike={"s3:prefix": ["datasets/v3/*"]}),
        )
        function = lambda_.CfnFunction(
            self,
            "ReleaseFunction",
            description=what,
            code=function_code(self),
            handler="node.functions.release.index.handler",
            runtime="python3.14",
            memory_size=2048,
            timeout=900,
            role=role.attr_arn,
            environment=lambda_.CfnFunction.EnvironmentProperty(
                variables={"WORKLOAD": NAME, "LAKE_BUCKET": self.bucket.ref}
            ),
            logging_config=lambda_.CfnFunction.LoggingConfigProperty(log_group=log_group.ref),
        )
        function.add_resource_dependency(rights)
        machine_log = logs.CfnLogGroup(
            self,
            "MachineLogGroup",
            log_group_name=f"/aws/vendedlogs/states/{NAME}-release",
            retention_in_days=365,
        )
        machine_log.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
        machine_role = iam.CfnRole(
            self, "MachineRole", description=what, assume_role_policy_document=trust("states.amazonaws.com")
        )
        machine_rights = attached(
            machine_role,
            "MachinePolicy",
            allow("lambda:InvokeFunction", function.attr_arn),
            allow(
                [
                    "logs:CreateLogDelivery",
                    "logs:DeleteLogDelivery",
                    "logs:DescribeLogGroups",
                    "logs:DescribeResourcePolicies",
                    "logs:GetLogDelivery",
                    "logs:ListLogDeliveries",
                    "logs:PutResourcePolicy",
                    "logs:UpdateLogDelivery",
                ],
                "*",
            ),
        )
        machine = stepfunctions.CfnStateMachine
        release = machine(
            self,
            "ReleaseMachine",
            state_machine_name=f"{NAME}-release",
            definition_string=release_steps(function.attr_arn),
            role_arn=machine_role.attr_arn,
            logging_configuration=machine.LoggingConfigurationProperty(
                level="ALL",
                include_execution_data=False,
                destinations=[
                    machine.LogDestinationProperty(
                        cloud_watch_logs_log_group=machine.CloudWatchLogsLogGroupProperty(
                            log_group_arn=machine_log.attr_arn
                        )
                    )
                ],
            ),
        )
        release.add_resource_dependency(machine_rights)
        release.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
        cdk.CfnOutput(
            self,
            "ReleaseStateMachineArn",
            value=release.ref,
            description=f"Started by: training-storage release {NAME}",
        )


def release_steps(function_arn: str) -> str:
    """The release as a state machine: each step is a call of the function, which says how it goes on."""
    states: dict[str, Any] = {}
    for step, following in zip(STEPS, [*STEPS[1:], "done"], strict=True):
        goes_on = {"Variable": "$.status", "StringEquals": "next"}
        choices: list[dict[str, Any]] = [
            {"Variable": "$.status", "StringEquals": "again", "Next": f"{step}: wait"},
            {"Variable": "$.status", "StringEquals": "done", "Next": "done"},
        ]
        if step in ENDS:
            action = {"Variable": "$.action", "StringEquals": ENDS[step]}
            choices.append({"And": [goes_on, action], "Next": "done"})
        choices.append({**goes_on, "Next": following})
        quiet = [{"Variable": "$.quiet", "IsPresent": True}, {"Variable": "$.quiet", "BooleanEquals": True}]
        choices.append({"And": quiet, "Next": "done"})
        states[step] = {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke",
            "Parameters": {"FunctionName": function_arn, "Payload": {"step": step, "state.$": "$"}},
            "OutputPath": "$.Payload",
            "TimeoutSeconds": 960,
            "Retry": [
                {
                    "ErrorEquals": [
                        "Lambda.ClientExecutionTimeoutException",
                        "Lambda.SdkClientException",
                        "Lambda.ServiceException",
                        "Lambda.AWSLambdaException",
                        "Lambda.TooManyRequestsException",
                    ],
                    "IntervalSeconds": 2,
                    "MaxAttempts": 8,
                    "BackoffRate": 2,
                    "MaxDelaySeconds": 120,
                },
                {"ErrorEquals": ["States.ALL"], "IntervalSeconds": 15, "MaxAttempts": 5, "BackoffRate": 2},
            ],
            "Next": f"{step}: answer",
        }
        states[f"{step}: answer"] = {"Type": "Choice", "Choices": choices, "Default": "refused"}
        states[f"{step}: wait"] = {"Type": "Wait", "SecondsPath": "$.wait", "Next": step}
    states["done"] = {"Type": "Succeed"}
    states["refused"] = {
        "Type": "Fail",
        "Comment": "The cause is the state as JSON: what is refused, and what blocks it",
        "Error": "Refused",
        "CausePath": "States.JsonToString($)",
    }
    comment = "Proves that everything of a run that must be kept is in S3, and deletes the run"
    whole = {"Comment": comment, "StartAt": STEPS[0], "TimeoutSeconds": 172800, "States": states}
    return json.dumps(whole, separators=(",", ":"))


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
            tags=[cdk.CfnTag(key=WORKLOAD_TAG, value=NAME)],
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
        node = self._storage_node(lake, network)
        self._guard(lake, [datasets, checkpoints, node])
        cdk.CfnOutput(self, "FileSystemId", value=self.file_system.ref)
        cdk.CfnOutput(self, "FileSystemMountName", value=self.file_system.attr_lustre_mount_name)
        cdk.CfnOutput(self, "FileSystemDnsName", value=self.file_system.attr_dns_name)
        cdk.CfnOutput(self, "AssociationDatasetsId", value=datasets.attr_association_id)
        cdk.CfnOutput(self, "AssociationCheckpointsId", value=checkpoints.attr_association_id)

    def _guard(self, lake: Lake, guarded: list[cdk.CfnResource]) -> None:
        what = f"Lets the file system of {NAME} go once what must be kept is in S3"
        log_group = logs.CfnLogGroup(self, "GuardLogGroup", retention_in_days=365)
        log_group.apply_removal_policy(cdk.RemovalPolicy.RETAIN)
        role = iam.CfnRole(
            self, "GuardRole", description=what, assume_role_policy_document=trust("lambda.amazonaws.com")
        )
        keys = [
            f"{OURS}/release/{self.file_system.ref}/proof.json",
            f"{OURS}/release/{self.file_system.ref}/survey.json",
            f"{OURS}/checkpoints/status/{self.file_system.ref}.json",
        ]
        bucket = lake.bucket.attr_arn
        rights = attached(
            role,
            "GuardPolicy",
            allow(["logs:CreateLogStream", "logs:PutLogEvents"], log_group.attr_arn),
            allow("s3:GetObject", [f"{bucket}/{key}" for key in keys]),
            allow("s3:ListBucket", bucket, StringEquals={"s3:prefix": keys}),
            allow("cloudformation:DescribeStacks", cdk.Aws.STACK_ID),
            allow(["cloudwatch:GetMetricData", "fsx:DescribeFileSystems"], "*"),
            allow("kms:Decrypt", lake.key.attr_arn),
        )
        function = lambda_.CfnFunction(
            self,
            "GuardFunction",
            description=what,
            code=function_code(self),
            handler="node.functions.release_guard.index.handler",
            runtime="python3.14",
            memory_size=512,
            timeout=600,
            role=role.attr_arn,
            logging_config=lambda_.CfnFunction.LoggingConfigProperty(log_group=log_group.ref),
        )
        function.add_resource_dependency(rights)
        guard = cdk.CfnResource(
            self,
            "Guard",
            type="Custom::ReleaseGuard",
            properties={
                "ServiceToken": function.attr_arn,
                "ServiceTimeout": "720",
                "FileSystemId": self.file_system.ref,
                "LogicalId": self.get_logical_id(self.file_system),
                "LakeBucket": lake.bucket.ref,
                "Workload": NAME,
            },
        )
        for resource in (*guarded, log_group, rights, role):
            guard.add_resource_dependency(resource)
        guard.apply_removal_policy(cdk.RemovalPolicy.DESTROY)

    def _storage_node(self, lake: Lake, network: Network) -> cdk.CfnResource:
        scripts = node_scripts(self)
        role = iam.CfnRole(self, "NodeRole", assume_role_policy_document=trust("ec2.amazonaws.com"))
        storage = attached(role, "NodeStoragePolicy", *storage_rights(scripts, lake, self))
        agent = attached(role, "NodeAgentPolicy", *agent_rights())
        group = ec2.CfnSecurityGroup(
            self,
            "NodeSecurityGroup",
            group_description="Storage node",
            vpc_id=network.vpc.ref,
            security_group_egress=[
                ec2.CfnSecurityGroup.EgressProperty(
                    ip_protocol="-1", cidr_ip="0.0.0.0/0", description="Allow all outbound traffic by default"
                )
            ],
        )
        own, servers = group.attr_group_id, self.group.attr_group_id
        rules = [
            *between(self, "NodeServers", own, servers, "Lustre, between the storage node and the servers"),
            *between(self, "NodeClient", servers, own, "Lustre, between a client and the servers"),
        ]
        profile = iam.CfnInstanceProfile(self, "NodeInstanceProfile", roles=[role.ref])
        make = ec2.CfnLaunchTemplate
        template = make(
            self,
            "NodeLaunchTemplate",
            launch_template_data=make.LaunchTemplateDataProperty(
                instance_type="m6i.large",
                image_id="resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-6.1-x86_64",
                iam_instance_profile=make.IamInstanceProfileProperty(arn=profile.attr_arn),
                metadata_options=make.MetadataOptionsProperty(
                    http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1
                ),
                block_device_mappings=[
                    make.BlockDeviceMappingProperty(
                        device_name="/dev/xvda",
                        ebs=make.EbsProperty(
                            delete_on_termination=True, encrypted=True, volume_size=30, volume_type="gp3"
                        ),
                    )
                ],
                security_group_ids=[own],
                user_data=cdk.Fn.base64(user_data(scripts, lake, self)),
            ),
        )
        name = f"{NAME}-storage-node"
        role_tag = {"training-storage:role": "storage-node"}
        node = scaling_group(self, "StorageNode", template, network, (0, 1, 0), name=name, **role_tag)
        node.auto_scaling_group_name = name
        for resource in (role, storage, agent, *rules):
            node.add_resource_dependency(resource)
        return node


def between(scope: Construct, name: str, group: str, peer: str, description: str) -> list[cdk.CfnResource]:
    """Everything from the peer into the group, and from the group to the peer."""
    return [
        ec2.CfnSecurityGroupIngress(
            scope,
            f"{name}Ingress",
            group_id=group,
            source_security_group_id=peer,
            ip_protocol="-1",
            description=description,
        ),
        ec2.CfnSecurityGroupEgress(
            scope,
            f"{name}Egress",
            group_id=group,
            destination_security_group_id=peer,
            ip_protocol="-1",
            description=description,
        ),
    ]


def storage_rights(scripts: assets.Asset, lake: Lake, hot: Hot) -> list[dict[str, Any]]:
    """What an instance may do with the lake and the file system."""
    bucket, file_system = lake.bucket.attr_arn, arn("fsx", f"file-system/{hot.file_system.ref}")
    code = f"arn:aws:s3:::{scripts.s3_bucket_name}/{scripts.s3_object_key}"
    return [
        allow("s3:GetObject", [code, f"{bucket}/*", f"{bucket}/checkpoints/*"]),
        allow("s3:ListBucket", bucket),
        allow(["kms:Decrypt", "kms:GenerateDataKey"], lake.key.attr_arn),
        allow("s3:ListBucket", bucket, StringLike={"s3:prefix": [f"{OURS}/*"]}),
        allow(["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"], f"{bucket}/{OURS}/*"),
        allow("s3:ListBucket", bucket, StringLike={"s3:prefix": ["checkpoints/*"]}),
        allow("cloudwatch:PutMetricData", "*", StringEquals={"cloudwatch:namespace": "TrainingStorage"}),
        allow("fsx:CreateDataRepositoryTask", [file_system, arn("fsx", "task/*")]),
        allow("fsx:TagResource", arn("fsx", "task/*")),
        allow(
            [
                "cloudwatch:GetMetricStatistics",
                "fsx:DescribeDataRepositoryAssociations",
                "fsx:DescribeDataRepositoryTasks",
            ],
            "*",
        ),
    ]


def agent_rights() -> list[dict[str, Any]]:
    """What the Systems Manager agent of an instance needs."""
    return [
        allow("ssm:UpdateInstanceInformation", arn("ec2", "instance/*")),
        allow(
            [
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
            "*",
        ),
    ]


def scaling_group(
    scope: Construct,
    id_: str,
    template: ec2.CfnLaunchTemplate,
    network: Network,
    sizes: tuple[int, int, int],
    *,
    name: str,
    **tags: str,
) -> autoscaling.CfnAutoScalingGroup:
    least, most, wanted = sizes
    make = autoscaling.CfnAutoScalingGroup
    group = make(
        scope,
        id_,
        min_size=str(least),
        max_size=str(most),
        desired_capacity=str(wanted),
        health_check_type="EC2",
        vpc_zone_identifier=[network.subnet.ref],
        launch_template=make.LaunchTemplateSpecificationProperty(
            launch_template_id=template.ref, version=template.attr_latest_version_number
        ),
        tags=[
            make.TagPropertyProperty(key=key, value=value, propagate_at_launch=True)
            for key, value in {"Name": name, WORKLOAD_TAG: NAME, **tags}.items()
        ],
    )
    group.cfn_options.update_policy = cdk.CfnUpdatePolicy(
        auto_scaling_scheduled_action=cdk.CfnAutoScalingScheduledAction(ignore_unmodified_group_size_properties=True)
    )
    return group


class Compute(cdk.Stack):
    def __init__(self, scope: Construct, *, lake: Lake, network: Network, hot: Hot, **kwargs: Any) -> None:
        super().__init__(scope, f"{NAME}-compute", description=f"GPU fleet of {NAME}, for one run", **kwargs)
        scripts = node_scripts(self)
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
        role = iam.CfnRole(self, "Role", assume_role_policy_document=trust("ec2.amazonaws.com"))
        log_group = logs.CfnLogGroup(self, "MetricsLogGroup", log_group_name=METRICS_LOG, retention_in_days=30)
        log_group.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
        records = allow(["logs:CreateLogStream", "logs:PutLogEvents"], arn("logs", f"log-group:{METRICS_LOG}:*"))
        storage = attached(role, "StoragePolicy", *storage_rights(scripts, lake, hot), records)
        signal = allow("cloudformation:SignalResource", cdk.Aws.STACK_ID)
        node = attached(role, "NodePolicy", *agent_rights(), signal)
        profile = iam.CfnInstanceProfile(self, "InstanceProfile", roles=[role.ref])
        own, servers = group.attr_group_id, hot.group.attr_group_id
        rules = [
            *between(self, "Efa", own, own, "EFA between the nodes"),
            *between(self, "FileSystem", own, servers, "Lustre, between the nodes and the servers"),
            *between(self, "Client", servers, own, "Lustre, between a client and the servers"),
        ]
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
        sizes = (INSTANCES, INSTANCES, INSTANCES)
        self.fleet = scaling_group(self, fleet_id, template, network, sizes, name=f"{NAME}-compute/Fleet")
        self.fleet.cfn_options.creation_policy = cdk.CfnCreationPolicy(
            resource_signal=cdk.CfnResourceSignal(count=INSTANCES, timeout="PT1H")
        )
        for resource in (role, storage, node, group, *rules):
            self.fleet.add_resource_dependency(resource)
        cdk.CfnOutput(self, "AutoScalingGroupName", value=self.fleet.ref)


def user_data(scripts: assets.Asset, lake: Lake, hot: Hot, fleet_id: str = "") -> str:
    """Settings, mounts and the agent's part; a fleet also has the data lake mounted, and its stack waits for it."""
    bucket, file_system = lake.bucket.ref, hot.file_system.ref
    links = [
        {"bucket": bucket, "exports": False, "imports": True, "path": path, "prefix": prefix}
        for path, prefix in (("/datasets", "datasets/v3/"), ("/checkpoints", "checkpoints/"))
    ]
    agent = {
        "checkpoints": "/fsx/checkpoints",
        "hot_tier_id": file_system,
        "lake_bucket": bucket,
        "lake_prefix": "checkpoints/",
        "links": links,
        "max_restore_s": 300.0,
        "mount": "/fsx",
        "nodes": INSTANCES,
        "policy": {"best": None, "incomplete_expires_after_s": 86400, "keep_hot": 3, "promote_every": 10},
        "region": "us-east-1",
        "restore_readers": 1,
        "scratch": "/fsx/scratch",
        "tier": "lustre",
        "workload": NAME,
    }
    settings, mount, lake_mount, variables, metrics, failed = "", "", "", "", "", ""
    if fleet_id:
        settings = f"""
TS_MOUNTPOINTS=1
TS_AGENT_TIMER=yes
TS_STACK_NAME={NAME}-compute
TS_LOGICAL_ID='{fleet_id}'"""
        mount = """
EFA=yes
ON_TCP=report
CHECKPOINTS=checkpoints
SCRATCH=scratch"""
        lake_mount = f"""
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
OTLP_ENDPOINT=http://127.0.0.1:4318
TS_END"""
        variables = f"""
TRAINING_STORAGE_MOUNT_LAKE=/lake
TRAINING_STORAGE_WORKLOAD={NAME}
TRAINING_STORAGE_METRICS=agent
TRAINING_STORAGE_DATASETS=/fsx/datasets
TRAINING_STORAGE_CHECKPOINTS=/fsx/checkpoints
TRAINING_STORAGE_SCRATCH=/fsx/scratch
TRAINING_STORAGE_DATA_LAKE_URI=s3://{bucket}/
TRAINING_STORAGE_DATASETS_URI=s3://{bucket}/datasets/v3/
TRAINING_STORAGE_CHECKPOINTS_URI=s3://{bucket}/checkpoints/"""
        metrics = f"""
cat >"$TS_ETC/cloudwatch-agent.json" <<'TS_END'
{json.dumps(cloudwatch_agent(), separators=(",", ":"))}
TS_END"""
        failed = """
MD=http://169.254.169.254/latest
TS_TOKEN=$(curl -sf -m 5 --retry 3 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$MD/api/token")
TS_ID=$(curl -sf -m 5 --retry 3 -H "X-aws-ec2-metadata-token: $TS_TOKEN" "$MD/meta-data/instance-id")
aws cloudformation signal-resource --region "$TS_REGION" --stack-name "$TS_STACK_NAME" \\
  --logical-resource-id "$TS_LOGICAL_ID" --unique-id "$TS_ID" --status FAILURE \\
  || echo "training-storage: no stack waits for this node" >&2"""
    return f"""#!/bin/bash
umask 022
TS_ETC="${{TS_ROOT:-}}/etc/training-storage"; TS_OPT="${{TS_ROOT:-}}/opt/training-storage"
rm -rf "$TS_ETC/mounts.d" "$TS_ETC/"*.json
mkdir -p "$TS_ETC/mounts.d" "$TS_OPT"
cat >"$TS_ETC/settings" <<'TS_END'
TS_REGION=us-east-1
TS_SCRIPTS_BUCKET='{scripts.s3_bucket_name}'
TS_SCRIPTS_KEY={scripts.s3_object_key}{settings}
TS_END
cat >"$TS_ETC/mounts.d/fsx" <<'TS_END'
KIND=lustre
MOUNT_PATH=/fsx
FILE_SYSTEM_ID='{file_system}'
DNS_NAME='{hot.file_system.attr_dns_name}'
MOUNT_NAME='{hot.file_system.attr_lustre_mount_name}'{mount}
TS_END{lake_mount}
cat >"$TS_ETC/env" <<'TS_END'
TRAINING_STORAGE_REGION=us-east-1
TRAINING_STORAGE_MOUNT_FSX=/fsx{variables}
TS_END
cat >"$TS_ETC/agent.json" <<'TS_END'
{json.dumps(agent, separators=(",", ":"))}
TS_END{metrics}
cat >"$TS_OPT/start.sh" <<'TS_END'
#!/bin/bash
TS_ETC="${{TS_ROOT:-}}/etc/training-storage"; TS_OPT="${{TS_ROOT:-}}/opt/training-storage"
. "$TS_ETC/settings"
# Deep Learning images and Amazon Linux have the AWS CLI; other Ubuntu images can get it as a snap.
if ! command -v aws >/dev/null; then
  snap install aws-cli --classic || true
  PATH="$PATH:/snap/bin"
fi
# A role made in the same stack needs some seconds until S3 knows it, hence the tries.
for try in 1 2 3 4 5 6; do
  if aws s3 cp --only-show-errors --region "$TS_REGION" "s3://$TS_SCRIPTS_BUCKET/$TS_SCRIPTS_KEY" \\
    "$TS_OPT/scripts.zip" && rm -rf "$TS_OPT/node" &&
    python3 -m zipfile -e "$TS_OPT/scripts.zip" "$TS_OPT/node"; then
    exec bash "$TS_OPT/node/bootstrap/bootstrap.sh"
  fi
  sleep "$((try * ${{TS_RETRY_DELAY:-5}}))"
done
echo "training-storage: cannot fetch s3://$TS_SCRIPTS_BUCKET/$TS_SCRIPTS_KEY" >&2{failed}
exit 1
TS_END
bash "$TS_OPT/start.sh" || exit 1"""


def cloudwatch_agent() -> dict[str, Any]:
    """Records in embedded metric format, and each plugin for the fleet and for the node."""
    plugins: dict[str, tuple[list[str], dict[str, Any]]] = {
        "cpu": (["usage_active"], {"totalcpu": True}),
        "disk": (["used_percent"], {"resources": ["/", "/opt/dlami/nvme"]}),
        "diskio": (["read_bytes", "write_bytes"], {"resources": ["nvme*n1"]}),
        "mem": (["used_percent"], {}),
        "net": (["bytes_recv", "bytes_sent"], {"resources": ["en*", "eth*"]}),
        "nvidia_gpu": (["utilization_gpu", "memory_used"], {}),
    }
    return {
        "logs": {
            "log_stream_name": "{instance_id}",
            "metrics_collected": {"emf": {"service_address": "udp://127.0.0.1:25888"}},
        },
        "metrics": {
            "namespace": "TrainingStorage",
            "append_dimensions": {"InstanceId": "${aws:InstanceId}"},
            "aggregation_dimensions": [["Workload"], ["Workload", "InstanceId"]],
            "metrics_collected": {
                name: {
                    "measurement": measured,
                    # What has no dimension of its own is the node's already; the agent makes no second one of it.
                    **({} if name == "mem" else {"drop_original_metrics": measured}),
                    "append_dimensions": {"Workload": NAME},
                    **more,
                }
                for name, (measured, more) in plugins.items()
            },
        },
    }


def metric(
    id_: str,
    namespace: str,
    name: str,
    statistic: str,
    *dimensions: str,
    period: int = 60,
    label: str = "",
    right: bool = False,
    hidden: bool = False,
) -> list[Any]:
    """A row of a graph, and an input of an alarm."""
    options: dict[str, Any] = {"id": id_, "stat": statistic, "period": period}
    if label:
        options["label"] = label
    if right:
        options["yAxis"] = "right"
    if hidden:
        options["visible"] = False
    return [namespace, name, *dimensions, options]


def drawn(expression: str, label: str, period: int = 60, right: bool = False) -> list[Any]:
    """What is drawn of rows that are hidden, or of a search."""
    axis = {"yAxis": "right"} if right else {}
    return [{"expression": expression, "label": label, "period": period, **axis}]


# Id, text, comparison, threshold, datapoints of periods, missing data, what is looked at.
ALARMS: list[tuple[str, str, str, float, int, int, str, list[Any]]] = [
    (
        "gpu-utilisation-low",
        (
            "GPUs are hardly used. The fleet is paid for by the hour, and its GPUs do little. "
            "First look: Whether gpus-wait-for-data or checkpoint-save-slow stands too; if "
            "neither does, it is not storage. Threshold: 50 %, mean over all GPUs: this "
            "product's choice, no plan predicts it. Page: docs/alarms/gpu-utilisation-low.md. "
            "Next step: training-storage diagnose <name>."
        ),
        "LessThanThreshold",
        50,
        15,
        20,
        "notBreaching",
        [metric("", "TrainingStorage", "nvidia_smi_utilization_gpu", "Average", "Workload", NAME, period=60)],
    ),
    (
        "gpus-wait-for-data",
        (
            "GPUs wait for data. Ranks ask for a batch that is not there, for more of their time "
            "than the plan predicts. First look: Which of storage-throughput-at-limit, "
            "metadata-at-limit, mds-cpu-high and s3-throttled stands with it. Threshold: the "
            "share that the plan predicts and 5 points more, at least 10 % of the time. Page: "
            "docs/alarms/gpus-wait-for-data.md. Next step: training-storage diagnose <name>."
        ),
        "GreaterThanThreshold",
        10,
        10,
        15,
        "notBreaching",
        [
            ("100 * wait / elapsed", "waits for data, %"),
            metric("wait", "TrainingStorage", "DataWaitTime", "Sum", "Workload", NAME, period=60),
            metric("elapsed", "TrainingStorage", "ElapsedTime", "Sum", "Workload", NAME, period=60),
        ],
    ),
    (
        "read-throughput-low",
        (
            "Training reads less than the plan says. Batches come in slower than the job was "
            "sized for. First look: Whether the GPUs wait for data; if they do not, the job "
            "needs less than its workload file says. Threshold: half of the plan's read demand. "
            "Page: docs/alarms/read-throughput-low.md. Next step: training-storage diagnose "
            "<name>."
        ),
        "LessThanThreshold",
        6400,
        15,
        20,
        "notBreaching",
        [
            ("bytes / 60000000", "read by training, MB/s"),
            metric("bytes", "TrainingStorage", "TrainingReadBytes", "Sum", "Workload", NAME, period=60),
        ],
    ),
    (
        "storage-throughput-at-limit",
        (
            "Storage gives all that it can. Reads or writes are close to what the storage, or "
            "the clients of the nodes, can move. First look: Whether the GPUs wait for data; if "
            "they do not, the storage is well used and nothing is wrong. Threshold: 90 % of the "
            "plan's limit. Page: docs/alarms/storage-throughput-at-limit.md. Next step: "
            "training-storage diagnose <name>."
        ),
        "GreaterThanThreshold",
        90,
        10,
        15,
        "notBreaching",
        [
            (
                (
                    "IF(100 * reads / 1968750000000 > 100 * writes / 1968750000000, 100 * reads / "
                    "1968750000000, 100 * writes / 1968750000000)"
                ),
                "of the limit, %",
            ),
            metric("reads", "AWS/FSx", "DataReadBytes", "Sum", "FileSystemId", "<fs>", period=60),
            metric("writes", "AWS/FSx", "DataWriteBytes", "Sum", "FileSystemId", "<fs>", period=60),
        ],
    ),
    (
        "metadata-at-limit",
        (
            "Metadata servers open all the files that they can. Many small files: opens are "
            "close to what the metadata IOPS serve, whatever the throughput is. First look: The "
            "open rate against the plan's, and how large the files are. Threshold: 90 % of the "
            "opens that the plan's metadata IOPS serve. Page: docs/alarms/metadata-at-limit.md. "
            "Next step: training-storage diagnose <name>."
        ),
        "GreaterThanThreshold",
        2592000,
        10,
        15,
        "notBreaching",
        [
            (
                (
                    'SELECT SUM(FileOpenOperations) FROM SCHEMA("AWS/FSx", FileSystemId, '
                    "StorageTargetId) WHERE FileSystemId = '<fs>'"
                ),
                "files opened a minute",
            ),
        ],
    ),
    (
        "mds-cpu-high",
        (
            "A metadata server is busy. Opens, listings and lookups queue when the processor of "
            "a metadata server is busy. First look: Open rate and metadata operations; then "
            "which program lists or stats folders. Threshold: 80 % of the CPU of the busiest "
            "server: this product's choice. Page: docs/alarms/mds-cpu-high.md. Next step: "
            "training-storage diagnose <name>."
        ),
        "GreaterThanThreshold",
        80,
        10,
        15,
        "notBreaching",
        [
            (
                (
                    'SELECT MAX(CPUUtilization) FROM SCHEMA("AWS/FSx", FileSystemId, FileServer) WHERE '
                    "FileSystemId = '<fs>'"
                ),
                "CPU of the busiest metadata server, %",
            ),
        ],
    ),
    (
        "s3-throttled",
        (
            "S3 answers with errors of its own. S3 fails or throttles (503) requests to the "
            "lake; clients wait and try again. First look: How many requests a prefix gets: S3 "
            "scales by prefix, and takes minutes for it. Threshold: 1 % of the requests: this "
            "product's choice. Page: docs/alarms/s3-throttled.md. Next step: training-storage "
            "diagnose <name>."
        ),
        "GreaterThanThreshold",
        1,
        10,
        15,
        "notBreaching",
        [
            (
                ("100 * (FILL(errors1, 0) + FILL(errors2, 0)) / (FILL(requests1, 0) + FILL(requests2, 0))"),
                "requests that S3 failed, %",
            ),
            metric("errors1", "AWS/S3", "5xxErrors", "Sum", "BucketName", "<lake>", "FilterId", "datasets", period=60),
            metric(
                "errors2", "AWS/S3", "5xxErrors", "Sum", "BucketName", "<lake>", "FilterId", "checkpoints", period=60
            ),
            metric(
                "requests1", "AWS/S3", "AllRequests", "Sum", "BucketName", "<lake>", "FilterId", "datasets", period=60
            ),
            metric(
                "requests2",
                "AWS/S3",
                "AllRequests",
                "Sum",
                "BucketName",
                "<lake>",
                "FilterId",
                "checkpoints",
                period=60,
            ),
        ],
    ),
    (
        "checkpoint-save-slow",
        (
            "Saving a checkpoint takes too long. While a save holds the loop up, every GPU "
            "stands still. First look: Write throughput against the plan's during the save; then "
            "whether saves are written by all ranks. Threshold: checkpoints.max_write_time of "
            "the workload file, else twice what the plan predicts. Page: "
            "docs/alarms/checkpoint-save-slow.md. Next step: training-storage diagnose <name>."
        ),
        "GreaterThanThreshold",
        60,
        1,
        1,
        "ignore",
        [metric("", "TrainingStorage", "CheckpointSaveTime", "Maximum", "Workload", NAME, period=60)],
    ),
    (
        "restore-slow",
        (
            "Restoring a checkpoint takes too long. After a fault the whole fleet waits until "
            "the checkpoint has been read. First look: Whether the checkpoint was in the hot "
            "tier or had to come from S3. Threshold: checkpoints.max_restore_time of the "
            "workload file. Page: docs/alarms/restore-slow.md. Next step: training-storage "
            "diagnose <name>."
        ),
        "GreaterThanThreshold",
        300,
        1,
        1,
        "ignore",
        [metric("", "TrainingStorage", "RestoreTime", "Maximum", "Workload", NAME, period=60)],
    ),
    (
        "restore-drill-slow",
        (
            "A drill took longer than a restore may. The next restore of the fleet takes as long "
            "as the drill did. First look: The drill's own report: which files were slow, and "
            "whether their data was in the hot tier. Threshold: checkpoints.max_restore_time of "
            "the workload file. Page: docs/alarms/restore-drill-slow.md. Next step: "
            "training-storage diagnose <name>."
        ),
        "GreaterThanThreshold",
        300,
        1,
        1,
        "ignore",
        [metric("", "TrainingStorage", "RestoreTime", "Maximum", "Workload", NAME, "Source", "hot", period=60)],
    ),
    (
        "step-time-varies",
        (
            "Steps take unequal time. All ranks wait for the slowest one in each step. First "
            "look: Which node stands out among the nodes of the dashboard. Threshold: 25 % "
            "standard deviation of the mean: this product's choice. Page: "
            "docs/alarms/step-time-varies.md. Next step: training-storage diagnose <name>."
        ),
        "GreaterThanThreshold",
        25,
        15,
        20,
        "notBreaching",
        [metric("", "TrainingStorage", "StepTimeVariation", "Average", "Workload", NAME, period=60)],
    ),
    (
        "idle-gpus-cost-more-than-storage",
        (
            "Idle GPUs cost more than the storage. Time in which the fleet waits for storage is "
            "worth more than the storage; a larger one may pay. First look: Whether the time is "
            "lost to data or to checkpoints; then what the next size costs. Threshold: the "
            "plan's storage price per hour. Page: "
            "docs/alarms/idle-gpus-cost-more-than-storage.md. Next step: training-storage "
            "diagnose <name>."
        ),
        "GreaterThanThreshold",
        36.43311712870726,
        40,
        60,
        "notBreaching",
        [
            ("4050.94 * (FILL(wait, 0) + FILL(blocked, 0)) / elapsed", "idle GPUs, USD/h"),
            metric("wait", "TrainingStorage", "DataWaitTime", "Sum", "Workload", NAME, period=60),
            metric("blocked", "TrainingStorage", "CheckpointBlockedTime", "Sum", "Workload", NAME, period=60),
            metric("elapsed", "TrainingStorage", "ElapsedTime", "Sum", "Workload", NAME, period=60),
        ],
    ),
    (
        "import-queue-old",
        (
            "New objects do not reach the file system. FSx stops importing, and loses changes, "
            "when the queue gets 14 days old. First look: The lifecycle of the link, then how "
            "fast objects in the bucket change. Threshold: 1 day, of the 14 after which FSx "
            "stops. Page: docs/alarms/import-queue-old.md. Next step: training-storage diagnose "
            "<name>."
        ),
        "GreaterThanThreshold",
        86400,
        5,
        5,
        "notBreaching",
        [
            metric(
                "",
                "AWS/FSx",
                "AgeOfOldestQueuedMessage",
                "Maximum",
                "FileSystemId",
                "<fs>",
                "Publisher",
                "AutoImport",
                period=60,
            )
        ],
    ),
    (
        "association-broken",
        (
            "A link to S3 has stopped. FSx carries nothing over a link that is MISCONFIGURED or "
            "FAILED, and no metric of FSx says so. First look: The failure details of the link. "
            "Threshold: one link or more whose lifecycle is MISCONFIGURED or FAILED. Page: "
            "docs/alarms/association-broken.md. Next step: training-storage diagnose <name>."
        ),
        "GreaterThanThreshold",
        0,
        1,
        1,
        "missing",
        [metric("", "TrainingStorage", "LinksBroken", "Maximum", "Workload", NAME, period=600)],
    ),
    (
        "free-capacity-low",
        (
            'The file system gets full. Files on a full storage target get "no space left" while '
            "the sum still looks well. First look: What is largest, and whether checkpoints are "
            "pruned. Threshold: lifecycle.warn_when_free_below of the workload file, a tenth of "
            "the capacity when left out, if every storage target were as full as the fullest. "
            "Page: docs/alarms/free-capacity-low.md. Next step: training-storage diagnose <name>."
        ),
        "LessThanThreshold",
        7215545057280,
        5,
        5,
        "ignore",
        [
            ("least * targets", "free, bytes"),
            metric("least", "AWS/FSx", "FreeDataStorageCapacity", "Minimum", "FileSystemId", "<fs>", period=60),
            metric("targets", "AWS/FSx", "FreeDataStorageCapacity", "SampleCount", "FileSystemId", "<fs>", period=60),
        ],
    ),
    (
        "clients-missing",
        (
            "Nodes have lost the file system. Fewer clients are connected than the fleet has "
            "nodes; on the others the mount is gone. First look: Which node is missing: "
            "training-storage status, then the mounts of that node. Threshold: the plan's number "
            "of nodes. Page: docs/alarms/clients-missing.md. Next step: training-storage "
            "diagnose <name>."
        ),
        "LessThanThreshold",
        64,
        10,
        10,
        "missing",
        [metric("", "AWS/FSx", "ClientConnections", "Sum", "FileSystemId", "<fs>", period=60)],
    ),
    (
        "metrics-missing",
        (
            "Nodes do not report. Alarms on what nodes write are silent when nobody writes. "
            "First look: Whether the nodes run; then the collector and the CloudWatch agent on "
            "one that is silent. Threshold: the plan's number of nodes, less half a one, in a "
            "mean of 5 minutes. Page: docs/alarms/metrics-missing.md. Next step: "
            "training-storage diagnose <name>."
        ),
        "LessThanThreshold",
        63.5,
        3,
        3,
        "breaching",
        [
            ("samples / 5", "nodes that report"),
            metric("samples", "TrainingStorage", "mem_used_percent", "SampleCount", "Workload", NAME, period=300),
        ],
    ),
]
# Place, title, unit of each axis, lines, rows; a text alone is a heading.
GRAPHS: list[Any] = [
    (
        (0, 0, 24, 2),
        (
            "**<name>-storage: are the GPUs waiting, and for what?** Shares of the time of all "
            "ranks, over five minutes. Cause and next step: `training-storage diagnose <name>`. "
            "`docs/alarms/` has a page for each alarm."
        ),
    ),
    (
        (0, 2, 14, 4),
        "Are the GPUs waiting?",
        (),
        [],
        [
            drawn("100 * FILL(wait, 0) / elapsed", "waits for data, % of time", period=300),
            metric("wait", "TrainingStorage", "DataWaitTime", "Sum", "Workload", NAME, period=300, hidden=True),
            metric(
                "blocked", "TrainingStorage", "CheckpointBlockedTime", "Sum", "Workload", NAME, period=300, hidden=True
            ),
            metric("elapsed", "TrainingStorage", "ElapsedTime", "Sum", "Workload", NAME, period=300, hidden=True),
            drawn("100 * FILL(blocked, 0) / elapsed", "held up by checkpoints, % of time", period=300),
            drawn("100 - 100 * (FILL(wait, 0) + FILL(blocked, 0)) / elapsed", "computes, % of time", period=300),
            metric(
                "nvidia_smi_utilization_gpu",
                "TrainingStorage",
                "nvidia_smi_utilization_gpu",
                "Average",
                "Workload",
                NAME,
                period=300,
                label="GPU utilisation, %",
            ),
        ],
    ),
    (
        (14, 2, 10, 4),
        "For what? What is red names it",
        [
            "gpus-wait-for-storage",
            "gpus-wait-for-data",
            "storage-throughput-at-limit",
            "metadata-at-limit",
            "mds-cpu-high",
            "s3-throttled",
            "checkpoint-save-slow",
        ],
    ),
    ((0, 6, 24, 1), "## The ten figures"),
    (
        (0, 7, 6, 6),
        "1. GPU utilisation",
        ("%",),
        [(50, "#d62728", "alarm gpu-utilisation-low")],
        [
            metric(
                "nvidia_smi_utilization_gpu",
                "TrainingStorage",
                "nvidia_smi_utilization_gpu",
                "Average",
                "Workload",
                NAME,
                label="mean over all GPUs",
            )
        ],
    ),
    (
        (6, 7, 6, 6),
        "2. GPU data-wait time",
        ("%",),
        [(0, "#7f7f7f", "plan: 0"), (10, "#d62728", "alarm gpus-wait-for-data")],
        [
            drawn("100 * wait / elapsed", "waits for data, %"),
            metric("wait", "TrainingStorage", "DataWaitTime", "Sum", "Workload", NAME, hidden=True),
            metric("elapsed", "TrainingStorage", "ElapsedTime", "Sum", "Workload", NAME, hidden=True),
        ],
    ),
    (
        (12, 7, 6, 6),
        "3. Training read throughput",
        ("MB/s",),
        [(12800, "#7f7f7f", "plan: 12800"), (6400, "#d62728", "alarm read-throughput-low")],
        [
            drawn("trainingReadBytes / 60000000", "batches"),
            metric("trainingReadBytes", "TrainingStorage", "TrainingReadBytes", "Sum", "Workload", NAME, hidden=True),
        ],
    ),
    (
        (18, 7, 6, 6),
        "4. Throughput per node and in aggregate",
        ("MB/s", "MB/s a node"),
        [
            (200, "#7f7f7f", "plan: 200", "right"),
            (87500, "#d62728", "limit of a node", "right"),
            (32812.5, "#d62728", "limit of all"),
        ],
        [
            drawn("storageReadBytes / 60000000", "read by nodes"),
            metric("storageReadBytes", "TrainingStorage", "StorageReadBytes", "Sum", "Workload", NAME, hidden=True),
            drawn("storageWriteBytes / 60000000", "written by nodes"),
            metric("storageWriteBytes", "TrainingStorage", "StorageWriteBytes", "Sum", "Workload", NAME, hidden=True),
            drawn("dataReadBytes / 60000000", "read, as FSx counts"),
            metric("dataReadBytes", "AWS/FSx", "DataReadBytes", "Sum", "FileSystemId", "<fs>", hidden=True),
            drawn("dataWriteBytes / 60000000", "written, as FSx counts"),
            metric("dataWriteBytes", "AWS/FSx", "DataWriteBytes", "Sum", "FileSystemId", "<fs>", hidden=True),
            drawn(
                (
                    "SLICE(SORT(SEARCH('{TrainingStorage,Workload,InstanceId} "
                    'MetricName="StorageReadBytes" Workload="<name>"\', \'Sum\', 60) / 60000000, AVG, '
                    "DESC), 0, 10)"
                ),
                "${PROP('Dim.InstanceId')}",
                right=True,
            ),
        ],
    ),
    (
        (0, 13, 6, 6),
        "5. Small-file open rate",
        ("1/s",),
        [(50, "#7f7f7f", "plan: 50"), (48000, "#d62728", "limit of the metadata servers")],
        [
            drawn("fileOpens / 60", "files opened by nodes"),
            metric("fileOpens", "TrainingStorage", "FileOpens", "Sum", "Workload", NAME, hidden=True),
            drawn("metadataOperations / 60", "metadata operations, as FSx counts"),
            metric("metadataOperations", "AWS/FSx", "MetadataOperations", "Sum", "FileSystemId", "<fs>", hidden=True),
        ],
    ),
    (
        (6, 13, 6, 6),
        "6. Checkpoint save time",
        ("s",),
        [(29.8666667, "#7f7f7f", "plan: 29.8667"), (60, "#d62728", "alarm checkpoint-save-slow")],
        [
            metric(
                "checkpointSaveTime",
                "TrainingStorage",
                "CheckpointSaveTime",
                "Maximum",
                "Workload",
                NAME,
                label="slowest rank",
            )
        ],
    ),
    (
        (12, 13, 6, 6),
        "7. Restore time",
        ("s",),
        [(300, "#7f7f7f", "plan: 300")],
        [
            metric(
                "restoreTime",
                "TrainingStorage",
                "RestoreTime",
                "Maximum",
                "Workload",
                NAME,
                label="training, slowest rank",
            ),
            metric(
                "hotDrill",
                "TrainingStorage",
                "RestoreTime",
                "Maximum",
                "Workload",
                NAME,
                "Source",
                "hot",
                label="drill, hot",
            ),
            metric(
                "lakeDrill",
                "TrainingStorage",
                "RestoreTime",
                "Maximum",
                "Workload",
                NAME,
                "Source",
                "lake",
                label="drill, lake",
            ),
        ],
    ),
    (
        (18, 13, 6, 6),
        "8. Data-loader queue empty rate",
        ("%", "batches"),
        [],
        [
            metric(
                "loaderQueueEmptyShare",
                "TrainingStorage",
                "LoaderQueueEmptyShare",
                "Average",
                "Workload",
                NAME,
                label="asked for while none was ready",
            ),
            metric(
                "loaderQueueDepth",
                "TrainingStorage",
                "LoaderQueueDepth",
                "Average",
                "Workload",
                NAME,
                label="batches ready",
                right=True,
            ),
        ],
    ),
    (
        (0, 19, 12, 6),
        "9. Step time and its variation",
        ("s", "%"),
        [],
        [
            metric("stepTime", "TrainingStorage", "StepTime", "Average", "Workload", NAME, label="mean step"),
            metric("slowSteps", "TrainingStorage", "StepTime", "p99", "Workload", NAME, label="99th percentile"),
            metric(
                "stepTimeVariation",
                "TrainingStorage",
                "StepTimeVariation",
                "Average",
                "Workload",
                NAME,
                label="variation",
                right=True,
            ),
        ],
    ),
    (
        (12, 19, 12, 6),
        "10. Storage cost beside idle-GPU cost",
        ("USD/h",),
        [(36.4331171, "#7f7f7f", "plan: 36.4331")],
        [
            drawn("4050.94 * (FILL(wait, 0) + FILL(blocked, 0)) / elapsed", "GPUs that wait or are held up"),
            metric("wait", "TrainingStorage", "DataWaitTime", "Sum", "Workload", NAME, hidden=True),
            metric("blocked", "TrainingStorage", "CheckpointBlockedTime", "Sum", "Workload", NAME, hidden=True),
            metric("elapsed", "TrainingStorage", "ElapsedTime", "Sum", "Workload", NAME, hidden=True),
        ],
    ),
    ((0, 25, 24, 1), "## Nodes that stand out"),
    (
        (0, 26, 6, 6),
        "Nodes that wait longest for data",
        ("%",),
        [],
        [
            drawn(
                (
                    'SLICE(SORT(SEARCH(\'{TrainingStorage,Workload,InstanceId} MetricName="DataWaitShare" '
                    "Workload=\"<name>\"', 'Average', 60), AVG, DESC), 0, 5)"
                ),
                "${PROP('Dim.InstanceId')}",
            )
        ],
    ),
    (
        (6, 26, 6, 6),
        "Nodes whose GPUs do least",
        ("%",),
        [],
        [
            drawn(
                (
                    "SLICE(SORT(SEARCH('{TrainingStorage,Workload,InstanceId} "
                    'MetricName="nvidia_smi_utilization_gpu" Workload="<name>"\', \'Average\', 60), AVG, '
                    "ASC), 0, 5)"
                ),
                "${PROP('Dim.InstanceId')}",
            )
        ],
    ),
    (
        (12, 26, 6, 6),
        "Nodes with the slowest steps",
        ("s",),
        [],
        [
            drawn(
                (
                    'SLICE(SORT(SEARCH(\'{TrainingStorage,Workload,InstanceId} MetricName="StepTime" '
                    "Workload=\"<name>\"', 'Average', 60), AVG, DESC), 0, 5)"
                ),
                "${PROP('Dim.InstanceId')}",
            )
        ],
    ),
    (
        (18, 26, 6, 6),
        "Nodes that wait longest for an answer of the storage",
        ("ms",),
        [],
        [
            drawn(
                (
                    "SLICE(SORT(SEARCH('{TrainingStorage,Workload,InstanceId} "
                    'MetricName="StorageRpcWaitTime" Workload="<name>"\', \'Average\', 60), AVG, DESC), 0, '
                    "5)"
                ),
                "${PROP('Dim.InstanceId')}",
            )
        ],
    ),
    (
        (0, 32, 6, 6),
        "Nodes without a mount of the plan",
        ("mounts",),
        [],
        [
            drawn(
                (
                    'SLICE(SORT(SEARCH(\'{TrainingStorage,Workload,InstanceId} MetricName="MountsMissing" '
                    "Workload=\"<name>\"', 'Maximum', 60), AVG, DESC), 0, 5)"
                ),
                "${PROP('Dim.InstanceId')}",
            )
        ],
    ),
    (
        (6, 32, 6, 6),
        "Nodes with the busiest CPUs",
        ("%",),
        [],
        [
            drawn(
                (
                    "SLICE(SORT(SEARCH('{TrainingStorage,Workload,InstanceId} "
                    'MetricName="cpu_usage_active" Workload="<name>"\', \'Average\', 60), AVG, DESC), 0, 5)'
                ),
                "${PROP('Dim.InstanceId')}",
            )
        ],
    ),
    (
        (12, 32, 6, 6),
        "Bytes to and from file servers by EFA and TCP",
        ("MB/s",),
        [],
        [
            drawn("efaBytes / 60000000", "EFA"),
            metric("efaBytes", "TrainingStorage", "EfaBytes", "Sum", "Workload", NAME, hidden=True),
            drawn("tcpBytes / 60000000", "TCP"),
            metric("tcpBytes", "TrainingStorage", "TcpBytes", "Sum", "Workload", NAME, hidden=True),
        ],
    ),
    (
        (18, 32, 6, 6),
        "Requests to storage that failed",
        ("a minute",),
        [],
        [
            metric(
                "storageRequestErrors",
                "TrainingStorage",
                "StorageRequestErrors",
                "Sum",
                "Workload",
                NAME,
                label="failed requests",
            ),
            metric(
                "throttledRequests",
                "TrainingStorage",
                "ThrottledRequests",
                "Sum",
                "Workload",
                NAME,
                label="throttled requests",
            ),
        ],
    ),
    ((0, 38, 24, 1), "## FSx for Lustre"),
    (
        (0, 39, 8, 6),
        "File system throughput",
        ("MB/s",),
        [(12800, "#7f7f7f", "planned read demand"), (32812.5, "#d62728", "planned throughput")],
        [
            drawn("dataReadBytes / 60000000", "read"),
            metric("dataReadBytes", "AWS/FSx", "DataReadBytes", "Sum", "FileSystemId", "<fs>", hidden=True),
            drawn("dataWriteBytes / 60000000", "written"),
            metric("dataWriteBytes", "AWS/FSx", "DataWriteBytes", "Sum", "FileSystemId", "<fs>", hidden=True),
        ],
    ),
    (
        (8, 39, 8, 6),
        "Metadata operations",
        ("1/s",),
        [(50, "#7f7f7f", "planned file opens")],
        [
            drawn("metadataOperations / 60", "operations"),
            metric("metadataOperations", "AWS/FSx", "MetadataOperations", "Sum", "FileSystemId", "<fs>", hidden=True),
        ],
    ),
    (
        (16, 39, 8, 6),
        "Client connections",
        ("clients",),
        [(64, "#7f7f7f", "instances")],
        [metric("clientConnections", "AWS/FSx", "ClientConnections", "Sum", "FileSystemId", "<fs>", label="clients")],
    ),
    (
        (0, 45, 8, 6),
        "Free space on the fullest storage target",
        ("GiB",),
        [],
        [
            drawn("freeDataStorageCapacity / 1073741824", "free"),
            metric(
                "freeDataStorageCapacity",
                "AWS/FSx",
                "FreeDataStorageCapacity",
                "Minimum",
                "FileSystemId",
                "<fs>",
                hidden=True,
            ),
        ],
    ),
    (
        (8, 45, 8, 6),
        "Oldest change waiting in the S3 link",
        ("s",),
        [(86400, "#d62728", "one day; changes are lost after 14")],
        [
            metric(
                "autoImport",
                "AWS/FSx",
                "AgeOfOldestQueuedMessage",
                "Maximum",
                "FileSystemId",
                "<fs>",
                "Publisher",
                "AutoImport",
                label="AutoImport",
            ),
            metric(
                "autoExport",
                "AWS/FSx",
                "AgeOfOldestQueuedMessage",
                "Maximum",
                "FileSystemId",
                "<fs>",
                "Publisher",
                "AutoExport",
                label="AutoExport",
            ),
        ],
    ),
    (
        (16, 45, 8, 6),
        "Network of the busiest file servers",
        ("%",),
        [],
        [
            drawn(
                (
                    'SLICE(SORT(SEARCH(\'{"AWS/FSx",FileSystemId,FileServer} '
                    'MetricName="NetworkThroughputUtilization" FileSystemId="<fs>"\', \'Maximum\', 60), '
                    "AVG, DESC), 0, 5)"
                ),
                "${PROP('Dim.FileServer')}",
            )
        ],
    ),
    (
        (0, 51, 8, 6),
        "Disks of the busiest file servers",
        ("%",),
        [],
        [
            drawn(
                (
                    'SLICE(SORT(SEARCH(\'{"AWS/FSx",FileSystemId,FileServer} '
                    'MetricName="FileServerDiskThroughputUtilization" FileSystemId="<fs>"\', \'Maximum\', '
                    "60), AVG, DESC), 0, 5)"
                ),
                "${PROP('Dim.FileServer')}",
            )
        ],
    ),
    (
        (8, 51, 8, 6),
        "CPU of the metadata servers",
        ("%",),
        [],
        [
            drawn(
                (
                    'SLICE(SORT(SEARCH(\'{"AWS/FSx",FileSystemId,FileServer} MetricName="CPUUtilization" '
                    "FileSystemId=\"<fs>\"', 'Maximum', 60), AVG, DESC), 0, 5)"
                ),
                "${PROP('Dim.FileServer')}",
            )
        ],
    ),
    (
        (16, 51, 8, 6),
        "Operations of the busiest storage targets",
        ("%",),
        [],
        [
            drawn(
                (
                    'SLICE(SORT(SEARCH(\'{"AWS/FSx",FileSystemId,StorageTargetId} '
                    'MetricName="DiskIopsUtilization" FileSystemId="<fs>"\', \'Maximum\', 60), AVG, DESC), '
                    "0, 5)"
                ),
                "${PROP('Dim.StorageTargetId')}",
            )
        ],
    ),
    (
        (0, 57, 8, 6),
        "Storage targets that are read most",
        ("bytes a minute",),
        [],
        [
            drawn(
                (
                    'SLICE(SORT(SEARCH(\'{"AWS/FSx",FileSystemId,StorageTargetId} '
                    'MetricName="DiskReadBytes" FileSystemId="<fs>"\', \'Sum\', 60), AVG, DESC), 0, 5)'
                ),
                "${PROP('Dim.StorageTargetId')}",
            )
        ],
    ),
    (
        (8, 57, 8, 6),
        "Storage targets that are written most",
        ("bytes a minute",),
        [],
        [
            drawn(
                (
                    'SLICE(SORT(SEARCH(\'{"AWS/FSx",FileSystemId,StorageTargetId} '
                    'MetricName="DiskWriteBytes" FileSystemId="<fs>"\', \'Sum\', 60), AVG, DESC), 0, 5)'
                ),
                "${PROP('Dim.StorageTargetId')}",
            )
        ],
    ),
    (
        (16, 57, 8, 6),
        "Files opened by metadata target",
        ("a minute",),
        [],
        [
            drawn(
                (
                    'SLICE(SORT(SEARCH(\'{"AWS/FSx",FileSystemId,StorageTargetId} '
                    'MetricName="FileOpenOperations" FileSystemId="<fs>"\', \'Sum\', 60), AVG, DESC), 0, 5)'
                ),
                "${PROP('Dim.StorageTargetId')}",
            )
        ],
    ),
    ((0, 63, 24, 1), "## Fleet and data lake"),
    (
        (0, 64, 8, 6),
        "Network into the fleet (without EFA)",
        ("MB/s",),
        [],
        [
            drawn("networkIn / 60000000", "received"),
            metric("networkIn", "AWS/EC2", "NetworkIn", "Sum", "AutoScalingGroupName", "<fleet>", hidden=True),
        ],
    ),
    (
        (8, 64, 8, 6),
        "Data lake",
        ("GiB",),
        [],
        [
            drawn("bucketSizeBytes / 1073741824", "S3 Standard", period=86400),
            metric(
                "bucketSizeBytes",
                "AWS/S3",
                "BucketSizeBytes",
                "Average",
                "BucketName",
                "<lake>",
                "StorageType",
                "StandardStorage",
                period=86400,
                hidden=True,
            ),
        ],
    ),
    (
        (16, 64, 8, 6),
        "Read from the lake",
        ("MB/s",),
        [],
        [
            drawn("bytesDownloaded1 / 60000000", "datasets"),
            metric(
                "bytesDownloaded1",
                "AWS/S3",
                "BytesDownloaded",
                "Sum",
                "BucketName",
                "<lake>",
                "FilterId",
                "datasets",
                hidden=True,
            ),
            drawn("bytesDownloaded2 / 60000000", "checkpoints"),
            metric(
                "bytesDownloaded2",
                "AWS/S3",
                "BytesDownloaded",
                "Sum",
                "BucketName",
                "<lake>",
                "FilterId",
                "checkpoints",
                hidden=True,
            ),
        ],
    ),
    (
        (0, 70, 8, 6),
        "Requests to the lake",
        ("1/s",),
        [],
        [
            drawn("allRequests1 / 60", "datasets"),
            metric(
                "allRequests1",
                "AWS/S3",
                "AllRequests",
                "Sum",
                "BucketName",
                "<lake>",
                "FilterId",
                "datasets",
                hidden=True,
            ),
            drawn("allRequests2 / 60", "checkpoints"),
            metric(
                "allRequests2",
                "AWS/S3",
                "AllRequests",
                "Sum",
                "BucketName",
                "<lake>",
                "FilterId",
                "checkpoints",
                hidden=True,
            ),
        ],
    ),
    (
        (8, 70, 8, 6),
        "Requests to the lake that S3 failed or throttled",
        ("1/s",),
        [],
        [
            drawn("n5xxErrors1 / 60", "datasets"),
            metric(
                "n5xxErrors1", "AWS/S3", "5xxErrors", "Sum", "BucketName", "<lake>", "FilterId", "datasets", hidden=True
            ),
            drawn("n5xxErrors2 / 60", "checkpoints"),
            metric(
                "n5xxErrors2",
                "AWS/S3",
                "5xxErrors",
                "Sum",
                "BucketName",
                "<lake>",
                "FilterId",
                "checkpoints",
                hidden=True,
            ),
        ],
    ),
    (
        (16, 70, 8, 6),
        "First byte from the lake",
        ("ms",),
        [],
        [
            metric(
                "firstByteLatency1",
                "AWS/S3",
                "FirstByteLatency",
                "Average",
                "BucketName",
                "<lake>",
                "FilterId",
                "datasets",
                label="datasets",
            ),
            metric(
                "firstByteLatency2",
                "AWS/S3",
                "FirstByteLatency",
                "Average",
                "BucketName",
                "<lake>",
                "FilterId",
                "checkpoints",
                label="checkpoints",
            ),
        ],
    ),
]

COMPOSITE_TEXT = (
    "GPUs wait for storage. GPUs stand still and the storage is why. First look: Which "
    "of the alarms in its rule stand: they name the cause. Threshold: the alarms of its "
    "rule. Page: docs/alarms/gpus-wait-for-storage.md. Next step: training-storage "
    "diagnose llama3-70b."
)
EXPECTED = {
    "workload": NAME,
    "region": "us-east-1",
    "instance_type": "p5en.48xlarge",
    "instance_count": 64,
    "accelerators": 512,
    "hot": "lustre",
    "file_access": "mountpoint",
    "efa": True,
    "servers": 7,
    "read_mb_per_s": 12800,
    "node_read_mb_per_s": 200,
    "node_limit_mb_per_s": 87500,
    "supply_mb_per_s": 32812.5,
    "write_mb_per_s": 32812.5,
    "file_opens_per_s": 50,
    "file_opens_limit_per_s": 48000,
    "data_wait_percent": 0,
    "checkpoint_save_s": 29.8667,
    "checkpoint_interval_s": 1800,
    "max_write_s": 60,
    "restore_s": 29.8667,
    "max_restore_s": 300,
    "asynchronous": True,
    "storage_usd_per_hour": 36.4331,
    "gpu_usd_per_hour": 4050.94,
    "paths": {"datasets": "/fsx/datasets", "checkpoints": "/fsx/checkpoints"},
    "import_events": True,
    "export_events": False,
}


class Monitoring(cdk.Stack):
    def __init__(self, scope: Construct, *, lake: Lake, hot: Hot, compute: Compute, **kwargs: Any) -> None:
        what = f"Dashboard and alarms of {NAME}, for one run"
        super().__init__(scope, f"{NAME}-monitoring", description=what, **kwargs)
        known = {"<fs>": hot.file_system.ref, "<lake>": lake.bucket.ref, "<fleet>": compute.fleet.ref, "<name>": NAME}
        self.watch_links(hot.file_system.ref)
        made = {each[0]: self.alarm(known, *each) for each in ALARMS}
        waiting, *evidence = (
            f'ALARM("{made[id_].ref}")'
            for id_ in (
                "gpus-wait-for-data",
                "storage-throughput-at-limit",
                "metadata-at-limit",
                "mds-cpu-high",
                "s3-throttled",
            )
        )
        composite = cloudwatch.CfnCompositeAlarm(
            self,
            "GpusWaitForStorage",
            alarm_name=f"{NAME}-gpus-wait-for-storage",
            alarm_description=COMPOSITE_TEXT,
            alarm_rule=f"({waiting} AND ({' OR '.join(evidence)}))",
        )
        arns = {"gpus-wait-for-storage": composite.attr_arn, **{id_: each.attr_arn for id_, each in made.items()}}
        dashboard = cloudwatch.CfnDashboard(
            self,
            "Dashboard",
            dashboard_name=f"{NAME}-storage",
            dashboard_body=filled(json.dumps({"widgets": [widget(arns, *each) for each in GRAPHS]}), known),
        )
        expected = ssm.CfnParameter(
            self,
            "Expected",
            name=f"/training-storage/{NAME}/expected",
            description=f"What the metrics of {NAME} should show, by its plan",
            type="String",
            value=json.dumps(EXPECTED, separators=(",", ":")),
        )
        cdk.CfnOutput(self, "DashboardName", value=dashboard.ref)
        cdk.CfnOutput(self, "ExpectedParameter", value=expected.ref)
        cdk.CfnOutput(self, "GpusWaitAlarm", value=composite.ref)

    def alarm(
        self,
        known: dict[str, str],
        id_: str,
        text: str,
        comparison: str,
        threshold: float,
        datapoints: int,
        periods: int,
        missing: str,
        watched: list[Any],
    ) -> cloudwatch.CfnAlarm:
        def dimensions(row: list[Any]) -> list[cloudwatch.CfnAlarm.DimensionProperty]:
            pairs = zip(row[2:-1:2], row[3:-1:2], strict=True)
            one = cloudwatch.CfnAlarm.DimensionProperty
            return [one(name=name, value=filled(value, known)) for name, value in pairs]

        head, *inputs = watched
        if isinstance(head, list):
            options = head[-1]
            what: dict[str, Any] = {
                "namespace": head[0],
                "metric_name": head[1],
                "dimensions": dimensions(head),
                "statistic": options["stat"],
                "period": options["period"],
            }
        else:
            query = cloudwatch.CfnAlarm.MetricDataQueryProperty
            expression, label = head
            queries = [
                query(
                    id="watched",
                    expression=filled(expression, known),
                    label=label,
                    return_data=True,
                    period=None if inputs else 60,
                )
            ]
            for row in inputs:
                metric_stat = cloudwatch.CfnAlarm.MetricStatProperty(
                    metric=cloudwatch.CfnAlarm.MetricProperty(
                        namespace=row[0], metric_name=row[1], dimensions=dimensions(row)
                    ),
                    period=row[-1]["period"],
                    stat=row[-1]["stat"],
                )
                queries.append(query(id=row[-1]["id"], metric_stat=metric_stat, return_data=False))
            what = {"metrics": queries}
        return cloudwatch.CfnAlarm(
            self,
            id_.title().replace("-", ""),
            alarm_name=f"{NAME}-{id_}",
            alarm_description=filled(text, known),
            comparison_operator=comparison,
            threshold=threshold,
            datapoints_to_alarm=datapoints,
            evaluation_periods=periods,
            treat_missing_data=missing,
            **what,
        )

    def watch_links(self, fs: str) -> None:
        log = logs.CfnLogGroup(
            self, "LinksLogGroup", log_group_name=f"/aws/vendedlogs/states/{NAME}-links", retention_in_days=365
        )
        log.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
        role = iam.CfnRole(
            self,
            "LinksRole",
            description=f"Looks whether a link of {NAME} has stopped",
            assume_role_policy_document=trust("states.amazonaws.com"),
        )
        rights = attached(
            role,
            "LinksPolicy",
            allow(
                [
                    "fsx:DescribeDataRepositoryAssociations",
                    "logs:CreateLogDelivery",
                    "logs:DeleteLogDelivery",
                    "logs:DescribeLogGroups",
                    "logs:DescribeResourcePolicies",
                    "logs:GetLogDelivery",
                    "logs:ListLogDeliveries",
                    "logs:PutResourcePolicy",
                    "logs:UpdateLogDelivery",
                ],
                "*",
            ),
            allow("cloudwatch:PutMetricData", "*", StringEquals={"cloudwatch:namespace": "TrainingStorage"}),
        )
        machine = stepfunctions.CfnStateMachine
        watch = machine(
            self,
            "Links",
            state_machine_name=f"{NAME}-links",
            definition_string=json.dumps(link_steps(fs)),
            role_arn=role.attr_arn,
            logging_configuration=machine.LoggingConfigurationProperty(
                level="ALL",
                include_execution_data=False,
                destinations=[
                    machine.LogDestinationProperty(
                        cloud_watch_logs_log_group=machine.CloudWatchLogsLogGroupProperty(log_group_arn=log.attr_arn)
                    )
                ],
            ),
        )
        watch.add_resource_dependency(rights)
        watch.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
        own = {"StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID}}
        trusted = trust("scheduler.amazonaws.com")
        trusted["Statement"][0]["Condition"] = own
        caller = iam.CfnRole(
            self, "LinksCaller", description=f"Looks at the links of {NAME}", assume_role_policy_document=trusted
        )
        may_start = attached(caller, "LinksCallerPolicy", allow("states:StartExecution", watch.ref))
        schedule = scheduler.CfnSchedule(
            self,
            "LinksSchedule",
            name=f"{NAME}-links",
            description=f"Looks at the links of {NAME}",
            schedule_expression="rate(5 minutes)",
            schedule_expression_timezone="UTC",
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=watch.ref,
                role_arn=caller.attr_arn,
                input="{}",
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_event_age_in_seconds=6 * 3600, maximum_retry_attempts=60
                ),
            ),
        )
        schedule.add_resource_dependency(may_start)


def filled(text: str, known: dict[str, str]) -> str:
    for mark, value in known.items():
        text = text.replace(mark, value)
    return text


def link_steps(fs: str) -> dict[str, Any]:
    retry = [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 5, "MaxAttempts": 4, "BackoffRate": 2}]
    aws = "arn:aws:states:::aws-sdk:"

    def write(value: int) -> dict[str, Any]:
        dimensions = [{"Name": "Workload", "Value": NAME}]
        datum = {"MetricName": "LinksBroken", "Dimensions": dimensions, "Unit": "Count", "Value": value}
        given = {"Namespace": "TrainingStorage", "MetricData": [datum]}
        resource = f"{aws}cloudwatch:putMetricData"
        return {"Type": "Task", "Resource": resource, "Parameters": given, "Retry": retry, "End": True}

    lifecycles = {"misconfigured": "MISCONFIGURED", "failed": "FAILED"}
    return {
        "Comment": "Looks whether a link has stopped",
        "StartAt": "look",
        "TimeoutSeconds": 240,
        "States": {
            "look": {
                "Type": "Task",
                "Resource": f"{aws}fsx:describeDataRepositoryAssociations",
                "Parameters": {"Filters": [{"Name": "file-system-id", "Values": [fs]}]},
                "Retry": retry,
                "ResultSelector": {"lifecycles.$": "$.Associations[*].Lifecycle"},
                "Next": "judge",
            },
            "judge": {
                "Type": "Pass",
                "Parameters": {
                    f"{key}.$": f"States.ArrayContains($.lifecycles, '{value}')" for key, value in lifecycles.items()
                },
                "Next": "stopped",
            },
            "stopped": {
                "Type": "Choice",
                "Choices": [
                    {
                        "Or": [{"Variable": f"$.{key}", "BooleanEquals": True} for key in lifecycles],
                        "Next": "write 1",
                    }
                ],
                "Default": "write 0",
            },
            "write 1": write(1),
            "write 0": write(0),
        },
    }


def widget(arns: dict[str, str], place: tuple[int, int, int, int], title: str, *rest: Any) -> dict[str, Any]:
    at = dict(zip(("x", "y", "width", "height"), place, strict=True))
    if not rest:
        return {"type": "text", **at, "properties": {"markdown": title, "background": "transparent"}}
    if len(rest) == 1:
        return {"type": "alarm", **at, "properties": {"title": title, "alarms": [arns[each] for each in rest[0]]}}
    units, lines, rows = rest
    properties: dict[str, Any] = {
        "view": "timeSeries" if units else "singleValue",
        "title": title,
        "region": cdk.Aws.REGION,
        "metrics": rows,
        "period": 60,
    }
    if not units:
        properties["sparkline"] = True
    for side, unit in zip(("left", "right"), units, strict=False):
        properties.setdefault("yAxis", {})[side] = {"label": unit, "min": 0, "showUnits": False}
    if lines:
        properties["annotations"] = {
            "horizontal": [
                {"value": value, "color": colour, "label": label, **({"yAxis": axis[0]} if axis else {})}
                for value, colour, label, *axis in lines
            ]
        }
    return {"type": "metric", **at, "properties": properties}


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
