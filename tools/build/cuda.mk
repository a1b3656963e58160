# The CUDA module, build/libff_cuda.so: the only target that needs a CUDA toolkit.
#
# Its own sources are the kernels, what includes the headers of the CUDA runtime, cuDNN and cuBLAS,
# and its one export. Everything else under loader/cuda and train/compute/cuda is plain C, in the layers' archives.
CUDA_KERNELS := $(sort $(wildcard loader/cuda/*.cu train/compute/cuda/kernels/*.cu))
CUDA_SOURCES := loader/cuda/device_cuda.c loader/cuda/ranges.c train/compute/cuda/exports.c $(sort $(wildcard train/compute/cuda/cudnn/*.c))
# With CUDA_TOGETHER=1 (the wheel, of which nothing is compiled again) a few files that include the kernels' sources:
# the toolkit's headers, which take longer than most kernels, are compiled for each of these alone.
CUDA_PART     = $(BUILD)/obj/cuda/$(1)/together.o
CUDA_PARTS   := $(call CUDA_PART,loader) $(foreach part,1 2 3,$(call CUDA_PART,train/$(part)))
CUDA_OBJECTS  = $(if $(CUDA_TOGETHER),$(CUDA_PARTS),$(patsubst %.cu,$(BUILD)/obj/cuda/%.o,$(CUDA_KERNELS))) $(patsubst %.c,$(BUILD)/obj/%.o,$(CUDA_SOURCES))

# A shared library under a sanitizer would need the sanitizer's own; those builds go without.
ifneq ($(SANITIZE),)
HAVE_CUDA :=
endif
MODULES := $(if $(HAVE_CUDA),$(BUILD)/libff_cuda.so)

# Architectures: those asked for, else those of the cards here, else two. Machine code for each,
# and PTX of the newest, from which drivers make code for newer cards. "all" is the first of each generation:
# its code also runs on the later ones (that of 80 on 86 and 89, that of 100 on 103).
CUDA_KNOWN := $(filter $(CUDA_CODES),75 80 90 100 120)
CUDA_ASKED := $(patsubst sm_%,%,$(subst $(comma), ,$(CUDA_ARCHS)))
CUDA_BUILT := $(CUDA_ASKED)
ifeq ($(CUDA_ASKED),auto)
CUDA_BUILT := $(or $(filter $(CUDA_CODES),$(CUDA_CARDS)),80 90)
else ifeq ($(CUDA_ASKED),all)
CUDA_BUILT := $(CUDA_KNOWN)
endif
CUDA_NEWEST  := $(lastword $(CUDA_BUILT))
CUDA_GENCODE := $(foreach a,$(CUDA_BUILT),-gencode arch=compute_$(a),code=sm_$(a)) -gencode arch=compute_$(CUDA_NEWEST),code=compute_$(CUDA_NEWEST)
ifeq ($(CUDA_ASKED) $(filter 90,$(CUDA_KNOWN)),all 90)
# The PTX of 90 serves the later ones, too: the kernels have no other source for them, and it is compiled once.
CUDA_LATER   := $(filter-out 75 80 90,$(CUDA_KNOWN))
CUDA_GENCODE := $(foreach a,$(filter-out $(CUDA_LATER),$(CUDA_KNOWN)),-gencode arch=compute_$(a),code=sm_$(a)) \
                $(foreach code,$(CUDA_LATER:%=sm_%) compute_90,-gencode arch=compute_90,code=$(code))
endif
NVCC_FLAGS   := -std=c++17 -O3 $(if $(filter -g%,$(CFLAGS)),-lineinfo) -I. $(CPPFLAGS_CUDA) $(CUDA_GENCODE) -Xfatbin -compress-all -Xcompiler -fPIC,-fvisibility=hidden,-ffp-contract=off,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics

# Program and module share their headers; each contains their checksum, so that a module of
# other headers is refused (loader/cuda/table.h).
HEADERS_CHECKSUM := $(shell cat $(sort $(shell find format loader train -name '*.h')) | cksum | cut -d' ' -f1)U

# The loader's results are exact, so its kernels have no fused multiply-add either.
NVCC_EXACT := -fmad=false
$(BUILD)/obj/cuda/loader/%.o: NVCC_FLAGS += $(NVCC_EXACT)
# Each source has a namespace, after the headers of all; what it exports is C's.
$(call CUDA_PART,loader): CUDA_INCLUDED := $(filter loader/%,$(CUDA_KERNELS))
$(call CUDA_PART,train/1): CUDA_INCLUDED := $(wordlist 1,6,$(filter train/%,$(CUDA_KERNELS)))
$(call CUDA_PART,train/2): CUDA_INCLUDED := $(wordlist 7,9,$(filter train/%,$(CUDA_KERNELS)))
$(call CUDA_PART,train/3): CUDA_INCLUDED := $(wordlist 10,99,$(filter train/%,$(CUDA_KERNELS)))
$(CUDA_PARTS:.o=.cu): $(CUDA_KERNELS)
	@mkdir -p $(@D)
	@{ echo '#include "loader/cuda/kernel.h"'; grep -h '^#include' $(CUDA_INCLUDED) | sort -u; \
	    for file in $(CUDA_INCLUDED); do printf 'namespace kernels_of_%s {\n#include "%s"\n}\n' "$$(basename $$file .cu)" $$file; done; } >$@
# PTX and ptxas' output for each kernel stay next to the object, for tests/cuda/test_ptx.sh.
define COMPILE_CUDA
	@mkdir -p $(@D)
	@rm -rf $(@:.o=.keep) && mkdir $(@:.o=.keep)
	@$(NVCC) $(NVCC_FLAGS) -Xptxas -v -keep -keep-dir $(@:.o=.keep) -MMD -MP -MF $(@:.o=.d) -c $< -o $@ >$(@:.o=.log) 2>&1 || { cat $(@:.o=.log); exit 1; }
	@grep -vE '^$$|^ptxas info|^ *[0-9]+ bytes stack frame' $(@:.o=.log) || true
	@find $(@:.o=.keep) -type f ! -name '*.ptx' -delete
endef
$(BUILD)/obj/cuda/%.o: %.cu $(BUILD)/flags/nvcc
	$(COMPILE_CUDA)
$(CUDA_PARTS): %.o: %.cu $(BUILD)/flags/nvcc
	$(COMPILE_CUDA)

# No undefined symbols: all are in its archives, or in libraries named for the dynamic linker.
$(BUILD)/libff_cuda.so: $(CUDA_OBJECTS) $(BUILD)/libff_train.a $(BUILD)/libff_loader.a $(BUILD)/libff_format.a
	$(CC) -shared $(ALL_LDFLAGS) $(inputs) -o $@ -Wl,-soname,libff_cuda.so -Wl,-z,defs -Wl,--exclude-libs,ALL -Wl,--as-needed $(LIBS_CUDA) $(LIBS_CUDART) $(LDLIBS_TRAIN) -lm

# Tests of C that includes the toolkit's headers, over stand-ins for its libraries.
CUDA_UNIT_PROGRAMS := $(if $(MODULES),$(BUILD)/tests/test_device_cuda)
$(CUDA_UNIT_PROGRAMS): $(addprefix $(BUILD)/obj/,tests/cuda/test_device_cuda.o tests/cuda/fake_cudart.o loader/cuda/device_cuda.o) $(BUILD)/libff_loader.a $(BUILD)/libff_format.a
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $(inputs) -o $@ $(LIBS_CMOCKA) $(LDLIBS_LOADER)

# Programs for a machine with a card: gpu-check stands alone; those of C open the module.
GPU_SOURCES  := $(sort $(wildcard tests/gpu/*.c))
GPU_PROGRAMS := $(patsubst tests/gpu/%.c,$(BUILD)/gpu/%,$(GPU_SOURCES)) $(if $(MODULES),$(BUILD)/gpu-check)
# The kernels' tests of tests/cuda/unit once more, on the card: with the kernels linked, and a few lines
# in place of cmocka, which machines with a card need not have. Those of steps, nets and batches open
# the module, as fftrain does.
GPU_TESTS := $(if $(MODULES),$(patsubst tests/cuda/unit/%.c,$(BUILD)/gpu/%,$(shell grep -l kernel_helpers.h tests/cuda/unit/test_cuda_*.c)))
GPU_MODULE_TESTS := $(if $(MODULES),$(addprefix $(BUILD)/gpu/test_cuda_,step compute plan placements nccl))
# The library's programs for the simulated GPU, on the card.
GPU_LIBRARY_TESTS := $(if $(MODULES),$(addprefix $(BUILD)/gpu/test_cuda_,library library_graph library_pool library_calls))
GPU_PROGRAMS += $(GPU_TESTS) $(GPU_MODULE_TESTS) $(GPU_LIBRARY_TESTS) $(if $(MODULES),$(BUILD)/gpu/gpu_library)
$(BUILD)/obj/gpu/%.o: %.c $(BUILD)/flags/c $(BUILD)/flags/gpu
	@mkdir -p $(@D)
	$(CC) $(FLAGS_gpu) $(ALL_CFLAGS) $(DEPENDS) -c $< -o $@
$(BUILD)/libff_cuda_kernels.a: $(patsubst %.cu,$(BUILD)/obj/cuda/%.o,$(CUDA_KERNELS)) $(BUILD)/obj/loader/cuda/device_cuda.o
$(GPU_TESTS): $(BUILD)/gpu/%: $(BUILD)/obj/gpu/tests/cuda/unit/%.o $(BUILD)/libff_cuda_kernels.a $(BUILD)/libff_testing.a $(BUILD)/libff_train.a $(BUILD)/libff_loader.a $(BUILD)/libff_format.a
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $(inputs) -o $@ -Wl,--as-needed $(LIBS_CUDART) $(LDLIBS_TRAIN) -lm
GPU_ARCHIVES := $(BUILD)/libff_testing.a $(BUILD)/libff_train.a $(BUILD)/libff_loader.a $(BUILD)/libff_format.a
$(GPU_MODULE_TESTS): $(BUILD)/gpu/%: $(BUILD)/obj/gpu/tests/cuda/unit/%.o $(GPU_ARCHIVES)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $(inputs) -o $@ -Wl,--as-needed $(LDLIBS_TRAIN) -lm
$(GPU_LIBRARY_TESTS): $(BUILD)/gpu/test_cuda_%: $(BUILD)/obj/tests/programs/%_sim.o $(GPU_ARCHIVES)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $(inputs) -o $@ -Wl,--as-needed $(LDLIBS_TRAIN) -lm
# Without the packer's libraries, which the tests' own of this needs.
$(BUILD)/gpu/gpu_library: $(BUILD)/obj/tests/programs/gpu_library.o $(GPU_ARCHIVES)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $(inputs) -o $@ -Wl,--as-needed $(LDLIBS_TRAIN) -lm

# What opens the module, with a simulated GPU in its place: the card's programs rehearsed without one.
SIM_TESTS := $(patsubst $(BUILD)/gpu/%,$(BUILD)/sim/%,$(GPU_MODULE_TESTS))
SIM_OTHERS := $(if $(MODULES),$(patsubst tests/gpu/%.c,$(BUILD)/sim/%,$(GPU_SOURCES)) $(BUILD)/sim/gpu_library)
SIM_ARCHIVES := $(BUILD)/obj/tests/cuda/sim/module/module.o $(GPU_ARCHIVES) $(BUILD)/libff_cudasim.a
$(BUILD)/sim/test_cuda_nccl: $(BUILD)/sim/libnccl.so.2
$(SIM_TESTS): $(BUILD)/sim/%: $(BUILD)/obj/gpu/tests/cuda/unit/%.o $(SIM_ARCHIVES)
$(filter-out %/gpu_library,$(SIM_OTHERS)): $(BUILD)/sim/%: $(BUILD)/obj/tests/gpu/%.o $(SIM_ARCHIVES)
$(filter %/gpu_library,$(SIM_OTHERS)): $(BUILD)/obj/tests/programs/gpu_library.o $(SIM_ARCHIVES)
$(SIM_TESTS) $(SIM_OTHERS):
	@mkdir -p $(@D)
	$(CXX) $(ALL_LDFLAGS) $(grouped) -o $@ $(LDLIBS_TRAIN) -lm

.PHONY: test-gpu bench-gpu
test-gpu: ## the kernels' tests and whole steps on a card (SANITIZER=memcheck|racecheck); skips where there is none
	@tools/build/deps.sh build
	@$(MAKE) --no-print-directory -s -j$$(nproc) gpu-programs
	@BUILD="$(BUILD)" tests/gpu/run || [ $$? = 77 ]
bench-gpu: ## measure the kernels on a card; skips where there is none
	@tools/build/deps.sh build
	@$(MAKE) --no-print-directory -s -j$$(nproc) gpu-programs
	@BUILD="$(BUILD)" tests/gpu/run --bench || [ $$? = 77 ]
.PHONY: gpu-programs
gpu-programs: $(MODULES) $(if $(MODULES),$(GPU_PROGRAMS))
$(BUILD)/gpu/%: $(BUILD)/obj/tests/gpu/%.o $(BUILD)/libff_testing.a $(BUILD)/libff_train.a $(BUILD)/libff_loader.a $(BUILD)/libff_format.a
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $(inputs) -o $@ -Wl,--as-needed $(LDLIBS_TRAIN) -lm
$(BUILD)/gpu-check: $(BUILD)/obj/cuda/tests/gpu/gpu_check.o
	$(CC) $(ALL_LDFLAGS) $(inputs) -o $@ $(LIBS_CUDART)
