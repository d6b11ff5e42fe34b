/* Trains the digits model through the C API and writes the trained file.
     train_digits_c MODEL.onnx TRAIN.npz VAL.npz OUT.onnx */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainrt/trainrt_c.h"

enum { kBatch = 32, kEpochs = 8 };

/* Ends the program with the library's message when a call fails. */
static void must(trainrt_status status) {
  if (status == TRAINRT_OK) return;
  fprintf(stderr, "train_digits_c: %s error: %s\n", trainrt_status_name(status),
          trainrt_last_error());
  exit(1);
}

/* Moves sample `from` of `all` to place `to` of the batch. */
static void copy_sample(trainrt_array* batch, const trainrt_array* all, int64_t to, int64_t from) {
  const size_t sample = all->bytes / (size_t)all->shape[0];
  memcpy((char*)batch->data + (size_t)to * sample, (const char*)all->data + (size_t)from * sample,
         sample);
}

static void shuffle(int64_t* order, int64_t count) {
  for (int64_t i = count - 1; i > 0; --i) {
    const int64_t j = rand() % (i + 1);
    const int64_t swapped = order[i];
    order[i] = order[j];
    order[j] = swapped;
  }
}

int main(int argc, char** argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: train_digits_c MODEL.onnx TRAIN.npz VAL.npz OUT.onnx\n");
    return 2;
  }

  /* The arrays x and target of both files; pointers into them hold until the handle is freed. */
  trainrt_arrays *train, *val;
  trainrt_array x, target, val_batch[2];
  must(trainrt_arrays_load(argv[2], &train));
  must(trainrt_arrays_load(argv[3], &val));
  must(trainrt_arrays_find(train, "x", &x));
  must(trainrt_arrays_find(train, "target", &target));
  must(trainrt_arrays_find(val, "x", &val_batch[0]));
  must(trainrt_arrays_find(val, "target", &val_batch[1]));
  const int64_t samples = x.shape[0];

  trainrt_options* options;
  trainrt_module* module;
  must(trainrt_options_create(&options));
  must(trainrt_options_set(options, "seed", "7"));
  must(trainrt_module_load(argv[1], options, &module));
  must(trainrt_options_free(options));

  trainrt_trainer_options* how;
  trainrt_trainer* trainer;
  must(trainrt_trainer_options_create(&how));
  must(trainrt_trainer_options_set(how, "loss", "cross_entropy"));
  must(trainrt_trainer_options_set(how, "optimizer", "adamw"));
  must(trainrt_trainer_options_set(how, "lr", "2e-3"));
  must(trainrt_trainer_create(module, how, &trainer));
  must(trainrt_trainer_options_free(how));

  /* A batch is an array of structs over memory of the caller's. */
  float images[kBatch * 64];
  int64_t labels[kBatch];
  int64_t image_shape[4] = {kBatch, 1, 8, 8}, label_shape[1] = {kBatch};
  trainrt_array batch[2] = {
      {"x", images, sizeof images, image_shape, 4, TRAINRT_FLOAT32},
      {"target", labels, sizeof labels, label_shape, 1, TRAINRT_INT64},
  };

  int64_t* order = malloc((size_t)samples * sizeof *order);
  if (order == NULL) return 1;
  for (int64_t i = 0; i < samples; ++i) order[i] = i;
  srand(1);
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    double loss = 0;
    int64_t steps = 0;
    shuffle(order, samples);
    for (int64_t begin = 0; begin + kBatch <= samples; begin += kBatch, ++steps) {
      for (int64_t i = 0; i < kBatch; ++i) {
        copy_sample(&batch[0], &x, i, order[begin + i]);
        copy_sample(&batch[1], &target, i, order[begin + i]);
      }
      trainrt_step step;
      must(trainrt_trainer_step(trainer, batch, 2, &step));
      loss += step.loss;
    }

    trainrt_evaluation* evaluation;
    double accuracy;
    must(trainrt_trainer_evaluate(trainer, val_batch, 2, &evaluation));
    must(trainrt_evaluation_metric(evaluation, "accuracy", &accuracy));
    must(trainrt_evaluation_free(evaluation));
    printf("epoch %d: loss %.4f, validation accuracy %.4f\n", epoch, loss / (double)steps,
           accuracy);
  }

  must(trainrt_module_export_onnx(module, argv[4]));
  free(order);
  must(trainrt_trainer_free(trainer));
  must(trainrt_module_free(module));
  must(trainrt_arrays_free(train));
  must(trainrt_arrays_free(val));
  return 0;
}
