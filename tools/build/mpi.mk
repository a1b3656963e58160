# The MPI module, build/libff_mpi.so: the only target that is linked with an MPI library.
MPI_SOURCES := train/comm/collective/mpi_module.c
# Under a sanitizer a shared library would need the sanitizer's shared runtime, so those builds
# leave the module out.
ifneq ($(SANITIZE),)
HAVE_MPI :=
endif
MPI_MODULE := $(if $(HAVE_MPI),$(BUILD)/libff_mpi.so)

$(BUILD)/libff_mpi.so: private LINK_AS = $(call module_as,libff_mpi.so)
$(BUILD)/libff_mpi.so: private WITH = $(FLAGS_MPI)
$(BUILD)/libff_mpi.so: $(BUILD)/obj/train/comm/collective/mpi_module.o $(BUILD)/libff_train.a $(BUILD)/libff_format.a
	$(LINK)
