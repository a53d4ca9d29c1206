"""What has to be kept is kept, also where the world is not as the agent was told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.life.actions import World


@pytest.mark.parametrize("path", ["/checkpoints", "/", "/checkpoints/run1/step-2"])
def test_nothing_promoted_is_removed_under_a_link_that_exports_removals(tmp_path: Path, path: str) -> None:
    """FSx would delete the objects too, after they had been verified."""
    world = World(tmp_path, exports=True)
    for step in range(1, 6):
        world.save(f"run1/step-{step}")
    world.run(prune=False)
    world.aws.fsx.links[0]["FileSystemPath"] = path
    world.aws.fsx.links[0]["S3"]["AutoExportPolicy"]["Events"] = ["NEW", "CHANGED", "DELETED"]
    result = world.run()
    assert "run1/step-2" in world.hot_paths()
    assert "exports removals" in result.kept["run1/step-2"]
    assert "run1/step-1" not in world.hot_paths()  # nobody needs it, here or there


def test_links_that_export_no_removals_are_no_reason_to_keep(tmp_path: Path) -> None:
    world = World(tmp_path, exports=True)
    for step in range(1, 6):
        world.save(f"run1/step-{step}")
    assert world.run().kept == {}
    assert world.hot_paths() == {"run1/step-4", "run1/step-5"}
