"""The reference app: `cdk deploy --all -c workload=FILE`, with your own facts `-c catalog=FILE[,FILE]`."""

import sys
from pathlib import Path

import aws_cdk as cdk

from stacks import build_stacks
from training_storage import TrainingStorageError, load_catalog, load_workload, plan

app = cdk.App()
workload = app.node.try_get_context("workload") or sys.exit("error: no workload given; fix: add -c workload=FILE")
files = [Path(name) for name in (app.node.try_get_context("catalog") or "").split(",") if name]
try:
    catalog = load_catalog(*files)
    build_stacks(app, plan(load_workload(workload, catalog=catalog), catalog=catalog))
except TrainingStorageError as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(2)
app.synth()
