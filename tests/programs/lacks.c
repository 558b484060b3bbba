/* lacks: a library to be preloaded, with which nobody finds the symbol that LACKED names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void *dlsym(void *library, const char *name) {
    static void *(*stock)(void *, const char *);
    const char *lacked = getenv("LACKED");
    if (!stock) stock = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    return lacked && !strcmp(name, lacked) ? NULL : stock(library, name);
}
