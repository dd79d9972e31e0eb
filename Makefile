# Everything here needs Go alone: the tests find or start their own Postgres
# (DATABASE_URL, Docker, or local binaries) and say which in one line.

# cmd/errand, examples/ and lab/ are modules of their own, so that errand's go.mod is free of what a
# command line needs, of the ORMs and of errand's peers. Each is checked by its own go.mod. go.work
# lets go run ./cmd/errand and ./examples/quickstart work from here.
MODULES = . cmd/errand examples internal/progress lab web/browsertest
EACH = set -e; for module in $(MODULES); do cd $(CURDIR)/$$module;

export GOWORK = off

GOLANGCI = go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
FUZZTIME = 10s
# Up to Go 1.26 a fuzz run that has found nothing sometimes ends with "context deadline exceeded"
# (https://go.dev/issue/75804).
FUZZGO = GOTOOLCHAIN=go1.27.4

# One Postgres for all packages of a run: see backend/postgrestest/withpostgres.
WITHPOSTGRES = go run ./backend/postgrestest/withpostgres

.PHONY: help check check-lint check-tests fmt lint platforms test test-root test-others race browser screenshots cover fuzz bench chaos microbench quickstart examples

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

# The linters compute and the tests wait, so they run beside each other.
check: ## what to run after each change: build, vet, lint and the short tests of the first module
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run make fmt"; exit 1; }
	go vet ./...
	$(MAKE) --no-print-directory -j2 check-lint check-tests

check-lint:
	$(GOLANGCI) run ./...

check-tests:
	$(WITHPOSTGRES) go test -vet=off -short -p 4 -parallel 8 -timeout 5m ./...

fmt: ## format the code
	gofmt -w .

lint: ## check formatting, vet, and run the linters of .golangci.yml
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run make fmt"; exit 1; }
	$(EACH) go vet ./...; $(GOLANGCI) run ./...; done

platforms: ## build and vet for each system and architecture that errand is used on (ten minutes)
	.ci/platforms.sh

# The other modules are tested beside the first one, whose tests often wait. lint runs go vet.
test: ## run the tests; ERRAND_TESTS=whole adds each other driver and query mode, and gigabytes
	$(WITHPOSTGRES) $(MAKE) --no-print-directory -j2 test-root test-others

GOTEST = go test -vet=off -timeout 40m $(if $(filter whole,$(ERRAND_TESTS)),-count=1) ./...

test-root:
	$(GOTEST)

test-others:
	cd cmd/errand && $(GOTEST)
	cd examples && $(GOTEST)
	cd internal/progress && $(GOTEST)
	cd lab && $(GOTEST)

# modernc.org/sqlite/lib is C translated to Go: checking its memory accesses takes four times as long
# and finds no bug of ours. Not so all of modernc.org: the driver itself uses sync.Map, whose code the
# linker may take from any package that has it. From one that is not checked, it looks like a race.
RACE = -race -gcflags=modernc.org/sqlite/lib=-race=0 -gcflags=modernc.org/libc=-race=0

race: ## run the tests under the race detector (SHORT=1: with -short, PACKAGES: of these only); ERRAND_TESTS as for test
	$(EACH) go test $(RACE) $(if $(SHORT),-short) -timeout 30m $(or $(PACKAGES),./...); done

# Not part of make test, because it needs a Chromium.
browser: ## test the dashboard in Chromium (three minutes)
	cd web/browsertest && go test -vet=off -timeout 20m ./...

screenshots: ## write the pictures of the dashboard in docs/ anew
	cd web/browsertest && go test -vet=off -run TestDocPictures -update

cover: ## run every test and show the coverage of each function
	go test -timeout 20m -coverpkg=./queue/...,./engine/...,./middleware/...,./backend/... -coverprofile=coverage.out ./...
	go tool cover -func=coverage.out

fuzz: ## run each fuzz target for FUZZTIME
	@go list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r pkg dir; do \
		for target in $$(grep -hos '^func Fuzz[A-Za-z0-9_]*' "$$dir"/*_test.go | sed 's/func //'); do \
			echo "$$pkg $$target"; \
			$(FUZZGO) go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) "$$pkg" || exit 1; \
		done; \
	done

bench: ## measure errand against its peers (25 minutes)
	cd lab/bench && go run .

chaos: ## break processes, servers and networks, and count lost jobs (hours; SHORT=1: ten minutes)
	cd lab/chaos && go run . $(if $(SHORT),-short -parallel 2)

microbench: ## run the benchmarks beside the code
	go test -run '^$$' -bench . ./queue/... ./engine/... ./middleware/... ./backend/...

quickstart: ## run the README's example, on SQLite and on Postgres
	cd examples && DATABASE_URL= go run ./quickstart
	$(WITHPOSTGRES) sh -c 'cd examples && go run ./quickstart'

examples: ## run every example program
	@cd examples && for program in $$(go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./...); do \
		echo "--- $$program"; \
		case $$program in */dashboard) args="-addr localhost:0 -for 5s";; *) args=;; esac; \
		go run "$$program" $$args || exit 1; \
	done
