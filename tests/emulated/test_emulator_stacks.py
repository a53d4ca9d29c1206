"""Stacks in the emulator: order, rollback, replacement, retention, exports; and that nothing fails in silence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.emulated.emulator_templates import changed, file_system, hot, network, without
from training_storage.emulator import Emulator, StackFailedError


def bucket(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::S3::Bucket", "Properties": properties}


def only(**resources: Any) -> dict[str, Any]:
    return {"Resources": resources}


def topic(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::SNS::Topic", "Properties": properties}


def test_outputs_and_events(aws_emulator: Emulator) -> None:
    stack = aws_emulator.deploy(hot(), "hot")
    assert stack.status == "CREATE_COMPLETE"
    assert stack.outputs == {"FileSystemId": stack.physical_ids["Fs"]}
    order = [event.logical_id for event in stack.events if event.status == "CREATE_COMPLETE"]
    assert order.index("In") < order.index("Fs") < order.index("Link")


def test_yaml_with_short_forms(aws_emulator: Emulator) -> None:
    template = """
Parameters:
  Prefix: {Type: String, Default: lake}
Conditions:
  Wanted: !Equals [!Ref Prefix, lake]
Resources:
  Bucket:
    Type: AWS::S3::Bucket
    Condition: Wanted
    Properties:
      BucketName: !Sub "${Prefix}-${AWS::AccountId}"
  Other:
    Type: AWS::S3::Bucket
    Condition: Unwanted
  Policy:
    Type: AWS::S3::BucketPolicy
    Properties:
      Bucket: !Ref Bucket
      PolicyDocument:
        Version: 2012-10-17
        Statement: [{Effect: Deny, Principal: "*", Action: "s3:*", Resource: !GetAtt Bucket.Arn}]
Outputs:
  Literal: {Value: !Sub "${!Literal}-${Bucket}"}
  Joined: {Value: !Join ["/", [!Select [1, !Split ["-", !Ref Bucket]], x]]}
""".replace("  Wanted:", "  Unwanted: !Not [!Condition Wanted]\n  Wanted:")
    stack = aws_emulator.deploy(template, "yaml")
    assert stack.outputs == {"Literal": "${Literal}-lake-123456789012", "Joined": "123456789012/x"}
    assert "Other" not in stack.physical_ids
    policy = aws_emulator.client("s3").get_bucket_policy(Bucket="lake-123456789012")["Policy"]
    assert '"Version": "2012-10-17"' in policy


def test_unknown_type_is_refused(aws_emulator: Emulator) -> None:
    with pytest.raises(StackFailedError, match=r"Unrecognized resource types: \['AWS::FSx::Nonsense'\]"):
        aws_emulator.deploy(only(A={"Type": "AWS::FSx::Nonsense"}), "bad")
    assert aws_emulator.stacks() == []


@pytest.mark.parametrize(
    "value",
    [
        {"Ref": "Nowhere"},
        {"Fn::GetAtt": ["Nowhere", "Arn"]},
        {"Fn::Sub": "x-${Nowhere}"},
        {"Fn::Sub": "x-${Nowhere.Arn}"},
    ],
)
def test_a_reference_to_nothing_is_refused(aws_emulator: Emulator, value: dict[str, Any]) -> None:
    with pytest.raises(StackFailedError, match="Nowhere"):
        aws_emulator.deploy(only(A=bucket(BucketName=value)), "bad")
    assert aws_emulator.stacks() == []


def test_a_reference_to_a_resource_that_its_condition_leaves_out_is_refused(aws_emulator: Emulator) -> None:
    template = only(A=bucket(BucketName={"Ref": "B"}), B={**bucket(), "Condition": "Never"})
    template["Conditions"] = {"Never": {"Fn::Equals": ["a", "b"]}}
    with pytest.raises(StackFailedError, match=r"Unresolved resource dependencies \[B\]"):
        aws_emulator.deploy(template, "bad")


def test_an_attribute_that_the_type_lacks_is_refused(aws_emulator: Emulator) -> None:
    template = {**hot(), "Outputs": {"M": {"Value": {"Fn::GetAtt": ["Fs", "MountName"]}}}}
    with pytest.raises(StackFailedError, match="Fs does not support attribute type MountName"):
        aws_emulator.deploy(template, "bad")


@pytest.mark.parametrize("section", ["Resources", "Outputs"])
def test_an_unknown_function_is_refused(aws_emulator: Emulator, section: str) -> None:
    template = only(A=bucket())
    if section == "Resources":
        template["Resources"]["A"]["Properties"] = {"BucketName": {"Fn::Nonsense": "x"}}
    else:
        template["Outputs"] = {"X": {"Value": {"Fn::Nonsense": "x"}}}
    with pytest.raises(StackFailedError, match="unsupported function Fn::Nonsense"):
        aws_emulator.deploy(template, "bad")


def test_a_circle_is_refused(aws_emulator: Emulator) -> None:
    template = only(A={**bucket(), "DependsOn": "B"}, B={**bucket(), "DependsOn": "A"})
    with pytest.raises(StackFailedError, match="Circular dependency between resources"):
        aws_emulator.deploy(template, "bad")


def test_a_property_that_the_registry_does_not_know_rolls_back(aws_emulator: Emulator) -> None:
    with pytest.raises(StackFailedError, match="'Foo' was unexpected") as caught:
        aws_emulator.deploy(only(A=topic(), B=bucket(Foo=1)), "bad")
    assert caught.value.status == "ROLLBACK_COMPLETE"


def test_a_reference_of_the_wrong_kind_rolls_back(aws_emulator: Emulator) -> None:
    """A file system id where S3 Files wants its own: the registry's pattern sees it once the value is known."""
    template = hot()
    template["Resources"]["Target"] = {
        "Type": "AWS::S3Files::MountTarget",
        "Properties": {"FileSystemId": {"Ref": "Bucket"}, "SubnetId": {"Ref": "Subnet"}},
    }
    with pytest.raises(StackFailedError, match=r"Target \(AWS::S3Files::MountTarget\).*does not match"):
        aws_emulator.deploy(template, "bad")
    assert aws_emulator.client("fsx").describe_file_systems()["FileSystems"] == []


def test_rollback_removes_what_was_made_and_names_the_reason(aws_emulator: Emulator) -> None:
    template = changed(hot(), "Resources", "Link", "Properties", "FileSystemPath", to="datasets")
    with pytest.raises(StackFailedError, match="FileSystemPath 'datasets' must start with a slash") as caught:
        aws_emulator.deploy(template, "bad")
    assert caught.value.status == "ROLLBACK_COMPLETE"
    assert aws_emulator.client("fsx").describe_file_systems()["FileSystems"] == []
    names = {event.logical_id for event in caught.value.events if event.status == "DELETE_COMPLETE"}
    assert {"Fs", "Bucket", "Subnet", "Vpc"} <= names


def test_a_rolled_back_stack_can_be_deployed_again(aws_emulator: Emulator) -> None:
    with pytest.raises(StackFailedError):
        aws_emulator.deploy(only(A=bucket(Foo=1)), "again")
    assert aws_emulator.deploy(only(A=bucket()), "again").status == "CREATE_COMPLETE"


def test_rollback_keeps_a_retained_resource(aws_emulator: Emulator) -> None:
    template = only(
        A={**bucket(BucketName="kept-bucket"), "DeletionPolicy": "Retain"}, B={**bucket(Foo=1), "DependsOn": "A"}
    )
    with pytest.raises(StackFailedError):
        aws_emulator.deploy(template, "bad")
    aws_emulator.client("s3").head_bucket(Bucket="kept-bucket")


def test_rollback_removes_retain_except_on_create(aws_emulator: Emulator) -> None:
    kept = {**bucket(BucketName="gone-bucket"), "DeletionPolicy": "RetainExceptOnCreate"}
    with pytest.raises(StackFailedError):
        aws_emulator.deploy(only(A=kept, B={**bucket(Foo=1), "DependsOn": "A"}), "bad")
    assert "gone-bucket" not in [item["Name"] for item in aws_emulator.client("s3").list_buckets()["Buckets"]]


def test_a_deploy_without_change_touches_nothing(aws_emulator: Emulator) -> None:
    first = aws_emulator.deploy(hot(), "hot")
    again = aws_emulator.deploy(hot(), "hot")
    assert (again.physical_ids, again.events, again.status) == (first.physical_ids, first.events, "CREATE_COMPLETE")


def test_an_update_in_place_keeps_all_ids_and_is_seen_by_the_service(aws_emulator: Emulator) -> None:
    first = aws_emulator.deploy(hot(), "hot")
    template = changed(hot(), "Resources", "Fs", "Properties", "StorageCapacity", to=9600)
    second = aws_emulator.update("hot", template)
    assert second.physical_ids == first.physical_ids
    assert aws_emulator.client("fsx").describe_file_systems()["FileSystems"][0]["StorageCapacity"] == 9600
    touched = {event.logical_id for event in second.events[len(first.events) :]}
    assert touched == {"hot", "Fs"}


def test_a_rollback_that_would_shrink_a_file_system_fails(aws_emulator: Emulator) -> None:
    """Storage capacity only goes up, so an update that fails after growing it cannot be rolled back."""
    first = aws_emulator.deploy(hot(), "hot")
    template = changed(hot(), "Resources", "Fs", "Properties", "StorageCapacity", to=7200)
    template = changed(template, "Resources", "Link", "Properties", "S3", to={"AutoImportPolicy": {"Events": ["NEWW"]}})
    with pytest.raises(StackFailedError, match="NEWW") as caught:
        aws_emulator.update("hot", template)
    assert caught.value.status == "UPDATE_ROLLBACK_FAILED"
    assert aws_emulator.stack("hot").physical_ids == first.physical_ids
    with pytest.raises(StackFailedError, match="UPDATE_ROLLBACK_FAILED state and can not be updated"):
        aws_emulator.update("hot", hot())


def test_a_failing_update_undoes_what_can_be_undone(aws_emulator: Emulator) -> None:
    template = only(A={"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "old", "Name": "/a"}})
    aws_emulator.deploy(template, "undo")
    worse = changed(template, "Resources", "A", "Properties", "Value", to="new")
    worse["Resources"]["B"] = {**bucket(Foo=1), "DependsOn": "A"}
    with pytest.raises(StackFailedError) as caught:
        aws_emulator.update("undo", worse)
    assert caught.value.status == "UPDATE_ROLLBACK_COMPLETE"
    assert aws_emulator.client("ssm").get_parameter(Name="/a")["Parameter"]["Value"] == "old"
    assert aws_emulator.stack("undo").physical_ids == {"A": "/a"}


def test_a_storage_capacity_that_shrinks_is_refused(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(hot(), "hot")
    with pytest.raises(StackFailedError, match="can only be increased"):
        aws_emulator.update("hot", changed(hot(), "Resources", "Fs", "Properties", "StorageCapacity", to=2400))
    assert aws_emulator.client("fsx").describe_file_systems()["FileSystems"][0]["StorageCapacity"] == 4800


def two_subnets() -> dict[str, Any]:
    template = without(hot(), "Link", "Bucket")
    template["Resources"]["Subnet2"] = {
        "Type": "AWS::EC2::Subnet",
        "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.0.64.0/18", "AvailabilityZoneId": "use1-az4"},
    }
    return template


@pytest.mark.parametrize(("policy", "left"), [("Retain", 2), ("Delete", 1)])
def test_another_subnet_makes_another_file_system(aws_emulator: Emulator, policy: str, left: int) -> None:
    """SubnetIds are create-only in the registry: replacement, and UpdateReplacePolicy decides about the old one."""
    template = changed(two_subnets(), "Resources", "Fs", "UpdateReplacePolicy", to=policy)
    first = aws_emulator.deploy(template, "hot").physical_ids["Fs"]
    moved = changed(template, "Resources", "Fs", "Properties", "SubnetIds", to=[{"Ref": "Subnet2"}])
    second = aws_emulator.update("hot", moved)
    assert second.physical_ids["Fs"] != first
    assert second.outputs["FileSystemId"] == second.physical_ids["Fs"]
    systems = {item["FileSystemId"]: item for item in aws_emulator.client("fsx").describe_file_systems()["FileSystems"]}
    assert len(systems) == left
    assert (first in systems) == (policy == "Retain")
    assert systems[second.physical_ids["Fs"]]["SubnetIds"] == [second.physical_ids["Subnet2"]]


def test_a_failed_update_brings_the_replaced_resource_back(aws_emulator: Emulator) -> None:
    first = aws_emulator.deploy(two_subnets(), "hot").physical_ids["Fs"]
    moved = changed(two_subnets(), "Resources", "Fs", "Properties", "SubnetIds", to=[{"Ref": "Subnet2"}])
    moved["Resources"]["Bad"] = {**bucket(Foo=1), "DependsOn": "Fs"}
    with pytest.raises(StackFailedError):
        aws_emulator.update("hot", moved)
    assert aws_emulator.stack("hot").physical_ids["Fs"] == first
    assert [item["FileSystemId"] for item in aws_emulator.client("fsx").describe_file_systems()["FileSystems"]] == [
        first
    ]


def test_a_replaced_resource_takes_its_dependents_along(aws_emulator: Emulator) -> None:
    template = two_subnets()
    template["Resources"] |= {"Bucket": bucket(), "Link": hot()["Resources"]["Link"]}
    first = aws_emulator.deploy(template, "hot")
    second = aws_emulator.update(
        "hot", changed(template, "Resources", "Fs", "Properties", "SubnetIds", to=[{"Ref": "Subnet2"}])
    )
    assert second.physical_ids["Link"] != first.physical_ids["Link"]
    links = aws_emulator.client("fsx").describe_data_repository_associations()["Associations"]
    assert [item["FileSystemId"] for item in links] == [second.physical_ids["Fs"]]
    assert len(aws_emulator.client("fsx").describe_file_systems()["FileSystems"]) == 1


def test_a_named_resource_cannot_be_replaced(aws_emulator: Emulator) -> None:
    role = {
        "Type": "AWS::IAM::Role",
        "Properties": {"RoleName": "fixed", "Path": "/a/", "AssumeRolePolicyDocument": {"Statement": []}},
    }
    aws_emulator.deploy(only(A=role), "named")
    with pytest.raises(StackFailedError, match="custom-named resource requires replacing"):
        aws_emulator.update("named", changed(only(A=role), "Resources", "A", "Properties", "Path", to="/b/"))


def test_the_type_of_a_resource_cannot_change(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(only(A=bucket()), "typed")
    with pytest.raises(StackFailedError, match="Update of resource type is not permitted"):
        aws_emulator.update("typed", only(A=topic()))


def test_an_update_without_an_implementation_fails(aws_emulator: Emulator) -> None:
    """moto's log group knows retention and tags; a key that comes later would be dropped in silence."""
    group = {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/aws/fsx/x"}}
    aws_emulator.deploy(only(A=group), "logs")
    later = changed(
        only(A=group), "Resources", "A", "Properties", "KmsKeyId", to="arn:aws:kms:us-east-1:123456789012:key/1"
    )
    with pytest.raises(StackFailedError, match="no update in place for AWS::Logs::LogGroup: KmsKeyId changed"):
        aws_emulator.update("logs", later)


def test_removed_resources_are_deleted_and_retained_ones_kept(aws_emulator: Emulator) -> None:
    template = only(
        A=bucket(), B=bucket(BucketName="goes-away"), C={**bucket(BucketName="stays-here"), "DeletionPolicy": "Retain"}
    )
    aws_emulator.deploy(template, "shrink")
    stack = aws_emulator.update("shrink", without(template, "B", "C"))
    names = [item["Name"] for item in aws_emulator.client("s3").list_buckets()["Buckets"]]
    assert "goes-away" not in names
    assert "stays-here" in names
    assert list(stack.physical_ids) == ["A"]


def test_destroy_leaves_nothing(aws_emulator: Emulator) -> None:
    ec2 = aws_emulator.client("ec2")
    before = {vpc["VpcId"] for vpc in ec2.describe_vpcs()["Vpcs"]}
    aws_emulator.deploy(hot(), "hot")
    assert aws_emulator.destroy("hot").status == "DELETE_COMPLETE"
    assert {vpc["VpcId"] for vpc in ec2.describe_vpcs()["Vpcs"]} == before
    assert aws_emulator.client("fsx").describe_file_systems()["FileSystems"] == []
    assert aws_emulator.stacks() == []


def test_destroy_keeps_a_retained_bucket_with_its_objects_and_a_retained_file_system(aws_emulator: Emulator) -> None:
    template = hot()
    for name in ("Bucket", "Fs", "Vpc", "Subnet", "Group", "In", "Out"):
        template["Resources"][name]["DeletionPolicy"] = "Retain"
    ids = aws_emulator.deploy(template, "hot").physical_ids
    aws_emulator.client("s3").put_object(Bucket=ids["Bucket"], Key="datasets/a", Body=b"1")
    aws_emulator.destroy("hot")
    assert aws_emulator.client("s3").get_object(Bucket=ids["Bucket"], Key="datasets/a")["Body"].read() == b"1"
    assert aws_emulator.client("fsx").describe_file_systems()["FileSystems"][0]["FileSystemId"] == ids["Fs"]
    assert aws_emulator.client("fsx").describe_data_repository_associations()["Associations"] == []


@pytest.mark.parametrize("versioned", [False, True])
def test_a_bucket_with_objects_cannot_be_deleted(aws_emulator: Emulator, versioned: bool) -> None:
    properties = {"VersioningConfiguration": {"Status": "Enabled"}} if versioned else {}
    name = aws_emulator.deploy(only(A=bucket(**properties)), "full").physical_ids["A"]
    s3 = aws_emulator.client("s3")
    s3.put_object(Bucket=name, Key="a", Body=b"1")
    if versioned:
        s3.delete_object(Bucket=name, Key="a")  # the version is still there
    with pytest.raises(StackFailedError, match="not empty") as caught:
        aws_emulator.destroy("full")
    assert caught.value.status == "DELETE_FAILED"
    assert aws_emulator.stacks() == ["full"]
    s3.head_bucket(Bucket=name)


def test_a_failed_delete_can_be_tried_again(aws_emulator: Emulator) -> None:
    name = aws_emulator.deploy(only(A=bucket()), "full").physical_ids["A"]
    aws_emulator.client("s3").put_object(Bucket=name, Key="a", Body=b"1")
    with pytest.raises(StackFailedError):
        aws_emulator.destroy("full")
    aws_emulator.client("s3").delete_object(Bucket=name, Key="a")
    assert aws_emulator.destroy("full").status == "DELETE_COMPLETE"


def test_deleting_a_file_system_waits_for_its_task(aws_emulator: Emulator) -> None:
    ids = aws_emulator.deploy(hot(), "hot").physical_ids
    fsx = aws_emulator.client("fsx")
    task = fsx.create_data_repository_task(
        Type="IMPORT_METADATA_FROM_REPOSITORY", FileSystemId=ids["Fs"], Report={"Enabled": False}
    )["DataRepositoryTask"]["TaskId"]
    with pytest.raises(StackFailedError, match=task):
        aws_emulator.destroy("hot")
    for _ in range(2):
        fsx.describe_data_repository_tasks(TaskIds=[task])
    assert aws_emulator.destroy("hot").status == "DELETE_COMPLETE"


def exporting(value: Any = None) -> dict[str, Any]:
    return {
        **only(A=bucket(BucketName="shared")),
        "Outputs": {"Name": {"Value": value or {"Ref": "A"}, "Export": {"Name": "lake"}}},
    }


def importing() -> dict[str, Any]:
    return only(
        P={"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": {"Fn::ImportValue": "lake"}}}
    )


def test_an_import_gets_the_exported_value(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(exporting(), "lake")
    stack = aws_emulator.deploy(importing(), "user")
    assert stack.resource("P").properties["Value"] == "shared"


def test_an_import_of_nothing_fails(aws_emulator: Emulator) -> None:
    with pytest.raises(StackFailedError, match="No export named lake found"):
        aws_emulator.deploy(importing(), "user")


def test_an_export_in_use_cannot_be_deleted_or_changed(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(exporting(), "lake")
    aws_emulator.deploy(importing(), "user")
    with pytest.raises(StackFailedError, match="Export lake cannot be deleted as it is in use by user"):
        aws_emulator.destroy("lake")
    with pytest.raises(StackFailedError, match="Export lake cannot be updated as it is in use by user"):
        aws_emulator.update("lake", exporting("other"))
    aws_emulator.destroy("user")
    assert aws_emulator.update("lake", exporting("other")).outputs == {"Name": "other"}
    assert aws_emulator.destroy("lake").status == "DELETE_COMPLETE"


def test_an_export_name_is_unique(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(exporting(), "lake")
    other = changed(exporting(), "Resources", "A", "Properties", "BucketName", to="another")
    with pytest.raises(StackFailedError, match="already exported by stack"):
        aws_emulator.deploy(other, "twin")


def test_an_output_of_another_stack_can_be_read_directly(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(exporting(), "lake")
    template = importing()
    read = {"Fn::GetStackOutput": {"StackName": "lake", "OutputName": "Name"}}
    template["Resources"]["P"]["Properties"]["Value"] = read
    assert aws_emulator.deploy(template, "weak").resource("P").properties["Value"] == "shared"
    assert aws_emulator.destroy("lake").status == "DELETE_COMPLETE"


def test_parameters_are_checked(aws_emulator: Emulator) -> None:
    template: dict[str, Any] = {
        **only(A=bucket(BucketName={"Ref": "Name"})),
        "Parameters": {"Name": {"Type": "String", "AllowedPattern": "[a-z]+"}},
    }
    with pytest.raises(StackFailedError, match=r"\['Name'\] must have values"):
        aws_emulator.deploy(template, "p")
    with pytest.raises(StackFailedError, match="must match pattern"):
        aws_emulator.deploy(template, "p", {"Name": "UPPER"})
    with pytest.raises(StackFailedError, match=r"\['Other'\] do not exist"):
        aws_emulator.deploy(template, "p", {"Name": "lower", "Other": "x"})
    assert aws_emulator.deploy(template, "p", {"Name": "lower"}).physical_ids == {"A": "lower"}


def test_numbers_and_flags_as_text_become_what_the_type_wants(aws_emulator: Emulator) -> None:
    template = changed(hot(), "Resources", "Fs", "Properties", "StorageCapacity", to={"Ref": "Size"})
    template["Parameters"] = {"Size": {"Type": "Number", "Default": "4800"}}
    template["Resources"]["Fs"]["Properties"]["LustreConfiguration"]["EfaEnabled"] = "true"
    stack = aws_emulator.deploy(template, "hot")
    shown = aws_emulator.client("fsx").describe_file_systems()["FileSystems"][0]
    assert (shown["StorageCapacity"], shown["LustreConfiguration"]["EfaEnabled"]) == (4800, True)
    assert stack.resource("Fs").properties["StorageCapacity"] == 4800


def test_a_rule_of_the_template_is_checked(aws_emulator: Emulator) -> None:
    template: dict[str, Any] = {
        **only(A=bucket()),
        "Rules": {"R": {"Assertions": [{"Assert": {"Fn::Contains": [["a"], "b"]}, "AssertDescription": "b is not a"}]}},
    }
    with pytest.raises(StackFailedError, match="b is not a"):
        aws_emulator.deploy(template, "ruled")


def test_dynamic_references_resolve(aws_emulator: Emulator) -> None:
    aws_emulator.client("ssm").put_parameter(Name="/size", Value="4800", Type="String")
    template = changed(hot(), "Resources", "Fs", "Properties", "StorageCapacity", to="{{resolve:ssm:/size}}")
    assert aws_emulator.deploy(template, "hot").resource("Fs").properties["StorageCapacity"] == 4800
    lost = changed(template, "Resources", "Fs", "Properties", "StorageCapacity", to="{{resolve:ssm:/nowhere}}")
    with pytest.raises(StackFailedError, match="Could not resolve"):
        aws_emulator.update("hot", lost)


def test_a_generic_type_resolves_and_lives_in_its_stack(aws_emulator: Emulator) -> None:
    template = only(
        A={"Type": "AWS::Budgets::Budget", "Properties": {"Budget": {"BudgetType": "COST", "TimeUnit": "MONTHLY"}}},
        B={"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": {"Ref": "A"}}},
    )
    stack = aws_emulator.deploy(template, "generic")
    assert stack.resource("B").properties["Value"] == stack.physical_ids["A"]
    assert aws_emulator.destroy("generic").status == "DELETE_COMPLETE"


def test_a_generic_type_is_replaced_for_a_create_only_property(aws_emulator: Emulator) -> None:
    reservation = {
        "Type": "AWS::EC2::CapacityReservation",
        "Properties": {"InstanceType": "p5.48xlarge", "InstancePlatform": "Linux/UNIX", "InstanceCount": 1},
    }
    first = aws_emulator.deploy(only(A=reservation), "cr").physical_ids
    same = aws_emulator.update(
        "cr", changed(only(A=reservation), "Resources", "A", "Properties", "InstanceCount", to=2)
    )
    assert same.physical_ids == first
    other = aws_emulator.update(
        "cr", changed(only(A=reservation), "Resources", "A", "Properties", "InstanceType", to="p5en.48xlarge")
    )
    assert other.physical_ids != first


def test_a_nested_stack(aws_emulator: Emulator) -> None:
    inner = {
        "Parameters": {"Name": {"Type": "String"}},
        **only(A=bucket(BucketName={"Ref": "Name"})),
        "Outputs": {"Arn": {"Value": {"Fn::GetAtt": ["A", "Arn"]}}},
    }
    place = aws_emulator.bootstrap()
    aws_emulator.client("s3").put_object(Bucket=place, Key="inner.json", Body=json.dumps(inner).encode())
    nested = {
        "Type": "AWS::CloudFormation::Stack",
        "Properties": {
            "TemplateURL": f"https://s3.us-east-1.amazonaws.com/{place}/inner.json",
            "Parameters": {"Name": "inside"},
        },
    }
    outer = {**only(N=nested), "Outputs": {"Arn": {"Value": {"Fn::GetAtt": ["N", "Outputs.Arn"]}}}}
    assert aws_emulator.deploy(outer, "outer").outputs == {"Arn": "arn:aws:s3:::inside"}
    aws_emulator.destroy("outer")
    assert aws_emulator.stacks() == []


def test_a_security_group_in_use_stays(aws_emulator: Emulator) -> None:
    template = {"Resources": {**network(), "Fs": {**file_system(), "DeletionPolicy": "Retain"}}}
    aws_emulator.deploy(template, "hot")
    with pytest.raises(StackFailedError, match="has a dependent object"):
        aws_emulator.destroy("hot")
