# Which objects are compiled with which flags, kind by kind. A file in BUILD/flags holds the flags of each kind and is
# rewritten only if they change: so a newly installed library, or another option, recompiles and links only what uses
# it.
#
# For some objects, in addition to ALL_CFLAGS:
FLAGS_train  := $(LIBS_OPENMP)
FLAGS_dnnl   := $(CPPFLAGS_DNNL)
FLAGS_python := $(FLAGS_PYTHON)
FLAGS_mpi    := $(filter -I%,$(FLAGS_MPI))
# Tests compile in a third of the time with these; what they test is compiled as it ships.
FLAGS_tests  := -O1 -g1 $(CPPFLAGS_CMOCKA)
FLAGS_cuda   := $(if $(HAVE_CUDA),$(CPPFLAGS_CUDA) -DFF_CUDA_BUILT='"$(CUDA_BUILT)"' -DFF_CUDA_VERSION=$(CUDA_VERSION) \
    -DFF_CUDA_RELEASE='"$(CUDA_RELEASE)"' -DFF_CUDA_FOLDERS='"$(CUDA_FOLDERS)"')
# Program and module contain the checksum of the headers that they share.
FLAGS_headers := -DFF_HEADERS=$(HEADERS_CHECKSUM)
OBJECTS_train  := $(call objects,$(shell find train -name '*.c') $(wildcard tests/programs/*_sim.c) \
    tests/programs/gradient_range.c)
OBJECTS_dnnl   := $(call objects,train/compute/cpu/cpu.c $(wildcard train/compute/cpu/onednn*.c))
OBJECTS_python := $(PYTHON_OBJECTS)
OBJECTS_mpi    := $(call objects,$(MPI_SOURCES))
OBJECTS_tests  := $(call objects,$(UNIT_SOURCES) $(wildcard tests/cuda/unit/*.c))
OBJECTS_cuda   := $(call objects,$(CUDA_SOURCES) loader/cuda/module.c loader/cuda/libraries.c \
    tests/cuda/unit/test_nccl_library.c $(wildcard tests/cuda/*.c tests/cuda/launches/*.c))
OBJECTS_headers := $(call objects,loader/cuda/module.c train/compute/cuda/exports.c train/comm/collective/mpi.c \
    train/comm/collective/mpi_module.c)
KINDS := train dnnl python mpi tests cuda headers
$(foreach kind,$(KINDS),$(eval $(OBJECTS_$(kind)): ALL_CFLAGS += $$(FLAGS_$(kind))))
$(foreach kind,$(KINDS),$(eval $(OBJECTS_$(kind)): $(BUILD)/flags/$(kind)))

# The whole text for plain objects, simulated kernels, kernels, and linked files. It includes the
# libraries' names, because a library with another name has other headers too.
FLAGS_c    := $(CC) $(ALL_CFLAGS) $(SONAMES)
FLAGS_cxx  := $(CXX) $(CUDASIM_CXXFLAGS)
FLAGS_nvcc := $(NVCC) $(NVCC_FLAGS) $(NVCC_EXACT)
# Tests on a card use a few lines instead of cmocka, found before any cmocka.
FLAGS_gpu  := -Itests/gpu/tiny -DFF_TESTS_ON_CARD
# Each load and store of these calls the strict stand-in for CUDA's runtime.
FLAGS_strict := $(STRICT_FLAGS)
FLAGS_link := $(CC) $(CXX) $(ALL_LDFLAGS) $(LDLIBS_FFPACK) $(LDLIBS_TRAIN) $(SONAMES)
LINKED := $(PROGRAMS) $(LIBRARY) $(MODULES) $(MPI_MODULE) $(EXTENSION) $(UNIT_PROGRAMS) $(CUDASIM_TESTS) \
    $(HELPER_PROGRAMS) $(FUZZ_PROGRAMS) $(SIM_LIBRARY) $(NCCL_SIM) $(CUDA_UNIT_PROGRAMS) $(LAUNCH_PROGRAMS) \
    $(GPU_PROGRAMS) $(SIM_TESTS) $(SIM_OTHERS) $(STRICT_PROGRAMS) $(STRICT_TEST)
$(LINKED): $(BUILD)/flags/link
# The archives' members: without this list a removed source would stay in its archive.
FLAGS_archives := $(FORMAT_OBJECTS) $(LOADER_OBJECTS) $(TRAIN_OBJECTS) $(FFPACK_OBJECTS) $(FFINSPECT_OBJECTS) \
    $(TESTING_OBJECTS) $(CUDASIM_OBJECTS)
$(ARCHIVES) $(BUILD)/libff_cudasim.a: $(BUILD)/flags/archives
# Further libraries, for programs of some kinds.
LINK_tests := $(LIBS_CMOCKA)
LINK_mpi   := $(FLAGS_MPI)
LINK_cuda  := $(LIBS_CUDA) $(LIBS_CUDART)

# A dry run records nothing: what differs counts as new.
same   = $(and $(findstring x$(1)x,x$(2)x),$(findstring x$(2)x,x$(1)x))
anew   = $(if $(DRY),$(eval .PHONY: $(BUILD)/flags/$(1)),$(file >$(BUILD)/flags/$(1),$(2)))
record = $(if $(call same,$(strip $(file <$(BUILD)/flags/$(1))),$(2)),,$(call anew,$(1),$(2)))
ifneq ($(filter-out $(BARE),$(GOALS)),)
$(foreach kind,$(KINDS) c cxx nvcc gpu strict link archives,\
    $(call record,$(kind),$(strip $(kind): $(FLAGS_$(kind)) $(LINK_$(kind)))))
endif
