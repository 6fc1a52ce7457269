"""What a machine needs for each part of evenflow, and whether it is there."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

GIB = 1 << 30
CORE = "core"


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked for: the part that needs it, whether it will do, and what to do if not."""

    part: str
    name: str
    ok: bool
    found: str
    remedy: str = ""

    def as_dict(self) -> dict[str, str | bool]:
        """Return the fields for JSON."""
        return dataclasses.asdict(self)


def examine() -> list[Finding]:
    """Look at the interpreter, the machine, Java, and the packages of every extra."""
    return [check_python(), *check_machine(), check_java(), *check_packages()]


def core_works(findings: list[Finding]) -> bool:
    """Whether everything the commands themselves need is there."""
    return all(f.ok for f in findings if f.part == CORE)


def check_python() -> Finding:
    """Python 3.11 or newer."""
    ok = sys.version_info >= (3, 11)
    return Finding(CORE, "Python 3.11+", ok, platform.python_version(), "" if ok else "install Python 3.11 or newer")


def check_machine() -> list[Finding]:
    """Memory, cores and free disk; a session of Spark wants 2 GiB and some room for its shuffle files."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    disk = shutil.disk_usage(Path.cwd()).free / GIB
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return [
        Finding("spark", "memory", memory >= 2, f"{memory:.1f} GiB", "" if memory >= 2 else "2 GiB are needed"),
        Finding("spark", "free disk", disk >= 1, f"{disk:.1f} GiB", "" if disk >= 1 else "1 GiB is needed"),
        Finding(CORE, "cores", cores >= 1, str(cores)),
    ]


def check_java() -> Finding:
    """Java 17 or newer, where Spark looks for it: JAVA_HOME first, then the PATH."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else "java"
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        answer = ""
    version = re.search(r'version "([^"]+)"', answer)
    ok = version is not None and java_major(version[1]) >= 17
    found = (version[1] if version else "none") + (f" (JAVA_HOME={home})" if home else "")
    return Finding("spark", "Java 17+", ok, found, "" if ok else "sudo apt-get install openjdk-17-jre-headless")


def java_major(version: str) -> int:
    """Read the major version of Java's two ways to write it.

    Examples
    --------
    >>> java_major("17.0.15"), java_major("1.8.0_402")
    (17, 8)
    """
    numbers = [int(n) for n in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def check_packages() -> list[Finding]:
    """Every package that evenflow or one of its extras asks for."""
    findings = []
    for requirement in metadata.requires("evenflow") or []:
        part, name, limits = parse_requirement(requirement)
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            version = ""
        ok = bool(version) and within(version, limits)
        extra = "evenflow" if part == CORE else f"evenflow[{part}]"
        findings.append(Finding(part, name + limits, ok, version or "none", "" if ok else f'pip install "{extra}"'))
    return findings


def parse_requirement(requirement: str) -> tuple[str, str, str]:
    """Split what a package asks for into the part that needs it, the name and the limits.

    Examples
    --------
    >>> parse_requirement("pandas<3,>=2.2; extra == 'spark'")
    ('spark', 'pandas', '<3,>=2.2')
    """
    wanted, _, marker = requirement.partition(";")
    extra = re.search(r"""extra\s*==\s*['"]([\w-]+)['"]""", marker)
    name = re.match(r"[\w.-]+", wanted.strip())
    assert name is not None, requirement
    return (extra[1] if extra else CORE), name[0], wanted.strip()[name.end() :].replace(" ", "")


def within(version: str, limits: str) -> bool:
    """Whether a version satisfies limits made of ``>=`` and ``<``.

    Examples
    --------
    >>> within("2.3.3", ">=2.2,<3"), within("3.0", ">=2.2,<3")
    (True, False)
    """
    for sign, bound in re.findall(r"(>=|<)([\d.]+)", limits):
        if (_release(version) >= _release(bound)) != (sign == ">="):
            return False
    return True


def _release(version: str) -> tuple[int, ...]:
    numbers = [int(n) for n in re.findall(r"\d+", version)[:3]]
    return tuple(numbers + [0] * (3 - len(numbers)))
