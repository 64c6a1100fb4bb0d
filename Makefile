# The tasks of this repository, for people and for CI. Each target installs the tools that it needs in
# .cache.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
DEMO ?=
LISTEN ?= 127.0.0.1:8080
GO_PACKAGES = ./...
BINARIES = ./cmd/... ./services/.../cmd/... ./gateway/cmd/... ./agent/cmd/...
# The version that /api/version and --version report. It is the same in all builds of one commit.
VERSION = $(shell scripts/version.sh)

.PHONY: fuzz breaks help demo dev test test-long gen fmt lint race e2e identity bench chaos verify build python-test accept-api schemathesis

help:
	@echo "make demo    train, deploy and chat with a tiny model on this machine (DEMO=once exits after the chat)"
	@echo "make dev     run signalboxd with its data in .signalbox/dev"
	@echo "make test    all tests that CI runs; only a part of each long test matrix (TEST_SEED=N draws another part)"
	@echo "make test-long  all tests, with every row of each matrix"
	@echo "make race    like make test, with the race detector"
	@echo "make e2e     end-to-end tests with signalboxd and with one process per service"
	@echo "make chaos   kill each process in each stage of training and serving"
	@echo "make schemathesis  50 random requests, valid and invalid, to every API operation"
	@echo "make identity  tests of sign-in and access control, with all samples"
	@echo "make gen     regenerate the code from the protos"
	@echo "make verify  check generated code, modules, formatting and API compatibility"
	@echo "make lint    check Go code, protos, the OpenAPI document, migrations and wording"
	@echo "make fmt     format Go code and protos"
	@echo "make accept-api  accept breaking changes: the current API becomes the baseline of make verify"
	@echo "make breaks  check that the golden tests fail with each patch of test/contract/breaks"
	@echo "make fuzz    run every fuzz target for FUZZTIME (default 10m)"
	@echo "make bench   run the benchmarks"

build:
	@echo "building (about two minutes if the Go modules are not in the cache)"
	@mkdir -p bin
	@GOGC=off GOMEMLIMIT=2GiB go build -o bin/ -ldflags '-s -w -X github.com/signalbox-dev/signalbox/internal/version.build=$(VERSION)' $(BINARIES)

demo: build
	@scripts/tools/postgres.sh > /dev/null
	@bin/signalbox demo --listen $(LISTEN) $(if $(filter once,$(DEMO)),--once)

dev: build
	@scripts/tools/postgres.sh > /dev/null
	@bin/signalboxd --data .signalbox/dev --listen $(LISTEN)

test:
	@scripts/test.sh

test-long:
	@TEST_LONG=1 scripts/test.sh

race:
	@RACE=1 scripts/test.sh

e2e: build
	@scripts/tools/postgres.sh > /dev/null
	@go test -count=1 -timeout 20m ./test/e2e/...

chaos: build
	@scripts/tools/postgres.sh > /dev/null
	@CHAOS=all go test -count=1 -timeout 60m -v ./test/chaos/...

identity: build
	@scripts/tools/postgres.sh > /dev/null
	@IDENTITY=all go test -count=1 -timeout 60m -v ./test/identity/...

schemathesis: build
	@scripts/tools/postgres.sh > /dev/null
	@SCHEMATHESIS=$${SCHEMATHESIS:-50} go test -count=1 -timeout 90m -v -run TestSchemathesis ./test/contract

python-test:
	@scripts/python-test.sh

breaks:
	@scripts/tools/postgres.sh > /dev/null
	@scripts/breaks.sh

bench: build
	@scripts/tools/postgres.sh > /dev/null
	@go test -run '^$$' -bench . -benchtime 1x -timeout 60m ./test/load/... ./test/identity/...

fuzz:
	@scripts/fuzz.sh

gen:
	@scripts/gen.sh

fmt:
	@"$$(scripts/tools/golangci-lint.sh)" fmt
	@"$$(scripts/tools/buf.sh)" format -w proto

lint:
	@"$$(scripts/tools/golangci-lint.sh)" run $(GO_PACKAGES)
	@bin="$$(scripts/tools/golangci-lint.sh)"; cd tools; GOWORK=off "$$bin" run ./...
	@scripts/tools/protos.sh
	@"$$(scripts/tools/buf.sh)" lint proto
	@scripts/openapi-lint.sh
	@scripts/migration-lint.sh
	@GOWORK=off go -C tools run ./wording ..

verify:
	@scripts/verify.sh

accept-api:
	@scripts/api-gate.sh accept
