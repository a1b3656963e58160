# What the tests run: programs of C, a simulated GPU, shims, fuzz targets. tests/gpu/gpu.mk has the programs for a card.
UNIT_SOURCES    := $(sort $(wildcard tests/unit/test_*.c))
UNIT_PROGRAMS   := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(UNIT_SOURCES))
# Those that link the tools' libraries, too.
TOOL_TESTS      := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(shell grep -l '"tools/' $(UNIT_SOURCES)))
CUDASIM_TESTS   := $(patsubst tests/cuda/unit/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/cuda/unit/test_*.c)))
HELPER_PROGRAMS := $(patsubst tests/programs/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/programs/*.c)))
# fftrain, and other programs whose name ends so, on the simulated GPU.
SIM_PROGRAMS    := $(filter %_sim,$(HELPER_PROGRAMS))
SHIMS           := $(patsubst tests/shims/%.c,$(BUILD)/tests/%.so,$(sort $(wildcard tests/shims/*.c)))
FUZZ_PROGRAMS   := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))

# Stand-ins for what a GPU's libraries do.
TESTING_OBJECTS := $(call objects,$(sort $(wildcard tests/cuda/sim/*.c)))
# CUDA kernels on the CPU: every .cu as C++ with the simulator. Needs no CUDA toolkit.
CUDASIM_CXXFLAGS := -std=c++17 -D_GNU_SOURCE -I. -Itests/cuda/sim $(CPPFLAGS) $(CPPFLAGS_FOUND) $(CXXFLAGS) -g1 \
    -ffp-contract=off -fno-math-errno -fno-exceptions -fno-rtti -fPIC -fvisibility=hidden -pthread \
    -Wall -Wextra -Wshadow -Wno-unknown-pragmas -Wno-unused-function -Wno-missing-field-initializers \
    $(if $(SANITIZE),-O1 -fsanitize=$(SANITIZE) -fno-sanitize-recover=undefined -fno-omit-frame-pointer,-O2)
CUDASIM_SOURCES := $(CUDA_KERNELS) $(sort $(wildcard tests/cuda/sim/*.cu tests/cuda/sim/*.cc))
CUDASIM_OBJECTS := $(patsubst %,$(BUILD)/obj/cudasim/%.o,$(CUDASIM_SOURCES))
# The simulator tells ThreadSanitizer itself what orders the threads of a block.
$(BUILD)/obj/cudasim/tests/cuda/sim/%.cc.o: \
    CUDASIM_CXXFLAGS += $(if $(findstring thread,$(SANITIZE)),-fno-sanitize=thread -DFF_SIM_TSAN)

$(BUILD)/libff_testing.a: $(TESTING_OBJECTS)
$(BUILD)/libff_cudasim.a: $(CUDASIM_OBJECTS)
TEST_LAYERS := $(BUILD)/libff_testing.a $(LAYERS)
ARCHIVES    := $(BUILD)/libffpack.a $(BUILD)/libffinspect.a $(TEST_LAYERS)
SIM_MODULE  := $(BUILD)/obj/tests/cuda/sim/module/module.o

$(BUILD)/tests/% $(BUILD)/fuzz/%: private WITH = $(LDLIBS_FFPACK) $(LDLIBS_TRAIN)
$(BUILD)/tests/test_%: private WITH = $(LIBS_CMOCKA) $(LDLIBS_FFPACK) $(LDLIBS_TRAIN)
$(CUDASIM_TESTS) $(SIM_PROGRAMS): private LINKER = $(CXX)
$(CUDASIM_TESTS): $(BUILD)/tests/test_%: $(BUILD)/obj/tests/cuda/unit/test_%.o $(TEST_LAYERS) $(BUILD)/libff_cudasim.a
	$(LINK)
$(TOOL_TESTS): $(BUILD)/libffpack.a $(BUILD)/libffinspect.a
$(BUILD)/tests/test_%: $(BUILD)/obj/tests/unit/test_%.o $(TEST_LAYERS)
	$(LINK)
$(SIM_PROGRAMS): $(SIM_MODULE) $(BUILD)/libff_cudasim.a
$(BUILD)/tests/fftrain_delay: private LINKER = $(CC) -Wl,--wrap=ff_comm_processes_create
$(BUILD)/tests/%: $(BUILD)/obj/tests/programs/%.o $(ARCHIVES)
	$(LINK)
$(FUZZ_PROGRAMS): $(BUILD)/fuzz/%: $(BUILD)/obj/tests/fuzz/%.o $(ARCHIVES)
	$(LINK)
# Not instrumented: a sanitizer's runtime is loaded after what is preloaded.
$(BUILD)/tests/%.so: tests/shims/%.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O2 -fPIC -shared $(WARNINGS) $< -o $@ -ldl

# libffload on the simulated GPU, in place of the one that the Python package links.
SIM_LIBRARY := $(BUILD)/sim/libffload.so.$(LIBRARY_NUMBER)
$(SIM_LIBRARY): private LINKER = $(CXX)
$(SIM_LIBRARY): private LINK_AS = -Wl,-soname,$(@F) -Wl,--version-script=$(LIBRARY_MAP) -Wl,-z,nodelete
$(SIM_LIBRARY): private WITH = $(LDLIBS_TRAIN)
$(SIM_LIBRARY): $(LIBRARY_OBJECTS) $(BUILD)/obj/tests/cuda/sim/streams/streams.o $(SIM_MODULE) $(TEST_LAYERS) \
    $(BUILD)/libff_cudasim.a
	$(LINK)

# Kernels for AVX-512 over plain C, for exact/test_avx512.sh. Needs SIMDe, so no other target builds them.
AVX512_OBJECTS := $(patsubst %.c,$(BUILD)/obj/avx512/%.o,$(shell grep -l _mm512 $$(find loader tools -name '*.c')))
AVX512_TESTS   := $(addprefix $(BUILD)/tests/avx512_,loader_augment loader_resample change transform resize_passes)
$(BUILD)/obj/avx512/%.o: %.c tests/exact/avx512/immintrin.h \
    $(wildcard loader/augment/*.h loader/augment/change/*.h tools/ffpack/image/*.h)
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -g1 -ffp-contract=off -w -I. -Itests/exact/avx512 $(CPPFLAGS) $(CPPFLAGS_FOUND) \
	    '-Dtarget(name)=' '-D__builtin_cpu_supports(name)=1' -c $< -o $@
$(AVX512_TESTS): private WITH = $(LIBS_CMOCKA) $(LDLIBS_FFPACK) $(LDLIBS_TRAIN)
$(AVX512_TESTS): $(BUILD)/tests/avx512_%: $(BUILD)/obj/tests/unit/test_%.o $(AVX512_OBJECTS) $(ARCHIVES)
	$(LINK)

# NCCL's stand-in, for the programs next to it.
NCCL_SIM := $(BUILD)/tests/libnccl.so.2 $(BUILD)/sim/libnccl.so.2
$(NCCL_SIM): private LINK_AS = -Wl,-soname,libnccl.so.2 -Wl,--exclude-libs,ALL -Wl,--as-needed
$(NCCL_SIM): private WITH = $(LDLIBS_LOADER)
$(NCCL_SIM): $(BUILD)/obj/tests/cuda/sim/nccl/nccl_sim.o $(BUILD)/obj/tests/cuda/sim/device.o \
    $(BUILD)/libff_loader.a $(BUILD)/libff_format.a
	$(LINK)
$(BUILD)/tests/test_cuda_nccl $(BUILD)/tests/test_cuda_ranks $(BUILD)/tests/test_nccl_library $(SIM_PROGRAMS): \
    $(BUILD)/tests/libnccl.so.2

# C that includes the toolkit's headers, over stand-ins for its libraries.
CUDA_UNIT_PROGRAMS := $(if $(MODULES),$(addprefix $(BUILD)/tests/test_,device_cuda library_errors))
$(CUDA_UNIT_PROGRAMS): private WITH = $(LIBS_CMOCKA) $(LDLIBS_TRAIN)
$(BUILD)/tests/test_device_cuda: $(call objects,$(wildcard tests/cuda/fake_*.c) loader/cuda/device_cuda.c)
$(BUILD)/tests/test_library_errors: $(call objects,$(addprefix train/compute/cuda/cudnn/,descriptor.c cublas.c))
$(CUDA_UNIT_PROGRAMS): $(BUILD)/tests/%: $(BUILD)/obj/tests/cuda/%.o $(LAYERS)
	$(LINK)

# cuDNN's and cuBLAS's part of the module up to their launches, on the simulated GPU.
LAUNCH_SOURCES  := $(sort $(wildcard tests/cuda/launches/*.c))
LAUNCH_PROGRAMS := $(if $(MODULES),$(BUILD)/tests/fftrain_launches $(BUILD)/tests/gpu_library_launches)
$(LAUNCH_PROGRAMS): private LINKER = $(CXX) -Wl,--wrap=ff_device_sim_create
$(LAUNCH_PROGRAMS): private WITH = $(LDLIBS_TRAIN)
$(BUILD)/tests/fftrain_launches: $(BUILD)/obj/tests/programs/fftrain_sim.o
$(BUILD)/tests/gpu_library_launches: $(BUILD)/obj/tests/programs/gpu_library.o
$(LAUNCH_PROGRAMS): $(call objects,$(LAUNCH_SOURCES) $(wildcard train/compute/cuda/cudnn/*.c)) \
    $(BUILD)/libff_cudasim.a $(TEST_LAYERS) | $(BUILD)/tests/libnccl.so.2
	$(LINK)

include tests/gpu/gpu.mk
include tests/cuda/strict/strict.mk

# What the scripts of tests/ run, and with it the tests that are programs.
script-programs: programs $(HELPER_PROGRAMS) $(LAUNCH_PROGRAMS) $(SHIMS) $(FUZZ_PROGRAMS) $(GPU_PROGRAMS) $(SIM_TESTS) \
    $(SIM_OTHERS) $(SIM_LIBRARY)
test-programs: script-programs $(UNIT_PROGRAMS) $(CUDASIM_TESTS) $(CUDA_UNIT_PROGRAMS)
