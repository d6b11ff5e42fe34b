/* The C API at work, from C: the digits model is trained in both ways, saved, resumed, exported. */
#include <math.h>

#include "tests/capi/digits.h"

static trainrt_module* load(const char* key, const char* value) {
  trainrt_options* options;
  trainrt_module* module;
  OK(trainrt_options_create(&options));
  OK(trainrt_options_set(options, "seed", "7"));
  if (key != NULL) OK(trainrt_options_set(options, key, value));
  OK(trainrt_module_load(DIGITS "digits.onnx", options, &module));
  OK(trainrt_options_free(options));
  return module;
}

static trainrt_trainer* adamw(trainrt_module* module) {
  trainrt_trainer_options* options;
  trainrt_trainer* trainer;
  OK(trainrt_trainer_options_create(&options));
  OK(trainrt_trainer_options_set(options, "optimizer", "adamw"));
  OK(trainrt_trainer_options_set(options, "lr", "2e-3"));
  OK(trainrt_trainer_create(module, options, &trainer));
  OK(trainrt_trainer_options_free(options));
  return trainer;
}

static double step(trainrt_trainer* trainer, trainrt_arrays* data, int64_t index) {
  int64_t shapes[2][4];
  trainrt_array batch[2];
  trainrt_step result = {0, 0, 0, 0};
  digits_rows(data, index * 32, 32, shapes, batch);
  OK(trainrt_trainer_step(trainer, batch, 2, &result));
  CHECK(result.updated == 1);
  return result.loss;
}

/* Accuracy on the validation data, evaluated in two parts. */
static double accuracy(trainrt_module* module, trainrt_arrays* val, double* loss) {
  int64_t shapes[2][4], samples = 0;
  trainrt_array batch[2];
  trainrt_trainer* trainer;
  trainrt_evaluation *all, *more;
  double value = 0;
  OK(trainrt_trainer_create(module, NULL, &trainer));
  digits_rows(val, 0, 200, shapes, batch);
  OK(trainrt_trainer_evaluate(trainer, batch, 2, &all));
  digits_rows(val, 200, 160, shapes, batch);
  OK(trainrt_trainer_evaluate(trainer, batch, 2, &more));
  OK(trainrt_evaluation_add(all, more));
  OK(trainrt_evaluation_samples(all, &samples));
  CHECK(samples == 360);
  OK(trainrt_evaluation_metric(all, "accuracy", &value));
  OK(trainrt_evaluation_loss(all, loss));
  OK(trainrt_evaluation_free(all));
  OK(trainrt_evaluation_free(more));
  OK(trainrt_trainer_free(trainer));
  return value;
}

static void names_and_numbers(void) {
  CHECK(strchr(trainrt_version(), '.') != NULL);
  CHECK(strcmp(trainrt_status_name(TRAINRT_ERROR_SIZE), "size") == 0);
  CHECK(strcmp(trainrt_status_name(-5), "unknown") == 0);
  CHECK(strcmp(trainrt_dtype_name(TRAINRT_BFLOAT16), "bfloat16") == 0);
  CHECK(strcmp(trainrt_dtype_name(TRAINRT_BOOL), "bool") == 0);
  CHECK(trainrt_dtype_name(13) == NULL);
  CHECK(trainrt_dtype_size(TRAINRT_INT64) == 8);
  CHECK(trainrt_dtype_size(-1) == 0);
}

static void model_describes_itself(void) {
  trainrt_module* module = load(NULL, NULL);
  trainrt_port port;
  trainrt_parameter parameter;
  trainrt_array entry;
  int64_t count = 0, state = 0, size = 0, elements = 0, i;
  OK(trainrt_module_input_count(module, &count));
  CHECK(count == 1);
  OK(trainrt_module_input(module, 0, &port));
  CHECK(strcmp(port.name, "x") == 0 && port.dtype == TRAINRT_FLOAT32 && port.rank == 4);
  CHECK(port.shape[0] == -1 && port.shape[1] == 1 && port.shape[2] == 8 && port.shape[3] == 8);
  CHECK(port.is_sequence == 0 && port.is_optional == 0);
  CHECK(strcmp(port.text, "[batch,1,8,8]") == 0);
  OK(trainrt_module_output_count(module, &count));
  CHECK(count == 1);
  OK(trainrt_module_output(module, 0, &port));
  CHECK(strcmp(port.name, "logits") == 0);
  OK(trainrt_module_warning_count(module, &count));

  OK(trainrt_module_parameter_count(module, &count));
  OK(trainrt_module_state_count(module, &state));
  CHECK(count == 10 && state == 12); /* a running mean and variance */
  for (i = 0; i < state; ++i) {
    int64_t product = 1;
    int32_t d;
    OK(trainrt_module_state(module, i, &entry));
    for (d = 0; d < entry.rank; ++d) product *= entry.shape[d];
    CHECK(entry.dtype == TRAINRT_FLOAT32 && entry.bytes == (size_t)product * 4);
    CHECK(entry.data == NULL);
    if (i >= count) continue;
    elements += product;
    OK(trainrt_module_parameter(module, i, &parameter));
    CHECK(strcmp(parameter.name, entry.name) == 0 && parameter.rank == entry.rank);
  }
  OK(trainrt_module_flat_size(module, &size));
  CHECK(size == elements);
  OK(trainrt_module_free(module));
}

static void trainer_learns_saves_and_exports(void) {
  trainrt_module *module = load(NULL, NULL), *other;
  trainrt_trainer* trainer = adamw(module);
  trainrt_arrays *train, *val;
  char *onnx = scratch("trained.onnx"), *npz = scratch("state.npz"),
       *safetensors = scratch("state.safetensors"), *checkpoint = scratch("module.ckpt");
  double first = 0, last = 0, loss = 0, other_loss = 0, lr = 0, good;
  int64_t epoch, i, steps = 0;
  OK(trainrt_arrays_load(DIGITS "train.npz", &train));
  OK(trainrt_arrays_load(DIGITS "val.npz", &val));
  for (epoch = 0; epoch < 10; ++epoch) {
    for (i = 0; i < 44; ++i) {
      last = step(trainer, train, (i * 13 + epoch) % 44);
      if (epoch == 0 && i == 0) first = last;
    }
  }
  CHECK(last < first / 10);
  OK(trainrt_trainer_steps_done(trainer, &steps));
  CHECK(steps == 440);
  OK(trainrt_trainer_get_learning_rate(trainer, &lr));
  CHECK(lr == 2e-3);
  OK(trainrt_trainer_set_learning_rate(trainer, 1e-3));
  OK(trainrt_trainer_get_learning_rate(trainer, &lr));
  CHECK(lr == 1e-3);
  good = accuracy(module, val, &loss);
  printf("validation accuracy %.4f\n", good);
  CHECK(good >= 0.97);

  OK(trainrt_module_export_onnx(module, onnx));
  OK(trainrt_module_load(onnx, NULL, &other));
  CHECK(fabs(accuracy(other, val, &other_loss) - good) < 0.005);
  CHECK(fabs(other_loss - loss) < 1e-4);
  OK(trainrt_module_free(other));

  OK(trainrt_module_save_state(module, npz));
  OK(trainrt_module_save_state(module, safetensors));
  OK(trainrt_module_save_checkpoint(module, checkpoint));
  for (i = 0; i < 3; ++i) {
    other = load(NULL, NULL);
    CHECK(accuracy(other, val, &other_loss) < 0.5);
    if (i < 2) OK(trainrt_module_load_state(other, i == 0 ? npz : safetensors, 1));
    if (i == 2) OK(trainrt_module_load_checkpoint(other, checkpoint));
    CHECK(accuracy(other, val, &other_loss) == good && other_loss == loss);
    OK(trainrt_module_free(other));
  }

  /* The trainer keeps what it needs of the module. */
  OK(trainrt_module_free(module));
  CHECK(step(trainer, train, 0) < first);
  OK(trainrt_trainer_free(trainer));
  OK(trainrt_arrays_free(train));
  OK(trainrt_arrays_free(val));
  free(onnx);
  free(npz);
  free(safetensors);
  free(checkpoint);
}

static void checkpoint_continues_in_the_same_bits(void) {
  trainrt_module* module = load(NULL, NULL);
  trainrt_trainer* trainer = adamw(module);
  trainrt_arrays* train;
  char* path = scratch("run.ckpt");
  double losses[4];
  int64_t i, epoch = 0, batch = 0;
  OK(trainrt_arrays_load(DIGITS "train.npz", &train));
  for (i = 0; i < 5; ++i) step(trainer, train, i);
  OK(trainrt_trainer_set_position(trainer, 2, 5));
  OK(trainrt_trainer_save_checkpoint(trainer, path));
  for (i = 0; i < 4; ++i) losses[i] = step(trainer, train, 5 + i);
  OK(trainrt_trainer_free(trainer));
  OK(trainrt_module_free(module));

  module = load(NULL, NULL);
  trainer = adamw(module);
  OK(trainrt_trainer_load_checkpoint(trainer, path));
  OK(trainrt_trainer_get_position(trainer, &epoch, &batch));
  CHECK(epoch == 2 && batch == 5);
  for (i = 0; i < 4; ++i) CHECK(step(trainer, train, 5 + i) == losses[i]);
  OK(trainrt_trainer_free(trainer));
  OK(trainrt_module_free(module));
  OK(trainrt_arrays_free(train));
  free(path);
}

/* d(mean cross entropy) / d(logits) */
static void cross_entropy_gradient(const trainrt_array* logits, const int64_t* target, float* out) {
  const float* y = logits->data;
  const int64_t rows = logits->shape[0], classes = logits->shape[1];
  int64_t i, c;
  for (i = 0; i < rows; ++i) {
    double sum = 0;
    for (c = 0; c < classes; ++c) sum += exp(y[i * classes + c]);
    for (c = 0; c < classes; ++c) {
      const double p = exp(y[i * classes + c]) / sum;
      out[i * classes + c] = (float)((p - (c == target[i])) / (double)rows);
    }
  }
}

static float* flat_grad(trainrt_module* module, int64_t size) {
  float* values = malloc((size_t)size * sizeof *values);
  if (values == NULL) exit(1);
  OK(trainrt_module_get_flat_grad(module, TRAINRT_FLOAT32, values, size));
  return values;
}

static void own_loop_learns(void) {
  static const char* const kLoss[1] = {"cross_entropy"};
  trainrt_module* module = load("dropout", "false");
  trainrt_arrays *train, *val, *outputs;
  trainrt_array batch[2], logits, dy, entry;
  int64_t shapes[2][4], size = 0, count = 0, i, k;
  int32_t on = 0;
  float dlogits[320], *by_loss, *by_hand, *weights, *named;
  double loss = 0, most = 0;
  size_t needed = 0;
  OK(trainrt_arrays_load(DIGITS "train.npz", &train));
  OK(trainrt_arrays_load(DIGITS "val.npz", &val));
  OK(trainrt_module_flat_size(module, &size));
  digits_rows(train, 0, 32, shapes, batch);

  /* By hand: forward, the loss's gradient, backward. */
  OK(trainrt_module_is_training(module, &on));
  CHECK(on == 1);
  OK(trainrt_module_set_input_grads(module, 1));
  OK(trainrt_module_forward(module, batch, 1, &outputs));
  OK(trainrt_arrays_count(outputs, &count));
  CHECK(count == 1);
  OK(trainrt_arrays_get(outputs, 0, &logits));
  CHECK(strcmp(logits.name, "logits") == 0 && logits.bytes == sizeof dlogits);
  cross_entropy_gradient(&logits, batch[1].data, dlogits);
  dy = logits;
  dy.data = dlogits;
  OK(trainrt_module_backward(module, &dy, 1));
  OK(trainrt_arrays_free(outputs));
  by_hand = flat_grad(module, size);
  OK(trainrt_module_get_input_grad(module, "x", NULL, 0, &needed));
  CHECK(needed == batch[0].bytes);
  named = malloc(needed);
  OK(trainrt_module_get_input_grad(module, "x", named, needed, NULL));
  for (i = 0; i < 32 * 64; ++i) most = fmax(most, fabs(named[i]));
  CHECK(most > 0);
  free(named);

  /* The named gradients are those of the flat ones. */
  OK(trainrt_module_parameter_count(module, &count));
  k = 0;
  for (i = 0; i < count; ++i) {
    OK(trainrt_module_state(module, i, &entry));
    named = malloc(entry.bytes);
    OK(trainrt_module_get_grad(module, entry.name, named, entry.bytes, &needed));
    CHECK(needed == entry.bytes && memcmp(named, by_hand + k, needed) == 0);
    k += (int64_t)(needed / sizeof *named);
    free(named);
  }

  /* The same with the loss attached. Running statistics do not matter in train mode. */
  OK(trainrt_module_zero_grad(module, 1));
  OK(trainrt_module_attach_loss(module, kLoss, 1));
  OK(trainrt_module_forward(module, batch, 2, &outputs));
  OK(trainrt_arrays_find(outputs, "loss", &logits));
  CHECK(logits.rank == 0 && logits.bytes == 4);
  OK(trainrt_arrays_free(outputs));
  OK(trainrt_module_backward_loss(module));
  by_loss = flat_grad(module, size);
  most = 0;
  for (i = 0; i < size; ++i) most = fmax(most, fabs(by_loss[i] - by_hand[i]));
  CHECK(most < 1e-5);
  free(by_hand);
  free(by_loss);

  /* Descent on all parameters as one row. */
  weights = malloc((size_t)size * sizeof *weights);
  OK(trainrt_module_get_flat(module, TRAINRT_FLOAT32, weights, size));
  for (k = 0; k < 3 * 44; ++k) {
    digits_rows(train, k % 44 * 32, 32, shapes, batch);
    OK(trainrt_module_zero_grad(module, 1));
    OK(trainrt_module_forward(module, batch, 2, &outputs));
    OK(trainrt_arrays_free(outputs));
    OK(trainrt_module_backward_loss(module));
    by_loss = flat_grad(module, size);
    for (i = 0; i < size; ++i) weights[i] -= 0.1f * by_loss[i];
    free(by_loss);
    OK(trainrt_module_set_flat(module, TRAINRT_FLOAT32, weights, size));
  }
  free(weights);
  CHECK(accuracy(module, val, &loss) >= 0.9);
  OK(trainrt_module_free(module));
  OK(trainrt_arrays_free(train));
  OK(trainrt_arrays_free(val));
}

static void state_goes_in_and_out_by_name(void) {
  trainrt_module* module = load("freeze", "conv1.*");
  float bias[10], back[10];
  double wide[10];
  const int64_t shape[1] = {10}, wrong[2] = {5, 2};
  size_t needed = 0;
  int32_t on = 1;
  trainrt_array entry = {"fc2.bias", bias, sizeof bias, shape, 1, TRAINRT_FLOAT32};
  trainrt_array both[2];
  int i;
  for (i = 0; i < 10; ++i) bias[i] = (float)i / 4, wide[i] = (double)i;
  OK(trainrt_module_get_state(module, "fc2.bias", NULL, 0, &needed));
  CHECK(needed == sizeof bias);
  OK(trainrt_module_set_state(module, &entry, 1));
  OK(trainrt_module_get_state(module, "fc2.bias", back, sizeof back, NULL));
  CHECK(memcmp(bias, back, sizeof bias) == 0);
  entry.data = wide;
  entry.bytes = sizeof wide;
  entry.dtype = TRAINRT_FLOAT64;
  OK(trainrt_module_set_state(module, &entry, 1));
  OK(trainrt_module_get_state(module, "fc2.bias", back, sizeof back, NULL));
  CHECK(back[9] == 9);

  /* All or nothing. */
  both[0] = entry;
  both[0].data = bias;
  both[0].bytes = sizeof bias;
  both[0].dtype = TRAINRT_FLOAT32;
  both[1] = both[0];
  both[1].name = "fc1.bias";
  FAILS(TRAINRT_ERROR_INPUT, trainrt_module_set_state(module, both, 2));
  CHECK(strstr(trainrt_last_error(), "fc1.bias") != NULL);
  both[1].name = "fc3.bias";
  FAILS(TRAINRT_ERROR_USAGE, trainrt_module_set_state(module, both, 2));
  CHECK(strstr(trainrt_last_error(), "nearest is 'fc") != NULL);
  both[0].shape = wrong;
  both[0].rank = 2;
  FAILS(TRAINRT_ERROR_INPUT, trainrt_module_set_state(module, both, 1));
  OK(trainrt_module_get_state(module, "fc2.bias", back, sizeof back, NULL));
  CHECK(back[9] == 9);

  OK(trainrt_module_get_requires_grad(module, "conv1.weight", &on));
  CHECK(on == 0);
  OK(trainrt_module_get_requires_grad(module, "conv2.weight", &on));
  CHECK(on == 1);
  OK(trainrt_module_set_requires_grad(module, "conv2.weight", 0));
  OK(trainrt_module_get_requires_grad(module, "conv2.weight", &on));
  CHECK(on == 0);
  OK(trainrt_module_set_requires_grad(module, NULL, 1));
  OK(trainrt_module_get_requires_grad(module, "conv1.weight", &on));
  CHECK(on == 1);
  OK(trainrt_module_free(module));
}

static void working_type_is_an_option(void) {
  trainrt_module* module = load("dtype", "float64");
  double *wide, *back;
  float* narrow;
  int64_t size = 0, i;
  trainrt_array entry;
  OK(trainrt_module_state(module, 0, &entry));
  CHECK(entry.dtype == TRAINRT_FLOAT64);
  OK(trainrt_module_flat_size(module, &size));
  wide = malloc((size_t)size * sizeof *wide);
  back = malloc((size_t)size * sizeof *back);
  narrow = malloc((size_t)size * sizeof *narrow);
  OK(trainrt_module_get_flat(module, TRAINRT_FLOAT64, wide, size));
  for (i = 0; i < size; ++i) wide[i] += 0.1;
  OK(trainrt_module_set_flat(module, TRAINRT_FLOAT64, wide, size));
  OK(trainrt_module_get_flat(module, TRAINRT_FLOAT64, back, size));
  CHECK(memcmp(wide, back, (size_t)size * sizeof *wide) == 0);
  OK(trainrt_module_get_flat(module, TRAINRT_FLOAT32, narrow, size));
  CHECK(narrow[size - 1] == (float)wide[size - 1]);
  OK(trainrt_module_set_flat_grad(module, TRAINRT_FLOAT64, wide, size));
  OK(trainrt_module_get_flat_grad(module, TRAINRT_FLOAT64, back, size));
  CHECK(memcmp(wide, back, (size_t)size * sizeof *wide) == 0);
  free(wide);
  free(back);
  free(narrow);
  OK(trainrt_module_free(module));
}

/* The file's bytes with an operator's name spoilt. */
static char* spoilt_model(size_t* bytes) {
  FILE* file = fopen(DIGITS "digits.onnx", "rb");
  char* data;
  size_t i;
  if (file == NULL) exit(1);
  fseek(file, 0, SEEK_END);
  *bytes = (size_t)ftell(file);
  rewind(file);
  data = malloc(*bytes);
  if (data == NULL || fread(data, 1, *bytes, file) != *bytes) exit(1);
  fclose(file);
  for (i = 0; i + 6 < *bytes; ++i) {
    if (memcmp(data + i, "\"\x04Relu", 6) == 0) data[i + 3] = 'o'; /* op_type: Rolu */
  }
  return data;
}

static void problems_are_listed(void) {
  size_t bytes = 0;
  char* data = spoilt_model(&bytes);
  trainrt_module *module, *good = load(NULL, NULL);
  trainrt_problems* problems;
  trainrt_problem problem;
  trainrt_trainer* trainer;
  trainrt_arrays* train;
  trainrt_array batch[2];
  int64_t shapes[2][4], count = 0;
  OK(trainrt_module_check(good, NULL, 0, &problems));
  OK(trainrt_problems_count(problems, &count));
  CHECK(count == 0);
  OK(trainrt_problems_free(problems));
  OK(trainrt_module_free(good));

  OK(trainrt_module_load_memory(data, bytes, NULL, NULL, &module));
  OK(trainrt_module_check(module, NULL, 0, &problems));
  OK(trainrt_problems_count(problems, &count));
  CHECK(count == 3);
  OK(trainrt_problems_get(problems, 2, &problem));
  CHECK(strcmp(problem.op, "Rolu") == 0 && strcmp(problem.kind, "no_lowering") == 0);
  CHECK(problem.opset == 17 && strstr(problem.text, problem.reason) != NULL);
  OK(trainrt_problems_free(problems));

  OK(trainrt_arrays_load(DIGITS "train.npz", &train));
  OK(trainrt_trainer_create(module, NULL, &trainer));
  digits_rows(train, 0, 4, shapes, batch);
  FAILS(TRAINRT_ERROR_UNSUPPORTED, trainrt_trainer_step(trainer, batch, 2, NULL));
  CHECK(trainrt_last_error_code() == TRAINRT_ERROR_UNSUPPORTED);
  CHECK(trainrt_last_error_problem_count() == 3);
  OK(trainrt_last_error_problem(0, &problem));
  CHECK(strcmp(problem.op, "Rolu") == 0 && strstr(trainrt_last_error(), problem.text) != NULL);
  FAILS(TRAINRT_ERROR_ARGUMENT, trainrt_last_error_problem(3, &problem));
  trainrt_clear_error();
  CHECK(trainrt_last_error_code() == TRAINRT_OK && trainrt_last_error()[0] == 0);
  CHECK(trainrt_last_error_problem_count() == 0);
  OK(trainrt_trainer_free(trainer));
  OK(trainrt_module_free(module));
  OK(trainrt_arrays_free(train));
  free(data);
}

static void moving_average_and_fixed_inputs(void) {
  trainrt_module* module = load(NULL, NULL);
  trainrt_trainer_options* options;
  trainrt_trainer* trainer;
  trainrt_arrays *train, *outputs;
  trainrt_array batch[2], logits;
  trainrt_step result;
  int64_t shapes[2][4];
  float before[10], swapped[10];
  OK(trainrt_arrays_load(DIGITS "train.npz", &train));
  digits_rows(train, 0, 16, shapes, batch);
  OK(trainrt_trainer_options_create(&options));
  OK(trainrt_trainer_options_set(options, "ema", "0.9"));
  OK(trainrt_trainer_options_set(options, "accumulate", "2"));
  OK(trainrt_trainer_options_set_input(options, &batch[0]));
  OK(trainrt_trainer_create(module, options, &trainer));
  OK(trainrt_trainer_options_free(options));
  OK(trainrt_trainer_step(trainer, &batch[1], 1, &result)); /* x is fixed */
  CHECK(result.updated == 0 && result.step == 0);
  OK(trainrt_trainer_step(trainer, &batch[1], 1, &result));
  CHECK(result.updated == 1 && result.step == 1);
  OK(trainrt_module_get_state(module, "fc2.bias", before, sizeof before, NULL));
  OK(trainrt_trainer_swap_ema(trainer));
  OK(trainrt_module_get_state(module, "fc2.bias", swapped, sizeof swapped, NULL));
  CHECK(memcmp(before, swapped, sizeof before) != 0);
  OK(trainrt_trainer_predict(trainer, NULL, 0, &outputs));
  OK(trainrt_arrays_get(outputs, 0, &logits));
  CHECK(logits.shape[0] == 16 && logits.shape[1] == 10);
  OK(trainrt_arrays_free(outputs));
  OK(trainrt_trainer_free(trainer));
  OK(trainrt_module_free(module));
  OK(trainrt_arrays_free(train));
}

int main(void) {
  RUN(names_and_numbers);
  RUN(model_describes_itself);
  RUN(trainer_learns_saves_and_exports);
  RUN(checkpoint_continues_in_the_same_bits);
  RUN(own_loop_learns);
  RUN(state_goes_in_and_out_by_name);
  RUN(working_type_is_an_option);
  RUN(problems_are_listed);
  RUN(moving_average_and_fixed_inputs);
  return summary();
}
