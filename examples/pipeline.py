"""The function that ``pipeline.toml`` names: how many readings a device sent, their mean, and the highest."""

import pyarrow as pa
import pyarrow.compute as pc

STATE = pa.schema([("device", pa.int64()), ("n", pa.int64()), ("total", pa.float64()), ("highest", pa.float64())])


def update(rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Add a batch to what is known of a slice's devices; put out the devices that sent something."""
    new = pa.table([rows["device"], pa.array([1] * rows.num_rows), rows["value"], rows["value"]], schema=STATE)
    how = [("n", "sum"), ("total", "sum"), ("highest", "max")]
    known = pa.concat_tables([state, new]).group_by("device", use_threads=False).aggregate(how)
    state = known.rename_columns(STATE.names)
    seen = state.filter(pc.is_in(state["device"], value_set=pc.unique(rows["device"])))
    return seen.append_column("mean", pc.divide(seen["total"], seen["n"])), state
