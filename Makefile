# Everything to build, run, test and measure Dipper on Debian 12 with a Swift toolchain.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
SWIFT ?= swift
# Hashing decides the order in which SwiftPM passes the traits; in another order SwiftPM would compile everything again.
# SwiftPM finds tests by the index, which needs nothing about the system's modules; leaving them out saves time.
# Line tables are enough to name the lines of a stack, and take less time than all that a debugger can show.
LINE_TABLES := -Xswiftc -gline-tables-only -Xcc -gline-tables-only
SWIFTPM = SWIFT_DETERMINISTIC_HASHING=1 $(SWIFT) $(1) \
	-Xswiftc -index-ignore-system-modules -Xswiftc -index-ignore-clang-modules $(LINE_TABLES)
BUILD := $(call SWIFTPM,build)
# Enters a package that depends on this one. Swift's package manager sees files that were added here, or are gone, only
# if the manifest of the package is newer than its plan.
ENTER = cd $(1) && touch Package.swift
# DIPPER_TESTS adds the tests and their programs to the package, `all` or those of one target; see Package.swift. A rule
# that needs the variable sets it.
unexport DIPPER_TESTS
TEST_BUILD := DIPPER_TESTS=all $(BUILD)

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
SOURCES := Package.swift Sources Tests Samples Benchmarks/Package.swift Benchmarks/Sources Benchmarks/GalleryBench \
	Benchmarks/SharingBench Benchmarks/peers/AsyncHTTPClient/Package.swift Benchmarks/peers/AsyncHTTPClient/Sources Fuzzing
# The packages that the library links, that the tests run against, and that the benchmarks compare with.
BUILD_PACKAGES := pkg-config libcurl4-openssl-dev libssl-dev libmnl-dev libsqlite3-dev libxxhash-dev zlib1g-dev \
	libzstd-dev libbrotli-dev libpng-dev libjpeg-dev liblcms2-dev libpixman-1-dev libgif-dev libwebp-dev libavif-dev
# The packages for the sample with a window. Its test runs on an X server without a screen.
GALLERY_PACKAGES := libgtk-4-dev
GALLERY_TEST_PACKAGES := $(GALLERY_PACKAGES) xvfb xauth imagemagick xdotool fonts-dejavu-core
# The accessibility bus, and what reads it.
GTK_TEST_PACKAGES := $(GALLERY_TEST_PACKAGES) at-spi2-core dbus python3-gi gir1.2-atspi-2.0
# gdb shows the stacks of tests that hang.
TEST_PACKAGES := nginx-light openssl curl ca-certificates iproute2 ffmpeg python3 gdb
BENCH_PACKAGES := $(TEST_PACKAGES) gcc libc6-dev python3-venv e2fsprogs chromium strace \
	libjpeg-dev libpng-dev libgdk-pixbuf-2.0-dev libvips-dev python3-dev zlib1g-dev libhiredis-dev redis-server wrk \
	libheif-examples heif-thumbnailer libjxl-tools

# Hundreds of tests at once would exceed their time limits on two cores.
AT_ONCE := 16
WIDTH := --experimental-maximum-parallelization-width
# Not with `grep -q`, which closes the pipe early: that counts as a failure.
TEST_WIDTH = $$([[ "$$($(SWIFT) test --help-hidden 2>/dev/null)" == *$(WIDTH)* ]] && echo $(WIDTH) $(AT_ONCE) || true)

TEST_PROGRAM = $$($(BUILD) --show-bin-path)/DipperPackageTests.xctest --testing-library swift-testing $(TEST_WIDTH)

# Runs $(1), and repeats its failures at the end of the output.
define tell-failures
	log=$$(mktemp); trap 'rm -f $$log' EXIT; \
	$(1) 2>&1 | tee $$log || { code=$$?; echo "== failed"; \
		grep -aE -A 3 'recorded an issue|(^|: )error: |Fatal error|WARNING: ThreadSanitizer|ERROR: (Address|Leak)Sanitizer' $$log | head -60; \
		exit $$code; }
endef

.PHONY: deps deps-test deps-bench build run proxy inspector-test gallery gallery-test gallery-bench serve server-test fleet gtk gtk-asan redis full tests test t check steady mutants lean lean-test tsan-all torture powercut soak api lint format tsan asan fuzz bench bench-build bench-quick docs clean

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

build: deps ## build all targets except the tests
	$(BUILD)

run: deps ## run the Scrolling sample against its own server, and draw .run/timeline.svg; with INSPECT=1 open a live page
	$(BUILD) --product Scrolling
	mkdir -p .run
	$$($(BUILD) --show-bin-path)/Scrolling --timeline .run/timeline.svg $(if $(INSPECT),--inspect)

GALLERY_FOLDER := $(CURDIR)/Samples/Gallery/.build
GALLERY_BUILD = $(BUILD) -c release --scratch-path $(GALLERY_FOLDER)
# An X server without a screen.
XVFB = xvfb-run -a -s "-screen 0 $(1)x24 -nolisten tcp"

gallery: deps ## open the GTK 4 sample: a window with a long list of photographs; with INSPECT=1 and a live page about its cache
	$(call install,$(GALLERY_PACKAGES))
	@if [ -z "$${WAYLAND_DISPLAY:-}$${DISPLAY:-}" ]; then \
		echo "There is no display to open a window on: neither WAYLAND_DISPLAY nor DISPLAY names one."; exit 3; fi
	$(call ENTER,Samples/Gallery) && $(GALLERY_BUILD) --product Gallery
	$(GALLERY_FOLDER)/release/Gallery $(GALLERY_OPTIONS) $(if $(INSPECT),--inspect)

proxy: PROXY_OPTIONS ?= --help
proxy: deps ## run the CacheProxy sample, an HTTP proxy, with PROXY_OPTIONS
	$(call PROGRAM,CacheProxy) $(PROXY_OPTIONS)

gallery-test: deps ## test the gallery sample on a virtual X server (Xvfb)
	$(call install,$(GALLERY_TEST_PACKAGES))
	$(call ENTER,Samples/Gallery) && $(BUILD) --build-tests
	@$(call tell-failures,$(call XVFB,1100x760) $(GALLERY_FOLDER)/debug/GalleryPackageTests.xctest --testing-library swift-testing)

SERVER_FOLDER := Samples/ImageServer/.build
SERVER_BUILD = $(call ENTER,Samples/ImageServer) && $(BUILD)
# One file, which needs no Swift on the server, and answers more requests than one that looks Swift's libraries up.
SERVER_RELEASE := -c release --static-swift-stdlib --product ImageServer
serve: deps ## run the ImageServer sample with photographs of its own, and print an example of a URL; with SERVER_OPTIONS
	$(call install,libhiredis-dev)
	$(SERVER_BUILD) $(SERVER_RELEASE)
	mkdir -p .run
	$(SERVER_FOLDER)/release/ImageServer serve --demo --folder .run/image-server $(SERVER_OPTIONS)

server-test: deps-test ## test the ImageServer sample
	$(call install,libhiredis-dev redis-server)
	$(SERVER_BUILD) --build-tests
	@$(call tell-failures,$(SERVER_FOLDER)/debug/ImageServerPackageTests.xctest --testing-library swift-testing $(TEST_WIDTH))

fleet: deps-test ## run four image servers, a Redis and an origin, send them a load and failures, print a table, and draw .run/fleet.svg
	$(call install,libhiredis-dev redis-server)
	$(SERVER_BUILD) $(SERVER_RELEASE)
	mkdir -p .run
	python3 Samples/ImageServer/fleet.py $(SERVER_FOLDER)/release/ImageServer --timeline .run/fleet.svg $(FLEET_OPTIONS)

# A folder of its own, because another trait compiles everything again.
ALL_FORMATS := GIF,WebP,AVIF,HEIC,JXL,SVG
FORMAT_PACKAGES := libheif-dev libde265-dev libjxl-dev librsvg2-dev
ALL_TRAITS := --traits GTK,Redis,Tracing,$(ALL_FORMATS) --scratch-path .build-traits
TRAIT_PACKAGES := $(GALLERY_PACKAGES) libhiredis-dev $(FORMAT_PACKAGES)
full: F ?= .
full: deps-test ## build all traits, and run the image tests that match F with all formats
	$(call install,$(TRAIT_PACKAGES) fonts-dejavu-core)
	DIPPER_TESTS=DipperTests $(BUILD) $(ALL_TRAITS) --product DipperPackageTests
	@$(call tell-failures,.build-traits/debug/DipperPackageTests.xctest --testing-library swift-testing \
		--filter '$(F)' $(TEST_WIDTH))

GTK_BUILD = DIPPER_TESTS=GTK $(BUILD) $(ALL_TRAITS)
# The tests set the other variables of GTK themselves.
gtk: F ?= .
# GTK has one thread.
gtk: AT_ONCE := 1
gtk: deps ## build the widgets for GTK 4 (product DipperGTK), and run their tests that match F on a virtual X server (Xvfb)
	$(call install,$(GTK_TEST_PACKAGES) $(TRAIT_PACKAGES))
	$(GTK_BUILD) --product DipperPackageTests
	@$(call tell-failures,$(call XVFB,1280x1024) \
		.build-traits/debug/DipperPackageTests.xctest --testing-library swift-testing --filter '$(F)' $(TEST_WIDTH))
	$(call TRAITS_API,--check)

REDIS_BUILD = DIPPER_TESTS=Redis $(BUILD) $(ALL_TRAITS)
redis: F ?= .
# Its tests start many programs, which a server must answer in time.
redis: AT_ONCE := 4
redis: deps-test ## build the tier on Redis or Valkey (product DipperRedis), and run its tests that match F with real servers
	$(call install,$(TRAIT_PACKAGES) redis-server)
	$(REDIS_BUILD) --product DipperPackageTests
	@$(call tell-failures,.build-traits/debug/DipperPackageTests.xctest --testing-library swift-testing \
		--filter '$(F)' $(TEST_WIDTH))

INSPECTOR_PYTHON := .run/inspector-venv/bin/python
inspector-test: PICTURES ?= .run/inspector
# The pictures of the guide and the README are now-light-1440.png and now-dark-1440.png of these.
inspector-test: deps ## test the inspector's page in headless Chromium, and write pictures of it to PICTURES (.run/inspector)
	-$(call install,chromium fonts-noto-core python3 python3-venv)
	$(BUILD) --product dipper
	@if ! command -v chromium >/dev/null; then echo "The inspector's page is not tested: there is no Chromium."; exit 0; fi; \
	mkdir -p .run; [ -x $(INSPECTOR_PYTHON) ] || python3 -m venv .run/inspector-venv; \
	$(INSPECTOR_PYTHON) -m pip install --quiet playwright axe-playwright-python; \
	$(INSPECTOR_PYTHON) Tests/Inspector/page_test.py $$($(BUILD) --show-bin-path)/dipper --pictures $(PICTURES)

# Swift's runtime is not suppressed here, so that a leak of an object in Swift is told too.
gtk-asan: F ?= .
gtk-asan: AT_ONCE := 1
gtk-asan: deps ## run the tests of the widgets that match F under Address Sanitizer
	$(call install,$(GTK_TEST_PACKAGES))
	DIPPER_TESTS=GTK $(BUILD) --traits GTK,GIF,WebP,AVIF --scratch-path .build-gtk-asan --sanitize=address \
		--product DipperPackageTests 2>&1 | grep -v 'Cannot export local symbol'
	@$(call tell-failures,ASAN_OPTIONS="detect_leaks=1 allocator_may_return_null=1" SWIFT_BACKTRACE=enable=no \
		LSAN_OPTIONS="suppressions=$(CURDIR)/Fuzzing/gtk-leaks.txt:print_suppressions=0" $(call XVFB,1280x1024) \
		.build-gtk-asan/debug/DipperPackageTests.xctest --testing-library swift-testing --filter '$(F)' $(TEST_WIDTH))

gallery-bench: SECONDS ?= 60
gallery-bench: deps ## scroll 10,000 photographs for SECONDS (60), in the gallery and in a naive program; write frames, memory and the first second to .run/gallery-*.json
	$(call install,$(GALLERY_TEST_PACKAGES))
	$(call ENTER,Benchmarks/GalleryBench) && $(GALLERY_BUILD) --product GalleryBench
	mkdir -p .run
	for program in dipper naive; do GDK_BACKEND=x11 GSK_RENDERER=cairo GTK_A11Y=none $(call XVFB,1100x760) \
		$(GALLERY_FOLDER)/release/GalleryBench $$program $(SECONDS) $(CURDIR)/.run/gallery-$$program.json; done
	GDK_BACKEND=x11 GSK_RENDERER=cairo GTK_A11Y=none $(call XVFB,1100x760) \
		$(GALLERY_FOLDER)/release/GalleryBench first 40 $(CURDIR)/.run/gallery-first.json

tests: deps-test
	python3 Tests/Structure/examples.py Tests/DocExamples/Generated.swift
	$(TEST_BUILD) --build-tests

# AGAIN is the number of times that a failed test may run again, alone: for CI, which then names it as flaky.
test: AGAIN ?= 0
test: tests ## run all tests but those that need minutes (see check)
	python3 Tests/Steady/steady.py --runs 1 --limit 600 --again $(AGAIN) -- $(TEST_PROGRAM)

# One target's tests, those that match F: `make t T=Behaviour F=Retry`.
t: T ?= Behaviour
t: F ?= .
t: deps-test ## build the tests of one target T (Behaviour), and run those that match F (all)
	DIPPER_TESTS=$(T) $(BUILD) --product DipperPackageTests
	$(TEST_PROGRAM) --filter '$(F)'

# Each step runs, whatever became of those before it.
check: ## run what needs minutes: all tests thrice, sanitizers, fuzzers, kills, power cuts, guides, mutants; list what passed
	@export DIPPER_CHECK=1; Tests/Steady/check.sh "steady RUNS=3" "steady RUNS=1 LOAD=2" tsan-all asan "fuzz SECONDS=60" "fuzz-c SECONDS=60" \
		lean-test "powercut STATES=10000" "torture SECONDS=600" "soak MINUTES=10" inspector-test gallery-test server-test gtk gtk-asan redis full docs mutants bench-quick

# A suite that fails now and then proves nothing: a change is merged only if the suite passes every time.
steady: RUNS ?= 20
steady: LOAD ?= 0
steady: tests ## run all tests RUNS times (20) beside LOAD busy processes (0), and list failed and hung tests
	$(call install,$(if $(filter-out 0,$(LOAD)),stress-ng))
	python3 Tests/Steady/steady.py --runs $(RUNS) --load $(LOAD) --logs .run/steady -- $(TEST_PROGRAM)

mutants: MUTANTS ?=
mutants: deps-test ## break the library in one place at a time, those matching MUTANTS (all), and see a test fail
	python3 Tests/Steady/mutants.py --swift $(SWIFT) --only '$(MUTANTS)'

# Builds the program without the tests, and shows its output as it is printed.
PROGRAM = $(TEST_BUILD) --product $(1) && $$($(BUILD) --show-bin-path)/$(1)

torture: SECONDS ?= 600
torture: deps ## repeatedly kill eight processes that share cache folders, for SECONDS (600), and check the folders
	$(call PROGRAM,StoreTorture) --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

powercut: STATES ?= 10000
powercut: deps ## open the store in STATES (10000) states that a power cut can leave on disk
	$(call PROGRAM,PowerCut) --states $(STATES) $(if $(SEED),--seed $(SEED))

soak: MINUTES ?= 60
soak: deps ## make random calls to both caches for MINUTES (60) while resources fail, and look for leaks
	$(call PROGRAM,Soak) --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

# Builds no more than the libraries; `make tests` goes on with what is built.
API = $(BUILD) --target DipperTesting && $(BUILD) --target DipperInspector && \
	python3 Tests/Structure/api.py --swift $(SWIFT) $(1) $$($(BUILD) --show-bin-path)

TRAITS_API = $(GTK_BUILD) --target DipperGTK && $(GTK_BUILD) --target DipperRedis && $(GTK_BUILD) --target DipperTracing && \
	python3 Tests/Structure/api.py --swift $(SWIFT) $(1) --libraries DipperGTK DipperRedis DipperTracing -- .build-traits/debug

api: deps ## write the public declarations of the libraries into the folder API
	$(call install,python3 $(TRAIT_PACKAGES))
	$(call API)
	$(call TRAITS_API)

lint: deps ## check the format of the sources, the order of their folders, what dependants get, the summaries, the public declarations, the README's figures, and the tests' time limits
	$(call install,python3)
	$(SWIFT) format lint --strict --recursive --configuration .swift-format $(SOURCES)
	python3 Tests/Structure/layers.py
	$(SWIFT) package dump-package | python3 Tests/Structure/dependencies.py
	python3 Tests/Structure/summaries.py Sources Samples Benchmarks/Sources Benchmarks/GalleryBench Benchmarks/SharingBench Tests
	python3 Tests/Structure/figures.py README.md Benchmarks/RESULTS.md
	python3 Tests/Steady/time_limits.py Tests/Behaviour Tests/*Tests Samples/Gallery/Tests/* Samples/ImageServer/Tests/*
	$(call API,--check)

format: ## format the sources
	$(SWIFT) format format --in-place --recursive --configuration .swift-format $(SOURCES)

# Skips tests that limit or measure memory, of which the sanitizer itself takes much, that look at malloc's blocks, for which
# it has an allocator of its own, one for which ten milliseconds must be enough to remove a few entries, and one that makes
# calls without a pause until slow readers have been dropped, which leaves the others no time.
TSAN_SKIP := HostileAnswerTests/memory|PixelMemoryTests/refusedMemory|PooledMemoryTests/written|BodyMemoryTests/read|DiskLimitTests/limit|InspectorTests/slowReaders|InspectorTests/hourOfTraffic

# Fewer tests at a time, because tests are slower under the sanitizer and have the same time limits.
tsan tsan-all: AT_ONCE := 8
# The tests of the engine and the store, which are those that concurrency can break, by default.
tsan: T ?= Behaviour
tsan: F ?= .
tsan: TSAN_SKIP := $(TSAN_SKIP)|Image|Display|ListLoader|Animat|Namespace|Hostile|NameLookUp|TLS|TimeLimit
tsan-all: F ?= .
tsan tsan-all: deps-test ## run the tests of the engine and the store under Thread Sanitizer; tsan-all: all tests
	DIPPER_TESTS=$(or $(T),all) $(BUILD) $(if $(T),--product DipperPackageTests,--build-tests) \
		--sanitize=thread --scratch-path .build-tsan
	$$(dirname $$(readlink -f $$(command -v $(SWIFT))))/clang -O1 -shared -fPIC -o .build-tsan/libmutex.so \
		Tests/ThreadSanitizer/mutex.c -ldl
	@$(call tell-failures,LD_PRELOAD=$(CURDIR)/.build-tsan/libmutex.so DIPPER_WORKLOAD=10 TSAN_OPTIONS="halt_on_error=0 exitcode=66 atexit_sleep_ms=50" \
		.build-tsan/debug/DipperPackageTests.xctest --testing-library swift-testing \
		--filter '$(F)' --skip '$(TSAN_SKIP)' $(TEST_WIDTH))

# One build serves the tests under Address Sanitizer and the fuzzers: every module tells libFuzzer which edges it took,
# and libFuzzer is linked into each program, but runs only in that of the fuzzers.
COVERAGE := inline-8bit-counters,pc-table,trace-cmp
SWIFT_FOLDER = $$(dirname $$(readlink -f $$(command -v $(SWIFT))))
ASAN_BUILD = DIPPER_TESTS=DipperTests $(BUILD) --build-tests --sanitize=address --scratch-path .build-asan \
	-Xswiftc -sanitize-coverage=edge,$(COVERAGE) -Xcc -fsanitize-coverage=$(COVERAGE) \
	--traits $(ALL_FORMATS) -Xlinker $$(ls $(SWIFT_FOLDER)/../lib/clang/*/lib/linux/libclang_rt.fuzzer_no_main-$$(uname -m).a) \
	-Xlinker -u -Xlinker LLVMFuzzerRunDriver -Xlinker -lstdc++

# New memory is filled while HEIC is decoded, by the C library's allocator. The sanitizer has its own.
ASAN_FILL := max_malloc_fill_size=2000000000

# Runs only the image tests. leaks.txt suppresses leaks of the test program and of Swift's runtime.
asan: deps-test ## run the image tests (target DipperTests) under Address Sanitizer
	$(call install,$(FORMAT_PACKAGES))
	$(ASAN_BUILD) 2>&1 | grep -v 'Cannot export local symbol'
	@$(call tell-failures,ASAN_OPTIONS="detect_leaks=1 allocator_may_return_null=1 $(ASAN_FILL)" \
		LSAN_OPTIONS="suppressions=$(CURDIR)/Fuzzing/leaks.txt" SWIFT_BACKTRACE=enable=no \
		.build-asan/debug/DipperPackageTests.xctest --testing-library swift-testing $(TEST_WIDTH))

# Each fuzzer starts from the tests' pictures of its own format, or from Fuzzing/texts. Two fuzzers run at a time.
FUZZ_TARGETS ?= header jpeg png apng gif webp avif heic jxl svg bmp ico encode dataURL fields contentRange cacheControl record messages
fuzz: SECONDS ?= 20
fuzz: deps-test ## run the fuzzers, each for SECONDS (20)
	$(call install,$(FORMAT_PACKAGES))
	$(ASAN_BUILD) 2>&1 | grep -v 'Cannot export local symbol'
	@cd Fuzzing && mkdir -p findings && printf '%s\n' $(FUZZ_TARGETS) | xargs -P 2 -I TARGET bash -c ' \
		mkdir -p .fuzz/TARGET && DIPPER_FUZZ=TARGET SWIFT_BACKTRACE=enable=no ASAN_OPTIONS=$(ASAN_FILL) ../.build-asan/debug/DipperFuzz \
			-max_total_time=$(SECONDS) -rss_limit_mb=2048 -timeout=10 -max_len=65536 -print_final_stats=1 -verbosity=0 \
			-artifact_prefix=findings/TARGET- .fuzz/TARGET \
			$$(ls -d texts/TARGET 2>/dev/null || ls -d ../Tests/DipperTests/Pictures/*/) >.fuzz/TARGET.log 2>&1; \
		code=$$?; echo "== TARGET: $$(grep -ao "number_of_executed_units: .*" .fuzz/TARGET.log || echo failed)"; \
		if [ $$code != 0 ]; then tail -60 .fuzz/TARGET.log; echo "the finding is in Fuzzing/findings"; exit 1; fi'

# In C alone, with undefined behaviour trapped: decoders of our own beside libpng, libjpeg-turbo and giflib.
C_FUZZERS := png jpeg gif
PNG_FUZZ := $(foreach folder,CFastPNG CodecShims,-ISources/$(folder)/include Sources/$(folder)/*.c) -lpng -ljpeg -lz
GIF_FUZZ := -ISources/CPixels/include Sources/CPixels/gif.c -lgif
fuzz-c: SECONDS ?= 20
fuzz-c: deps-test ## run the fuzzers that compare decoders in C with libpng, libjpeg-turbo and giflib, each for SECONDS (20)
	@mkdir -p Fuzzing/findings $(C_FUZZERS:%=Fuzzing/.fuzz/c-%)
	@build() { $(SWIFT_FOLDER)/clang -g -O1 -fsanitize=address,undefined,fuzzer -fno-sanitize-recover=undefined \
		-fuse-ld=lld -o Fuzzing/.fuzz/$$1_fuzz Fuzzing/C/$$1_fuzz.c "$${@:2}"; }; \
	build png $(PNG_FUZZ); build jpeg $(PNG_FUZZ); build gif $(GIF_FUZZ)
	@cd Fuzzing && for format in $(C_FUZZERS); do .fuzz/$${format}_fuzz -max_total_time=$(SECONDS) -max_len=40000 \
		-timeout=10 -verbosity=0 -artifact_prefix=findings/c-$$format- .fuzz/c-$$format \
		../Tests/DipperTests/Pictures/$$format; done

# A separate folder, so that the next ordinary build stays incremental.
LEAN_FOLDER := .build-lean
lean: deps ## build the libraries without the optional formats
	$(BUILD) --target Dipper --disable-default-traits --scratch-path $(LEAN_FOLDER)

lean-test: deps-test ## build the image tests without the optional formats, and run them
	DIPPER_TESTS=DipperTests $(BUILD) --build-tests --disable-default-traits --scratch-path $(LEAN_FOLDER)
	@$(call tell-failures,$(LEAN_FOLDER)/debug/DipperPackageTests.xctest --testing-library swift-testing $(TEST_WIDTH))

BENCH_BUILD = $(call ENTER,Benchmarks) && $(BUILD) -c release --product dipper-bench

# A debug build in the library's own build folder, so that the library is not compiled again.
bench-build: deps ## see that the benchmark compiles
	$(call ENTER,Benchmarks) && $(BUILD) --scratch-path $(CURDIR)/.build --product dipper-bench

bench-quick: deps-test ## measure the most important ratios in two minutes, beside those of the last full run
	$(call install,gcc libc6-dev e2fsprogs)
	$(BENCH_BUILD)
	cd Benchmarks && .build/release/dipper-bench --quick

bench: deps-bench ## compare speed with other libraries and programs, and write Benchmarks/RESULTS.md
	$(call install,$(TRAIT_PACKAGES))
	$(BENCH_BUILD)
	$(BUILD) $(ALL_TRAITS) -c release --product dipper
	cd Benchmarks/peers/AsyncHTTPClient && $(BUILD) -c release
	$(SERVER_BUILD) $(SERVER_RELEASE)
	$(call ENTER,Benchmarks/SharingBench) && $(BUILD) -c release
	cd Benchmarks && .build/release/dipper-bench

docs: deps ## build the reference and the guides of the modules into docs-build
	$(call install,$(TRAIT_PACKAGES))
	DIPPER_DOCS=1 $(call SWIFTPM,package) $(ALL_TRAITS) --allow-writing-to-directory docs-build generate-documentation \
		--target DipperData --target Dipper --target DipperTesting --target DipperInspector --target DipperGTK --target DipperRedis --target DipperTracing --enable-experimental-combined-documentation \
		--output-path docs-build --transform-for-static-hosting --warnings-as-errors

clean:
	rm -rf .build .build-tsan .build-asan .build-lean .build-traits .build-gtk-asan .run .mutants docs-build Benchmarks/.build Benchmarks/.work \
		Benchmarks/peers/AsyncHTTPClient/.build Benchmarks/SharingBench/.build Fuzzing/.fuzz \
		Samples/Gallery/.build Samples/ImageServer/.build
