"""Every public construct has a small app of its own in examples/stacks, with the test that a user would write."""

from __future__ import annotations

import ast
import inspect
import runpy
import sys
from importlib import import_module
from pathlib import Path

import pytest
from constructs import Construct

from tests.assemblies import ROOT

APPS = {path.parent.name: path for path in sorted((ROOT / "examples" / "stacks").glob("*/app.py"))}
MODULES = (
    "training_storage",
    *(f"training_storage.{room}" for room in ("tiers", "compute", "lifecycle", "monitoring")),
)


def public_names(module: str) -> tuple[str, ...]:
    return tuple(getattr(import_module(module), "__all__", ()))


PUBLIC: dict[str, type[Construct]] = {
    name: value
    for module in MODULES
    for name in public_names(module)
    if inspect.isclass(value := getattr(import_module(module), name)) and issubclass(value, Construct)
}


def tree(app: str) -> ast.Module:
    return ast.parse(APPS[app].read_text(encoding="utf-8"))


def calls(app: str) -> set[str]:
    """Return what an app calls: ``DataLake`` for ``DataLake(...)``, ``A.from_it`` for ``A.from_it(...)``."""
    return {ast.unparse(node.func) for node in ast.walk(tree(app)) if isinstance(node, ast.Call)}


def ways_to(name: str) -> set[str]:
    """Return the calls that give a construct: its own name, and factories of others, as their annotations say."""
    makers = {
        f"{owner}.{method}"
        for owner, construct in PUBLIC.items()
        for method, function in inspect.getmembers(construct, inspect.isroutine)
        if method.startswith("from_") and inspect.signature(function).return_annotation == name
    }
    return makers | {name}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_construct_has_an_example(name: str) -> None:
    assert [app for app in APPS if calls(app) & ways_to(name)]


@pytest.mark.parametrize("app", APPS)
def test_an_example_has_a_test_and_a_snapshot_of_ids_and_template(app: str) -> None:
    folder = APPS[app].parent
    assert f"from examples.stacks.{app}.app import" in (folder / "test_app.py").read_text(encoding="utf-8")
    snapshots = sorted(path.name for path in (folder / "__snapshots__" / "test_app").iterdir())
    assert snapshots == ["test_template[ids].json", "test_template[template].json"]


@pytest.mark.parametrize("app", APPS)
def test_an_example_is_small(app: str) -> None:
    lines = [line for line in APPS[app].read_text(encoding="utf-8").splitlines() if line.strip()]
    assert 15 <= len(lines) <= 40


@pytest.mark.parametrize("app", APPS)
def test_an_example_imports_public_names_and_plain_cdk_alone(app: str) -> None:
    for node in ast.walk(tree(app)):
        if isinstance(node, ast.Import):
            assert {each.name for each in node.names} == {"aws_cdk"}
        elif isinstance(node, ast.ImportFrom):
            assert node.module in {*MODULES, "aws_cdk", "constructs", *sys.stdlib_module_names}
            if node.module in MODULES:
                assert {each.name for each in node.names} <= set(public_names(node.module))


@pytest.mark.parametrize("app", APPS)
def test_an_example_runs_as_an_app(app: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(APPS[app]), run_name="__main__")
