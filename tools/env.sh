#!/usr/bin/env bash
# Builds .venv/ from requirements.lock; does nothing, offline, when it is already up to date.
#
#   tools/env.sh          the Python environment
#   tools/env.sh java     the Python environment, and a Java runtime for Spark
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'evenflow: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

apt_install() {  # $1 = package, $2 = what it is for
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        die "$2 is missing; install it, for example: sudo apt-get install $1"
    fi
    say "installing $1 ($2)"
    # the package list is refreshed only when the first attempt fails: most machines have one
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >&2 || {
        apt-get update -qq >&2
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >&2
    }
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    die "Python 3.11 or newer is missing; install it or name it: make PYTHON=/path/to/python3 env"
}

install_locked() {
    # uv is faster, but reads other index settings than pip; where it cannot reach a package, pip may.
    if command -v uv >/dev/null && uv pip install -q --python .venv/bin/python --require-hashes -r requirements.lock; then
        return
    fi
    .venv/bin/python -m pip install -q --disable-pip-version-check --use-pep517 --require-hashes -r requirements.lock
}

create_venv() {
    local python
    python=$(find_python)
    say "building .venv with $("$python" --version) (once; a few minutes)"
    rm -rf .venv
    "$python" -c 'import ensurepip' 2>/dev/null ||
        apt_install "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv" "the venv module of Python"
    "$python" -m venv .venv
}

build_environment() {
    # A working environment is brought up to date in place: what it already holds needs no network.
    .venv/bin/python -m pip --version >/dev/null 2>&1 || create_venv
    install_locked
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
}

java_major() {  # prints 17 for "17.0.15", 8 for "1.8.0_402", nothing without Java
    "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -nE 's/.* version "(1\.)?([0-9]+).*/\2/p' | head -n 1
}

check_java() {
    local major
    major=$(java_major || true)
    if [ "${major:-0}" -ge 17 ]; then
        return
    fi
    if [ -n "${JAVA_HOME:-}" ]; then
        die "Spark needs Java 17 or newer, JAVA_HOME=$JAVA_HOME has ${major:-none}; unset JAVA_HOME or point it to Java 17"
    fi
    apt_install openjdk-17-jre-headless "Java 17 or newer, which Spark needs"
    major=$(java_major || true)
    [ "${major:-0}" -ge 17 ] || die "Java is still ${major:-missing}; choose version 17: update-alternatives --config java"
}

# The key holds the directory too: an editable install points to it.
key=$({ pwd; cat requirements.lock pyproject.toml tools/env.sh; } | sha256sum | cut -c 1-32)
if [ "$(cat .venv/.evenflow-key 2>/dev/null)" != "$key" ] || ! .venv/bin/python -c '' 2>/dev/null; then
    build_environment
    printf '%s\n' "$key" > .venv/.evenflow-key
fi
if [ "${1:-}" = java ]; then
    check_java
fi
