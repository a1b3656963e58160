# The Python package ffload, importable from $(BUILD)/python: its modules and the extension, which is linked with
# Python's stable ABI as of 3.9, so that one build serves every later version. Needs only Python.h.
PYTHON_SOURCES := $(sort $(wildcard loader/python/extension/*.c))
PYTHON_MODULES := $(sort $(wildcard $(addprefix loader/python/ffload/,*.py *.pyi py.typed)))
PYTHON_OBJECTS := $(PYTHON_SOURCES:%.c=$(BUILD)/obj/%.o)
EXTENSION      := $(if $(FLAGS_PYTHON),$(BUILD)/python/ffload/_ffload.abi3.so)
PYTHON_PACKAGE := $(if $(EXTENSION),$(EXTENSION) $(PYTHON_MODULES:loader/python/%=$(BUILD)/python/%))

# The extension finds libffload next to itself or in the build folder; Python provides its other
# symbols.
$(EXTENSION): private LINK_AS = -Wl,--as-needed -Wl,-rpath,'$$ORIGIN:$$ORIGIN/lib:$$ORIGIN/../..'
$(EXTENSION): private WITH = $(LIBRARY).$(LIBRARY_NUMBER)
$(EXTENSION): $(PYTHON_OBJECTS) $(LIBRARY)
	$(LINK)
$(BUILD)/python/ffload/%: loader/python/ffload/%
	@mkdir -p $(@D)
	@cp $< $@

.PHONY: python-package
python-package: $(PYTHON_PACKAGE)
