/* XLA's foreign function handlers of kernels, on XLA's C ABI (xla/ffi/api/c_api.h, which jaxlib ships). No Python API.
 *
 * A call carries two attributes: `key`, a digest, and `program`, all that is needed to run it anywhere (jax_ffi.py). On
 * the CPU a callback into Python runs the simulator. On a GPU the launch is prepared by Python once per key and device,
 * and done here ever after, on the platform's stream: so it may be recorded into command buffers.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

enum { MAX_BUFFERS = 64, MAX_PARAMETERS = 96, TABLE = 64 };

/* --- CUDA driver (as in _launcher.c) */

typedef struct {
  int id;
  char pad[4];
  union { char size[64]; unsigned dim[3]; } value;
} LaunchAttribute;

typedef struct {
  unsigned grid[3], block[3], shared_bytes;
  void *stream;
  LaunchAttribute *attributes;
  unsigned attribute_count;
} LaunchConfig;

/* --- what Python sets */

/* what: 0 run on the CPU, 1 prepare a launch, 2 make the TMA descriptor of buffer `index` that lies at `pointer` (its
   address to *result). 0 if done, else the message says why not. */
typedef int (*Callback)(int what, int64_t key, const char *program, size_t size, int device, void **buffers, int count,
                        int index, uint64_t *result, char *message, size_t room);

typedef struct { int kind, index; unsigned char bytes[128]; } Parameter; /* kind 0: buffer, 1: constant, 2: descriptor */

typedef struct { uint64_t pointer, address; } Slot;

typedef struct Plan {
  int64_t key;
  int device;
  int parameter_count, attribute_count;
  Parameter parameters[MAX_PARAMETERS];
  LaunchAttribute attributes[4];
  unsigned grid[3], block[3], shared_bytes;
  void *function, *context;
  int (*launch)(const LaunchConfig *, void *, void **, void **);
  int (*get_current)(void **);
  int (*push)(void *);
  int (*pop)(void **);
  int without_stream; /* a test's driver, on the CPU platform */
  Slot *slots;
  struct Plan *next;
} Plan;

static Callback callback;
static Plan *_Atomic plans;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void pyptx_set_callback(Callback function) { callback = function; }
size_t pyptx_plan_size(void) { return sizeof(Plan); }

/* Take a copy of a plan. Plans live as long as the process: compiled programs refer to them by key. */
void pyptx_add_plan(const Plan *given) {
  Plan *made = malloc(sizeof *made);
  *made = *given;
  made->slots = calloc(MAX_PARAMETERS * TABLE, sizeof(Slot));
  pthread_mutex_lock(&lock);
  made->next = plans;
  plans = made;
  pthread_mutex_unlock(&lock);
}

static XLA_FFI_Error *failure(XLA_FFI_CallFrame *frame, const char *message) {
  XLA_FFI_Error_Create_Args args;
  memset(&args, 0, sizeof args);
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message;
  args.errc = XLA_FFI_Error_Code_INTERNAL;
  return frame->api->XLA_FFI_Error_Create(&args);
}

/* XLA asks for the ABI version and the traits before the first call. */
static int answered_metadata(XLA_FFI_CallFrame *frame, unsigned traits) {
  XLA_FFI_Extension_Base *extension = frame->extension_start;
  if (!extension || extension->type != XLA_FFI_Extension_Metadata) return 0;
  XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)extension)->metadata;
  metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  metadata->api_version.minor_version = XLA_FFI_API_MINOR;
  metadata->traits = traits;
  return 1;
}

typedef struct { int64_t key; const char *program; size_t size; void *buffers[MAX_BUFFERS]; int count; } Call;

static const char *read_call(XLA_FFI_CallFrame *frame, Call *call) {
  int have = 0;
  for (int64_t i = 0; i < frame->attrs.size; i++) {
    XLA_FFI_ByteSpan *name = frame->attrs.names[i];
    if (name->len == 3 && !memcmp(name->ptr, "key", 3) && frame->attrs.types[i] == XLA_FFI_AttrType_SCALAR) {
      call->key = *(int64_t *)((XLA_FFI_Scalar *)frame->attrs.attrs[i])->value;
      have |= 1;
    } else if (name->len == 7 && !memcmp(name->ptr, "program", 7) && frame->attrs.types[i] == XLA_FFI_AttrType_STRING) {
      XLA_FFI_ByteSpan *text = frame->attrs.attrs[i];
      call->program = text->ptr;
      call->size = text->len;
      have |= 2;
    }
  }
  if (have != 3) return "pyptx: the call lacks the attributes key and program";
  if (frame->args.size + frame->rets.size > MAX_BUFFERS) return "pyptx: too many arrays";
  for (int64_t i = 0; i < frame->args.size; i++)
    call->buffers[call->count++] = ((XLA_FFI_Buffer *)frame->args.args[i])->data;
  for (int64_t i = 0; i < frame->rets.size; i++)
    call->buffers[call->count++] = ((XLA_FFI_Buffer *)frame->rets.rets[i])->data;
  return NULL;
}

XLA_FFI_Error *pyptx_xla_cpu(XLA_FFI_CallFrame *frame) {
  if (answered_metadata(frame, 0)) return NULL;
  Call call = {0};
  const char *wrong = read_call(frame, &call);
  if (wrong) return failure(frame, wrong);
  char message[4096] = "pyptx: the simulator failed";
  if (!callback || callback(0, call.key, call.program, call.size, 0, call.buffers, call.count, 0, NULL, message, sizeof message))
    return failure(frame, message);
  return NULL;
}

static Plan *find(int64_t key, int device) {
  for (Plan *p = plans; p; p = p->next)
    if (p->key == key && p->device == device) return p;
  return NULL;
}

XLA_FFI_Error *pyptx_xla_cuda(XLA_FFI_CallFrame *frame) {
  if (answered_metadata(frame, XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE)) return NULL;
  Call call = {0};
  const char *wrong = read_call(frame, &call);
  if (wrong) return failure(frame, wrong);
  char message[4096] = "pyptx: the launch failed";
  int device = 0;
#ifdef PYPTX_HAS_ORDINAL
  XLA_FFI_DeviceOrdinal_Get_Args where;
  memset(&where, 0, sizeof where);
  where.struct_size = XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE;
  where.ctx = frame->ctx;
  XLA_FFI_Error *lost = frame->api->XLA_FFI_DeviceOrdinal_Get(&where);
  if (lost) {
    XLA_FFI_Error_Destroy_Args destroy = {XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, NULL, lost};
    frame->api->XLA_FFI_Error_Destroy(&destroy);
  } else if (where.device_ordinal > 0) {
    device = where.device_ordinal;
  }
#endif
  Plan *plan = find(call.key, device);
  if (!plan) {
    if (!callback || callback(1, call.key, call.program, call.size, device, NULL, 0, 0, NULL, message, sizeof message))
      return failure(frame, message);
    plan = find(call.key, device);
    if (!plan) return failure(frame, message);
  }
  if (!plan->grid[0] || !plan->grid[1] || !plan->grid[2]) return NULL;
  LaunchConfig config;
  memset(&config, 0, sizeof config);
  if (!plan->without_stream) {
    XLA_FFI_Stream_Get_Args stream;
    memset(&stream, 0, sizeof stream);
    stream.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE;
    stream.ctx = frame->ctx;
    XLA_FFI_Error *error = frame->api->XLA_FFI_Stream_Get(&stream);
    if (error) return error;
    config.stream = stream.stream;
  }
  void *parameters[MAX_PARAMETERS];
  uint64_t values[MAX_PARAMETERS];
  int table = 0;
  for (int i = 0; i < plan->parameter_count; i++) {
    Parameter *p = &plan->parameters[i];
    if (p->kind == 1) {
      parameters[i] = p->bytes;
      continue;
    }
    values[i] = (uint64_t)(uintptr_t)call.buffers[p->index];
    if (p->kind == 2) {
      uint64_t pointer = values[i];
      Slot *slot = &plan->slots[table++ * TABLE + ((pointer >> 8) ^ (pointer >> 16)) % TABLE];
      pthread_mutex_lock(&lock);
      Slot known = *slot;
      pthread_mutex_unlock(&lock);
      if (known.pointer != pointer || !known.address) {
        uint64_t made = 0;
        if (callback(2, call.key, call.program, call.size, device, (void **)&pointer, 1, p->index, &made, message,
                     sizeof message))
          return failure(frame, message);
        known = (Slot){pointer, made};
        pthread_mutex_lock(&lock);
        *slot = known;
        pthread_mutex_unlock(&lock);
      }
      values[i] = known.address;
    }
    parameters[i] = &values[i];
  }
  memcpy(config.grid, plan->grid, sizeof config.grid);
  memcpy(config.block, plan->block, sizeof config.block);
  config.shared_bytes = plan->shared_bytes;
  config.attributes = plan->attribute_count ? plan->attributes : NULL;
  config.attribute_count = (unsigned)plan->attribute_count;
  void *current = NULL;
  if (plan->get_current(&current)) current = NULL;
  int foreign = current != plan->context;
  int error = foreign ? plan->push(plan->context) : 0;
  if (!error) {
    error = plan->launch(&config, plan->function, parameters, NULL);
    if (foreign) plan->pop(&current);
  }
  if (!error) return NULL;
  uint64_t code = (uint64_t)error;
  callback(3, call.key, call.program, call.size, device, NULL, 0, error, &code, message, sizeof message);
  return failure(frame, message);
}
