# make install, make uninstall: programs, modules (in ../lib, where fftrain looks for them), manuals
# and completions generated from the programs' --describe, documents. DESTDIR stages everything.
NAMES     := $(notdir $(PROGRAMS))
DOCUMENTS := README.md CHANGELOG.md LICENSE format/FORMAT.md tools/ffpack/SOURCES.md tools/ffpack/PARTS.md \
             tools/ffinspect/sheet.png train/TRAINING.md train/RUNS.md train/GPU.md train/comm/RANKS.md \
             train/report/page/page.png \
             loader/python/README.md tests/exact/README.md
RECIPES   := $(patsubst train/%,share/ffpack/%,$(wildcard train/recipes/*.txt))
LAUNCH    := $(patsubst tools/%,share/ffpack/%,$(wildcard tools/launch/*))
# The same paths below BUILD as below PREFIX.
SHARED    := $(NAMES:%=share/man/man1/%.1) $(NAMES:%=share/bash-completion/completions/%) \
             $(NAMES:%=share/zsh/site-functions/_%) $(DOCUMENTS:%=share/doc/ffpack/%) $(RECIPES) $(LAUNCH)
override PREFIX := $(if $(filter 1,$(words $(PREFIX))),$(abspath $(PREFIX)),$(PREFIX))
TO        := $(DESTDIR)$(PREFIX)
# The library, the name under which programs link it, and the files for compiling them.
HEADERS   := $(patsubst loader/library/%,%,$(wildcard loader/library/include/ffload/*.h))
EXAMPLES  := $(wildcard loader/library/examples/*)
VERSION   = $(shell sed -n 's/^const char ff_version\[\] = "\(.*\)";/\1/p' format/cli/options.c)
# The library's own libraries, for static programs.
LIBRARY_LIBS  = $(LIBS_JANSSON) $(LDLIBS_FORMAT) -ldl -lm -pthread
LIBRARY_FILES := $(LIBRARY:$(BUILD)/%=lib/%).$(LIBRARY_NUMBER) lib/pkgconfig/ffload.pc $(HEADERS) \
                 $(EXAMPLES:loader/library/%=share/doc/ffpack/%)
FOLDERS = $(sort $(patsubst %/,%,$(dir $(NAMES:%=bin/%) $(LIBRARY_FILES) $(SHARED))))

# What runs another architecture's programs: qemu-user, or the kernel if it knows one.
EMULATED := $(firstword $(subst -, ,$(CROSS)))
EMULATOR := $(if $(CROSS),$(shell command -v qemu-$(EMULATED)-static || command -v qemu-$(EMULATED)))
$(BUILD)/share/%.table: $(BUILD)/%
	@mkdir -p $(@D)
	@$(EMULATOR:%=% -L $(SYSROOT)) $< --describe >$@
$(BUILD)/share/man/man1/%.1: $(BUILD)/share/%.table tools/build/manual.awk
	@mkdir -p $(@D)
	@awk -f tools/build/manual.awk $< >$@
$(BUILD)/share/bash-completion/completions/%: $(BUILD)/share/%.table tools/build/completion.awk
	@mkdir -p $(@D)
	@awk -v shell=bash -f tools/build/completion.awk $< >$@
$(BUILD)/share/zsh/site-functions/_%: $(BUILD)/share/%.table tools/build/completion.awk
	@mkdir -p $(@D)
	@awk -v shell=zsh -f tools/build/completion.awk $< >$@
# fftrain also finds them there.
$(BUILD)/fftrain: | $(RECIPES:%=$(BUILD)/%)
$(BUILD)/share/ffpack/%: train/%
	@mkdir -p $(@D)
	@cp $< $@
$(BUILD)/share/ffpack/launch/%: tools/launch/%
	@mkdir -p $(@D)
	@cp $< $@
$(BUILD)/share/doc/ffpack/%: %
	@mkdir -p $(@D)
	@cp $< $@
# A page links to what is installed.
PLACES = $(DOCUMENTS) tools/launch=../../ffpack/launch train/recipes=../../ffpack/recipes \
         $(foreach file,$(LAUNCH),$(file:share/ffpack/%=tools/%)=$(file:share/%=../../%)) \
         $(foreach file,$(EXAMPLES),$(file)=$(file:loader/library/%=%)) \
         $(foreach file,$(HEADERS),loader/library/$(file)=../../../$(file))
$(BUILD)/share/doc/ffpack/%.md: %.md tools/build/pages.awk
	@mkdir -p $(@D)
	@awk -v page=$< -v there="$(PLACES)" -f tools/build/pages.awk $< >$@
.SECONDARY: $(NAMES:%=$(BUILD)/share/%.table)

.PHONY: shared install uninstall
shared: $(SHARED:%=$(BUILD)/%)
install: programs shared ## programs, library, CUDA module, man pages, completions into PREFIX (DESTDIR=dir stages)
	@tools/build/folders.sh $(if $(DESTDIR),stage,make) "$(TO)" $(FOLDERS) 2>/dev/null && [ -w "$(TO)" ] || { \
	    echo "install: $(TO) cannot be written: sudo make install, or make install PREFIX=\$$HOME/.local" >&2; exit 1; }
	@for file in $(NAMES:%=bin/%) $(SHARED); do \
	    case $$file in bin/*) from=$(BUILD)/$${file#bin/} mode=755 ;; *) from=$(BUILD)/$$file mode=644 ;; esac; \
	    install -D -m $$mode $$from "$(TO)/$$file" || exit 1; \
	done
	@install -D -m 644 $(LIBRARY).$(LIBRARY_NUMBER) "$(TO)/lib/$(notdir $(LIBRARY)).$(LIBRARY_NUMBER)"
	@ln -sf $(notdir $(LIBRARY)).$(LIBRARY_NUMBER) "$(TO)/lib/$(notdir $(LIBRARY))"
	@for file in $(HEADERS); do install -D -m 644 loader/library/$$file "$(TO)/$$file" || exit 1; done
	@for file in $(EXAMPLES:loader/library/%=%); do \
	    install -D -m 644 loader/library/$$file "$(TO)/share/doc/ffpack/$$file" || exit 1; \
	done
	@sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|; s|@LIBS_PRIVATE@|$(LIBRARY_LIBS)|' loader/library/ffload.pc.in \
	    >"$(TO)/lib/pkgconfig/ffload.pc"
	@chmod 644 "$(TO)/lib/pkgconfig/ffload.pc"
	@$(if $(MODULES),install -D -m 644 $(MODULES) "$(TO)/lib/libff_cuda.so",rm -f "$(TO)/lib/libff_cuda.so")
	@$(if $(MPI_MODULE),install -D -m 644 $(MPI_MODULE) "$(TO)/lib/libff_mpi.so",rm -f "$(TO)/lib/libff_mpi.so")
	@echo "installed in $(TO): bin, lib/libffload.so, include/ffload," \
	    $(if $(MODULES),"lib/libff_cuda.so$(comma)") $(if $(MPI_MODULE),"lib/libff_mpi.so$(comma)") \
	    "share/man, share/ffpack, share/doc/ffpack, completions for bash and zsh"
	@case ":$(DESTDIR)::$$PATH:" in ::*":$(PREFIX)/bin:"* | :[!:]*) ;; \
	    *) echo "PATH lacks it: export PATH=\"$(PREFIX)/bin:\$$PATH\" (and for good in ~/.profile)" ;; esac

uninstall: ## remove what make install put into PREFIX, and the folders that it made
	@rm -f $(foreach file,$(NAMES:%=bin/%) lib/libff_cuda.so lib/libff_mpi.so lib/$(notdir $(LIBRARY)) \
	    $(LIBRARY_FILES) $(SHARED),"$(TO)/$(file)")
	@tools/build/folders.sh remove "$(TO)"
	@find $(foreach folder,share/doc/ffpack share/ffpack include/ffload,"$(TO)/$(folder)") \
	    -depth -type d -empty -delete 2>/dev/null || true
