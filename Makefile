# holdfast: `make demo` shows it, `make test` proves it.
SHELL       := /bin/bash
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
export CGO_ENABLED ?= 0
GO          ?= go
# Without DWARF a test links in one second instead of seven, and traces still show lines. make lint runs vet.
GOTEST      := $(GO) test -vet=off -ldflags=-w
BIN         := bin/holdfast
IMAGE_TAG   := $(VERSION)
PACKAGES    := ./...
# make profile renews it. Tests do not use it: with it, every linked package would be compiled again.
PROFILE     := $(CURDIR)/deploy/cpu.pgo
BUILD_FLAGS := -pgo=$(PROFILE) -trimpath -buildvcs=false -ldflags "-s -w -X holdfast/cmd.version=$(VERSION)"
FUZZTIME    ?= 10s
# The public authorities for the image: where Debian, Fedora and Alpine keep them.
AUTHORITIES  = $(firstword $(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt))
SBOM        := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
# These packages only compute. Nothing in them depends on time, so they may run at the lowest priority.
DECISIONS   := ./embedded/plan ./embedded/plan/model ./volume/ebs/model
# Packages that are not run under the race detector, which needs a build of its own: those without goroutines (the pure
# decisions, what prints and parses), and the stories, whose processes are built without it.
UNRACED     := ^holdfast/(cmd|cmd/(holdfast|config|show|certificates|proposal|backups|etcdmanager)|invalid|layout|embedded/(plan|plan/model|health|settings)|integration.*|volume/ebs/model)$$
# In CI, those with the SDK of EC2 and the commands are raced on one day, and the others on the next.
DAY          = $(or $(HOLDFAST_SHARE),$(shell expr $$(date +%s) / 86400))
RACE_DAY     = all
RACED        = $$($(GO) list $(PACKAGES) | grep -vE '$(UNRACED)' | \
  awk -v day='$(RACE_DAY)' 'day == "all" || ($$0 ~ "^holdfast/(cmd|volume)") == day % 2')
# The client of EC2 takes a quarter of the whole compile time, and less than half of that without optimisation. With the
# race detector, it is instrumented all the same.
RACEFLAGS   := '-gcflags=github.com/aws/...=-N -l -dwarf=false'
# CI starts with an empty cache, and compiles for this run alone: without DWARF, which no test reads, and with the SDK
# as above. Tests build their own binaries with the same flags, so nothing is compiled twice. -buildvcs=false is for a
# clone that belongs to another user, where git refuses to work.
CI_GOFLAGS  := -buildvcs=false '-gcflags=all=-dwarf=false' $(RACEFLAGS) -ldflags=-w
# For programs that compile, check or simulate much: they spend a third to half of their time on garbage collection.
# The tests under the race detector get it, too. Nodes do not, because they are tested as they are released.
EAGER       := GOGC=400 GOMEMLIMIT=4GiB

# ETCD=3.6 builds and tests with etcd 3.6 (docs/upgrade.md), without integration/faults: etcd's checker needs 3.7.
ETCD ?= 3.7
# make test tests only these packages with etcd 3.6, because they use its formats. make prove tests all.
OTHER := ETCD=3.6 PACKAGES="./embedded ./cmd/backups ./cmd/child"
ifeq ($(ETCD),3.6)
export GOFLAGS := $(GOFLAGS) -modfile=$(CURDIR)/etcd36.mod -tags=etcd36
BIN       := bin/holdfast-etcd36
IMAGE_TAG := $(VERSION)-etcd3.6
PACKAGES  := $$($(GO) list -e ./... | grep -v /integration/faults)
else ifneq ($(ETCD),3.7)
$(error ETCD must be 3.7 or 3.6, got $(ETCD))
endif

.PHONY: help build demo demo-hosts test compile compile-race stories packages decisions short other race prove soak faults fuzz bench profile model lint image image-kops links licences sbom reproducible clean deps

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' Makefile

build: ## build bin/holdfast, one static binary; with ETCD=3.6 bin/holdfast-etcd36, and so with every target
	$(GO) build $(BUILD_FLAGS) -o $(BIN) ./cmd/holdfast

demo: build ## run a three-node cluster here and show it; Ctrl-C stops it, ARGS="--nodes 5 --clean"
	$(BIN) demo $(ARGS)

demo-hosts: build ## as root: nodes on hosts of their own, with EBS volumes of a stand-in for EC2; ARGS="-nodes 4"
	$(GO) build -o bin/demo-hosts ./integration/demo
	bin/demo-hosts -binary $(BIN) $(ARGS)

# The stories and the packages wait most of their time, so what only computes runs beside both at the lowest priority
# (.ci/beside). Common packages are compiled first, or they would be compiled twice. Meanwhile, Debian's packages are
# installed.
test: export GOFLAGS := $(GOFLAGS) $(CI_GOFLAGS)
test: ## what CI runs, in some 20 minutes: lint, stories, packages; a share of similar cases (integration/tier)
	$(MAKE) -j 2 --output-sync=target deps compile
ifeq ($(ETCD),3.7)
	$(MAKE) compile $(OTHER)
endif
	.ci/beside '$(MAKE) compile-race RACE_DAY=$(DAY) lint decisions' \
	  '$(MAKE) stories && $(MAKE) -j 2 --output-sync=target RACE_DAY=$(DAY) packages $(if $(filter 3.7,$(ETCD)),other) race'

other:
	$(MAKE) short $(OTHER)

compile:
	$(EAGER) $(GO) build $(PACKAGES)

compile-race:
	CGO_ENABLED=1 $(EAGER) $(GO) build -race $(RACEFLAGS) $(RACED)

stories: ## stories on real processes, hosts and disks
	$(GOTEST) -count=1 -timeout 60m ./integration

packages: ## the tests of all packages, without the stories and the decisions
	$(GOTEST) -p 3 -count=1 -timeout 60m $$($(GO) list $(PACKAGES) | grep -vxF "$$($(GO) list ./integration $(DECISIONS))")

decisions: ## the plan's simulations and mutants, and the models of plan and claim
	$(EAGER) $(GOTEST) -count=1 -timeout 60m $(DECISIONS)

short: ## the fast tests, in under a minute
	$(GOTEST) -short $(PACKAGES)

race: ## the fast tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(EAGER) $(GOTEST) -race $(RACEFLAGS) -short -timeout 15m $(RACED)

soak: deps ## long: simulated lives of the claim (SEEDS=100000), the model, then faults on real nodes (DURATION=10m)
	HOLDFAST_SIM_SEEDS=$(or $(SEEDS),100000) $(GOTEST) -count=1 -timeout 3h -run Simulation ./volume/ebs
	$(MAKE) model
	$(MAKE) faults

prove: export HOLDFAST_SHARE := all
prove: deps ## everything, hours: CI with nothing left out, on the binaries that are released, with both etcds, 10^8 decisions, all fuzzing, soak
	$(MAKE) build
	$(MAKE) test HOLDFAST_TEST_BINARY=$(CURDIR)/$(BIN)
	$(MAKE) build ETCD=3.6
	$(MAKE) test ETCD=3.6 HOLDFAST_TEST_BINARY=$(CURDIR)/$(BIN)-etcd36
	$(GOTEST) -count=1 -v -timeout 12h -run '^Test(Whole|Adoption)?Simulation$$' ./embedded/plan -args -sim.lives=$(or $(LIVES),100000)
	$(MAKE) fuzz
	$(MAKE) soak

faults: deps ## real nodes under random faults and etcd's checker, for DURATION (10m); prints seeds and artefacts
	$(GOTEST) -count=1 -v -timeout 0 -run TestSoak ./integration/faults -args -soak $(or $(DURATION),10m) -length 30s

# Before Go 1.27, a time limit may end as an error (go.dev/issue/75804). A number of inputs (FUZZTIME=5000x) does not.
fuzz: ## every fuzz target for FUZZTIME (10s); an input that fails is kept in the package's testdata/fuzz, to be committed
	@set -e; for pkg in $$($(GO) list $(PACKAGES)); do \
	  for target in $$($(GOTEST) -list '^Fuzz' $$pkg | grep ^Fuzz || true); do \
	    echo "== $$pkg $$target"; $(GOTEST) -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
	  done; done

bench: build ## measure beside plain etcd of the same version, and compare with the promises; SHORT=1: two rounds
	HOLDFAST_TEST_BINARY=$(CURDIR)/$(BIN) $(GOTEST) -run "^$$" -bench . -benchtime 1x -timeout 3h $(if $(SHORT),-short,./snapshot) ./integration # whose end is the summary

profile: ## renew the profile for the optimised build, from a minute of Kubernetes' load
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; set -e; \
	  $(GO) build -trimpath -ldflags='-s -w' -o "$$dir/holdfast" ./cmd/holdfast; \
	  HOLDFAST_TEST_BINARY=$$dir/holdfast $(GOTEST) -run '^$$' -bench 'Profile$$' -benchtime 1x ./integration -args -profile.to "$$dir"; \
	  $(GO) tool pprof -proto -output $(PROFILE) "$$dir"/*.prof

model: deps ## check the models of claims and of the end of a generation with spin, and that their mutants fail
	@echo "this takes a few minutes"; set -o pipefail; HOLDFAST_SHARE=all \
	  $(GOTEST) -count=1 -v -p 1 -timeout 15m -run Model ./volume/ebs/model ./embedded/plan/model | grep -v -e '^ *=== ' -e '^ *--- PASS'

# govulncheck checks a small package first: without the network, it fails only after it has loaded everything.
lint: ## gofmt, go vet, staticcheck, and govulncheck where the network allows
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "gofmt: $$files"; exit 1; fi
	VET=$$($(GO) tool -n vet) $(GO) vet -vettool=$(CURDIR)/.ci/vet $(PACKAGES)
ifeq ($(ETCD),3.7)
	$(EAGER) $(GO) tool staticcheck ./...
	@out=$$({ $(GO) tool govulncheck ./invalid && $(GO) tool govulncheck ./...; } 2>&1); code=$$?; \
	  if [ $$code = 3 ]; then echo "$$out"; exit 1; \
	  elif [ $$code != 0 ]; then echo "govulncheck: not run, the vulnerability database cannot be reached from here"; \
	  else echo "govulncheck: ok"; fi
endif

licences: ## collect the licences of all linked modules in bin/licences
	GO=$(GO) deploy/licences.sh bin/licences

sbom: build ## write bin/holdfast.cdx.json: the modules in the binary (CycloneDX); fetches the tool that lists them
	$(GO) run $(SBOM) bin -json -std -noserial -version $(VERSION) -output $(BIN).cdx.json $(BIN)

reproducible: ## build here, and from a copy elsewhere without a cache: the bytes must be the same; takes minutes
	GO=$(GO) VERSION=$(VERSION) deploy/reproducible.sh

image: build licences links ## a container image from scratch with bin/holdfast in it
	docker build --target prebuilt --build-arg BINARY=$(BIN) -t holdfast:$(IMAGE_TAG) .

image-kops: build licences links ## a container image that replaces etcd-manager's in kops' manifest (deploy/kops)
	docker build --target kops --build-arg BINARY=$(BIN) -t holdfast-kops:$(IMAGE_TAG) .

# What the stage prebuilt copies. An old builder builds that stage also for image-kops.
links:
	deploy/links.sh bin/links
	install -d -m 0700 bin/state
	install -m 0644 $(AUTHORITIES) bin/ca-certificates.crt

deps: ## as root, install the missing Debian packages that the tests need; otherwise print which tests are skipped
	@.ci/deps

clean: ## remove the files of the build and the demo
	rm -rf bin holdfast-demo holdfast-data
