/*
 * A CUDA driver with the devices that TLT_FAKE_GPUS describes: "UUID NAME BYTES GENERATION" each, separated by commas,
 * with underscores for the spaces of a name. TLT_FAKE_CUDA_ERROR is what cuInit returns, TLT_FAKE_CUDA_VERSION the
 * version. Devices are hidden and ordered by CUDA_VISIBLE_DEVICES, which is read once, as by the real driver: by index or
 * by the beginning of a UUID, up to the first entry that is no device; with a MIG slice, one device only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 32, NO_DEVICE = 100 };
typedef struct { char uuid[64], name[64]; size_t bytes; int generation; } Gpu;
static Gpu all[MOST], *visible[MOST];
static int every, count;

static Gpu *named(const char *entry) {
  char *end;
  long index = strtol(entry, &end, 10);
  if (end != entry && *end == 0) return index >= 0 && index < every ? &all[index] : NULL;
  for (int i = 0; i < every; i++)
    if (*entry && strncmp(all[i].uuid, entry, strlen(entry)) == 0) return &all[i];
  return NULL;
}

int cuInit(unsigned flags) {
  const char *error = getenv("TLT_FAKE_CUDA_ERROR"), *described = getenv("TLT_FAKE_GPUS");
  const char *chosen = getenv("CUDA_VISIBLE_DEVICES");
  char text[8192], *entry, *rest = text;
  (void)flags;
  if (error) return atoi(error);
  if (every) return count ? 0 : NO_DEVICE;
  snprintf(text, sizeof text, "%s", described ? described : "");
  while ((entry = strsep(&rest, ",")) && every < MOST) {
    Gpu *gpu = &all[every];
    if (sscanf(entry, "%63s %63s %zu %d", gpu->uuid, gpu->name, &gpu->bytes, &gpu->generation) != 4) continue;
    for (char *c = gpu->name; *c; c++) if (*c == '_') *c = ' ';
    every++;
  }
  if (!chosen) {
    for (count = 0; count < every; count++) visible[count] = &all[count];
  } else {
    Gpu *gpu;
    snprintf(text, sizeof text, "%s", chosen);
    for (rest = text; count < MOST && (entry = strsep(&rest, ",")) && (gpu = named(entry)); count++) visible[count] = gpu;
  }
  for (int i = 0; i < count; i++) if (strncmp(visible[i]->uuid, "MIG-", 4) == 0) { visible[0] = visible[i]; count = 1; }
  return count ? 0 : NO_DEVICE;
}

int cuGetErrorName(int error, const char **name) { *name = error == 802 ? "CUDA_ERROR_SYSTEM_NOT_READY" : NULL; return 0; }
int cuDriverGetVersion(int *version) {
  const char *given = getenv("TLT_FAKE_CUDA_VERSION");
  return *version = given ? atoi(given) : 13000, 0;
}
int cuDeviceGetCount(int *found) { return *found = count, 0; }
int cuDeviceGet(int *device, int index) { return *device = index, index >= count; }
int cuDeviceGetName(char *name, int bytes, int device) { return snprintf(name, bytes, "%s", visible[device]->name), 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return *bytes = visible[device]->bytes, 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  return *value = attribute == 75 ? visible[device]->generation : 0, 0;
}
