/* Stands for libnvidia-ml.so.1: two GPUs and a part of one (MIG) that are not there, whose figures are made up. */
#include <string.h>
#include <unistd.h>

typedef void *device_t; /* 1 and 2: GPUs; 3: a part */
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } process_t;
typedef struct { unsigned gpu, memory; } rates_t;

enum { OK = 0, BAD_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, SMALL = 7, NOT_LOADED = 9 };

static unsigned long long number(device_t device) { return (unsigned long long)(size_t)device; }

static int put(device_t device, unsigned *target, unsigned value) {
    if (number(device) == 3) return NOT_SUPPORTED;
    *target = value;
    return OK;
}

int nvmlInitWithFlags(unsigned flags) {
#ifdef FAILING
    return NOT_LOADED;
#else
    return OK;
#endif
}

int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int error) { return "stub"; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) { strncpy(text, "570.1", length); return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *device) {
    *device = (device_t)(size_t)(index + 1);
    return index < 2 ? OK : BAD_ARGUMENT;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device_t *device) {
    *device = (device_t)3;
    return strcmp(uuid, "MIG-part") ? NOT_FOUND : OK;
}

int nvmlDeviceGetName(device_t device, char *text, unsigned length) {
    const char *names[] = {"NVIDIA Stub A", SECOND, "NVIDIA Stub A MIG 1g"};
    strncpy(text, names[number(device) - 1], length);
    return OK;
}

int nvmlDeviceGetUUID(device_t device, char *text, unsigned length) {
    const char *names[] = {"GPU-aaaa-1", "GPU-abbb-2", "MIG-part"};
    strncpy(text, names[number(device) - 1], length);
    return OK;
}

int nvmlDeviceGetMemoryInfo(device_t device, memory_t *memory) {
    memory->total = 8000000000ull * number(device);
    memory->used = 3000000000ull + number(device);
    memory->free = memory->total - memory->used;
    return OK;
}

#ifndef BARE
static int list(const process_t *found, unsigned there, unsigned *count, process_t *target) {
    unsigned room = *count;
    *count = there;
    if (there == 0) return OK;
    if (target == NULL || room < there) return SMALL;
    memcpy(target, found, there * sizeof *found);
    return OK;
}

/* the first GPU has a process of this program and one of another; the second one of another alone */
int nvmlDeviceGetComputeRunningProcesses_v3(device_t device, unsigned *count, process_t *target) {
    process_t found[] = {{1, 1200000000ull, 0, 0}, {(unsigned)getpid(), 700000000ull, 0, 0}};
    if (number(device) == 3) return NO_PERMISSION;
    return list(found, number(device) == 1 ? 2 : 1, count, target);
}

/* another one draws, too */
int nvmlDeviceGetGraphicsRunningProcesses_v3(device_t device, unsigned *count, process_t *target) {
    process_t found[] = {{1, 1200000000ull, 0, 0}, {2, 100000000ull, 0, 0}};
#ifdef COMPUTING
    return NOT_SUPPORTED;
#endif
    if (number(device) == 3) return NO_PERMISSION;
    return list(found, number(device) == 1 ? 2 : 0, count, target);
}

/* millijoules; it rises with each reading, by 2500 and by 5000 */
int nvmlDeviceGetTotalEnergyConsumption(device_t device, unsigned long long *energy) {
    static unsigned long long read[4];
    if (number(device) == 3) return NOT_SUPPORTED;
    *energy = 1000000ull * number(device) + 2500ull * number(device) * read[number(device)]++;
    return OK;
}

int nvmlDeviceGetPowerUsage(device_t device, unsigned *power) { return put(device, power, 61500 * number(device)); }

int nvmlDeviceGetClockInfo(device_t device, int kind, unsigned *clock) {
    return put(device, clock, (kind == 1 ? 1410 : kind == 2 ? 1215 : 7) * number(device));
}

int nvmlDeviceGetUtilizationRates(device_t device, rates_t *rates) {
    rates->memory = 12;
    return put(device, &rates->gpu, 37 * number(device));
}

int nvmlDeviceGetCurrPcieLinkGeneration(device_t device, unsigned *value) { return put(device, value, 4); }
int nvmlDeviceGetCurrPcieLinkWidth(device_t device, unsigned *value) { return put(device, value, 8 * number(device)); }

int nvmlDeviceGetPcieThroughput(device_t device, int counter, unsigned *value) {
    return put(device, value, counter == 0 ? 1500 : 2600);
}

int nvmlDeviceGetTotalEccErrors(device_t device, int kind, int counter, unsigned long long *errors) {
    if (number(device) == 3 || counter != 0) return NOT_SUPPORTED;
    *errors = kind == 0 ? 3 : 0;
    return OK;
}

int nvmlDeviceGetTemperature(device_t device, int sensor, unsigned *value) {
    return number(device) == 2 ? NOT_SUPPORTED : put(device, value, 58);
}

#ifdef OLD
int nvmlDeviceGetCurrentClocksThrottleReasons(device_t device, unsigned long long *reasons) {
#else
int nvmlDeviceGetCurrentClocksEventReasons(device_t device, unsigned long long *reasons) {
#endif
    if (number(device) == 3) return NOT_SUPPORTED;
    *reasons = number(device) == 1 ? 0x4 | 0x40 | 0x1000 : 0;
    return OK;
}
#endif
