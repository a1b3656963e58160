# Programs for a machine with a card: gpu-check stands alone; programs of C open the module.
GPU_SOURCES  := $(sort $(wildcard tests/gpu/*.c))
GPU_PROGRAMS := $(patsubst tests/gpu/%.c,$(BUILD)/gpu/%,$(GPU_SOURCES)) $(if $(MODULES),$(BUILD)/gpu-check)
# The kernels' tests of tests/cuda/unit once more, on the card: with the kernels linked, and a few lines
# in place of cmocka, which machines with a card need not have. Those of steps, nets and batches open
# the module, as fftrain does.
GPU_TESTS := $(if $(MODULES),$(patsubst tests/cuda/unit/%.c,$(BUILD)/gpu/%,\
    $(shell grep -l kernel_helpers.h tests/cuda/unit/test_cuda_*.c)))
GPU_MODULE_TESTS := $(if $(MODULES),$(addprefix $(BUILD)/gpu/test_cuda_,step compute plan layers placements nccl))
# The library's programs for the simulated GPU, on the card.
GPU_LIBRARY_TESTS := $(if $(MODULES),\
    $(addprefix $(BUILD)/gpu/test_cuda_,library library_graph library_pool library_calls))
GPU_PROGRAMS += $(GPU_TESTS) $(GPU_MODULE_TESTS) $(GPU_LIBRARY_TESTS) $(if $(MODULES),$(BUILD)/gpu/gpu_library)

$(BUILD)/obj/gpu/%.o: private FIRST_FLAGS = $(FLAGS_gpu)
$(BUILD)/obj/gpu/%.o: %.c $(BUILD)/flags/c $(BUILD)/flags/gpu
	$(COMPILE)
$(BUILD)/gpu/%: private WITH = -Wl,--as-needed $(LDLIBS_TRAIN)
$(GPU_TESTS): private WITH = -Wl,--as-needed $(LIBS_CUDART) $(LDLIBS_TRAIN)
$(GPU_TESTS): $(BUILD)/gpu/%: $(BUILD)/obj/gpu/tests/cuda/unit/%.o $(BUILD)/libff_cuda_kernels.a $(TEST_LAYERS)
$(GPU_MODULE_TESTS): $(BUILD)/gpu/%: $(BUILD)/obj/gpu/tests/cuda/unit/%.o $(TEST_LAYERS)
$(GPU_LIBRARY_TESTS): $(BUILD)/gpu/test_cuda_%: $(BUILD)/obj/tests/programs/%_sim.o $(TEST_LAYERS)
# Without the packer's libraries, which build/tests/gpu_library needs.
$(BUILD)/gpu/gpu_library: $(BUILD)/obj/tests/programs/gpu_library.o $(TEST_LAYERS)
$(GPU_TESTS) $(GPU_MODULE_TESTS) $(GPU_LIBRARY_TESTS) $(BUILD)/gpu/gpu_library:
	$(LINK)
$(BUILD)/gpu/%: $(BUILD)/obj/tests/gpu/%.o $(TEST_LAYERS)
	$(LINK)
$(BUILD)/gpu-check: private WITH = $(LIBS_CUDART)
$(BUILD)/gpu-check: $(BUILD)/obj/cuda/tests/gpu/gpu_check.o
	$(LINK)

# What opens the module, with a simulated GPU in its place: the card's programs rehearsed without one.
SIM_TESTS    := $(patsubst $(BUILD)/gpu/%,$(BUILD)/sim/%,$(GPU_MODULE_TESTS))
SIM_LIBRARY_PROGRAM := $(if $(MODULES),$(BUILD)/sim/gpu_library)
SIM_OTHERS   := $(if $(MODULES),$(patsubst tests/gpu/%.c,$(BUILD)/sim/%,$(GPU_SOURCES))) $(SIM_LIBRARY_PROGRAM)
SIM_ARCHIVES := $(SIM_MODULE) $(TEST_LAYERS) $(BUILD)/libff_cudasim.a
$(BUILD)/sim/test_cuda_nccl: $(BUILD)/sim/libnccl.so.2
$(SIM_TESTS): $(BUILD)/sim/%: $(BUILD)/obj/gpu/tests/cuda/unit/%.o $(SIM_ARCHIVES)
$(filter-out $(SIM_LIBRARY_PROGRAM),$(SIM_OTHERS)): $(BUILD)/sim/%: $(BUILD)/obj/tests/gpu/%.o $(SIM_ARCHIVES)
$(SIM_LIBRARY_PROGRAM): $(BUILD)/obj/tests/programs/gpu_library.o $(SIM_ARCHIVES)
$(SIM_TESTS) $(SIM_OTHERS): private LINKER = $(CXX)
$(SIM_TESTS) $(SIM_OTHERS): private WITH = $(LDLIBS_TRAIN)
$(SIM_TESTS) $(SIM_OTHERS):
	$(LINK)

.PHONY: test-gpu bench-gpu gpu-programs
gpu-programs: $(MODULES) $(if $(MODULES),$(GPU_PROGRAMS))
test-gpu: ## the kernels' tests and whole steps on a card (SANITIZER=memcheck|racecheck); skips if there is none
	@tools/build/deps.sh build
	@$(MAKE) --no-print-directory -s -j$$(nproc) gpu-programs
	@BUILD="$(BUILD)" tests/gpu/run || [ $$? = 77 ]
bench-gpu: ## measure the kernels on a card; skips if there is none
	@tools/build/deps.sh build
	@$(MAKE) --no-print-directory -s -j$$(nproc) gpu-programs
	@BUILD="$(BUILD)" tests/gpu/run --bench || [ $$? = 77 ]
