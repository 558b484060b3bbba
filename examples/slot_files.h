/* Lists of numbers, and the files of slots: FOLDER/slot-SLOT.epoch-EPOCH. All of a file is there, or nothing: it gets its name
 * when it is on disk, and begins with the number of its values and a checksum, in case the disk did not keep its word. */
#ifndef SLOT_FILES_H
#define SLOT_FILES_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    long *values;
    int length;
} list;

static const char *folder;
static int rank;

__attribute__((format(printf, 1, 2))) static void stop(const char *format, ...)
{
    char what[8192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    fprintf(stderr, "hyperquicksort: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static list make(int length)
{
    list made = {malloc(((size_t) length + 1) * sizeof(long)), length};
    if (made.values == NULL) {
        stop("no memory");
    }
    return made;
}

static int ascending(const void *a, const void *b)
{
    long x = *(const long *) a, y = *(const long *) b;
    return (x > y) - (x < y);
}

static void name_of(char *name, size_t size, int slot, int epoch)
{
    snprintf(name, size, "%s/slot-%d.epoch-%d", folder, slot, epoch);
}

/* What a file begins with. */
typedef struct {
    long length, sum;
} head;

/* FNV-1a, a word at a time. */
static head head_of(list l)
{
    unsigned long sum = 14695981039346656037UL;
    for (int i = 0; i < l.length; i++) {
        sum = (sum ^ (unsigned long) l.values[i]) * 1099511628211UL;
    }
    return (head){l.length, (long) sum};
}

/* True if the file is there. False if others have swept it away before it had its name: they have gone on without this process,
 * which was slow or stopped, and its round is lost. */
static int write_slot(int slot, int epoch, list l)
{
    char name[4096], new[4096 + 32];
    name_of(name, sizeof name, slot, epoch);
    snprintf(new, sizeof new, "%s.by-%d", name, rank);
    FILE *file = fopen(new, "w");
    head h = head_of(l);
    int is_written = file != NULL && fwrite(&h, sizeof h, 1, file) == 1 &&
                     fwrite(l.values, sizeof(long), (size_t) l.length, file) == (size_t) l.length &&
                     fflush(file) == 0 && fsync(fileno(file)) == 0;
    int why = errno;
    if (file != NULL && fclose(file) != 0 && is_written) {
        is_written = 0, why = errno;
    }
    if (!is_written) {
        stop("%s cannot be written: %s", new, strerror(why));
    }
    int is_there = rename(new, name) == 0;
    if (!is_there && errno != ENOENT) {
        stop("%s cannot be renamed to %s: %s", new, name, strerror(errno));
    }
    int at = open(folder, O_RDONLY | O_DIRECTORY);
    if (at < 0 || fsync(at) != 0) {
        stop("%s cannot be written: %s", folder, strerror(errno));
    }
    close(at);
    return is_there;
}

/* What is wrong with the file that read_slot has read last. */
static const char *fault;

/* False if there is no such file, or it is not whole. */
static int read_slot(int slot, int epoch, list *l)
{
    char name[4096];
    head h, own;
    name_of(name, sizeof name, slot, epoch);
    FILE *file = fopen(name, "r");
    if (file == NULL) {
        fault = errno == ENOENT ? "is missing" : strerror(errno);
        return 0;
    }
    fault = "is damaged";
    int is_whole = fread(&h, sizeof h, 1, file) == 1 && h.length >= 0 && fseek(file, 0, SEEK_END) == 0 &&
                   ftell(file) == (long) sizeof h + h.length * (long) sizeof(long) &&
                   fseek(file, sizeof h, SEEK_SET) == 0;
    if (is_whole) {
        *l = make((int) h.length);
        is_whole = fread(l->values, sizeof(long), (size_t) l->length, file) == (size_t) l->length;
        own = head_of(*l);
        is_whole = is_whole && own.sum == h.sum;
        if (!is_whole) {
            free(l->values);
        }
    }
    fclose(file);
    return is_whole;
}

/* Removes files of earlier epochs than this one, and of earlier attempts. */
static void sweep(int base)
{
    DIR *all = opendir(folder);
    for (struct dirent *entry; all != NULL && (entry = readdir(all)) != NULL;) {
        int slot, epoch, end = 0;
        if (sscanf(entry->d_name, "slot-%d.epoch-%d%n", &slot, &epoch, &end) == 2 && epoch < base) {
            unlinkat(dirfd(all), entry->d_name, 0);
        }
    }
    if (all != NULL) {
        closedir(all);
    }
}

/* The same numbers in every run. */
static long number(unsigned long *state)
{
    *state = *state * 6364136223846793005UL + 1442695040888963407UL;
    return (long) (*state >> 20) % 1000003;
}

static list input(int slot, int count)
{
    unsigned long state = (unsigned long) slot + 1;
    list l = make(count);
    for (int i = 0; i < count; i++) {
        l.values[i] = number(&state);
    }
    return l;
}

/* Says whether the files are sorted and have the numbers of the beginning, by how many, their sum, and the sum of their squares; and
 * which files these are: the folder may have others. */
static void verify(int slots, int epoch, int count)
{
    unsigned long sums[2][3] = {{0}, {0}};
    long last = -1;
    int is_sorted = 1;
    for (int v = 0; v < slots; v++) {
        list lists[2] = {input(v, count)};
        if (!read_slot(v, epoch, &lists[1])) {
            stop("slot %d of epoch %d in %s: %s", v, epoch, folder, fault);
        }
        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < lists[k].length; i++) {
                unsigned long value = (unsigned long) lists[k].values[i];
                sums[k][0]++, sums[k][1] += value, sums[k][2] += value * value;
            }
        }
        for (int i = 0; i < lists[1].length; i++) {
            is_sorted = is_sorted && lists[1].values[i] >= last;
            last = lists[1].values[i];
        }
        free(lists[0].values), free(lists[1].values);
    }
    int is_same = memcmp(sums[0], sums[1], sizeof sums[0]) == 0;
    printf("%lu numbers in %d lists: %s, %s\nthe result is in %s/slot-*.epoch-%d\n", sums[1][0], slots,
           is_sorted ? "sorted" : "NOT SORTED", is_same ? "all there" : "NOT THOSE OF THE BEGINNING", folder, epoch);
}

#endif
