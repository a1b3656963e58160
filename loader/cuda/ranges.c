#include "loader/cuda/ranges.h"

#ifdef FF_HAVE_NVTX

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>

/* One domain per process: NVTX never frees domains. */
static nvtxDomainHandle_t domain;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void create_domain(void) {
    domain = nvtxDomainCreateA("fftrain");
}

void ff_cuda_range_push(const char *name) {
    pthread_once(&once, create_domain);
    nvtxEventAttributes_t event = {.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                   .message.ascii = name};
    (void)nvtxDomainRangePushEx(domain, &event);
}

void ff_cuda_range_pop(void) {
    pthread_once(&once, create_domain);
    (void)nvtxDomainRangePop(domain);
}

#else

void ff_cuda_range_push(const char *name) {
    (void)name;
}
void ff_cuda_range_pop(void) {
}

#endif
