/* A stand-in for libnvidia-ml.so.1 and libcuda.so.1: answers what the environment says. -DOLD leaves a function out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int number(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value ? atoi(value) : otherwise;
}
static const char *text(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}
static char devices[16]; /* a handle is the address of devices[index]; from 8 on, of a slice of GPU index - 8 */
static int index_of(void *handle) { return (int)((char *)handle - devices); }
/* Error of a call: FAKE_NVML="nvmlDeviceGetTemperature=3 ..."; a function without an entry succeeds. */
static int error_of(const char *function, void *handle, int otherwise) {
    const char *found = strstr(text("FAKE_NVML", ""), function);
    if (found && found[strlen(function)] == '=') return atoi(found + strlen(function) + 1);
    return index_of(handle) >= 8 ? otherwise : 0;
}
/* 15 (the GPU is lost) while the file FAKE_LOST exists. */
static int lost(void) { return getenv("FAKE_LOST") && access(getenv("FAKE_LOST"), F_OK) == 0 ? 15 : 0; }

int nvmlInit_v2(void) { return number("FAKE_INIT", 0); }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = number("FAKE_COUNT", 1); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = number("FAKE_CUDA", 13000); return 0; }
int nvmlSystemGetDriverVersion(char *buffer, unsigned n) { snprintf(buffer, n, "580.95.05"); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    *handle = devices + index;
    return number("FAKE_HANDLE", 0);
}
int nvmlDeviceGetName(void *handle, char *buffer, unsigned n) {
    int index = index_of(handle);
    snprintf(buffer, n, index < 8 ? "NVIDIA Fake %d" : "NVIDIA Fake %d MIG 1g.5gb", index % 8);
    return 0;
}
int nvmlDeviceGetUUID(void *handle, char *buffer, unsigned n) {
    snprintf(buffer, n, "GPU-%daaaaaaa-0000-0000-0000-000000000000", index_of(handle));
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *memory) {
    memory[0] = (16ULL << 30) * (index_of(handle) % 8 + 1) / (index_of(handle) < 8 ? 1 : 8);
    memory[1] = memory[0] / 16 * number("FAKE_FREE_16THS", 8);
    memory[2] = memory[0] - memory[1];
    return error_of("nvmlDeviceGetMemoryInfo", handle, 0);
}
int nvmlDeviceGetHandleByUUID(const char *identifier, void **handle) {
    int index; /* MIG-1... is the slice of GPU 1 */
    if (sscanf(identifier, "MIG-%d", &index) != 1 || index >= number("FAKE_COUNT", 1)) return 6;
    *handle = devices + 8 + index;
    return 0;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *slice, void **handle) {
    *handle = devices + index_of(slice) - 8;
    return index_of(slice) < 8 ? 2 : 0;
}
int nvmlDeviceGetUtilizationRates(void *handle, unsigned *busy) {
    busy[0] = 87 - index_of(handle);
    busy[1] = 40;
    return lost() ? 15 : error_of("nvmlDeviceGetUtilizationRates", handle, 3);
}
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *celsius) {
    *celsius = 64;
    return sensor ? 2 : lost() ? 15 : error_of("nvmlDeviceGetTemperature", handle, 3);
}
int nvmlDeviceGetClockInfo(void *handle, int clock, unsigned *megahertz) {
    *megahertz = clock == 1 ? 1980 : 2619;
    return error_of("nvmlDeviceGetClockInfo", handle, 3);
}
int nvmlDeviceGetPcieThroughput(void *handle, int direction, unsigned *kilobytes) {
    usleep(20000); /* as the driver does */
    *kilobytes = direction == 1 ? 12000000 : 3000000;
    return error_of("nvmlDeviceGetPcieThroughput", handle, 3);
}
int nvmlDeviceGetEnforcedPowerLimit(void *handle, unsigned *milliwatts) {
    *milliwatts = 700000;
    return error_of("nvmlDeviceGetEnforcedPowerLimit", handle, 3);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *reasons) {
    *reasons = number("FAKE_REASONS", 4); /* the power limit */
    return error_of("nvmlDeviceGetCurrentClocksThrottleReasons", handle, 3);
}
int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *millijoules) {
    static unsigned long long used[8]; /* 5 J more at each call */
    *millijoules = used[index_of(handle)] += 5000;
    return number("FAKE_ENERGY", 0);
}
int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) {
    *milliwatts = 300000;
    return number("FAKE_POWER", error_of("nvmlDeviceGetPowerUsage", handle, 3));
}
int cuInit(unsigned flags) { (void)flags; return number("FAKE_CUINIT", 0); }
int cuGetErrorName(int code, const char **name) {
    (void)code;
    *name = text("FAKE_CUINIT_NAME", "CUDA_SUCCESS");
    return 0;
}
#ifndef OLD
int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
    (void)handle;
    return sscanf(text("FAKE_CAPABILITY", "9.0"), "%d.%d", major, minor) == 2 ? 0 : 999;
}
#endif
