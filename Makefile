# Everything to build, run, test and measure Dipper on Debian 12 with a Swift toolchain.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
SWIFT ?= swift

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
SOURCES := Package.swift Sources Tests Samples Benchmarks/Package.swift Benchmarks/Sources Fuzzing/Package.swift \
	Fuzzing/Sources
# What the library links, what the tests run against, what the benchmarks compare with.
BUILD_PACKAGES := pkg-config libcurl4-openssl-dev libmnl-dev libsqlite3-dev libxxhash-dev zlib1g-dev \
	libpng-dev libjpeg-dev liblcms2-dev libpixman-1-dev libgif-dev libwebp-dev libavif-dev
# The sample with a window; its test runs on an X server without a screen.
GALLERY_PACKAGES := libgtk-4-dev
GALLERY_TEST_PACKAGES := $(GALLERY_PACKAGES) xvfb xauth imagemagick xdotool fonts-dejavu-core
TEST_PACKAGES := nginx-light openssl curl ca-certificates iproute2 ffmpeg
BENCH_PACKAGES := $(TEST_PACKAGES) gcc libc6-dev python3 python3-venv e2fsprogs chromium \
	libjpeg-dev libpng-dev libgdk-pixbuf-2.0-dev libvips-dev

# Hundreds of tests at once open more files than Foundation's Process can count without crashing.
WIDTH := --experimental-maximum-parallelization-width
TEST_WIDTH = $$($(SWIFT) test --help-hidden 2>/dev/null | grep -q -e $(WIDTH) && echo $(WIDTH) 16 || true)

# Runs $(1), and says at the end once more which tests failed and how.
define tell-failures
	log=$$(mktemp); trap 'rm -f $$log' EXIT; \
	$(1) 2>&1 | tee $$log || { code=$$?; echo "== failed"; \
		grep -aE -A 3 'recorded an issue|(^|: )error: |Fatal error|WARNING: ThreadSanitizer|ERROR: (Address|Leak)Sanitizer' $$log | head -60; \
		exit $$code; }
endef

.PHONY: deps deps-test deps-bench build run gallery gallery-test gallery-bench test lean torture lint format tsan asan fuzz bench docs clean

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

build: deps ## build the library and the tool
	$(SWIFT) build

run: deps ## replay a person scrolling through pictures, from a server of the sample's own
	$(SWIFT) build --product Scrolling
	mkdir -p .run
	$$($(SWIFT) build --show-bin-path)/Scrolling --timeline .run/timeline.svg

GALLERY_BUILD = cd Samples/Gallery && $(SWIFT) build -c release --product Gallery
GALLERY_TEST_BUILD = $(SWIFT) build -c release --scratch-path .build-test
GALLERY = $$($(SWIFT) build -c release --show-bin-path)/Gallery

gallery: deps ## open a window with a long list of photographs
	$(call install,$(GALLERY_PACKAGES))
	@if [ -z "$${WAYLAND_DISPLAY:-}$${DISPLAY:-}" ]; then \
		echo "There is no display to open a window on: neither WAYLAND_DISPLAY nor DISPLAY names one."; exit 3; fi
	$(GALLERY_BUILD)
	cd Samples/Gallery && $(GALLERY) $(GALLERY_OPTIONS)

# A build of its own, and the test program directly: with tests, and after `swift test`, a release build compiles
# everything anew.
gallery-test: deps ## scroll the gallery on an X server without a screen, and look at it
	$(call install,$(GALLERY_TEST_PACKAGES))
	cd Samples/Gallery && $(GALLERY_TEST_BUILD) --build-tests
	@cd Samples/Gallery && $(call tell-failures,$$($(GALLERY_TEST_BUILD) --show-bin-path)/GalleryPackageTests.xctest \
		--testing-library swift-testing)

# The memory limit is one that is reached in the first half of a minute.
gallery-bench: SECONDS ?= 60
gallery-bench: deps ## scroll 5,000 rows of the gallery for SECONDS (60), and measure frames and memory
	$(call install,$(GALLERY_TEST_PACKAGES))
	$(GALLERY_BUILD)
	mkdir -p .run
	cd Samples/Gallery && GDK_BACKEND=x11 GSK_RENDERER=cairo GTK_A11Y=none xvfb-run -a -s "-screen 0 1100x760x24 -nolisten tcp" \
		$(GALLERY) --rows 5000 --memory 64 --scroll-for $(SECONDS) --report $(CURDIR)/.run/gallery.json

test: deps-test ## run all tests
	$(SWIFT) build --build-tests
	@$(call tell-failures,$(SWIFT) test --skip-build $(TEST_WIDTH))

torture: deps-test ## kill a writing process a thousand times
	DIPPER_TORTURE_ROUNDS=1000 $(SWIFT) test --filter TortureTests

lint: ## check the form of the sources
	$(SWIFT) format lint --strict --recursive --configuration .swift-format $(SOURCES)

format: ## bring the sources into form
	$(SWIFT) format format --in-place --recursive --configuration .swift-format $(SOURCES)

# Those that measure time or memory say nothing under a sanitizer that takes both, and ffmpeg is not watched by it.
TSAN_SKIP := Hostile|VideoFrameTests|VideoAttackTests|NetworkNamespaceTests|KernelMemoryPressureTests/(limit|stalls)

tsan: deps-test ## run the tests under Thread Sanitizer
	$(SWIFT) build --build-tests --sanitize=thread --scratch-path .build-tsan
	$$(dirname $$(readlink -f $$(command -v $(SWIFT))))/clang -O1 -shared -fPIC -o .build-tsan/libmutex.so \
		Tests/ThreadSanitizer/mutex.c -ldl
	@$(call tell-failures,LD_PRELOAD=$(CURDIR)/.build-tsan/libmutex.so TSAN_OPTIONS="halt_on_error=0 exitcode=66" \
		DIPPER_TORTURE_ROUNDS=3 .build-tsan/debug/DipperPackageTests.xctest --testing-library swift-testing \
		--skip '$(TSAN_SKIP)' $(TEST_WIDTH))

# The suites of the library alone; leaks of the test program and of Swift's runtime are not ours.
asan: deps-test ## run the codec tests under Address Sanitizer
	$(SWIFT) build --build-tests --sanitize=address --scratch-path .build-asan
	@$(call tell-failures,ASAN_OPTIONS="detect_leaks=1 allocator_may_return_null=1" \
		LSAN_OPTIONS="suppressions=$(CURDIR)/Fuzzing/leaks.txt" SWIFT_BACKTRACE=enable=no \
		.build-asan/debug/DipperPackageTests.xctest --testing-library swift-testing --filter '^DipperTests\.' $(TEST_WIDTH))

# Each begins with the pictures of the tests; those of other formats it leaves out.
FUZZ_TARGETS ?= header jpeg png gif webp avif encode
FUZZ_BUILD = $(SWIFT) build -c release --sanitize=address --sanitize=fuzzer
fuzz: SECONDS ?= 20
fuzz: deps ## run the fuzzers, each for SECONDS (20)
	cd Fuzzing && $(FUZZ_BUILD)
	cd Fuzzing && mkdir -p findings && fuzz=$$($(FUZZ_BUILD) --show-bin-path)/dipper-fuzz && failed= && \
	for target in $(FUZZ_TARGETS); do \
		mkdir -p .fuzz/$$target; \
		echo "== $$target"; \
		DIPPER_FUZZ=$$target SWIFT_BACKTRACE=enable=no $$fuzz -max_total_time=$(SECONDS) -rss_limit_mb=2048 -timeout=10 \
			-max_len=65536 -print_final_stats=0 -verbosity=0 -artifact_prefix=findings/$$target- \
			.fuzz/$$target ../Tests/DipperTests/Pictures/*/ || failed="$$failed $$target"; \
	done; \
	if [ -n "$$failed" ]; then echo "findings of$$failed are in Fuzzing/findings"; exit 1; fi

lean: deps-test ## build and test without the optional formats
	$(SWIFT) build --build-tests --disable-default-traits --scratch-path .build-lean
	@$(call tell-failures,$(SWIFT) test --skip-build --disable-default-traits --scratch-path .build-lean \
		--filter '^DipperTests\.' $(TEST_WIDTH))

bench: deps-bench ## measure against the peers and write Benchmarks/RESULTS.md
	cd Benchmarks && $(SWIFT) build -c release -Xswiftc -enable-testing
	cd Benchmarks && $$($(SWIFT) build -c release -Xswiftc -enable-testing --show-bin-path)/dipper-bench

docs: deps ## build the reference and the guides of both modules into docs-build
	$(SWIFT) package --allow-writing-to-directory docs-build generate-documentation \
		--target DipperData --target Dipper --enable-experimental-combined-documentation \
		--output-path docs-build --transform-for-static-hosting --warnings-as-errors

clean:
	rm -rf .build .build-tsan .build-asan .build-lean .run docs-build Benchmarks/.build Benchmarks/.work Fuzzing/.build Fuzzing/.fuzz \
		Samples/Gallery/.build Samples/Gallery/.build-test
