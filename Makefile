# Everything to build, run, test and measure Dipper on Debian 12 with a Swift toolchain.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
SWIFT ?= swift

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
# What the library links, what the tests run against, what the benchmarks compare with.
BUILD_PACKAGES := pkg-config libcurl4-openssl-dev libsqlite3-dev libxxhash-dev
TEST_PACKAGES := nginx-light openssl curl ca-certificates
BENCH_PACKAGES := $(TEST_PACKAGES) gcc libc6-dev python3 python3-venv e2fsprogs

.PHONY: deps deps-test deps-bench build run test torture lint format tsan bench docs clean

define install
	@missing=$$(for p in $(1); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	if [ -n "$$missing" ]; then \
		echo "installing: $$missing"; \
		$(SUDO) apt-get update -qq; \
		DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi
endef

deps: ## install the system packages the library needs
	$(call install,$(BUILD_PACKAGES))

deps-test: deps
	$(call install,$(TEST_PACKAGES))

deps-bench: deps-test
	$(call install,$(BENCH_PACKAGES))
