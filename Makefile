# aerie: plain `make` prints this help.
#
#   make demo     the main job on real text, on this machine, with no server and no network
#   make check    everything that CI runs

SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

GO ?= go
BIN := bin
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
# The Go race detector needs a C compiler; everything else builds without one.
RACE := CGO_ENABLED=1 $(GO) test -race
LINTER := $(GO) tool -modfile=tools/go.mod
# What only tests call is dead, but in the packages that are there for tests.
FOR_TESTS := ^internal/([a-z/]*test|clustering/golden)/

.PHONY: help
help: ## print this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: need-go
need-go:
	@command -v $(GO) >/dev/null || { echo "aerie needs Go 1.26 or later: see https://go.dev/doc/install" >&2; exit 1; }
	@$(GO) version | awk '{split(substr($$3, 3), v, "."); if (v[1] < 1 || v[1] == 1 && v[2] < 26) {print "aerie needs Go 1.26 or later; this is " $$3 > "/dev/stderr"; exit 1}}'

.PHONY: need-cc
need-cc:
	@command -v $${CC:-gcc} >/dev/null || { echo "the race detector needs a C compiler: apt-get install gcc libc6-dev" >&2; exit 1; }

.PHONY: build
build: need-go ## leave bin/aerie, bin/coordinator and bin/worker
	@mkdir -p $(BIN)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/aerie ./cmd/coordinator ./cmd/worker

.PHONY: demo
demo: build ## the main job on the Go documentation: build a tree, print it, ask it three questions
	@$(BIN)/aerie demo

.PHONY: test
test: need-go ## all tests, quickly: the inner loop
	$(GO) test ./...

.PHONY: race
race: need-go need-cc ## all tests with the race detector
	$(RACE) -timeout 20m ./...

.PHONY: test-stack
test-stack: need-go need-redis ## the tests on real servers, NATS, Redis and Weaviate (built once, into .cache): adapters, and whole fleets
	$(GO) test -tags stack -timeout 30m ./internal/redisstate/... ./internal/weaviate/...
	$(GO) test -tags stack -timeout 30m ./cmd/internal/fleettest # after the others, some of which measure

.PHONY: stack
stack: need-go need-redis build ## start NATS, Redis and Weaviate here, and write .stack/aerie.yaml for them
	@$(GO) run ./internal/stack/run up .stack

.PHONY: stack-stop
stack-stop: need-go ## stop what make stack has started
	@$(GO) run ./internal/stack/run down .stack

.PHONY: chaos
chaos: need-go need-redis build ## kill, stop and pause a fleet at work: SEED=n MINUTES=10, or KILLS=1000 for one build; CORPUS=text for text of your own
	@$(GO) run ./cmd/internal/chaos --seed $(or $(SEED),1) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(KILLS),--kills $(KILLS)) $(if $(CORPUS),--corpus $(CORPUS))

.PHONY: hostile
hostile: need-go ## send files and requests that mean harm, 500 of them: SEED=n, COUNT=n
	@$(GO) run ./cmd/internal/hostile --seed $(or $(SEED),1) --count $(or $(COUNT),500)

.PHONY: measure-readers
measure-readers: need-go ## how many words of pdftotext and lynx the readers find, in order, in the PDF and HTML files under FOLDERS=
	@command -v pdftotext lynx >/dev/null || { echo "pdftotext and lynx are needed: apt-get install poppler-utils lynx"; exit 1; }
	@$(GO) run ./cmd/internal/readerbench --worst $(or $(WORST),10) $(or $(FOLDERS),/usr/share/doc)

.PHONY: bench-stack
bench-stack: need-go need-redis build ## what queue and store cost on real servers, beside the least that can be done
	@$(GO) run ./cmd/internal/fleetbench
	$(GO) test -tags stack -run '^$$' -bench . -benchtime 3x ./internal/weaviate

.PHONY: bench-scale
bench-scale: need-go need-redis build ## what a status and a page of documents take at LEAVES=n leaves, 1,000,000 unless said, on a fleet and in a home
	LEAVES=$(or $(LEAVES),1000000) $(GO) test -tags stack,scale -run AtScale -timeout 3h -v ./cmd/internal/fleettest

.PHONY: need-redis
need-redis:
	@command -v redis-server >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -q && apt-get install -y -q --no-install-recommends redis-server; \
	  else echo "the tests of internal/redisstate need redis-server: apt-get install redis-server" >&2; exit 1; fi; }

.PHONY: test-chart
test-chart: need-go ## the chart, the alerts, compose and the Dockerfile, without a cluster; the first time compiles Helm and promtool
	cd deploy/test && CGO_ENABLED=0 $(GO) test -timeout 20m . # without C, as promtool is built, so that what both need is compiled once

# A finding stays as a seed, so that it fails the second run too; a deadline that the fuzzer itself missed doesn't.
.PHONY: fuzz
fuzz: TIME ?= 60s
fuzz: need-go ## every Fuzz target in turn, TIME=60s each; what is found stays in testdata/fuzz as a seed
	@failed=; for file in $$(git grep -l '^func Fuzz' -- '*_test.go'); do \
	  for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' $$file); do \
	    echo "$$(dirname $$file) $$name"; \
	    run="$(GO) test -run ^$$name\$$ -fuzz ^$$name\$$ -fuzztime $(TIME) ./$$(dirname $$file)"; \
	    $$run || $$run || failed="$$failed $$name"; \
	  done; done; \
	  if [ -n "$$failed" ]; then echo "found something:$$failed (see testdata/fuzz)" >&2; exit 1; fi

.PHONY: sbom
sbom: build ## what the programs are made of, as CycloneDX: bin/NAME.cdx.json
	@for name in aerie coordinator worker; do \
	  $(GO) tool -modfile=tools/release/go.mod cyclonedx-gomod bin -json -std -version '$(VERSION)' -output $(BIN)/$$name.cdx.json $(BIN)/$$name || exit 1; \
	  echo $(BIN)/$$name.cdx.json; done

.PHONY: licenses
licenses: need-go ## the licence text of every module in the programs, in bin/licenses
	@rm -rf $(BIN)/licenses && deploy/licenses.sh $(BIN)/licenses && echo $(BIN)/licenses

.PHONY: format
format: need-go ## rewrite the code in the standard form
	gofmt -w $$(git ls-files '*.go')

.PHONY: lint
lint: need-go ## format, vet, staticcheck, dead code and unused parameters, without changing anything
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	  if [ -n "$$unformatted" ]; then echo "not in the standard form (make format):" >&2; echo "$$unformatted" >&2; exit 1; fi
	$(GO) vet ./... && $(GO) vet -tags stack ./...
	$(LINTER) staticcheck -tags stack ./...
	@dead=$$($(LINTER) deadcode -tags stack ./...) || exit 1; dead=$$(grep -vE '$(FOR_TESTS)' <<<"$$dead"); \
	  if [ -n "$$dead" ]; then echo "nothing calls these but tests:" >&2; echo "$$dead" >&2; exit 1; fi
	@dead=$$($(LINTER) deadcode -tags stack -test ./...) || exit 1; \
	  if [ -n "$$dead" ]; then echo "nothing calls these:" >&2; echo "$$dead" >&2; exit 1; fi
	GOFLAGS=-tags=stack $(LINTER) unparam ./...

.PHONY: bench
bench: build ## what clustering takes here, in one table; ROWS=1000000 and VECTORS=file.npy measure others
	@$(GO) run ./internal/clustering/measure $(if $(ROWS),--rows $(ROWS)) $(if $(VECTORS),--vectors $(VECTORS)) $(if $(RUNS),--runs $(RUNS))

.PHONY: bench-query
bench-query: NODES ?= 50000,1000000
bench-query: AERIE_BENCH_HOME ?= $(CURDIR)/.cache/queries
bench-query: need-go ## what whole queries take at 50,000 and 1,000,000 nodes; the first time makes the homes: minutes, 5 GB in .cache
	AERIE_BENCH_NODES=$(NODES) AERIE_BENCH_HOME=$(AERIE_BENCH_HOME) \
	  $(GO) test -run '^$$' -bench Retrieve -benchtime 200x -timeout 60m ./internal/retrieve

.PHONY: bench-growth
bench-growth: AERIE_BENCH_DATA ?= $(CURDIR)/../shared/data/embeddings
bench-growth: need-go ## what a change of a corpus costs beside a build in full; reads leaves and vectors from AERIE_BENCH_DATA
	AERIE_BENCH_DATA=$(AERIE_BENCH_DATA) $(GO) test -run '^$$' -bench Growth -benchtime 1x -timeout 60m ./internal/coordinator ./cmd/aerie
	AERIE_HISTORIES=200 $(GO) test -v -run TestGrowthHistories -timeout 30m ./internal/coordinator | grep -E 'histories of|FAIL|^ok'

.PHONY: microbench
microbench: need-go ## the Go benchmarks of every package
	$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: check
check: need-go need-cc lint race test-stack test-chart build ## what CI runs: linters, all tests with the race detector, those on real servers, the chart's, the demo
	@home=$$(mktemp -d) && trap 'rm -rf "$$home"' EXIT && $(BIN)/aerie demo --home "$$home/.aerie"

.PHONY: clean
clean: ## remove what make has built
	rm -rf $(BIN) .cache
