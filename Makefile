# Every target runs from a bare clone: what is missing is installed by scripts/setup, what is slow to build is kept in bin/.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

ARGS ?= --nodes 10 --sessions 100

# Packages without goroutines, where the race detector could only cost time.
PURE := /(internal/core|internal/archtest|sim/fault|sim/check|sim/virtual)(/|$$)

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install what is missing (redis-server); does nothing when all is there
	@scripts/setup

.PHONY: simulate
simulate: setup ## Run a storm: 10 nodes, 100 sessions, about a minute (ARGS="--nodes 25 …" for another)
	@go build -o bin/simulate ./cmd/simulate
	@bin/simulate $(ARGS)

.PHONY: test
test: setup lint unit race determinism smoke ## Lint, unit tests, properties, race detector, conformance, determinism, one short storm

.PHONY: unit
unit: ## Tests of the packages that have no goroutines
	go test $$(go list ./... | grep -E '$(PURE)')

.PHONY: race
race: ## Tests of all other packages, under the race detector
	go test -race $$(go list ./... | grep -vE '$(PURE)|/(scenarios|sim/engines)$$')

.PHONY: smoke
smoke: ## One short storm on a real Redis
	go test -count=1 -timeout 5m ./scenarios -ginkgo.label-filter=smoke

.PHONY: chaos
chaos: setup ## Every scenario of the specification against real processes, about 20 minutes (LABELS="SC-002" for some)
	go test -count=1 -timeout 40m -v ./scenarios -ginkgo.label-filter='$(or $(LABELS),!smoke)' \
		-ginkgo.randomize-all -ginkgo.fail-on-pending -ginkgo.fail-on-empty -ginkgo.v -ginkgo.no-color
	@[ -n "$(LABELS)" ] || $(MAKE) engines

.PHONY: engines
engines: setup ## Ten plans on both engines: the same verdicts, figures that lie alike; about two minutes (part of chaos)
	go test -count=1 -timeout 5m -v ./sim/engines -args -all

.PHONY: determinism
determinism: ## The same seed gives the same history on one thread, on two and under the race detector
	@scripts/determinism

.PHONY: explore
explore: ## Drawn storms in virtual time that nobody has seen, at most 4 minutes (SEEDS=1-1000 for given ones)
	@scripts/explore $(SEEDS)

.PHONY: mutants
mutants: setup ## Break leases on purpose; each must be caught by the guarantee it breaks (ONLY=REGEXP, UPDATE=1 for docs/mutants.md)
	@go run ./sim/mutant/gate $(if $(ONLY),-only '$(ONLY)') $(if $(UPDATE),-update)

.PHONY: bench
bench: setup ## Measure the speed table of docs/performance.md, as ratios to limits of the same run
	@scripts/bench

.PHONY: lint
lint: bin/golangci-lint ## Static checks and formatting (the import rules are a test: internal/archtest)
	@bin/golangci-lint run ./...

.PHONY: fmt
fmt: bin/golangci-lint ## Format all code
	@bin/golangci-lint fmt ./...

.PHONY: clean
clean: ## Remove binaries and saved runs
	@rm -rf bin && find reports -mindepth 1 ! -name .gitkeep -delete

bin/golangci-lint: tools/go.mod tools/go.sum
	@echo "building golangci-lint (once; it takes a minute or two)"
	@cd tools && go build -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@
