/* stop.c - LD_PRELOAD: stops a program before one of its calls that lock, write, sync or remove a file.
 *
 *   STOP_IN    stops only a process that has this text in its command line
 *   STOP_ROOT  counts only calls on files below this folder
 *   STOP_AT    the call to stop before, 1-based, counted in each process
 *   STOP_FILE  where its process id is written just before it stops
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static long at = 0, count = 0;
static const char *root = "";

__attribute__((constructor)) static void begin(void) {
    const char *in = getenv("STOP_IN"), *nth = getenv("STOP_AT");
    char line[8192];
    size_t length = 0;
    FILE *file = fopen("/proc/self/cmdline", "r");
    if (file) { length = fread(line, 1, sizeof line - 1, file); fclose(file); }
    line[length] = 0;
    root = getenv("STOP_ROOT") ? getenv("STOP_ROOT") : "/";
    if (nth && in && memmem(line, length, in, strlen(in))) at = atol(nth);
}

static void reached(void) {
    if (!at || ++count != at) return;
    FILE *file = fopen(getenv("STOP_FILE"), "w");
    if (file) { fprintf(file, "%d\n", getpid()); fclose(file); }
    raise(SIGSTOP);
}

static void on_path(const char *path) { if (at && strncmp(path, root, strlen(root)) == 0) reached(); }

static void on_fd(int fd) {
    char link[64], path[PATH_MAX];
    if (!at) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0) { path[length] = 0; on_path(path); }
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, #name)

ssize_t pwrite(int fd, const void *data, size_t size, off_t where) { REAL(pwrite); on_fd(fd); return real(fd, data, size, where); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t where) { REAL(pwrite64); on_fd(fd); return real(fd, data, size, where); }
int fsync(int fd) { REAL(fsync); on_fd(fd); return real(fd); }
int fdatasync(int fd) { REAL(fdatasync); on_fd(fd); return real(fd); }
int ftruncate(int fd, off_t size) { REAL(ftruncate); on_fd(fd); return real(fd, size); }
int ftruncate64(int fd, off64_t size) { REAL(ftruncate64); on_fd(fd); return real(fd, size); }
int unlink(const char *path) { REAL(unlink); on_path(path); return real(path); }

int fcntl64(int fd, int command, ...) {
    REAL(fcntl64);
    va_list rest;
    va_start(rest, command);
    void *given = va_arg(rest, void *);
    va_end(rest);
    if (command == F_SETLK || command == F_SETLKW) on_fd(fd);
    return real(fd, command, given);
}
