#!/bin/sh
# Finds a Python that can build and run ingot, and hands over to environment.py with the same arguments.
# PYTHON=/path/to/python selects one; otherwise the first suitable one is used.
here=$(dirname "$0")
reasons=""

for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    command -v "$candidate" >/dev/null 2>&1 || continue
    if reason=$("$candidate" "$here/check_python.py" 2>&1); then
        exec "$candidate" "$here/environment.py" "$@"
    fi
    reasons="$reasons
${reason:-  $candidate does not run}"
done

{
    if [ -n "$reasons" ]; then
        echo "ingot: no Python that can build ingot was found:$reasons"
    elif [ -n "$PYTHON" ]; then
        echo "ingot: PYTHON=$PYTHON is not a program."
    else
        echo "ingot: python3 is not on PATH."
        echo "    on Debian or Ubuntu: sudo apt install python3 python3-venv python3-dev"
    fi
    echo "ingot: needed are Python 3.11 or later with venv and C headers; PYTHON=/path/to/python chooses one."
} >&2
exit 1
