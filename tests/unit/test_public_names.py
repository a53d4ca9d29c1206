"""``import training_storage``: every public name is there, and none is loaded before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import training_storage


def loaded_after(code: str) -> set[str]:
    """Return the packages that a fresh process has loaded after some code."""
    code += "; import sys; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_the_list_of_names_is_sorted_and_complete() -> None:
    assert training_storage.__all__ == sorted(training_storage.__all__)
    assert set(training_storage.__all__) == set(training_storage._MODULE_OF)
    assert {"Workload", "load_workload", "plan", "Plan", "Catalog", "load_catalog"} <= set(training_storage.__all__)


@pytest.mark.parametrize("name", training_storage.__all__)
def test_every_name_is_there(name: str) -> None:
    value = getattr(training_storage, name)
    assert getattr(value, "__name__", None) == name
    assert name in dir(training_storage)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Lustre'"):
        training_storage.Lustre  # noqa: B018


def test_importing_the_package_loads_nothing() -> None:
    heavy = {"aws_cdk", "jsii", "constructs", "boto3", "botocore", "pydantic", "ruamel", "rich", "moto"}
    assert loaded_after("import training_storage") & heavy == set()


def test_planning_in_code_loads_neither_cdk_nor_boto3() -> None:
    heavy = {"aws_cdk", "jsii", "boto3", "botocore", "pydantic"}
    assert loaded_after("from training_storage import Workload, load_workload, plan") & heavy == set()
