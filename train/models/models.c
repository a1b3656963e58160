#include "train/models/models.h"

/* In the order of listing. */
#define NETS(X) X(smallnet) X(resnet18) X(resnet50) X(vgg16_bn) X(cifarnet)

#define DECLARED(name) extern const ff_net ff_net_##name;
#define LISTED(name)   &ff_net_##name,
NETS(DECLARED)

const ff_net *ff_net_at(int index) {
    static const ff_net *const nets[] = {NETS(LISTED) NULL};
    const int count = (int)(sizeof nets / sizeof *nets) - 1;
    return index >= 0 && index < count ? nets[index] : NULL;
}
