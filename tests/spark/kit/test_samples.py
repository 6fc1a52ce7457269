"""Samples that are broken or gone: they only steer, so the others count and the stream goes on."""

from __future__ import annotations

import json

import pytest

from evenflow.spark.kit.samples import KEPT, Cost, Meter, Samples
from evenflow.spark.kit.storage import Storage, checked_url


@pytest.fixture
def place(tmp_path):
    for batch in range(3):
        meter = Meter()
        meter.add(batch, Cost(rows=10 + batch))
        meter.write(Storage(checked_url(str(tmp_path))), batch, 0)
    return tmp_path


def rows(place):
    return [sample.rows for sample in Samples(Storage(checked_url(str(place)))).new()]


def test_a_broken_sample_is_passed_over_with_a_warning(place, caplog):
    assert rows(place) == [10, 11, 12]
    file = place / "samples" / "000000000001-000000"
    content = file.read_bytes()
    other = json.dumps({**json.loads(content), "slices": [1]}).encode()
    for broken in (*(content[:n] for n in range(len(content))), b"[]", b"\xff", b"7", b'{"rows": 1}', other):
        file.write_bytes(broken)
        caplog.clear()
        assert rows(place) == [10, 12]
        (warning,) = caplog.messages
        assert f"samples/{file.name} cannot be read" in warning


def test_what_is_no_sample_is_left_alone_and_old_ones_go(place):
    (place / "samples" / "notes").write_text("mine")
    samples = Samples(Storage(checked_url(str(place))))
    assert len(samples.new()) == 3
    Meter().write(Storage(checked_url(str(place))), KEPT + 1, 0)
    assert [sample.batch for sample in samples.new()] == [KEPT + 1]
    assert sorted(file.name for file in (place / "samples").iterdir()) == [
        "000000000002-000000", f"{KEPT + 1:012}-000000", "notes",
    ]  # fmt: skip
