# Every target runs from a bare clone: what is missing is installed by scripts/setup, what is slow to build is kept in bin/.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

ARGS ?= --nodes 10 --sessions 100

# A go.work in a folder above does not count.
export GOWORK := off

# Storms in ginkgo and on both engines, which have targets of their own.
STORMS := /(scenarios|sim/engines|sim/foreign/bugs)$$

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
test: setup unit determinism smoke ## What every change must pass, about 3 minutes: unit tests, determinism, one short storm

# Most packages wait for a server or a process most of their time: four at once keep two cores busy.
.PHONY: unit
unit: ## Tests of all packages
	go test -short -count=1 -p 4 -timeout 30m $$(go list ./... | grep -vE '$(STORMS)')

.PHONY: race
race: setup ## Tests of the library and the core under the race detector
	go test -race -short -count=1 $$(go list ./lease/... ./internal/core ./internal/member ./internal/place ./internal/policy ./internal/redisstore)

.PHONY: race-all
race-all: setup ## Tests of everything with goroutines under the race detector, and the determinism of what it builds (part of nightly)
	go test -race -short -count=1 -skip '^TestBudgetsAreTight$$' $$(go list ./... | grep -vE '/(internal/archtest|sim/fault|sim/check|sim/virtual(/redis|/loop)?|sim/real)$$|$(STORMS)')
	@scripts/determinism -race

# Modules of their own, because they have Grafana's and the API server's code. -count=1: what they read is outside of them, which
# Go's cache does not see.
.PHONY: manifests
manifests: ## Check docker/monitoring with Grafana's types, docker/k8s with a Kubernetes API server's code (part of nightly)
	@cd tools/monitoring && go test -count=1 ./...
	@cd tools/k8s && go test -count=1 ./...

.PHONY: smoke
smoke: ## One short storm on a real Redis
	go test -count=1 -timeout 5m ./scenarios -ginkgo.label-filter=smoke

# Storms wait most of their time: three at once.
ginkgo = go run github.com/onsi/ginkgo/v2/ginkgo --procs=3 --label-filter='$(or $(LABELS),!smoke)' \
	--randomize-all --fail-on-empty -v --no-color

.PHONY: storms
storms: setup ## The short storms in the tests of the harness, which need an idle machine (part of .ci/run)
	go test -count=1 -timeout 10m ./sim/real

.PHONY: chaos
chaos: setup ## Every scenario of the specification against real processes, about 12 minutes (LABELS="SC-002" for some)
	$(ginkgo) --timeout 40m --fail-on-pending ./scenarios

.PHONY: chaos-docker
chaos-docker: setup engine ## The same with every node and Redis in a container of its own (LABELS="SC-002" for some)
	@LEASESTORM_LAUNCHER=container $(ginkgo) --timeout 60m ./scenarios

.PHONY: nightly
nightly: setup engine ## What is too long for every change, at most 75 minutes, a line for each part (ONLY=REGEXP for some)
	@scripts/trials nightly '$(ONLY)'

.PHONY: soak
soak: setup engine ## What is too long for a night; before a release (ONLY=REGEXP for some)
	@scripts/trials soak '$(ONLY)'

.PHONY: engines
engines: setup ## Ten plans on both engines: the same verdicts, figures that lie alike (part of nightly)
	go test -count=1 -timeout 20m -v ./sim/engines -args -all

.PHONY: foreign
foreign: setup ## Nodes in another language with one known fault each: each must be caught by its guarantee (ARGS="-args -all": ten seeds of each)
	go test -count=1 -timeout 3h -v ./sim/foreign/bugs $(if $(filter file,$(origin ARGS)),,$(ARGS))

# Go's libraries in a module of their own, so that the project's module does not know them.
.PHONY: contenders
contenders: setup ## Play the same faults against lock libraries, and write docs/contenders.md: at most 30 minutes (ARGS="-only redsync" for some)
	@go build -o bin/simulate ./cmd/simulate
	@mkdir -p bin/contenders && go build -o bin/contenders/sovereign ./sim/mutant/sovereign/node
	@go build -o bin/contenders/ ./sim/contenders && go -C contenders build -o ../bin/contenders/ ./...
	@bin/contenders/contenders -virtual 20 $(if $(filter file,$(origin ARGS)),,$(ARGS))

.PHONY: long
long: setup ## Tests that make test leaves out by -short (part of nightly)
	go test -count=1 -timeout 20m -p 2 -run 'Long$$' $$(go list -f '{{range .TestGoFiles}}{{$$.Dir}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$$.Dir}}/{{.}} {{end}}' ./... | \
		xargs grep -l '^func Test.*Long(' | xargs -n 1 dirname | sort -u)

.PHONY: determinism
determinism: ## The same seed gives the same history on one thread and on two (make race: and under the race detector)
	@scripts/determinism

.PHONY: seeds
seeds: ## The same drawn storms every time: 2,000 of polling, 2,000 of elections, 300 of intents
	@go build -o bin/simulate ./cmd/simulate
	@bin/simulate --engine virtual --seeds 1-2000 --keep-going --report bin/seeds/polling
	@bin/simulate --engine virtual --system election --seeds 1-2000 --keep-going --report bin/seeds/election
	@bin/simulate --engine virtual --system intents --seeds 1-300 --keep-going --report bin/seeds/intents

.PHONY: canary
canary: ## Explore with a lease that is broken on purpose: it must turn red, else explorations see nothing (part of .ci/run)
	@scripts/canary

.PHONY: mutants
mutants: ## Break promises on purpose; each mutant must be caught by the guarantee that it breaks (ONLY=REGEXP for some)
	@MUTANTS='$(or $(ONLY),.)' go -C sim/mutant test -count=1 -parallel 2 -timeout 15m -run TestMutants

.PHONY: hunt
hunt: ## Change statements of the library, one at a time, and list those that storms do not see (SAMPLE=100; part of nightly)
	@go build -o bin/hunt ./sim/mutant/hunt && bin/hunt -sample '$(or $(SAMPLE),100)'

.PHONY: bench
bench: setup ## Measure the speed table of docs/performance.md, as ratios to limits of the same run
	@scripts/bench

.PHONY: lint
lint: bin/golangci-lint ## Static checks and formatting
	@bin/golangci-lint run ./...
	@cd tools/k8s && ../../bin/golangci-lint run ./...
	@cd tools/monitoring && ../../bin/golangci-lint run ./...
	@cd contenders && ../bin/golangci-lint run ./...

.PHONY: figures
figures: ## Print size and layering of each package
	@scripts/figures

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
release-check: ## Build the commit in two clones and compare the bytes; about two minutes (part of nightly)
	@scripts/release-check

# go vet includes the tests, which need Unix.
.PHONY: cross
cross: ## Build what each platform of docs/README.md has, and vet it on Linux and macOS
	@for system in linux darwin windows; do for arch in amd64 arm64; do \
		export CGO_ENABLED=0 GOOS=$$system GOARCH=$$arch; \
		if [[ $$system == windows ]]; then go build ./lease/... ./cmd/leasectl; \
		else go build ./lease/... ./cmd/...; go vet ./lease/... ./cmd/...; fi; \
		echo "$$system/$$arch: ok"; \
	done; done

.PHONY: gorelease
gorelease: bin/gorelease ## Check that the module can be tagged VERSION; needs the network (BASE=v0.1.0 compares the API with a release)
	@bin/gorelease -base=$(or $(BASE),none) -version=$(or $(VERSION),v0.1.0)

.PHONY: release release-draft
release: ## Make the archives, SBOMs, images and checksums of VERSION=v1.2.3 in bin/dist; publish nothing
	@scripts/release '$(VERSION)'

release-draft: ## Make them, and upload them as a draft of the pushed tag VERSION
	@scripts/release '$(VERSION)' draft

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
bin/go-licenses bin/cyclonedx-gomod bin/govulncheck bin/gorelease: tools/release/go.mod tools/release/go.sum
	@echo "building the tools of a release (once; it takes a minute)"
	@cd tools/release && go build -trimpath -o ../../bin/ tool
	@touch bin/go-licenses bin/cyclonedx-gomod bin/govulncheck bin/gorelease

bin/goreleaser: tools/goreleaser/go.mod tools/goreleaser/go.sum
	@echo "building goreleaser (once; it takes some minutes)"
	@cd tools/goreleaser && go build -trimpath -o ../../$@ github.com/goreleaser/goreleaser/v2
	@touch $@

.PHONY: clean
clean: ## Remove binaries and saved runs
	@rm -rf bin && find reports -mindepth 1 ! -name .gitkeep -delete

bin/golangci-lint: tools/go.mod tools/go.sum
	@echo "building golangci-lint (once; it takes a minute or two)"
	@cd tools && go build -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@
