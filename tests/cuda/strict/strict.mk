# Programs over the strict stand-in for CUDA's runtime (strict.h). What runs on the card, or touches memory that it
# copies, is compiled once more, so that each load and store calls the stand-in: the kernels and these rooms.
# The module's host code is what ships, except cuDNN and cuBLAS, in whose place the plain library is.
STRICT       := $(BUILD)/obj/strict
STRICT_CALLS := memcpy memmove memset
STRICT_FLAGS := -O1 -g1 -fsanitize=thread --param=tsan-instrument-func-entry-exit=0 -U__SANITIZE_THREAD__ \
    -U_FORTIFY_SOURCE $(STRICT_CALLS:%=-fno-builtin-%)
STRICT_ROOMS := $(addprefix loader/,augment cuda device gpu host library) \
    $(addprefix train/,comm/collective compute debug evaluate net predict report run step trainer)
STRICT_C     := $(filter-out $(BUILD)/obj/train/compute/cpu/% $(BUILD)/obj/loader/cuda/module.o \
    $(call objects,$(wildcard train/compute/cuda/engine_*.c train/compute/cuda/planner.c)),\
    $(filter $(STRICT_ROOMS:%=$(BUILD)/obj/%/%.o),$(LOADER_OBJECTS) $(TRAIN_OBJECTS))) \
    $(call objects,loader/cuda/device_cuda.c loader/cuda/ranges.c train/compute/cuda/exports.c \
    tests/cuda/sim/library_plain.c tests/cuda/sim/loader_plain.c)
STRICT_OWN    := $(call objects,$(sort $(wildcard tests/cuda/strict/*.c)))
STRICT_OBJECTS := $(patsubst $(BUILD)/obj/%,$(STRICT)/%,$(STRICT_C)) $(STRICT_OWN) \
    $(patsubst %,$(STRICT)/%.o,$(CUDA_KERNELS)) $(filter %.cc.o,$(CUDASIM_OBJECTS))
STRICT_MAINS  := fftrain_sim library_sim library_graph_sim library_pool_sim library_calls_sim library_short_sim
# Tests of tests/cuda/unit as on a card; those that need the simulated device take the stand-in's in its place.
STRICT_DEVICE_UNITS := $(if $(MODULES),$(addprefix $(BUILD)/strict/test_cuda_,planned probe profile run))
STRICT_CARD_UNITS := $(addprefix $(BUILD)/strict/,$(notdir $(GPU_TESTS) $(GPU_MODULE_TESTS)))
# Those that no card runs, with cmocka.
STRICT_HOST_UNITS := $(if $(MODULES),$(addprefix $(BUILD)/strict/test_cuda_,\
    cost ranks indices indices_loader indices_update indices_windows))
STRICT_UNITS  := $(STRICT_CARD_UNITS) $(STRICT_DEVICE_UNITS) $(STRICT_HOST_UNITS)
STRICT_PROGRAMS := $(if $(MODULES),$(STRICT_MAINS:%_sim=$(BUILD)/strict/%)) $(STRICT_UNITS)

$(STRICT)/%.o: private FIRST_FLAGS = $(FLAGS_train) $(FLAGS_cuda) $(FLAGS_dnnl) $(FLAGS_headers)
$(STRICT)/%.o: private ALL_CFLAGS += $(STRICT_FLAGS)
$(STRICT)/%.o: %.c $(BUILD)/flags/c $(BUILD)/flags/cuda $(BUILD)/flags/headers $(BUILD)/flags/strict
	$(COMPILE)
$(STRICT)/%.cu.o: private CUDASIM_CXXFLAGS += $(STRICT_FLAGS)
$(STRICT)/%.cu.o: %.cu $(BUILD)/flags/cxx $(BUILD)/flags/strict
	$(COMPILE_CXX)
$(STRICT_OWN): private FIRST_FLAGS = $(FLAGS_cuda)

STRICT_WRAPPED := $(STRICT_CALLS:%=-Wl$(comma)--wrap=%)
$(STRICT_PROGRAMS): private LINKER = $(CXX) -rdynamic
$(STRICT_PROGRAMS): private WITH = -Wl,--defsym=ff_library_cudnn=ff_library_plain $(STRICT_WRAPPED) $(LDLIBS_TRAIN)
$(STRICT_MAINS:%_sim=$(BUILD)/strict/%): $(BUILD)/strict/%: $(STRICT)/tests/programs/%_sim.o
$(STRICT_UNITS): $(BUILD)/strict/%: $(STRICT)/tests/cuda/unit/%.o
$(STRICT)/tests/cuda/unit/%.o: private FIRST_FLAGS = $(FLAGS_gpu) $(FLAGS_train) $(FLAGS_cuda)
$(STRICT_DEVICE_UNITS:$(BUILD)/strict/%=$(STRICT)/tests/cuda/unit/%.o): private FIRST_FLAGS = \
    $(FLAGS_gpu:-D%=-DFF_TESTS_STRICT) $(FLAGS_train) $(FLAGS_cuda)
$(STRICT_HOST_UNITS:$(BUILD)/strict/%=$(STRICT)/tests/cuda/unit/%.o): private FIRST_FLAGS = \
    -DFF_TESTS_STRICT $(CPPFLAGS_CMOCKA) $(FLAGS_train) $(FLAGS_cuda)
$(STRICT_HOST_UNITS): private WITH += $(LIBS_CMOCKA)
$(STRICT_PROGRAMS): $(STRICT_OBJECTS) $(LAYERS) | $(BUILD)/strict/kernels
	$(LINK)
# What ptxas reports of the kernels, for the architectures that are built and the oldest one.
STRICT_OLDEST := $(firstword $(CUDA_KNOWN))
STRICT_LOGS   := $(CUDA_KERNELS:%.cu=$(STRICT)/%.log)
$(STRICT)/loader/%.log: private NVCC_FLAGS += $(NVCC_EXACT)
$(STRICT)/%.log: %.cu $(BUILD)/obj/cuda/%.o
	@mkdir -p $(@D)
	$(NVCC) $(filter-out $(CUDA_GENCODE),$(NVCC_FLAGS)) $(call gencode,$(STRICT_OLDEST),sm_$(STRICT_OLDEST)) \
	    -Xptxas -v -cubin $< -o $(@:.log=.cubin) 2>$@
$(BUILD)/strict/kernels: tests/cuda/strict/kernels.awk $(STRICT_LOGS) $(wildcard tests/gpu/sm_*.json)
	@mkdir -p $(@D)
	awk -f $< $(CUDA_KERNELS:%.cu=$(BUILD)/obj/cuda/%.keep/*.ptx) $(CUDA_KERNELS:%.cu=$(BUILD)/obj/cuda/%.log) \
	    $(STRICT_LOGS) $(sort $(wildcard tests/gpu/sm_*.json)) >$@
# NCCL's stand-in, which takes the calls from the program that opens it.
STRICT_NCCL := $(BUILD)/strict/libnccl.so.2
$(STRICT)/tests/cuda/sim/nccl/nccl_sim.o: private STRICT_FLAGS += -Dff_device_sim_enqueue=strict_enqueue_collective
$(STRICT_NCCL): private LINK_AS = -Wl,-soname,libnccl.so.2 -Wl,--exclude-libs,ALL -Wl,--as-needed $(STRICT_WRAPPED)
$(STRICT_NCCL): private WITH = $(LDLIBS_LOADER)
$(STRICT_NCCL): $(STRICT)/tests/cuda/sim/nccl/nccl_sim.o $(BUILD)/libff_loader.a $(BUILD)/libff_format.a
	$(LINK)
$(BUILD)/strict/fftrain: $(STRICT_NCCL)
STRICT_TEST := $(if $(MODULES),$(addprefix $(BUILD)/tests/test_,strict limits guards timer))
$(STRICT)/tests/cuda/%.o: private FIRST_FLAGS = $(FLAGS_cuda) $(CPPFLAGS_CMOCKA)
$(STRICT_TEST): private LINKER = $(CXX) -rdynamic
$(STRICT_TEST): private WITH = $(STRICT_WRAPPED) $(LIBS_CMOCKA) $(LDLIBS_LOADER)
$(BUILD)/tests/test_limits: $(STRICT)/tests/cuda/sim/self.cu.o
$(BUILD)/tests/test_guards: $(STRICT)/loader/cuda/device_cuda.o $(BUILD)/libff_loader.a
$(BUILD)/tests/test_timer: $(addprefix $(STRICT)/,loader/cuda/device_cuda.o train/compute/cuda/engine_timer.o) \
    $(BUILD)/libff_train.a $(BUILD)/libff_loader.a
$(STRICT_TEST): $(BUILD)/tests/%: $(STRICT)/tests/cuda/%.o $(filter-out %/module.o,$(STRICT_OWN)) \
    $(filter %.cc.o,$(CUDASIM_OBJECTS)) $(BUILD)/libff_format.a
	$(LINK)

.PHONY: strict-programs
strict-programs: $(STRICT_PROGRAMS)
