# ffpack: `make help` lists the targets.
BUILD    ?= build
# A relative path, so that each object has one name, also in dependencies.
ifneq ($(words $(BUILD)),1)
$(error BUILD=$(BUILD): the folder for what is built needs a name without blanks)
endif
override BUILD := $(patsubst %/,%,$(patsubst ./%,%,$(patsubst $(CURDIR)/%,%,$(subst //,/,$(BUILD)))))
ifeq ($(words $(CURDIR)),1)
$(CURDIR)/%: % ; @:
endif
# -n or -q: nothing is installed, kept or recorded.
DRY := $(strip $(foreach flag,n q,$(findstring $(flag),$(firstword -$(MAKEFLAGS)))))
GOALS := $(or $(MAKECMDGOALS),all)
# `make clean all` removes BUILD before anything in it is read.
CLEANED := $(and $(filter clean,$(GOALS)),$(filter-out clean,$(GOALS)))
ifneq ($(filter clean,$(GOALS)),)
# Never / or a parent of this folder.
$(if $(and $(BUILD),$(filter-out /,$(abspath $(BUILD))),$(filter-out $(abspath $(BUILD))/%,$(CURDIR)/)),,\
    $(error BUILD=$(BUILD): make clean does not remove this folder))
endif
ifeq ($(MAKE_RESTARTS)$(DRY)$(if $(CLEANED),,none),)
$(shell rm -rf $(BUILD))
endif
# Variables that make is started with. Values set once hold for later calls, until others are set or `make
# clean`.
-include $(BUILD)/settings.mk
SETTINGS := CC CXX PYTHON CPPFLAGS CFLAGS LDFLAGS DNNL DNNL_ROOT CUDA CUDA_HOME CUDA_ROOT CUDA_ARCHS MPI MPICC \
            PKG_CONFIG_PATH CROSS SYSROOT
unset     = $(filter undefined default,$(origin $(1)))
GIVEN    := $(foreach name,$(SETTINGS),$(if $(call unset,$(name)),$(if $(call unset,kept_$(name)),,$(name)),$(name)))
setting   = $(if $(call unset,$(1)),$(if $(call unset,kept_$(1)),$(2),$(kept_$(1))),$($(1)))
# For another architecture: its name, like aarch64-linux-gnu, and the folder with its libraries (`make sysroot`).
CROSS      := $(call setting,CROSS)
SYSROOT    := $(call setting,SYSROOT,$(CROSS:%=$(CURDIR)/build/sysroot/%))
compiler    = $(if $(CROSS),$(CROSS)-$(1) --sysroot=$(SYSROOT),$(1))
CC         := $(call setting,CC,$(call compiler,gcc))
CXX        := $(call setting,CXX,$(call compiler,g++))
PYTHON     := $(call setting,PYTHON,/usr/bin/python3)
CPPFLAGS   := $(call setting,CPPFLAGS)
CFLAGS     := $(call setting,CFLAGS,-O3 -g)
LDFLAGS    := $(call setting,LDFLAGS)
DNNL       := $(call setting,DNNL,auto)
DNNL_ROOT  := $(call setting,DNNL_ROOT)
CUDA       := $(call setting,CUDA,$(if $(CROSS),0,auto))
CUDA_HOME  := $(call setting,CUDA_HOME)
CUDA_ROOT  := $(call setting,CUDA_ROOT)
CUDA_ARCHS := $(call setting,CUDA_ARCHS,auto)
MPI        := $(call setting,MPI,$(if $(CROSS),0,auto))
MPICC      := $(call setting,MPICC)
PKG_CONFIG_PATH := $(call setting,PKG_CONFIG_PATH)
SANITIZE ?=
LENGTH   ?= test
PREFIX   ?= /usr/local

comma := ,
.DEFAULT_GOAL := all

# Targets that need no compiler or libraries, or make them look for these elsewhere.
BARE  := help deps sysroot clean uninstall asan tsan fuzz bundle wheel test-gpu bench-gpu
# The packages that are installed for a target (deps.sh), before the build looks for anything: what is still
# missing ends make.
NEEDS_quickstart := build quickstart
NEEDS_test       := build quickstart test lint
NEEDS_test-long  := $(NEEDS_test) cross
NEEDS_bench      := build quickstart test
NEEDS_lint       := build lint
NEEDS := $(sort $(foreach goal,$(GOALS),$(NEEDS_$(goal))))
ifeq ($(MAKE_RESTARTS)$(DRY),)
$(if $(NEEDS),$(shell tools/build/deps.sh $(NEEDS) >&2))
endif
quoted = '$(subst ','\'',$(1))'
# The settings of this build, for a separate build.
SAME_SETTINGS = $(foreach name,$(GIVEN),$(name)=$(call quoted,$($(name))))
# The libraries that were found: looked for again if something may have changed. `make install` uses the
# build's result, because root's environment may differ.
ifneq ($(filter-out $(BARE),$(GOALS)),)
$(if $(shell mkdir -p $(BUILD)/flags 2>/dev/null && test -w $(BUILD)/flags && echo yes),,\
    $(error Not built: $(BUILD) cannot be written; make BUILD=dir builds elsewhere))
ifneq ($(filter-out install,$(GOALS))$(if $(wildcard $(BUILD)/config.mk),,none),)
$(shell $(foreach name,$(SETTINGS),$(name)=$(call quoted,$($(name)))) \
    SETTINGS="$(SETTINGS)" GIVEN="$(GIVEN)" DRY="$(DRY)" tools/build/config.sh $(BUILD))
refused := $(file <$(BUILD)/config.refused)
$(if $(refused),$(error $(refused)))
endif
include $(BUILD)/config.mk
$(if $(LIBS_CMOCKA),,$(if $(filter test check test-long test-programs bench,$(GOALS)),\
    $(error Not built: the tests need cmocka, which is MISSING: libcmocka-dev (Debian, Ubuntu), libcmocka-devel \
    (Fedora, RHEL), cmocka (conda))))
endif

WARNINGS := -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2
# No fused multiply-add where the source has two operations: the exact transforms and the equality of
# instruction-set clones depend on it. Nobody reads the processor's flags of inexact and invalid
# operations; with them, loops that choose between values are not vectorized.
ALL_CFLAGS := -std=c11 -D_GNU_SOURCE -I. -Iloader/library/include $(CPPFLAGS) $(CPPFLAGS_FOUND) $(CFLAGS) \
    -ffp-contract=off -fno-math-errno -fno-trapping-math -fPIC -fvisibility=hidden -pthread $(WARNINGS)
LDLIBS_FORMAT := $(LIBS_XXHASH) $(LIBS_ZSTD)
LDLIBS_LOADER := $(LIBS_PNG) $(LDLIBS_FORMAT) -ldl
LDLIBS_TRAIN  := $(LIBS_DNNL) $(LIBS_JANSSON) $(LIBS_ZLIB) $(LDLIBS_LOADER) $(LIBS_OPENMP)
LDLIBS_FFPACK := $(LIBS_ARCHIVE) $(LIBS_ZLIB) $(LIBS_JPEG) $(LIBS_PNG) $(LIBS_WEBP) $(LIBS_TIFF) $(LIBS_JANSSON) \
    $(LDLIBS_FORMAT)
LDLIBS_FFINSPECT := $(LIBS_JANSSON) $(LDLIBS_LOADER)
ifneq ($(SANITIZE),)
ALL_CFLAGS += -O1 -g1 -fsanitize=$(SANITIZE) -fno-sanitize-recover=undefined -fno-omit-frame-pointer -DFF_NO_CLONES
ALL_LDFLAGS += -fsanitize=$(SANITIZE)
endif
ALL_LDFLAGS += -pthread $(LDFLAGS)

sources  = $(filter-out $(CUDA_SOURCES) $(MPI_SOURCES),$(sort $(shell find $(1) -name '*.c' 2>/dev/null)))
objects  = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
is_main  = %/main.c
# One archive per layer; a program links the layers that it may use.
LAYERS  := $(BUILD)/libff_train.a $(BUILD)/libff_loader.a $(BUILD)/libff_format.a
include train/compute/cuda/module.mk
include tools/build/mpi.mk
include tools/build/recipes.mk

FORMAT_OBJECTS    := $(call objects,$(call sources,format))
LOADER_OBJECTS    := $(call objects,$(filter-out loader/library/examples/% loader/python/%,$(call sources,loader)))
LIBRARY_OBJECTS   := $(filter $(BUILD)/obj/loader/library/%,$(LOADER_OBJECTS))
TRAIN_OBJECTS     := $(call objects,$(filter-out $(is_main),$(call sources,train)))
FFPACK_OBJECTS    := $(call objects,$(filter-out $(is_main),$(call sources,tools/ffpack)))
FFINSPECT_OBJECTS := $(call objects,$(filter-out $(is_main),$(call sources,tools/ffinspect)))

PROGRAMS := $(BUILD)/ffpack $(BUILD)/ffinspect $(BUILD)/fftrain
# The loader as a library; the number changes when a program built with an older library would break.
LIBRARY        := $(BUILD)/libffload.so
LIBRARY_NUMBER := 0
LIBRARY_MAP    := loader/library/ffload.map
include tools/build/python.mk

.PHONY: all help deps sysroot programs clean check test test-long test-programs script-programs quickstart lint \
    asan tsan bench fuzz bundle
.DELETE_ON_ERROR:

all: programs

help: ## list the targets
	@echo "Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' \
	    $(filter Makefile %.mk,$(filter-out $(BUILD)/%,$(MAKEFILE_LIST)))
	@echo "Variables: BUILD=dir  CC=compiler  DNNL=auto|0|1  DNNL_ROOT=dir  SANITIZE=list  PREFIX=dir  PYTHON=path"
	@echo "           CUDA=auto|0|1  CUDA_HOME=toolkit  CUDA_ROOT=dir  CUDA_ARCHS=auto|all|list (75 80 ...)  MPI=auto|0|1"
	@echo "           CROSS=aarch64-linux-gnu  SYSROOT=dir (for another architecture)"
	@echo "           Values set once hold for later calls, until others are set or make clean."

programs: $(PROGRAMS) $(LIBRARY) $(MODULES) $(MPI_MODULE) $(PYTHON_PACKAGE) ## build all into build/ (the default)

deps: ## install what is missing for building, quickstart and tests (apt)
	@tools/build/deps.sh build quickstart test lint

sysroot: ## Debian's libraries of another architecture, for CROSS=aarch64-linux-gnu (needs mmdebstrap)
	@tools/build/sysroot.sh "$(CROSS)" "$(SYSROOT)"

$(BUILD)/libff_format.a: $(FORMAT_OBJECTS)
$(BUILD)/libff_loader.a: $(LOADER_OBJECTS)
$(BUILD)/libff_train.a: $(TRAIN_OBJECTS)
$(BUILD)/libffpack.a: $(FFPACK_OBJECTS)
$(BUILD)/libffinspect.a: $(FFINSPECT_OBJECTS)

$(BUILD)/ffpack: private WITH = $(LDLIBS_FFPACK)
$(BUILD)/ffpack: $(BUILD)/obj/tools/ffpack/main.o $(BUILD)/libffpack.a $(BUILD)/libff_format.a
$(BUILD)/ffinspect: private WITH = $(LDLIBS_FFINSPECT)
$(BUILD)/ffinspect: $(BUILD)/obj/tools/ffinspect/main.o $(BUILD)/libffinspect.a $(BUILD)/libff_loader.a \
    $(BUILD)/libff_format.a
$(BUILD)/fftrain: private WITH = $(LDLIBS_TRAIN)
$(BUILD)/fftrain: $(BUILD)/obj/train/main.o $(LAYERS)
$(PROGRAMS):
	$(LINK)

# Never unloaded, because its threads and its handler of SIGBUS stay.
$(LIBRARY): private OUTPUT = $@.$(LIBRARY_NUMBER)
$(LIBRARY): private LINK_AS = -Wl,-soname,libffload.so.$(LIBRARY_NUMBER) -Wl,--version-script=$(LIBRARY_MAP) \
    -Wl,-z,nodelete $(if $(SANITIZE),,-Wl$(comma)-z$(comma)defs) -Wl,--as-needed
$(LIBRARY): private WITH = $(LIBS_JANSSON) $(LDLIBS_LOADER)
$(LIBRARY): $(LIBRARY_OBJECTS) $(BUILD)/libff_loader.a $(BUILD)/libff_format.a $(LIBRARY_MAP)
	$(LINK)
	@ln -sf $(@F).$(LIBRARY_NUMBER) $@

include tests/tests.mk
BUILD_ALL := @$(MAKE) --no-print-directory -s -j$$(nproc) programs
RUN_TESTS := @BUILD="$(BUILD)" PYTHON="$(PYTHON)" SANITIZE="$(SANITIZE)" CROSS="$(CROSS)" \
    $(if $(CROSS),QEMU_LD_PREFIX="$(SYSROOT)") tests/run --length
check: ## build what it needs, and run the quick tests: under 2 minutes on two cores; installs nothing
	$(RUN_TESTS) check
test: ## install what is missing, build, and run the tests of every promise: about 25 minutes
	$(BUILD_ALL)
	$(RUN_TESTS) $(LENGTH)
test-long: ## the tests that "make test" leaves out (all: make test LENGTH=all)
	$(BUILD_ALL)
	$(RUN_TESTS) long

asan: ## every test under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory test LENGTH=all $(SAME_SETTINGS) BUILD=build/asan SANITIZE=address,undefined

tsan: ## every test under ThreadSanitizer
	@$(MAKE) --no-print-directory test LENGTH=all $(SAME_SETTINGS) BUILD=build/tsan SANITIZE=thread

lint: ## formatting, rooms, headers compiled alone, cppcheck, functions that no program uses, stale faults
	@CC="$(CC)" PYTHON="$(PYTHON)" tools/build/lint.sh

quickstart: ## install what is missing, build, pack Fashion-MNIST, inspect it and train a small net on it
	@$(MAKE) --no-print-directory -s -j$$(nproc) programs
	@BUILD="$(BUILD)" tools/build/quickstart.sh

bench: ## measure against the goals; prints a table of ratios
	@$(MAKE) --no-print-directory -s -j$$(nproc) test-programs
	@BUILD="$(BUILD)" PYTHON="$(PYTHON)" tests/bench/run

fuzz: ## run every fuzz target for a minute (FUZZ_SECONDS=n)
	@tools/build/deps.sh build test
	@$(MAKE) --no-print-directory -s -j$$(nproc) test-programs $(SAME_SETTINGS) BUILD=build/asan SANITIZE=address,undefined
	@BUILD=build/asan tests/fuzz/run

include tools/build/flags.mk
include tools/build/install.mk
include tools/build/bundle.mk
include tools/build/wheel.mk

clean: ## remove everything that was built
	$(if $(CLEANED),@:,rm -rf $(BUILD))

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
