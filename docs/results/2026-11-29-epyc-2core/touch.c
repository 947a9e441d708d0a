/* How long the first write to each page of a GiB of fresh memory takes: ./touch 0 with pages of 4 KiB, ./touch 1 of 2 MiB. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int count, char **words) {
    const size_t bytes = 1ul << 30, huge = 2ul << 20;
    int advice = count > 1 && atoi(words[1]) ? MADV_HUGEPAGE : MADV_NOHUGEPAGE;
    for (int run = 0; run < 3; run++) {
        char *mapped = mmap(0, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        char *memory = (char *)(((size_t)mapped + huge - 1) & ~(huge - 1));
        madvise(memory, bytes, advice);
        double start = now();
        for (size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
        printf("%.3f s\n", now() - start);
        munmap(mapped, bytes + huge);
    }
}
