/* A stamp of the sources that programs are compiled by: programs on disk are of use only as long as it stays the same. */

#include "native.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* SplitMix64: each bit of the argument changes about half of the bits. */
static uint64_t mixed(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static bool ends_with(const char *name, const char *suffix) {
    size_t length = strlen(name), ending = strlen(suffix);
    return length > ending && memcmp(name + length - ending, suffix, ending) == 0;
}

static bool is_source(const char *name) {
    return ends_with(name, ".py") || ends_with(name, ".so");
}

/* A number for a name in a folder that has a number. */
static uint64_t number_of(const char *name, uint64_t folder) {
    for (; *name != '\0'; name++)
        folder = mixed(folder ^ (unsigned char)*name);
    return folder;
}

static uint64_t stamp_of(uint64_t number, const struct stat *status) {
    uint64_t stamp = mixed(number) ^ (uint64_t)status->st_size;
    stamp = mixed(stamp) ^ (uint64_t)status->st_mtim.tv_sec;
    return mixed(mixed(stamp) ^ (uint64_t)status->st_mtim.tv_nsec);
}

/* Adds the sources below an open folder, which it closes; `folder` is a number for its path. -1 with errno if something
   cannot be read. The sum does not depend on the order in which the system lists files. */
static int add_folder(int handle, uint64_t folder, uint64_t *stamp) {
    DIR *listing = fdopendir(handle);
    struct dirent *entry;
    int result = 0;
    if (listing == NULL) {
        close(handle);
        return -1;
    }
    while (result == 0 && (entry = readdir(listing)) != NULL) {
        const char *name = entry->d_name;
        struct stat status;
        bool may_be_folder = entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN || entry->d_type == DT_LNK;
        if (name[0] == '.' || strcmp(name, "__pycache__") == 0 || !(may_be_folder || is_source(name)))
            continue;
        if (fstatat(handle, name, &status, 0) < 0)
            result = -1;
        else if (S_ISDIR(status.st_mode)) {
            int inner = openat(handle, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            result = inner < 0 ? -1 : add_folder(inner, number_of(name, folder), stamp);
        } else if (is_source(name))
            *stamp += stamp_of(number_of(name, folder), &status);
    }
    closedir(listing);
    return result;
}

/* Adds the sources below a path: a folder or a file. */
static int add_path(const char *path, uint64_t *stamp) {
    int handle = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (handle < 0 || fstat(handle, &status) < 0) {
        if (handle >= 0)
            close(handle);
        return -1;
    }
    if (S_ISDIR(status.st_mode))
        return add_folder(handle, number_of(path, 0), stamp);
    close(handle);
    *stamp += stamp_of(number_of(path, 0), &status);
    return 0;
}

static PyObject *sources_stamp(PyObject *Py_UNUSED(module), PyObject *const *paths, Py_ssize_t count) {
    uint64_t stamp = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *bytes;
        int result;
        if (!PyUnicode_FSConverter(paths[i], &bytes))
            return NULL;
        result = add_path(PyBytes_AS_STRING(bytes), &stamp);
        Py_DECREF(bytes);
        if (result < 0)
            return PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, paths[i]);
    }
    return PyLong_FromUnsignedLongLong(stamp);
}

static PyMethodDef functions[] = {
    {"sources_stamp", (PyCFunction)(void (*)(void))sources_stamp, METH_FASTCALL,
     "sources_stamp(*paths) -> a number that changes with the sizes and times of files, and of the modules below folders"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_sources(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
