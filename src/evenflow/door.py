"""A system's package is also the door to its plane on Spark: ``evenflow.brokers(stream, …)`` calls the package itself."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Door(ModuleType):
    """A package that can be called; what it calls is imported with the first call, so that logic knows no driver."""

    _opens: str

    def __call__(self, *words: Any, **named: Any) -> Any:
        module, _, function = self._opens.partition(":")
        return getattr(import_module(module), function)(*words, **named)


def open_door(package: str, opens: str) -> None:
    """Make a package callable.

    Parameters
    ----------
    package
        Its name.
    opens
        ``module:function`` that a call goes to.

    Examples
    --------
    >>> import evenflow
    >>> callable(evenflow.brokers)
    True
    """
    module: Any = sys.modules[package]
    module.__class__ = _Door
    module._opens = opens  # noqa: SLF001 - the attribute of the class above
