"""``training-storage plan``: what its options print, where it goes, and what is refused."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.strategies import Data, workload_dicts
from training_storage import load_workload, plan
from training_storage.cli import main
from training_storage.cli.render_whatif import break_even_words, render_sweep, render_what_if, steps_lines
from training_storage.errors import PlanError
from training_storage.planner import Plan
from training_storage.units import Duration
from training_storage.whatif import break_even, default_sweep, steps, sweep
from training_storage.workload import workload_from_dict

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = str(ROOT / "examples" / "llama3-70b.yaml")
VISION = str(ROOT / "examples" / "vision-small-files.yaml")
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def out(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what a command prints; fails where it does not end with 0 or says anything else."""
    assert main(["plan", *arguments]) == 0
    printed, err = capsys.readouterr()
    assert err == ""
    return printed


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what a command says whose usage or input is bad; fails where it prints anything."""
    assert main(["plan", *arguments]) == 2
    printed, err = capsys.readouterr()
    assert printed == ""
    assert "Traceback" not in err
    return err


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    document = json.loads(out(capsys, *arguments, "--format", "json"))
    assert isinstance(document, dict)
    return document


# --run-length


def test_a_run_has_its_own_column(capsys: pytest.CaptureFixture[str]) -> None:
    cost = as_json(capsys, EXAMPLE, "--run-length", "14d")["cost"]
    assert cost["run_h"] == 14 * 24
    assert cost["storage_run"] > cost["storage_hourly"]
    assert out(capsys, EXAMPLE, "--run-length", "14d") != out(capsys, EXAMPLE)


@pytest.mark.parametrize("length", ["14", "14 days", "0s", "-1d", "", "20000d"])
def test_a_length_that_is_none_says_what_one_is(length: str, capsys: pytest.CaptureFixture[str]) -> None:
    err = refusal(capsys, EXAMPLE, f"--run-length={length}")
    assert "argument --run-length: " in err
    assert "such as 14d" in err


# --what-if


def test_the_text_has_the_steps_after_the_bill(capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, EXAMPLE)
    assert text.index("What it costs") < text.index("What one step changes") < text.index("Chosen, and why")
    made = plan(load_workload(EXAMPLE))
    assert "\n".join(steps_lines(made, steps(made), width=100)) in text


def test_what_if_adds_the_keys_and_where_it_pays(capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, EXAMPLE, "--what-if")
    assert text.count("What one step changes") == 1
    flat = " ".join(text.split())
    for step in steps(plan(load_workload(EXAMPLE))):
        for key, value in step.changes.items():
            assert f"{key}: {str(value).lower() if isinstance(value, bool) else value}" in flat
    assert "break-even" in text


def test_what_if_as_json_has_every_step_with_its_break_even(capsys: pytest.CaptureFixture[str]) -> None:
    document = as_json(capsys, VISION, "--what-if")
    made = plan(load_workload(VISION))
    found = document.pop("what_if")
    assert document == made.to_dict()
    assert [each["option"] for each in found] == [each.option for each in steps(made)]
    for each, step in zip(found, steps(made), strict=True):
        expected = None if step.plan is None else json.loads(json.dumps(break_even(made, step).to_dict()))
        assert each["break_even"] == expected


def test_without_options_json_is_the_plan_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert out(capsys, EXAMPLE, "--format", "json") == plan(load_workload(EXAMPLE)).to_json()


# --sweep


def test_a_sweep_stands_in_place_of_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, EXAMPLE, "--sweep", "instance_count=1..64")
    assert text == render_sweep(sweep(load_workload(EXAMPLE), "instance_count", "1..64"), width=100)
    assert text.startswith("llama3-70b: compute.instance_count from 1 to 64, 64 values")
    assert "hot tier: Lustre at 1, S3 alone from 2 to 16, Lustre from 17 to 64" in text


def test_a_sweep_as_json_stands_beside_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    document = as_json(capsys, EXAMPLE, "--sweep", "dataset.size=10 TB..30 TB:10 TB", "--run-length", "1d")
    found = document.pop("sweep")
    made = plan(load_workload(EXAMPLE), run_length=Duration(86400))
    assert document == made.to_dict()
    assert [each["text"] for each in found["points"]] == ["10 TB", "20 TB", "30 TB"]
    assert found["points"][2]["figures"]["storage_run"] == made.cost.storage_run


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("instance_count", "is not FIELD=RANGE, such as instance_count=1..2000"),
        ("=1..3", "is not FIELD=RANGE"),
        ("instance_count=", "is not FIELD=RANGE"),
        ("instance_cuont=1..3", "did you mean compute.instance_count?"),
        ("size=1 TB", "dataset.size or dataset.read_rate.samples.size or checkpoints.size"),
        ("instance_count=9..2", "runs downwards"),
        ("instance_count=1..20000", "10,000 points at most"),
        ("checkpoints.size=1 TB", "is given together with parameters"),
        ("instance_count=0", "compute.instance_count: is out of range"),
    ],
)
def test_a_sweep_that_is_none_says_what_one_is(asked: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says in " ".join(refusal(capsys, EXAMPLE, "--sweep", asked).split())


def test_refused_values_stand_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, VISION, "--sweep", "lustre.storage_capacity=2400 GiB,2401 GiB")
    assert "hot tier: Lustre at 2400 GiB, no plan at 2401 GiB" in text
    assert "no plan: lustre.storage_capacity: " in text


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_long_sweep_says_on_a_terminal_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["plan", EXAMPLE, "--sweep", "instance_count=1..500"]) == 0
    assert "planned 250 of 500 values" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert "planned" not in capsys.readouterr().out


def test_a_simulation_says_on_a_terminal_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["plan", EXAMPLE, "--simulate", "--run-length", "2d"]) == 0
    assert "\rsimulated " in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize(
    ("module", "arguments"),
    [("training_storage.whatif.sweep", ("--sweep", "instance_count=1..600")), ("training_storage.simulation", ())],
)
def test_an_interrupt_leaves_nothing_of_the_progress(
    module: str, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()

    def interrupted(*_: Any, progress: Any, **__: Any) -> None:
        progress(0.3)
        raise KeyboardInterrupt

    if arguments:
        real, planned = sys.modules[module].plan_figures, iter(range(600))

        def some(*given: Any, **named: Any) -> Any:
            if next(planned) > 100:
                raise KeyboardInterrupt
            return real(*given, **named)

        monkeypatch.setattr(sys.modules[module], "plan_figures", some)
    else:
        monkeypatch.setattr(f"{module}.simulate", interrupted)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["plan", EXAMPLE, *(arguments or ("--simulate",))]) == 130
    assert terminal.getvalue().endswith("\r\x1b[Kinterrupted\n")
    assert terminal.getvalue().startswith("\r")
    assert capsys.readouterr().out == ""


def test_a_short_sweep_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["plan", EXAMPLE, "--sweep", "instance_count=1..20"]) == 0
    assert terminal.getvalue() == ""


# --simulate


def test_a_simulation_follows_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, EXAMPLE, "--simulate", "--run-length", "2d")
    assert text.index("Chosen, and why") < text.index("Simulated event by event, seed 0")
    other = out(capsys, EXAMPLE, "--simulate", "--seed", "7", "--run-length", "2d")
    assert "seed 7" in other
    assert out(capsys, EXAMPLE, "--simulate", "--seed", "7", "--run-length", "2d") == other


def test_a_simulation_as_json_stands_beside_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    document = as_json(capsys, EXAMPLE, "--simulate", "--run-length", "2d")
    assert (document["simulation"]["seed"], document["simulation"]["run_s"]) == (0, 2 * 86400)


# --format html


def test_a_report_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "report.html"
    assert out(capsys, VISION, "--format", "html", "-o", str(file), "--sweep", "instance_count=1,32") == ""
    assert file.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_report_gets_steps_and_the_sweep_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import training_storage.report

    asked: list[dict[str, Any]] = []

    def rendered(made: Plan, **parts: Any) -> str:
        asked.append({"plan": made, **parts})
        return "page\n"

    monkeypatch.setattr(training_storage.report, "render_report", rendered)
    made = plan(load_workload(VISION))
    assert out(capsys, VISION, "--format", "html") == "page\n"
    out(capsys, VISION, "--format", "html", "--sweep", "instance_count=1,2")
    out(capsys, VISION, "--format", "html", "--simulate", "--run-length", "1d", "--seed", "3")
    assert [each["plan"].name for each in asked] == [made.name] * 3
    assert asked[0] == {"plan": made, "steps": steps(made), "sweep": default_sweep(made.workload), "simulation": None}
    assert asked[1]["sweep"] == sweep(made.workload, "instance_count", "1,2")
    assert asked[2]["simulation"].seed == 3


@pytest.mark.parametrize("module", ["matplotlib", "jinja2"])
def test_without_the_extra_a_report_says_what_to_install(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    file = tmp_path / "report.html"
    err = refusal(capsys, EXAMPLE, "--format", "html", "-o", str(file))
    assert "pip install 'training-storage[report]'" in err
    assert list(tmp_path.iterdir()) == []


# -o


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_file_holds_what_would_be_printed(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan"
    printed = out(capsys, EXAMPLE, "--format", form)
    assert out(capsys, EXAMPLE, "--format", form, "-o", str(file)) == ""
    assert file.read_bytes().decode() == printed
    assert list(tmp_path.iterdir()) == [file]


def test_rights_go_to_a_file_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rights.json"
    printed = out(capsys, EXAMPLE, "--rights")
    out(capsys, EXAMPLE, "--rights", "--output", str(file))
    assert file.read_text(encoding="utf-8") == printed


def test_a_file_that_cannot_be_written_is_74_and_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "no-such-folder" / "plan.json"
    assert main(["plan", EXAMPLE, "--format", "json", "-o", str(file)]) == 74
    printed, err = capsys.readouterr()
    assert json.loads(printed)["error"] == "OutputError"
    assert err == f"error: {file} cannot be written: No such file or directory\n"


def test_bad_input_leaves_the_file_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, broken = tmp_path / "plan.txt", tmp_path / "broken.yaml"
    file.write_text("kept", encoding="utf-8")
    broken.write_text("name: x\n", encoding="utf-8")
    refusal(capsys, str(broken), "-o", str(file))
    assert file.read_text(encoding="utf-8") == "kept"


def test_the_workload_file_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(Path(EXAMPLE).read_text(encoding="utf-8"), encoding="utf-8")
    before = file.read_bytes()
    assert "would write over the workload file" in refusal(capsys, str(file), "-o", str(file))
    assert file.read_bytes() == before


def test_a_catalog_file_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, link = tmp_path / "prices.json", tmp_path / "link"
    file.write_text('{"prices": {}}', encoding="utf-8")
    link.symlink_to(file)
    err = refusal(capsys, EXAMPLE, "--catalog", str(file), "-o", str(link))
    assert f"-o would write over the catalog file {file}" in err
    assert file.read_text(encoding="utf-8") == '{"prices": {}}'


def test_hyphens_stand_for_standard_input_and_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = out(capsys, EXAMPLE)
    monkeypatch.chdir(tmp_path)
    assert out(capsys, EXAMPLE, "-o", "-") == printed
    assert list(tmp_path.iterdir()) == []
    with Path(EXAMPLE).open("rb") as file:
        kept = os.dup(0)
        try:
            os.dup2(file.fileno(), 0)
            assert out(capsys, "-") == printed
        finally:
            os.dup2(kept, 0)
            os.close(kept)


# Options that say nothing together


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--rights", "--what-if"], "leave --what-if out"),
        (["--rights", "--sweep", "instance_count=1", "--simulate"], "leave --sweep and --simulate out"),
        (["--rights", "--format", "html"], "leave --format html out"),
        (["--seed", "3"], "--seed says nothing without --simulate"),
        (["--simulate", "--seed", "x"], "invalid int value: 'x'"),
        (["--sweep", "a=1", "--sweep", "b=1"], "one --sweep at a time, and 2 are given"),
        (["-o", ""], "the name is empty"),
        (["--format", "pdf"], "choose from"),
    ],
)
def test_bad_usage_says_what_is_allowed(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    err = refusal(capsys, EXAMPLE, *arguments)
    assert says in err
    assert "Try `training-storage plan --help`." in err


def test_validate_has_no_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", EXAMPLE, "--format", "html"]) == 2
    assert "choose from" in capsys.readouterr().err


# Text that fits


@pytest.mark.parametrize("width", [60, 80, 100, 120])
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_steps_and_sweeps_fit_into_a_terminal(file: Path, width: int) -> None:
    made = plan(load_workload(file))
    text = render_what_if(made, steps(made), width=width)
    text += render_sweep(sweep(made.workload, "instance_count", "1..60"), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert not any(line.endswith(" ") for line in text.splitlines())


_SETTINGS = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], derandomize=True
)


@settings(_SETTINGS, max_examples=40)
@given(workload_dicts(), st.sampled_from([60, 100]))
def test_steps_of_any_plan_can_be_read(data: Data, width: int) -> None:
    try:
        made = plan(workload_from_dict(data))
    except PlanError:
        return
    found = steps(made)
    text = render_what_if(made, found, width=width)
    flat = " ".join(text.split())
    for step in found:
        assert " ".join((step.because if step.plan is None else step.option).split()) in flat
    # Names of what a file holds, such as buckets, may be longer than a line.
    assert all(len(line) <= width or len(line.split()) <= 2 for line in text.splitlines())


def test_a_thinned_sweep_has_both_ends_of_each_range_and_the_value_of_the_file() -> None:
    found = sweep(load_workload(EXAMPLE), "instance_count", "1..1100")
    text = render_sweep(found, width=100)
    first_words = {line.split()[0] for line in text.splitlines() if line.startswith("    ") and line.split()}
    for span in found.configurations:
        assert {f"{int(span.first):,}", f"{int(span.last):,}"} <= first_words
    assert "    64 *" in text
    assert "* as the workload file says" in text
    assert len(text.splitlines()) < 70


def test_break_even_in_words() -> None:
    made = plan(load_workload(EXAMPLE))
    up, down = (each for each in steps(made) if each.kind == "throughput")
    for step, cheaper, verb in ((up, ("plan", "step"), "saves more"), (down, ("step", "plan"), "takes less")):
        found = break_even(made, step)
        (crossing,) = found.crossings_mb_per_s or ()
        assert break_even_words(found) == (
            f"the {cheaper[0]} costs less while the fleet reads less than {crossing:,.0f} MB/s, the {cheaper[1]} costs "
            f"less from {crossing:,.0f} MB/s on; it reads 12,800 MB/s; it pays where it {verb} than "
            f"{abs(found.break_even_wait_fraction or 0):.3%} of the GPU time"
        ).replace("%", " %")


def test_the_page_on_what_if_prints_what_it_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "what-if.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert blocks
    monkeypatch.chdir(ROOT)
    for block in blocks:  # `python tools/readme.py` writes them anew
        command, *shown = block.splitlines()
        assert command.startswith("$ training-storage plan ")
        assert out(capsys, *shlex.split(command)[3:]).rstrip().splitlines() == shown


def test_the_code_of_the_page_on_what_if_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "what-if.md").read_text(encoding="utf-8")
    monkeypatch.chdir(ROOT)
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(compile(block.replace("1..2000", "1..30"), "what-if.md", "exec"), {})
    assert "('lustre', '17', '30')" in capsys.readouterr().out


def test_planning_loads_nothing_that_a_report_needs() -> None:
    import subprocess

    code = (
        "import sys; from training_storage.cli import main; main(sys.argv[1:]);"
        "print(*sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "plan", EXAMPLE, "--what-if"], check=True, capture_output=True, text=True
    )
    assert set(done.stderr.split()) & {"matplotlib", "jinja2", "simpy", "numpy", "rich", "boto3", "aws_cdk"} == set()
