"""The type of the topic that says which rows of a batch count. Annotations are values here: Cyclone looks at them."""

from dataclasses import dataclass

from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import int64, sequence


@dataclass
class Commit(IdlStruct, typename="evenflow.Commit"):
    """A batch of a query is committed: these numbers of these publishers are its rows."""

    query: str
    batch: int64
    publishers: sequence[int64]  # type: ignore[type-arg]  # generic at run time alone
    firsts: sequence[int64]  # type: ignore[type-arg]
    counts: sequence[int64]  # type: ignore[type-arg]
