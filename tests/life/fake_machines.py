"""EC2, Auto Scaling, Systems Manager, CloudFormation and STS in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tests.life.fake_s3 import REGION, error, moment

if TYPE_CHECKING:
    from tests.life.fake_aws import FakeAws

ACCOUNT = "111111111111"


class Machines:
    """EC2, Auto Scaling and Systems Manager: instances, groups, and commands that a test runs."""

    def __init__(self, aws: FakeAws) -> None:
        self._aws = aws
        self.instances: dict[str, dict[str, Any]] = {}
        self.groups: dict[str, dict[str, Any]] = {}
        self.commands: dict[str, dict[str, Any]] = {}
        self.run: Callable[[str, str], tuple[int, str, str]] = lambda _instance, _text: (0, "", "")
        """Runs the text of a command on an instance; returns exit code, output and error output."""
        self.online = True
        self._count = 0

    def start(self, tags: dict[str, str], group: str = "") -> str:
        """Start an instance."""
        self._count += 1
        name = f"i-{self._count:017x}"
        self.instances[name] = {
            "InstanceId": name,
            "State": {"Name": "running"},
            "LaunchTime": moment(self._aws.clock()),
            "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            "group": group,
        }
        return name

    def stop(self, name: str) -> None:
        """End an instance."""
        del self.instances[name]

    def group(self, name: str, tags: dict[str, str], desired: int, most: int) -> None:
        """Make a group."""
        self.groups[name] = {"AutoScalingGroupName": name, "MinSize": 0, "MaxSize": most, "tags": tags}
        self._scale(name, desired)

    def _scale(self, name: str, desired: int) -> None:
        group = self.groups[name]
        group["DesiredCapacity"] = desired
        members = [each for each, about in self.instances.items() if about["group"] == name]
        for each in members[desired:]:
            self.stop(each)
        for _ in range(desired - len(members)):
            self.start(group["tags"], name)

    # -- EC2

    def describe_instances(self, **given: Any) -> dict[str, Any]:
        found = []
        for about in self.instances.values():
            tags = {each["Key"]: each["Value"] for each in about["Tags"]}
            keep = not given.get("InstanceIds") or about["InstanceId"] in given["InstanceIds"]
            for each in given.get("Filters") or ():
                if each["Name"] == "instance-state-name":
                    keep = keep and about["State"]["Name"] in each["Values"]
                elif each["Name"].startswith("tag:"):
                    keep = keep and tags.get(each["Name"][4:]) in each["Values"]
                else:
                    raise KeyError(each["Name"])
            if keep:
                found.append({key: value for key, value in about.items() if key != "group"})
        return {"Reservations": [{"Instances": [each]} for each in found]}

    # -- Auto Scaling

    def describe_auto_scaling_groups(self, **given: Any) -> dict[str, Any]:
        wanted = given.get("AutoScalingGroupNames")
        filters = given.get("Filters") or ()
        assert all(each["Name"].startswith("tag:") for each in filters)
        shown = []
        for name, about in self.groups.items():
            tagged = all(about["tags"].get(each["Name"][4:]) in each["Values"] for each in filters)
            if tagged and (wanted is None or name in wanted):
                members = [
                    {"InstanceId": each, "LifecycleState": "InService", "HealthStatus": "Healthy"}
                    for each, one in self.instances.items()
                    if one["group"] == name
                ]
                tags = [{"Key": key, "Value": value} for key, value in about["tags"].items()]
                shown.append({**{k: v for k, v in about.items() if k != "tags"}, "Instances": members, "Tags": tags})
        return {"AutoScalingGroups": shown}

    def set_desired_capacity(self, *, AutoScalingGroupName: str, DesiredCapacity: int, **_given: Any) -> dict[str, Any]:
        if AutoScalingGroupName not in self.groups:
            raise error("ValidationError", "SetDesiredCapacity", "AutoScalingGroup name not found")
        if DesiredCapacity > self.groups[AutoScalingGroupName]["MaxSize"]:
            raise error("ValidationError", "SetDesiredCapacity")
        self._scale(AutoScalingGroupName, DesiredCapacity)
        return {}

    # -- Systems Manager

    def describe_instance_information(self, **given: Any) -> dict[str, Any]:
        names = set(self.instances)
        for each in given.get("Filters") or ():
            if each["Key"] == "InstanceIds":
                names &= set(each["Values"])
        status = "Online" if self.online else "ConnectionLost"
        return {"InstanceInformationList": [{"InstanceId": name, "PingStatus": status} for name in sorted(names)]}

    def send_command(
        self, *, InstanceIds: list[str], DocumentName: str, Parameters: Any, **given: Any
    ) -> dict[str, Any]:
        assert DocumentName == "AWS-RunShellScript"
        if len(InstanceIds) > 50:
            raise error("InvalidInstanceId", "SendCommand", "at most 50")
        if any(each not in self.instances for each in InstanceIds):
            raise error("InvalidInstanceId", "SendCommand")
        self._count += 1
        command = f"00000000-0000-0000-0000-{self._count:012d}"
        text = "\n".join(Parameters["commands"])
        self.commands[command] = {"text": text, "instances": list(InstanceIds), "results": {}, "given": given}
        return {"Command": {"CommandId": command, "Status": "Pending", "InstanceIds": list(InstanceIds)}}

    def list_commands(self, **_given: Any) -> dict[str, Any]:
        shown = [
            {
                "CommandId": name,
                "Comment": about["given"].get("Comment", ""),
                "InstanceIds": list(about["instances"]),
            }
            for name, about in self.commands.items()
        ]
        return {"Commands": shown}

    def _result(self, command: str, instance: str, operation: str) -> tuple[str, tuple[int, str, str]]:
        if command not in self.commands:
            raise error("InvalidCommandId", operation)
        held = self.commands[command]
        if instance not in self.instances:
            return "TimedOut", (-1, "", "")
        if instance not in held["results"]:
            held["results"][instance] = None
            return "InProgress", (-1, "", "")
        if held["results"][instance] is None:
            held["results"][instance] = self.run(instance, held["text"])
        result: tuple[int, str, str] = held["results"][instance]
        return ("Success" if result[0] == 0 else "Failed"), result

    def get_command_invocation(self, *, CommandId: str, InstanceId: str, **_given: Any) -> dict[str, Any]:
        status, (code, out, err) = self._result(CommandId, InstanceId, "GetCommandInvocation")
        return {
            "CommandId": CommandId,
            "InstanceId": InstanceId,
            "Status": status,
            "StatusDetails": status,
            "ResponseCode": code,
            "StandardOutputContent": out[:24_000],
            "StandardErrorContent": err[:8_000],
        }

    def list_command_invocations(self, *, CommandId: str, **given: Any) -> dict[str, Any]:
        wanted = [given["InstanceId"]] if "InstanceId" in given else self.commands[CommandId]["instances"]
        shown = []
        for name in wanted:
            status, (code, out, _) = self._result(CommandId, name, "ListCommandInvocations")
            about = {"CommandId": CommandId, "InstanceId": name, "Status": status, "StatusDetails": status}
            if given.get("Details"):
                about["CommandPlugins"] = [{"Name": "aws:runShellScript", "ResponseCode": code, "Output": out[:2500]}]
            shown.append(about)
        return {"CommandInvocations": shown}


class CloudFormation:
    """The CloudFormation client: stacks that a test names; deleting takes one look."""

    def __init__(self, aws: FakeAws) -> None:
        self._aws = aws
        self.stacks: dict[str, dict[str, Any]] = {}
        self.deleted: list[str] = []
        """Names in the order in which stacks went."""
        self.refusing: dict[str, str] = {}
        """Stacks whose delete fails, with the reason."""
        self.on_delete: Callable[[str], None] = lambda _name: None

    def make(
        self, name: str, outputs: dict[str, str] | None = None, resources: list[dict[str, str]] | None = None
    ) -> None:
        """Make a stack."""
        self.stacks[name] = {
            "StackName": name,
            "StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{name}/0",
            "StackStatus": "CREATE_COMPLETE",
            "CreationTime": moment(self._aws.clock()),
            "Outputs": [{"OutputKey": key, "OutputValue": value} for key, value in (outputs or {}).items()],
            "resources": resources or [],
            "events": [],
        }

    def _stack(self, name: str, operation: str) -> dict[str, Any]:
        plain = name.split("/")[1] if name.startswith("arn:") else name
        # An id is that of one stack, whatever is made of its name later.
        if plain not in self.stacks or (name.startswith("arn:") and self.stacks[plain]["StackId"] != name):
            raise error("ValidationError", operation, f"Stack with id {name} does not exist")
        return self.stacks[plain]

    def describe_stacks(self, *, StackName: str, **_given: Any) -> dict[str, Any]:
        stack = self._stack(StackName, "DescribeStacks")
        shown = {key: value for key, value in stack.items() if key not in ("resources", "events")}
        if stack["StackStatus"] == "DELETE_IN_PROGRESS":
            name = stack["StackName"]
            if name in self.refusing:
                stack["StackStatus"] = "DELETE_FAILED"
                stack["events"].insert(
                    0,
                    {
                        "StackName": name,
                        "LogicalResourceId": "Guard",
                        "ResourceStatus": "DELETE_FAILED",
                        "ResourceStatusReason": self.refusing[name],
                        "Timestamp": moment(self._aws.clock()),
                    },
                )
            else:
                self.on_delete(name)
                self.deleted.append(name)
                del self.stacks[name]
        return {"Stacks": [shown]}

    def describe_stack_events(self, *, StackName: str, **_given: Any) -> dict[str, Any]:
        return {"StackEvents": list(self._stack(StackName, "DescribeStackEvents")["events"])}

    def list_stack_resources(self, *, StackName: str, NextToken: str = "0", **_given: Any) -> dict[str, Any]:
        found, at = self._stack(StackName, "ListStackResources")["resources"], int(NextToken)
        more = {"NextToken": str(at + 100)} if at + 100 < len(found) else {}
        return {"StackResourceSummaries": found[at : at + 100], **more}

    def get_template(self, *, StackName: str, **_given: Any) -> dict[str, Any]:
        """Return a template: types of the resources, and ``policy`` of each that has one."""
        resources = {
            each["LogicalResourceId"]: {
                "Type": each["ResourceType"],
                **({"DeletionPolicy": each["policy"]} if each.get("policy") else {}),
            }
            for each in self._stack(StackName, "GetTemplate")["resources"]
        }
        return {"TemplateBody": {"Resources": resources}}

    def delete_stack(self, *, StackName: str, **_given: Any) -> dict[str, Any]:
        try:
            stack = self._stack(StackName, "DeleteStack")
        except ClientError:
            return {}
        stack["StackStatus"] = "DELETE_IN_PROGRESS"
        return {}


class Sts:
    """The STS client."""

    def get_caller_identity(self) -> dict[str, Any]:
        return {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/operator", "UserId": "AIDA"}
