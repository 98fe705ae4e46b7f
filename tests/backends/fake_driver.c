/* A stand-in for libnvidia-ml.so.1 and libcuda.so.1: answers what the environment says. -DOLD leaves a function out. */
#include <stdio.h>
#include <stdlib.h>

static int number(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value ? atoi(value) : otherwise;
}
static const char *text(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}
static char devices[8]; /* a handle is the address of devices[index] */
static int index_of(void *handle) { return (int)((char *)handle - devices); }

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
    snprintf(buffer, n, "NVIDIA Fake %d", index_of(handle));
    return 0;
}
int nvmlDeviceGetUUID(void *handle, char *buffer, unsigned n) {
    snprintf(buffer, n, "GPU-%daaaaaaa-0000-0000-0000-000000000000", index_of(handle));
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *memory) {
    memory[0] = (16ULL << 30) * (index_of(handle) + 1);
    memory[1] = memory[0] / 16 * number("FAKE_FREE_16THS", 8);
    memory[2] = memory[0] - memory[1];
    return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *millijoules) {
    static unsigned long long used[8]; /* 5 J more at each call */
    *millijoules = used[index_of(handle)] += 5000;
    return number("FAKE_ENERGY", 0);
}
int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) {
    (void)handle;
    *milliwatts = 300000;
    return number("FAKE_POWER", 0);
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
