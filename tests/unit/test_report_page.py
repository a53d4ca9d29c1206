"""The page: whole, self-contained, the same every time, readable for machines that read it aloud, safe to open."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.strategies import workload_dicts
from tests.unit._planner import SAVES, planned
from tests.unit._report import Node, parse
from training_storage.errors import MissingExtraError, PlanError
from training_storage.planner import Plan, plan
from training_storage.planner.model import Decision, PlanWarning
from training_storage.report import render_report
from training_storage.report.chart_limits import NAMES
from training_storage.report.words import sentence
from training_storage.units import Duration
from training_storage.whatif import default_sweep, steps
from training_storage.workload import load_workload
from training_storage.workload.model import Workload

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
EVIL = "<script>alert('x')</script><img src=x onerror=alert(1)>&amp;\"'$x_1$</svg></text></style>"


def plan_of(path: Path) -> Plan:
    return plan(load_workload(path), run_length=Duration(14 * 86_400))


def whole(made: Plan) -> str:
    return render_report(made, steps=steps(made), sweep=default_sweep(made.workload, catalog=made.catalog))


@pytest.fixture(scope="module")
def pages() -> dict[str, tuple[Plan, str, Node]]:
    out = {}
    for path in EXAMPLES:
        made = plan_of(path)
        page = whole(made)
        out[path.stem] = (made, page, parse(page))
    return out


@pytest.fixture(params=[path.stem for path in EXAMPLES])
def example(pages: dict[str, tuple[Plan, str, Node]], request: pytest.FixtureRequest) -> tuple[Plan, str, Node]:
    return pages[request.param]


# Whole and self-contained


def check_page(page: str, root: Node) -> None:
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    ids = [node.attrs["id"] for node in root.walk() if "id" in node.attrs]
    assert len(ids) == len(set(ids))
    for node in root.walk():
        for named in (node.attrs.get("aria-labelledby") or "").split():
            assert named in ids
        for value in node.attrs.values():
            assert set(re.findall(r"url\(#([^)]+)\)", value)) <= set(ids)
        if node.attrs.get("href", "").startswith("#"):
            assert node.attrs["href"][1:] in ids
    assert root.all("script", "iframe", "object", "embed", "img", "form", "base", "video", "audio") == []
    assert [name for node in root.walk() for name in node.attrs if name.startswith("on")] == []


def loaded(page: str, root: Node) -> list[str]:
    """Return everything that a browser would fetch."""
    found = [
        node.attrs[key] for node in root.walk() for key in ("src", "srcset", "poster", "data") if key in node.attrs
    ]
    found += [node.attrs["href"] for node in root.all("link", "use", "image")]
    found += re.findall(r"url\(([^)]*)\)", page) + re.findall(r"@import[^;]*", page)
    return found


def test_page_is_well_formed(example: tuple[Plan, str, Node]) -> None:
    _, page, root = example
    check_page(page, root)
    assert [each for each in loaded(page, root) if not each.startswith(("#", "data:,"))] == []
    policy = next(node.attrs["content"] for node in root.all("meta") if node.attrs.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


def test_page_names_no_path_and_no_time_of_its_making(example: tuple[Plan, str, Node]) -> None:
    _, page, _ = example
    assert str(ROOT) not in page
    assert re.findall(r"\d{2}:\d{2}:\d{2}", page) == []
    assert "matplotlib" not in page


@pytest.mark.slow
def test_same_input_gives_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    """Whatever the process: its hash seed, zone, locale, folder, home, and the settings of the reader's own charts."""
    code = (
        "import sys; from pathlib import Path; from training_storage import load_workload, plan\n"
        "from training_storage.report import render_report; from training_storage.whatif import default_sweep, steps\n"
        f"made = plan(load_workload(Path({str(ROOT / 'examples' / 'lora-finetune.yaml')!r})))\n"
        "page = render_report(made, steps=steps(made), sweep=default_sweep(made.workload))\n"
        "sys.stdout.buffer.write(page.encode())"
    )
    settings_file = tmp_path / "matplotlibrc"
    settings_file.write_text(
        "font.size: 30\nfont.family: serif\ntext.usetex: True\nsvg.fonttype: path\naxes.grid: True\nbackend: TkAgg\n"
        "figure.constrained_layout.use: True\nno.such.key: 1\nno colon\n",
        encoding="utf-8",
    )
    elsewhere = {"MATPLOTLIBRC": str(settings_file), "HOME": "/proc/nowhere", "MPLCONFIGDIR": "/proc/nowhere"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, **more},
        )
        for folder, seed, zone, more in (
            (ROOT, "1", "UTC", {}),
            (ROOT, "2", "Asia/Tokyo", {"LC_ALL": "C", **elsewhere}),
            (tmp_path, "3", "UTC", {"MPLBACKEND": "TkAgg", "LANG": "de_DE.UTF-8"}),  # the settings lie in this folder
        )
    ]
    done = [process.communicate() for process in started]
    assert [said for _, said in done] == [b"", b"", b""]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert len(done[0][0]) > 50_000
    assert done[0][0] == done[1][0] == done[2][0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings_of",
    [{"MPLBACKEND": "nonsense"}, {"MATPLOTLIBRC": "no-text"}, {"MATPLOTLIBRC": "locale", "LC_ALL": "xx_YY"}],
    ids=str,
)
def test_settings_that_keep_matplotlib_from_loading_are_named(settings_of: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "no-text").write_bytes(b"\xdf\x00\xff")
    (tmp_path / "locale").write_text("axes.formatter.use_locale: True\n", encoding="utf-8")
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("training-storage")), "plan", str(EXAMPLES[0]),
            "--format", "html", "-o", "report.html",
        ],
        cwd=tmp_path, env={**os.environ, **settings_of}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("error: matplotlib, which draws the charts, cannot be loaded with its settings: ")
    assert "unset MPLBACKEND and MATPLOTLIBRC" in done.stderr
    assert not (tmp_path / "report.html").exists()


def test_a_second_page_of_the_same_process_is_the_same_too() -> None:
    import matplotlib

    made = planned({"checkpoints": SAVES})
    first = whole(made)
    matplotlib.rcParams["font.size"] = 33.0  # settings of the user's own charts change nothing ...
    try:
        assert whole(made) == first
        assert matplotlib.rcParams["font.size"] == 33.0  # ... and are left as they are
    finally:
        matplotlib.rcdefaults()


# Read aloud


def test_headings_are_in_order_under_one_title(example: tuple[Plan, str, Node]) -> None:
    made, _, root = example
    levels = [int(node.tag[1]) for node in root.all("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert [node.text for node in root.all("h1")] == [made.name]
    assert made.name in next(node.text for node in root.walk() if node.tag == "title")


def test_tables_say_what_they_show_and_what_each_cell_belongs_to(example: tuple[Plan, str, Node]) -> None:
    _, _, root = example
    tables = root.all("table")
    assert len(tables) >= 8
    for table in tables:
        (caption,) = table.all("caption")
        assert caption.text
        columns = [node for node in table.all("th") if node.attrs.get("scope") == "col"]
        heads = table.all("th")
        assert all(node.attrs.get("scope") in {"col", "row", "rowgroup"} for node in heads)
        for row in table.all("tbody")[0].all("tr"):
            cells = [node for node in row.children if isinstance(node, Node)]
            assert cells[0].tag == "th"
            assert len(cells) == (1 if "colspan" in cells[0].attrs else len(columns))
            for cell, column in zip(cells[1:], columns[1:], strict=False):
                assert cell.attrs["data-label"] == column.text  # what a small screen shows in place of the head
        # A style sheet that lays rows out as blocks takes the meaning of a table away; roles keep it.
        roles = {node.attrs.get("role") for node in table.walk() if node.tag not in {"caption", "span", "code"}}
        assert roles <= {"table", "rowgroup", "row", "columnheader", "rowheader", "cell"}


def test_drawings_have_a_title_a_description_and_two_sizes(example: tuple[Plan, str, Node]) -> None:
    _, _, root = example
    drawings = root.all("svg")
    names: dict[str, set[str]] = {}
    for svg in drawings:
        assert svg.attrs["role"] == "img"
        title, desc = (svg.one(identity) for identity in svg.attrs["aria-labelledby"].split())
        assert (title.tag, desc.tag) == ("title", "desc")
        assert title.text
        assert desc.text
        stem, _, variant = svg.attrs["id"].rpartition("-")
        names.setdefault(stem, set()).add(variant)
        assert variant in svg.attrs["class"].split()
    assert {"limits", "sweep", "architecture"} <= set(names)
    assert all(variants == {"wide", "narrow"} for variants in names.values())


def test_every_chart_has_its_numbers_in_a_table(example: tuple[Plan, str, Node]) -> None:
    _, _, root = example
    plots = {svg.attrs["id"].rsplit("-", 1)[0] for svg in root.all("svg") if "plot" in svg.attrs["class"].split()}
    assert len(plots) >= 2
    assert len([node for node in root.all("details") if node.all("table")]) >= len(plots)


# What the page holds


def test_everything_of_the_plan_stands_in_the_page(example: tuple[Plan, str, Node]) -> None:
    made, _, root = example
    text = root.text

    def has(*parts: str) -> None:
        for part in parts:
            assert " ".join(sentence(part).split()) in text or " ".join(part.split()) in text, part

    for limit in made.prediction.limits:
        has(NAMES[limit.name], limit.because)
    for line in made.cost.lines:
        has(line.label, line.item)
    has(*made.cost.unpriced, *made.assumptions)
    for warning in made.warnings:
        has(warning.id, warning.message)
    for decision in made.decisions:
        has(decision.rule, decision.option, decision.because)
    for mount in made.mounts:
        has(mount.path)
    for link in () if made.lustre is None else made.lustre.links:
        has(link.path, link.prefix)
    if made.prediction.first_epoch is not None:
        has("The first pass over the data", made.prediction.first_epoch.assumption)
    if made.cost.after_run is not None:
        has("keep the hot tier, or release it")
    if made.prediction.checkpoint_mode is not None:
        has("Interval by Young", "Interval by Daly", made.prediction.checkpoint_mode)
    for step in steps(made):
        has(step.because)


def test_every_price_has_its_source_date_and_trust(example: tuple[Plan, str, Node]) -> None:
    made, _, root = example
    (table,) = [table for table in root.all("table") if "with their source" in table.all("caption")[0].text]
    cells = {row.all("th")[0].text: [cell.text for cell in row.all("td")] for row in table.all("tbody")[0].all("tr")}
    for line in made.cost.lines:
        row = made.catalog.prices.price(line.item, made.cost.region)
        _, source, date, trust = cells[line.item]
        if row is None:
            assert "No row" in source
        else:
            assert (source, date, trust) == (" ".join(row.source.text.split()), row.source.date, row.source.trust)
    assert cells[made.compute.facts.name][3] == made.compute.facts.source.trust


def test_sums_of_the_bill_are_those_of_the_plan(example: tuple[Plan, str, Node]) -> None:
    made, _, root = example
    (table,) = [table for table in root.all("table") if table.all("caption")[0].text == "Lines of the bill, USD"]
    rows = {row.all("th")[0].text: [cell.text for cell in row.all("td")] for row in table.all("tbody")[0].all("tr")}
    for name, month in (
        ("Storage together", made.cost.storage_monthly),
        ("Compute together", made.cost.compute_monthly),
        ("Everything", made.cost.monthly),
    ):
        assert rows[name][-1] == ("not known" if month is None else f"{month:,.2f}")
    assert len(table.all("tbody")[0].all("tr")) == len(made.cost.lines) + 5  # two groups with their sums, and all


def test_parts_that_were_not_asked_for_are_left_out() -> None:
    root = parse(render_report(planned({"checkpoints": SAVES})))
    assert {svg.attrs["id"] for svg in root.all("svg")} == {
        f"{name}-{variant}" for name in ("limits", "architecture") for variant in ("wide", "narrow")
    }
    for part in ("One step up or down", "Where the answer changes", "The same, simulated"):
        assert part not in root.text


def test_a_simulation_stands_beside_the_formulas() -> None:
    from training_storage.simulation import simulate

    made = planned({"checkpoints": SAVES})
    simulation = simulate(made, seed=7)
    root = parse(render_report(made, simulation=simulation))
    text = root.text
    assert "seed 7" in text
    assert len(simulation.figures) > 2
    for figure in simulation.figures:
        assert sentence(figure.label) in text
        assert figure.because in text
    for note in simulation.notes:
        assert sentence(note) in text


@pytest.mark.parametrize(
    "changes",
    [
        {"dataset.read_rate": None, "dataset.file_count": None},
        {"region": "ap-southeast-1", "availability_zone_id": "apse1-az2", "checkpoints": SAVES},
        {"region": "ap-southeast-1", "availability_zone_id": "apse1-az2", "dataset.read_rate": None},
        {"compute.purchase": "spot", "hot_tier": "express", "dataset.interface": "object"},
        {"hot_tier": "lustre", "checkpoints": SAVES | {"interval": "auto"}, "monitoring": {"enabled": False}},
    ],
    ids=["nothing known", "no prices", "neither", "spot", "no dashboard"],
)
def test_what_is_not_known_is_said_and_breaks_nothing(changes: dict[str, Any]) -> None:
    made = planned(changes)
    page = whole(made)
    root = parse(page)
    check_page(page, root)
    assert ">None<" not in page
    assert re.findall(r"\b(nan|None|inf)\b", root.text) == []
    if made.prediction.data_wait_fraction is None:
        assert "Whether accelerators will wait for data is not known" in root.text
    if made.cost.monthly is None:
        assert f"No price is known for {made.cost.region}" in root.text


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(workload_dicts())
def test_any_plan_has_a_page(data: dict[str, Any]) -> None:
    try:
        made = plan(Workload.model_validate(data))
    except PlanError:
        assume(False)
    page = render_report(made, steps=steps(made))
    root = parse(page)
    check_page(page, root)
    assert re.findall(r"\b(nan|None|inf)\b", root.all("main")[0].text) == []


# Safe to open


def test_text_of_a_plan_stays_text() -> None:
    made = planned({"hot_tier": "lustre", "checkpoints": SAVES})
    assert made.lustre is not None
    line, limit = made.cost.lines[0], made.prediction.limits[0]
    named = copy.copy(made.workload)
    object.__setattr__(named, "name", EVIL)  # loading refuses such a name; the page must not rely on it
    made = replace(
        made,
        workload=named,
        lustre=replace(made.lustre, links=(replace(made.lustre.links[0], path=EVIL, prefix=EVIL, bucket=EVIL),)),
        decisions=(Decision(rule=EVIL, option=EVIL, verdict="rejected", because=EVIL),),
        warnings=(PlanWarning(id=EVIL, message=EVIL),),
        assumptions=(EVIL,),
        mounts=(replace(made.mounts[0], path=EVIL, options={"bucket": EVIL}),),
        prediction=replace(made.prediction, limits=(replace(limit, because=EVIL),)),
        cost=replace(
            made.cost, region=EVIL, lines=(replace(line, item=EVIL, label=EVIL, unit=EVIL),), unpriced=(EVIL,)
        ),
    )
    options = tuple(replace(step, option=EVIL, because=EVIL, misses=(EVIL,)) for step in steps(planned()))
    sweep = replace(default_sweep(planned().workload), field=EVIL)
    page = render_report(made, steps=options, sweep=sweep)
    root = parse(page)  # fails where a tag of it opens or closes anything
    check_page(page, root)
    assert page.count("<script") == page.count("<img") == 0
    assert root.text.count("alert('x')") > 15
    assert "<script>alert('x')</script>" in next(node.text for node in root.all("h1"))


def test_marks_that_turn_the_direction_of_text_are_written_out() -> None:
    turned = "s3://a-bucket-of-this-test/\u202egpj.exe\u2066/\u200f/"
    made = planned({"hot_tier": "lustre", "checkpoints": SAVES, "dataset.source": turned})
    page = whole(made)
    assert not re.search("[\u200e\u200f\u202a-\u202e\u2066-\u2069]", page)
    assert r"s3://a-bucket-of-this-test/\u202egpj.exe\u2066/\u200f/" in parse(page).text


# Loaded only when asked for


def test_importing_the_report_loads_no_charts() -> None:
    code = (
        "import sys, training_storage.report, training_storage.cli\n"
        "print(*[m for m in ('matplotlib', 'jinja2', 'markupsafe', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("module", ["matplotlib", "jinja2"])
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'training-storage\[report\]'") as caught:
        render_report(planned())
    assert caught.value.extra == "report"
    assert module in str(caught.value)


def test_the_extra_has_what_the_report_needs() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = {re.split(r"[>=<]", each)[0] for each in project["optional-dependencies"]["report"]}
    assert extra == {"jinja2", "matplotlib"}
    assert not extra & {re.split(r"[>=<]", each)[0] for each in project["dependencies"]}


def test_the_example_of_the_page_of_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "report.md").read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(code, "docs/report.md", "exec"), {})
    assert parse((tmp_path / "report.html").read_text(encoding="utf-8")).all("h1")[0].text == "llama3-70b"
