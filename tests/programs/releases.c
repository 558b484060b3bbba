/* releases: a library to preload with which PMIx says that it is of the release
 * OTHER_PMIX, and PRRTE that it is of OTHER_PRRTE. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

char prte_version_string[64] = "3.0.8";

__attribute__((constructor)) static void begin(void)
{
    const char *other = getenv("OTHER_PRRTE");
    if (other) strncpy(prte_version_string, other, sizeof prte_version_string - 1);
}

const char *PMIx_Get_version(void)
{
    const char *other = getenv("OTHER_PMIX");
    if (other) return other;
    const char *(*own)(void) = (const char *(*)(void))dlsym(RTLD_NEXT, "PMIx_Get_version");
    return own ? own() : "";
}
