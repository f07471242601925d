/* Tells Thread Sanitizer of the contended path of the Swift standard library's Mutex.
 *
 * On Linux that lock is a futex. Its uncontended path is compiled into the program, where the sanitizer sees it; the
 * contended path lies in libswiftSynchronization, where it sees nothing and takes every hand-over for a race. Loaded
 * before that library (LD_PRELOAD), these functions take the place of the two of the contended path, call them, and
 * tell the sanitizer that one released the lock and the other acquired it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

extern void __tsan_acquire(void *) __attribute__((weak));
extern void __tsan_release(void *) __attribute__((weak));

typedef __attribute__((swiftcall)) void lock_fn(uint32_t, __attribute__((swift_context)) void *);
typedef __attribute__((swiftcall)) void unlock_fn(__attribute__((swift_context)) void *);

__attribute__((swiftcall)) void lock_slow(uint32_t thread, __attribute__((swift_context)) void *handle) __asm__(LOCK);
__attribute__((swiftcall)) void unlock_slow(__attribute__((swift_context)) void *handle) __asm__(UNLOCK);

__attribute__((swiftcall)) void lock_slow(uint32_t thread, __attribute__((swift_context)) void *handle) {
    static lock_fn *real;
    if (!real) real = (lock_fn *)dlsym(RTLD_NEXT, LOCK);
    real(thread, handle);
    if (__tsan_acquire) __tsan_acquire(handle);
}

__attribute__((swiftcall)) void unlock_slow(__attribute__((swift_context)) void *handle) {
    static unlock_fn *real;
    if (!real) real = (unlock_fn *)dlsym(RTLD_NEXT, UNLOCK);
    if (__tsan_release) __tsan_release(handle);
    real(handle);
}
