"""What is deployed, and under which logical ids; neither changes without somebody saying so."""

import aws_cdk as cdk
from aws_cdk.assertions import Template
from syrupy.assertion import SnapshotAssertion

from examples.stacks.storage_alarms.app import Alarms
from training_storage.testing import logical_ids, still

ENV = cdk.Environment(account="111111111111", region="us-east-1")


def test_template(app: cdk.App, snapshot_json: SnapshotAssertion) -> None:
    template = Template.from_stack(Alarms(app, "vision-alarms", env=ENV)).to_json()
    assert logical_ids(template) == snapshot_json(name="ids")
    assert still(template) == snapshot_json(name="template")
