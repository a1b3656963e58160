#include "train/models/models.h"

static const ff_net *const nets[] = {&ff_net_smallnet, &ff_net_resnet18, &ff_net_resnet50,
                                     &ff_net_vgg16_bn, &ff_net_cifarnet};

const ff_net *ff_net_at(int index) {
    int count = (int)(sizeof nets / sizeof *nets);
    return index >= 0 && index < count ? nets[index] : NULL;
}
