"""What happened: drivers write one record per sample, plan, refusal, move and session step; readers rebuild the run."""

from evenflow.trace.lines import JsonlTrace, MemoryTrace, Trace, line, read, record_in
from evenflow.trace.records import RECORDS, Record
from evenflow.trace.run import NodeHistory, OwnerHistory, Run, SessionHistory, Step

__all__ = [
    "RECORDS",
    "JsonlTrace",
    "MemoryTrace",
    "NodeHistory",
    "OwnerHistory",
    "Record",
    "Run",
    "SessionHistory",
    "Step",
    "Trace",
    "line",
    "read",
    "record_in",
]
