# Shortcuts; the build itself uses CMake and Ninja (CMakePresets.json).
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
# Many tests spend most of their time waiting.
TEST_JOBS ?= $(shell expr 2 '*' $(JOBS))
CTEST_OPTIONS ?=
JUNIT ?= $(CURDIR)/build/dev/tests.xml

.PHONY: help demo test soak lint tidy format install site deb deb-test clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo                 build, run a job of 4 processes, also over UDP, measure, show the picture'
	@echo 'make test                 build for development and run the tests'
	@echo 'make install PREFIX=DIR   build and install (default $(PREFIX))'
	@echo 'make site                 make the web site in build/site: documents, manual pages, search'
	@echo 'make deb                  build Debian packages in build/deb'
	@echo 'make deb-test             build and test them: installed in a bare system, upgraded, removed'
	@echo 'make soak                 takes hours: sanitizers with many ranks, thousands of seeds, fuzzing'
	@echo 'make lint                 check style, layering, headers, exports, man pages'
	@echo 'make tidy                 a second opinion on src and tools, by clang-tidy'
	@echo 'make format               run clang-format over all C and C++ sources'
	@echo 'make clean                remove build/'
	@echo 'On Debian each installs the packages it needs with apt-get (.ci/install-deps.sh).'
	@echo 'More: README.md; presets for sanitizers, fuzzing and coverage: cmake --list-presets'

# An existing build is configured again, as packages may have been installed since.
configure = if [ -f build/$(1)/build.ninja ]; then cmake build/$(1) >/dev/null; \
    else cmake --preset $(1) $(2); fi

.PHONY: release dev
# Without tests, unless a developer has configured this build with them.
release:
	@.ci/install-deps.sh build
	@$(call configure,release,-DAQ_BUILD_TESTS=OFF)
	cmake --build --preset release -j $(JOBS)

dev:
	@.ci/install-deps.sh test
	@$(call configure,dev)
	cmake --build --preset dev -j $(JOBS)

demo: release
	@examples/demo.sh build/release

test: dev
	@rm -f "$(JUNIT)"; \
	ctest --preset dev -j $(TEST_JOBS) --output-junit "$(JUNIT)" $(CTEST_OPTIONS); code=$$?; \
	python3 tests/skipped.py "$(JUNIT)"; exit $$code

soak:
	@bash .ci/run soak

lint: dev
	@ctest --preset dev -j $(JOBS) -L lint

tidy: dev
	@.ci/install-deps.sh tidy
	@git ls-files 'src/*.c' 'tools/*.c' | grep -v _test.c | \
	    xargs -n 4 -P $(JOBS) clang-tidy --quiet -p build/dev 2>/dev/null

format:
	@.ci/install-deps.sh format
	@git ls-files -z '*.c' '*.h' '*.cc' '*.cpp' | xargs -0 clang-format-14 -i

install: release
	@case "$(PREFIX)" in /*) prefix="$(PREFIX)" ;; *) prefix="$$PWD/$(PREFIX)" ;; esac; \
	cmake --install build/release --prefix "$$prefix" && echo \
	    "Installed. To build with it: export PKG_CONFIG_PATH=\"$$prefix/lib/pkgconfig\""

site: release
	@.ci/install-deps.sh site
	@python3 tools/dev/site/site.py . build/release/man build/site

deb:
	@.ci/install-deps.sh deb
	@tools/dev/mkdeb.sh build/deb && ls build/deb/*.deb

deb-test:
	@.ci/install-deps.sh deb-test
	@tests/package/package.sh build/deb $(DEB_TEST) || [ $$? -eq 77 ]

clean:
	rm -rf build
