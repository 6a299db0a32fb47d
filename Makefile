# Every target runs from a bare clone: what is missing is installed by scripts/setup, what is slow to build is kept in bin/.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# What these say may come from the name of a branch: it gets into a command, and does not get out of its quotes there. Those of
# the linker and of images are one word.
call := $$(
brace := $${
$(foreach name,VERSION TAG ARCH ONLY LABELS SEEDS,$(foreach bad,' $(call) $(brace),$(if $(findstring $(bad),$(value $(name))),\
  $(error $(name) may not have $(bad) in it))))
$(foreach name,VERSION TAG ARCH SEEDS,$(if $(word 2,$(value $(name))),$(error $(name) may have no space)))

ARGS ?= --nodes 10 --sessions 100

# A go.work in a folder above may be anybody's, as in /tmp: it would put other code under the names of the modules in go.mod.
export GOWORK := off

# Storms in ginkgo and on both engines, which have targets of their own.
STORMS := /(scenarios|sim/engines|sim/foreign/bugs)$$

# Packages that make race leaves out: those without goroutines, and those that play storms in virtual time, which the race
# detector makes eight times slower (make long plays those with it).
PLAIN := /(internal/core|internal/archtest|sim/fault|sim/check|sim/virtual|cmd/simulate|sim/explore)(/|$$)|/sim$$

# A process that was built with the race detector sleeps for a second before it ends, and tests start hundreds.
export GORACE ?= atexit_sleep_ms=20

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install what is missing (redis-server); does nothing when all is there
	@scripts/setup

.PHONY: simulate
simulate: setup ## Run a storm: 10 nodes, 100 sessions, about a minute (ARGS="--nodes 25 …" for another)
	@go build -o bin/simulate ./cmd/simulate
	@bin/simulate $(ARGS)

# Tests in containers skip themselves where no engine answers, which go test says with -v only.
.PHONY: engine
engine:
	@docker version >/dev/null 2>&1 || { echo "no container engine answers: tests in containers are skipped, and fail if CI=true" >&2; \
		[[ "$${CI:-}" != true ]]; }

.PHONY: test
test: setup engine unit determinism smoke ## What every change must pass, minutes: unit tests, properties, conformance, determinism, one short storm

# Most packages wait for a server or a process most of their time: four at once keep two cores busy.
.PHONY: unit
unit: ## Tests of all packages
	go test -short -p 4 $$(go list ./... | grep -vE '$(STORMS)')

# Its own target, because it compiles everything anew: as much work again as all of make test.
.PHONY: race
race: setup engine ## The same under the race detector: lease, shells and engines, and the determinism of what it builds
	go test -race -short $$(go list ./... | grep -vE '$(PLAIN)|$(STORMS)')
	@scripts/determinism -race

# Modules of their own, because they have Grafana's and the API server's code. -count=1: what they read is outside of them, which
# Go's cache does not see.
.PHONY: manifests
manifests: ## Hold docker/monitoring against Grafana's own types, docker/k8s against a Kubernetes API server's own code and the programs' settings (compiles them once, minutes of CPU; part of .ci/run)
	@cd tools/monitoring && go test -count=1 ./...
	@cd tools/k8s && go test -count=1 ./...

.PHONY: smoke
smoke: ## One short storm on a real Redis
	go test -count=1 -timeout 5m ./scenarios -ginkgo.label-filter=smoke

# Storms wait most of their time: three at once.
ginkgo = go run github.com/onsi/ginkgo/v2/ginkgo --procs=3 --label-filter='$(or $(LABELS),!smoke)' \
	--randomize-all --fail-on-empty -v --no-color

.PHONY: chaos
chaos: setup ## Every scenario of the specification against real processes, about 20 minutes (LABELS="SC-002" for some)
	$(ginkgo) --timeout 40m --fail-on-pending ./scenarios
	@[ -n '$(LABELS)' ] || $(MAKE) engines long

.PHONY: chaos-docker
chaos-docker: setup engine ## The same with every node and Redis in a container of its own (LABELS="SC-002" for some)
	@LEASESTORM_LAUNCHER=container $(ginkgo) --timeout 60m ./scenarios

.PHONY: engines
engines: setup engine ## Ten plans on both engines, and in containers: the same verdicts, figures that lie alike (part of chaos)
	go test -count=1 -timeout 20m -v ./sim/engines -args -all

.PHONY: foreign
foreign: setup ## Nodes in another language with one known fault each: each must be caught by its guarantee (ARGS="-args -all": ten seeds of each)
	go test -count=1 -timeout 3h -v ./sim/foreign/bugs $(if $(filter file,$(origin ARGS)),,$(ARGS))

# What make test leaves out: what -short skips, by its name, and the race detector on storms that are played side by side.
.PHONY: long
long: setup engine ## Tests too long for make test, and storms in virtual time under the race detector; some minutes (part of chaos)
	go test -race -timeout 20m ./sim/explore
	go test -race -timeout 20m -run 'Long$$' $$(go list -f '{{range .TestGoFiles}}{{$$.Dir}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$$.Dir}}/{{.}} {{end}}' ./... | \
		xargs grep -l '^func Test.*Long(' | xargs -n 1 dirname | sort -u)

.PHONY: determinism
determinism: ## The same seed gives the same history on one thread and on two (make race: and under the race detector)
	@scripts/determinism

.PHONY: explore
explore: ## Drawn storms in virtual time that nobody has seen, at most 4 minutes (SEEDS=1-1000 for given ones)
	@scripts/explore $(if $(SEEDS),'$(SEEDS)')

.PHONY: canary
canary: ## Explore with a lease that is broken on purpose: it must turn red, else explorations see nothing (part of .ci/run)
	@scripts/canary

.PHONY: soak
soak: setup ## Trials too long for a CI, an hour or more (ONLY=REGEXP for some, UPDATE=1 for docs/soak.md)
	@scripts/soak $(if $(ONLY),-only '$(ONLY)') $(if $(UPDATE),-update)

.PHONY: mutants
mutants: setup ## Break leases on purpose, a third of the ways; each must be caught by the guarantee it breaks (ALL=1, ONLY=REGEXP, UPDATE=1 for docs/mutants.md)
	@go run ./sim/mutant/gate $(if $(ALL)$(ONLY),,-third) $(if $(ONLY),-only '$(ONLY)') $(if $(UPDATE),-update)

.PHONY: bench
bench: setup ## Measure the speed table of docs/performance.md, as ratios to limits of the same run
	@scripts/bench

.PHONY: lint
lint: bin/golangci-lint ## Static checks and formatting (the import rules are a test: internal/archtest)
	@bin/golangci-lint run ./...
	@cd tools/k8s && ../../bin/golangci-lint run ./...
	@cd tools/monitoring && ../../bin/golangci-lint run ./...

.PHONY: fmt
fmt: bin/golangci-lint ## Format all code
	@bin/golangci-lint fmt ./...

# VERSION is for a release: what the programs say of themselves instead of what Go recorded.
.PHONY: build
build: ## Build bin/node, bin/simulate and bin/leasectl as they are released: the same bytes in every folder (VERSION=v1.2.3 names a release)
	@CGO_ENABLED=0 go build -trimpath -buildvcs=auto -o bin/ \
		$(if $(VERSION),-ldflags '-X github.com/leasestorm/leasestorm/internal/version.stamped=$(VERSION)') ./cmd/node ./cmd/simulate ./cmd/leasectl

.PHONY: docker
docker: ## Build the images leasestorm/node, simulate and toxiproxy without pulling any (ARCH=arm64, VERSION=v1.2.3, TAG=dev)
	@ARCH='$(ARCH)' VERSION='$(VERSION)' TAG='$(TAG)' scripts/docker programs

.PHONY: docker-redis
docker-redis: ## Build the image leasestorm/redis out of this machine's redis-server, for machines that cannot pull one
	@TAG='$(TAG)' scripts/docker redis

.PHONY: release-check
release-check: ## Build the commit in two clones and compare the bytes; about two minutes (part of .ci/run)
	@scripts/release-check

.PHONY: notices
notices: bin/go-licenses ## Write THIRD_PARTY_NOTICES.md anew; a test says when it is stale
	@scripts/notices

.PHONY: sbom
sbom: build bin/cyclonedx-gomod ## Build, and list what each program was built from: bin/*.cdx.json (CycloneDX), the same for the same program
	@for program in node simulate leasectl; do \
		bin/cyclonedx-gomod bin -json -std -noserial -notimestamp $(if $(VERSION),-version '$(VERSION)') \
			-output bin/$$program.cdx.json bin/$$program; \
	done

.PHONY: vulncheck
vulncheck: bin/govulncheck ## Look for known weaknesses in what can be reached; needs the network (VULNDB=URL for another database)
	@scripts/vulncheck

.PHONY: fuzz
fuzz: ## Let every fuzzer look for 10 minutes, for a night (FUZZTIME=1m, ONLY=REGEXP for some)
	@scripts/fuzz $(if $(ONLY),'$(ONLY)')

# Pinned in a module of their own, so that neither the project's module nor the linter's knows them.
bin/go-licenses bin/cyclonedx-gomod bin/govulncheck: tools/release/go.mod tools/release/go.sum
	@echo "building the tools of a release (once; it takes a minute)"
	@cd tools/release && go build -trimpath -o ../../bin/ tool
	@touch bin/go-licenses bin/cyclonedx-gomod bin/govulncheck

.PHONY: clean
clean: ## Remove binaries and saved runs
	@rm -rf bin && find reports -mindepth 1 ! -name .gitkeep -delete

bin/golangci-lint: tools/go.mod tools/go.sum
	@echo "building golangci-lint (once; it takes a minute or two)"
	@cd tools && go build -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@
