# The tasks of this repository, for people and for CI. Each target installs the tools that it needs in
# .cache.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
DEMO ?=
# The number of planned restarts and the number of kills in make chaos.
CHAOS_FAULTS ?= 200
# How often make chaos kills the bundled database server while runs report.
CHAOS_KILLS ?= 50
# How often make chaos kills the agent of a Slurm cluster.
CHAOS_SLURM ?= 200
LISTEN ?= 127.0.0.1:8080
GO_PACKAGES = ./...

.PHONY: bench-proxy bench-steady fuzz breaks help demo dev test test-long gen fmt lint race e2e identity bench scale chaos upgrade soak stress verify build console console-check console-test docs python-test accept-api schemathesis shots images images-test kube replicas

help:
	@echo "make demo    train, deploy and chat with a tiny model on this machine (DEMO=once exits after the chat)"
	@echo "make dev     run signalboxd with its data in .signalbox/dev"
	@echo "make build   build the programs with the console (CONSOLE=none leaves the console out)"
	@echo "make console  build only the console, for the next make build"
	@echo "make images  container images of the control plane, for amd64 and arm64, in dist/images"
	@echo "make images-test  load the images into podman and run them (needs root, podman and runc)"
	@echo "make docs    build the documentation site, which the next make build serves at /docs"
	@echo "make test    all tests that CI runs, with a sample of each large test table (TEST_SEED=N draws another sample)"
	@echo "make test-long  all tests, with every row of each table"
	@echo "make stress  the tests of each package again and again beside two busy loops, then all tests once (some two hours)"
	@echo "make race    like make test, with the race detector"
	@echo "make e2e     end-to-end tests with signalboxd and with one process per service: training, serving, the console, the guides, ways out"
	@echo "make chaos   kill each process in each stage of training and serving; restart and kill all parts CHAOS_FAULTS (200) times, the database CHAOS_KILLS (50) times, the agent of a Slurm cluster CHAOS_SLURM (200) times"
	@echo "make upgrade  upgrade and downgrade each service alone from the version of deploy/previous, under load; then all services"
	@echo "make soak    load an installation for SOAK (default 60m), with all retention ages divided by 1,000, and check that it does not grow"
	@echo "make schemathesis  50 random requests, valid and invalid, to every API operation"
	@echo "make identity  tests of sign-in and access control, with all samples"
	@echo "make kube    apply the Helm chart to a real API server of Kubernetes, which is built first (some ten minutes)"
	@echo "make gen     regenerate the code from the protos"
	@echo "make verify  check generated code, modules, formatting and API compatibility"
	@echo "make shots   screenshots of each console page in each look, on one contact sheet"
	@echo "make console-check  check the console: format, types, tests, texts and sizes"
	@echo "make console-test   walk the console in a browser, whole, and print what a user waits for"
	@echo "make lint    check Go code, protos, the OpenAPI document, migrations and wording"
	@echo "make fmt     format Go code and protos"
	@echo "make accept-api  accept breaking changes: the current API becomes the baseline of make verify"
	@echo "make breaks  check that the golden tests fail with each patch of test/contract/breaks"
	@echo "make fuzz    run every fuzz target for FUZZTIME (default 10m)"
	@echo "make bench   run the benchmarks"
	@echo "make bench-proxy  compare the inference proxy with nginx and the reverse proxy of the standard library (BENCH_ROUNDS rounds, 5)"
	@echo "make bench-steady  calls through the inference proxy at a fixed rate for BENCH_MINUTES (30), then without the database for BENCH_AWAY (5)"
	@echo "make replicas  one and two replicas of ingest and inference, each with half a core; one added, stopped and killed under load (needs root)"
	@echo "make scale   check the goals for speed and memory of a large installation (TEST_BIN=FOLDER measures the programs in FOLDER)"

build:
	@echo "building (about two minutes if the Go modules are not in the cache)"
	@scripts/build.sh

console:
	@scripts/console.sh

console-check:
	@scripts/console-check.sh

console-test: build
	@TEST_LONG=1 CONSOLE=all go test -count=1 -v -timeout 60m ./test/console

docs:
	@scripts/docs.sh

images:
	@scripts/images.sh

images-test:
	@scripts/images-test.sh

shots: build
	@scripts/shots.sh

demo: build
	@scripts/tools/postgres.sh > /dev/null
	@bin/signalbox demo --listen $(LISTEN) $(if $(filter once,$(DEMO)),--once)

dev: build
	@scripts/tools/postgres.sh > /dev/null
	@bin/signalboxd --data .signalbox/dev --listen $(LISTEN)

test:
	@scripts/test.sh

test-long:
	@TEST_LONG=1 TEST_SEED=$${TEST_SEED:-$$RANDOM} scripts/test.sh

stress:
	@scripts/stress.sh

race:
	@RACE=1 scripts/test.sh

e2e: build
	@scripts/tools/postgres.sh > /dev/null
	@go test -count=1 -timeout 20m ./test/e2e ./test/console ./test/guide ./test/waysout

upgrade: build
	@scripts/tools/postgres.sh > /dev/null
	@go test -count=1 ./test/upgrade
	@CHAOS_PREVIOUS="$$(scripts/previous.sh)" go test -count=1 -timeout 60m -v -run 'upgrade' ./test/chaos

soak: build
	@scripts/tools/postgres.sh > /dev/null
	@SOAK=$${SOAK:-60m} go test -count=1 -timeout 0 -v -run TestSoak ./test/soak

chaos: build
	@scripts/tools/postgres.sh > /dev/null
	@CHAOS=all CHAOS_FAULTS=$(CHAOS_FAULTS) CHAOS_KILLS=$(CHAOS_KILLS) CHAOS_SLURM=$(CHAOS_SLURM) CHAOS_SATURATION=$${CHAOS_SATURATION:-10m} CHAOS_AWAY=$${CHAOS_AWAY:-10m} CHAOS_PREVIOUS="$$(scripts/previous.sh)" go test -count=1 -timeout 240m -v ./test/chaos/...

identity: build
	@scripts/tools/postgres.sh > /dev/null
	@IDENTITY=all go test -count=1 -timeout 60m -v ./test/identity/...

schemathesis: build
	@scripts/tools/postgres.sh > /dev/null
	@SCHEMATHESIS=$${SCHEMATHESIS:-50} go test -count=1 -timeout 90m -v -run TestSchemathesis ./test/contract

kube: build
	@scripts/kube.sh

python-test:
	@scripts/python-test.sh

breaks:
	@scripts/tools/postgres.sh > /dev/null
	@scripts/breaks.sh

bench: build
	@scripts/tools/postgres.sh > /dev/null
	@go test -run '^$$' -bench . -skip '^Benchmark(Proxy|SteadyCalls|BusyStreams|Replicas)$$' -benchtime 1x -timeout 60m ./test/load/... ./test/identity/... ./services/ingest ./services/ingest/internal/metric ./services/jobs/internal/runsearch

bench-proxy: build
	@scripts/tools/postgres.sh > /dev/null
	@go test -count=1 -run '^$$' -bench '^BenchmarkProxy$$' -benchtime 1x -timeout 60m -v ./test/load

bench-steady: build
	@scripts/tools/postgres.sh > /dev/null
	@go test -count=1 -run '^$$' -bench '^Benchmark(SteadyCalls|BusyStreams)$$' -benchtime 1x -timeout 0 -v ./test/load

replicas: build
	@scripts/tools/postgres.sh > /dev/null
	@go test -count=1 -run '^$$' -bench '^BenchmarkReplicas$$' -benchtime 1x -timeout 30m -v ./test/load

scale: build
	@scripts/tools/postgres.sh > /dev/null
	@SCALE=full go test -count=1 -timeout 60m -v ./test/scale

fuzz:
	@scripts/fuzz.sh

gen:
	@scripts/gen.sh

fmt:
	@"$$(scripts/tools/golangci-lint.sh)" fmt
	@"$$(scripts/tools/buf.sh)" format -w proto

lint:
	@"$$(scripts/tools/golangci-lint.sh)" run $(GO_PACKAGES)
	@bin="$$(scripts/tools/golangci-lint.sh)"; for module in tools test/chart; do (cd $$module; GOWORK=off "$$bin" run ./...); done
	@scripts/tools/protos.sh
	@"$$(scripts/tools/buf.sh)" lint proto
	@scripts/openapi-lint.sh
	@scripts/migration-lint.sh
	@GOWORK=off go -C tools run ./wording ..

verify:
	@scripts/verify.sh

accept-api:
	@scripts/api-gate.sh accept
