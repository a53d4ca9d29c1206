"""A hold lasts as long as it says, ends by itself, and a damaged one holds."""

from __future__ import annotations

from tests.life.fake_aws import FakeAws
from training_storage.node.release import hold


def test_a_hold_lasts_and_ends_by_itself() -> None:
    aws = FakeAws()
    aws.s3.make("lake")
    assert hold.held_until(aws, "lake", "fs-1", aws.clock) is None
    hold.hold(aws, "lake", "fs-1", aws.clock)
    assert hold.held_until(aws, "lake", "fs-1", aws.clock) == aws.now + 1800
    assert hold.held_until(aws, "lake", "fs-2", aws.clock) is None
    aws.sleep(1799)
    assert hold.held_until(aws, "lake", "fs-1", aws.clock) is not None
    aws.sleep(1)
    assert hold.held_until(aws, "lake", "fs-1", aws.clock) is None


def test_a_hold_is_lifted_without_a_delete() -> None:
    aws = FakeAws()
    bucket = aws.s3.make("lake")
    hold.hold(aws, "lake", "fs-1", aws.clock)
    hold.lift(aws, "lake", "fs-1")
    assert hold.held_until(aws, "lake", "fs-1", aws.clock) is None
    assert None not in bucket.things[hold.key("fs-1")]


def test_a_damaged_hold_holds() -> None:
    aws = FakeAws()
    aws.s3.make("lake")
    aws.s3.put_object(Bucket="lake", Key=hold.key("fs-1"), Body=b"{")
    assert hold.held_until(aws, "lake", "fs-1", aws.clock) == aws.now + 1800
