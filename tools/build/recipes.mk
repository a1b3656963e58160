# How everything is compiled, archived and linked: each recipe once. Private variables hold what a rule needs in
# addition:
#
#   LINKER   $(CXX), if a C++ object is among the inputs; else $(CC)
#   LINK_AS  for a shared library: its name and its exports
#   WITH     libraries, after the rule's own objects and archives
#   OUTPUT   the file, if it is not the target
#   FIRST_FLAGS  flags of a compilation, before the general ones

# The object's name in its .d file does not depend on BUILD, so build/ can be moved.
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
# Archives in a group, because the tests' layers need each other.
define LINK
@mkdir -p $(@D)
$(or $(LINKER),$(CC)) $(if $(LINK_AS),-shared) $(ALL_LDFLAGS) $(filter %.o,$^) \
    -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -o $(or $(OUTPUT),$@) $(LINK_AS) $(WITH) -lm
endef
# A module that programs open: it has no undefined symbols, and hides the symbols of its archives.
module_as = -Wl,-soname,$(1) -Wl,-z,defs -Wl,--exclude-libs,ALL -Wl,--as-needed

$(BUILD)/obj/%.o: %.c $(BUILD)/flags/c
	$(COMPILE)
$(BUILD)/obj/cudasim/%.o: % $(BUILD)/flags/cxx
	$(COMPILE_CXX)
$(BUILD)/%.a:
	$(ARCHIVE)
