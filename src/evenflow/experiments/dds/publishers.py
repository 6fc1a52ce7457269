"""The publishers of the kill drill: one keeps items until they are acknowledged, one sends its history to every reader.

Started as ``python -m evenflow.experiments.dds.publishers DIRECTORY``. They stay a little ahead of the streams, so that every driver that
is killed had something to do, until the file ``enough`` appears.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from evenflow.slices.publisher import Due

ITEMS, KEPT = "drill_items", "drill_kept"
SETTINGS, ENOUGH, FINDINGS = "drill.json", "enough", "findings.json"
PERIOD_S: Final = 0.02  # between items
PATIENCE_S: Final = 480.0  # a driver on a busy machine may take long for its first batches


def planned(directory: Path) -> int:
    """Return how many rows of both streams Spark has planned into batches, of the slower one."""
    return min(_planned(directory / topic / "check" / "offsets") for topic in (ITEMS, KEPT))


def _planned(offsets: Path) -> int:
    names = [int(f.name) for f in offsets.iterdir() if f.name.isdigit()] if offsets.is_dir() else []
    try:
        return int(json.loads((offsets / str(max(names))).read_text().splitlines()[-1])["rows"]) if names else 0
    except (ValueError, KeyError, IndexError, TypeError, OSError):
        return 0  # being written


def main(directory: Path) -> None:
    """Publish both topics."""
    from evenflow.dds.writers import Reading, WritersProcess  # noqa: PLC0415 - who reads a checkpoint needs no Cyclone

    settings = json.loads((directory / SETTINGS).read_text())
    count, domain = settings["items"], settings["domain"]
    thread = threading.Thread(target=_keep, args=(directory, count, domain))
    thread.start()
    schedule = {9: _due(directory, count)}
    left = WritersProcess(schedule, {ITEMS: Reading}, domain, None, items=None, patience_s=PATIENCE_S).run()
    thread.join()
    if left:
        raise SystemExit(f"{left} items were not acknowledged")


def _due(directory: Path, count: int) -> Iterator[Due]:
    """Spread the items over some time; a schedule may not wait by itself, for its publisher could write nothing again."""
    for number in range(count):
        pause = 0.0 if number < count // 10 or (directory / ENOUGH).exists() else PERIOD_S
        yield Due(time.time() + pause, 0, topic=ITEMS, value={"sensor": number, "temperature": number / 4})


def _paced(directory: Path, count: int) -> Iterator[int]:
    allowed = 0
    for number in range(count):
        while number >= allowed:
            allowed = count if (directory / ENOUGH).exists() else planned(directory) + max(1, count // 10)
            if number >= allowed:
                time.sleep(0.1)
        yield number


def _keep(directory: Path, count: int, domain: int) -> None:
    import pyarrow as pa  # noqa: PLC0415
    from cyclonedds.core import DDSException  # noqa: PLC0415
    from cyclonedds.pub import DataWriter  # noqa: PLC0415
    from cyclonedds.topic import Topic  # noqa: PLC0415

    from evenflow.dds.domain import participant, quality  # noqa: PLC0415
    from evenflow.dds.wire.columns import struct_of  # noqa: PLC0415

    kind = struct_of(pa.schema([("number", pa.int64()), ("text", pa.string())]), "Kept")
    entity = participant(domain)
    qos = quality({"durability": "transient_local"})
    topic: Any = Topic(entity, KEPT, kind, qos=qos)
    writer: Any = DataWriter(entity, topic, qos=qos)
    for number in _paced(directory, count):
        while True:
            try:
                writer.write(kind(number, f"text {number}"))
                break
            except DDSException as error:  # a reader that was killed is waited for until its lease has ended
                if error.code != DDSException.DDS_RETCODE_TIMEOUT:
                    raise
    while not (directory / FINDINGS).exists():
        time.sleep(0.1)  # who is gone keeps no history


if __name__ == "__main__":
    main(Path(sys.argv[1]))
