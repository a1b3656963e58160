#include "train/machine/machine.h"

#include "format/base/memory.h"
#include "loader/cuda/driver.h"
#include "loader/cuda/module.h"
#include "train/compute/cuda/compute.h"
#include "train/compute/cuda/exports.h"
#include "train/compute/cuda/plan_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ff_machine {
    ff_cuda_module *module; /* NULL: the CPU */
    const ff_cuda_table *table;
    ff_device *device;
    ff_nvml *nvml; /* NULL: not available */
    ff_cuda_options cuda;
    ff_model_device model;
    char *cache_folder;
    ff_card card;
    char name[256];
    char bus[32];
    char text[2304];
    char warning[2304]; /* empty: no warning */
};

/* The ordinal of "cuda" or "cuda:I"; -1 for anything else. */
static int ordinal_of(const char *device) {
    char *end;
    if (strcmp(device, "cuda") == 0) return 0;
    if (strncmp(device, "cuda:", 5) != 0 || device[5] < '0' || device[5] > '9') return -1;
    long ordinal = strtol(device + 5, &end, 10);
    return *end || ordinal > 1023 ? -1 : (int)ordinal;
}

ff_status ff_machine_check(const char *device, ff_error *error) {
    if (!device || strcmp(device, "auto") == 0 || strcmp(device, "cpu") == 0 ||
        ordinal_of(device) >= 0)
        return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "--device: '%s' is not one of "
                   "auto|cpu|cuda|cuda:NUMBER",
                   device);
}

static ff_status open_cuda(ff_machine *machine, int ordinal, const ff_machine_options *options,
                           ff_error *error) {
    ff_cuda_properties properties;
    const char *plan_cache = options->plan_cache;
    ff_tuning *tuning = options->tuning;
    FF_TRY(ff_cuda_module_open(&machine->module, ordinal, error));
    machine->table = ff_cuda_module_table(machine->module);
    FF_TRY(machine->table->properties(ordinal, &properties, error));
    FF_TRY(machine->table->device_create(&machine->device, ordinal, error));
    FF_TRY(plan_cache ? ff_copy_string(&machine->cache_folder, plan_cache, error)
                      : ff_plan_cache_folder(&machine->cache_folder, error));
    machine->cuda = (ff_cuda_options){
        .library = machine->table->train->library,
        .multiprocessors = properties.multiprocessors,
        /* Two transfers per clock. */
        .bytes_per_ns = 2e-6 * properties.memory_clock_khz * properties.memory_bus_bits / 8,
        .cache_folder = machine->cache_folder,
        .timing_seconds = options->tune_seconds,
        .compile_nothing = options->compile_nothing,
        .no_fold = options->no_fold,
    };
    if (tuning) {
        machine->cuda.note = ff_tuning_note;
        machine->cuda.progress = ff_tuning_progress;
        machine->cuda.note_context = tuning;
        machine->cuda.tuning = &tuning->counts;
        ff_tuning_note(tuning, ff_cuda_module_notes(machine->module));
    }
    machine->card = ff_card_limits(&(ff_card_facts){
        .name = properties.name,
        .capability = 10 * properties.major + properties.minor,
        .multiprocessors = properties.multiprocessors,
        .clock_khz = properties.clock_khz,
        .memory_clock_khz = properties.memory_clock_khz,
        .memory_bus_bits = properties.memory_bus_bits,
    });
    /* NVML is only for the log; a run does not need it. */
    if (ff_nvml_open(&machine->nvml, properties.bus, NULL) != FF_OK) machine->nvml = NULL;
    snprintf(machine->name, sizeof machine->name, "%s", properties.name);
    snprintf(machine->bus, sizeof machine->bus, "%s", properties.bus);
    machine->model = (ff_model_device){
        .name = machine->name,
        .ops = machine->table->train->compute,
        .device = machine->device,
        .cuda = &machine->cuda,
    };
    const int number = machine->nvml ? ff_nvml_number(machine->nvml) : -1;
    char card[32] = "";
    if (number >= 0) snprintf(card, sizeof card, "card %d at ", number);
    snprintf(machine->text, sizeof machine->text,
             "cuda:%d, %s (compute capability %d.%d), %sPCI %s, %s", ordinal, properties.name,
             properties.major, properties.minor, card, properties.bus, machine->table->built);
    return FF_OK;
}

static void close_cuda(ff_machine *machine) {
    ff_nvml_close(&machine->nvml);
    ff_device_destroy(&machine->device);
    ff_cuda_module_close(&machine->module);
    free(machine->cache_folder);
    machine->cache_folder = NULL;
    machine->table = NULL;
}

/* Explains why `auto` uses the CPU: a short text if there is no GPU, or a warning if there is
 * one. */
static void explain_cpu(ff_machine *machine, const char *why, bool verbose) {
    ff_error none = {0};
    if (ff_cuda_driver_check(0, 0, &none) == FF_OK)
        snprintf(machine->warning, sizeof machine->warning,
                 "this machine has a GPU, but the run uses the CPU: %s", why);
    else if (!verbose)
        why = none.message;
    const int length = (int)(verbose ? strlen(why) : strcspn(why, ":;("));
    snprintf(machine->text, sizeof machine->text, "cpu; no GPU: %.*s", length, why);
}

ff_status ff_machine_open(ff_machine **out, const ff_machine_options *options, ff_error *error) {
    ff_machine *machine;
    const char *device = options->device;
    ff_error why = {0};
    *out = NULL;
    FF_TRY(ff_machine_check(device, error));
    FF_TRY(ff_alloc(&machine, 1, sizeof *machine, "the machine", error));
    const bool automatic = !device || strcmp(device, "auto") == 0;
    const int ordinal = automatic ? 0 : ordinal_of(device);
    ff_status status = FF_OK;
    snprintf(machine->text, sizeof machine->text, "cpu");
    if (automatic && options->local_rank)
        status = open_cuda(machine, options->local_rank, options, &why);
    if (status != FF_OK) close_cuda(machine);
    if (ordinal >= 0 && !machine->table) status = open_cuda(machine, ordinal, options, &why);
    if (status != FF_OK) close_cuda(machine);
    if (status != FF_OK && !automatic) {
        if (error) *error = why;
        ff_machine_close(&machine);
        return status;
    }
    if (status != FF_OK) explain_cpu(machine, why.message, options->verbose);
    *out = machine;
    return FF_OK;
}

void ff_machine_close(ff_machine **machine) {
    if (!*machine) return;
    close_cuda(*machine);
    free(*machine);
    *machine = NULL;
}

const ff_model_device *ff_machine_device(const ff_machine *machine) {
    return machine->table ? &machine->model : NULL;
}

ff_job_gpu ff_machine_gpu(const ff_machine *machine) {
    if (!machine->table) return (ff_job_gpu){NULL, NULL, NULL};
    return (ff_job_gpu){machine->text, machine->bus, machine->table->train->comm_create};
}

const struct ff_loader_kernels *ff_machine_kernels(const ff_machine *machine) {
    return machine->table ? machine->table->loader : NULL;
}

ff_status ff_machine_describe(const ff_machine *machine, char **json, uint64_t *free_bytes,
                              ff_error *error) {
    ff_device *device = machine->device;
    uint64_t total;
    FF_TRY(machine->table->train->describe(device, json, error));
    const ff_status status = device->table->memory(device, free_bytes, &total, error);
    if (status == FF_OK) return FF_OK;
    free(*json);
    *json = NULL;
    return status;
}

ff_card ff_machine_card(const ff_machine *machine) {
    return machine->card;
}

const char *ff_machine_text(const ff_machine *machine) {
    return machine->text;
}

const char *ff_machine_warning(const ff_machine *machine) {
    return *machine->warning ? machine->warning : NULL;
}

bool ff_machine_read(const ff_machine *machine, ff_nvml_reading *reading) {
    if (machine->nvml) ff_nvml_read(machine->nvml, reading);
    return machine->nvml != NULL;
}

void ff_machine_push(const ff_machine *machine, const char *name) {
    if (machine->table) machine->table->range_push(name);
}

void ff_machine_pop(const ff_machine *machine) {
    if (machine->table) machine->table->range_pop();
}
