/* `dump_order COUNT FIRST [SEED]`: the numbers of the first FIRST samples of a set of COUNT in
 * random order, epoch 0, one a line. With seed 0 and 5000 of a training set: the samples that
 * whitening uses (train/net/whitening.h). */
#include "loader/sequence/order.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s COUNT FIRST [SEED]\n", argv[0]);
        return 2;
    }
    const ff_order_spec spec = {.count = strtoull(argv[1], NULL, 10),
                                .kind = FF_ORDER_RANDOM,
                                .seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 0};
    const uint64_t first = strtoull(argv[2], NULL, 10);
    if (spec.count == 0 || first > spec.count) return 2;
    ff_order order;
    ff_order_init(&order, &spec, 0);
    for (uint64_t i = 0; i < first; i++) printf("%" PRIu64 "\n", ff_order_at(&order, i));
    return 0;
}
