#!/usr/bin/env bash
# Prepares what a checkout needs: a Java runtime for Spark, Maven for the tests of Kafka, and .venv with Millrace
# installed from this tree.
# Safe to run again; `make setup` runs it only when pyproject.toml changed.
# PYTHON=... chooses the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly JAVA_MIN=17 # Spark 4 runs on Java 17 and 21.
readonly VENV=.venv

say() { printf 'setup: %s\n' "$*"; }
die() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }
can_apt() { [ "$(id -u)" = 0 ] && have apt-get; }

apt_install() {
    say "installing $* (apt-get)"
    apt-get update -qq </dev/null >/dev/null &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null
}

# --- Java -------------------------------------------------------------------------------------------------------------

java_command() {
    if [ -n "${JAVA_HOME:-}" ]; then echo "$JAVA_HOME/bin/java"; else echo java; fi
}

# Prints the major version of the Java that Spark would start; prints nothing where there is none.
java_major() {
    "$(java_command)" -version 2>&1 </dev/null |
        sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1 || true
}

java_is_fine() {
    local major
    major=$(java_major)
    [ -n "$major" ] && [ "$major" -ge "$JAVA_MIN" ]
}

install_java_with_apt() {
    # Newer Debian releases have left 17 behind and carry 21.
    apt_install openjdk-17-jre-headless 2>/dev/null || apt_install openjdk-21-jre-headless || true
}

install_java_with_brew() {
    say "installing openjdk@17 (brew)"
    brew install --quiet openjdk@17 </dev/null || return 0
    JAVA_HOME="$(brew --prefix openjdk@17)"
    export JAVA_HOME
    say "add this to your shell's profile:  export JAVA_HOME=$JAVA_HOME"
}

ensure_java() {
    if java_is_fine; then return; fi
    if [ -z "${JAVA_HOME:-}" ]; then
        if can_apt; then install_java_with_apt; elif have brew; then install_java_with_brew; fi
        hash -r
        if java_is_fine; then return; fi
    fi
    die "Spark needs Java $JAVA_MIN or newer, found $(describe_java): install openjdk-17-jre-headless (Debian, Ubuntu) or openjdk@17 (brew)."
}

describe_java() {
    local major place=""
    major=$(java_major)
    [ -n "${JAVA_HOME:-}" ] && place=" in JAVA_HOME=$JAVA_HOME"
    echo "${major:-none}$place"
}

# --- Maven ------------------------------------------------------------------------------------------------------------

# The tests fetch a Kafka broker with it. Without it they skip, and say so.
ensure_maven() {
    if have mvn; then return; fi
    if can_apt; then apt_install maven || true; elif have brew; then brew install --quiet maven </dev/null || true; fi
    have mvn || say "no Maven: the tests that need a Kafka broker will be skipped"
}

# --- Python -----------------------------------------------------------------------------------------------------------

python_is_fine() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3 python}; do
        if python_is_fine "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

ensure_python() {
    if PYTHON_FOUND=$(find_python); then return; fi
    if can_apt; then apt_install python3 python3-venv || true; fi
    PYTHON_FOUND=$(find_python) ||
        die "no Python 3.11 or newer with venv found: install python3-venv, or name one with PYTHON=..."
}

ensure_venv() {
    if "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then return; fi
    ensure_python
    say "creating $VENV with $("$PYTHON_FOUND" --version)"
    "$PYTHON_FOUND" -m venv --clear "$VENV"
}

install_packages() {
    say "installing Millrace and its tools (the first time this fetches Spark, some 400 MB)"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -e '.[dev]' </dev/null
}

ensure_java
ensure_maven
ensure_venv
install_packages
say "ready: $VENV/bin/millrace"
