/* Preloaded before cuDNN: its heuristics have more engines than any list has room for, as a later
 * version may. cudnnBackendGetAttribute then returns more as the count than it has filled. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

enum { RESULTS = 202, MORE = 100000 }; /* CUDNN_ATTR_ENGINEHEUR_RESULTS */

typedef int get_attribute(void *descriptor, int name, int type, int64_t asked, int64_t *count,
                          void *values);

get_attribute cudnnBackendGetAttribute;
int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t asked, int64_t *count,
                             void *values) {
    static get_attribute *own;
    void *library = own ? NULL : dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_NOLOAD);
    if (library) *(void **)&own = dlsym(library, "cudnnBackendGetAttribute");
    if (!own) return 1;
    const int status = own(descriptor, name, type, asked, count, values);
    if (status == 0 && name == RESULTS && asked > 1 && count && *count) *count += MORE;
    return status;
}
