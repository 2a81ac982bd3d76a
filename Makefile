# Three commands set everything up: `make demo`, `make check` and `make test`. All keep their Python environment in .venv.
# `make develop` links the package in it to this clone.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# torch comes from pip's index as it is configured: PIP_EXTRA_INDEX_URL with PyTorch's CPU index saves its CUDA packages.
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

SOURCES := $(shell find core bindings compll secopa frameworks cmake -type f -not -name '*.pyc') CMakeLists.txt pyproject.toml
# torch's headers are in .venv. The other frameworks' operators are in the wheel that `make test` and `make wheel` build, and
# in every wheel after that: their headers, once downloaded, stay in build/headers. The build tree is the same for both wheels.
OTHERS := $(if $(filter test wheel,$(MAKECMDGOALS))$(wildcard build/headers),tensorflow mxnet)
WHEEL := build/wheel/built-for-$(if $(OTHERS),all,torch)
# The sessions of noxfile.py beside torch's.
SESSIONS := tensorflow mxnet bare
# Two processes of tests more than there are cores, because many tests wait for deadlines.
PROCESSES = $$(($$(nproc) + 2))
# With this variable, Python would compile each module of tests and benchmarks again in every process that imports it.
unexport PYTHONDONTWRITEBYTECODE
# Python compiles a module when a process first imports it. pip would compile all modules, which takes half of its time.
export PIP_NO_COMPILE := 1
# What each environment of the tests also gets: fewer_collections.pth.
FEWER_COLLECTIONS = cp tests/fewer_collections.pth \
  "$$($(1)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
# Our builds have no warnings. A user's compiler may have new ones, and a warning must not end an installation.
WERROR := --config-settings=cmake.define.HIPRESS_WERROR=ON

BUILD_WHEEL := MAKEFLAGS= $(PIP) wheel --no-build-isolation --no-deps . $(WERROR)
WITH_TORCH := --config-settings=cmake.define.HIPRESS_BUILD_TORCH

# What a build reads: a change of another Python file needs none (distribution/develop.py).
COMPILED := $(filter-out %.py %.pyi,$(SOURCES)) $(shell find compll -name '*.py') bindings/python/errors.py

.PHONY: demo check develop test test-thorough test-versions docs wheel wheels lint typecheck threads environments format sanitize install clean bench test-gpu bench-gpu \
  gpu-tests fuzz soak soak-elastic

install: $(VENV)/installed

# What a build needs except PyTorch, which is most of the download.
$(VENV)/compiling: requirements/build.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -r <(grep -v '^torch==' $<)
	touch $@

$(VENV)/requirements: requirements/build.txt requirements/demo.txt | $(VENV)/compiling
	@echo "HiPress: downloading what $(VENV) needs, PyTorch among it (about a minute)"
	$(PIP) install -r requirements/build.txt -r requirements/demo.txt
	touch $@

# What `make demo` does without.
$(VENV)/development: $(VENV)/requirements requirements/dev.txt tests/fewer_collections.pth
	$(PIP) install -r requirements/build.txt -r requirements/demo.txt -r requirements/dev.txt
	$(call FEWER_COLLECTIONS,$(VENV))
	touch $@

# A new clone compiles what needs no header of PyTorch while PyTorch is downloaded: $(WHEEL) then completes this build tree.
# It is a goal of its own, so that a make that is given a finished wheel compiles nothing.
build/early: | $(VENV)/compiling
	@echo "HiPress: compiling core and codecs (a few minutes on two cores)"
	$(BUILD_WHEEL) --wheel-dir $@ $(WITH_TORCH)=OFF

$(VENV)/installed: $(WHEEL)
	$(PIP) install --no-deps --force-reinstall build/wheel/*.whl
	touch $@

wheel: $(WHEEL)

# Compiled once: .venv and each environment of the tests install this wheel.
$(WHEEL): $(VENV)/requirements $(OTHERS:%=requirements/%.txt) $(SOURCES) | $(filter build/early,$(MAKECMDGOALS))
	@echo "HiPress: compiling core, codecs and operators (a few minutes on two cores)"
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/python frameworks/fetch_headers.py $(OTHERS) > build/wheel/headers
	$(BUILD_WHEEL) --wheel-dir build/wheel $(WITH_TORCH)=ON \
	  $$(sed 's/^-D/--config-settings=cmake.define./' build/wheel/headers)
	touch $@

# What is published, in build/dist: wheels for several versions of Python, and the source distribution.
VERSIONS ?= 3.10 3.11 3.12 3.13
wheels: $(VENV)/development
	$(BIN)/python -m distribution.wheels $(VERSIONS)

demo:
	+@$(MAKE) --jobs=2 build/early install
	$(BIN)/python examples/torch/demo.py

# An environment in which a changed Python file is live: each is a link. What is compiled is built again if it has changed.
develop: $(VENV)/developed $(VENV)/development
	@$(BIN)/python -m distribution.develop

$(VENV)/developed: $(COMPILED)
	+$(MAKE) --jobs=2 build/early install $(VENV)/development
	touch $@

# The tier for every commit: lint, and unit tests of everything in .venv. Tests marked `slow` are not in it: they start
# processes that import a framework, compile, compute for seconds or wait for deadlines.
check: develop lint
	$(BIN)/python -m pytest -n $(PROCESSES) -m "not slow and not thorough" --ignore=tests/tensorflow --ignore=tests/mxnet

# noxfile.py has the sessions, each in an environment of its own. Downloads, compiler, type check and lint run side by side,
# and so do the sessions, the two short ones one after the other: most tests wait for deadlines at times. What the other
# sessions wrote is printed after torch's.
test:
	+$(MAKE) --jobs=2 --output-sync=target OTHERS='$(OTHERS)' build/early $(VENV)/requirements $(SESSIONS:%=.nox/%/requirements) \
	  $(WHEEL) environments lint install typecheck
	@# The sessions compare what they write with what is here.
	rm -rf build/conformance
	@$(BIN)/nox --session tensorflow > build/tensorflow.log 2>&1 & tensorflow=$$!; \
	$(BIN)/nox --session mxnet bare > build/mxnet-and-bare.log 2>&1 & others=$$!; status=0; \
	$(BIN)/nox --session torch || status=1; \
	for session in $$tensorflow $$others; do wait $$session || status=1; done; \
	cat build/tensorflow.log build/mxnet-and-bare.log; exit $$status

# What `make test` leaves out. For a release, and for changes of what these tests are about.
test-thorough:
	+TIER=thorough $(MAKE) test

# Each promised pair of torch and Python, such as PAIRS="3.12:2.14"; without PAIRS all of them, in at most 25 minutes.
PAIRS ?=
test-versions: develop
	$(BIN)/python -m distribution.torch_versions $(PAIRS)

# An environment of noxfile.py, which nox then uses. It needs nothing of .venv, so that both are made at once.
.nox/%/requirements: requirements/%.txt tests/fewer_collections.pth
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps -r $<
	$(call FEWER_COLLECTIONS,$(@D))
	touch $@

# What the tests use beside .venv and .nox: launchers, a browser and others.
environments: $(VENV)/development
	$(BIN)/python -m tests.environments

lint: $(VENV)/development threads
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python docs/prose/lint.py
	find core bindings frameworks tests -name '*.cc' -o -name '*.h' | xargs $(BIN)/clang-format --dry-run --Werror

# Clang's thread-safety analysis: what a mutex guards is used only by functions that hold it. It needs no build. The list
# of sources is made first, so that an error in it ends the command.
threads: $(VENV)/development
	@UCX=$$($(BIN)/python -c 'import libucx; print(libucx.__path__[0])')/include; export UCX; \
	sources=$$($(BIN)/python cmake/annotated_sources.py core); \
	xargs --max-procs=2 --max-args=4 sh -c '$(BIN)/clang-tidy --quiet \
	  --allow-no-checks --checks="-*,clang-diagnostic-thread-safety*" --warnings-as-errors="*" "$$@" -- \
	  -std=c++20 -Wthread-safety -I. -isystem "$$UCX"' clang-tidy <<< "$$sources"

# mypy sees the package as users do: installed.
typecheck: install $(VENV)/development
	$(BIN)/mypy -p hipress

format: $(VENV)/development
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	find core bindings frameworks tests -name '*.cc' -o -name '*.h' | xargs $(BIN)/clang-format -i

# The site of the documentation, in build/docs/site.
docs: install $(VENV)/development
	$(BIN)/python docs/site/build.py

bench: install $(VENV)/development
	$(BIN)/python benchmarks/regenerate.py

# What needs a GPU. Both fail, and say why, where there is none. TENSORFLOW_PYTHON is the Python of an environment with
# TensorFlow for GPUs, the wheel of `make wheel` and pytest: test-gpu then tests TensorFlow's part, too.
GPU_TESTS := tests/compll/emit/cuda/test_gpu.py tests/core/device tests/core/casync/test_devices.py \
  tests/torch/test_gpu_tensors.py tests/torch/process_groups/test_gpu_groups.py tests/torch/fsdp/test_gpu_shards.py

test-gpu: install $(VENV)/development
	HIPRESS_REQUIRE_GPU=1 $(BIN)/python -m pytest $(GPU_TESTS)
	$(if $(TENSORFLOW_PYTHON),HIPRESS_REQUIRE_GPU=1 $(TENSORFLOW_PYTHON) -m pytest tests/tensorflow/gpu/test_gpu_tensors.py)

# For distribution/offline_kit.py: a machine without a network runs them without make.
gpu-tests:
	@echo $(GPU_TESTS)

bench-gpu: install $(VENV)/development
	$(BIN)/python benchmarks/regenerate.py --gpu

# The core's stress test under the address and undefined-behaviour sanitizers, then under the thread sanitizer.
# UCX must not hook memory functions here: it does so within the sanitizers' own, in threads that have ended for them.
sanitize: $(VENV)/development
	@status=0; for kinds in address,undefined thread; do \
	  tree=build/sanitize/$${kinds%,*}; log=$$tree/stress.log; \
	  $(BIN)/cmake -G Ninja -S . -B $$tree -DCMAKE_MAKE_PROGRAM="$(CURDIR)/$(BIN)/ninja" \
	    -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" -DHIPRESS_BUILD_PYTHON=OFF -DHIPRESS_BUILD_TORCH=OFF \
	    -DHIPRESS_BUILD_STRESS=ON -DHIPRESS_SANITIZE=$$kinds -DHIPRESS_WERROR=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	    -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -fno-sanitize-recover=all" --log-level=WARNING > /dev/null; \
	  $(BIN)/cmake --build $$tree --target hipress_stress -- --quiet; \
	  if UCX_MEM_EVENTS=no ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:fast_unwind_on_malloc=0 \
	    LSAN_OPTIONS=suppressions=tests/core/stress/lsan.supp:print_suppressions=0 UBSAN_OPTIONS=print_stacktrace=1 \
	    $$tree/tests/core/stress/hipress_stress > $$log 2>&1; \
	  then echo "$$kinds: nothing found in $$(awk '/ rounds,/ {rounds += $$2} END {print rounds}' $$log) rounds"; \
	  else status=1; grep -vE 'UCX +WARN' $$log | tail -n 100; echo "$$kinds: FAILED, see $$log"; fi; \
	done; exit $$status

# An hour of fuzzing on two cores: decoders and wire header on one, CompLL's compiler on the other. What is found to be
# new stays in build/fuzz/corpus, from which the next run starts; an input that fails goes to build/fuzz/crashes.
FUZZ_SECONDS ?= 3600
FUZZ := build/fuzz

fuzz: install $(VENV)/development
	$(BIN)/python -m tests.fuzz.build
	mkdir -p $(FUZZ)/corpus/parser $(FUZZ)/crashes/parser
	@seed=$$(date +%s); status=0; \
	cpp() { $(FUZZ)/tree/fuzz_$$1 --seconds=$$2 --seed=$$seed --seeds=tests/fuzz/seeds/$$1 \
	  --corpus=$(FUZZ)/corpus/$$1 --crashes=$(FUZZ)/crashes/$$1 > $(FUZZ)/$$1.log 2>&1; }; \
	(one=0; cpp decoders $$(($(FUZZ_SECONDS) * 3 / 4)) || one=1; cpp wire $$(($(FUZZ_SECONDS) / 4)) || one=1; \
	  exit $$one) & other=$$!; \
	$(BIN)/python -m tests.fuzz.fuzz_parser -max_total_time=$(FUZZ_SECONDS) -seed=$$((seed % 4294967295)) \
	  -artifact_prefix=$(FUZZ)/crashes/parser/ -verbosity=0 -print_final_stats=1 $(FUZZ)/corpus/parser \
	  compll/algorithms examples/compll tests/compll/check/wrong > $(FUZZ)/parser.log 2>&1 || status=1; \
	wait $$other || status=1; \
	for log in decoders wire parser; do echo "$$log (seed $$seed):"; tail -n 12 $(FUZZ)/$$log.log; done; exit $$status

# Half an hour of random faults, on loopback and, for root, between emulated nodes. SOAK_SEED, which each run prints, and
# SOAK_ROUND repeat what was found; what the ranks of that round wrote stays in build/soak.
SOAK_SECONDS ?= 1800

soak: install $(VENV)/development
	$(BIN)/python -m tests.soak --seconds $(SOAK_SECONDS) $(if $(SOAK_SEED),--seed $(SOAK_SEED)) \
	  $(if $(SOAK_ROUND),--round $(SOAK_ROUND)) --logs build/soak

# An elastic job on emulated hosts that loses ranks, links and hosts: SOAK_SECONDS long, as `soak`.
soak-elastic: install $(VENV)/development
	$(BIN)/python -m tests.soak.elastic --seconds $(SOAK_SECONDS) $(if $(SOAK_SEED),--seed $(SOAK_SEED))

clean:
	rm -rf build $(VENV) .nox demo
