/* A stand-in for libcuda.so.1: it records what it is asked, and refuses what a driver would refuse.
 *
 * Modules are real cubins: entries, the sizes and offsets of their parameters and static shared memory are read from the
 * ELF, so that a wrong name, arch or parameter count shows. "GPU memory" is the process's own, so CPU tensors serve as
 * tensors of GPU 0 (the launcher asks for the symbol `pyptx_fake_driver`). Kernels do not run.
 *
 * Written from the driver API's documentation; declarations are its own, as the launcher's are.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200,
       INVALID_CONTEXT = 201, NO_BINARY = 209, INVALID_HANDLE = 400, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700,
       COOPERATIVE_TOO_LARGE = 720, NOT_SUPPORTED = 801, CAPTURE_UNSUPPORTED = 900 };

const int pyptx_fake_driver = 1;

/* --- what the tests set */

static int device_count = 2, major[8] = {9, 9}, minor[8], version = 13000, quiet = 0, sticky = 0, max_smem = 232448;
static size_t memory_left = (size_t)1 << 30;
static char failing[64];
static int failing_code;

/* --- the record */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *record;
static size_t used, room;
static long launches;

static void note(const char *format, ...) {
  if (quiet) return;
  pthread_mutex_lock(&lock);
  if (room - used < 8192) record = realloc(record, room = 2 * room + 16384);
  va_list arguments;
  va_start(arguments, format);
  used += (size_t)vsnprintf(record + used, room - used, format, arguments);
  va_end(arguments);
  pthread_mutex_unlock(&lock);
}

const char *fake_record(void) { return record ? record : ""; }
long fake_launches(void) { return launches; }
void fake_reset(void) {
  used = 0;
  launches = 0;
  if (record) *record = 0;
  for (int i = 0; i < 8; i++) major[i] = 9, minor[i] = 0;
  device_count = 2, version = 13000, quiet = 0, sticky = 0, max_smem = 232448;
  memory_left = (size_t)1 << 30;
  *failing = 0;
}
/* `major` sets that of all GPUs, `major1` that of GPU 1. */
void fake_set(const char *what, long value) {
  for (int i = 0; i < 8; i++) {
    int *which = !strncmp(what, "major", 5) ? &major[i] : !strncmp(what, "minor", 5) ? &minor[i] : NULL;
    if (which && (!what[5] || what[5] - '0' == i)) *which = (int)value;
  }
  if (!strcmp(what, "devices")) device_count = (int)value;
  if (!strcmp(what, "version")) version = (int)value;
  if (!strcmp(what, "quiet")) quiet = (int)value;
  if (!strcmp(what, "fault")) sticky = (int)value;
  if (!strcmp(what, "memory")) memory_left = (size_t)value;
}
void fake_fail(const char *function, int code) {
  snprintf(failing, sizeof failing, "%s", function);
  failing_code = code;
}
static int fails(const char *function) {
  if (sticky) return sticky;
  if (!*failing || strcmp(failing, function)) return 0;
  *failing = 0;
  return failing_code;
}
#define ENTER(name) do { int code_ = fails(name); if (code_) return code_; } while (0)

/* --- errors, devices, contexts */

static const struct { int code; const char *name, *text; } errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
};
static const char *look_up(int code, int text) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].code == code) return text ? errors[i].text : errors[i].name;
  return NULL;
}
int cuGetErrorName(int code, const char **out) { return (*out = look_up(code, 0)) ? 0 : INVALID_VALUE; }
int cuGetErrorString(int code, const char **out) { return (*out = look_up(code, 1)) ? 0 : INVALID_VALUE; }

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : device_count ? 0 : NO_DEVICE; }
int cuDriverGetVersion(int *out) { *out = version; return 0; }
int cuDeviceGetCount(int *out) { *out = device_count; return 0; }
int cuDeviceGet(int *out, int number) {
  if (number < 0 || number >= device_count) return INVALID_DEVICE;
  *out = number;
  return 0;
}
int cuDeviceGetName(char *out, int size, int device) { snprintf(out, (size_t)size, "Fake GPU %d", device); return 0; }
int cuDeviceGetAttribute(int *out, int attribute, int device) {
  if (device < 0 || device >= device_count) return INVALID_DEVICE;
  switch (attribute) {
    case 1: *out = 1024; return 0;
    case 16: *out = 132; return 0;
    case 75: *out = major[device]; return 0;
    case 76: *out = minor[device]; return 0;
    case 95: *out = 1; return 0;
    case 97: *out = max_smem; return 0;
    case 120: *out = major[device] >= 9; return 0;
  }
  return INVALID_VALUE;
}

static char contexts[8];
static __thread void *stack[16];
static __thread int depth;
int cuDevicePrimaryCtxRetain(void **out, int device) {
  ENTER("cuDevicePrimaryCtxRetain");
  *out = &contexts[device];
  return 0;
}
int cuCtxGetCurrent(void **out) { *out = depth ? stack[depth - 1] : NULL; return 0; }
int cuCtxPushCurrent_v2(void *context) {
  if ((char *)context < contexts || (char *)context >= contexts + 8 || depth == 16) return INVALID_CONTEXT;
  stack[depth++] = context;
  return 0;
}
int cuCtxPopCurrent_v2(void **out) {
  if (!depth) return INVALID_CONTEXT;
  *out = stack[--depth];
  return 0;
}
int cuCtxSynchronize(void) {
  ENTER("cuCtxSynchronize");
  if (!depth) return INVALID_CONTEXT;
  note("synchronize\n");
  return 0;
}

/* --- streams and memory */

typedef struct Stream { void *context; struct Stream *next; int alive; } Stream;
static Stream *streams;
int cuStreamCreate(void **out, unsigned flags) {
  (void)flags;
  if (!depth) return INVALID_CONTEXT;
  Stream *made = calloc(1, sizeof *made);
  made->context = stack[depth - 1];
  made->alive = 1;
  pthread_mutex_lock(&lock);
  made->next = streams;
  streams = made;
  pthread_mutex_unlock(&lock);
  *out = made;
  return 0;
}
static Stream *find_stream(void *handle) {
  for (Stream *s = streams; s; s = s->next)
    if (s == handle && s->alive) return s;
  return NULL;
}
int cuStreamDestroy_v2(void *handle) {
  Stream *s = find_stream(handle);
  if (!s) return INVALID_HANDLE;
  s->alive = 0;
  return 0;
}
static int is_default(void *stream) { return (uintptr_t)stream <= 2; }
int cuStreamSynchronize(void *stream) { return is_default(stream) || find_stream(stream) ? 0 : INVALID_HANDLE; }
int cuStreamGetCtx(void *stream, void **out) {
  if (is_default(stream)) return cuCtxGetCurrent(out);
  Stream *s = find_stream(stream);
  if (!s) return INVALID_HANDLE;
  *out = s->context;
  return 0;
}
static __thread int capture_mode;
int cuThreadExchangeStreamCaptureMode(int *mode) {
  int before = capture_mode;
  capture_mode = *mode;
  *mode = before;
  return 0;
}
int cuMemAlloc_v2(uint64_t *out, size_t size) {
  ENTER("cuMemAlloc_v2");
  if (!depth) return INVALID_CONTEXT;
  if (capture_mode != 2) return CAPTURE_UNSUPPORTED; /* as it were while another thread captures */
  if (size > memory_left) return OUT_OF_MEMORY;
  memory_left -= size;
  void *made = NULL;
  if (posix_memalign(&made, 512, size)) return OUT_OF_MEMORY;
  *out = (uint64_t)(uintptr_t)made;
  note("alloc %zu\n", size);
  return 0;
}
int cuMemFree_v2(uint64_t pointer) { free((void *)(uintptr_t)pointer); return 0; }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream) {
  if (!is_default(stream) && !find_stream(stream)) return INVALID_HANDLE;
  memcpy((void *)(uintptr_t)to, from, size);
  note("copy %zu\n", size);
  return 0;
}

/* --- modules: what the ELF says */

enum { MAX_PARAMS = 128 };
typedef struct Function {
  char name[512];
  int count, offset[MAX_PARAMS], size[MAX_PARAMS];
  int static_smem, max_dynamic, non_portable;
  void *context;
  struct Function *next;
} Function;
typedef struct { Function *functions; int alive; } Module;

static void read_info(Function *f, const unsigned char *p, size_t size) {
  const unsigned char *end = p + size;
  while (p + 4 <= end) {
    unsigned format = p[0], attribute = p[1], value = p[2] | p[3] << 8;
    p += 4;
    if (format != 4) continue; /* only EIFMT_SVAL has a payload */
    if (attribute == 0x17 && value >= 12) { /* EIATTR_KPARAM_INFO */
      uint16_t ordinal, offset;
      uint32_t flags;
      memcpy(&ordinal, p + 4, 2);
      memcpy(&offset, p + 6, 2);
      memcpy(&flags, p + 8, 4);
      if (ordinal < MAX_PARAMS) {
        f->offset[ordinal] = offset;
        f->size[ordinal] = (int)(flags >> 18 & 0x3fff);
        if (ordinal + 1 > f->count) f->count = ordinal + 1;
      }
    }
    p += value;
  }
}

int cuModuleLoadData(void **out, const void *image) {
  ENTER("cuModuleLoadData");
  if (!depth) return INVALID_CONTEXT;
  const unsigned char *base = image;
  const Elf64_Ehdr *head = image;
  if (memcmp(head->e_ident, ELFMAG, SELFMAG) || head->e_machine != 190) return INVALID_IMAGE;
  /* e_flags: the arch is in bits 8..15 since CUDA 13 (EI_ABIVERSION 8), in the low byte before */
  unsigned arch = head->e_ident[EI_ABIVERSION] >= 8 ? head->e_flags >> 8 & 0xff : head->e_flags & 0xff;
  /* a driver reads cubins of its own CUDA major version and of older ones */
  if (head->e_ident[EI_ABIVERSION] >= 8 && version < 13000) return INVALID_IMAGE;
  int gpu = (int)((char *)stack[depth - 1] - contexts);
  if ((int)arch / 10 != major[gpu] || (int)arch % 10 > minor[gpu]) return NO_BINARY;
  const Elf64_Shdr *sections = (const void *)(base + head->e_shoff);
  const char *names = (const char *)base + sections[head->e_shstrndx].sh_offset;
  Module *module = calloc(1, sizeof *module);
  module->alive = 1;
  for (int i = 0; i < head->e_shnum; i++) {
    const char *name = names + sections[i].sh_name;
    if (strncmp(name, ".nv.info.", 9)) continue;
    Function *f = calloc(1, sizeof *f);
    snprintf(f->name, sizeof f->name, "%s", name + 9);
    f->context = stack[depth - 1];
    read_info(f, base + sections[i].sh_offset, sections[i].sh_size);
    for (int k = 0; k < head->e_shnum; k++) {
      const char *other = names + sections[k].sh_name;
      if (!strncmp(other, ".nv.shared.", 11) && !strcmp(other + 11, f->name))
        f->static_smem = (int)sections[k].sh_size - (arch >= 90 ? 1024 : 0); /* the system's own is in the section */
    }
    f->max_dynamic = 48 * 1024 - f->static_smem;
    f->next = module->functions;
    module->functions = f;
  }
  *out = module;
  note("module sm_%u\n", arch);
  return 0;
}
int cuModuleUnload(void *module) { ((Module *)module)->alive = 0; return 0; }
int cuModuleGetFunction(void **out, void *module, const char *name) {
  ENTER("cuModuleGetFunction");
  for (Function *f = ((Module *)module)->functions; f; f = f->next)
    if (!strcmp(f->name, name)) {
      *out = f;
      return 0;
    }
  return NOT_FOUND;
}
int cuFuncGetAttribute(int *out, int attribute, void *function) {
  if (attribute != 1) return INVALID_VALUE;
  *out = ((Function *)function)->static_smem;
  return 0;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
  ENTER("cuFuncSetAttribute");
  Function *f = function;
  note("attribute %s %d=%d\n", f->name, attribute, value);
  if (attribute == 8) {
    if (value < 0 || value + f->static_smem > max_smem) return INVALID_VALUE;
    f->max_dynamic = value;
    return 0;
  }
  if (attribute == 14) {
    f->non_portable = value;
    return 0;
  }
  return INVALID_VALUE;
}

/* --- launches */

typedef struct {
  int id;
  char pad[4];
  union { char size[64]; unsigned dim[3]; int flag; } value;
} LaunchAttribute;
typedef struct {
  unsigned grid[3], block[3], shared_bytes;
  void *stream;
  LaunchAttribute *attributes;
  unsigned count;
} LaunchConfig;

int cuLaunchKernelEx(const LaunchConfig *c, void *function, void **parameters, void **extra) {
  ENTER("cuLaunchKernelEx");
  Function *f = function;
  if (extra || !depth) return INVALID_VALUE;
  if (stack[depth - 1] != f->context) return INVALID_CONTEXT;
  Stream *stream = find_stream(c->stream);
  if (!is_default(c->stream) && (!stream || stream->context != f->context)) return INVALID_HANDLE;
  unsigned long threads = 1;
  for (int i = 0; i < 3; i++) {
    if (!c->grid[i] || !c->block[i]) return INVALID_VALUE;
    threads *= c->block[i];
  }
  if (threads > 1024 || c->grid[1] > 65535 || c->grid[2] > 65535 || (int)c->shared_bytes > f->max_dynamic)
    return INVALID_VALUE;
  char words[512] = "";
  for (unsigned i = 0; i < c->count; i++) {
    const LaunchAttribute *a = &c->attributes[i];
    size_t at = strlen(words);
    if (a->id == 4) {
      const unsigned *d = a->value.dim;
      if (major[(char *)f->context - contexts] < 9 || !d[0] || !d[1] || !d[2] || d[0] * d[1] * d[2] > (f->non_portable ? 16u : 8u)) return INVALID_VALUE;
      for (int k = 0; k < 3; k++)
        if (c->grid[k] % d[k]) return INVALID_VALUE;
      snprintf(words + at, sizeof words - at, " cluster=%u,%u,%u", d[0], d[1], d[2]);
    } else if (a->id == 2) {
      if ((unsigned long)c->grid[0] * c->grid[1] * c->grid[2] > 132 * 2) return COOPERATIVE_TOO_LARGE;
      snprintf(words + at, sizeof words - at, " cooperative=%d", a->value.flag);
    } else if (a->id == 6) {
      snprintf(words + at, sizeof words - at, " programmatic=%d", a->value.flag);
    } else {
      return INVALID_VALUE;
    }
  }
  __sync_fetch_and_add(&launches, 1);
  if (quiet) {
    unsigned char sum = 0;
    for (int i = 0; i < f->count; i++) sum ^= *(volatile unsigned char *)parameters[i]; /* a driver copies them */
    return 0;
  }
  static const char digits[] = "0123456789abcdef";
  char bytes[6144], *p = bytes;
  for (int i = 0; i < f->count; i++) {
    *p++ = ' ';
    for (int k = 0; k < f->size[i] && p < bytes + 6000; k++) {
      unsigned char byte = ((unsigned char *)parameters[i])[k];
      *p++ = digits[byte >> 4];
      *p++ = digits[byte & 15];
    }
  }
  *p = 0;
  note("launch %s grid=%u,%u,%u block=%u,%u,%u smem=%u stream=%#lx device=%d%s parameters%s\n", f->name, c->grid[0],
       c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared_bytes, (unsigned long)(uintptr_t)c->stream,
       (int)((char *)f->context - contexts), words, bytes);
  return 0;
}

/* --- tensor maps: what the documentation of cuTensorMapEncodeTiled demands; the image is ours, for tests to read */

typedef struct {
  char magic[4];
  uint8_t type, rank, swizzle, l2;
  uint64_t address, dims[5], strides[4];
  uint16_t box[5];
} Image;
_Static_assert(sizeof(Image) <= 128, "a tensor map has 128 bytes");

int cuTensorMapEncodeTiled(void *out, int type, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides,
                           const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int l2, int fill) {
  ENTER("cuTensorMapEncodeTiled");
  static const int sizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  static const unsigned spans[] = {0, 32, 64, 128};
  if ((uintptr_t)out % 64 || type < 0 || type > 12 || rank < 1 || rank > 5 || (uintptr_t)address % 16 || interleave || fill)
    return INVALID_VALUE;
  if (swizzle < 0 || swizzle > 3 || l2 < 0 || l2 > 3) return INVALID_VALUE;
  Image image = {{'F', 'T', 'M', '1'}, (uint8_t)type, (uint8_t)rank, (uint8_t)swizzle, (uint8_t)l2,
                 (uint64_t)(uintptr_t)address, {0}, {0}, {0}};
  for (uint32_t i = 0; i < rank; i++) {
    if (!dims[i] || dims[i] > (uint64_t)1 << 32 || !box[i] || box[i] > 256 || steps[i] != 1) return INVALID_VALUE;
    image.dims[i] = dims[i];
    image.box[i] = (uint16_t)box[i];
    if (i + 1 < rank) {
      if (strides[i] % 16 || strides[i] >= (uint64_t)1 << 40) return INVALID_VALUE;
      image.strides[i] = strides[i];
    }
  }
  unsigned row = box[0] * (unsigned)sizes[type];
  if (row % 16 || (swizzle && row > spans[swizzle])) return INVALID_VALUE;
  memset(out, 0, 128);
  memcpy(out, &image, sizeof image);
  note("encode\n");
  return 0;
}
