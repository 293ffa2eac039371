#!/bin/sh
# Builds the C extension with the compiler's sanitizers and runs its tests: first with AddressSanitizer and
# UndefinedBehaviorSanitizer, then what has threads with ThreadSanitizer. Fails if a test fails or anything is reported,
# in the tests' own process or in one they start. Nothing is left behind.
#
# PYTHON chooses the interpreter, CC the compiler (gcc 12 or later); arguments go to pytest. With --quick first, the tests of
# the extension itself are run and no others, and a compiler without sanitizers is no failure: `make test` does that.
set -eu
cd "$(dirname "$0")/.."
quick=no
if [ "${1:-}" = --quick ]; then
    quick=yes
    shift
fi

python=${PYTHON:-.venv/bin/python}
compiler=${CC:-gcc}
python=$("$python" -c 'import sys; print(sys.executable)')
headers=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
numpy_headers=$("$python" -c 'import numpy; print(numpy.get_include())')
suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
failed=0

# The library that must be loaded before an interpreter that was built without the sanitizer.
runtime_library() {
    library=$("$compiler" -print-file-name="lib$1.so")
    if [ ! -e "$library" ] && [ $quick = yes ]; then
        echo "sanitize: $compiler has no lib$1.so, so that nothing can be checked here." >&2
        exit 0
    fi
    if [ ! -e "$library" ]; then
        echo "sanitize: $compiler has no lib$1.so; install gcc's sanitizer libraries or set CC." >&2
        exit 1
    fi
    readlink -f "$library"
}

# build NAME FLAGS: a copy of the package in $folder/NAME, with its extension built with the flags
build() {
    mkdir "$folder/$1"
    cp -R src/ingot "$folder/$1/ingot"
    rm -f "$folder/$1"/ingot/_native*.so
    "$python" build_support/tuning_header.py "$folder/include"
    objects="$folder/objects-$1"
    mkdir "$objects"
    find src/ingot/_native -name "*.c" | xargs -P 2 -I SOURCE sh -c \
        '"$0" -c "$1" -o "$2/$(basename "$1" .c).o" -std=c11 -O1 -g -fno-omit-frame-pointer -fPIC -pthread $3 \
            -Isrc/ingot/_native -I"$6" -I"$4" -isystem "$5"' \
        "$compiler" SOURCE "$objects" "$2" "$headers" "$numpy_headers" "$folder/include"
    "$compiler" -shared -pthread $2 "$objects"/*.o -o "$folder/$1/ingot/_native$suffix"
}

# check NAME LIBRARY TESTS...: runs the tests with that build. Reports go to files, one for each process.
check() {
    name=$1
    library=$(runtime_library "$2")
    shift 2
    log="$folder/report-$name"
    common="log_path=$log:exitcode=66"
    built="$folder/$name/ingot/_native$suffix"
    # Leaks are not looked for: the interpreter itself leaves objects behind when it ends.
    # Processes that were forked from one with threads go on: that is what some tests are about.
    run_python() {
        env LD_PRELOAD="$library" PYTHONPATH="$folder/$name" PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1 \
            ASAN_OPTIONS="$common:detect_leaks=0:detect_stack_use_after_return=1" \
            UBSAN_OPTIONS="$common:print_stacktrace=1:halt_on_error=1" \
            TSAN_OPTIONS="$common:die_after_fork=0:history_size=4" \
            $without_randomisation "$python" "$@"
    }
    found=$(run_python -c 'from ingot import _native; print(_native.__file__)') || found="none that can be loaded"
    if [ "$found" != "$built" ]; then
        echo "sanitize: the extension that was built is not the one that is tested: $found" >&2
        cat "$log".* 2>/dev/null || true
        exit 1
    fi
    # capture=sys leaves standard error itself alone: what is undefined is reported there and ends the process.
    run_python -m pytest -q --capture=sys -p no:cacheprovider -p no:xdist "$@" || failed=1
    for report in "$log".*; do
        if [ -e "$report" ]; then
            echo "sanitize: $name reported:" >&2
            cat "$report" >&2
            failed=1
        fi
    done
}

# ThreadSanitizer needs memory where it expects it; kernels that spread addresses further get in its way.
without_randomisation=""
if setarch -R true 2>/dev/null; then
    without_randomisation="setarch -R"
fi

memory_tests="tests/native tests/compiler/calls/test_fast_calls.py tests/compiler/plan/test_donation.py"
# Libraries that were built without it, such as BLAS, would be reported for what their own threads do.
thread_tests="tests/native/test_pool.py tests/native/test_allocator.py"
if [ $quick = no ]; then
    memory_tests="$memory_tests tests/compiler/run/test_interruption.py tests/compiler/machine/test_machine_code.py
        tests/runtime/test_profile.py tests/graph/test_blas.py tests/search/test_flat.py"
    thread_tests="$thread_tests tests/native/test_numpy_memory.py tests/native/test_top_k.py
        tests/compiler/run/test_interruption.py"
fi

# Before anything is built: whether it can be.
runtime_library asan >/dev/null
runtime_library tsan >/dev/null

echo "sanitize: addresses and undefined behaviour"
build memory "-fsanitize=address,undefined -fno-sanitize-recover=undefined"
check memory asan $memory_tests "$@"

echo "sanitize: threads"
build threads "-fsanitize=thread"
check threads tsan $thread_tests "$@"

if [ $failed -ne 0 ]; then
    echo "sanitize: FAILED" >&2
    exit 1
fi
echo "sanitize: nothing was reported"
