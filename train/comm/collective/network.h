/* Messages between processes over TCP. Each pair of ranks has two connections: one for the
 * exchanged messages, one for notices of failures, which end the exchange of every rank.
 *
 * Thread rule: one thread; ff_network_abort from any. */
#ifndef FF_TRAIN_COMM_NETWORK_H
#define FF_TRAIN_COMM_NETWORK_H

#include "train/comm/collective/host.h"

#include <netinet/in.h>

enum { FF_NETWORK_ADDRESSES = 16 };

/* The address at which a rank listens for the others. */
typedef struct ff_network_place {
    uint8_t token[16]; /* from rank 0: begins all connections of this job */
    struct in6_addr addresses[FF_NETWORK_ADDRESSES];
    int count;
    in_port_t port; /* in network order */
} ff_network_place;

typedef struct ff_network {
    int rank, size;
    int listener; /* -1 = none */
    uint8_t token[16];
    int sockets[FF_COMM_RANKS_MOST]; /* -1 = not connected */
    int notices[FF_COMM_RANKS_MOST];
    bool left[FF_COMM_RANKS_MOST]; /* ended without a failure */
    ff_barrier *barrier;           /* of the communicator; the caller sets it */
} ff_network;

/* Listens at a free port of all addresses. ff_network_close releases, after a failure too. */
FF_MUST_USE ff_status ff_network_listen(ff_network *network, int rank, int size,
                                        ff_network_place *place, ff_error *error);

/* Connects to the ranks in `peer`, with places[size] of all ranks. FF_FAILED names the rank that is
 * not reached within timeout_ns. */
FF_MUST_USE ff_status ff_network_connect(ff_network *network, const ff_network_place *places,
                                         const bool *peer, uint64_t timeout_ns, ff_error *error);

/* The exchange (host.h) among the connected ranks. `inbox` receives messages without an address.
 * Ends with the barrier's failure. */
FF_MUST_USE ff_status ff_network_exchange(ff_network *network, ff_message *messages, char *inbox,
                                          ff_error *error);

/* Sends the barrier's failure to the connected ranks. */
void ff_network_abort(ff_network *network);

/* Notifies the connected ranks that this rank has ended, unless it has failed. */
void ff_network_close(ff_network *network);

#endif
