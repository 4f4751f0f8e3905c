/* The launcher of the eager path: tensors in, cuLaunchKernelEx out, in a few hundred nanoseconds.
 *
 * A `Plan` is one specialisation, fully checked in Python (runtime/launch.py): what every tensor must look like (device,
 * dtype, shape, strides, alignment), how the parameters are made of them, and the launch. A `Dispatcher` has the plans
 * of one kernel; a call compares the tensors with them and launches the plan that fits. NotImplemented means that none
 * does, or that torch must see the call (gradients, dispatch modes, subclasses): Python then takes the long way.
 *
 * Only CPython's stable ABI (3.11), no CUDA and no torch headers. The foreign ABIs are declared here: DLPack's C exchange
 * API (dlpack.h 1.3), the C functions that AOTInductor's libraries call in torch, and the driver's launch structures
 * (cuda.h; tests/runtime/test_abi.py compares). Functions come as addresses: the driver's from runtime/driver.py, which has
 * the one place that loads the library, torch's from runtime/torch_reader.py, which has tried them.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* --- DLPack */

typedef struct {
  void *data;
  struct { int32_t type, id; } device;
  int32_t ndim;
  struct { uint8_t code, bits; uint16_t lanes; } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;

typedef struct {
  uint32_t major, minor;
  void *previous;
  void *allocate, *from_object, *to_object;
  int (*tensor_of)(void *object, DLTensor *out);
  int (*current_stream)(int32_t device_type, int32_t device_id, void **out);
} ExchangeAPI;

/* --- reading torch's tensors */

/* What a plan compares. With DLPack `keys` is the type of device and `dtype` DLPack's three numbers in one. */
typedef struct {
  void *data;
  uint64_t keys;
  int32_t device_id, dtype;
  int64_t ndim;
  int64_t *shape, *strides;
} Tensor;

/* How: through DLPack's exchange API, or, where `impl_at` is set, through torch's own C functions, in a third of the time.
   They take the place in the Python object that points to the tensor's implementation. */
typedef struct {
  const ExchangeAPI *api;
  Py_ssize_t impl_at, keys_at; /* in the Python object, in the implementation */
  uint64_t ignored_keys;       /* those that inference tensors lack */
  int64_t (*mode_depth)(void);
  _Bool (*grad_enabled)(void), (*requires_grad)(const void *impl);
  int32_t (*dim)(void *, int64_t *), (*sizes)(void *, int64_t **), (*strides)(void *, int64_t **);
  int32_t (*dtype)(void *, int32_t *), (*device_index)(void *, int32_t *), (*data)(void *, void **);
} Reader;

static const char *impl_of(const Reader *r, PyObject *object) { return *(char **)((char *)object + r->impl_at); }

static uint64_t keys_of(const Reader *r, PyObject *object) {
  uint64_t keys;
  memcpy(&keys, impl_of(r, object) + r->keys_at, sizeof keys);
  return keys & ~r->ignored_keys;
}

static int read_tensor(const Reader *r, PyObject *object, Tensor *out) {
  if (!r->impl_at) {
    DLTensor t;
    if (r->api->tensor_of(object, &t)) return -1;
    *out = (Tensor){(char *)t.data + t.byte_offset, (uint64_t)t.device.type, t.device.id,
                    (int32_t)((unsigned)t.dtype.code | (unsigned)t.dtype.bits << 8 | (unsigned)t.dtype.lanes << 16), t.ndim,
                    t.shape, t.strides};
    return 0;
  }
  void *handle = (char *)object + r->impl_at;
  out->keys = keys_of(r, object);
  return r->dim(handle, &out->ndim) || r->dtype(handle, &out->dtype) || r->device_index(handle, &out->device_id) ||
         r->sizes(handle, &out->shape) || r->strides(handle, &out->strides);
}

/* The address, which torch works out only for a tensor that fits otherwise. */
static int read_data(const Reader *r, PyObject *object, Tensor *out) {
  return r->impl_at ? r->data((char *)object + r->impl_at, &out->data) : 0;
}

static void *address(PyObject *number) { return PyLong_AsVoidPtr(number); }

/* Reader of (exchange capsule, None or the tuple that torch_reader.py makes). */
static int make_reader(PyObject *capsule, PyObject *internals, Reader *out) {
  memset(out, 0, sizeof *out);
  out->api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  if (!out->api) return -1;
  if (out->api->major != 1) {
    PyErr_Format(PyExc_RuntimeError, "DLPack exchange API %u.%u is not 1.x", out->api->major, out->api->minor);
    return -1;
  }
  if (internals == Py_None) return 0;
  PyObject *functions[9];
  unsigned long long ignored;
  if (!PyArg_ParseTuple(internals, "nnKOOOOOOOOO", &out->impl_at, &out->keys_at, &ignored, &functions[0], &functions[1],
                        &functions[2], &functions[3], &functions[4], &functions[5], &functions[6], &functions[7],
                        &functions[8]))
    return -1;
  out->ignored_keys = ignored;
  out->mode_depth = (int64_t (*)(void))address(functions[0]);
  out->grad_enabled = (_Bool (*)(void))address(functions[1]);
  out->requires_grad = (_Bool (*)(const void *))address(functions[2]);
  out->dim = (int32_t (*)(void *, int64_t *))address(functions[3]);
  out->sizes = (int32_t (*)(void *, int64_t **))address(functions[4]);
  out->strides = (int32_t (*)(void *, int64_t **))address(functions[5]);
  out->dtype = (int32_t (*)(void *, int32_t *))address(functions[6]);
  out->device_index = (int32_t (*)(void *, int32_t *))address(functions[7]);
  out->data = (int32_t (*)(void *, void **))address(functions[8]);
  return PyErr_Occurred() ? -1 : 0;
}

/* --- CUDA driver */

typedef struct {
  int id;
  char pad[4];
  union { char size[64]; struct { unsigned x, y, z; } dim; int flag; } value;
} CUlaunchAttribute;

typedef struct {
  unsigned grid[3], block[3], shared_bytes;
  void *stream;
  CUlaunchAttribute *attributes;
  unsigned attribute_count;
} CUlaunchConfig;

typedef int (*LaunchKernelEx)(const CUlaunchConfig *, void *function, void **parameters, void **extra);
typedef int (*CtxGetCurrent)(void **);
typedef int (*CtxPush)(void *);
typedef int (*CtxPop)(void **);

enum { MAX_TENSORS = 32, MAX_PARAMETERS = 96, MAX_RANK = 8, MAX_ATTRIBUTES = 4, MAX_PLANS = 64, TABLE = 64 };

/* --- one specialisation */

typedef struct {
  uint64_t keys;
  int32_t device_id, dtype;
  int64_t ndim;
  uintptr_t alignment_mask;
  int64_t shape[MAX_RANK], strides[MAX_RANK];
  int single; /* one element: a negative view of it has no telling strides */
} Expected;

enum { TENSOR, CONSTANT, SCALAR, DESCRIPTOR };

typedef struct {
  int kind;
  int tensor;        /* TENSOR, DESCRIPTOR */
  Py_ssize_t offset; /* SCALAR: in the packed scalars */
  int table;         /* DESCRIPTOR: which pointer table */
  unsigned char bytes[128];
} Parameter;

typedef struct { uintptr_t pointer; uint64_t address; } Slot;

typedef struct {
  PyObject_HEAD
  PyObject *keep; /* every Python object below, for the garbage collector */
  PyObject *encode, *on_error, *allocators, *slow_allocators;
  int inputs, outputs, parameter_count, attribute_count, tables;
  int32_t device_type, device_id; /* of the first tensor, as DLPack says it */
  Py_ssize_t scalar_bytes;
  Expected expected[MAX_TENSORS];
  Parameter parameters[MAX_PARAMETERS];
  CUlaunchAttribute attributes[MAX_ATTRIBUTES];
  unsigned grid[3], block[3], shared_bytes;
  void *function, *context;
  int empty; /* a grid of no CTAs: outputs, but no launch */
  Slot *slots; /* tables * TABLE */
} Plan;

/* A function without arguments; a built-in one is called without CPython's machinery. */
typedef struct { PyObject *callable, *self; PyCFunction direct; } Question;

static Question question(PyObject *callable) {
  Question made = {callable, NULL, NULL};
  if (Py_TYPE(callable) == &PyCFunction_Type && PyCFunction_GetFlags(callable) == METH_NOARGS) {
    made.direct = PyCFunction_GetFunction(callable);
    made.self = PyCFunction_GetSelf(callable);
  }
  return made;
}

static PyObject *ask(const Question *q) { return q->direct ? q->direct(q->self, NULL) : PyObject_CallNoArgs(q->callable); }

typedef struct {
  PyObject_HEAD
  PyObject *keep;
  Question dispatch_depth, grad_enabled;
  PyObject *requires_grad, *is_neg, *out, *current_level;
  PyObject *forward_ad; /* the dict of torch.autograd.forward_ad */
  PyObject *requires_grad_descriptor; /* the getter itself, without looking it up; NULL if it is none */
  descrgetfunc get_descriptor;
  PyTypeObject *tensor, *parameter;
  Reader reader;
  uint64_t keys; /* of the tensors of its plans: dense ones on a GPU */
  LaunchKernelEx launch;
  CtxGetCurrent get_current;
  CtxPush push;
  CtxPop pop;
  Plan *plans[MAX_PLANS];
  int count, last, next;
} Dispatcher;

static int triple(PyObject *tuple, unsigned *out) {
  for (int i = 0; i < 3; i++) {
    PyObject *item = PyTuple_GetItem(tuple, i);
    if (!item) return -1;
    out[i] = (unsigned)PyLong_AsUnsignedLong(item);
    if (PyErr_Occurred()) return -1;
  }
  return 0;
}

static int read_expected(PyObject *tuple, Expected *out) {
  PyObject *shape, *strides;
  unsigned long long keys;
  long long alignment;
  if (!PyArg_ParseTuple(tuple, "KiiLOO", &keys, &out->device_id, &out->dtype, &alignment, &shape, &strides)) return -1;
  out->keys = keys;
  out->alignment_mask = (uintptr_t)alignment - 1;
  out->ndim = PyTuple_Size(shape);
  if (out->ndim < 0 || out->ndim > MAX_RANK || PyTuple_Size(strides) != out->ndim) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a tensor of this plan has too many dimensions");
    return -1;
  }
  int64_t elements = 1;
  for (int i = 0; i < out->ndim; i++) {
    out->shape[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
    out->strides[i] = PyLong_AsLongLong(PyTuple_GetItem(strides, i));
    elements *= out->shape[i];
  }
  out->single = elements == 1;
  return PyErr_Occurred() ? -1 : 0;
}

static int read_parameter(PyObject *tuple, Parameter *out, Plan *plan) {
  const char *kind;
  PyObject *value;
  if (!PyArg_ParseTuple(tuple, "sO", &kind, &value)) return -1;
  if (*kind == 'c') {
    char *data;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(value, &data, &size)) return -1;
    if (size > (Py_ssize_t)sizeof out->bytes) {
      PyErr_SetString(PyExc_ValueError, "a constant parameter of a plan has at most 128 bytes");
      return -1;
    }
    out->kind = CONSTANT;
    memcpy(out->bytes, data, (size_t)size);
    return 0;
  }
  long number = PyLong_AsLong(value);
  if (PyErr_Occurred()) return -1;
  if (*kind == 's') {
    out->kind = SCALAR;
    out->offset = number;
    return 0;
  }
  out->kind = *kind == 'd' ? DESCRIPTOR : TENSOR;
  out->tensor = (int)number;
  if (number < 0 || number >= plan->inputs + plan->outputs) {
    PyErr_SetString(PyExc_ValueError, "a parameter of a plan names a tensor that it does not have");
    return -1;
  }
  if (out->kind == DESCRIPTOR) out->table = plan->tables++;
  return 0;
}

/* Plan(device, tensors, inputs, parameters, scalar_bytes, function, context, grid, block, shared_bytes, attributes,
        encode, on_error, allocators, slow_allocators) */
static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *tensors, *parameters, *function, *context, *grid, *block, *attributes, *encode, *on_error, *fast, *slow;
  int inputs, device_type, device_id;
  Py_ssize_t scalar_bytes;
  unsigned shared_bytes;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "(ii)O!iO!nOOO!O!IO!OOO!O!", &device_type, &device_id, &PyTuple_Type, &tensors, &inputs, &PyTuple_Type, &parameters,
                        &scalar_bytes, &function, &context, &PyTuple_Type, &grid, &PyTuple_Type, &block, &shared_bytes,
                        &PyTuple_Type, &attributes, &encode, &on_error, &PyTuple_Type, &fast, &PyTuple_Type, &slow))
    return NULL;
  Py_ssize_t count = PyTuple_Size(tensors), parameter_count = PyTuple_Size(parameters);
  Py_ssize_t attribute_count = PyTuple_Size(attributes);
  if (count > MAX_TENSORS || parameter_count > MAX_PARAMETERS || attribute_count > MAX_ATTRIBUTES || inputs > count ||
      PyTuple_Size(fast) != count - inputs || PyTuple_Size(slow) != count - inputs) {
    PyErr_SetString(PyExc_ValueError, "the plan is too large for the native launcher");
    return NULL;
  }
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Plan *plan = (Plan *)allocate(type, 0);
  if (!plan) return NULL;
  plan->keep = PyTuple_Pack(5, encode, on_error, fast, slow, tensors);
  if (!plan->keep) goto fail;
  plan->encode = encode;
  plan->on_error = on_error;
  plan->allocators = fast;
  plan->slow_allocators = slow;
  plan->device_type = device_type;
  plan->device_id = device_id;
  plan->inputs = inputs;
  plan->outputs = (int)(count - inputs);
  plan->scalar_bytes = scalar_bytes;
  plan->shared_bytes = shared_bytes;
  plan->function = address(function);
  plan->context = address(context);
  if (PyErr_Occurred() || triple(grid, plan->grid) || triple(block, plan->block)) goto fail;
  plan->empty = !(plan->grid[0] && plan->grid[1] && plan->grid[2]);
  for (Py_ssize_t i = 0; i < count; i++)
    if (read_expected(PyTuple_GetItem(tensors, i), &plan->expected[i])) goto fail;
  plan->parameter_count = (int)parameter_count;
  for (Py_ssize_t i = 0; i < parameter_count; i++)
    if (read_parameter(PyTuple_GetItem(parameters, i), &plan->parameters[i], plan)) goto fail;
  plan->attribute_count = (int)attribute_count;
  for (Py_ssize_t i = 0; i < attribute_count; i++) {
    unsigned value[3];
    int id;
    PyObject *words;
    if (!PyArg_ParseTuple(PyTuple_GetItem(attributes, i), "iO!", &id, &PyTuple_Type, &words)) goto fail;
    if (triple(words, value)) goto fail;
    plan->attributes[i].id = id;
    memcpy(&plan->attributes[i].value.dim, value, sizeof value);
  }
  if (plan->tables) {
    plan->slots = PyMem_Calloc((size_t)plan->tables * TABLE, sizeof(Slot));
    if (!plan->slots) {
      PyErr_NoMemory();
      goto fail;
    }
  }
  return (PyObject *)plan;
fail:
  Py_DECREF(plan);
  return NULL;
}

static int plan_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((Plan *)self)->keep);
  return 0;
}

static void plan_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Py_CLEAR(((Plan *)self)->keep);
  PyMem_Free(((Plan *)self)->slots);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

/* --- dispatching */

static int fits(const Tensor *t, const Expected *e) {
  if (t->ndim != e->ndim || t->dtype != e->dtype || t->device_id != e->device_id || t->keys != e->keys) return 0;
  for (int64_t i = 0; i < e->ndim; i++)
    if (t->shape[i] != e->shape[i] || (e->shape[i] > 1 && t->strides && t->strides[i] != e->strides[i])) return 0;
  return 1;
}

static int truth(PyObject *object) { /* consumes the reference; -1 on error */
  if (!object) return -1;
  int result = object == Py_True ? 1 : object == Py_False ? 0 : PyObject_IsTrue(object);
  Py_DECREF(object);
  return result;
}

/* Whether the tensor is one that the launcher may read itself, and what it is. 0: let torch see it. */
static int acceptable(Dispatcher *self, PyObject *object, Tensor *out) {
  PyTypeObject *type = Py_TYPE(object);
  if (type != self->tensor && type != self->parameter) return 0;
  if (self->reader.impl_at && keys_of(&self->reader, object) != self->keys) return 0; /* torch would complain on stderr */
  if (read_tensor(&self->reader, object, out)) { /* functorch wrappers, sparse, meta: no memory to speak of */
    PyErr_Clear();
    return 0;
  }
  return 1;
}

static int dispatch_modes(Dispatcher *self) {
  if (self->reader.mode_depth) return self->reader.mode_depth() != 0;
  return self->dispatch_depth.callable == Py_None ? 0 : truth(ask(&self->dispatch_depth));
}

static int records_gradients(Dispatcher *self) {
  return self->reader.grad_enabled ? self->reader.grad_enabled() : truth(ask(&self->grad_enabled));
}

static int requires_gradient(Dispatcher *self, PyObject *tensor) {
  if (self->reader.requires_grad) return self->reader.requires_grad(impl_of(&self->reader, tensor));
  PyObject *descriptor = self->requires_grad_descriptor;
  return truth(descriptor ? self->get_descriptor(descriptor, tensor, (PyObject *)Py_TYPE(tensor))
                          : PyObject_GetAttr(tensor, self->requires_grad));
}

static PyObject *not_implemented(void) {
  Py_INCREF(Py_NotImplemented);
  return Py_NotImplemented;
}

static PyObject *run(Dispatcher *self, PyObject *const *args, Py_ssize_t nargs, int into) {
  Tensor tensors[MAX_TENSORS];
  PyObject *scalars = NULL;
  if (nargs && PyBytes_Check(args[nargs - 1])) scalars = args[--nargs];
  if (nargs > MAX_TENSORS || !self->count) return not_implemented();
  int busy = dispatch_modes(self);
  if (busy) return busy < 0 ? NULL : not_implemented();
  for (Py_ssize_t i = 0; i < nargs; i++)
    if (!acceptable(self, args[i], &tensors[i])) return not_implemented();

  Plan *plan = NULL;
  for (int k = 0; k < self->count; k++) {
    int at = self->last + k;
    if (at >= self->count) at -= self->count;
    Plan *candidate = self->plans[at];
    if (nargs != (into ? candidate->inputs + candidate->outputs : candidate->inputs)) continue;
    if ((scalars ? PyBytes_Size(scalars) : 0) != candidate->scalar_bytes) continue;
    Py_ssize_t i = 0;
    while (i < nargs && fits(&tensors[i], &candidate->expected[i])) i++;
    if (i == nargs) {
      plan = candidate;
      self->last = at;
      break;
    }
  }
  if (!plan) return not_implemented();

  int grad = records_gradients(self);
  if (grad < 0) return NULL;
  for (Py_ssize_t i = 0; i < nargs; i++) {
    if (read_data(&self->reader, args[i], &tensors[i])) return not_implemented();
    if ((uintptr_t)tensors[i].data & plan->expected[i].alignment_mask) return not_implemented();
    int wanted = grad ? requires_gradient(self, args[i]) : 0;
    if (wanted) return wanted < 0 ? NULL : not_implemented();
    if (!self->reader.impl_at && plan->expected[i].single) { /* the one view whose strides do not give it away */
      int negative = truth(PyObject_CallMethodObjArgs(args[i], self->is_neg, NULL));
      if (negative < 0) return NULL;
      if (negative) return not_implemented();
    }
  }

  void *current = NULL;
  if (self->get_current(&current)) current = NULL;
  Py_INCREF((PyObject *)plan);
  PyObject *results[MAX_TENSORS];
  int made = 0;
  PyObject *answer = NULL;
  if (!into) {
    PyObject *allocators = current == plan->context ? plan->allocators : plan->slow_allocators;
    for (; made < plan->outputs; made++) {
      PyObject *how = PyTuple_GetItem(allocators, made);
      results[made] = PyObject_Call(PyTuple_GetItem(how, 0), PyTuple_GetItem(how, 1), NULL);
      if (!results[made]) goto done;
      Tensor *output = &tensors[plan->inputs + made];
      if (read_tensor(&self->reader, results[made], output) || read_data(&self->reader, results[made], output)) {
        made++;
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "torch made an output that cannot be read");
        goto done;
      }
    }
  }

  unsigned char storage[MAX_PARAMETERS][8];
  void *parameters[MAX_PARAMETERS];
  char *packed = NULL;
  Py_ssize_t packed_size;
  if (scalars && PyBytes_AsStringAndSize(scalars, &packed, &packed_size)) goto done;
  for (int i = 0; i < plan->parameter_count; i++) {
    Parameter *p = &plan->parameters[i];
    if (p->kind == CONSTANT) {
      parameters[i] = p->bytes;
      continue;
    }
    if (p->kind == SCALAR) {
      parameters[i] = packed + p->offset;
      continue;
    }
    uint64_t value = (uint64_t)(uintptr_t)tensors[p->tensor].data;
    if (p->kind == DESCRIPTOR && !plan->empty) {
      uintptr_t pointer = (uintptr_t)value;
      Slot *slot = &plan->slots[p->table * TABLE + ((pointer >> 8) ^ (pointer >> 16)) % TABLE];
      if (slot->pointer != pointer || !slot->address) {
        PyObject *found = PyObject_CallFunction(plan->encode, "iK", p->tensor, (unsigned long long)value);
        if (!found) goto done;
        uint64_t where = PyLong_AsUnsignedLongLong(found);
        Py_DECREF(found);
        if (PyErr_Occurred()) goto done;
        slot->pointer = pointer;
        slot->address = where;
        value = where;
      } else {
        value = slot->address;
      }
    }
    memcpy(storage[i], &value, 8);
    parameters[i] = storage[i];
  }

  if (!plan->empty) {
    CUlaunchConfig config;
    memset(&config, 0, sizeof config);
    memcpy(config.grid, plan->grid, sizeof config.grid);
    memcpy(config.block, plan->block, sizeof config.block);
    config.shared_bytes = plan->shared_bytes;
    config.attributes = plan->attribute_count ? plan->attributes : NULL;
    config.attribute_count = (unsigned)plan->attribute_count;
    if (self->reader.api->current_stream(plan->device_type, plan->device_id, &config.stream)) goto done;
    int error;
    Py_BEGIN_ALLOW_THREADS; /* a full queue makes the driver wait, maybe for a callback that needs the interpreter */
    int foreign = current != plan->context;
    error = foreign ? self->push(plan->context) : 0;
    if (!error) {
      error = self->launch(&config, plan->function, parameters, NULL);
      if (foreign) self->pop(&current);
    }
    Py_END_ALLOW_THREADS;
    if (error) {
      PyObject *raised = PyObject_CallFunction(plan->on_error, "i", error);
      if (raised) {
        Py_DECREF(raised);
        PyErr_Format(PyExc_RuntimeError, "CUDA error %d", error);
      }
      goto done;
    }
  }
  if (into) {
    Py_INCREF(Py_None);
    answer = Py_None;
  } else if (plan->outputs == 1) {
    answer = results[0];
    made = 0;
  } else {
    answer = PyTuple_New(plan->outputs);
    if (answer) {
      for (int i = 0; i < plan->outputs; i++) PyTuple_SetItem(answer, i, results[i]);
      made = 0;
    }
  }
done:
  for (int i = 0; i < made; i++) Py_DECREF(results[i]);
  Py_DECREF(plan);
  return answer;
}

static PyObject *dispatcher_call(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  return run((Dispatcher *)self, args, nargs, 0);
}

static PyObject *dispatcher_into(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  return run((Dispatcher *)self, args, nargs, 1);
}

/* attempt(args, keywords): what a call of the kernel with these arguments does, `out=` included, if a plan fits. */
static PyObject *dispatcher_attempt(PyObject *self, PyObject *const *given, Py_ssize_t nargs) {
  PyObject *items[MAX_TENSORS + 1];
  if (nargs != 2) {
    PyErr_SetString(PyExc_TypeError, "attempt takes a tuple and a dict");
    return NULL;
  }
  Py_ssize_t count = PyTuple_Size(given[0]), keywords = PyDict_Size(given[1]);
  if (count < 0 || keywords < 0) return NULL;
  if (keywords > 1 || count > MAX_TENSORS) return not_implemented();
  PyObject *level = PyDict_GetItemWithError(((Dispatcher *)self)->forward_ad, ((Dispatcher *)self)->current_level);
  if (!level || PyLong_AsLong(level) >= 0) /* a tensor may have a tangent, which would be lost */
    return PyErr_Occurred() ? NULL : not_implemented();
  for (Py_ssize_t i = 0; i < count; i++) items[i] = PyTuple_GetItem(given[0], i);
  if (!keywords) return run((Dispatcher *)self, items, count, 0);
  PyObject *out = PyDict_GetItemWithError(given[1], ((Dispatcher *)self)->out);
  if (!out) return PyErr_Occurred() ? NULL : not_implemented();
  if (PyTuple_Check(out)) {
    Py_ssize_t more = PyTuple_Size(out);
    if (count + more > MAX_TENSORS) return not_implemented();
    for (Py_ssize_t i = 0; i < more; i++) items[count++] = PyTuple_GetItem(out, i);
  } else {
    items[count++] = out;
  }
  PyObject *result = run((Dispatcher *)self, items, count, 1);
  if (result != Py_None) return result;
  Py_DECREF(result);
  Py_INCREF(out);
  return out;
}

static PyTypeObject *plan_type;

static PyObject *dispatcher_add(PyObject *object, PyObject *plan) {
  Dispatcher *self = (Dispatcher *)object;
  if (Py_TYPE(plan) != plan_type) {
    PyErr_SetString(PyExc_TypeError, "add takes a Plan");
    return NULL;
  }
  self->keys = ((Plan *)plan)->expected[0].keys;
  Py_INCREF((PyObject *)plan);
  if (self->count < MAX_PLANS) {
    self->last = self->count;
    self->plans[self->count++] = (Plan *)plan;
  } else { /* the plans that a kernel keeps are bounded: the oldest makes room */
    Plan *old = self->plans[self->next];
    self->plans[self->next] = (Plan *)plan;
    self->last = self->next;
    self->next = (self->next + 1) % MAX_PLANS;
    Py_DECREF(old);
  }
  Py_RETURN_NONE;
}

static PyObject *dispatcher_clear_plans(PyObject *object, PyObject *unused) {
  Dispatcher *self = (Dispatcher *)object;
  (void)unused;
  int count = self->count;
  self->count = self->last = self->next = 0;
  for (int i = 0; i < count; i++) Py_CLEAR(self->plans[i]);
  Py_RETURN_NONE;
}

static PyObject *dispatcher_length(PyObject *object, PyObject *unused) {
  (void)unused;
  return PyLong_FromLong(((Dispatcher *)object)->count);
}

/* Dispatcher(types, exchange capsule, internals, dispatch_depth, grad_enabled, forward_ad's dict,
              (launch, get_current, push, pop)) */
static PyObject *dispatcher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *types, *capsule, *internals, *depth, *grad, *forward, *launch, *get, *push, *pop;
  Reader reader;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "O!OOOOO!(OOOO)", &PyTuple_Type, &types, &capsule, &internals, &depth, &grad, &PyDict_Type,
                        &forward, &launch, &get, &push, &pop))
    return NULL;
  if (PyTuple_Size(types) != 2) {
    PyErr_SetString(PyExc_ValueError, "types are two: the tensor type and the parameter type");
    return NULL;
  }
  if (make_reader(capsule, internals, &reader)) return NULL;
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Dispatcher *self = (Dispatcher *)allocate(type, 0);
  if (!self) return NULL;
  self->reader = reader;
  self->tensor = (PyTypeObject *)PyTuple_GetItem(types, 0);
  self->parameter = (PyTypeObject *)PyTuple_GetItem(types, 1);
  self->out = PyUnicode_InternFromString("out");
  self->current_level = PyUnicode_InternFromString("_current_level");
  self->forward_ad = forward;
  self->dispatch_depth = question(depth);
  self->grad_enabled = question(grad);
  self->requires_grad = PyUnicode_InternFromString("requires_grad");
  self->is_neg = PyUnicode_InternFromString("is_neg");
  self->launch = (LaunchKernelEx)address(launch);
  self->get_current = (CtxGetCurrent)address(get);
  self->push = (CtxPush)address(push);
  self->pop = (CtxPop)address(pop);
  PyObject *descriptor = self->requires_grad ? PyObject_GetAttr((PyObject *)self->tensor, self->requires_grad) : NULL;
  if (!descriptor) PyErr_Clear();
  if (descriptor && Py_TYPE(descriptor) == &PyGetSetDescr_Type) {
    self->requires_grad_descriptor = descriptor;
    self->get_descriptor = (descrgetfunc)PyType_GetSlot(Py_TYPE(descriptor), Py_tp_descr_get);
  }
  if (self->requires_grad && self->is_neg && self->out && self->current_level && !PyErr_Occurred())
    self->keep = PyTuple_Pack(6, types, capsule, depth, grad, forward, descriptor ? descriptor : Py_None);
  Py_XDECREF(descriptor);
  if (!self->keep) {
    Py_DECREF(self);
    return NULL;
  }
  return (PyObject *)self;
}

static int dispatcher_traverse(PyObject *object, visitproc visit, void *arg) {
  Dispatcher *self = (Dispatcher *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->keep);
  for (int i = 0; i < self->count; i++) Py_VISIT(self->plans[i]);
  return 0;
}

static int dispatcher_clear(PyObject *object) {
  PyObject *none = dispatcher_clear_plans(object, NULL);
  Py_XDECREF(none);
  return 0;
}

static void dispatcher_dealloc(PyObject *object) {
  Dispatcher *self = (Dispatcher *)object;
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  dispatcher_clear(object);
  Py_CLEAR(self->keep);
  Py_CLEAR(self->requires_grad);
  Py_CLEAR(self->is_neg);
  Py_CLEAR(self->out);
  Py_CLEAR(self->current_level);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

/* --- the module */

/* describe(exchange capsule, internals, tensor) -> (keys, device id, dtype, pointer, shape, strides) */
static PyObject *describe(PyObject *module, PyObject *args) {
  PyObject *capsule, *internals, *object;
  Reader reader;
  Tensor t;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOO", &capsule, &internals, &object) || make_reader(capsule, internals, &reader)) return NULL;
  if (read_tensor(&reader, object, &t) || read_data(&reader, object, &t)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "torch does not say where this tensor lies");
    return NULL;
  }
  PyObject *shape = PyTuple_New(t.ndim), *strides = PyTuple_New(t.ndim);
  if (!shape || !strides) return NULL;
  int64_t packed = 1;
  for (Py_ssize_t i = t.ndim - 1; i >= 0; i--) {
    PyTuple_SetItem(shape, i, PyLong_FromLongLong(t.shape[i]));
    PyTuple_SetItem(strides, i, PyLong_FromLongLong(t.strides ? t.strides[i] : packed));
    packed *= t.shape[i];
  }
  return Py_BuildValue("KiiKNN", (unsigned long long)t.keys, t.device_id, t.dtype, (unsigned long long)(uintptr_t)t.data,
                       shape, strides);
}

static PyMethodDef functions[] = {
    {"describe", describe, METH_VARARGS, "What plans compare of a tensor."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot plan_slots[] = {
    {Py_tp_new, plan_new},
    {Py_tp_dealloc, plan_dealloc},
    {Py_tp_traverse, plan_traverse},
    {Py_tp_doc, "One specialisation of a kernel, checked and ready to launch."},
    {0, NULL},
};
static PyType_Spec plan_spec = {"pyptx.runtime._launcher.Plan", sizeof(Plan), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                plan_slots};

static PyMethodDef dispatcher_methods[] = {
    {"call", (PyCFunction)(void (*)(void))dispatcher_call, METH_FASTCALL,
     "call(*inputs[, scalars]): allocate the outputs, launch, return them; NotImplemented if no plan fits."},
    {"into", (PyCFunction)(void (*)(void))dispatcher_into, METH_FASTCALL,
     "into(*inputs, *outputs[, scalars]): launch; None, or NotImplemented if no plan fits."},
    {"attempt", (PyCFunction)(void (*)(void))dispatcher_attempt, METH_FASTCALL,
     "attempt(args, keywords): call or into, as a call with these arguments means; NotImplemented if no plan fits."},
    {"add", dispatcher_add, METH_O, "Add a plan."},
    {"clear", dispatcher_clear_plans, METH_NOARGS, "Forget all plans."},
    {"__len__", dispatcher_length, METH_NOARGS, "The number of plans."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot dispatcher_slots[] = {
    {Py_tp_new, dispatcher_new},
    {Py_tp_dealloc, dispatcher_dealloc},
    {Py_tp_traverse, dispatcher_traverse},
    {Py_tp_clear, dispatcher_clear},
    {Py_tp_methods, dispatcher_methods},
    {Py_tp_doc, "The plans of one kernel, and launching the one that fits."},
    {0, NULL},
};
static PyType_Spec dispatcher_spec = {"pyptx.runtime._launcher.Dispatcher", sizeof(Dispatcher), 0,
                                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, dispatcher_slots};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_launcher", "The native launcher (see _launcher.c).", -1,
                                        functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__launcher(void) {
  PyObject *module = PyModule_Create(&definition);
  if (!module) return NULL;
  plan_type = (PyTypeObject *)PyType_FromSpec(&plan_spec);
  PyObject *dispatcher = PyType_FromSpec(&dispatcher_spec);
  if (!plan_type || !dispatcher || PyModule_AddObjectRef(module, "Plan", (PyObject *)plan_type) ||
      PyModule_AddObjectRef(module, "Dispatcher", dispatcher) ||
      PyModule_AddIntConstant(module, "MAX_TENSORS", MAX_TENSORS) ||
      PyModule_AddIntConstant(module, "MAX_PARAMETERS", MAX_PARAMETERS) ||
      PyModule_AddIntConstant(module, "CONFIG_SIZE", sizeof(CUlaunchConfig)) ||
      PyModule_AddIntConstant(module, "ATTRIBUTE_SIZE", sizeof(CUlaunchAttribute))) {
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
