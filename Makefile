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
LEFT_OUT ?= exhaustive or endurance or long
CHOICE ?= not ($(LEFT_OUT))

CACHE := $(CURDIR)/.cache
BUNDLE ?= $(CACHE)/bundle
VENV := $(CACHE)/venv
BIN := $(VENV)/bin
COLLECTIONS := $(CACHE)/collections
LINK := $(COLLECTIONS)/ansible_collections/gpu/node
TREE = $(CACHE)/tree/$(1)/ansible_collections/gpu/node
CORES := 2.19 2.20 2.21
WHEELHOUSE := $(CACHE)/wheelhouse
GPUNODE := tests/node/gpunode
LIBRARY := $(COLLECTIONS):tests/nvsim:tests/kubelet:tests/node:files/gpu_plugin/src

export PATH := $(BIN):$(PATH):$(CACHE)/zypper/usr/bin
export ANSIBLE_COLLECTIONS_PATH := $(COLLECTIONS)
export ANSIBLE_LOCALHOST_WARNING := false
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

$(CACHE)/venv.stamp: requirements-dev.txt $(CACHE)/host.stamp
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
setup: $(CACHE)/venv.stamp $(LINK) ## Install what development needs (into .cache, and packages of the host)

image: setup ## Build the simulated node's image, unless it is there
	$(GPUNODE) image

# --- the demo --------------------------------------------------------------------------------------

.PHONY: demo
demo: setup $(WHEELHOUSE)/stamp ## Turn a simulated bare machine into a GPU node (PRODUCT=h100-80 GPUS=8)
	@$(GPUNODE) image
	@PRODUCT=$(PRODUCT) GPUS=$(GPUS) $(PYTHON) tests/demo/demo.py

# --- tests -----------------------------------------------------------------------------------------

.PHONY: test test-all test-fast lint unit unit-long oracle endurance nvsim-test module-test daemon-test sanity sanity-all matrix matrix-all molecule integration integration-long integration-driver dkms test-cluster bench bench-fleet build bundle
test: image $(WHEELHOUSE)/stamp ## What every change has to pass: at most half an hour on two cores
	@tests/run-all

test-all: image $(WHEELHOUSE)/stamp ## That, and what takes long: endurance, oracle, dkms, integration-long, unit-long
	@tests/run-all --all

test-fast: setup lint ## What takes two minutes and no container
	@$(MAKE) --no-print-directory LEFT_OUT="exhaustive or endurance or long or slow" MORE="-n 2" unit nvsim-test daemon-test

lint: setup ## ruff, mypy, import-linter, ansible-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=$(LIBRARY) $(BIN)/mypy -p ansible_collections.gpu.node.plugins.module_utils -p ansible_collections.gpu.node.plugins.plugin_utils
	MYPYPATH=files/gpu_plugin/src $(BIN)/mypy -p gpu_plugin
	PYTHONPATH=files/gpu_plugin/src:$(COLLECTIONS) $(BIN)/lint-imports
	HOME=$(CACHE)/home $(BIN)/ansible-lint

unit: setup ## Unit tests of the collection
	$(MAKE) --no-print-directory -C tests/nvsim shim
	PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q $(MORE) -m "not ($(LEFT_OUT))" tests/unit tests/node

oracle: setup ## The MIG planner against brute force: every layout from every state
	PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q $(MORE) -m exhaustive tests/unit

endurance: setup ## By the thousand: restarts and changes of the device plugin, each of its faults, files of container runtimes
	$(MAKE) --no-print-directory -C tests/nvsim shim
	PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q $(MORE) -m endurance tests/gpu_plugin
	PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q $(MORE) -m endurance tests/unit
	$(if $(KUBE_BIN),$(MAKE) --no-print-directory CHOICE=endurance test-cluster)

unit-long: setup $(WHEELHOUSE)/stamp ## What takes minutes without a node: RHEL's genuine package managers, the DRA driver killed at each step
	$(MAKE) --no-print-directory -C tests/nvsim shim
	PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q $(MORE) -m long tests/unit
	PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q $(MORE) -m long tests/gpu_plugin

nvsim-test: setup ## The simulated driver's own tests, and the stand-in kubelet's
	$(MAKE) --no-print-directory -C tests/nvsim shim
	PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q $(MORE) tests/nvsim tests/kubelet

module-test: setup ## The modules on the simulated driver
	$(MAKE) --no-print-directory -C tests/nvsim shim
	PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q $(MORE) tests/modules

daemon-test: setup ## The device plugin against the stand-in kubelet and the simulated driver
	$(MAKE) --no-print-directory -C tests/nvsim shim
	PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q $(MORE) -m "not ($(LEFT_OUT))" tests/gpu_plugin

sanity: setup ## ansible-test sanity of one ansible-core (CORE=2.19)
	tests/run-sanity $(call TREE,$(CORE)) $(CORE)

sanity-all: setup ## ansible-test sanity of each ansible-core
	for core in $(CORES); do $(MAKE) --no-print-directory CORE=$$core sanity; done

matrix: setup ## Every module with each ansible-core and each Python of nodes, once
	$(MAKE) --no-print-directory -C tests/nvsim shim
	PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q $(MORE) -m "not long" tests/matrix

matrix-all: image $(WHEELHOUSE)/stamp ## The whole matrix: each ansible-core with each Python of nodes, and the quick start with each
	$(MAKE) --no-print-directory -C tests/nvsim shim
	PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q $(MORE) tests/matrix
	$(BIN)/pytest -q -m long tests/release

molecule: image $(WHEELHOUSE)/stamp ## The default scenario on a simulated node
	$(BIN)/molecule test

integration: image $(WHEELHOUSE)/stamp ## The playbooks through ansible-runner on simulated nodes, but for the driver's
	PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q $(MORE) -m "not long" --ignore=tests/integration/driver tests/integration

integration-long: image $(WHEELHOUSE)/stamp ## What takes minutes on simulated nodes: interrupted runs, roll-outs, each fault of a node, MIG at boot and by label, genuine Slurm, the driver on Debian 12
	PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q $(MORE) -m long tests/integration

integration-driver: image $(WHEELHOUSE)/stamp ## The driver on simulated nodes with Debian 13, with the genuine packages
	PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q $(MORE) -m "not (dkms or long)" tests/integration/driver

dkms: image ## The open kernel modules really built on a simulated node, which takes minutes
	PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q -m dkms tests/integration/driver

GENUINE = $(shell grep -rlE 'KUBE_BIN|GenuineApi|genuine_api|webhook_cluster' tests/gpu_plugin --include='test_*.py')
test-cluster: setup $(WHEELHOUSE)/stamp ## Nodes of a genuine cluster (KUBE_BIN=folder with kubelet, kube-apiserver, ... and kubectl)
	$(MAKE) --no-print-directory -C tests/nvsim shim
	KUBE_BIN="$(KUBE_BIN)" PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q -m "$(CHOICE)" tests/cluster
	$(if $(filter endurance,$(CHOICE)),,KUBE_BIN="$(KUBE_BIN)" PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q $(GENUINE))

bench: setup ## How fast things are, as ratios within one run
	PYTHONPATH=$(LIBRARY):tests/unit/plugins/module_utils $(BIN)/python tests/bench/mig_planner.py
	PYTHONPATH=$(LIBRARY) $(BIN)/python tests/bench/runtime_files.py
	$(MAKE) --no-print-directory -C tests/nvsim shim
	PYTHONPATH=$(LIBRARY):tests/gpu_plugin $(BIN)/python tests/bench/device_plugin.py
	PYTHONPATH=$(LIBRARY) $(BIN)/python tests/bench/simulation.py
	PYTHONPATH=$(LIBRARY):tests/gpu_plugin $(BIN)/python tests/bench/dra_driver.py
	PYTHONPATH=$(LIBRARY):tests/gpu_plugin $(BIN)/python tests/bench/node_software.py
	$(MAKE) --no-print-directory bench-fleet
	PYTHONPATH=$(LIBRARY):tests/browser $(BIN)/python tests/bench/report_page.py

bench-fleet: image $(WHEELHOUSE)/stamp ## What 1, 10, 50 and 200 nodes take of their controller; draws it to docs/images
	PYTHONPATH=$(LIBRARY) $(BIN)/python tests/bench/fleet/main.py --draw

build: setup ## The tarball: built, refused where it is not ready, installed into a bare environment of each ansible-core
	PYTHONPATH=$(LIBRARY) $(BIN)/pytest -q $(MORE) -m "not long" tests/release

.PHONY: docs release
docs: setup ## Pages of all modules, plugins and roles (.cache/docs/html)
	tests/docs/site/build $(CACHE)/docs

release: setup ## Make the tarball of a release and its SHA-256 (.cache/release)
	$(BIN)/python tests/release/build.py

# BUNDLE_OPTIONS="-e bundle_images=localhost/gpu-plugin" and other variables of docs/operations/air-gap.md.
bundle: setup ## Collect what nodes without a way to the Internet need (BUNDLE=folder)
	@rm -rf $(CACHE)/bundled
	$(BIN)/ansible-galaxy collection build --output-path $(CACHE)/bundled .
	$(BIN)/ansible-playbook gpu.node.bundle -e bundle_path=$(BUNDLE) \
	    -e bundle_collection=$$(ls $(CACHE)/bundled/*.tar.gz) $(BUNDLE_OPTIONS)

# --- the rest --------------------------------------------------------------------------------------

.PHONY: links lock lock-check clean docs-tables screenshots
links: ## Link the library's files that the device plugin imports into it, file by file
	$(PYTHON) tests/links.py

docs-tables: setup ## Regenerate what docs have from the code: the tests of each attack, systemd 252's measure of units, the rooms, all variables
	$(BIN)/python tests/docs/rooms.py
	$(BIN)/python tests/docs/attacks.py
	PYTHONPATH=$(LIBRARY) $(BIN)/python tests/docs/exposure.py
	PYTHONPATH=$(LIBRARY) $(BIN)/python tests/docs/releases.py
	$(BIN)/python tests/docs/variables.py
	$(BIN)/python tests/docs/migration_tables.py
	PYTHONPATH=$(LIBRARY) $(BIN)/python tests/docs/keys.py

screenshots: setup ## Regenerate the pictures of docs/operations/report.md
	PYTHONPATH=$(LIBRARY):tests/browser $(BIN)/python tests/browser/screenshots.py docs/images

lock: ## Regenerate requirements-dev.txt from pyproject.toml, and the hashes of all wheels
	tests/lock

lock-check: setup ## See that each wheel that pip could choose has the hash that the index tells
	tests/lock --check

clean: ## Remove all that make made: nodes, images, volumes, caches
	-$(GPUNODE) clean
	rm -rf .cache .ansible .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache tests/nvsim/build tests/output
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
