"""What training will see, as text: the answer first, and nothing that is not known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.strategies import Data, workload_dicts
from tests.unit._planner import planned
from training_storage.cli.render import render_plan
from training_storage.cli.render_prediction import HEADING, prediction_notes
from training_storage.errors import PlanError
from training_storage.planner import Plan, plan
from training_storage.workload import workload_from_dict

ON_LUSTRE: dict[str, Any] = {
    "hot_tier": "lustre",
    "lustre": {"storage_capacity": "9600 GiB", "per_unit_storage_throughput": 250, "efa": False},
}
SAVES = {"size": "2343.75 GB", "interval": "1h"}
"""A save and a restore of 1,000 s on that file system."""


def notes(changes: dict[str, Any]) -> dict[str, str]:
    return dict(prediction_notes(planned(changes)))


def section(made: Plan, width: int) -> list[str]:
    (found,) = [part for part in render_plan(made, width=width).split("\n\n") if part.startswith(HEADING)]
    return found.splitlines()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            ON_LUSTRE,
            "accelerators do not wait: reads need 320 MB/s; the limit is disk, 2,344 MB/s "
            "(9,600 GiB at 250 MB/s per TiB)",
        ),
        (
            {**ON_LUSTRE, "dataset.read_rate": {"per_accelerator": f"{4687.5 / 32} MB/s"}},
            "accelerators wait 50 % of the time: the limit is disk, 2,344 MB/s (9,600 GiB at 250 MB/s per TiB), and "
            "reads need 4,688 MB/s",
        ),
        (
            {**ON_LUSTRE, "dataset.read_rate": None},
            "reads are not known; the limit is disk, 2,344 MB/s (9,600 GiB at 250 MB/s per TiB)",
        ),
    ],
)
def test_the_first_line_says_whether_accelerators_wait_and_for_what(changes: dict[str, Any], text: str) -> None:
    made = planned(changes)
    name, found = next(iter(prediction_notes(made)))
    assert (name, found) == ("data", text)
    assert section(made, 100)[1].startswith("  data  ")


def test_the_other_limits_stand_behind_the_tightest() -> None:
    assert notes(ON_LUSTRE)["other limits"] == ("client 10,000 MB/s; network 1,600,000 MB/s; opens 12,000,000 MB/s")


def test_saves_say_how_long_by_what_and_what_they_stop() -> None:
    found = notes({**ON_LUSTRE, "checkpoints": SAVES})
    assert found["save"] == "16.7 min, by disk; stalls training 21.7 % of the time"
    assert found["restore"] == "16.7 min, by disk"
    # sqrt(2 x 1,000 s x 5,625,000 s) = 106,066 s.
    assert found["interval"] == "60 min; 29.5 h loses least by Young, 29.2 h by Daly"
    assert found["failures"] == "one in 65.1 d on average; each throws away 36.5 min of work"
    # 3600 / 4600, less what failures take: (1,000 + 2,300) s of each 5,625,000.
    assert found["effective time"] == "78.21 % of all time ends as training progress"
    # 1000 / 4600 of 4 x 55.04 USD.
    assert found["idle accelerators"] == (
        "47.86 USD an hour for waits and stalls; 47.96 with all that failures, restarts and restores take"
    )


def test_an_automatic_interval_is_said_to_be_the_best() -> None:
    found = notes({**ON_LUSTRE, "checkpoints": {**SAVES, "interval": "auto"}})
    assert found["interval"] == "29.5 h: loses least by Young; by Daly 29.2 h"


def test_asynchronous_saves_stall_nothing_and_leave_reads_the_rest() -> None:
    saves = {"size": "90 GB", "asynchronous": True}
    carried = notes({**ON_LUSTRE, "checkpoints": saves})
    assert carried["save"] == "38.4 s, by disk; asynchronous, stalls nothing"
    assert "while it saves" not in carried
    # sqrt(2 x 38.4 s x 5,625,000 s) = 20,785 s; a failure costs 900 + 2 x 38.4 s of each 5,625,000.
    assert carried["interval"] == (
        "30 min; saves that stall would lose least each 5.77 h (Young; Daly 5.76 h), asynchronous ones lose less the "
        "more often they come"
    )
    # Disks that serve nothing else for 38.4 s of 1,800.
    assert carried["effective time"] == (
        "99.98 % of all time ends as training progress; 97.85 % where a save takes all that the disks give while it is "
        "written"
    )
    # 1,500 MB/s for 60 s leave 843.75 of 1,000; 60 s of 1,800.
    short = notes({**ON_LUSTRE, "checkpoints": saves, "dataset.read_rate": {"per_accelerator": "31.25 MB/s"}})
    assert short["while it saves"] == "reads get what is left: accelerators wait 15.6 %, 0.521 % of all the time"


def test_without_checkpoints_failures_stand_alone() -> None:
    found = notes({})
    assert found["failures"] == "one in 65.1 d on average"
    assert not {"save", "restore", "interval", "effective time"} & set(found)


def test_an_effective_time_without_known_reads_says_so() -> None:
    found = notes({**ON_LUSTRE, "checkpoints": SAVES, "dataset.read_rate": None})
    assert found["effective time"].endswith("progress, data wait not known and not counted")


def test_an_unknown_price_is_left_out() -> None:
    assert "idle accelerators" not in notes({"compute.purchase": "spot"})


SMALL: dict[str, Any] = {
    **ON_LUSTRE,
    "dataset.file_count": None,
    "dataset.average_file_size": "100 KB",
    "dataset.read_rate": {"per_accelerator": "40 MB/s"},
}


def test_the_first_pass_says_what_it_costs_and_what_loading_ahead_changes() -> None:
    found = notes(SMALL)
    assert found["first pass"] == (
        "60.6 min in place of 26 min: files come from S3 at 550 MB/s (assumed), accelerators wait 57 %, 126.83 USD of "
        "accelerators more"
    )
    assert found["loading ahead"].startswith("the 2,000 GB take 60.6 min and 3.25 USD of storage before ")


def test_a_first_pass_that_is_no_longer_says_on_what_that_rests() -> None:
    found = notes({**SMALL, "dataset.average_file_size": "1 MB"})
    assert found["first pass"] == (
        "26 min, no longer than later ones, if files come from S3 at the 2,344 MB/s that are assumed"
    )


def test_no_first_pass_no_line() -> None:
    assert not {"first pass", "loading ahead"} & set(notes({"hot_tier": "none"}))


@pytest.mark.parametrize("width", [60, 80, 100])
def test_it_fits_and_stands_before_the_parts_of_the_plan(width: int) -> None:
    made = planned({**SMALL, "checkpoints": {"size": "900 GB", "asynchronous": True}})
    lines = section(made, width)
    assert max(map(len, lines)) <= width
    text = render_plan(made, width=width)
    assert text.index("Demand and plan") < text.index(HEADING) < text.index("File system")


@given(workload_dicts())
@settings(derandomize=True, max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
def test_every_plan_has_its_lines(data: Data) -> None:
    try:
        made = plan(workload_from_dict(data))
    except PlanError:
        return
    found = list(prediction_notes(made))
    assert found[0][0] == "data"
    assert len({name for name, _ in found}) == len(found)
    for name, text in found:
        assert 0 < len(name) <= 18
        assert text
        assert not {"None", "nan", "inf"} & set(text.replace(",", " ").replace(";", " ").split())
