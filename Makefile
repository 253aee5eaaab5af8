# Everything here runs on a machine with Go, make and bash alone.

GO          ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
# For the tests of one package; a test that hangs prints its goroutines.
TIMEOUT     ?= 20m
# Where bench writes; bench/results holds those of the last quiet run.
OUT         ?= bench/results/latest

# Every folder with a go.mod, the root first.
MODULES := $(sort $(patsubst %/,%,$(dir $(shell find . -name go.mod -not -path '*/testdata/*' -not -path './.*'))))

.DEFAULT_GOAL := help
.PHONY: help chromium release packages lab mutants endure test test-long test-full test-redis test-versions test-mysql soak check bench fmt vet lint tidy build cross arch spec fuzz redis databases shells prometheus

help: ## show this text
	@echo "targets:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r t d; do printf '  %-9s %s\n' $$t "$$d"; done

# each runs one command in every module, and stops at the first that fails.
define each
@set -e; for m in $(MODULES); do echo "$(1) ($$m)"; (cd $$m && $(1)); done
endef

# make check vets all packages. The race detector waits a second at the end of each process, which
# finds nothing more. Tests wait more than they work, so one package more than there are cores runs.
RACE    := GORACE=atexit_sleep_ms=0 $(GO) test -race -vet=off
CORES   := $(shell getconf _NPROCESSORS_ONLN)
# The adapters of engine/cas, whose tests kill and stop servers of theirs.
STORES  := $(patsubst %,engine/%,postgres mysql sqlite etcd zookeeper)
# What is random for long, and what is under faults: scenes on real servers that take their time.
RANDOM  := internal/primitivetest lab
FAULTS  := internal/faulttest engine/quorum/quorumtest lab/endure lab/live lab/nightly lab/outage lab/programme lab/scenario lab/stores bench cmd/holdfast/internal/commandtest examples/migrating/stores contrib $(STORES)
# What a browser does, on its own since the browser needs all cores.
BROWSER := web/webtest
RULES   := internal/arch
INSTALL := release
# The specification needs the model checker of TLA+; make spec has it.
MODELS  := spec lab/trace
# Those with the longest tests start first, so that no core waits for them at the end.
LONGEST := ./cmd/holdfast ./fence/sqltest
ALL     := $(MODULES:%=./%/...)
# packages lists those of some folders, without those of others. make check has the rules.
packages = $(GO) list $(1:%=./%/...) | grep -vxF "$$($(GO) list $(2:%=./%/...))"

test: redis databases shells ## what a change needs, with the race detector; installs Redis, PostgreSQL, PgBouncer, MariaDB, ZooKeeper, zsh and fish if they are missing
	@echo "$(RACE) (all but $(RANDOM) $(FAULTS) $(BROWSER) $(RULES) $(INSTALL) $(MODELS))"
	@set -e; all=$$($(call packages,$(LONGEST) $(filter-out $(LONGEST),$(MODULES)),$(RANDOM) $(FAULTS) $(BROWSER) $(RULES) $(INSTALL) $(MODELS))); $(RACE) -p=$$(($(CORES)+1)) -timeout=$(TIMEOUT) $$all

# The suites of faults run without the race detector, which makes leases of 300 ms too short on two
# slow cores; make test-full and make soak have it. Two run at a time, since each needs half a core.
# The test of the release compiles everything anew on all cores, so it runs last. The pictures that the
# tests of the browser take are left in .artifacts.
test-long: redis databases chromium prometheus ## the suites of faults on all topologies, random programs, and small runs of the lab and the benchmark
	code=0; $(RACE) -timeout=$(TIMEOUT) $$($(call packages,$(RANDOM),$(FAULTS) $(MODELS))) || code=$$?; \
		.ci/again -p=2 -vet=off -timeout=$(TIMEOUT) $(FAULTS:%=./%/...) || code=$$?; \
		$(MAKE) --no-print-directory test-versions || code=$$?; \
		rm -rf .artifacts; mkdir .artifacts; .ci/again -vet=off -timeout=$(TIMEOUT) -artifacts -outputdir=$(CURDIR)/.artifacts $(BROWSER:%=./%/...) || code=$$?; \
		.ci/fuzz 2000x plain || code=$$?; \
		$(GO) test -vet=off -timeout=$(TIMEOUT) $(INSTALL:%=./%/...) || code=$$?; exit $$code

# What shows that the scripts mean the same on the oldest and the newest Redis, also under faults; make test-redis has the other topologies too.
# Both versions at a time, since the tests wait more than they work.
OLD_AND_NEW := UnderFaults|Redis|Reply|Flush|Perm|WrongType|Replicas|Recreate
test-versions: redis ## conformance, differential and fault tests on one Redis 6.2.14 and 8.2.3; fetches those that are missing from PyPI
	@$(MAKE) --no-print-directory -j2 --output-sync=target test-on-6.2.14 test-on-8.2.3

test-on-%:
	@s=$$(bash .ci/redis-versions $*) || exit 1; echo "redis-server $* ($$s)"; export HOLDFAST_REDIS_SERVER=$$s HOLDFAST_REDIS_VERSION=$*; code=0; \
		.ci/again -vet=off -timeout=$(TIMEOUT) -run='Conformance|FollowTheSpec|Answers|Fsync' ./engine/goredis || code=$$?; \
		.ci/again -vet=off -timeout=$(TIMEOUT) -run='$(OLD_AND_NEW)' -skip='Minority|Judge|Miniredis' ./internal/faulttest || code=$$?; exit $$code

# HOLDFAST_LONG gives the tests at scale their full size; see redistest.Scale.
test-full: redis databases shells chromium prometheus ## all tests, those at scale in full size, make test-redis and make test-mysql; hours
	HOLDFAST_LONG=1 HOLDFAST_TLC=$$(bash .ci/tlc) $(GO) test -race -p 1 -count=1 -timeout 60m $(ALL)
	@$(MAKE) --no-print-directory test-redis test-mysql

# Conformance, differential tests and faults on real servers, without the race detector as
# in test-long; each server that starts has to say that it is the version.
REDIS_VERSIONS ?= 6.2.14 7.0.15 8.2.3
REDIS_SUITES   ?= ./engine/goredis ./engine/quorum/... ./fence ./internal/redistest ./internal/primitivetest
test-redis: redis ## what needs a Redis, on 6.2.14, 7.0.15 and 8.2.3; fetches those that are missing from PyPI
	@set -e; for v in $(REDIS_VERSIONS); do s=$$(bash .ci/redis-versions $$v); echo "redis-server $$v ($$s)"; \
		export HOLDFAST_REDIS_SERVER=$$s HOLDFAST_REDIS_VERSION=$$v; \
		$(GO) test -p=1 -count=1 -timeout=60m $(REDIS_SUITES); .ci/again -count=1 -timeout=60m ./internal/faulttest; done

test-mysql: ## what runs on MariaDB in make test, on MySQL 8.0.15; fetches it from Maven Central if it is missing
	@set -e; s=$$(bash .ci/mysql); echo "mysqld 8.0.15 ($$s)"; \
		HOLDFAST_MYSQL_SERVER=$$s .ci/again -p=1 -count=1 -timeout=$(TIMEOUT) ./engine/mysql ./fence/sqltest

# Random programs on real stores, and worker processes under kills, stops and
# restarts; make test-long does the same in seconds. HOLDFAST_SOAK is for each of them.
SOAK ?= 1m
soak: redis databases ## the tests under faults for a minute each (SOAK=5m for longer), 20 minutes in all
	HOLDFAST_SOAK=$(SOAK) $(GO) test -race -v -count=1 -timeout 0 -p 1 -run '^Test(ModelsOn.*|.*UnderFaults)$$' ./internal/primitivetest ./internal/faulttest ./lab/stores

check: fmt vet lint tidy build arch ## format, vet, staticcheck, go.mod, build, and the rules of internal/arch with the types on other systems

fmt: ## list files that gofmt would change
	@echo gofmt -l .
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "$$out"; echo "run gofmt -w on these"; exit 1; fi

vet: ## go vet
	$(call each,$(GO) vet ./...)

lint: ## staticcheck, at a fixed version
	$(call each,$(GO) run $(STATICCHECK) ./...)

# -e: a peer of bench tests itself with a module that the proxy does not serve.
# Tidy then goes on without it; its lines do not count, since sometimes it is served.
tidy: ## see that every go.mod says what is needed and no more, and that go.work.sum is complete
	@set -e; for m in $(MODULES); do echo "go mod tidy -e -diff ($$m)"; code=0; \
		all=$$(cd $$m && GOWORK=off $(GO) mod tidy -e -diff) || code=$$?; \
		out=$$(echo "$$all" | grep '^[+-][^+-]' | grep -v '/rueidiscompat v[^ ]* h1:' || true); \
		[ -z "$$out" ] && { [ $$code = 0 ] || [ -n "$$all" ]; } || { echo "$$all"; exit 1; }; done
	@was=$$(cat go.work.sum); $(GO) list -m all >/dev/null; \
	[ "$$was" = "$$(cat go.work.sum)" ] || { echo "go.work.sum was incomplete: commit it as it is now"; exit 1; }

build: ## build all modules as their users do, without the workspace
	$(call each,GOWORK=off $(GO) build -buildvcs=false -o /dev/null ./...)

# make check type-checks these, which finds the same in a tenth of the time; see internal/arch.
CROSS := linux/amd64 linux/arm64 linux/386 darwin/arm64 freebsd/amd64
cross: ## build the library and the command for other systems, all modules of the library for Windows too; part of a release
	@set -e; for t in $(CROSS); do echo "go build ($$t)"; GOOS=$${t%/*} GOARCH=$${t#*/} $(GO) build ./... ./cmd/holdfast/...; done
	GOOS=windows $(GO) build ./... $(STORES:%=./%) ./otelholdfast

# SPEC=-update writes the counterexamples and the tables of spec/README.md; SPEC=-brief leaves out what takes minutes.
spec: ## check the specification with TLC, the model checker of TLA+, and that the code follows it; fetches TLC from Maven Central
	@set -e; jar=$$(bash .ci/tlc); HOLDFAST_TLC=$$jar $(GO) test -p=1 -count=1 -timeout=20m $(MODELS:%=./%) $(SPEC)

# FUZZTIME=1m for longer. The inputs that are kept run in make test, and make test-long tries 2,000 others of each.
FUZZTIME ?= 10s
fuzz: ## fuzz each parser of what others have written, for FUZZTIME each
	@.ci/fuzz $(FUZZTIME)

arch: ## the rules of direction and shape, and the types on other systems
	$(GO) test -count=1 $(RULES:%=./%)

# BENCH="-only stores" for less; see go run ./bench -help.
bench: redis databases ## what locks cost on every store beside their floors and other Go locks, as ratios; 20 minutes; OUT=folder for the results
	$(GO) run ./bench -out $(OUT) $(BENCH)

# LAB="-minutes 5" for less; see go run ./lab/cmd/holdfast-lab -help.
LAB ?= -minutes 0 -mutants .
lab: redis databases ## the torture lab in full, an hour and make mutants: holes on demand, other libraries, random faults on every store, planted bugs; writes lab/results and the figures of lab/README.md
	@mkdir -p lab/results
	$(GO) run ./lab/cmd/holdfast-lab $(LAB) -out lab/results -report lab/results/report.md,lab/results/report.html -figures lab/README.md -json >lab/results/report.json
	@$(MAKE) --no-print-directory mutants

# MUTANTS='^queue: ' for one area, or a part of a name.
MUTANTS ?= .
mutants: redis databases ## plant bugs, one at a time, that the tests of their own packages must find; long; MUTANTS=pattern for some
	HOLDFAST_LAB_PLANTED='$(MUTANTS)' $(GO) test -count=1 -timeout 0 -v -run TestPlantedBugsAreKilled ./lab/mutant

# ENDURE="-for 10m" for less, "-store quorum" for another store; see lab/README.md.
ENDURE ?= -for 1h
endure: redis databases ## a day in an hour: leases by the hundred thousand, processes that come and go, a failover a minute; fails unless heap, goroutines, keys, connections and descriptors are flat
	$(GO) test -count=1 -timeout 0 -v -run '^TestEndure$$' ./lab/endure -args $(ENDURE)

# VERSION=v0.2.0; TAG=-tag makes the packages and then the tags, without it the target only prints them.
release: cross $(if $(TAG),packages) ## what a release of VERSION would tag; make release VERSION=v0.2.0 TAG=-tag tags it
	$(GO) run ./release -version "$(VERSION)" $(TAG)

# Compiling goreleaser takes minutes, once; its test is in make test-long, for two systems, and in make test-full for all.
GORELEASER ?= github.com/goreleaser/goreleaser/v2@v2.15.0
packages: ## check .goreleaser.yaml, and build archives, deb, rpm, SBOM, cask and checksums of a snapshot in dist
	$(GO) run $(GORELEASER) check
	$(GO) run $(GORELEASER) release --snapshot --clean --skip=docker

redis:
	@bash .ci/redis
	@bash .ci/lab-tools

shells:
	@bash .ci/shells

prometheus:
	@bash .ci/prometheus

chromium:
	@bash .ci/chromium >/dev/null

databases:
	@bash .ci/postgresql
	@bash .ci/pgbouncer
	@bash .ci/mariadb
	@bash .ci/zookeeper
