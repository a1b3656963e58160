/* Fibers: separate stacks, run by one host thread at a time and known to the sanitizers. For
 * ThreadSanitizer they are threads; entering and leaving do not order them. Part of the
 * simulator. */
#ifndef FF_CUDASIM_FIBER_H
#define FF_CUDASIM_FIBER_H

struct ff_fiber;

/* A fiber that runs function(context), which never returns. Aborts if out of memory. */
ff_fiber *ff_fiber_create(void (*function)(void *context), void *context);

/* Runs `fiber` until it calls ff_fiber_leave. Not from inside a fiber; by one thread at a time. */
void ff_fiber_enter(ff_fiber *fiber);
/* Returns to the place at which the running `fiber` was entered. */
void ff_fiber_leave(ff_fiber *fiber);

#endif
