/* Prints one NVML reading of the device at a PCI address. Usage: nvml_read BUS */
#include "loader/cuda/nvml.h"

#include <inttypes.h>
#include <stdio.h>

int main(int count, char **arguments) {
    if (count != 2) return 64;
    ff_error error = {0};
    ff_nvml *nvml;
    if (ff_nvml_open(&nvml, arguments[1], &error) != FF_OK) {
        printf("%s\n", error.message);
        return ff_exit_code(&error);
    }
    ff_nvml_reading is;
    ff_nvml_read(nvml, &is);
    printf("gpu %d %%, memory %d %%, %" PRIu64 " of %" PRIu64 " bytes, %d and %d MHz, "
           "%d mW, %d C\n",
           is.gpu_percent, is.memory_percent, is.used_bytes, is.total_bytes, is.sm_mhz,
           is.memory_mhz, is.power_mw, is.temperature_c);
    ff_nvml_close(&nvml);
    return 0;
}
