# make wheel: the Python package with programs, library, CUDA module and the libraries that these use, as one file for
# pip. A separate build compiles the wheel's content, without debug information, with the CUDA module for every
# architecture of a card; CROSS=aarch64-linux-gnu makes the wheel of another processor, without that module.
# PROJECT_URL=... in the environment is the page that the metadata names.
WHEEL_FOLDER ?= $(BUILD)/wheel
.PHONY: wheel wheel-file wheel-libraries
wheel: ## the Python package as a wheel for any Linux with glibc 2.34, with the CUDA module for all cards
	@tools/build/deps.sh build bundle
	@$(MAKE) --no-print-directory -s -j$$(nproc) $(if $(filter CFLAGS,$(GIVEN)),,CFLAGS=-O3) $(SAME_SETTINGS) \
	    BUILD=$(BUILD)/wheel-all$(CROSS:%=-%) CUDA_ARCHS=all CUDA_TOGETHER=1 MPI=0 WHEEL_FOLDER=$(BUILD) wheel-file
# Run while the compiler runs: their configure scripts use one core.
WHEEL_CROSS = CROSS="$(CROSS)" SYSROOT="$(if $(CROSS),$(SYSROOT))"
WHEEL_LIBARCHIVE = build/libarchive$(CROSS:%=-%) wheel
WHEEL_LIBCURL = build/libcurl$(CROSS:%=-%)
wheel-libraries:
	@CC="$(CC)" $(WHEEL_CROSS) LIBARCHIVE="$(LIBARCHIVE)" tools/build/libarchive.sh $(WHEEL_LIBARCHIVE) >/dev/null
	@CC="$(CC)" $(WHEEL_CROSS) tools/build/libcurl.sh $(WHEEL_LIBCURL) >/dev/null || true
# A wheel of this build, with the build's architectures.
wheel-file: wheel-libraries $(PROGRAMS) $(LIBRARY) $(MODULES) python-package shared
	@$(if $(EXTENSION),,echo "wheel: the extension is not built: Python.h is MISSING" >&2; exit 1)
	@LIBARCHIVE=$$(LIBARCHIVE="$(LIBARCHIVE)" $(WHEEL_CROSS) tools/build/libarchive.sh $(WHEEL_LIBARCHIVE) 2>/dev/null) \
	    LIBCURL=$$(CC="$(CC)" $(WHEEL_CROSS) tools/build/libcurl.sh $(WHEEL_LIBCURL) 2>/dev/null || true) \
	    $(WHEEL_CROSS) CC="$(CC)" CUDA_FOLDERS="$(CUDA_FOLDERS)" PYTHON="$(PYTHON)" \
	    tools/build/wheel.sh $(BUILD) $(WHEEL_FOLDER) $(VERSION)

.PHONY: test-python
test-python: ## the wheel with PyPI's newest PyTorch and NumPy, and alone on every Python that is found (gigabytes)
	@tools/build/deps.sh build test
	@$(MAKE) --no-print-directory -s -j$$(nproc) $(BUILD)/tests/cuda_open wheel-file
	@BUILD="$(abspath $(BUILD))" "$(PYTHON)" tests/python/pypi.py $(WHEEL_FOLDER)/ffload-$(VERSION)-*.whl
