"""Who writes, and where to: the environment, the file of a node, and what code says."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from training_storage.node.roots import node_name
from training_storage.node.telemetry import Telemetry
from training_storage.node.telemetry.environment import identity


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for a node of ours."""
    monkeypatch.setenv("TS_ROOT", str(tmp_path))
    (tmp_path / "etc" / "training-storage").mkdir(parents=True)
    (tmp_path / "var" / "lib" / "cloud" / "data").mkdir(parents=True)
    (tmp_path / "var" / "lib" / "cloud" / "data" / "instance-id").write_text("i-0a1b2c\n")
    (tmp_path / "etc" / "training-storage" / "env").write_text(
        "# of the node\nTRAINING_STORAGE_WORKLOAD=llama3-70b\nTRAINING_STORAGE_METRICS='agent'\nRANK=9\nnonsense\n"
    )
    return tmp_path


def test_away_from_a_node_of_ours_it_is_off() -> None:
    told = identity({}, wall=1_700_000_000)
    assert (told.metrics, told.workload, told.run, told.rank) == ("off", "unnamed", "20231114T221320Z", "0")
    assert (told.interval_s, told.per_rank) == (60, True)
    assert told.instance


def test_a_node_says_what_it_is(node: Path) -> None:
    told = identity({})
    assert (told.metrics, told.workload, told.instance, told.rank) == ("agent", "llama3-70b", "i-0a1b2c", "0")


def test_the_environment_goes_before_the_node_and_code_before_both(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINING_STORAGE_METRICS", "stdout")
    monkeypatch.setenv("TRAINING_STORAGE_WORKLOAD", "other")
    monkeypatch.setenv("TRAINING_STORAGE_INSTANCE_ID", "host7")
    told = identity({})
    assert (told.metrics, told.workload, told.instance) == ("stdout", "other", "host7")
    told = identity({"metrics": "off", "workload": "mine", "rank": 0, "run": None})
    assert (told.metrics, told.workload, told.rank) == ("off", "mine", "0")


@pytest.mark.parametrize(
    ("environment", "rank", "run"),
    [
        ({"RANK": "5", "TORCHELASTIC_RUN_ID": "job7", "SLURM_PROCID": "1"}, "5", "job7"),
        ({"SLURM_PROCID": "12", "SLURM_JOB_ID": "4711"}, "12", "4711"),
        ({"OMPI_COMM_WORLD_RANK": "3", "TRAINING_STORAGE_RUN": "mine", "SLURM_JOB_ID": "4711"}, "3", "mine"),
        ({"TORCHELASTIC_RUN_ID": "none", "RANK": ""}, "0", "20231114T221320Z"),
    ],
    ids=["torchrun", "slurm", "mpi", "torchrun without an id"],
)
def test_launchers(environment: dict[str, str], rank: str, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    told = identity({}, wall=1_700_000_000)
    assert (told.rank, told.run) == (rank, run)


@pytest.mark.parametrize("value", ["soon", "-1", "0", "nan", "inf", "1e9", "60s"])
def test_an_interval_that_is_none(
    value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TRAINING_STORAGE_METRICS_INTERVAL", value)
    assert identity({}).interval_s == 60
    assert identity({}).interval_s == 60
    assert len(caplog.messages) == 1
    assert repr(value) in caplog.messages[0]


@pytest.mark.parametrize(("value", "said"), [("off", False), ("0", False), ("No", False), ("on", True), ("", True)])
def test_metrics_of_ranks(value: str, said: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINING_STORAGE_METRICS_PER_RANK", value)
    assert identity({}).per_rank is said


def test_off_gives_back_the_loader_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINING_STORAGE_METRICS", "off")
    telemetry = Telemetry()
    source = iter([1, 2, 3])
    assert iter(telemetry.watch(source)) is source
    watched = telemetry.watch([1, 2, 3], batch_bytes=lambda _: 1 / 0)
    assert list(watched) == [1, 2, 3]
    assert len(watched) == 3
    with telemetry.checkpoint("save") as save:
        save.bytes = 3
    with pytest.raises(OSError, match="full"), telemetry.checkpoint("restore"):
        raise OSError("full")
    telemetry.step()
    telemetry.epoch(1)
    telemetry.flush()
    telemetry.close()


def test_code_turns_it_on_and_off_while_training_runs(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    telemetry = Telemetry()
    for _ in telemetry.watch([1, 2]):
        pass
    telemetry.configure(metrics=f"file:{path}", workload="w")
    for number in telemetry.watch(range(10)):
        if number == 5:
            telemetry.configure(run="second")
    telemetry.configure(metrics="off")
    for _ in telemetry.watch([1, 2]):
        pass
    telemetry.close()
    lines = path.read_text(encoding="utf-8").splitlines()
    assert ['"Run":"second"' in line for line in lines] == [False, True]


def test_a_kind_of_checkpoint_that_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry(metrics=f"file:{tmp_path}/m")
    with telemetry.checkpoint("snapshot"):
        pass
    with telemetry.checkpoint("save", bytes="many"):
        pass
    telemetry.close()
    assert ["snapshot" in message for message in caplog.messages] == [True, False]
    assert "many" in caplog.messages[1]
    assert "CheckpointSaveTime" in (tmp_path / "m").read_text()


def test_an_environment_that_cannot_be_read_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step would read the files of the node again."""
    asked: list[int] = []

    def broken() -> str:
        asked.append(1)
        raise RuntimeError("no name")

    monkeypatch.setattr("training_storage.node.roots.node_name", broken)
    telemetry = Telemetry(metrics="stdout")
    for _ in telemetry.watch(range(3)):
        telemetry.step()
    for _ in telemetry.watch(range(3)):
        telemetry.step()

    assert len(asked) == 1


def test_an_instance_id_of_bytes_is_no_instance_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TS_ROOT", str(tmp_path))
    place = tmp_path / "var/lib/cloud/data/instance-id"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"\xff\xfe")

    assert node_name() == socket.gethostname()
