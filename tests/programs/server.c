/* A PMIx server that is given launch data for a job, as PRRTE's daemons are: what they say is nonsense. It prints what PMIx says of
 * them. */
#include <pmix.h>
#include <pmix_server.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
static int done;

static void on_answer(pmix_status_t status, void *data)
{
    (void) data;
    printf("set up: %s\n", PMIx_Error_string(status));
    pthread_mutex_lock(&lock);
    done = 1;
    pthread_cond_signal(&answered);
    pthread_mutex_unlock(&lock);
}

int main(void)
{
    pmix_byte_object_t nonsense = {.bytes = "nonsense", .size = strlen("nonsense")};
    pmix_nspace_t job = "a-job";
    pmix_info_t info;

    if (PMIX_SUCCESS != PMIx_server_init(NULL, NULL, 0)) {
        fprintf(stderr, "there is no PMIx\n");
        return 2;
    }
    PMIX_INFO_LOAD(&info, "ringwatch.launch", &nonsense, PMIX_BYTE_OBJECT);
    if (PMIX_SUCCESS != PMIx_server_setup_local_support(job, &info, 1, on_answer, NULL)) {
        fprintf(stderr, "PMIx refuses the launch data\n");
        return 2;
    }
    pthread_mutex_lock(&lock);
    while (!done) {
        pthread_cond_wait(&answered, &lock);
    }
    pthread_mutex_unlock(&lock);
    PMIx_server_finalize();
    return 0;
}
