from __future__ import annotations

import numpy as np
import pytest

from evenflow.errors import BadInput
from evenflow.spark.kit.keys import Keys, spark_hash


@pytest.mark.parametrize(("slices", "lanes"), [(1, 1), (64, 3), (256, 8), (40, 200)])
def test_every_slice_has_a_key_of_its_own_on_every_lane(slices, lanes):
    keys = Keys(slices, lanes)
    found = {}
    for s in range(slices):
        for lane in range(lanes):
            k = keys.key(s, lane)
            assert (keys.slice_of(k), keys.lane_of(k)) == (s, lane)
            found[k] = (s, lane)
    assert len(found) == slices * lanes


def test_hash_and_partition_are_sparks_own(spark):
    from pyspark.sql import functions as sf

    numbers = [0, 1, -1, 42, 2**31 - 1, -(2**31), *np.random.default_rng(7).integers(-(2**31), 2**31, 200).tolist()]
    frame = spark.createDataFrame([(n,) for n in numbers], "k int")
    rows = frame.select("k", sf.hash("k").alias("h")).collect()
    assert [r.h for r in rows] == spark_hash([r.k for r in rows]).tolist()
    placed = frame.repartition(5, "k").select("k", sf.spark_partition_id().alias("p")).collect()
    assert [r.p for r in placed] == (spark_hash([r.k for r in placed]) % 5).tolist()


def test_more_keys_than_ints_are_refused():
    with pytest.raises(BadInput, match="slices × lanes"):
        Keys(10_000_000, 100)
