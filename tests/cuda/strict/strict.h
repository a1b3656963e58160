/* A strict stand-in for CUDA's runtime: the host code that ships runs over it without a GPU, and a
 * mistake that a GPU refuses, or lets pass with undefined results, ends the program.
 *
 * How it sees: device and pinned memory lie in one range of addresses (memory.c). What is compiled
 * for it calls it at each load and store (access.c), as ThreadSanitizer's runtime is called. Work
 * runs when it is enqueued, in the calling thread; a launched graph runs node by node. So results
 * are those of one good order, and everything else is found by order alone: each stream, and each
 * branch of a graph, has a vector clock; events, waits, launches and synchronizations join clocks
 * (Mattern 1989); each byte has its last writer and the readers since (order.c). Two accesses, of
 * which one writes, are a race unless one is ordered before the other, whatever ran first.
 *
 * What ends the program, with the places concerned:
 *   - a race between kernels, copies, fills, host functions, and the host's own loads and stores
 *   - a kernel that reads bytes nobody wrote, memory of another device, or outside allocations
 *   - a copy or fill outside allocations, or of memory that is neither pinned nor the stream's
 *     device's: two GPUs may have no access to each other
 *   - memory released, or a graph destroyed, before the host knows that work on it is done
 *   - handles that are not, or no longer, there; a launch while another device is current; calls of
 *     CUDA in host functions
 *   - what the real runtime refuses in captures ("CUDA Runtime API", cudaStreamCaptureMode), and
 *     forked streams that are not joined
 *   - a launch that a GPU refuses (limits.h): a T4, an A100 or an H100, with the registers and the
 *     shared memory that ptxas reports for its architecture
 *
 * The host is one: what one of its threads has waited for counts for all of them, since their order
 * among themselves is ThreadSanitizer's affair. Not seen: loads and stores of libraries of others.
 * An event that is not done for certain is now and then not ready.
 *
 * Environment: FF_SIM_CARDS (2) GPUs; FF_SIM_MEMORY is the memory of each in KiB; FF_SIM_SEED;
 * FF_STRICT_NO_MEMORY=N: the N-th allocation fails, as if the memory were used up;
 * FF_STRICT_GONE=N: from the N-th call on every call fails, as after a GPU has fallen off the bus;
 * FF_STRICT_RANK=R: both of them only in the process that is rank R of several;
 * FF_STRICT_COUNTS prints the counts at exit, and what was not released; FF_STRICT_KERNELS is
 * another table of kernels than the one next to the program; the names of launched kernels are
 * added to the file FF_STRICT_LAUNCHED. Any thread. */
#ifndef FF_TESTS_STRICT_H
#define FF_TESTS_STRICT_H

#include <stdint.h>

/* Since the program began. */
typedef struct strict_counts {
    uint64_t kernels;       /* not in graphs: kernels and other work of libraries */
    uint64_t graphs, nodes; /* launched, and what ran in them */
    uint64_t copies, bytes; /* copies and fills, also in graphs, and what they wrote */
    uint64_t functions;     /* of the host, also in graphs */
    uint64_t waits;         /* of the host, for work that it does not know to be done */
    uint64_t allocations;   /* of device and pinned memory */
    uint64_t calls;
} strict_counts;
strict_counts strict_counted(void);

/* For the stand-in's own test: if set, the first failure's sentence is kept here, and the program
 * continues. */
enum { STRICT_SENTENCE = 4096 };
extern char *strict_kept;

#endif
