"""The reference app: `cdk deploy --all -c workload=FILE`."""

import sys

import aws_cdk as cdk

from stacks import build_stacks
from training_storage import TrainingStorageError, load_workload, plan

app = cdk.App()
workload = app.node.try_get_context("workload") or sys.exit("error: no workload given; fix: add -c workload=FILE")
try:
    build_stacks(app, plan(load_workload(workload)))
except TrainingStorageError as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(2)
app.synth()
