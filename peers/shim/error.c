/* The last failure of each thread, in words. */
#include "engine.h"

#include <stdio.h>

static _Thread_local char text[512];

const char *peer_error(void) {
    return text;
}

int peer_failed(const char *engine, const char *what) {
    snprintf(text, sizeof text, "%s: %s", engine, what);
    return FAILED;
}
