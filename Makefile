# `make demo` and `make test` are the two main targets. Both first create .venv, build the extension and install what
# they need; build_support/environment.py does that, and returns quickly if nothing changed.

PYTHON_IN_VENV := .venv/bin/python
ENVIRONMENT := sh build_support/environment.sh
# Two workers: as many as the smallest machine we test on has cores.
WORKERS ?= 2
PYTEST_ARGUMENTS ?=
# For example --programs 100000 --seconds 36000 --seed 7.
WALK_ARGUMENTS ?= --share 8
FUZZ_ARGUMENTS ?=
# For example `gelu softmax --quick`, `--json numbers.json --markdown`, `--list`.
BENCH_ARGUMENTS ?=

# Settings of the user's other Python projects must not leak into this one.
unexport PYTHONPATH PYTHONHOME
export PYTHONNOUSERSITE := 1

.PHONY: help demo test test-llm build lint format pytest fuzz walk check-kernels check-products bench sizes sanitize sanitize-quick docs speed wheel wheels test-arm test-free-threaded clean

help:
	@echo "make demo            see what ingot does"
	@echo "make test            everything CI runs: lint, the tests, and some of them under the sanitizers"
	@echo "make build           rebuild the C extension"
	@echo "make lint            ruff, mypy, pyright, import layers, clang-format and clang-tidy"
	@echo "make format          fix what ruff and clang-format can fix"
	@echo "make pytest          the tests without lint; PYTEST_ARGUMENTS='-k fuse' selects some"
	@echo "make test-llm        compare SmolLM2-135M with MLX: tokens and perplexity, exact and with int8 activations"
	@echo "make walk            call every MLX function with thousands of arguments and compare with MLX (minutes)"
	@echo "make fuzz            compare random programs, compiled, eager and in MLX, also on threads (minutes)"
	@echo "make check-products  test every combination of options of products, convolutions and attention"
	@echo "make check-kernels   the tests, comparing every generated kernel with the interpretation of its loop nest"
	@echo "make sizes           find row lengths that are slower than their neighbours (a minute)"
	@echo "make bench           compare with NumPy, JAX, PyTorch and others (installs them; large)"
	@echo "make sanitize        the tests with the C extension under the sanitizers"
	@echo "make docs            build the documentation into build/docs"
	@echo "make speed           measure, and rewrite the speed table and chart of the README"
	@echo "make wheel           build a wheel for this interpreter into dist/"
	@echo "make wheels          build and smoke-test wheels for all Python versions on x86-64 and aarch64"
	@echo "make test-arm        the tests on an emulated ARM processor (an hour); ARM_ARGUMENTS='--seconds 900' or a folder limits them"
	@echo "make test-free-threaded  tests and thread campaigns on a CPython without a GIL, built from source;"
	@echo "                     FREE_THREADED_ARGUMENTS=--sanitize runs the campaigns under ThreadSanitizer"
	@echo "make clean           remove everything that was built, .venv included"

demo:
	@$(ENVIRONMENT) cli
	@$(PYTHON_IN_VENV) -m ingot tour

# The tests run even if lint fails, so that one run shows all problems. The browser that some tests need is installed
# meanwhile.
test:
	@sh build_support/browser.sh & \
	started=$$(date +%s); result=passed; \
	$(MAKE) --no-print-directory --keep-going lint pytest sanitize-quick || result=FAILED; \
	echo "ingot: make test $$result in $$(( $$(date +%s) - started )) s"; \
	test $$result = passed

build:
	@$(ENVIRONMENT)

# Every check runs, even if one fails.
lint:
	@$(ENVIRONMENT) test
	@result=0; \
	echo "ingot: ruff check";   $(PYTHON_IN_VENV) -m ruff check --quiet --output-format concise . || result=1; \
	echo "ingot: ruff format";  $(PYTHON_IN_VENV) -m ruff format --check --quiet --output-format concise . || \
	    { echo "       (run \`make format\`)"; result=1; }; \
	$(PYTHON_IN_VENV) build_support/snippets.py build/snippets; \
	echo "ingot: mypy";         $(PYTHON_IN_VENV) -m mypy --no-error-summary src/ingot tests examples build/snippets || result=1; \
	echo "ingot: pyright";      $(PYTHON_IN_VENV) -m pyright --project build_support/pyright.json > build/pyright.txt || { cat build/pyright.txt; result=1; }; \
	echo "ingot: lint-imports"; $(PYTHON_IN_VENV) build_support/lint_imports.py || result=1; \
	echo "ingot: clang-format, clang-tidy"; $(PYTHON_IN_VENV) build_support/lint_c.py || result=1; \
	exit $$result

format:
	@$(ENVIRONMENT) test
	@$(PYTHON_IN_VENV) -m ruff check --fix-only --quiet .
	@$(PYTHON_IN_VENV) -m ruff format .
	@$(PYTHON_IN_VENV) build_support/lint_c.py --fix

pytest:
	@$(ENVIRONMENT) test
	@sh build_support/browser.sh again
	@$(PYTHON_IN_VENV) -m pytest -n $(WORKERS) --durations=10 $(PYTEST_ARGUMENTS)

test-llm:
	@$(ENVIRONMENT) test
	@$(PYTHON_IN_VENV) -m tests.language_models.real_model

fuzz:
	@$(ENVIRONMENT) test
	@$(PYTHON_IN_VENV) -m tests.fuzz $(FUZZ_ARGUMENTS)
	@$(PYTHON_IN_VENV) -m tests.compiler.thread_campaign 60

walk:
	@$(ENVIRONMENT) test
	@$(PYTHON_IN_VENV) -m tests.oracle.walk $(WALK_ARGUMENTS)

check-products:
	@$(ENVIRONMENT) test
	@INGOT_PRODUCTS=all $(PYTHON_IN_VENV) -m pytest -q -n $(WORKERS) tests/compiler/lower/products

check-kernels:
	@INGOT_CHECK_KERNELS=1 $(MAKE) --no-print-directory pytest

bench:
	@$(ENVIRONMENT) bench
	@$(PYTHON_IN_VENV) -m ingot.benchmarks $(BENCH_ARGUMENTS)

sizes:
	@$(ENVIRONMENT) test
	@$(PYTHON_IN_VENV) -m ingot.benchmarks.sizes $(SIZES_ARGUMENTS)

sanitize:
	@$(ENVIRONMENT) test
	@PYTHON=$(PYTHON_IN_VENV) sh tools/sanitize.sh

sanitize-quick:
	@$(ENVIRONMENT) test
	@PYTHON=$(PYTHON_IN_VENV) sh tools/sanitize.sh --quick

docs:
	@$(ENVIRONMENT) docs
	@NO_MKDOCS_2_WARNING=1 $(PYTHON_IN_VENV) -m mkdocs build --strict --quiet
	@echo "ingot: the documentation is in build/docs/index.html"

# On a quiet machine; SPEED_ARGUMENTS=--quick for a rough idea.
speed:
	@$(ENVIRONMENT) bench
	@$(PYTHON_IN_VENV) -m ingot.benchmarks $(SPEED_ARGUMENTS) --json build/speed.json \
	    $$(for tool in table picture; do $(PYTHON_IN_VENV) tools/speed_$$tool.py --list; done | xargs -n 1 | sort -u)
	@$(PYTHON_IN_VENV) tools/speed_picture.py build/speed.json
	@$(PYTHON_IN_VENV) tools/speed_table.py build/speed.json

wheel:
	@$(ENVIRONMENT)
	@$(PYTHON_IN_VENV) -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

wheels:
	@$(ENVIRONMENT) wheels
	@$(PYTHON_IN_VENV) build_support/wheels $(WHEELS_ARGUMENTS)

test-arm:
	@$(ENVIRONMENT) wheels
	@$(PYTHON_IN_VENV) build_support/wheels/emulated_tests.py $(ARM_ARGUMENTS)

test-free-threaded:
	@$(ENVIRONMENT) wheels
	@$(PYTHON_IN_VENV) build_support/wheels/free_threaded.py $(FREE_THREADED_ARGUMENTS)

clean:
	rm -rf .venv build dist src/*.egg-info src/ingot/_native*.so
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
