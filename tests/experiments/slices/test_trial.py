"""The order in which a file source gave its files, by the checkpoint alone."""

from __future__ import annotations

import json

from evenflow.experiments.slices.trial import expected, put, read_order


def checkpoint(place, chosen, offsets):
    """Write what Spark leaves: which file each choice of the source took, and the choice that each batch ends with."""
    sources, batches = place / "check" / "sources" / "0", place / "check" / "offsets"
    sources.mkdir(parents=True)
    batches.mkdir()
    for number, name in enumerate(chosen):
        entry = {"path": f"file://{place}/in/{name}", "timestamp": 1, "batchId": number}
        (sources / str(number)).write_text("v1\n" + json.dumps(entry))
    for batch, last in enumerate(offsets):
        (batches / str(batch)).write_text(f'v1\n{{}}\n{{"logOffset":{last}}}\n{{"evenflow": 3}}')
    return place / "check"


def test_files_of_one_batch_come_largest_first(tmp_path):
    for number, rows in enumerate((100, 50, 400, 10)):
        put(tmp_path / "in", number, rows)
    names = [f"{number:05}.parquet" for number in range(4)]
    assert read_order(checkpoint(tmp_path, names, [0, 1, 1, 2, 3])) == names
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "in").symlink_to(tmp_path / "in")
    order = read_order(checkpoint(tmp_path / "again", names, [0, 2, 3]))  # the driver died in the second batch
    assert order == [names[0], names[2], names[1], names[3]]
    by_name, as_read = expected(tmp_path / "in"), expected(tmp_path / "in", order)
    assert {row["id"] for row in by_name} == {row["id"] for row in as_read}
    assert by_name != as_read
