#include "fiber.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef FF_SIM_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#ifndef __x86_64__
#include <ucontext.h>
#endif

enum { STACK_BYTES = 256 << 10, APART_BYTES = 13 * 64, APART_MOST = 32 << 10 };

#ifdef __x86_64__
typedef void *machine;
#else
typedef ucontext_t machine;
#endif

struct ff_fiber {
    machine here, outside;
    void *stack;
    void (*function)(void *context);
    void *context;
#ifdef __SANITIZE_ADDRESS__
    void *fake_stack;
    const void *outside_bottom; /* of the stack that entered */
    size_t outside_bytes;
#endif
#ifdef FF_SIM_TSAN
    void *tsan, *tsan_outside;
#endif
};

/* ---- switching stacks ----------------------------------------------------------------------- */

#ifdef __x86_64__
/* Saves the callee's registers and the stack in *save, and continues where `to` was saved: 5 ns,
 * where swapcontext makes a system call for the signal mask. */
extern "C" void ff_fiber_switch(void **save, void *to);
__asm__(".text\n"
        ".globl ff_fiber_switch\n"
        ".hidden ff_fiber_switch\n"
        ".type ff_fiber_switch, @function\n"
        "ff_fiber_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size ff_fiber_switch, . - ff_fiber_switch\n");

static void change(machine *from, machine *to) {
    ff_fiber_switch(from, *to);
}
/* Stacks begin at different places of their pages: all at one place would share a few sets of the
 * cache. */
static size_t apart(void) {
    static size_t bytes;
    return bytes = (bytes + APART_BYTES) % APART_MOST;
}
static void prepare(ff_fiber *fiber, void (*start)(void)) {
    /* Six registers, where to return to, and the return address of that, which there is not. */
    uintptr_t *top = (uintptr_t *)((char *)fiber->stack + STACK_BYTES - apart());
    top[-1] = 0;
    top[-2] = (uintptr_t)start;
    for (int i = 3; i <= 8; i++) top[-i] = 0;
    fiber->here = top - 8;
}
#else
static void change(machine *from, machine *to) {
    swapcontext(from, to);
}
static void prepare(ff_fiber *fiber, void (*start)(void)) {
    getcontext(&fiber->here);
    fiber->here.uc_stack.ss_sp = fiber->stack;
    fiber->here.uc_stack.ss_size = STACK_BYTES;
    fiber->here.uc_link = NULL;
    makecontext(&fiber->here, start, 0);
}
#endif

/* ---- entering and leaving ------------------------------------------------------------------- */

static ff_fiber *starting;

static void arrived(ff_fiber *fiber) {
    (void)fiber;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fiber->fake_stack, &fiber->outside_bottom,
                                    &fiber->outside_bytes);
#endif
}

static void start(void) {
    ff_fiber *fiber = starting;
    arrived(fiber);
    fiber->function(fiber->context);
    abort();
}

ff_fiber *ff_fiber_create(void (*function)(void *context), void *context) {
    ff_fiber *fiber = new ff_fiber();
    fiber->function = function;
    fiber->context = context;
    fiber->stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fiber->stack == MAP_FAILED) {
        fprintf(stderr, "cudasim: no memory for a fiber\n");
        abort();
    }
#ifdef FF_SIM_TSAN
    fiber->tsan = __tsan_create_fiber(0);
#endif
    prepare(fiber, start);
    return fiber;
}

void ff_fiber_enter(ff_fiber *fiber) {
    starting = fiber;
#ifdef __SANITIZE_ADDRESS__
    void *own;
    __sanitizer_start_switch_fiber(&own, fiber->stack, STACK_BYTES);
#endif
#ifdef FF_SIM_TSAN
    fiber->tsan_outside = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber->tsan, __tsan_switch_to_fiber_no_sync);
#endif
    change(&fiber->outside, &fiber->here);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(own, NULL, NULL);
#endif
}

void ff_fiber_leave(ff_fiber *fiber) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&fiber->fake_stack, fiber->outside_bottom, fiber->outside_bytes);
#endif
#ifdef FF_SIM_TSAN
    __tsan_switch_to_fiber(fiber->tsan_outside, __tsan_switch_to_fiber_no_sync);
#endif
    change(&fiber->here, &fiber->outside);
    arrived(fiber);
}
