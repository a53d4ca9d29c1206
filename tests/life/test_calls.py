"""Commands that outlive their sender: found again, joined, and sent to every node however the sender died."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.life.fake_aws import FakeAws
from tests.life.fake_s3 import error
from training_storage.node import calls
from training_storage.node.run_command import MOST_INSTANCES

LAKE = "lake"
NAME = "run"


@pytest.fixture
def aws() -> FakeAws:
    made = FakeAws()
    made.s3.make(LAKE)
    made.machines.group(f"{NAME}-fleet", {"training-storage:workload": NAME}, MOST_INSTANCES + 10, 100)
    return made


def start(aws: FakeAws) -> tuple[calls.Call, bool]:
    return calls.start_or_join(
        aws, LAKE, NAME, ["drill"], lambda: sorted(aws.machines.instances), timeout_s=60, clock=aws.clock
    )


def reached(aws: FakeAws) -> set[str]:
    return {node for about in aws.machines.commands.values() for node in about["instances"]}


def test_a_call_of_many_nodes_is_joined(aws: FakeAws) -> None:
    call, joined = start(aws)
    assert not joined
    assert start(aws) == (call, True)
    assert len(aws.machines.commands) == 2
    assert reached(aws) == set(aws.machines.instances)


def test_a_sender_that_died_between_two_requests_leaves_no_node_out(
    aws: FakeAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes that never got the command would be waited for until it is two days old."""
    send, made = aws.machines.send_command, 0

    def once(**given: Any) -> Any:
        if len(aws.machines.commands) > made:
            raise error("ThrottlingException", "SendCommand")
        return send(**given)

    for _ in range(2):
        made = len(aws.machines.commands)
        with monkeypatch.context() as patch:
            patch.setattr(aws.machines, "send_command", once)
            with pytest.raises(ClientError, match="Throttling"):
                start(aws)
    assert len(reached(aws)) == MOST_INSTANCES
    call, joined = start(aws)
    assert not joined
    assert reached(aws) == set(aws.machines.instances)
    assert {about["text"].rpartition(" ")[2] for about in aws.machines.commands.values()} == {call.command_id}
    assert start(aws) == (call, True)
