/* Opens the CUDA module as a program in another folder, or built with another CUDA, would. Usage:
 * cuda_open FOLDER CUDA ORDINAL (ORDINAL -1: no device is wanted). Prints the module's description
 * of itself, or the failure's message. */
#include "loader/cuda/module.h"

#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    if (count != 4) return 64;
    ff_error error = {0};
    ff_cuda_module *module;
    ff_status status = ff_cuda_module_open_as(&module, arguments[1], atoi(arguments[2]),
                                              atoi(arguments[3]), &error);
    if (status != FF_OK) {
        printf("%d: %s\n", (int)status, error.message);
        return ff_exit_code(&error);
    }
    const ff_cuda_table *table = ff_cuda_module_table(module);
    bool whole = table->device_count && table->properties && table->device_create &&
                 table->loader && table->train && table->range_push && table->range_pop;
    printf("opened: %s%s\n%s", table->built, whole ? "; it is whole" : "",
           ff_cuda_module_notes(module));
    ff_cuda_module_close(&module);
    return 0;
}
