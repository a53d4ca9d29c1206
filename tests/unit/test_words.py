"""Numbers in sentences: digits alone, the right plural, nothing that looks exact and is not."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit._planner import planned
from training_storage.cli.render import render_plan
from training_storage.planner.words import counted, number, percent, seconds
from training_storage.units import plain_digits


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (3e-5, "0.00003"),
        (1.2345e-6, "0.00000123"),
        (9.9e-7, "< 0.000001"),
        (1e-300, "< 0.000001"),
        (0.12345, "0.123"),
        (99.96, "100"),
        (-0.00004, "-0.00004"),
        (12_500.4, "12,500"),
        (1e15, "1,000,000,000,000,000"),
    ],
)
def test_numbers_are_digits_alone(value: float, text: str) -> None:
    assert number(value) == text


def test_shares_and_times_are_digits_alone_too() -> None:
    assert percent(1.5e-7) == "0.000015 %"
    assert percent(1e-12) == "< 0.000001 %"
    assert seconds(2.5e-5) == "0.000025 s"
    assert seconds(1e-9) == "< 0.000001 s"
    assert plain_digits(99.9987, 4) == "100"


@given(st.floats(1e-6, 1e15))
def test_three_figures_are_kept(value: float) -> None:
    text = number(value).replace(",", "")
    assert "e" not in text
    assert float(Decimal(text)) == pytest.approx(value, rel=6e-3)


def test_one_thing_is_one() -> None:
    assert [counted(count, "file") for count in (0, 1, 1.0000001, 1.5, 2, 1200)] == [
        "0 files",
        "1 file",
        "1 file",
        "1.5 files",
        "2 files",
        "1,200 files",
    ]


@pytest.mark.parametrize("width", [60, 100])
def test_tiny_workloads_read_like_others(width: int) -> None:
    changes = {
        "compute": {"instance_type": "g6f.large", "instance_count": 1},
        "dataset": {
            "size": "1 B",
            "file_count": 1,
            "hot_fraction": 1e-9,
            "read_rate": {"samples": {"size": "1 B", "per_second_per_accelerator": 1e-6}},
            "loader": {"workers_per_accelerator": 8, "prefetch": 1},
        },
        "checkpoints": {"size": "1 B", "interval": "1s", "max_stall": 1e-6},
    }
    for tier in ("none", "lustre"):
        text = render_plan(planned({**changes, "hot_tier": tier}), width=width)
        assert not [
            line
            for line in text.splitlines()
            if "e-" in line and any(each.isdigit() for each in line.split("e-")[0][-1:])
        ]
        assert max(map(len, text.splitlines())) <= width
        assert "1 instances" not in text
        assert "1 files" not in text
        assert "1 reads" not in text
