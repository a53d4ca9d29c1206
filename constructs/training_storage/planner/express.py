"""The S3 Express One Zone part of a plan."""

from __future__ import annotations

import math

from training_storage.planner.draft import Draft
from training_storage.planner.latency import read_time
from training_storage.planner.links import dataset_source
from training_storage.planner.model import ExpressPlan
from training_storage.planner.s3_supply import S3Supply
from training_storage.planner.supply import Limits, Term, latency_terms
from training_storage.planner.words import number
from training_storage.units import MB
from training_storage.workload.model import Workload


def plan_express(draft: Draft) -> ExpressPlan:
    """Return the directory buckets: as many as the requests of reading, restores and saves need."""
    demand, rates = draft.needs.demand, draft.catalog.object_storage
    part_mb = rates.part_bytes / MB
    gets = (draft.needs.read_requests_per_s or 0.0) + (demand.restore_read_mb_per_s or 0.0) / part_mb
    puts = (demand.checkpoint_write_mb_per_s or 0.0) / part_mb
    most = max(gets / rates.express_get_requests_per_s, puts / rates.express_put_requests_per_s)
    asked = max(1, math.ceil(most * (1 - 1e-9)))
    named = len(draft.workload.express.bucket_names)
    buckets = named or asked
    draft.choose(
        "express.buckets",
        str(buckets),
        f"{'express.bucket_names is given; ' if named else ''}{number(gets)} GET a second of "
        f"{rates.express_get_requests_per_s:,} a bucket, {number(puts)} PUT a second of "
        f"{rates.express_put_requests_per_s:,}",
    )
    if named and named < asked:
        draft.warn(
            "express-buckets-short",
            f"express.bucket_names has {named:,} of the {asked:,} directory buckets that the requests need: requests "
            "above what a bucket serves are answered with 503 and tried again; name more, or have their rate raised",
        )
    if buckets > rates.express_buckets_per_account_and_region:
        draft.warn(
            "express-quota",
            f"{buckets:,} directory buckets are more than the {rates.express_buckets_per_account_and_region:,} of an "
            "account and region: have the request rate or the quota raised before deploying",
        )
    if not named:
        draft.warn(
            "express-starts-empty",
            f"directory buckets start empty: run `{staging_command(draft.workload)}` when they are there and before "
            "the job reads, and `training-storage archive` for what is to be kept",
        )
    if buckets > 1 and draft.workload.dataset.interface == "posix":
        draft.warn(
            "express-one-mount",
            f"POSIX code sees one of the {buckets:,} directory buckets under /hot: less than what is asked for",
        )
    return ExpressPlan(availability_zone_id=draft.workload.availability_zone_id, bucket_count=buckets)


def staging_command(workload: Workload, places: tuple[str, ...] = ()) -> str:
    """Return the command that copies the data set of a workload to its directory buckets.

    Args:
        workload: The workload.
        places: Directory buckets, where the data set is not in the lake. Left out, ``DIRECTORY-BUCKET`` stands there.
    """
    bucket, prefix = dataset_source(workload)
    if bucket is None:
        return f"training-storage stage {workload.name} --region {workload.region} --path {prefix}"
    targets = " ".join(f"--to s3://{place}/{prefix}" for place in places or ("DIRECTORY-BUCKET",))
    return f"training-storage stage --region {workload.region} --from s3://{bucket}/{prefix} {targets}"


def express_limits(draft: Draft, s3: S3Supply) -> Limits:
    """Return what binds on S3 Express: the network of the fleet; buckets are added until requests do not bind."""
    needs, per_instance = draft.needs, s3.per_instance_mb_per_s
    network = Term(
        "network", needs.instances * per_instance, "{} x {} MB/s of one instance", (needs.instances, per_instance)
    )
    posix = draft.workload.dataset.interface == "posix"
    time = read_time(needs, draft.catalog.training, "s3_express", files=posix)
    return Limits(reads=(network, *latency_terms(needs, time)), write=network, restore=network, read_time=time)
