# ffpack: `make help` lists the targets.
BUILD    ?= build
# A path from here, so that the objects have one name each, in their dependencies too.
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
# Of `make clean all`, all begins with nothing: before anything of BUILD is read.
CLEANED := $(and $(filter clean,$(GOALS)),$(filter-out clean,$(GOALS)))
ifneq ($(filter clean,$(GOALS)),)
# Never / or a folder that this one is in.
$(if $(and $(BUILD),$(filter-out /,$(abspath $(BUILD))),$(filter-out $(abspath $(BUILD))/%,$(CURDIR)/)),,$(error BUILD=$(BUILD): make clean does not remove this folder))
endif
ifeq ($(MAKE_RESTARTS)$(DRY)$(if $(CLEANED),,none),)
$(shell rm -rf $(BUILD))
endif
# What make is started with; given values hold for later calls, too, until others are given or `make clean`.
-include $(BUILD)/settings.mk
SETTINGS := CC CXX PYTHON CPPFLAGS CFLAGS LDFLAGS DNNL DNNL_ROOT CUDA CUDA_HOME CUDA_ROOT CUDA_ARCHS MPI MPICC PKG_CONFIG_PATH
GIVEN    := $(foreach name,$(SETTINGS),$(if $(filter undefined default,$(origin $(name))),$(if $(filter undefined,$(origin kept_$(name))),,$(name)),$(name)))
setting   = $(if $(filter undefined default,$(origin $(1))),$(if $(filter undefined,$(origin kept_$(1))),$(2),$(kept_$(1))),$($(1)))
CC         := $(call setting,CC,gcc)
CXX        := $(call setting,CXX,g++)
PYTHON     := $(call setting,PYTHON,/usr/bin/python3)
CPPFLAGS   := $(call setting,CPPFLAGS)
CFLAGS     := $(call setting,CFLAGS,-O3 -g)
LDFLAGS    := $(call setting,LDFLAGS)
DNNL       := $(call setting,DNNL,auto)
DNNL_ROOT  := $(call setting,DNNL_ROOT)
CUDA       := $(call setting,CUDA,auto)
CUDA_HOME  := $(call setting,CUDA_HOME)
CUDA_ROOT  := $(call setting,CUDA_ROOT)
CUDA_ARCHS := $(call setting,CUDA_ARCHS,auto)
MPI        := $(call setting,MPI,auto)
MPICC      := $(call setting,MPICC)
PKG_CONFIG_PATH := $(call setting,PKG_CONFIG_PATH)
SANITIZE ?=
LENGTH   ?= test
PREFIX   ?= /usr/local

comma := ,
.DEFAULT_GOAL := all

# Targets that need no compiler or libraries, or make them look for these elsewhere.
BARE  := help deps clean uninstall asan tsan fuzz bundle wheel test-gpu bench-gpu
# What is installed for a target (deps.sh), before anything is looked for: what is missing then ends make at once.
NEEDS_quickstart := build quickstart
NEEDS_test       := build quickstart test lint
NEEDS_test-long  := $(NEEDS_test)
NEEDS_bench      := build quickstart test
NEEDS_lint       := build lint
NEEDS := $(sort $(foreach goal,$(GOALS),$(NEEDS_$(goal))))
ifeq ($(MAKE_RESTARTS)$(DRY),)
$(if $(NEEDS),$(shell tools/build/deps.sh $(NEEDS) >&2))
endif
quoted = '$(subst ','\'',$(1))'
# Of a build of its own: the settings that this one was given.
SAME_SETTINGS = $(foreach name,$(GIVEN),$(name)=$(call quoted,$($(name))))
# What was found: looked for again where something may have changed. `make install` takes it as it was for the
# build: root's environment may be another.
ifneq ($(filter-out $(BARE),$(GOALS)),)
$(if $(shell mkdir -p $(BUILD)/flags 2>/dev/null && test -w $(BUILD)/flags && echo yes),,$(error Not built: $(BUILD) cannot be written; make BUILD=dir builds elsewhere))
ifneq ($(filter-out install,$(GOALS))$(if $(wildcard $(BUILD)/config.mk),,none),)
$(shell $(foreach name,$(SETTINGS),$(name)=$(call quoted,$($(name)))) SETTINGS="$(SETTINGS)" GIVEN="$(GIVEN)" DRY="$(DRY)" tools/build/config.sh $(BUILD))
refused := $(file <$(BUILD)/config.refused)
$(if $(refused),$(error $(refused)))
endif
include $(BUILD)/config.mk
$(if $(LIBS_CMOCKA),,$(if $(filter test check test-long test-programs bench,$(GOALS)),$(error Not built: the tests need cmocka, which is MISSING: libcmocka-dev (Debian, Ubuntu), libcmocka-devel (Fedora, RHEL), cmocka (conda))))
endif

WARNINGS := -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2
# No fused multiply-add where the source has two operations: the exact transforms and the
# equality of instruction-set clones depend on it.
ALL_CFLAGS := -std=c11 -D_GNU_SOURCE -I. -Iloader/library/include $(CPPFLAGS) $(CPPFLAGS_FOUND) $(CFLAGS) -ffp-contract=off -fno-math-errno -fPIC -fvisibility=hidden -pthread $(WARNINGS)
LDLIBS_FORMAT := $(LIBS_XXHASH) $(LIBS_ZSTD)
LDLIBS_LOADER := $(LIBS_PNG) $(LDLIBS_FORMAT) -ldl
LDLIBS_TRAIN  := $(LIBS_DNNL) $(LIBS_JANSSON) $(LIBS_ZLIB) $(LDLIBS_LOADER) $(LIBS_OPENMP)
LDLIBS_FFPACK := $(LIBS_ARCHIVE) $(LIBS_ZLIB) $(LIBS_JPEG) $(LIBS_PNG) $(LIBS_WEBP) $(LIBS_TIFF) $(LIBS_JANSSON) $(LDLIBS_FORMAT)
LDLIBS_FFINSPECT := $(LIBS_JANSSON) $(LDLIBS_LOADER)
ifneq ($(SANITIZE),)
ALL_CFLAGS += -O1 -g1 -fsanitize=$(SANITIZE) -fno-sanitize-recover=undefined -fno-omit-frame-pointer -DFF_NO_CLONES
ALL_LDFLAGS += -fsanitize=$(SANITIZE)
endif
ALL_LDFLAGS += -pthread $(LDFLAGS)

include tools/build/cuda.mk
include tools/build/mpi.mk
sources = $(filter-out $(CUDA_SOURCES) $(MPI_SOURCES),$(sort $(shell find $(1) -name '*.c' 2>/dev/null)))
objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
is_main = %/main.c

FORMAT_OBJECTS    := $(call objects,$(call sources,format))
LOADER_OBJECTS    := $(call objects,$(filter-out loader/library/examples/% loader/python/%,$(call sources,loader)))
TRAIN_OBJECTS     := $(call objects,$(filter-out $(is_main),$(call sources,train)))
FFPACK_OBJECTS    := $(call objects,$(filter-out $(is_main),$(call sources,tools/ffpack)))
FFINSPECT_OBJECTS := $(call objects,$(filter-out $(is_main),$(call sources,tools/ffinspect)))
UNIT_SOURCES      := $(sort $(wildcard tests/unit/test_*.c))
UNIT_PROGRAMS     := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(UNIT_SOURCES))
# Those that link the tools' libraries, too.
TOOL_TESTS        := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(shell grep -l '"tools/' $(UNIT_SOURCES)))
CUDASIM_TESTS     := $(patsubst tests/cuda/unit/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/cuda/unit/test_*.c)))
HELPER_SOURCES    := $(sort $(wildcard tests/programs/*.c))
HELPER_PROGRAMS   := $(patsubst tests/programs/%.c,$(BUILD)/tests/%,$(HELPER_SOURCES))
SHIM_SOURCES      := $(sort $(wildcard tests/shims/*.c))
SHIMS             := $(patsubst tests/shims/%.c,$(BUILD)/tests/%.so,$(SHIM_SOURCES))
FUZZ_SOURCES      := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ_PROGRAMS     := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(FUZZ_SOURCES))

# What only the tests link: stand-ins for what a GPU's libraries do.
TESTING_OBJECTS   := $(call objects,$(sort $(wildcard tests/cuda/sim/*.c)))
# CUDA kernels on the CPU, for tests: every .cu as C++ with the simulator. Needs no CUDA toolkit.
CUDASIM_CXXFLAGS := -std=c++17 -D_GNU_SOURCE -I. -Itests/cuda/sim $(CPPFLAGS) $(CPPFLAGS_FOUND) $(CXXFLAGS) -g1 -ffp-contract=off -fno-math-errno -fno-exceptions -fno-rtti -fPIC -fvisibility=hidden -pthread -Wall -Wextra -Wshadow -Wno-unknown-pragmas -Wno-unused-function -Wno-missing-field-initializers $(if $(SANITIZE),-O1 -fsanitize=$(SANITIZE) -fno-sanitize-recover=undefined -fno-omit-frame-pointer,-O2)
CUDASIM_SOURCES := $(sort $(wildcard loader/cuda/*.cu train/compute/cuda/kernels/*.cu tests/cuda/sim/*.cu tests/cuda/sim/*.cc))
CUDASIM_OBJECTS := $(patsubst %,$(BUILD)/obj/cudasim/%.o,$(CUDASIM_SOURCES))

PROGRAMS := $(BUILD)/ffpack $(BUILD)/ffinspect $(BUILD)/fftrain
# The loader as a library; the number changes when a program that was built with an older one would break.
LIBRARY        := $(BUILD)/libffload.so
LIBRARY_NUMBER := 0
LIBRARY_MAP    := loader/library/ffload.map
include tools/build/python.mk

.PHONY: all help deps programs clean check test test-long test-programs script-programs quickstart lint asan tsan bench fuzz bundle
.DELETE_ON_ERROR:

all: programs

help: ## list the targets
	@echo "Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile tools/build/*.mk
	@echo "Variables: BUILD=dir  CC=compiler  DNNL=auto|0|1  DNNL_ROOT=dir  SANITIZE=list  PREFIX=dir  PYTHON=path"
	@echo "           CUDA=auto|0|1  CUDA_HOME=toolkit  CUDA_ROOT=dir  CUDA_ARCHS=auto|all|list (75 80 ...)  MPI=auto|0|1"
	@echo "           Values that are given hold for later calls, too, until others are given or make clean."

programs: $(PROGRAMS) $(LIBRARY) $(MODULES) $(MPI_MODULE) $(PYTHON_PACKAGE) ## build ffpack, ffinspect, fftrain, libffload and the Python package into build/ (the default)

deps: ## install what is missing for building, quickstart and tests (apt)
	@tools/build/deps.sh build quickstart test lint

# The object's name in its .d file as it is in any BUILD: build/, and build moved elsewhere.
DEPENDS = -MMD -MP -MT '$$(BUILD)$(@:$(BUILD)%=%)'
$(BUILD)/obj/%.o: %.c $(BUILD)/flags/c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(DEPENDS) -c $< -o $@

# One archive a layer; a program links the layers it may use. Where layers need each other, in a group.
inputs  = $(filter %.o %.a,$^)
grouped = $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group
$(BUILD)/libff_format.a: $(FORMAT_OBJECTS)
$(BUILD)/libff_loader.a: $(LOADER_OBJECTS)
$(BUILD)/libff_train.a: $(TRAIN_OBJECTS)
$(BUILD)/libffpack.a: $(FFPACK_OBJECTS)
$(BUILD)/libffinspect.a: $(FFINSPECT_OBJECTS)
$(BUILD)/libff_testing.a: $(TESTING_OBJECTS)
$(BUILD)/%.a:
	@rm -f $@
	@ar rcs $@ $(filter %.o,$^)

$(BUILD)/ffpack: $(BUILD)/obj/tools/ffpack/main.o $(BUILD)/libffpack.a $(BUILD)/libff_format.a
	$(CC) $(ALL_LDFLAGS) $(inputs) -o $@ $(LDLIBS_FFPACK) -lm
$(BUILD)/ffinspect: $(BUILD)/obj/tools/ffinspect/main.o $(BUILD)/libffinspect.a $(BUILD)/libff_loader.a $(BUILD)/libff_format.a
	$(CC) $(ALL_LDFLAGS) $(inputs) -o $@ $(LDLIBS_FFINSPECT) -lm
$(BUILD)/fftrain: $(BUILD)/obj/train/main.o $(BUILD)/libff_train.a $(BUILD)/libff_loader.a $(BUILD)/libff_format.a
	$(CC) $(ALL_LDFLAGS) $(inputs) -o $@ $(LDLIBS_TRAIN) -lm

# Never unloaded: its threads and its handler of SIGBUS stay.
LIBRARY_LINK = $(CC) -shared $(ALL_LDFLAGS) $(inputs) -o $@.$(LIBRARY_NUMBER) -Wl,-soname,libffload.so.$(LIBRARY_NUMBER) \
	-Wl,--version-script=$(LIBRARY_MAP) -Wl,-z,nodelete $(if $(SANITIZE),,-Wl$(comma)-z$(comma)defs) -Wl,--as-needed $(LIBS_JANSSON) $(LDLIBS_LOADER) -lm
$(LIBRARY): $(filter $(BUILD)/obj/loader/library/%,$(LOADER_OBJECTS)) $(BUILD)/libff_loader.a $(BUILD)/libff_format.a $(LIBRARY_MAP)
	$(LIBRARY_LINK)
	@ln -sf $(@F).$(LIBRARY_NUMBER) $@

$(BUILD)/obj/cudasim/%.o: % $(BUILD)/flags/cxx
	@mkdir -p $(@D)
	$(CXX) $(CUDASIM_CXXFLAGS) $(DEPENDS) -c -x c++ $< -o $@
# The simulator tells ThreadSanitizer itself what orders the threads of a block.
$(BUILD)/obj/cudasim/tests/cuda/sim/%.cc.o: CUDASIM_CXXFLAGS += $(if $(findstring thread,$(SANITIZE)),-fno-sanitize=thread -DFF_SIM_TSAN)
$(BUILD)/libff_cudasim.a: $(CUDASIM_OBJECTS)
LAYERS   := $(BUILD)/libff_testing.a $(BUILD)/libff_train.a $(BUILD)/libff_loader.a $(BUILD)/libff_format.a
ARCHIVES := $(BUILD)/libffpack.a $(BUILD)/libffinspect.a $(LAYERS)
$(CUDASIM_TESTS): $(BUILD)/tests/test_%: $(BUILD)/obj/tests/cuda/unit/test_%.o $(LAYERS) $(BUILD)/libff_cudasim.a
	@mkdir -p $(@D)
	$(CXX) $(ALL_LDFLAGS) $(grouped) -o $@ $(LIBS_CMOCKA) $(LDLIBS_FFPACK) $(LDLIBS_TRAIN) -lm
$(TOOL_TESTS): $(BUILD)/libffpack.a $(BUILD)/libffinspect.a
$(BUILD)/tests/test_%: $(BUILD)/obj/tests/unit/test_%.o $(LAYERS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $(grouped) -o $@ $(LIBS_CMOCKA) $(LDLIBS_FFPACK) $(LDLIBS_TRAIN) -lm
# fftrain, and other programs whose name ends so, on the simulated GPU.
$(patsubst tests/programs/%.c,$(BUILD)/tests/%,$(wildcard tests/programs/*_sim.c)): $(BUILD)/tests/%: $(BUILD)/obj/tests/programs/%.o $(BUILD)/obj/tests/cuda/sim/module/module.o $(ARCHIVES) $(BUILD)/libff_cudasim.a
	@mkdir -p $(@D)
	$(CXX) $(ALL_LDFLAGS) $(grouped) -o $@ $(LDLIBS_FFPACK) $(LDLIBS_TRAIN) -lm
# libffload on the simulated GPU, in place of the one that the Python package links.
SIM_LIBRARY := $(BUILD)/sim/libffload.so.$(LIBRARY_NUMBER)
$(SIM_LIBRARY): $(filter $(BUILD)/obj/loader/library/%,$(LOADER_OBJECTS)) $(BUILD)/obj/tests/cuda/sim/streams/streams.o $(BUILD)/obj/tests/cuda/sim/module/module.o $(LAYERS) $(BUILD)/libff_cudasim.a
	@mkdir -p $(@D)
	$(CXX) -shared $(ALL_LDFLAGS) $(grouped) -o $@ -Wl,-soname,$(@F) -Wl,--version-script=$(LIBRARY_MAP) -Wl,-z,nodelete $(LDLIBS_TRAIN) -lm
# NCCL's stand-in, for the programs beside it.
NCCL_SIM := $(BUILD)/tests/libnccl.so.2 $(BUILD)/sim/libnccl.so.2
$(NCCL_SIM): $(BUILD)/obj/tests/cuda/sim/nccl/nccl_sim.o $(BUILD)/libff_loader.a $(BUILD)/libff_format.a
	@mkdir -p $(@D)
	$(CC) -shared $(ALL_LDFLAGS) $(inputs) -o $@ -Wl,-soname,libnccl.so.2 -Wl,--exclude-libs,ALL -Wl,--as-needed $(LDLIBS_LOADER)
$(BUILD)/tests/test_cuda_nccl $(BUILD)/tests/test_cuda_ranks $(BUILD)/tests/test_nccl_library $(patsubst tests/programs/%.c,$(BUILD)/tests/%,$(wildcard tests/programs/*_sim.c)): $(BUILD)/tests/libnccl.so.2
$(BUILD)/tests/fftrain_delay: ALL_LDFLAGS += -Wl,--wrap=ff_comm_processes_create
$(BUILD)/tests/%: $(BUILD)/obj/tests/programs/%.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $(inputs) -o $@ $(LDLIBS_FFPACK) $(LDLIBS_TRAIN) -lm
$(BUILD)/tests/%.so: tests/shims/%.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O2 -fPIC -shared $(WARNINGS) $< -o $@ -ldl
$(BUILD)/fuzz/%: tests/fuzz/%.c $(ARCHIVES)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $< $(inputs) -o $@ $(LDLIBS_FFPACK) $(LDLIBS_TRAIN) -lm

# What the scripts of tests/ run, and with it the tests that are programs.
script-programs: programs $(HELPER_PROGRAMS) $(SHIMS) $(FUZZ_PROGRAMS) $(GPU_PROGRAMS) $(SIM_TESTS) $(SIM_OTHERS) $(SIM_LIBRARY)
test-programs: script-programs $(UNIT_PROGRAMS) $(CUDASIM_TESTS) $(CUDA_UNIT_PROGRAMS)

BUILD_ALL := @$(MAKE) --no-print-directory -s -j$$(nproc) programs
RUN_TESTS := @BUILD="$(BUILD)" PYTHON="$(PYTHON)" SANITIZE="$(SANITIZE)" tests/run --length
check: ## build what it needs, and run the quick tests: under 2 minutes on two cores; installs nothing
	$(RUN_TESTS) check
test: ## install what is missing, build, and run the tests of every promise: under 10 minutes
	$(BUILD_ALL)
	$(RUN_TESTS) $(LENGTH)
test-long: ## all tests that "make test" leaves out (all: make test LENGTH=all); last line "N passed, N failed, N skipped"
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
