/* Records what a process asks of one folder: opens, writes, truncations, syncs, names; and what it says on standard output.

   Preloaded; see power_cut.py. POWER_CUT_ROOT is the folder, POWER_CUT_LOG the record. One lock orders all of it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST 4096
static char root[4096];
static size_t root_length;
static int record = -1;
static char watched[MOST];
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("POWER_CUT_ROOT"), *log = getenv("POWER_CUT_LOG");
    if (!folder || !log) return;
    strncpy(root, folder, sizeof root - 1);
    root_length = strlen(root);
    record = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* The absolute path of a name below the folder, or NULL. */
static const char *inside(int folder, const char *name, char *buffer) {
    if (!name) return NULL;
    if (name[0] != '/') {
        char base[2048], link[64];
        ssize_t length;
        if (folder == AT_FDCWD) {
            if (!getcwd(base, sizeof base)) return NULL;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            if ((length = readlink(link, base, sizeof base - 1)) < 0) return NULL;
            base[length] = 0;
        }
        snprintf(buffer, 4096, "%s/%s", base, name);
        name = buffer;
    }
    return root_length && !strncmp(name, root, root_length) && (name[root_length] == '/' || !name[root_length]) ? name : NULL;
}

static void note(char what, int64_t fd, int64_t at, const void *first, size_t one, const void *second, size_t two) {
    if (record < 0) return;
    int64_t head[5] = {what, fd, at, (int64_t)one, (int64_t)two};
    struct iovec parts[3] = {{head, sizeof head}, {(void *)first, one}, {(void *)second, two}};
    int kept = errno;
    if (REAL(writev)(record, parts, 3) != (ssize_t)(sizeof head + one + two)) abort();
    errno = kept;
}

static int seen(int fd) { return fd >= 0 && fd < MOST && watched[fd]; }

static int opened(int fd, int folder, const char *name, int flags) {
    char buffer[4096];
    const char *path = inside(folder, name, buffer);
    if (fd < 0 || fd >= MOST) return fd;
    watched[fd] = path != NULL;
    if (path) note('o', fd, flags, path, strlen(path), NULL, 0);
    return fd;
}

#define OPENED(call, folder, name, flags) \
    pthread_mutex_lock(&turn); \
    int fd = opened(call, folder, name, flags); \
    pthread_mutex_unlock(&turn); \
    return fd

#define MODE(flags) \
    va_list rest; \
    va_start(rest, flags); \
    mode_t mode = va_arg(rest, mode_t); \
    va_end(rest)

int open(const char *name, int flags, ...) { MODE(flags); OPENED(REAL(open)(name, flags, mode), AT_FDCWD, name, flags); }
int open64(const char *name, int flags, ...) { MODE(flags); OPENED(REAL(open64)(name, flags, mode), AT_FDCWD, name, flags); }
int openat(int folder, const char *name, int flags, ...) {
    MODE(flags);
    OPENED(REAL(openat)(folder, name, flags, mode), folder, name, flags);
}
int openat64(int folder, const char *name, int flags, ...) {
    MODE(flags);
    OPENED(REAL(openat64)(folder, name, flags, mode), folder, name, flags);
}

int close(int fd) {
    pthread_mutex_lock(&turn);
    if (seen(fd)) note('c', fd, 0, NULL, 0, NULL, 0), watched[fd] = 0;
    int status = REAL(close)(fd);
    pthread_mutex_unlock(&turn);
    return status;
}

ssize_t write(int fd, const void *data, size_t size) {
    if (fd != 1 && !seen(fd)) return REAL(write)(fd, data, size);
    pthread_mutex_lock(&turn);
    off64_t at = fd == 1 ? 0 : fcntl(fd, F_GETFL) & O_APPEND ? lseek64(fd, 0, SEEK_END) : lseek64(fd, 0, SEEK_CUR);
    ssize_t written = REAL(write)(fd, data, size);
    if (written > 0) note(fd == 1 ? '1' : 'w', fd, at, data, (size_t)written, NULL, 0);
    pthread_mutex_unlock(&turn);
    return written;
}

#define PWRITE(name) \
    ssize_t name(int fd, const void *data, size_t size, off64_t at) { \
        if (!seen(fd)) return REAL(name)(fd, data, size, at); \
        pthread_mutex_lock(&turn); \
        ssize_t written = REAL(name)(fd, data, size, at); \
        if (written > 0) note('w', fd, at, data, (size_t)written, NULL, 0); \
        pthread_mutex_unlock(&turn); \
        return written; \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

#define WHOLE(name, type, what, argument, number) \
    int name type { \
        if (!seen(fd)) return REAL(name) argument; \
        pthread_mutex_lock(&turn); \
        int status = REAL(name) argument; \
        if (!status) note(what, fd, number, NULL, 0, NULL, 0); \
        pthread_mutex_unlock(&turn); \
        return status; \
    }
WHOLE(ftruncate, (int fd, off_t size), 't', (fd, size), size)
WHOLE(ftruncate64, (int fd, off64_t size), 't', (fd, size), size)
WHOLE(fsync, (int fd), 's', (fd), 0)
WHOLE(fdatasync, (int fd), 's', (fd), 0)

static int named(int status, char what, int from_folder, const char *from, int to_folder, const char *to) {
    char one[4096], two[4096];
    const char *first = inside(from_folder, from, one), *second = to ? inside(to_folder, to, two) : NULL;
    if (!status && (first || second)) {
        if (!first || (to && !second)) abort(); /* a name that crosses the border of the folder cannot be replayed */
        note(what, -1, 0, first, strlen(first), second, second ? strlen(second) : 0);
    }
    return status;
}

#define NAMED(name, type, what, argument, a, b, c, d) \
    int name type { \
        pthread_mutex_lock(&turn); \
        int status = named(REAL(name) argument, what, a, b, c, d); \
        pthread_mutex_unlock(&turn); \
        return status; \
    }
NAMED(rename, (const char *from, const char *to), 'r', (from, to), AT_FDCWD, from, AT_FDCWD, to)
NAMED(renameat, (int a, const char *from, int b, const char *to), 'r', (a, from, b, to), a, from, b, to)
NAMED(link, (const char *from, const char *to), 'l', (from, to), AT_FDCWD, from, AT_FDCWD, to)
NAMED(linkat, (int a, const char *from, int b, const char *to, int flags), 'l', (a, from, b, to, flags), a, from, b, to)
NAMED(unlink, (const char *name), 'u', (name), AT_FDCWD, name, AT_FDCWD, NULL)
NAMED(rmdir, (const char *name), 'u', (name), AT_FDCWD, name, AT_FDCWD, NULL)
NAMED(mkdir, (const char *name, mode_t mode), 'd', (name, mode), AT_FDCWD, name, AT_FDCWD, NULL)
NAMED(mkdirat, (int a, const char *name, mode_t mode), 'd', (a, name, mode), a, name, AT_FDCWD, NULL)
NAMED(unlinkat, (int a, const char *name, int flags), 'u', (a, name, flags), a, name, AT_FDCWD, NULL)
