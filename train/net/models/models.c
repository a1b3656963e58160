#include "train/net/models/models.h"

/* In the order of listing. */
#define RESNETS(X) X(resnet18) X(resnet34) X(resnet50) X(resnet101) X(resnet152)
#define VGGS(X)    X(vgg11) X(vgg11_bn) X(vgg13) X(vgg13_bn) X(vgg16) X(vgg16_bn) X(vgg19) X(vgg19_bn)
#define NETS(X)    X(smallnet) X(cifarnet) RESNETS(X) VGGS(X) X(mobilenet_v2)

#define DECLARED(name) extern const ff_net ff_net_##name;
#define LISTED(name)   &ff_net_##name,
NETS(DECLARED)

const ff_net *ff_net_at(int index) {
    static const ff_net *const nets[] = {NETS(LISTED) NULL};
    const int count = (int)(sizeof nets / sizeof *nets) - 1;
    return index >= 0 && index < count ? nets[index] : NULL;
}
