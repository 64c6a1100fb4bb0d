# Everything that is done here by hand or by CI. Each target sets up what it needs in .cache.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
DEMO ?=
LISTEN ?= 127.0.0.1:8080
GO_PACKAGES = ./...
BINARIES = ./cmd/... ./services/.../cmd/... ./gateway/cmd/... ./agent/cmd/...
# What /api/version and --version say: the same for everyone who builds the same commit.
VERSION = $(shell scripts/version.sh)

.PHONY: fuzz breaks help demo dev test test-long gen fmt lint race e2e identity bench chaos verify build python-test accept-api schemathesis

help:
	@echo "make demo    train, deploy and chat with a tiny model on this machine (DEMO=once ends by itself)"
	@echo "make dev     run signalboxd with its data in .signalbox/dev"
	@echo "make test    all tests that CI runs, long matrices by a sample (TEST_SEED=N repeats one)"
	@echo "make test-long  all tests, every matrix whole"
	@echo "make race    the same with the race detector"
	@echo "make e2e     the whole loop, both shapes  make chaos  the whole kill matrix"
	@echo "make schemathesis  random requests to every operation, valid and invalid, 50 examples each"
	@echo "make identity  sign-in and access, every figure at full length"
	@echo "make gen     regenerate from the protos   make verify generated code, modules and formats are up to date"
	@echo "make lint    golangci-lint, buf, the OpenAPI document, wording  make fmt    format"
	@echo "make accept-api  accept breaking changes: the current API becomes the baseline of make verify"
	@echo "make breaks  plants each break of test/contract/breaks and sees its goldens turn red"
	@echo "make fuzz    every fuzz target for FUZZTIME (10m) each"
	@echo "make bench   measured figures"

build:
	@echo "building (a cold module cache takes some two minutes)"
	@mkdir -p bin
	@GOGC=400 go build -o bin/ -ldflags '-s -w -X github.com/signalbox-dev/signalbox/internal/version.build=$(VERSION)' $(BINARIES)

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
	@scripts/tools/protos.sh
	@"$$(scripts/tools/buf.sh)" lint proto
	@scripts/openapi-lint.sh
	@GOWORK=off go -C tools run ./wording ..

verify:
	@scripts/verify.sh

accept-api:
	@scripts/api-gate.sh accept
