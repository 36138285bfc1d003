/* shim.c - LD_PRELOAD recorder and fault injector for the crash simulator.
 *
 * It logs, in one O_APPEND file shared by every process of the run, each change the program makes
 * to files below PC_ROOT (data writes, truncations, names), each sync call as a begin/end pair, and
 * each line written to PC_ACKFD.  volume.py replays prefixes of that log to build the directory as
 * a power cut at that moment could have left it.
 *
 *   PC_ROOT   directory whose files are watched (absolute, no symlinks)
 *   PC_LOG    log file (outside PC_ROOT)
 *   PC_ACKFD  descriptor carrying acknowledgements (default 1)
 *   PC_FAULT  op,ERRNO,nth[,sticky]  fail the nth call (1-based, per process) of op, where op is
 *             write | sync | open | rename | unlink | truncate; ERRNO is EIO | ENOSPC | EDQUOT |
 *             EROFS | EMFILE | SHORT (SHORT: write only half the bytes, then carry on)
 *
 * Not seen: stdio's internal writes (FILE*), io_uring, raw syscalls, stores through a shared mapping
 * (a writable MAP_SHARED of a watched file is logged as 'm', so the harness can say so).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct rec { uint32_t magic; uint32_t type; uint32_t pid; uint32_t alen; uint32_t blen; uint32_t pad;
             uint64_t ino; uint64_t off; uint64_t len; };
#define MAGIC 0x50435554u

static char root[PATH_MAX], logpath[PATH_MAX];
static size_t rootlen;
static int logfd = -1, ackfd = 1, ready;
static char f_op[16], f_err[16];
static long f_nth; static int f_sticky; static long f_seen;

#define REAL(name) ((__typeof__(&name))real_##name())
#define DEFREAL(name) static void *real_##name(void) { static void *p; if (!p) p = dlsym(RTLD_NEXT, #name); return p; }

DEFREAL(write) DEFREAL(pwrite64) DEFREAL(writev) DEFREAL(pwritev) DEFREAL(ftruncate) DEFREAL(fallocate)
DEFREAL(posix_fallocate) DEFREAL(fsync) DEFREAL(fdatasync) DEFREAL(sync) DEFREAL(syncfs) DEFREAL(sendfile)
DEFREAL(copy_file_range)

__attribute__((constructor)) static void init(void) {
    if (ready) return;
    ready = 1;
    const char *r = getenv("PC_ROOT"), *l = getenv("PC_LOG"), *a = getenv("PC_ACKFD"), *f = getenv("PC_FAULT");
    if (r) { snprintf(root, sizeof root, "%s", r); rootlen = strlen(root); }
    if (l) snprintf(logpath, sizeof logpath, "%s", l);
    if (a) ackfd = atoi(a);
    char st[16] = "";
    if (f && sscanf(f, "%15[^,],%15[^,],%ld,%15s", f_op, f_err, &f_nth, st) >= 3) f_sticky = !strcmp(st, "sticky");
}

static int logopen(void) {
    if (logfd < 0 && logpath[0]) {
        int fd = syscall(SYS_openat, AT_FDCWD, logpath, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0) { logfd = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 700); syscall(SYS_close, fd); }
    }
    return logfd;
}

static void emit(int type, uint64_t ino, uint64_t off, uint64_t len, const void *a, size_t alen, const void *b, size_t blen) {
    init();
    if (!rootlen) return;
    int e = errno;
    for (int again = 0; again < 2 && logopen() >= 0; again++) {
        struct rec r = {MAGIC, (uint32_t)type, (uint32_t)getpid(), (uint32_t)alen, (uint32_t)blen, 0, ino, off, len};
        struct iovec v[3] = {{&r, sizeof r}, {(void *)a, alen}, {(void *)b, blen}};
        if (syscall(SYS_writev, logfd, v, 3) >= 0 || errno != EBADF) break;
        logfd = -1;   /* somebody closed every descriptor */
    }
    errno = e;
}

static int under(const char *p) { return rootlen && !strncmp(p, root, rootlen) && (p[rootlen] == '/' || !p[rootlen]); }

/* absolute, lexically plain path of (dirfd, path); the last component is not followed */
static int abspath(int dfd, const char *p, char *out) {
    char tmp[PATH_MAX], base[PATH_MAX];
    if (p[0] == '/') snprintf(tmp, sizeof tmp, "%s", p);
    else {
        if (dfd == AT_FDCWD) { if (syscall(SYS_getcwd, base, sizeof base) < 0) return -1; }
        else { char l[64]; snprintf(l, sizeof l, "/proc/self/fd/%d", dfd);
               ssize_t n = readlink(l, base, sizeof base - 1); if (n < 0) return -1; base[n] = 0; }
        if (snprintf(tmp, sizeof tmp, "%s/%s", base, p) >= (int)sizeof tmp) return -1;
    }
    size_t o = 0; out[0] = 0;
    for (char *s = tmp, *t; *s; s = t) {
        while (*s == '/') s++;
        for (t = s; *t && *t != '/'; t++) ;
        size_t n = t - s;
        if (!n || (n == 1 && s[0] == '.')) continue;
        if (n == 2 && s[0] == '.' && s[1] == '.') { while (o && out[--o] != '/') ; out[o] = 0; continue; }
        if (o + n + 2 > PATH_MAX) return -1;
        out[o++] = '/'; memcpy(out + o, s, n); o += n; out[o] = 0;
    }
    if (!o) strcpy(out, "/");
    return 0;
}

/* 1 if fd is a regular file (or, with dir, a directory) below root; fills ino and path */
static int watched(int fd, int dir, uint64_t *ino, char *path) {
    init();
    if (!rootlen) return 0;
    int e = errno, ok = 0; struct stat st; char l[64];
    if (!fstat(fd, &st) && (S_ISREG(st.st_mode) || (dir && S_ISDIR(st.st_mode)))) {
        snprintf(l, sizeof l, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(l, path, PATH_MAX - 1);
        if (n > 0) { path[n] = 0; ok = under(path); *ino = st.st_ino; }
    }
    errno = e;
    return ok;
}

static int fault(const char *op) {   /* errno to fail with, -1 for a short write, 0 to carry on */
    init();
    if (!f_nth || strcmp(op, f_op)) return 0;
    long n = __sync_add_and_fetch(&f_seen, 1);
    if (n != f_nth && !(f_sticky && n > f_nth)) return 0;
    emit('!', 0, n, 0, op, strlen(op), f_err, strlen(f_err));
    if (!strcmp(f_err, "SHORT")) return -1;
    if (!strcmp(f_err, "ENOSPC")) return ENOSPC;
    if (!strcmp(f_err, "EDQUOT")) return EDQUOT;
    if (!strcmp(f_err, "EROFS")) return EROFS;
    if (!strcmp(f_err, "EMFILE")) return EMFILE;
    return EIO;
}
#define FAIL_IF(op, cond) do { if (cond) { int fe_ = fault(op); if (fe_ > 0) { errno = fe_; return -1; } } } while (0)

/* ---- opening -------------------------------------------------------------------------------- */
static int do_open(int dfd, const char *p, int flags, mode_t mode) {
    char ap[PATH_MAX]; int w = 0, existed = 1; init();
    if (rootlen && (flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) && !abspath(dfd, p, ap) && under(ap)) {
        struct stat st; w = 1;
        existed = !lstat(ap, &st);
        FAIL_IF("open", 1);
    }
    int fd = syscall(SYS_openat, dfd, p, flags, mode);
    if (fd >= 0 && w) {
        struct stat st; int e = errno;
        if (!fstat(fd, &st)) {
            if (!existed && (flags & O_CREAT)) emit('C', st.st_ino, 0, 0, ap, strlen(ap), 0, 0);
            else if (flags & O_TRUNC) emit('t', st.st_ino, 0, 0, 0, 0, 0, 0);
        }
        errno = e;
    }
    return fd;
}
#define GETMODE mode_t m = 0; if (f & (O_CREAT | O_TMPFILE)) { va_list ap_; va_start(ap_, f); m = va_arg(ap_, int); va_end(ap_); }
int open(const char *p, int f, ...) { GETMODE return do_open(AT_FDCWD, p, f, m); }
int open64(const char *p, int f, ...) { GETMODE return do_open(AT_FDCWD, p, f | O_LARGEFILE, m); }
int openat(int d, const char *p, int f, ...) { GETMODE return do_open(d, p, f, m); }
int openat64(int d, const char *p, int f, ...) { GETMODE return do_open(d, p, f | O_LARGEFILE, m); }
int creat(const char *p, mode_t m) { return do_open(AT_FDCWD, p, O_CREAT | O_WRONLY | O_TRUNC, m); }

/* ---- data ----------------------------------------------------------------------------------- */
static void readback(uint64_t ino, const char *path, off_t off, ssize_t n) {
    int rd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    char *b = malloc(n);
    if (rd >= 0 && b) { ssize_t k = pread(rd, b, n, off); if (k > 0) emit('W', ino, off, k, 0, 0, b, k); }
    free(b);
    if (rd >= 0) syscall(SYS_close, rd);
}

ssize_t write(int fd, const void *b, size_t n) {
    char path[PATH_MAX]; uint64_t ino; init();
    if (rootlen && fd == ackfd) { emit('A', 0, 0, n, 0, 0, b, n); return REAL(write)(fd, b, n); }
    if (!watched(fd, 0, &ino, path)) return REAL(write)(fd, b, n);
    int fe = fault("write");
    if (fe > 0) { errno = fe; return -1; }
    if (fe < 0) n = n / 2 ? n / 2 : n;
    ssize_t r = REAL(write)(fd, b, n);
    if (r > 0) { int e = errno; off_t o = lseek(fd, 0, SEEK_CUR) - r; emit('W', ino, o, r, 0, 0, b, r); errno = e; }
    return r;
}
static ssize_t do_pwrite(int fd, const void *b, size_t n, off_t o) {
    char path[PATH_MAX]; uint64_t ino;
    if (!watched(fd, 0, &ino, path)) return REAL(pwrite64)(fd, b, n, o);
    int fe = fault("write");
    if (fe > 0) { errno = fe; return -1; }
    if (fe < 0) n = n / 2 ? n / 2 : n;
    ssize_t r = REAL(pwrite64)(fd, b, n, o);
    if (r > 0) emit('W', ino, o, r, 0, 0, b, r);
    return r;
}
ssize_t pwrite(int fd, const void *b, size_t n, off_t o) { return do_pwrite(fd, b, n, o); }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t o) { return do_pwrite(fd, b, n, o); }
static char *flat(const struct iovec *v, int c, size_t *n) {
    *n = 0; for (int i = 0; i < c; i++) *n += v[i].iov_len;
    char *b = malloc(*n ? *n : 1), *p = b;
    for (int i = 0; b && i < c; i++) { memcpy(p, v[i].iov_base, v[i].iov_len); p += v[i].iov_len; }
    return b;
}
ssize_t writev(int fd, const struct iovec *v, int c) {
    size_t n; char *b = flat(v, c, &n);
    if (!b) return REAL(writev)(fd, v, c);
    ssize_t r = write(fd, b, n); free(b); return r;
}
ssize_t pwritev(int fd, const struct iovec *v, int c, off_t o) {
    size_t n; char *b = flat(v, c, &n);
    if (!b) return REAL(pwritev)(fd, v, c, o);
    ssize_t r = do_pwrite(fd, b, n, o); free(b); return r;
}
ssize_t pwritev64(int fd, const struct iovec *v, int c, off64_t o) { return pwritev(fd, v, c, o); }
ssize_t sendfile(int out, int in, off_t *off, size_t n) {
    char path[PATH_MAX]; uint64_t ino; int w = watched(out, 0, &ino, path);
    FAIL_IF("write", w);
    ssize_t r = REAL(sendfile)(out, in, off, n);
    if (w && r > 0) readback(ino, path, lseek(out, 0, SEEK_CUR) - r, r);
    return r;
}
ssize_t sendfile64(int out, int in, off64_t *off, size_t n) { return sendfile(out, in, (off_t *)off, n); }
ssize_t copy_file_range(int in, off64_t *io, int out, off64_t *oo, size_t n, unsigned f) {
    char path[PATH_MAX]; uint64_t ino; int w = watched(out, 0, &ino, path);
    FAIL_IF("write", w);
    ssize_t r = REAL(copy_file_range)(in, io, out, oo, n, f);
    if (w && r > 0) readback(ino, path, (oo ? *oo : lseek(out, 0, SEEK_CUR)) - r, r);
    return r;
}
int ftruncate(int fd, off_t n) {
    char path[PATH_MAX]; uint64_t ino; int w = watched(fd, 0, &ino, path);
    FAIL_IF("truncate", w);
    int r = REAL(ftruncate)(fd, n);
    if (!r && w) emit('t', ino, n, 0, 0, 0, 0, 0);
    return r;
}
int ftruncate64(int fd, off64_t n) { return ftruncate(fd, n); }
int truncate(const char *p, off_t n) {
    int fd = do_open(AT_FDCWD, p, O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0) return -1;
    int r = ftruncate(fd, n), e = errno; syscall(SYS_close, fd); errno = e; return r;
}
int truncate64(const char *p, off64_t n) { return truncate(p, n); }
int fallocate(int fd, int mode, off_t o, off_t n) {
    char path[PATH_MAX]; uint64_t ino; int w = watched(fd, 0, &ino, path);
    FAIL_IF("write", w);
    int r = REAL(fallocate)(fd, mode, o, n);
    if (!r && w) {
        if (mode & FALLOC_FL_PUNCH_HOLE) emit('z', ino, o, n, 0, 0, 0, 0);
        else if (!(mode & FALLOC_FL_KEEP_SIZE)) emit('x', ino, o + n, 0, 0, 0, 0, 0);
    }
    return r;
}
int fallocate64(int fd, int mode, off64_t o, off64_t n) { return fallocate(fd, mode, o, n); }
int posix_fallocate(int fd, off_t o, off_t n) {
    char path[PATH_MAX]; uint64_t ino; int w = watched(fd, 0, &ino, path);
    if (w) { int fe = fault("write"); if (fe > 0) return fe; }
    int r = REAL(posix_fallocate)(fd, o, n);
    if (!r && w) emit('x', ino, o + n, 0, 0, 0, 0, 0);
    return r;
}
int posix_fallocate64(int fd, off64_t o, off64_t n) { return posix_fallocate(fd, o, n); }

/* ---- durability ----------------------------------------------------------------------------- */
static int do_sync(int fd, int (*fn)(int)) {
    char path[PATH_MAX]; uint64_t ino;
    if (!watched(fd, 1, &ino, path)) return fn(fd);
    FAIL_IF("sync", 1);
    emit('s', ino, 0, 0, path, strlen(path), 0, 0);
    int r = fn(fd);
    if (!r) emit('S', ino, 0, 0, path, strlen(path), 0, 0);
    return r;
}
int fsync(int fd) { return do_sync(fd, REAL(fsync)); }
int fdatasync(int fd) { return do_sync(fd, REAL(fdatasync)); }
void sync(void) { emit('y', 0, 0, 0, 0, 0, 0, 0); REAL(sync)(); emit('Y', 0, 0, 0, 0, 0, 0, 0); }
int syncfs(int fd) { emit('y', 0, 0, 0, 0, 0, 0, 0); int r = REAL(syncfs)(fd); if (!r) emit('Y', 0, 0, 0, 0, 0, 0, 0); return r; }
void *mmap(void *a, size_t n, int prot, int flags, int fd, off_t o) {
    char path[PATH_MAX]; uint64_t ino;
    if (fd >= 0 && (flags & MAP_SHARED) && (prot & PROT_WRITE) && watched(fd, 0, &ino, path)) emit('m', ino, 0, 0, path, strlen(path), 0, 0);
    return (void *)syscall(SYS_mmap, a, n, prot, flags, fd, o);
}
void *mmap64(void *a, size_t n, int prot, int flags, int fd, off64_t o) { return mmap(a, n, prot, flags, fd, o); }

/* ---- names ---------------------------------------------------------------------------------- */
static int two(int type, const char *op, int d1, const char *p1, int d2, const char *p2, unsigned flags) {
    char a[PATH_MAX], b[PATH_MAX]; init();
    int w = rootlen && !abspath(d1, p1, a) && !abspath(d2, p2, b) && (under(a) || under(b));
    FAIL_IF(op, w);
    int r = type == 'R' ? syscall(SYS_renameat2, d1, p1, d2, p2, flags) : syscall(SYS_linkat, d1, p1, d2, p2, flags);
    struct stat st; int e = errno;
    if (!r && w) emit(type, !lstat(b, &st) ? st.st_ino : 0, 0, flags, a, strlen(a), b, strlen(b));
    errno = e;
    return r;
}
int rename(const char *a, const char *b) { return two('R', "rename", AT_FDCWD, a, AT_FDCWD, b, 0); }
int renameat(int d1, const char *a, int d2, const char *b) { return two('R', "rename", d1, a, d2, b, 0); }
int renameat2(int d1, const char *a, int d2, const char *b, unsigned f) { return two('R', "rename", d1, a, d2, b, f); }
int link(const char *a, const char *b) { return two('L', "link", AT_FDCWD, a, AT_FDCWD, b, 0); }
int linkat(int d1, const char *a, int d2, const char *b, int f) { return two('L', "link", d1, a, d2, b, f); }
static int one(int type, const char *op, int d, const char *p, int flags, mode_t mode) {
    char a[PATH_MAX]; init();
    int w = rootlen && !abspath(d, p, a) && under(a);
    FAIL_IF(op, w);
    int r = type == 'M' ? syscall(SYS_mkdirat, d, p, mode) : syscall(SYS_unlinkat, d, p, flags);
    if (!r && w) emit(flags & AT_REMOVEDIR ? 'X' : type, 0, 0, 0, a, strlen(a), 0, 0);
    return r;
}
int unlink(const char *p) { return one('U', "unlink", AT_FDCWD, p, 0, 0); }
int unlinkat(int d, const char *p, int f) { return one('U', "unlink", d, p, f, 0); }
int rmdir(const char *p) { return one('X', "unlink", AT_FDCWD, p, AT_REMOVEDIR, 0); }
int mkdir(const char *p, mode_t m) { return one('M', "open", AT_FDCWD, p, 0, m); }
int mkdirat(int d, const char *p, mode_t m) { return one('M', "open", d, p, 0, m); }
int symlinkat(const char *t, int d, const char *p) {
    char a[PATH_MAX]; init();
    int r = syscall(SYS_symlinkat, t, d, p);
    if (!r && rootlen && !abspath(d, p, a) && under(a)) emit('l', 0, 0, 0, a, strlen(a), t, strlen(t));
    return r;
}
int symlink(const char *t, const char *p) { return symlinkat(t, AT_FDCWD, p); }
