"""Tables about what stands where: mounts, links, paths, and what was chosen and rejected."""

from __future__ import annotations

from training_storage.planner.model import Plan
from training_storage.planner.words import listed, number
from training_storage.report.deployment import link_source, mount_words
from training_storage.report.tables import Column, Row, Table, table
from training_storage.report.words import sentence


def mount_table(plan: Plan) -> Table | None:
    """Return what every node mounts."""
    rows = []
    for mount in plan.mounts:
        options = [
            f"{name} {number(value) if isinstance(value, float) else value}"
            for name, value in mount.options.items()
            if value not in (None, "") and name not in {"directory_bucket", "cache"}
        ]
        rows.append(Row((mount.path, mount_words(mount), ", ".join(options))))
    columns = (Column("Path", "code"), Column("What"), Column("Options", "code"))
    return table("Mounts on every node", columns, rows)


def link_table(plan: Plan) -> Table | None:
    """Return the links between the file system and S3; None without any."""
    links = () if plan.lustre is None else plan.lustre.links
    rows = [
        Row(
            (
                link.path,
                link_source(link),
                sentence(listed(link.import_events) or "nothing"),
                sentence(listed(link.export_events) or "nothing"),
                "At creation" if link.import_metadata_on_create else "As a task, after the deploy",
            )
        )
        for link in links
    ]
    columns = (
        Column("Path", "code"),
        Column("Behind it", "code"),
        Column("Imports by itself"),
        Column("Exports by itself"),
        Column("Listing imported"),
    )
    return table("Links between the file system and S3", columns, rows)


def path_table(plan: Plan) -> Table | None:
    """Return where training code finds its directories."""
    paths = (
        ("Data set", plan.paths.datasets),
        ("Checkpoints", plan.paths.checkpoints),
        ("Scratch", plan.paths.scratch),
    )
    rows = [Row((name, path)) for name, path in paths if path is not None]
    return table("Paths of training code", (Column("What"), Column("Path", "code")), rows)


def decision_table(plan: Plan, verdict: str) -> Table | None:
    """Return every option with one verdict, and why."""
    rows = [Row((each.rule, each.option, sentence(each.because))) for each in plan.decisions if each.verdict == verdict]
    columns = (Column("Decision", "code"), Column("Option"), Column("Why"))
    return table(f"What was {verdict}, and why", columns, rows, hide_caption=True)
