# `make demo` and `make test` are all that anyone needs to type. Both make .venv, build the extension and install what
# they need first; build_support/environment.py does that and is quick when there is nothing to do.

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

.PHONY: help demo test test-llm build lint format pytest fuzz walk check-kernels check-products bench sizes sanitize sanitize-quick docs speed-picture wheel wheels test-arm clean

help:
	@echo "make demo      see what ingot does"
	@echo "make test      everything that continuous integration runs: lint, the tests, and some with the sanitizers"
	@echo "make build     rebuild the C extension after a change, and nothing else"
	@echo "make lint      ruff, mypy, the layers' import rules, clang-format and clang-tidy"
	@echo "make format    let ruff and clang-format put right what they can"
	@echo "make pytest    the tests without lint; PYTEST_ARGUMENTS='-k fuse' chooses some"
	@echo "make test-llm  SmolLM2-135M against MLX: tokens and perplexity, exact and with int8 activations"
	@echo "make walk      every function of MLX with thousands of arguments, compared with MLX, for minutes"
	@echo "make fuzz      random programs, compiled against eager and MLX, and threads, for minutes"
	@echo "make check-products  all combinations of options of products, convolutions and attention"
	@echo "make check-kernels  the tests, with every kernel that they make compared with its loop nest in NumPy; what agreed is not compared again"
	@echo "make sizes     whether rows of odd lengths are slower than their neighbours, for a minute"
	@echo "make bench     compare with NumPy, JAX, PyTorch and others (installs them; large)"
	@echo "make sanitize  the tests with the C extension under the sanitizers"
	@echo "make docs      the documentation as pages, in build/docs"
	@echo "make speed-picture  the README's picture of speeds, measured again"
	@echo "make wheel     a wheel for this interpreter in dist/"
	@echo "make wheels    wheels for all versions of Python and x86-64 and aarch64, each installed and tried"
	@echo "make test-arm  every test function on an emulated ARM processor, for hours; ARM_ARGUMENTS='--seconds 900' or a folder of tests for less, --sample 0 for all parameters"
	@echo "make clean     remove all that was made, .venv too"

demo:
	@$(ENVIRONMENT) cli
	@$(PYTHON_IN_VENV) -m ingot tour

# What lint finds does not stop the tests: one run shows everything that is wrong. The browser that some tests need is
# fetched meanwhile.
test:
	@sh build_support/browser.sh & \
	started=$$(date +%s); result=passed; \
	$(MAKE) --no-print-directory --keep-going lint pytest sanitize-quick || result=FAILED; \
	echo "ingot: make test $$result in $$(( $$(date +%s) - started )) s"; \
	test $$result = passed

build:
	@$(ENVIRONMENT)

# All are run even if one of them fails.
lint:
	@$(ENVIRONMENT) test
	@result=0; \
	echo "ingot: ruff check";   $(PYTHON_IN_VENV) -m ruff check --quiet --output-format concise . || result=1; \
	echo "ingot: ruff format";  $(PYTHON_IN_VENV) -m ruff format --check --quiet --output-format concise . || \
	    { echo "       (\`make format\` puts that right)"; result=1; }; \
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

speed-picture:
	@$(ENVIRONMENT) bench
	@$(PYTHON_IN_VENV) -m ingot.benchmarks --quick --json build/speed.json $$($(PYTHON_IN_VENV) tools/speed_picture.py --list)
	@$(PYTHON_IN_VENV) tools/speed_picture.py build/speed.json

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

clean:
	rm -rf .venv build dist src/*.egg-info src/ingot/_native*.so
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
