/* What every shim does alike: the last failure of each thread, in words; memory; saying that nothing is counted. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>

static _Thread_local char text[512];

const char *peer_error(void) {
    return text;
}

int peer_failed(const char *engine, const char *what) {
    snprintf(text, sizeof text, "%s: %s", engine, what);
    return FAILED;
}

void *peer_made(const char *engine, size_t size) {
    void *made = calloc(1, size);
    if (made == NULL) peer_failed(engine, "no memory");
    return made;
}

void peer_no_counters(Store *store, Counters *counters) {
    (void)store;
    *counters = (Counters){-1, -1};
}
