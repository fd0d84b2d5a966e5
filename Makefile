# Shortcuts for the commands of the project; SwiftPM builds everything. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo release deb image dist test soak scale content-rate move nightly mutants threads lint docs bench database projection peers clean

FOLDERS := $(wildcard Sources Backends Tests Benchmarks Examples)
# Linked statically, for servers without Swift. No program loads syncd, so it exports no symbols, which saves 5 MB.
UNEXPORTED := $(if $(filter Linux,$(shell uname -s)),-Xlinker --no-export-dynamic)
RELEASE := --configuration release --product syncd --static-swift-stdlib --enable-all-traits $(UNEXPORTED)
# For builds with all traits, and for tests of the store in PostgreSQL.
LIBRARIES := libpq-dev
DATABASE := $(LIBRARIES) postgresql
BENCHMARKS := --configuration release --enable-all-traits
BARE_ROUTE := $(BENCHMARKS) --product bare-route --static-swift-stdlib
# The demo speaks plain HTTP, so its syncd needs no TLS. A syncd that the tests have built serves as well.
DEMO := $(if $(wildcard .build/debug/EntitlementSyncPackageTests.xctest),--enable-all-traits,--disable-default-traits)

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 10

setup: ## Install missing system packages (Debian and derivatives)
	@.ci/setup

demo: setup ## Build syncd and run its demo: two devices, a refund, a lost phone, a restore
	@echo "demo: building syncd; the first time this fetches 27 packages and takes 6 minutes of processor time"
	SWIFT_DETERMINISTIC_HASHING=1 swift build --product syncd $(DEMO)
	"$$(swift build --show-bin-path)/syncd" demo

release: setup ## Build a syncd for machines without Swift, and write it to .build/packages with its symbols beside it
	@.ci/setup $(LIBRARIES) binutils
	@echo "release: building an optimised syncd; the first time this takes about 15 minutes on two cores"
	swift build $(RELEASE)
	Packaging/program

deb: release ## Build a Debian package of syncd, and write it to .build/packages
	@.ci/setup binutils dpkg-dev lintian python3 systemd
	Packaging/deb

image: release ## Build an OCI image of the server, and write it to .build/packages; needs root or sudo
	@.ci/setup binutils dpkg-dev mmdebstrap python3
	Packaging/image

dist: ## Write the release tarball, its SBOM and SHA256SUMS to .build/packages
	@.ci/setup git python3
	swift package resolve
	Packaging/dist

test: setup ## Run all tests, API fuzzing, the web page in a browser, the documented commands, verifiers of grants, short benchmarks
	@.ci/setup apache2-bin chromium curl default-jdk-headless junit4 nginx nodejs openssl protobuf-compiler python3 python3-cryptography python3-protobuf python3-venv $(DATABASE)
	.ci/mutants check
	@echo "test: building everything in debug mode, which takes about 12 minutes on two cores the first time,"
	@echo "test: then running all tests and checks in three lanes, which takes longer"
	.ci/test

soak: setup ## Soak the stores and a server, then simulate until a seed fails; FROM=seed, LIMIT=seconds
	@.ci/setup $(DATABASE)
	.ci/soak-stores
	.ci/soak-server
	.ci/soak

scale: release ## Load three servers over one PostgreSQL, kill a server and the primary, and print a table
	@.ci/setup haproxy postgresql python3
	.ci/scale --syncd .build/release/syncd

content-rate: release ## Measure the checks of content a second, beside plain reads of one key
	@.ci/setup python3
	swift build $(BENCHMARKS) --product server-load
	.ci/content-rate --syncd .build/release/syncd \
		--server-load "$$(swift build $(BENCHMARKS) --show-bin-path)/server-load"

ACCOUNTS ?= 1000000
move: release ## Move a store with ACCOUNTS accounts from SQLite to PostgreSQL while a server works
	@.ci/setup postgresql python3
	swift build $(BENCHMARKS) --product crowd
	.ci/move --syncd .build/release/syncd --accounts $(ACCOUNTS) \
		--crowd "$$(swift build $(BENCHMARKS) --show-bin-path)/crowd"

mutants: setup ## Insert one deliberate bug at a time into the engine and the servers; the simulation must detect each
	.ci/mutants

nightly: setup ## Simulate 20,000 new seeds, which must reach every rare state; run mutants, threads, packages
	@.ci/setup apache2-bin chromium curl default-jdk-headless junit4 nginx nodejs openssl protobuf-compiler python3 python3-cryptography python3-protobuf python3-venv $(DATABASE)
	.ci/nightly

threads: setup ## Run the tests of stores, service and server with ThreadSanitizer
	@.ci/setup apache2-bin curl openssl $(DATABASE)
	.ci/thread-sanitizer

lint: ## Check the format of all Swift code, and the rules of .ci/tidy
	swift format lint --strict --parallel --recursive $(FOLDERS) Package.swift
	.ci/tidy --self-test
	.ci/tidy

docs: ## Build the documentation of every library; warnings are errors
	@.ci/setup $(LIBRARIES)
	.ci/docs

bench: setup ## Measure the hot paths in release mode
	@.ci/setup $(LIBRARIES)
	swift run $(BENCHMARKS) benchmarks
	swift run $(BENCHMARKS) store-benchmarks
	swift build $(RELEASE)
	swift run $(BENCHMARKS) evidence-benchmarks --syncd "$$(swift build $(RELEASE) --show-bin-path)/syncd"
	swift run $(BENCHMARKS) wire-benchmarks \
		--syncd "$$(swift build $(RELEASE) --show-bin-path)/syncd"

database: setup ## Compare the store in PostgreSQL with pgbench
	@.ci/setup python3 $(DATABASE)
	swift build $(BENCHMARKS) --product database-load
	Benchmarks/peers/database.py \
		--database-load "$$(swift build $(BENCHMARKS) --show-bin-path)/database-load"

projection: release ## Measure writes beside a projection, its rebuild for a million customers, and questions at that size
	@.ci/setup postgresql python3
	swift build $(BENCHMARKS) --product crowd
	swift build $(BENCHMARKS) --product server-load
	Benchmarks/peers/projection.py --syncd .build/release/syncd \
		--crowd "$$(swift build $(BENCHMARKS) --show-bin-path)/crowd" \
		--server-load "$$(swift build $(BENCHMARKS) --show-bin-path)/server-load"

peers: ## Compare syncd serve with PocketBase, Kinto and a bare route, using wrk; writes Docs/Peers.md
	@.ci/setup libeatmydata1 python3 python3-venv wrk $(LIBRARIES)
	swift build $(RELEASE)
	swift build $(BARE_ROUTE)
	swift build $(BENCHMARKS) --product server-load
	Benchmarks/peers/peers.py --syncd "$$(swift build $(RELEASE) --show-bin-path)/syncd" \
		--bare-route "$$(swift build $(BARE_ROUTE) --show-bin-path)/bare-route" \
		--server-load "$$(swift build $(BENCHMARKS) --show-bin-path)/server-load" \
		--page Docs/Peers.md --chart Docs/images/peers.svg

clean: ## Remove all build products
	rm -rf .build .build-* Benchmarks/.build
