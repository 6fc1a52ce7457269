"""The rows of a campaign as a Parquet file, one line per seed, for whoever wants to go on with them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

ROWS: Final = "rows.parquet"


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write plain rows; lists, objects and columns of several kinds become JSON texts."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    pq.write_table(pa.table({name: _column([row.get(name) for row in rows]) for name in names}), path)


def _column(values: list[Any]) -> Any:
    if not any(isinstance(value, (list, dict)) for value in values):
        try:
            return pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            pass
    return pa.array([None if value is None else json.dumps(value) for value in values])
