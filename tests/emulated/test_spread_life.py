"""Checkpoints on local disks of two nodes, from deploy to release: what is due is in the lake before both disks go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulated.life import SMALL, Life, life_of, write

pytestmark = pytest.mark.slow

DISKS: dict[str, Any] = {
    **SMALL,
    "hot_tier": "none",
    "dataset": {**SMALL["dataset"], "interface": "posix"},
}


@pytest.fixture
def life() -> Iterator[Life]:
    with life_of(DISKS) as made:
        made.deploy()
        assert made.settings().tier == "nvme"
        assert len(made.nodes()) == made.settings().nodes == 2
        yield made


def test_shards_of_both_nodes_are_in_the_lake_before_their_disks_go_and_a_half_written_one_is_named(life: Life) -> None:
    trainer = life.trainer()
    for step in (100, 200, 300, 400):
        trainer.save(step)
    trainer.save(500, complete=False)
    said = life.command("release", life.name, "--yes")
    assert said.code == 1, said
    assert "run1/step-500" in said.out + said.err
    assert "compute" in life.stacks()
    folder = life.settings().checkpoints
    said = life.command("release", life.name, "--yes", "--leave", f"{folder}/run1/step-500")
    assert said.code == 0, said
    assert life.deleted()[:2] == ["monitoring", "compute"]
    lake = life.promoted()
    for path, files in trainer.promises().items():
        assert files.items() <= lake.items(), path
    assert {"run1/step-300", "run1/step-400"} <= set(trainer.promises())


def test_the_agents_promote_by_themselves_and_list_says_so(life: Life) -> None:
    trainer = life.trainer()
    for step in (100, 200, 300):
        trainer.save(step)
    write(life, life.nodes()[1], f"{life.settings().checkpoints}/run1/notes.txt", b"beside")
    for _ in range(4):
        for node in life.nodes():
            done = node.run('"${TS_ROOT:-}/opt/training-storage/bin/agent" run')
            assert done.returncode == 0, done
    assert trainer.saved["run1/step-300"].items() <= life.promoted().items()
    said = life.command("checkpoints", "list", life.name)
    assert "half-written" not in said.out, said
    assert "run1/step-300" in said.out
