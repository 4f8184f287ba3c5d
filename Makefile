# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PRODUCT ?= h100-80
GPUS ?= 8
PYTHON ?= python3
CORE ?= 2.19

CACHE := $(CURDIR)/.cache
BUNDLE ?= $(CACHE)/bundle
VENV := $(CACHE)/venv
BIN := $(VENV)/bin
COLLECTIONS := $(CACHE)/collections
LINK := $(COLLECTIONS)/ansible_collections/gpu/node
TREE = $(CACHE)/tree/$(1)/ansible_collections/gpu/node
CORES := 2.19 2.20 2.21
WHEELHOUSE := $(CACHE)/wheelhouse
GPUNODE := tests/fakes/node/gpunode
SOURCES := files/gpu_plugin/src:files/gpu_cluster/src
LIBRARY := $(COLLECTIONS):tests/fakes/nvsim:tests/fakes/kubelet:tests/fakes/node:$(SOURCES):.

export PATH := $(BIN):$(PATH):$(CACHE)/zypper/usr/bin
export ANSIBLE_COLLECTIONS_PATH := $(COLLECTIONS)
export ANSIBLE_LOCALHOST_WARNING := false
export ANSIBLE_INJECT_FACT_VARS := false
export GPUNODE_CACHE := $(CACHE)/node
export WHEELHOUSE

.PHONY: help
help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- what everything stands on ---------------------------------------------------------------------

$(CACHE)/host.stamp: tests/setup-host
	@mkdir -p $(CACHE)
	tests/setup-host
	@touch $@

$(CACHE)/venv.stamp: requirements-dev.txt
	@mkdir -p $(CACHE)
	@rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --only-binary=:all: --requirement requirements-dev.txt
	@touch $@

$(LINK):
	@mkdir -p $(@D)
	@ln -sfn ../../../.. $@

# What the device plugin needs as wheels for Debian 12 and 13, so that nodes need no package index.
$(WHEELHOUSE)/stamp: files/gpu_plugin/requirements.txt $(CACHE)/venv.stamp
	@rm -rf $(WHEELHOUSE)
	for version in 3.11 3.13; do \
	    $(BIN)/pip download --quiet --disable-pip-version-check --require-hashes --only-binary=:all: --no-deps \
	        --python-version $$version --dest $(WHEELHOUSE) --requirement files/gpu_plugin/requirements.txt; \
	done
	@touch $@

.PHONY: setup image
setup: $(CACHE)/host.stamp $(CACHE)/venv.stamp $(LINK) ## Install what development needs (into .cache, and packages of the host)

image: setup ## Build the simulated node's image, unless it is there
	$(GPUNODE) image

# --- the demo --------------------------------------------------------------------------------------

.PHONY: demo
demo: setup $(WHEELHOUSE)/stamp ## Turn a simulated bare machine into a GPU node (PRODUCT=h100-80 GPUS=8)
	@$(GPUNODE) image
	@PRODUCT=$(PRODUCT) GPUS=$(GPUS) $(BIN)/python -m tests.demo.demo

# --- tests -----------------------------------------------------------------------------------------

.PHONY: test test-all test-fast flaky mutation lint prose sanity sanity-all molecule test-cluster recordings bench bench-fleet bundle shim
PYTEST := $(BIN)/pytest
# Pure tests and those of the pages need nothing of the host, and no root.
WANTED := $(if $(filter tests/pure% tests/docs%,$(firstword $(TESTS))),$(CACHE)/venv.stamp $(LINK),setup shim $(WHEELHOUSE)/stamp)
test: $(WANTED) ## What every change has to pass: a quarter of an hour on two cores (TESTS="path -k name" for some)
	$(if $(TESTS),$(PYTEST) $(TESTS),$(BIN)/python -m tests.runner)

test-all: setup shim $(WHEELHOUSE)/stamp ## That, and what takes long
	$(BIN)/python -m tests.runner --all

test-fast: $(CACHE)/venv.stamp $(LINK) lint ## Lint, the pure tests and those of the pages: two minutes, no root, no container
	$(BIN)/python -m tests.runner pure docs

flaky: setup shim $(WHEELHOUSE)/stamp ## Which tests fail by chance: N=10 runs in random order on a busy machine, NODES=3 of what has nodes
	$(BIN)/python -m tests.runner --flaky $(or $(N),10) --flaky-nodes $(or $(NODES),3) $(if $(ALL),--all) --write

mutation: setup shim $(WHEELHOUSE)/stamp ## Break guards of the product one after the other, and see that a test fails
	$(BIN)/python -m tests.mutation

lint: $(CACHE)/venv.stamp $(LINK) prose ## ruff, mypy, import-linter, ansible-lint, and the prose linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=$(LIBRARY) $(BIN)/mypy -p ansible_collections.gpu.node.plugins.module_utils -p ansible_collections.gpu.node.plugins.plugin_utils
	MYPYPATH=$(SOURCES) $(BIN)/mypy -p gpu_plugin -p gpu_cluster
	PYTHONPATH=$(SOURCES):$(COLLECTIONS) $(BIN)/lint-imports
	HOME=$(CACHE)/home $(BIN)/ansible-lint

prose: ## What pages, options, and changelog fragments should say in another way, by the rules of tests/docs/prose/rules.yml (FILES="README.md" for some)
	$$($(PYTHON) tests/environments/environment.py prose)/bin/python -m tests.docs.prose.lint $(FILES)

shim: setup
	@$(MAKE) --no-print-directory --silent -C tests/fakes/nvsim shim

sanity: $(CACHE)/venv.stamp ## ansible-test sanity of one ansible-core (CORE=2.19)
	tests/run-sanity $(call TREE,$(CORE)) $(CORE)

sanity-all: $(CACHE)/venv.stamp ## ansible-test sanity of each ansible-core
	for core in $(CORES); do $(MAKE) --no-print-directory CORE=$$core sanity; done

molecule: image $(WHEELHOUSE)/stamp ## The default scenario on a simulated node
	$(BIN)/molecule test

CRIO_TESTS := tests/machine/library/runtime/genuine/test_crio.py tests/machine/library/runtime/containers tests/node/runtime/test_crio.py
test-cluster: setup shim $(WHEELHOUSE)/stamp ## Nodes of a genuine cluster (KUBE_BIN=folder with kubelet, kube-apiserver, ...; WRITE=1 keeps what came of it), with a kubelet before 1.29 (OLD_KUBELET=program), the node readiness controller (READINESS_BIN=folder), or CRI-O (CRIO_BIN=folder)
	$(if $(CRIO_BIN),CRIO_BIN="$(CRIO_BIN)" $(PYTEST) $(CRIO_TESTS))
	$(if $(CRIO_BIN),,KUBE_BIN="$(KUBE_BIN)" $(BIN)/python -m tests.runner cluster $(if $(WRITE),--write))

recordings: setup ## Record what a genuine API server answers, which holds its stand-in to it (KUBE_BIN=folder, NAMES="nodes slices")
	KUBE_BIN="$(KUBE_BIN)" PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.fakes.kubernetes.recorded.record $(NAMES)

bench: setup shim ## How fast things are, as ratios within one run (KUBE_BIN=folder for those of kube-scheduler)
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.bench.mig_planner
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.bench.runtime_files
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.bench.device_plugin
	KUBE_BIN="$(KUBE_BIN)" PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.bench.scheduling
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.bench.dra_driver
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.bench.webhook
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.bench.mps_manager
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.bench.node_software
	$(MAKE) --no-print-directory bench-fleet
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.bench.report_page

bench-fleet: image $(WHEELHOUSE)/stamp ## What 1, 10, 50 and 200 nodes take of their controller; draws it to docs/images
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.bench.fleet.main --draw

.PHONY: docs build release
docs: setup ## Pages of all modules, plugins and roles (.cache/docs/html)
	tests/docs/site/build $(CACHE)/docs

build: $(CACHE)/venv.stamp $(LINK) ## Build the tarball of what is here, and let Galaxy's importer and REUSE look at it (.cache/release)
	$(BIN)/python -m tests.release.build --draft
	$(BIN)/python -m tests.release.galaxy

release: setup ## Make the tarball of a release and its SHA-256 (.cache/release)
	$(BIN)/python -m tests.release.build

# BUNDLE_OPTIONS="-e bundle_images=localhost/gpu-plugin" and other variables of docs/operations/air-gap.md.
bundle: setup ## Collect what nodes without a way to the Internet need (BUNDLE=folder)
	@rm -rf $(CACHE)/bundled
	$(BIN)/ansible-galaxy collection build --output-path $(CACHE)/bundled .
	$(BIN)/ansible-playbook gpu.node.bundle -e bundle_path=$(BUNDLE) \
	    -e bundle_collection=$$(ls $(CACHE)/bundled/*.tar.gz) $(BUNDLE_OPTIONS)

# --- the rest --------------------------------------------------------------------------------------

.PHONY: links lock lock-check clean docs-tables options screenshots
links: ## Link the library's files that the device plugin imports into it, file by file
	$(PYTHON) -m tests.links

options: setup ## Write what comes from the tables in options/: what modules check and document, the roles' variables and calls
	$(BIN)/python -m tests.docs.options.written

docs-tables: options ## Regenerate what docs have from the code: the tests of each attack, systemd 252's measure of units, the rooms, the walks, all variables
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.docs.tables.rooms
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.docs.walks.page
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.docs.tables.attacks
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.docs.tables.drifts
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.docs.tables.exposure
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.docs.tables.releases
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.docs.tables.variables
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.docs.tables.migration_tables
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.docs.tables.keys
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.docs.places.places

screenshots: setup ## Regenerate the pictures of docs/operations/report.md
	PYTHONPATH=$(LIBRARY) $(BIN)/python -m tests.support.browser.screenshots docs/images

lock: ## Regenerate requirements-dev.txt from pyproject.toml, and the hashes of all wheels
	tests/lock

lock-check: setup ## See that each wheel that pip could choose has the hash that the index tells
	tests/lock --check

clean: ## Remove all that make made: nodes, images, volumes, caches
	-$(GPUNODE) clean
	rm -rf .cache .ansible .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache tests/fakes/nvsim/build tests/output
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
