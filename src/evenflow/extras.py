"""Which extra brings which module, so that a command that lacks one can say what to install."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from evenflow.errors import BadInput

EXTRA_OF: Final[Mapping[str, str]] = {
    "pyspark": "spark",
    "pandas": "spark",
    "google": "spark",
    "grpc": "spark",
    "grpc_status": "spark",
    "zstandard": "spark",
    "cyclonedds": "dds",
    "psutil": "dds",
    "prometheus_client": "web",
    "numba": "fast",
}


def need(module: str, where: str) -> None:
    """Refuse to begin without a module that the work needs later, perhaps in another process."""
    if find_spec(module) is None:
        raise BadInput(f"no {module}", to_install(module), where)


def to_install(module: str) -> str:
    """Say how to get a module.

    Examples
    --------
    >>> to_install("cyclonedds")
    'pip install "evenflow[dds]"'
    """
    return f'pip install "evenflow[{EXTRA_OF[module]}]"'


def refusal_for(error: ImportError) -> BadInput | None:
    """Return the sentence for a failed import, if an extra would mend it; any other one is a bug."""
    # PySpark's own error for a package that it lacks names no module, and comes from PySpark.
    module = (error.name or type(error).__module__).partition(".")[0]
    if module not in EXTRA_OF:
        return None
    return BadInput(f"no {module}" if error.name else str(error), to_install(module), "this command")
