# How everything is compiled, archived and linked: each recipe once. What a rule needs beyond is in private variables:
#
#   LINKER   $(CXX), where a C++ object is among the inputs; $(CC) otherwise
#   LINK_AS  of a shared library: its name and what it exports
#   WITH     libraries, after the rule's own objects and archives
#   OUTPUT   the file, where it is not the target
#   FIRST_FLAGS  of a compilation, before those of all

# The object's name in its .d file as it is in any BUILD: build/, and build moved elsewhere.
DEPENDS = -MMD -MP -MT '$$(BUILD)$(@:$(BUILD)%=%)'
define COMPILE
@mkdir -p $(@D)
$(CC) $(FIRST_FLAGS) $(ALL_CFLAGS) $(DEPENDS) -c $< -o $@
endef
define COMPILE_CXX
@mkdir -p $(@D)
$(CXX) $(CUDASIM_CXXFLAGS) $(DEPENDS) -c -x c++ $< -o $@
endef
define ARCHIVE
@rm -f $@
@ar rcs $@ $(filter %.o,$^)
endef
# Archives in a group: layers of tests need each other.
define LINK
@mkdir -p $(@D)
$(or $(LINKER),$(CC)) $(if $(LINK_AS),-shared) $(ALL_LDFLAGS) $(filter %.o,$^) \
    -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -o $(or $(OUTPUT),$@) $(LINK_AS) $(WITH) -lm
endef
# A module that programs open: no undefined symbols, and nothing of its archives is visible.
module_as = -Wl,-soname,$(1) -Wl,-z,defs -Wl,--exclude-libs,ALL -Wl,--as-needed

$(BUILD)/obj/%.o: %.c $(BUILD)/flags/c
	$(COMPILE)
$(BUILD)/obj/cudasim/%.o: % $(BUILD)/flags/cxx
	$(COMPILE_CXX)
$(BUILD)/%.a:
	$(ARCHIVE)
