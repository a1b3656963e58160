# The CUDA module, build/libff_cuda.so: the only target that needs a CUDA toolkit.
#
# Its own sources are the kernels, what includes the headers of the CUDA runtime, cuDNN and cuBLAS,
# and its one export. Everything else under loader/cuda and train/compute/cuda is plain C, in the layers' archives.
CUDA_KERNELS := $(sort $(wildcard loader/cuda/*.cu train/compute/cuda/kernels/*.cu))
CUDA_SOURCES := loader/cuda/device_cuda.c loader/cuda/ranges.c train/compute/cuda/exports.c \
                $(sort $(wildcard train/compute/cuda/cudnn/*.c))
# With CUDA_TOGETHER=1 (the wheel, of which nothing is compiled again) a few files that include the kernels' sources:
# the toolkit's headers, which take longer than most kernels, are compiled for each of these alone.
CUDA_PART     = $(BUILD)/obj/cuda/$(1)/together.o
CUDA_PARTS   := $(call CUDA_PART,loader) $(foreach part,1 2 3,$(call CUDA_PART,train/$(part)))
CUDA_OBJECTS  = $(if $(CUDA_TOGETHER),$(CUDA_PARTS),$(patsubst %.cu,$(BUILD)/obj/cuda/%.o,$(CUDA_KERNELS))) \
                $(patsubst %.c,$(BUILD)/obj/%.o,$(CUDA_SOURCES))

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
gencode       = -gencode arch=compute_$(1),code=$(2)
CUDA_GENCODE := $(foreach a,$(CUDA_BUILT),$(call gencode,$(a),sm_$(a))) \
                $(call gencode,$(CUDA_NEWEST),compute_$(CUDA_NEWEST))
ifeq ($(CUDA_ASKED) $(filter 90,$(CUDA_KNOWN)),all 90)
# The PTX of 90 serves the later ones, too: the kernels have no other source for them, and it is compiled once.
CUDA_LATER   := $(filter-out 75 80 90,$(CUDA_KNOWN))
CUDA_GENCODE := $(foreach a,$(filter-out $(CUDA_LATER),$(CUDA_KNOWN)),$(call gencode,$(a),sm_$(a))) \
                $(foreach code,$(CUDA_LATER:%=sm_%) compute_90,$(call gencode,90,$(code)))
endif
NVCC_HOST    := -fPIC,-fvisibility=hidden,-ffp-contract=off,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics
NVCC_FLAGS   := -std=c++17 -O3 $(if $(filter -g%,$(CFLAGS)),-lineinfo) -I. $(CPPFLAGS_CUDA) $(CUDA_GENCODE) \
                -Xfatbin -compress-all -Xcompiler $(NVCC_HOST)

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
	    for file in $(CUDA_INCLUDED); do \
	        printf 'namespace kernels_of_%s {\n#include "%s"\n}\n' "$$(basename $$file .cu)" $$file; \
	    done; } >$@
# PTX and ptxas' output for each kernel stay next to the object, for tests/cuda/test_ptx.sh.
define COMPILE_CUDA
	@mkdir -p $(@D)
	@rm -rf $(@:.o=.keep) && mkdir $(@:.o=.keep)
	@$(NVCC) $(NVCC_FLAGS) -Xptxas -v -keep -keep-dir $(@:.o=.keep) -MMD -MP -MF $(@:.o=.d) -c $< -o $@ \
	    >$(@:.o=.log) 2>&1 || { cat $(@:.o=.log); exit 1; }
	@grep -vE '^$$|^ptxas info|^ *[0-9]+ bytes stack frame' $(@:.o=.log) || true
	@find $(@:.o=.keep) -type f ! -name '*.ptx' -delete
endef
$(BUILD)/obj/cuda/%.o: %.cu $(BUILD)/flags/nvcc
	$(COMPILE_CUDA)
$(CUDA_PARTS): %.o: %.cu $(BUILD)/flags/nvcc
	$(COMPILE_CUDA)

# All symbols are in its archives, or in libraries named for the dynamic linker.
$(BUILD)/libff_cuda.so: private LINK_AS = $(call module_as,libff_cuda.so)
$(BUILD)/libff_cuda.so: private WITH = $(LIBS_CUDA) $(LIBS_CUDART) $(LDLIBS_TRAIN)
$(BUILD)/libff_cuda.so: $(CUDA_OBJECTS) $(LAYERS)
	$(LINK)
# The kernels alone, for tests that launch them.
$(BUILD)/libff_cuda_kernels.a: $(patsubst %.cu,$(BUILD)/obj/cuda/%.o,$(CUDA_KERNELS)) \
    $(BUILD)/obj/loader/cuda/device_cuda.o
