/* Fibers: stacks of their own that one host thread at a time runs, known to the sanitizers: to
 * ThreadSanitizer as threads that entering and leaving do not order. Part of the simulator. */
#ifndef FF_CUDASIM_FIBER_H
#define FF_CUDASIM_FIBER_H

struct ff_fiber;

/* A fiber that runs function(context), which never returns. Aborts where there is no memory. */
ff_fiber *ff_fiber_create(void (*function)(void *context), void *context);

/* Runs `fiber` until it calls ff_fiber_leave. Not from inside a fiber; by one thread at a time. */
void ff_fiber_enter(ff_fiber *fiber);
/* Returns to where the running `fiber` was entered. */
void ff_fiber_leave(ff_fiber *fiber);

#endif
