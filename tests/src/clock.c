// A wrong clock for one process: seconds from $SWEEP_TEST_CLOCK are added to the time of day, and to nothing else.
// Loaded before the C library (LD_PRELOAD) by the tests of wrong clocks.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = (int)syscall(SYS_clock_gettime, clock, time);
    const char *offset = getenv("SWEEP_TEST_CLOCK");
    if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        time->tv_sec += atol(offset);
    }
    return failed;
}
