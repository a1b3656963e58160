/* What the compiler calls at each load and store (gcc's -fsanitize=thread), and the wrapped calls
 * that copy and fill. Atomic operations are done here, in sequential order. */
#include "tests/cuda/strict/state.h"

#define HERE __builtin_return_address(0)
#pragma GCC visibility push(default) /* NCCL's stand-in calls them, too */

void __tsan_init(void);
void __tsan_vptr_update(void **at, void *value);
void __tsan_read_range(void *at, size_t bytes);
void __tsan_write_range(void *at, size_t bytes);
void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_signal_fence(int order);

void __tsan_init(void) {
}
void __tsan_vptr_update(void **at, void *value) {
    (void)at, (void)value;
}
void __tsan_read_range(void *at, size_t bytes) {
    touch(at, bytes, false, HERE);
}
void __tsan_write_range(void *at, size_t bytes) {
    touch(at, bytes, true, HERE);
}
void __tsan_atomic_thread_fence(int order) {
    (void)order;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int order) {
    (void)order;
}

#define ACCESS(bytes)                                                                              \
    void __tsan_read##bytes(void *at);                                                             \
    void __tsan_write##bytes(void *at);                                                            \
    void __tsan_unaligned_read##bytes(void *at);                                                   \
    void __tsan_unaligned_write##bytes(void *at);                                                  \
    void __tsan_read##bytes(void *at) {                                                            \
        touch(at, bytes, false, HERE);                                                             \
    }                                                                                              \
    void __tsan_write##bytes(void *at) {                                                           \
        touch(at, bytes, true, HERE);                                                              \
    }                                                                                              \
    void __tsan_unaligned_read##bytes(void *at) {                                                  \
        touch(at, bytes, false, HERE);                                                             \
    }                                                                                              \
    void __tsan_unaligned_write##bytes(void *at) {                                                 \
        touch(at, bytes, true, HERE);                                                              \
    }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

#define CHANGE(bits, type, name)                                                                   \
    type __tsan_atomic##bits##_##name(volatile type *at, type value, int order);                   \
    type __tsan_atomic##bits##_##name(volatile type *at, type value, int order) {                  \
        (void)order;                                                                               \
        touch((const void *)at, sizeof *at, true, HERE);                                           \
        return __atomic_##name(at, value, __ATOMIC_SEQ_CST);                                       \
    }
#define EXCHANGE(bits, type, name, weak)                                                           \
    int __tsan_atomic##bits##_compare_exchange_##name(volatile type *at, type *old, type value,    \
                                                      int order, int else_order);                  \
    int __tsan_atomic##bits##_compare_exchange_##name(volatile type *at, type *old, type value,    \
                                                      int order, int else_order) {                 \
        (void)order, (void)else_order;                                                             \
        touch((const void *)at, sizeof *at, true, HERE);                                           \
        return __atomic_compare_exchange_n(at, old, value, weak, __ATOMIC_SEQ_CST,                 \
                                           __ATOMIC_SEQ_CST);                                      \
    }
#define ATOMIC(bits, type)                                                                         \
    type __tsan_atomic##bits##_load(const volatile type *at, int order);                           \
    void __tsan_atomic##bits##_store(volatile type *at, type value, int order);                    \
    type __tsan_atomic##bits##_exchange(volatile type *at, type value, int order);                 \
    type __tsan_atomic##bits##_load(const volatile type *at, int order) {                          \
        (void)order;                                                                               \
        touch((const void *)at, sizeof *at, false, HERE);                                          \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                              \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile type *at, type value, int order) {                   \
        (void)order;                                                                               \
        touch((const void *)at, sizeof *at, true, HERE);                                           \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                             \
    }                                                                                              \
    type __tsan_atomic##bits##_exchange(volatile type *at, type value, int order) {                \
        (void)order;                                                                               \
        touch((const void *)at, sizeof *at, true, HERE);                                           \
        return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                   \
    }                                                                                              \
    CHANGE(bits, type, fetch_add)                                                                  \
    CHANGE(bits, type, fetch_sub)                                                                  \
    CHANGE(bits, type, fetch_and)                                                                  \
    CHANGE(bits, type, fetch_or)                                                                   \
    CHANGE(bits, type, fetch_xor)                                                                  \
    EXCHANGE(bits, type, strong, false)                                                            \
    EXCHANGE(bits, type, weak, true)
ATOMIC(8, unsigned char)
ATOMIC(16, unsigned short)
ATOMIC(32, unsigned)
ATOMIC(64, unsigned long)

/* ---- wrapped ---- */

void *__real_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memmove(void *to, const void *from, size_t bytes);
void *__wrap_memset(void *to, int value, size_t bytes);

void *__wrap_memcpy(void *to, const void *from, size_t bytes) {
    touch(from, bytes, false, HERE);
    touch(to, bytes, true, HERE);
    return __real_memcpy(to, from, bytes);
}
void *__wrap_memmove(void *to, const void *from, size_t bytes) {
    touch(from, bytes, false, HERE);
    touch(to, bytes, true, HERE);
    return __real_memmove(to, from, bytes);
}
void *__wrap_memset(void *to, int value, size_t bytes) {
    touch(to, bytes, true, HERE);
    return __real_memset(to, value, bytes);
}
