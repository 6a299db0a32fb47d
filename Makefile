# Every target runs from a bare clone: what is missing is installed by scripts/setup, what is slow to build is kept in bin/.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

ARGS ?= --nodes 10 --sessions 100

# Packages that make test plays without the race detector: those without goroutines, and those that play storms in virtual
# time, which it makes eight times slower (make long plays those with it).
PLAIN := /(internal/core|internal/archtest|sim/fault|sim/check|sim/virtual|cmd/simulate)(/|$$)|/sim$$

# A process that was built with the race detector sleeps for a second before it ends, and tests start hundreds.
export GORACE ?= atexit_sleep_ms=20

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
test: setup unit race determinism smoke ## What every change must pass, minutes: unit tests, properties, race detector, conformance, determinism, one short storm

.PHONY: unit
unit: ## Tests of rules, judge and simulator
	go test -short $$(go list ./... | grep -E '$(PLAIN)')

.PHONY: race
race: ## Tests of all other packages, under the race detector
	go test -race -short $$(go list ./... | grep -vE '$(PLAIN)|/(scenarios|sim/engines)$$')

.PHONY: smoke
smoke: ## One short storm on a real Redis
	go test -count=1 -timeout 5m ./scenarios -ginkgo.label-filter=smoke

.PHONY: chaos
chaos: setup ## Every scenario of the specification against real processes, about 20 minutes (LABELS="SC-002" for some)
	go test -count=1 -timeout 40m -v ./scenarios -ginkgo.label-filter='$(or $(LABELS),!smoke)' \
		-ginkgo.randomize-all -ginkgo.fail-on-pending -ginkgo.fail-on-empty -ginkgo.v -ginkgo.no-color
	@[ -n "$(LABELS)" ] || $(MAKE) engines long

.PHONY: engines
engines: setup ## Ten plans on both engines: the same verdicts, figures that lie alike; about two minutes (part of chaos)
	go test -count=1 -timeout 10m -v ./sim/engines -args -all

# What make test leaves out: the race detector on storms in virtual time, and what -short skips. A package in which it skips
# something is played here as a whole.
.PHONY: long
long: setup ## Tests too long for make test, and the storms in virtual time under the race detector; a minute or two (part of chaos)
	go test -race -timeout 20m ./sim $$(grep -rl --include='*_test.go' 'testing\.Short()' . | xargs -n 1 dirname | sort -u)

.PHONY: determinism
determinism: ## The same seed gives the same history on one thread, on two and under the race detector
	@scripts/determinism

.PHONY: explore
explore: ## Drawn storms in virtual time that nobody has seen, at most 4 minutes (SEEDS=1-1000 for given ones)
	@scripts/explore $(SEEDS)

.PHONY: soak
soak: setup ## Trials too long for a CI, an hour or more (ONLY=REGEXP for some, UPDATE=1 for docs/soak.md)
	@scripts/soak $(if $(ONLY),-only '$(ONLY)') $(if $(UPDATE),-update)

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
