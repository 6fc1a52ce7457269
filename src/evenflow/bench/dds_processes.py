"""The processes around ``evenflow bench dds``: a writer, and the bare reader that everything is compared with.

Started as ``python -m evenflow.bench.dds_processes write|read DOMAIN TOPIC SAMPLES``.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import pyarrow as pa
from cyclonedds.core import DDSException, InstanceState, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from evenflow.dds.domain import participant, quality
from evenflow.dds.wire.columns import struct_of

COLUMNS: Final = pa.schema([("sensor", pa.int64()), ("temperature", pa.float64()), ("place", pa.string())])
TYPE: Final = "sensor bigint, temperature double, place string"
KIND: Any = struct_of(COLUMNS, "Measured")
AT_ONCE: Final = 500


def write(domain: int, topic: str, samples: int) -> None:
    """Write so many samples to whoever reads."""
    entity = participant(domain)
    found: Any = Topic(entity, topic, KIND, qos=quality())
    writer: Any = DataWriter(entity, found, qos=quality())
    while not writer.get_matched_subscriptions():
        time.sleep(0.01)
    for number in range(samples):
        sample = KIND(number, number / 4, f"room {number % 100}")
        while True:
            try:
                writer.write(sample)
                break
            except DDSException as error:
                if error.code != DDSException.DDS_RETCODE_TIMEOUT:
                    raise
    writer.wait_for_acks(duration(seconds=600))


def read(domain: int, topic: str, samples: int) -> float:
    """Take so many samples as objects, as the library gives them; return the CPU seconds of this process."""
    entity = participant(domain)
    found: Any = Topic(entity, topic, KIND, qos=quality())
    reader: Any = DataReader(entity, found, qos=quality())
    waitset: Any = WaitSet(entity)
    condition = ReadCondition(reader, SampleState.Any | ViewState.Any | InstanceState.Any)
    waitset.attach(condition)
    _say("ready")
    began = time.process_time()
    taken = 0
    while taken < samples:
        waitset.wait(duration(seconds=1))
        taken += sum(1 for sample in reader.take(AT_ONCE) if sample.sample_info.valid_data)
    return time.process_time() - began


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(words: list[str]) -> None:
    """Do what the first word says."""
    what, domain, topic, samples = words
    if what == "write":
        write(int(domain), topic, int(samples))
    else:
        _say(str(read(int(domain), topic, int(samples))))


if __name__ == "__main__":
    main(sys.argv[1:])
