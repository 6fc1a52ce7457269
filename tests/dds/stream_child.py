"""A stream without Spark, for kill tests: it plans, reads, writes and commits batches in the order in which Spark does.

Started as ``python stream_child.py DIRECTORY``; it ends when everything is there.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from evenflow.dds.collector import Collector, Wanted
from evenflow.dds.segments import read_piece, write_whole
from evenflow.dds.wire.columns import load_type, struct_of
from evenflow.experiments.dds.publishers import ENOUGH, ITEMS, KEPT, SETTINGS

MOST = 50  # rows of a batch


class Stream:
    """One topic into a directory of files, one per batch."""

    def __init__(self, directory, topic, kind, policies, domain):
        self.directory = directory / topic
        for name in ("check/offsets", "check/commits", "out"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        self.collector = Collector(Wanted(topic, kind, domain, self.directory / "journal", policies=policies))
        self.collector.start()

    def numbers(self, what):
        return sorted(int(path.name) for path in (self.directory / "check" / what).iterdir() if path.name.isdigit())

    def offset(self, batch):
        return json.loads((self.directory / "check" / "offsets" / str(batch)).read_text())["rows"] if batch >= 0 else 0

    def step(self):
        """Do the next batch, or one again that was planned and not committed; say how many rows are committed."""
        planned, committed = (max(self.numbers(what), default=-1) for what in ("offsets", "commits"))
        start = self.offset(committed)
        if planned == committed:
            end = min(self.collector.end(), start + MOST)
            if end == start:
                return start
            planned += 1
            put(self.directory / "check" / "offsets" / str(planned), {"rows": end})
        end = self.offset(planned)
        rows = [row for piece in self.collector.pieces(start, end) for row in read_piece(piece).to_pylist()]
        put(self.directory / "out" / str(planned), rows)
        put(self.directory / "check" / "commits" / str(planned), {})
        self.collector.forget(end)
        return end


def put(path, content):
    write_whole(path, lambda file: file.write(json.dumps(content).encode()))


def main(directory):
    settings = json.loads((directory / SETTINGS).read_text())
    kept = struct_of_kept()
    streams = [
        Stream(directory, ITEMS, load_type("evenflow.dds.writers:Reading"), {}, settings["domain"]),
        Stream(directory, KEPT, kept, {"durability": "transient_local"}, settings["domain"]),
    ]
    quiet = 0
    while quiet < 20:
        done = [stream.step() for stream in streams]
        everything = min(done) >= settings["items"] and (directory / ENOUGH).exists()
        quiet = quiet + 1 if everything else 0  # what would come twice comes meanwhile
        time.sleep(0.1 if everything else 0.01)
    sys.stdout.write(json.dumps([stream.collector.repeated for stream in streams]))
    for stream in streams:
        stream.collector.stop()


def struct_of_kept():
    import pyarrow as pa

    return struct_of(pa.schema([("number", pa.int64()), ("text", pa.string())]), "Kept")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
