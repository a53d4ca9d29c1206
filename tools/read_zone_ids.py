"""Print the zone IDs that moto ships, one region a line, as ``catalog/data/regions.json`` has them.

Run it after an upgrade of moto and carry over what has changed: ``tests/unit/test_catalog_regions.py`` fails till then.
"""

from __future__ import annotations

import json

from boto3 import Session
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend


def zone_ids() -> dict[str, dict[str, object]]:
    """Return partition, zone-ID prefix and zone IDs by region."""
    session = Session()
    rows: dict[str, dict[str, object]] = {}
    for region, zones in sorted(RegionsAndZonesBackend.zones.items()):
        ids = sorted(zone.zone_id for zone in zones)
        rows[region] = {
            "partition": session.get_partition_for_region(region),
            "zone_id_prefix": ids[0].rpartition("-")[0],
            "zone_ids": ids,
        }
    return rows


if __name__ == "__main__":
    for name, row in zone_ids().items():
        print(f"{json.dumps(name)}: {json.dumps(row)}")
