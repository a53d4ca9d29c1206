"""Random workload files: legal ones, ones around the borders, and broken ones."""

from __future__ import annotations

import copy
import io
import math
from functools import cache
from typing import Any

from hypothesis import strategies as st

from training_storage.catalog import InstanceType, default_catalog

Data = dict[str, Any]

# Strategies are kept once made: hypothesis looks each new one over, which costs as much as what is drawn from it.


def dump_workload(data: Data) -> str:
    """Return a workload as YAML 1.2 text, one key a line."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.width = 10_000
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.representer.ignore_aliases = lambda *_: True
    out = io.StringIO()
    yaml.dump(data, out)
    return out.getvalue()


@cache
def sizes(low_gb: float = 0.001, high_gb: float = 1e6) -> st.SearchStrategy[str]:
    """Sizes between two numbers of GB, in decimal and binary units."""
    units = {"MB": 1e-3, "GB": 1.0, "TB": 1e3, "PB": 1e6, "MiB": 2**20 / 1e9, "GiB": 2**30 / 1e9, "TiB": 2**40 / 1e9}

    def written(pair: tuple[float, str]) -> str:
        exponent, unit = pair
        value = max(low_gb, min(high_gb, 10**exponent)) / units[unit]
        return f"{value:.6g} {unit}"

    return st.tuples(st.floats(math.log10(low_gb), math.log10(high_gb)), st.sampled_from(list(units))).map(written)


@cache
def durations(low_s: int = 1, high_s: int = 86_400 * 30) -> st.SearchStrategy[str]:
    """Lengths of time in every unit."""
    seconds = st.integers(low_s, high_s)
    return st.one_of(
        seconds.map(lambda s: f"{s}s"),
        seconds.map(lambda s: f"{s / 60:.4f}m"),
        seconds.map(lambda s: f"{s / 3600:.6f} h"),
        seconds.map(lambda s: f"{s / 86400:.8f}d"),
    )


@cache
def log_integers(low: int, high: int) -> st.SearchStrategy[int]:
    """Whole numbers, small ones as often as large ones."""
    return st.floats(math.log(low), math.log(high)).map(lambda e: max(low, min(high, round(math.exp(e)))))


@cache
def days(low: int, high: int = 3650) -> st.SearchStrategy[str]:
    """Whole days."""
    return st.integers(low, high).map(lambda n: f"{n}d")


@cache
def _ids(prefix: str) -> st.SearchStrategy[str]:
    return st.text("0123456789abcdef", min_size=8, max_size=17).map(lambda tail: f"{prefix}-{tail}")


@cache
def _names(most: int = 40) -> st.SearchStrategy[str]:
    return st.from_regex(rf"[a-z][a-z0-9-]{{0,{most - 2}}}[a-z0-9]", fullmatch=True)


_BUCKETS = st.from_regex(r"[a-z][a-z0-9-]{3,40}[a-z0-9]", fullmatch=True).filter(
    lambda name: (
        not name.startswith(("xn--", "sthree-", "amzn-s3-demo-"))
        and not name.endswith(("--x-s3", "--ol-s3", "-s3alias", "--table-s3"))
    )
)
_PREFIXES = st.lists(st.from_regex(r"[A-Za-z0-9_=-]{1,12}", fullmatch=True), max_size=3).map(
    lambda parts: "".join(f"{part}/" for part in parts)
)


@st.composite
def _optional(
    draw: st.DrawFn, required: dict[str, st.SearchStrategy[Any]], optional: dict[str, st.SearchStrategy[Any]]
) -> Data:
    """Draw a mapping with every required key and some of the optional ones."""
    out = {key: draw(strategy) for key, strategy in required.items()}
    chosen = [key for key in sorted(optional) if draw(st.booleans())]
    out.update({key: draw(optional[key]) for key in chosen})
    return out


@st.composite
def _one_of(draw: st.DrawFn, choices: dict[str, st.SearchStrategy[Any]], at_least: int = 0) -> Data:
    """Draw a mapping with one of the keys, or none."""
    key = draw(st.sampled_from([*sorted(choices), *([] if at_least else [None])]))
    return {} if key is None else {key: draw(choices[key])}


@st.composite
def _compute(draw: st.DrawFn, partition: str) -> tuple[Data, InstanceType | None]:
    catalog = default_catalog()
    known = draw(st.sampled_from([True, True, True, True, False]))
    out: Data = {}
    facts: InstanceType | None = None
    if known:
        usual = ["p5.48xlarge", "p5en.48xlarge", "p4d.24xlarge", "g6e.48xlarge", "p6-b200.48xlarge", "trn2.48xlarge"]
        types = st.one_of(st.sampled_from(usual), st.sampled_from(sorted(catalog.instance_types)))
        facts = catalog.instance_types[draw(types)]
        out["instance_type"] = facts.name
        purchases = {"reservation" if each == "on-demand" else each for each in facts.usage_classes}
        purchases |= {"on-demand"} & set(facts.usage_classes) | ({"capacity-block"} if facts.capacity_block else set())
        has_efa, clusters = facts.has_efa, not facts.placement_strategies or "cluster" in facts.placement_strategies
    else:
        out["instance_type"] = draw(st.sampled_from(["q9.48xlarge", "p9.24xlarge", "trn9.large"]))
        cards = draw(st.integers(1, 32))
        primary = draw(st.booleans())
        interfaces = draw(st.integers(1, cards) if primary else st.integers(0, cards - 1))
        out["type_facts"] = draw(
            _optional(
                {
                    "accelerators": st.sampled_from([0.125, 0.5, 1, 4, 8, 16]),
                    "network_cards": st.just(cards),
                    "efa_interfaces": st.just(interfaces),
                    "primary_card_has_efa": st.just(primary),
                    "network_gbps": st.sampled_from([10, 25, 100, 400, 3200, 6400]),
                    "architecture": st.sampled_from(["x86_64", "arm64"]),
                },
                {"local_nvme_gb": st.integers(0, 60_000)} | ({"fsx_efa_client": st.booleans()} if interfaces else {}),
            )
        )
        purchases, has_efa, clusters = {"on-demand", "spot", "reservation", "capacity-block"}, interfaces > 0, True
    purchase = draw(st.sampled_from(sorted(purchases)))
    block = purchase == "capacity-block"
    out["instance_count"] = draw(st.integers(1, 64) if block else log_integers(1, 2000))
    if purchase != "on-demand" or draw(st.booleans()):
        out["purchase"] = purchase
    if purchase in {"reservation", "capacity-block"}:
        out["capacity_reservation_id"] = draw(_ids("cr"))
    if block:
        out["start"], out["end"] = draw(
            st.sampled_from(
                [
                    ("2026-12-01T11:30:00Z", "2026-12-08T10:30:00Z"),
                    ("2027-02-28T23:00:00+02:00", "2027-03-01T11:00:00+02:00"),
                ]
            )
        )
    optional: dict[str, st.SearchStrategy[Any]] = {
        "placement_group": st.sampled_from(["auto", "none", *(["cluster"] if clusters and not block else [])]),
        "efa": st.sampled_from(["auto", False, *([True] if has_efa else [])]),
        "image": st.sampled_from(["auto", "ami-0123456789abcdef0", "ssm:/my/image/id"]),
        "user_commands": st.lists(st.sampled_from(["echo hello", "pip install x\nrun --all", "true"]), max_size=3),
        "security_group_id": _ids("sg"),
        "role_arn": st.just(f"arn:{partition}:iam::111111111111:role/path/training-nodes"),
        "accelerator_mttf": durations(3600, 10**9),
    }
    out.update(draw(_optional({}, optional)))
    return out, facts


@st.composite
def _dataset(draw: st.DrawFn, facts: InstanceType | None) -> Data:
    catalog = default_catalog()
    rates: dict[str, st.SearchStrategy[Any]] = {
        "per_accelerator": sizes(1e-4, 20).map(lambda size: f"{size}/s"),
        "samples": _optional(
            {"size": sizes(1e-6, 1), "per_second_per_accelerator": st.floats(0.01, 5000)},
            {"per_file": st.integers(1, 100_000)},
        ),
        "tokens": _optional(
            {"per_second_per_accelerator": st.floats(1, 1e6)}, {"bytes_per_token": st.sampled_from([1, 2, 4])}
        ),
    }
    models = [
        model
        for model in catalog.reference_models()
        if facts is not None and facts.accelerator_model in catalog.reference_accelerators(model)
    ]
    rate = _one_of(rates)
    if models:  # few types have one: it is drawn more often than the others, so that it is drawn at all
        rate = st.one_of(rate, st.fixed_dictionaries({"reference": st.sampled_from(models)}))
    out = draw(
        _optional(
            {"size": sizes(1, 5e5)},
            {
                "version": st.sampled_from(["v3", "2026-11-30", "1.0_b"]),
                "interface": st.sampled_from(["posix", "object"]),
                "access": st.sampled_from(["read-mostly", "read-write"]),
                "hot_fraction": st.sampled_from([0, 0.01, 0.5, 1, 1.0]),
                "loader": st.fixed_dictionaries(
                    {"workers_per_accelerator": st.integers(1, 64), "prefetch": st.integers(1, 16)}
                ),
                "source": st.tuples(_BUCKETS, _PREFIXES).map(lambda parts: f"s3://{parts[0]}/{parts[1]}"),
                "read_rate": rate,
            },
        )
    )
    out.update(draw(_one_of({"file_count": log_integers(1, 2_000_000_000), "average_file_size": sizes(1e-6, 1e3)})))
    return out


@st.composite
def _checkpoints(draw: st.DrawFn) -> Data:
    out = draw(_one_of({"parameters": st.floats(1e6, 1e13), "size": sizes(0.1, 1e5)}, at_least=1))
    optional = {
        "bytes_per_parameter": st.sampled_from([2, 8, 14, 16.5]),
        "interval": st.one_of(st.just("auto"), durations(60, 86_400 * 7)),
        "max_write_time": durations(1, 7200),
        "max_stall": st.sampled_from([0.0001, 0.01, 0.05, 0.5, 0.9]),
        "max_restore_time": durations(1, 86_400),
        "restore_readers": log_integers(1, 1000),
        "restart_time": durations(1, 7200),
        "asynchronous": st.booleans(),
        "keep_hot": st.integers(1, 50),
        "promote_every": st.integers(1, 100),
        "best": st.fixed_dictionaries({"metric": st.just("eval_loss"), "goal": st.sampled_from(["min", "max"])}),
        "incomplete_expire_after": durations(7200, 86_400 * 7),
    }
    return out | draw(_optional({}, optional))


@st.composite
def _lustre(draw: st.DrawFn, region: str, facts: InstanceType | None) -> Data:
    kind = draw(
        st.sampled_from(["", "", "PERSISTENT_2", "SCRATCH_2", "PERSISTENT_1", "HDD", "tiering", "tiering", "existing"])
    )
    if kind == "existing":
        return {
            "file_system_id": draw(_ids("fs")),
            "mount_name": draw(st.sampled_from(["fsx", "abcdefgh"])),
            "security_group_id": draw(_ids("sg")),
            "storage_capacity": f"{38_400 * draw(st.integers(1, 20))} GiB",
            "per_unit_storage_throughput": draw(st.sampled_from([125, 250])),
            "efa": False,
        } | draw(_optional({}, {"links": _links()}))
    if kind == "tiering":
        step = draw(st.integers(1, 50))
        tiering: Data = {"storage_type": "INTELLIGENT_TIERING", "throughput_capacity": 4000 * step, "links": []}
        sizes_gib = st.integers(32 * step, 131_072 * step).map(lambda gib: f"{gib} GiB")
        cache = st.one_of(st.sampled_from(["none", "proportional"]), sizes_gib)
        iops = st.sampled_from(["automatic", 6000, 12_000])
        return tiering | draw(_optional({"read_cache": cache}, {"metadata_iops": iops}))
    if kind == "HDD":
        tier = draw(st.sampled_from([12, 40]))
        sizes = st.integers(1, 40).map(lambda n: f"{n * {12: 6000, 40: 1800}[tier]} GiB")
        hdd: Data = {"storage_type": "HDD", "per_unit_storage_throughput": tier}
        optional_hdd = {"drive_cache": st.sampled_from(["none", "read"]), "storage_capacity": sizes, "links": _links()}
        return hdd | draw(_optional({}, optional_hdd))
    persistent2 = kind in {"", "PERSISTENT_2"}
    optional: dict[str, st.SearchStrategy[Any]] = {
        "storage_type": st.just("SSD"),
        # Multiples of 38,400 GiB are on the grid of every tier, with EFA and without.
        "storage_capacity": st.one_of(
            st.integers(1, 20).map(lambda n: f"{38_400 * n} GiB"),
            *([] if persistent2 else [st.integers(1, 40).map(lambda n: f"{2400 * n} GiB")]),
        ),
        "compression": st.sampled_from(["lz4", "none"]),
        "removal": st.sampled_from(["retain", "delete"]),
        "file_system_type_version": st.sampled_from(["2.15"]),
        "security_group_id": _ids("sg"),
    }
    if kind == "PERSISTENT_2":
        optional["per_unit_storage_throughput"] = st.sampled_from([125, 250, 500, 1000])
    if persistent2:
        optional["metadata_iops"] = st.sampled_from(["automatic", 192_000])
        optional["efa"] = st.sampled_from(["auto", True, False])
    if kind != "SCRATCH_2":
        optional["kms_key_arn"] = st.just(_arn("kms", region, "key/01234567-89ab-cdef-0123-456789abcdef"))
    out = draw(_optional({"deployment_type": st.just(kind)} if kind else {}, optional))
    if kind == "PERSISTENT_1":
        out["per_unit_storage_throughput"] = draw(st.sampled_from([50, 100, 200]))
    if persistent2 and facts is not None and facts.gds and draw(st.booleans()):
        out["gds"] = out.get("efa") is not False
    links = draw(st.sampled_from(["default", "none", "some"]))
    if links == "none":
        out["links"] = []
        if kind != "SCRATCH_2":
            out |= draw(_optional({}, {"backup_retention_days": st.integers(0, 90)}))
    elif links == "some":
        out["links"] = draw(_links())
    return out


@st.composite
def _links(draw: st.DrawFn) -> list[Data]:
    events = st.lists(st.sampled_from(["new", "changed", "deleted"]), unique=True, max_size=3)
    out = []
    for name in draw(st.lists(st.from_regex(r"[a-z]{3,8}", fullmatch=True), unique=True, min_size=1, max_size=8)):
        required = {"path": st.just(f"/{name}"), "source": st.just(f"s3://links-of-this-test/{name}/")}
        optional = {"import": events, "export": events, "import_metadata_on_create": st.booleans()}
        out.append(draw(_optional(required, optional)))
    return out


def _arn(service: str, region: str, resource: str) -> str:
    partition = default_catalog().regions[region].partition
    return f"arn:{partition}:{service}:{region}:111111111111:{resource}"


@st.composite
def _data_lake(draw: st.DrawFn, region: str) -> Data:
    out = draw(
        _optional(
            {},
            {
                "versioned": st.booleans(),
                "removal": st.sampled_from(["retain", "delete"]),
                "checkpoints_to_infrequent_access_after": days(30),
                "checkpoints_expire_after": days(3650),
                "noncurrent_versions_expire_after": days(1),
                "logs_expire_after": days(1),
            },
        )
    )
    out |= draw(_one_of({"bucket": _BUCKETS, "bucket_name": _BUCKETS}))
    encryption = draw(st.sampled_from([None, "s3", "kms"]))
    if encryption:
        out["encryption"] = encryption
    if encryption != "s3" and draw(st.booleans()):
        out["kms_key_arn"] = _arn("kms", region, "key/01234567-89ab-cdef-0123-456789abcdef")
    return out


@st.composite
def _lifecycle(draw: st.DrawFn) -> Data:
    shares = st.sampled_from([0.05, 0.1, 0.5])
    out = draw(
        _optional(
            {},
            {
                "guard": st.booleans(),
                "release_data_after": days(1),
                "warn_when_free_below": shares,
                "release_data_when_free_below": shares,
                "release_when_idle_for": st.sampled_from(["1h", "12h", "30d"]),
                "preload_at": st.just("2026-12-01T11:30:00Z"),
            },
        )
    )
    if "preload_at" in out and draw(st.booleans()):
        out["preload_paths"] = ["/datasets/part", "/checkpoints"]
    return out


def _fit_to_links(life: Data, links: list[Data]) -> None:
    """Leave out what needs links where there are none, and load what is linked."""
    if not links:
        for key in ("release_data_after", "release_data_when_free_below", "preload_at", "preload_paths"):
            life.pop(key, None)
    elif "preload_at" in life:
        life["preload_paths"] = [links[0]["path"]]


@st.composite
def _network(draw: st.DrawFn) -> Data:
    if draw(st.booleans()):
        return {"internet": draw(st.sampled_from(["nat", "none"]))}
    out: Data = {"vpc_id": draw(_ids("vpc")), "subnet_id": draw(_ids("subnet"))}
    return out | draw(_optional({}, {"route_table_ids": st.lists(_ids("rtb"), max_size=2)}))


@cache
def _directory_buckets(zone: str) -> st.SearchStrategy[str]:
    return st.from_regex(r"[a-z][a-z0-9]{2,20}", fullmatch=True).map(lambda base: f"{base}--{zone}--x-s3")


@st.composite
def _express(draw: st.DrawFn, region: str, zone: str) -> Data:
    out: Data = {}
    if draw(st.booleans()):
        out["kms_key_arn"] = _arn("kms", region, "key/01234567-89ab-cdef-0123-456789abcdef")
    if draw(st.sampled_from([True, False, False])):
        out["bucket_names"] = draw(st.lists(_directory_buckets(zone), unique=True, min_size=1, max_size=3))
        return out
    out |= draw(_optional({}, {"base_name": _names(30), "expire_after": days(1)}))
    if "expire_after" in out and draw(st.booleans()):
        out["expire_prefixes"] = ["checkpoints/"]
    removal = draw(st.sampled_from([None, "retain", "delete"]))
    if removal:
        out["removal"] = removal
    if removal == "delete" and draw(st.booleans()):
        out["content_is_cache"] = True
    return out


@st.composite
def _s3_files(draw: st.DrawFn) -> Data:
    out = draw(_optional({}, {"read_only": st.booleans(), "root_access": st.booleans()}))
    if draw(st.sampled_from([True, False, False])):
        ids = st.text("0123456789abcdef", min_size=17, max_size=40).map(lambda tail: f"fs-{tail}")
        return out | {"file_system_id": draw(ids), "security_group_id": draw(_ids("sg"))}
    removal = st.sampled_from(["retain", "delete"])
    new = {"expire_after": days(1, 365), "removal": removal, "security_group_id": _ids("sg")}
    return out | draw(_optional({}, new))


@st.composite
def _mountpoint(draw: st.DrawFn, zone: str) -> Data:
    cache = draw(st.sampled_from([None, "auto", "none", "nvme", "express"]))
    out: Data = {} if cache is None else {"cache": cache}
    optional: dict[str, st.SearchStrategy[Any]] = {"read_only": st.booleans()}
    if cache == "express":
        optional["cache_bucket"] = _directory_buckets(zone)
    elif cache != "none":
        optional["cache_size"] = sizes(1, 1e4)
    return out | draw(_optional({}, optional))


@st.composite
def workload_dicts(draw: st.DrawFn, valid: bool = True) -> Data:
    """Workload files as plain data; every key of the file occurs.

    Args:
        draw: Given by hypothesis.
        valid: Whether every one can be loaded. False: a single value may lie on, or just beyond, a border.
    """
    catalog = default_catalog()
    regions = sorted(name for name, region in catalog.regions.items() if region.zone_ids)
    region = draw(st.one_of(st.sampled_from(["us-east-1", "us-west-2"]), st.sampled_from(regions)))
    compute, facts = draw(_compute(catalog.regions[region].partition))
    zone = draw(st.sampled_from(catalog.regions[region].zone_ids))
    data: Data = {
        "name": draw(_names()),
        "region": region,
        "availability_zone_id": zone,
        "compute": compute,
        "dataset": draw(_dataset(facts)),
    }
    tiers = {
        "account": st.sampled_from(["111111111111", "012345678901"]),
        "scratch_size": st.one_of(st.just("0 B"), sizes(1, 1e5)),
        "hot_tier": st.sampled_from(["auto", "none", "lustre", "express"]),
        "file_access": st.sampled_from(["auto", "none", "mountpoint", "s3-files"]),
    }
    sections: dict[str, st.SearchStrategy[Any]] = {
        "network": _network(),
        "checkpoints": _checkpoints(),
        "lustre": _lustre(region, facts),
        "express": _express(region, zone),
        "s3_files": _s3_files(),
        "mountpoint": _mountpoint(zone),
        "data_lake": _data_lake(region),
        "lifecycle": _lifecycle(),
        "monitoring": _optional(
            {},
            {
                "enabled": st.booleans(),
                "alarm_email": st.just("ops@example.com"),
                "alarm_topic_arn": st.just(_arn("sns", region, "training-alarms")),
            },
        ),
    }
    data |= draw(_optional({}, tiers | sections))
    if data.get("lustre", {}).get("links") is not None:
        _fit_to_links(data.get("lifecycle", {}), data["lustre"]["links"])
    if "role_arn" in compute and "account" in data:
        data["account"] = "111111111111"  # that of the role: instances take no roles of other accounts
    return data if valid else draw(_near_a_border(data))


_BORDERS: dict[str, list[Any]] = {
    "name": ["a", "a" * 40, "a" * 41, "9a", "A"],
    "compute.instance_count": [0, 1, 1.0, 1.5, 1_000_000, 1_000_001, -1],
    "dataset.hot_fraction": [-0.01, 0, 1, 1.01],
    "dataset.size": ["0 B", "1 B", "1000 PB", "1001 PB", "1 EB"],
    "dataset.file_count": [0, 1, 10**15, 10**15 + 1],
    "checkpoints.max_stall": [0, 1e-6, 0.5, 0.999, 1],
    "checkpoints.keep_hot": [0, 1],
    "checkpoints.interval": ["0s", "1s", "auto", "3650d", "3651d"],
    "lustre.storage_capacity": ["1199 GiB", "1200 GiB", "1201 GiB", "3600 GiB", "1200.5 GiB"],
    "lustre.metadata_iops": [1499, 1500, 1501, 192_000, 204_000],
    "lustre.per_unit_storage_throughput": [50, 124, 125, 200, 1000],
    "lustre.backup_retention_days": [-1, 0, 90, 91],
    "data_lake.checkpoints_to_infrequent_access_after": ["29d", "30d", "30.5d"],
    "data_lake.bucket_name": ["ab", "abc", "a" * 63, "a" * 64, "with.dots"],
    "checkpoints.incomplete_expire_after": ["9m", "10m", "3650d", "3651d"],
    "lifecycle.release_data_after": ["0d", "1d", "36h", "3650d", "3651d"],
    "lifecycle.warn_when_free_below": [-0.1, 0, 0.9, 0.91],
    "lifecycle.release_when_idle_for": ["30m", "1h", "720h", "721h"],
    "express.expire_after": ["0d", "1d", "36h"],
    "s3_files.expire_after": ["0d", "1d", "365d", "366d"],
}


@st.composite
def _near_a_border(draw: st.DrawFn, data: Data) -> Data:
    path = draw(st.sampled_from(sorted(_BORDERS)))
    *parents, key = path.split(".")
    data = copy.deepcopy(data)
    section = data
    for parent in parents:
        section = section.setdefault(parent, {})
    section[key] = draw(st.sampled_from(_BORDERS[path]))
    return data


_JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(10**30, 10**40),
    st.floats(),
    st.sampled_from(
        [math.nan, math.inf, -math.inf, 0, -1, 1e308, 1e-308, "", " ", "no", "on", "yes", "~", "auto", "none"]
    ),
    st.sampled_from(
        ["1e999 TB", "-1 GB", "60 tb", "0 GB", "5", "1 GB/s", "99999999999999999999d", "s3://", "s3://x", "/"]
    ),
    st.sampled_from(
        ["us-east-1a", "use1-az99", "arn:aws:kms:us-east-1:1:key", "ami-", "cr-", "2026-13-45", "2026-12-01"]
    ),
    st.text(max_size=40),
    st.text("äöü漢字😀\u202e'\"\\:#-[]{}&*!|>%@`", max_size=20),
    st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=5)), max_size=4),
    st.dictionaries(st.text(max_size=8), st.one_of(st.none(), st.integers(), st.text(max_size=5)), max_size=3),
)


def _containers(value: Any) -> list[Any]:
    found = [value]
    for child in value.values() if isinstance(value, dict) else value:
        if isinstance(child, dict | list):
            found.extend(_containers(child))
    return found


@st.composite
def broken_workload_dicts(draw: st.DrawFn) -> Data:
    """Workload files with one to five things changed: most cannot be loaded, a few still can."""
    data = copy.deepcopy(draw(workload_dicts(valid=draw(st.booleans()))))
    for _ in range(draw(st.integers(1, 5))):
        container = draw(st.sampled_from(_containers(data)))
        places = sorted(container) if isinstance(container, dict) else list(range(len(container)))
        change = draw(st.sampled_from(["replace", "replace", "remove", "add", "misspell", "move", "double"]))
        if change == "add" or not places:
            if isinstance(container, dict):
                key = draw(
                    st.one_of(st.text(min_size=1, max_size=12), st.sampled_from(["size", "efa", "links", "import_"]))
                )
                container[key] = draw(_JUNK)
            else:
                container.append(draw(_JUNK))
            continue
        place = draw(st.sampled_from(places))
        if change == "double":
            if isinstance(container, list):
                container.append(copy.deepcopy(container[place]))
            continue
        if change == "replace":
            container[place] = draw(_JUNK)
        elif change == "remove":
            del container[place]
        elif isinstance(container, dict):
            target = data if change == "move" else container
            target[f"{place}x" if change == "misspell" else place] = container.pop(place)
    return data
