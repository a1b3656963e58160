# make bundle: a folder of programs and libraries that runs on other machines, of a build of its own.
# BUNDLE=all is every program with code for every architecture; BUNDLE=gpu is small: one card's
# code, the trainer without oneDNN, the packer, the programs of tests/gpu, and what half_hour needs.
BUNDLE ?= all
ARCH   ?= sm_90
ifeq ($(BUNDLE),gpu)
BUNDLE_NAME     := ffpack-gpu-$(ARCH)
BUNDLE_FLAGS    := DNNL=0 MPI=0 CUDA=1 CUDA_ARCHS=$(ARCH)
BUNDLE_PROGRAMS  = $(PROGRAMS) $(BUILD)/tests/make_set $(GPU_PROGRAMS)
# The card whose engines are compiled ahead.
BUNDLE_DEVICE    = $(lastword $(sort $(wildcard tests/gpu/$(ARCH)_*.json)))
BUNDLE_MORE      = tools/build/bundle_gpu.sh $(BUILD) $(BUILD)/$(BUNDLE_NAME) "$(BUNDLE_DEVICE)"
else
BUNDLE_NAME     := ffpack-all
BUNDLE_FLAGS    := CUDA_ARCHS=all
BUNDLE_PROGRAMS  = $(PROGRAMS) $(if $(MODULES),$(BUILD)/gpu-check)
BUNDLE_MORE      =
endif
.PHONY: bundle bundle-folder
bundle: ## a folder of programs and libraries for other machines (BUNDLE=gpu ARCH=sm_90: small, for one card)
	@tools/build/deps.sh build bundle
	@$(MAKE) --no-print-directory -s -j$$(nproc) BUILD=$(BUILD)/bundle/$(BUNDLE) BUNDLE=$(BUNDLE) ARCH=$(ARCH) \
	    $(SAME_SETTINGS) $(BUNDLE_FLAGS) bundle-folder
bundle-folder: $(MODULES) $(MPI_MODULE) $(BUNDLE_PROGRAMS) $(BUILD)/tests/dump_order shared
	@LIBARCHIVE=$$(tools/build/libarchive.sh build/libarchive || true) BUNDLE_CUDA="$(BUNDLE_CUDA)" \
	    LIBCURL=$(if $(filter gpu,$(BUNDLE)),,$$(tools/build/libcurl.sh build/libcurl || true)) \
	    CUDA_FOLDERS="$(CUDA_FOLDERS)" \
	    tools/build/bundle.sh $(BUILD) $(BUILD)/$(BUNDLE_NAME) $(patsubst $(BUILD)/%,%,$(BUNDLE_PROGRAMS))
	@$(BUNDLE_MORE)
	@tar -C $(BUILD) -czf $(BUILD)/$(BUNDLE_NAME).tar.gz $(BUNDLE_NAME)
	@echo "bundle: $(BUILD)/$(BUNDLE_NAME).tar.gz"
