/* Wrong handles, null pointers, wrong sizes: an error code, never a crash, and nothing changed. */
#include "tests/capi/digits.h"

enum Kind { OPTIONS, TRAINER_OPTIONS, MODULE, TRAINER, ARRAYS, PROBLEMS, EVALUATION, KINDS };

static void* alive[KINDS]; /* a good handle of each kind */
static trainrt_array batch[2];
static int64_t shapes[2][4];
static char* out_file;

/* Results that the calls of the table write to. */
static int64_t whole;
static int32_t on;
static size_t needed;
static double real;
static float floats[10];
static const char* text;
static const char* const kLosses[1] = {"mse"};
static const char* const kUnknownLosses[1] = {"love"};
static trainrt_port port;
static trainrt_parameter parameter;
static trainrt_problem problem;
static trainrt_array array;
static trainrt_step step_result;
static trainrt_module* module_out;
static trainrt_trainer* trainer_out;
static trainrt_arrays* arrays_out;
static trainrt_problems* problems_out;
static trainrt_evaluation* evaluation_out;

#define FREE 1     /* NULL does nothing */
#define OPTIONAL 2 /* NULL stands for the default */

/* Every function for each handle it takes: row name, kind, what NULL means, the call with `h` as
   that handle and good arguments otherwise. */
#define CALLS(X)                                                                                   \
  X(options_set, OPTIONS, 0, trainrt_options_set(h, "seed", "1"))                                  \
  X(options_free, OPTIONS, FREE, trainrt_options_free(h))                                          \
  X(module_load, OPTIONS, OPTIONAL, trainrt_module_load(DIGITS "digits.onnx", h, &module_out))     \
  X(module_load_memory, OPTIONS, OPTIONAL,                                                         \
    trainrt_module_load_memory(out_file, 4, h, NULL, &module_out))                                 \
  X(trainer_options_set, TRAINER_OPTIONS, 0, trainrt_trainer_options_set(h, "lr", "0.1"))          \
  X(trainer_options_set_input, TRAINER_OPTIONS, 0,                                                 \
    trainrt_trainer_options_set_input(h, &batch[0]))                                               \
  X(trainer_options_free, TRAINER_OPTIONS, FREE, trainrt_trainer_options_free(h))                  \
  X(trainer_create_options, TRAINER_OPTIONS, OPTIONAL,                                             \
    trainrt_trainer_create(alive[MODULE], h, &trainer_out))                                        \
  X(arrays_count, ARRAYS, 0, trainrt_arrays_count(h, &whole))                                      \
  X(arrays_get, ARRAYS, 0, trainrt_arrays_get(h, 0, &array))                                       \
  X(arrays_find, ARRAYS, 0, trainrt_arrays_find(h, "x", &array))                                   \
  X(arrays_free, ARRAYS, FREE, trainrt_arrays_free(h))                                             \
  X(module_free, MODULE, FREE, trainrt_module_free(h))                                             \
  X(module_input_count, MODULE, 0, trainrt_module_input_count(h, &whole))                          \
  X(module_input, MODULE, 0, trainrt_module_input(h, 0, &port))                                    \
  X(module_output_count, MODULE, 0, trainrt_module_output_count(h, &whole))                        \
  X(module_output, MODULE, 0, trainrt_module_output(h, 0, &port))                                  \
  X(module_warning_count, MODULE, 0, trainrt_module_warning_count(h, &whole))                      \
  X(module_warning, MODULE, 0, trainrt_module_warning(h, 0, &text))                                \
  X(module_check, MODULE, 0, trainrt_module_check(h, batch, 1, &problems_out))                     \
  X(module_train, MODULE, 0, trainrt_module_train(h, 0))                                           \
  X(module_is_training, MODULE, 0, trainrt_module_is_training(h, &on))                             \
  X(module_forward, MODULE, 0, trainrt_module_forward(h, batch, 1, &arrays_out))                   \
  X(module_attach_loss, MODULE, 0, trainrt_module_attach_loss(h, kLosses, 1))                      \
  X(module_backward, MODULE, 0, trainrt_module_backward(h, NULL, 0))                               \
  X(module_backward_loss, MODULE, 0, trainrt_module_backward_loss(h))                              \
  X(module_zero_grad, MODULE, 0, trainrt_module_zero_grad(h, 1))                                   \
  X(module_set_input_grads, MODULE, 0, trainrt_module_set_input_grads(h, 1))                       \
  X(module_get_input_grad, MODULE, 0, trainrt_module_get_input_grad(h, "x", NULL, 0, &needed))     \
  X(module_parameter_count, MODULE, 0, trainrt_module_parameter_count(h, &whole))                  \
  X(module_parameter, MODULE, 0, trainrt_module_parameter(h, 0, &parameter))                       \
  X(module_get_requires_grad, MODULE, 0, trainrt_module_get_requires_grad(h, "fc2.bias", &on))     \
  X(module_set_requires_grad, MODULE, 0, trainrt_module_set_requires_grad(h, "fc2.bias", 0))       \
  X(module_get_grad, MODULE, 0,                                                                    \
    trainrt_module_get_grad(h, "fc2.bias", floats, sizeof floats, &needed))                        \
  X(module_state_count, MODULE, 0, trainrt_module_state_count(h, &whole))                          \
  X(module_state, MODULE, 0, trainrt_module_state(h, 0, &array))                                   \
  X(module_get_state, MODULE, 0,                                                                   \
    trainrt_module_get_state(h, "fc2.bias", floats, sizeof floats, &needed))                       \
  X(module_set_state, MODULE, 0, trainrt_module_set_state(h, NULL, 0))                             \
  X(module_flat_size, MODULE, 0, trainrt_module_flat_size(h, &whole))                              \
  X(module_get_flat, MODULE, 0, trainrt_module_get_flat(h, TRAINRT_FLOAT32, floats, 10))           \
  X(module_set_flat, MODULE, 0, trainrt_module_set_flat(h, TRAINRT_FLOAT32, floats, 10))           \
  X(module_get_flat_grad, MODULE, 0, trainrt_module_get_flat_grad(h, TRAINRT_FLOAT32, floats, 10)) \
  X(module_set_flat_grad, MODULE, 0, trainrt_module_set_flat_grad(h, TRAINRT_FLOAT32, floats, 10)) \
  X(module_save_state, MODULE, 0, trainrt_module_save_state(h, out_file))                          \
  X(module_load_state, MODULE, 0, trainrt_module_load_state(h, out_file, 1))                       \
  X(module_save_checkpoint, MODULE, 0, trainrt_module_save_checkpoint(h, out_file))                \
  X(module_load_checkpoint, MODULE, 0, trainrt_module_load_checkpoint(h, out_file))                \
  X(module_export_onnx, MODULE, 0, trainrt_module_export_onnx(h, out_file))                        \
  X(trainer_create, MODULE, 0, trainrt_trainer_create(h, NULL, &trainer_out))                      \
  X(problems_count, PROBLEMS, 0, trainrt_problems_count(h, &whole))                                \
  X(problems_get, PROBLEMS, 0, trainrt_problems_get(h, 0, &problem))                               \
  X(problems_free, PROBLEMS, FREE, trainrt_problems_free(h))                                       \
  X(trainer_free, TRAINER, FREE, trainrt_trainer_free(h))                                          \
  X(trainer_step, TRAINER, 0, trainrt_trainer_step(h, batch, 2, &step_result))                     \
  X(trainer_evaluate, TRAINER, 0, trainrt_trainer_evaluate(h, batch, 2, &evaluation_out))          \
  X(trainer_predict, TRAINER, 0, trainrt_trainer_predict(h, batch, 1, &arrays_out))                \
  X(trainer_steps_done, TRAINER, 0, trainrt_trainer_steps_done(h, &whole))                         \
  X(trainer_get_learning_rate, TRAINER, 0, trainrt_trainer_get_learning_rate(h, &real))            \
  X(trainer_set_learning_rate, TRAINER, 0, trainrt_trainer_set_learning_rate(h, 0.1))              \
  X(trainer_get_position, TRAINER, 0, trainrt_trainer_get_position(h, &whole, &whole))             \
  X(trainer_set_position, TRAINER, 0, trainrt_trainer_set_position(h, 1, 1))                       \
  X(trainer_swap_ema, TRAINER, 0, trainrt_trainer_swap_ema(h))                                     \
  X(trainer_save_checkpoint, TRAINER, 0, trainrt_trainer_save_checkpoint(h, out_file))             \
  X(trainer_load_checkpoint, TRAINER, 0, trainrt_trainer_load_checkpoint(h, out_file))             \
  X(evaluation_loss, EVALUATION, 0, trainrt_evaluation_loss(h, &real))                             \
  X(evaluation_samples, EVALUATION, 0, trainrt_evaluation_samples(h, &whole))                      \
  X(evaluation_metric, EVALUATION, 0, trainrt_evaluation_metric(h, "accuracy", &real))             \
  X(evaluation_add, EVALUATION, 0, trainrt_evaluation_add(h, alive[EVALUATION]))                   \
  X(evaluation_add_more, EVALUATION, 0, trainrt_evaluation_add(alive[EVALUATION], h))              \
  X(evaluation_free, EVALUATION, FREE, trainrt_evaluation_free(h))

#define DEFINE(name, kind, null_means, call) \
  static trainrt_status call_##name(void* h) { return call; }
CALLS(DEFINE)

struct Row {
  const char* name;
  enum Kind kind;
  int null_means;
  trainrt_status (*call)(void* h);
};
#define ROW(name, kind, null_means, call) {#name, kind, null_means, call_##name},
static const struct Row kRows[] = {CALLS(ROW)};

static void make_handles(void* handles[KINDS]) {
  trainrt_options* options;
  trainrt_trainer_options* trainer_options;
  trainrt_module* module;
  trainrt_trainer* trainer;
  trainrt_arrays* arrays;
  trainrt_problems* problems;
  trainrt_evaluation* evaluation;
  OK(trainrt_options_create(&options));
  OK(trainrt_trainer_options_create(&trainer_options));
  OK(trainrt_module_load(DIGITS "digits.onnx", options, &module));
  OK(trainrt_trainer_create(module, trainer_options, &trainer));
  OK(trainrt_arrays_load(DIGITS "val.npz", &arrays));
  OK(trainrt_module_check(module, NULL, 0, &problems));
  digits_rows(arrays, 0, 8, shapes, batch);
  OK(trainrt_trainer_evaluate(trainer, batch, 2, &evaluation));
  handles[OPTIONS] = options;
  handles[TRAINER_OPTIONS] = trainer_options;
  handles[MODULE] = module;
  handles[TRAINER] = trainer;
  handles[ARRAYS] = arrays;
  handles[PROBLEMS] = problems;
  handles[EVALUATION] = evaluation;
}

static void free_handles(void* handles[KINDS]) {
  OK(trainrt_options_free(handles[OPTIONS]));
  OK(trainrt_trainer_options_free(handles[TRAINER_OPTIONS]));
  OK(trainrt_module_free(handles[MODULE]));
  OK(trainrt_trainer_free(handles[TRAINER]));
  OK(trainrt_arrays_free(handles[ARRAYS]));
  OK(trainrt_problems_free(handles[PROBLEMS]));
  OK(trainrt_evaluation_free(handles[EVALUATION]));
}

static void expect(const struct Row* row, trainrt_status wanted, void* handle, const char* what) {
  char title[128];
  snprintf(title, sizeof title, "%s with %s", row->name, what);
  check_status(wanted, row->call(handle), title, __LINE__);
  CHECK(wanted == TRAINRT_OK || trainrt_last_error_code() == wanted);
  CHECK(wanted == TRAINRT_OK || strlen(trainrt_last_error()) > 10);
}

static void wrong_handles(void) {
  void* freed[KINDS];
  int on_stack = 0, kind;
  void* on_heap = malloc(4096);
  size_t i;
  make_handles(freed);
  free_handles(freed);
  make_handles(alive);
  memset(on_heap, 0, 4096);
  for (i = 0; i < sizeof kRows / sizeof *kRows; ++i) {
    const struct Row* row = &kRows[i];
    if (row->null_means == FREE) {
      expect(row, TRAINRT_OK, NULL, "NULL");
    } else if (row->null_means != OPTIONAL) {
      expect(row, TRAINRT_ERROR_HANDLE, NULL, "NULL");
      CHECK(strstr(trainrt_last_error(), "is NULL") != NULL);
    }
    expect(row, TRAINRT_ERROR_HANDLE, freed[row->kind], "a freed handle");
    CHECK(strstr(trainrt_last_error(), "has been freed") != NULL);
    expect(row, TRAINRT_ERROR_HANDLE, &on_stack, "an address on the stack");
    expect(row, TRAINRT_ERROR_HANDLE, on_heap, "an address on the heap");
    expect(row, TRAINRT_ERROR_HANDLE, (void*)1, "a small number");
    expect(row, TRAINRT_ERROR_HANDLE, (void*)UINTPTR_MAX, "the largest number");
    expect(row, TRAINRT_ERROR_HANDLE, (char*)alive[row->kind] + 1000000, "a handle to come");
    for (kind = 0; kind < KINDS; ++kind) {
      if (kind != (int)row->kind) {
        expect(row, TRAINRT_ERROR_HANDLE, alive[kind], "another kind's handle");
      }
    }
  }
  CHECK(module_out == NULL && trainer_out == NULL && arrays_out == NULL);
  CHECK(problems_out == NULL && evaluation_out == NULL);
  free(on_heap);
  free_handles(alive);
}

static void a_freed_handle_stays_wrong(void) {
  trainrt_options *first, *next;
  int i;
  OK(trainrt_options_create(&first));
  OK(trainrt_options_free(first));
  FAILS(TRAINRT_ERROR_HANDLE, trainrt_options_free(first));
  for (i = 0; i < 1000; ++i) {
    OK(trainrt_options_create(&next));
    CHECK(next != first);
    OK(trainrt_options_free(next));
  }
  FAILS(TRAINRT_ERROR_HANDLE, trainrt_options_set(first, "seed", "1"));
}

#define ARGUMENT(call) FAILS(TRAINRT_ERROR_ARGUMENT, call)
#define USAGE(call) FAILS(TRAINRT_ERROR_USAGE, call)

static void null_pointers(void) {
  trainrt_options* o;
  trainrt_trainer_options* to;
  trainrt_module* m;
  trainrt_trainer* t;
  trainrt_arrays* a;
  trainrt_problems* p;
  trainrt_evaluation* e;
  const char* const none[1] = {NULL};
  make_handles(alive);
  o = alive[OPTIONS];
  to = alive[TRAINER_OPTIONS];
  m = alive[MODULE];
  t = alive[TRAINER];
  a = alive[ARRAYS];
  p = alive[PROBLEMS];
  e = alive[EVALUATION];
  ARGUMENT(trainrt_options_create(NULL));
  ARGUMENT(trainrt_options_set(o, NULL, "1"));
  ARGUMENT(trainrt_options_set(o, "seed", NULL));
  ARGUMENT(trainrt_trainer_options_create(NULL));
  ARGUMENT(trainrt_trainer_options_set(to, NULL, "1"));
  ARGUMENT(trainrt_trainer_options_set(to, "lr", NULL));
  ARGUMENT(trainrt_trainer_options_set_input(to, NULL));
  ARGUMENT(trainrt_arrays_load(NULL, &arrays_out));
  ARGUMENT(trainrt_arrays_load(DIGITS "val.npz", NULL));
  ARGUMENT(trainrt_arrays_count(a, NULL));
  ARGUMENT(trainrt_arrays_get(a, 0, NULL));
  ARGUMENT(trainrt_arrays_find(a, NULL, &array));
  ARGUMENT(trainrt_arrays_find(a, "x", NULL));
  ARGUMENT(trainrt_module_load(NULL, NULL, &module_out));
  ARGUMENT(trainrt_module_load(DIGITS "digits.onnx", NULL, NULL));
  ARGUMENT(trainrt_module_load_memory(NULL, 10, NULL, NULL, &module_out));
  ARGUMENT(trainrt_module_load_memory("x", 1, NULL, NULL, NULL));
  ARGUMENT(trainrt_module_input_count(m, NULL));
  ARGUMENT(trainrt_module_input(m, 0, NULL));
  ARGUMENT(trainrt_module_output_count(m, NULL));
  ARGUMENT(trainrt_module_output(m, 0, NULL));
  ARGUMENT(trainrt_module_warning_count(m, NULL));
  ARGUMENT(trainrt_module_warning(m, 0, NULL));
  ARGUMENT(trainrt_module_check(m, NULL, 1, &problems_out));
  ARGUMENT(trainrt_module_check(m, NULL, 0, NULL));
  ARGUMENT(trainrt_problems_count(p, NULL));
  ARGUMENT(trainrt_problems_get(p, 0, NULL));
  ARGUMENT(trainrt_module_is_training(m, NULL));
  ARGUMENT(trainrt_module_forward(m, NULL, 1, &arrays_out));
  ARGUMENT(trainrt_module_forward(m, batch, 1, NULL));
  ARGUMENT(trainrt_module_attach_loss(m, NULL, 1));
  ARGUMENT(trainrt_module_attach_loss(m, none, 1));
  ARGUMENT(trainrt_module_backward(m, NULL, 1));
  ARGUMENT(trainrt_module_get_input_grad(m, NULL, floats, sizeof floats, NULL));
  ARGUMENT(trainrt_module_parameter_count(m, NULL));
  ARGUMENT(trainrt_module_parameter(m, 0, NULL));
  ARGUMENT(trainrt_module_get_requires_grad(m, NULL, &on));
  ARGUMENT(trainrt_module_get_requires_grad(m, "fc2.bias", NULL));
  ARGUMENT(trainrt_module_get_grad(m, NULL, floats, sizeof floats, NULL));
  ARGUMENT(trainrt_module_state_count(m, NULL));
  ARGUMENT(trainrt_module_state(m, 0, NULL));
  ARGUMENT(trainrt_module_get_state(m, NULL, floats, sizeof floats, NULL));
  ARGUMENT(trainrt_module_get_state(m, "fc2.bias", NULL, 40, &needed));
  ARGUMENT(trainrt_module_get_state(m, "fc2.bias", NULL, 0, NULL));
  ARGUMENT(trainrt_module_set_state(m, NULL, 1));
  ARGUMENT(trainrt_module_flat_size(m, NULL));
  OK(trainrt_module_flat_size(m, &whole));
  ARGUMENT(trainrt_module_get_flat(m, TRAINRT_FLOAT32, NULL, whole));
  ARGUMENT(trainrt_module_set_flat(m, TRAINRT_FLOAT32, NULL, whole));
  ARGUMENT(trainrt_module_get_flat_grad(m, TRAINRT_FLOAT32, NULL, whole));
  ARGUMENT(trainrt_module_set_flat_grad(m, TRAINRT_FLOAT32, NULL, whole));
  ARGUMENT(trainrt_module_save_state(m, NULL));
  ARGUMENT(trainrt_module_load_state(m, NULL, 1));
  ARGUMENT(trainrt_module_save_checkpoint(m, NULL));
  ARGUMENT(trainrt_module_load_checkpoint(m, NULL));
  ARGUMENT(trainrt_module_export_onnx(m, NULL));
  ARGUMENT(trainrt_trainer_create(m, NULL, NULL));
  ARGUMENT(trainrt_trainer_step(t, NULL, 2, NULL));
  ARGUMENT(trainrt_trainer_evaluate(t, NULL, 2, &evaluation_out));
  ARGUMENT(trainrt_trainer_evaluate(t, batch, 2, NULL));
  ARGUMENT(trainrt_trainer_predict(t, NULL, 1, &arrays_out));
  ARGUMENT(trainrt_trainer_predict(t, batch, 1, NULL));
  ARGUMENT(trainrt_evaluation_loss(e, NULL));
  ARGUMENT(trainrt_evaluation_samples(e, NULL));
  ARGUMENT(trainrt_evaluation_metric(e, NULL, &real));
  ARGUMENT(trainrt_evaluation_metric(e, "accuracy", NULL));
  ARGUMENT(trainrt_trainer_steps_done(t, NULL));
  ARGUMENT(trainrt_trainer_get_learning_rate(t, NULL));
  ARGUMENT(trainrt_trainer_get_position(t, NULL, &whole));
  ARGUMENT(trainrt_trainer_get_position(t, &whole, NULL));
  ARGUMENT(trainrt_trainer_save_checkpoint(t, NULL));
  ARGUMENT(trainrt_trainer_load_checkpoint(t, NULL));
  ARGUMENT(trainrt_last_error_problem(0, NULL));
  CHECK(module_out == NULL && arrays_out == NULL && problems_out == NULL);
  free_handles(alive);
}

static void wrong_arrays(void) {
  trainrt_module* m;
  trainrt_array bad;
  const int64_t huge[2] = {INT64_C(1) << 40, INT64_C(1) << 40};
  int64_t dims[4], many[65], i;
  trainrt_array twice[2];
  make_handles(alive);
  m = alive[MODULE];
#define BAD(status, change)                                                         \
  do {                                                                              \
    bad = batch[0];                                                                 \
    memcpy(dims, batch[0].shape, sizeof dims);                                      \
    bad.shape = dims;                                                               \
    change;                                                                         \
    FAILS(status, trainrt_module_forward(m, &bad, 1, &arrays_out));                 \
    CHECK(arrays_out == NULL);                                                      \
    FAILS(status, trainrt_module_set_state(m, &bad, 1));                            \
    FAILS(status, trainrt_trainer_step(alive[TRAINER], &bad, 1, NULL));             \
    FAILS(status, trainrt_trainer_options_set_input(alive[TRAINER_OPTIONS], &bad)); \
  } while (0)
  for (i = 0; i < 65; ++i) many[i] = 1;
  BAD(TRAINRT_ERROR_ARGUMENT, bad.name = NULL);
  BAD(TRAINRT_ERROR_ARGUMENT, bad.data = NULL);
  BAD(TRAINRT_ERROR_ARGUMENT, bad.shape = NULL);
  BAD(TRAINRT_ERROR_ARGUMENT, bad.rank = -1);
  BAD(TRAINRT_ERROR_ARGUMENT, (bad.rank = 65, bad.shape = many));
  BAD(TRAINRT_ERROR_ARGUMENT, bad.dtype = -1);
  BAD(TRAINRT_ERROR_ARGUMENT, bad.dtype = 13);
  BAD(TRAINRT_ERROR_ARGUMENT, bad.dtype = INT32_MAX);
  BAD(TRAINRT_ERROR_ARGUMENT, dims[0] = -8);
  BAD(TRAINRT_ERROR_SIZE, bad.bytes -= 4);
  BAD(TRAINRT_ERROR_SIZE, bad.bytes += 1);
  BAD(TRAINRT_ERROR_SIZE, bad.bytes = 0);
  BAD(TRAINRT_ERROR_SIZE, bad.dtype = TRAINRT_FLOAT64);
  BAD(TRAINRT_ERROR_SIZE, dims[0] += 1);
  BAD(TRAINRT_ERROR_SIZE, dims[0] = INT64_C(1) << 50);
  BAD(TRAINRT_ERROR_MEMORY, (bad.rank = 2, bad.shape = huge));
  ARGUMENT(trainrt_module_forward(m, batch, -1, &arrays_out));
  ARGUMENT(trainrt_module_attach_loss(m, kLosses, -1));
  twice[0] = twice[1] = batch[0];
  ARGUMENT(trainrt_module_forward(m, twice, 2, &arrays_out));

  /* Sound arrays that do not fit the model. */
  bad = batch[0];
  bad.name = "y";
  FAILS(TRAINRT_ERROR_INPUT, trainrt_module_forward(m, &bad, 1, &arrays_out));
  bad.name = "x";
  bad.dtype = TRAINRT_INT32;
  FAILS(TRAINRT_ERROR_INPUT, trainrt_module_forward(m, &bad, 1, &arrays_out));
  FAILS(TRAINRT_ERROR_INPUT, trainrt_module_forward(m, NULL, 0, &arrays_out));
  FAILS(TRAINRT_ERROR_INPUT, trainrt_trainer_step(alive[TRAINER], batch, 1, NULL));

  /* An address that is no multiple of the element's size will do. */
  {
    char* moved = malloc(batch[0].bytes + 1);
    trainrt_arrays *straight, *crooked;
    trainrt_array a, b;
    memcpy(moved + 1, batch[0].data, batch[0].bytes);
    OK(trainrt_module_train(m, 0));
    bad = batch[0];
    bad.data = moved + 1;
    OK(trainrt_module_forward(m, batch, 1, &straight));
    OK(trainrt_module_forward(m, &bad, 1, &crooked));
    OK(trainrt_arrays_get(straight, 0, &a));
    OK(trainrt_arrays_get(crooked, 0, &b));
    CHECK(a.bytes == b.bytes && memcmp(a.data, b.data, a.bytes) == 0);
    OK(trainrt_arrays_free(straight));
    OK(trainrt_arrays_free(crooked));
    free(moved);
  }
  free_handles(alive);
}

static void wrong_sizes_indices_and_names(void) {
  trainrt_module* m;
  trainrt_trainer* t;
  int64_t size = 0, i;
  float* values;
  make_handles(alive);
  m = alive[MODULE];
  t = alive[TRAINER];
  needed = 0;
  FAILS(TRAINRT_ERROR_SIZE, trainrt_module_get_state(m, "fc2.bias", floats, 39, &needed));
  CHECK(needed == 40);
  CHECK(strstr(trainrt_last_error(), "40 bytes") != NULL);
  OK(trainrt_module_flat_size(m, &size));
  values = calloc((size_t)size + 1, sizeof *values);
#define FLAT(call)                                                       \
  FAILS(TRAINRT_ERROR_SIZE, call(m, TRAINRT_FLOAT32, values, size - 1)); \
  FAILS(TRAINRT_ERROR_SIZE, call(m, TRAINRT_FLOAT32, values, size + 1)); \
  FAILS(TRAINRT_ERROR_SIZE, call(m, TRAINRT_FLOAT32, values, 0));        \
  ARGUMENT(call(m, TRAINRT_FLOAT32, values, -1));                        \
  ARGUMENT(call(m, TRAINRT_INT32, values, size));                        \
  ARGUMENT(call(m, TRAINRT_FLOAT16, values, size));                      \
  ARGUMENT(call(m, 99, values, size))
  FLAT(trainrt_module_get_flat);
  FLAT(trainrt_module_set_flat);
  FLAT(trainrt_module_get_flat_grad);
  FLAT(trainrt_module_set_flat_grad);
  free(values);

  OK(trainrt_module_parameter_count(m, &whole));
  for (i = -1; i <= whole; i += whole + 1) {
    ARGUMENT(trainrt_module_parameter(m, i, &parameter));
    ARGUMENT(trainrt_module_state(m, i < 0 ? i : i + 2, &array));
    ARGUMENT(trainrt_module_input(m, i, &port));
    ARGUMENT(trainrt_module_output(m, i, &port));
    ARGUMENT(trainrt_module_warning(m, i, &text));
    ARGUMENT(trainrt_arrays_get(alive[ARRAYS], i, &array));
    ARGUMENT(trainrt_problems_get(alive[PROBLEMS], i, &problem));
    ARGUMENT(trainrt_last_error_problem(i, &problem));
  }
  ARGUMENT(trainrt_arrays_get(alive[ARRAYS], INT64_MIN, &array));
  ARGUMENT(trainrt_arrays_get(alive[ARRAYS], INT64_MAX, &array));

  USAGE(trainrt_arrays_find(alive[ARRAYS], "z", &array));
  USAGE(trainrt_module_get_state(m, "fc2.bia", floats, sizeof floats, NULL));
  CHECK(strstr(trainrt_last_error(), "fc2.bias") != NULL);
  USAGE(trainrt_module_get_grad(m, "fc2.bias", floats, sizeof floats, NULL));
  USAGE(trainrt_module_get_input_grad(m, "x", floats, sizeof floats, NULL));
  USAGE(trainrt_module_get_requires_grad(m, "nothing", &on));
  USAGE(trainrt_module_set_requires_grad(m, "nothing", 1));
  USAGE(trainrt_module_backward_loss(m));
  USAGE(trainrt_module_backward(m, NULL, 0));
  USAGE(trainrt_module_attach_loss(m, kUnknownLosses, 1));
  USAGE(trainrt_evaluation_metric(alive[EVALUATION], "beauty", &real));
  USAGE(trainrt_trainer_swap_ema(t));
  USAGE(trainrt_trainer_set_learning_rate(t, -1));
  ARGUMENT(trainrt_trainer_set_position(t, -1, 0));
  ARGUMENT(trainrt_trainer_set_position(t, 0, -1));

  FAILS(TRAINRT_ERROR_FILE, trainrt_arrays_load("nowhere.npz", &arrays_out));
  USAGE(trainrt_arrays_load("nowhere.txt", &arrays_out));
  FAILS(TRAINRT_ERROR_FILE, trainrt_module_load("nowhere.onnx", NULL, &module_out));
  FAILS(TRAINRT_ERROR_FILE, trainrt_module_load(DIGITS "val.npz", NULL, &module_out));
  FAILS(TRAINRT_ERROR_FILE, trainrt_module_load_memory("abcd", 4, NULL, NULL, &module_out));
  FAILS(TRAINRT_ERROR_FILE, trainrt_module_export_onnx(m, "no/such/folder.onnx"));
  FAILS(TRAINRT_ERROR_FILE, trainrt_module_save_state(m, "no/such/folder.npz"));
  USAGE(trainrt_module_save_state(m, "state.txt"));
  FAILS(TRAINRT_ERROR_INPUT, trainrt_module_load_state(m, DIGITS "val.npz", 1));
  FAILS(TRAINRT_ERROR_FILE, trainrt_module_load_checkpoint(m, DIGITS "val.npz"));
  FAILS(TRAINRT_ERROR_FILE, trainrt_trainer_load_checkpoint(t, DIGITS "val.npz"));
  CHECK(arrays_out == NULL && module_out == NULL);

  /* After all that, the trainer works. */
  OK(trainrt_trainer_step(t, batch, 2, &step_result));
  CHECK(step_result.step == 1);
  free_handles(alive);
}

static void wrong_options(void) {
  static const char* const kModule[][2] = {
      {"speed", "1"},          {"", ""},           {"seed", "x"},          {"seed", ""},
      {"seed", "-1"},          {"seed", "1.5"},    {"threads", "many"},    {"dtype", "int8"},
      {"precision", "float"},  {"backend", "gpu"}, {"batch_norm", "eval"}, {"dropout", "maybe"},
      {"memory_budget", "-1"}, {"plan_cache", ""}, {"tie_weights", "2"},   {"lr", "1"}};
  static const char* const kTrainer[][2] = {
      {"speed", "1"},    {"lr", "fast"},    {"lr", ""},         {"total_steps", "1e3"},
      {"clip_norm", ""}, {"nan_check", ""}, {"accumulate", ""}, {"seed", "1"}};
  static const char* const kLate[][2] = {
      {"lr", "-1"},         {"optimizer", "sgdd"}, {"optimizer", "adam:x=1"}, {"loss", "love"},
      {"schedule", "warp"}, {"accumulate", "0"},   {"clip_norm", "0"},        {"ema", "2"},
      {"lr", "nan"},        {"lr", "inf"},         {"total_steps", "-1"}};
  trainrt_trainer_options* options;
  trainrt_options* late;
  size_t i;
  make_handles(alive);
  for (i = 0; i < sizeof kModule / sizeof *kModule; ++i) {
    USAGE(trainrt_options_set(alive[OPTIONS], kModule[i][0], kModule[i][1]));
  }
  USAGE(trainrt_options_set(alive[OPTIONS], "sed", "1"));
  CHECK(strstr(trainrt_last_error(), "'seed'") != NULL);
  for (i = 0; i < sizeof kTrainer / sizeof *kTrainer; ++i) {
    USAGE(trainrt_trainer_options_set(alive[TRAINER_OPTIONS], kTrainer[i][0], kTrainer[i][1]));
  }
  for (i = 0; i < sizeof kLate / sizeof *kLate; ++i) {
    OK(trainrt_trainer_options_create(&options));
    OK(trainrt_trainer_options_set(options, kLate[i][0], kLate[i][1]));
    USAGE(trainrt_trainer_create(alive[MODULE], options, &trainer_out));
    CHECK(trainer_out == NULL);
    OK(trainrt_trainer_options_free(options));
  }
  OK(trainrt_options_create(&late));
  OK(trainrt_options_set(late, "freeze", "nothing*"));
  USAGE(trainrt_module_load(DIGITS "digits.onnx", late, &module_out));
  OK(trainrt_options_free(late));
  OK(trainrt_options_create(&late));
  OK(trainrt_options_set(late, "memory_budget", "1KiB"));
  OK(trainrt_module_load(DIGITS "digits.onnx", late, &module_out));
  OK(trainrt_trainer_create(module_out, NULL, &trainer_out));
  FAILS(TRAINRT_ERROR_MEMORY, trainrt_trainer_step(trainer_out, batch, 2, NULL));
  OK(trainrt_trainer_free(trainer_out));
  OK(trainrt_module_free(module_out));
  OK(trainrt_options_free(late));
  free_handles(alive);
}

int main(void) {
  out_file = scratch("out.npz");
  RUN(wrong_handles);
  RUN(a_freed_handle_stays_wrong);
  RUN(null_pointers);
  RUN(wrong_arrays);
  RUN(wrong_sizes_indices_and_names);
  RUN(wrong_options);
  free(out_file);
  return summary();
}
