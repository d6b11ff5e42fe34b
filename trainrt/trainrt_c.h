/* trainrt in C: load an ONNX model, train it, read and write its state. Compiles as C99 and as C++.

   Status. Almost every function returns TRAINRT_OK or an error code. After an error the calling
   thread's trainrt_last_error() says what is wrong and what to do, and handles to be returned are
   NULL. Nothing has changed then, but for a step or forward that ended in TRAINRT_ERROR_RUNTIME
   (or INTERNAL): it may have changed a part of the state. No call ends the program: null pointers,
   handles that are wrong or freed, sizes and types that do not fit are errors like others. Memory
   that is smaller than the size passed with it cannot be noticed.

   Handles. Everything is made and freed by the library; each *_create or *_load, and each function
   with a `trainrt_…**` result, gives a handle that the caller frees with the function of its type.
   Freeing NULL does nothing. A handle is a number in a pointer's clothes: its value is never used
   again, so that a freed one is told apart for ever. A trainer keeps what it needs of its module,
   which may be freed before it.

   Memory. What is passed in is read during the call only, and never written to, unless a function
   says so. Strings end with 0 and are UTF-8. Pointers that come out (strings, shapes, data) belong
   to the handle they were read from and hold until it is freed.

   Threads. Calls on one module and its trainers wait for each other; other handles run in parallel.

   Stability. Functions, codes and structures stay as they are; later versions add functions, codes
   and keys only. */
#ifndef TRAINRT_TRAINRT_C_H_
#define TRAINRT_TRAINRT_C_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TRAINRT_API __attribute__((visibility("default")))
#else
#define TRAINRT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t trainrt_status;
enum {
  TRAINRT_OK = 0,
  TRAINRT_ERROR_USAGE = 1,         /* an option or argument makes no sense, or an unknown name */
  TRAINRT_ERROR_FILE = 2,          /* a file cannot be read or written, or is damaged */
  TRAINRT_ERROR_INVALID_MODEL = 3, /* the model breaks ONNX's rules */
  TRAINRT_ERROR_UNSUPPORTED = 4,   /* the model is fine, trainrt cannot train or run it */
  TRAINRT_ERROR_INPUT = 5,         /* an input, target, state or batch does not fit the model */
  TRAINRT_ERROR_RUNTIME = 6,       /* a step failed while running (index out of range, …) */
  TRAINRT_ERROR_MEMORY = 7,        /* memory is exhausted, or a budget is too small */
  TRAINRT_ERROR_INTERNAL = 8,      /* a bug in trainrt */
  TRAINRT_ERROR_HANDLE = 9,        /* a handle is NULL, freed, of another type, or none of ours */
  TRAINRT_ERROR_ARGUMENT = 10,     /* NULL for a pointer, a negative size, an unknown dtype, … */
  TRAINRT_ERROR_SIZE = 11          /* bytes or elements do not match what is needed */
};

enum {
  TRAINRT_FLOAT32 = 0,
  TRAINRT_FLOAT64 = 1,
  TRAINRT_FLOAT16 = 2,
  TRAINRT_BFLOAT16 = 3,
  TRAINRT_INT8 = 4,
  TRAINRT_INT16 = 5,
  TRAINRT_INT32 = 6,
  TRAINRT_INT64 = 7,
  TRAINRT_UINT8 = 8,
  TRAINRT_UINT16 = 9,
  TRAINRT_UINT32 = 10,
  TRAINRT_UINT64 = 11,
  TRAINRT_BOOL = 12 /* one byte, 0 or 1; other values count as 1 */
};

typedef struct trainrt_options trainrt_options;
typedef struct trainrt_trainer_options trainrt_trainer_options;
typedef struct trainrt_module trainrt_module;
typedef struct trainrt_trainer trainrt_trainer;
typedef struct trainrt_arrays trainrt_arrays;
typedef struct trainrt_problems trainrt_problems;
typedef struct trainrt_evaluation trainrt_evaluation;

/* A named dense array, row-major. In parameters the caller fills it; `bytes` must be exactly what
   dtype and shape need. `shape` may be NULL when rank is 0, `data` when bytes is 0. */
typedef struct trainrt_array {
  const char* name;
  const void* data;
  size_t bytes;
  const int64_t* shape; /* `rank` dims */
  int32_t rank;
  int32_t dtype;
} trainrt_array;

/* An input or output as the file declares it. */
typedef struct trainrt_port {
  const char* name;
  const char* text;     /* "[n,4]" */
  const int64_t* shape; /* -1: free */
  int32_t rank;         /* -1: the file declares no shape */
  int32_t dtype;
  int32_t is_sequence; /* its entries are arrays called "NAME[0]", "NAME[1]", … */
  int32_t is_optional;
} trainrt_port;

/* A weight that training changes. */
typedef struct trainrt_parameter {
  const char* name;          /* in the file; the name that functions take */
  const char* original_name; /* the framework's, where it can be told */
  const int64_t* shape;
  int32_t rank;
  int32_t dtype;
} trainrt_parameter;

/* One obstacle; absent parts are "" and 0. */
typedef struct trainrt_problem {
  const char* node;
  const char* op;
  const char* domain;
  const char* kind; /* no_lowering, no_gradient, no_kernel, dynamic, invalid, memory, … */
  const char* reason;
  const char* text; /* all of it in one line */
  int64_t opset;
} trainrt_problem;

/* Of trainrt_trainer_step(). */
typedef struct trainrt_step {
  double loss;     /* before this step's update */
  double lr;       /* of the update that the batch belongs to */
  int64_t step;    /* updates done after this call */
  int32_t updated; /* 0: gradients were accumulated only */
} trainrt_step;

/* ---- The library and its errors ---- */

/* "0.1.0" */
TRAINRT_API const char* trainrt_version(void);
/* "usage", "handle", …; "unknown" for other numbers. */
TRAINRT_API const char* trainrt_status_name(trainrt_status status);
/* "float32", …; NULL for other numbers. */
TRAINRT_API const char* trainrt_dtype_name(int32_t dtype);
/* Bytes of an element; 0 for other numbers. */
TRAINRT_API size_t trainrt_dtype_size(int32_t dtype);

/* The last call of this thread that failed: code (TRAINRT_OK when none has), message ("" then), and
   the problems it lists, if it does. Pointers hold until the thread's next failing call. These
   functions leave the last error as it is. */
TRAINRT_API trainrt_status trainrt_last_error_code(void);
TRAINRT_API const char* trainrt_last_error(void);
TRAINRT_API int64_t trainrt_last_error_problem_count(void);
TRAINRT_API trainrt_status trainrt_last_error_problem(int64_t index, trainrt_problem* problem);
TRAINRT_API void trainrt_clear_error(void);

/* ---- Options of a module ---- */

TRAINRT_API trainrt_status trainrt_options_create(trainrt_options** options);
/* Keys and values (the first is the default):
     dtype          float32 | float64 (reference kernels): the working type
     precision      f32 | bf16
     batch_norm     train | graph | frozen
     backend        auto | reference
     dropout        true | false
     straight_through, tie_weights   false | true
     seed           0, …
     threads        0 (all cores), …
     memory_budget  0 (none), 500MB, 2GiB, …
     plan_cache     8, …
     freeze, train_only   a shell pattern of parameter names; each call adds one
   Unknown keys and values are TRAINRT_ERROR_USAGE. */
TRAINRT_API trainrt_status trainrt_options_set(trainrt_options* options, const char* key,
                                               const char* value);
TRAINRT_API trainrt_status trainrt_options_free(trainrt_options* options);

/* ---- Arrays that the library owns: outputs of a model, contents of a file ---- */

/* The arrays of a .npz or .safetensors file. */
TRAINRT_API trainrt_status trainrt_arrays_load(const char* path, trainrt_arrays** arrays);
TRAINRT_API trainrt_status trainrt_arrays_count(trainrt_arrays* arrays, int64_t* count);
/* Name, type, shape and data, which belong to `arrays`. */
TRAINRT_API trainrt_status trainrt_arrays_get(trainrt_arrays* arrays, int64_t index,
                                              trainrt_array* array);
TRAINRT_API trainrt_status trainrt_arrays_find(trainrt_arrays* arrays, const char* name,
                                               trainrt_array* array);
TRAINRT_API trainrt_status trainrt_arrays_free(trainrt_arrays* arrays);

/* ---- A model ---- */

/* Reads an ONNX file and the external data below its folder. `options` may be NULL and can be freed
   afterwards. The module starts in train mode. */
TRAINRT_API trainrt_status trainrt_module_load(const char* path, trainrt_options* options,
                                               trainrt_module** module);
/* From memory; external data is looked for below `folder`, which may be NULL. */
TRAINRT_API trainrt_status trainrt_module_load_memory(const void* data, size_t bytes,
                                                      trainrt_options* options, const char* folder,
                                                      trainrt_module** module);
TRAINRT_API trainrt_status trainrt_module_free(trainrt_module* module);

TRAINRT_API trainrt_status trainrt_module_input_count(trainrt_module* module, int64_t* count);
TRAINRT_API trainrt_status trainrt_module_input(trainrt_module* module, int64_t index,
                                                trainrt_port* input);
TRAINRT_API trainrt_status trainrt_module_output_count(trainrt_module* module, int64_t* count);
TRAINRT_API trainrt_status trainrt_module_output(trainrt_module* module, int64_t index,
                                                 trainrt_port* output);
/* Remarks of the import that are no obstacles. */
TRAINRT_API trainrt_status trainrt_module_warning_count(trainrt_module* module, int64_t* count);
TRAINRT_API trainrt_status trainrt_module_warning(trainrt_module* module, int64_t index,
                                                  const char** text);

/* Everything that stands in the way of training with such inputs; without inputs (NULL, 0) made-up
   ones of the declared shapes are taken. */
TRAINRT_API trainrt_status trainrt_module_check(trainrt_module* module, const trainrt_array* inputs,
                                                int64_t count, trainrt_problems** problems);
TRAINRT_API trainrt_status trainrt_problems_count(trainrt_problems* problems, int64_t* count);
TRAINRT_API trainrt_status trainrt_problems_get(trainrt_problems* problems, int64_t index,
                                                trainrt_problem* problem);
TRAINRT_API trainrt_status trainrt_problems_free(trainrt_problems* problems);

/* ---- Forward and backward ---- */

/* Train mode (not 0) or eval mode: BatchNormalization and Dropout follow it. */
TRAINRT_API trainrt_status trainrt_module_train(trainrt_module* module, int32_t on);
TRAINRT_API trainrt_status trainrt_module_is_training(trainrt_module* module, int32_t* on);
/* Inputs by name, in any order. In train mode what backward needs is kept until the next forward,
   step or evaluation of the module. With a loss attached `target` (or `target/OUTPUT`) is an input
   too, and `loss` the last output. */
TRAINRT_API trainrt_status trainrt_module_forward(trainrt_module* module,
                                                  const trainrt_array* inputs, int64_t count,
                                                  trainrt_arrays** outputs);
/* Loss terms `NAME[:OUTPUT][*WEIGHT]`, summed; none: takes the loss off. */
TRAINRT_API trainrt_status trainrt_module_attach_loss(trainrt_module* module,
                                                      const char* const* losses, int64_t count);
/* Gradients of sum(dy * output) with `dy` given by the outputs' names; outputs left out count as
   zeros. They are added to those of the parameters. Runs once per forward. */
TRAINRT_API trainrt_status trainrt_module_backward(trainrt_module* module,
                                                   const trainrt_array* output_grads,
                                                   int64_t count);
/* The same from the attached loss. */
TRAINRT_API trainrt_status trainrt_module_backward_loss(trainrt_module* module);
/* Drops all gradients (not 0), or fills them with zeros. */
TRAINRT_API trainrt_status trainrt_module_zero_grad(trainrt_module* module, int32_t set_to_none);
/* Whether backward also computes gradients of float inputs; off at first. */
TRAINRT_API trainrt_status trainrt_module_set_input_grads(trainrt_module* module, int32_t on);

/* Functions that copy an array out write its size to `needed` (which may be NULL), whether it fits
   `bytes` or not; with data NULL and bytes 0 that is all they do. */

/* Gradient of an input, of the last backward. */
TRAINRT_API trainrt_status trainrt_module_get_input_grad(trainrt_module* module, const char* name,
                                                         void* data, size_t bytes, size_t* needed);

/* ---- Parameters and state ---- */

TRAINRT_API trainrt_status trainrt_module_parameter_count(trainrt_module* module, int64_t* count);
TRAINRT_API trainrt_status trainrt_module_parameter(trainrt_module* module, int64_t index,
                                                    trainrt_parameter* parameter);
/* Whether a parameter is trained. */
TRAINRT_API trainrt_status trainrt_module_get_requires_grad(trainrt_module* module,
                                                            const char* name, int32_t* on);
/* `name` NULL: all parameters. */
TRAINRT_API trainrt_status trainrt_module_set_requires_grad(trainrt_module* module,
                                                            const char* name, int32_t on);
/* The gradient of a parameter, in its type and shape; TRAINRT_ERROR_USAGE when it has none. */
TRAINRT_API trainrt_status trainrt_module_get_grad(trainrt_module* module, const char* name,
                                                   void* data, size_t bytes, size_t* needed);

/* State: the parameters, then the buffers (running statistics). */
TRAINRT_API trainrt_status trainrt_module_state_count(trainrt_module* module, int64_t* count);
/* Name, type, shape and bytes of an entry; `data` is NULL. */
TRAINRT_API trainrt_status trainrt_module_state(trainrt_module* module, int64_t index,
                                                trainrt_array* entry);
TRAINRT_API trainrt_status trainrt_module_get_state(trainrt_module* module, const char* name,
                                                    void* data, size_t bytes, size_t* needed);
/* Replaces the entries given, all or none; float types convert, shapes must be equal. */
TRAINRT_API trainrt_status trainrt_module_set_state(trainrt_module* module,
                                                    const trainrt_array* entries, int64_t count);

/* All parameters in one row, in their order, frozen ones included; `dtype` is TRAINRT_FLOAT32 or
   TRAINRT_FLOAT64, `count` the number of elements, exactly that of flat_size. */
TRAINRT_API trainrt_status trainrt_module_flat_size(trainrt_module* module, int64_t* count);
TRAINRT_API trainrt_status trainrt_module_get_flat(trainrt_module* module, int32_t dtype,
                                                   void* values, int64_t count);
TRAINRT_API trainrt_status trainrt_module_set_flat(trainrt_module* module, int32_t dtype,
                                                   const void* values, int64_t count);
/* Gradients likewise; absent ones read as zeros, frozen parameters keep none. */
TRAINRT_API trainrt_status trainrt_module_get_flat_grad(trainrt_module* module, int32_t dtype,
                                                        void* values, int64_t count);
TRAINRT_API trainrt_status trainrt_module_set_flat_grad(trainrt_module* module, int32_t dtype,
                                                        const void* values, int64_t count);

/* ---- Files ---- */

/* State as .npz or .safetensors, by the ending of the path. */
TRAINRT_API trainrt_status trainrt_module_save_state(trainrt_module* module, const char* path);
/* All or nothing; names may be the framework's. `strict` not 0: every entry must be there, and no
   other. */
TRAINRT_API trainrt_status trainrt_module_load_state(trainrt_module* module, const char* path,
                                                     int32_t strict);
/* State in trainrt's checkpoint format. trainrt_module_load_checkpoint also takes a trainer's. */
TRAINRT_API trainrt_status trainrt_module_save_checkpoint(trainrt_module* module, const char* path);
TRAINRT_API trainrt_status trainrt_module_load_checkpoint(trainrt_module* module, const char* path);
/* The ONNX file with the present weights, in its inference form. */
TRAINRT_API trainrt_status trainrt_module_export_onnx(trainrt_module* module, const char* path);

/* ---- Training with fused steps ---- */

TRAINRT_API trainrt_status trainrt_trainer_options_create(trainrt_trainer_options** options);
/* Keys and values:
     loss             NAME[:OUTPUT][*WEIGHT]; each call adds one; without any: cross_entropy
     optimizer        sgd | momentum | nesterov | adam | adamw, with [:key=value,…]
     lr, weight_decay, label_smoothing, clip_norm, clip_value, ema   numbers
     schedule         constant | linear | cosine | step | exponential | onecycle, [:key=value,…]
     total_steps, accumulate, class_axis   whole numbers
     nan_check        false | true
   Values that make no sense are found here or by trainrt_trainer_create. */
TRAINRT_API trainrt_status trainrt_trainer_options_set(trainrt_trainer_options* options,
                                                       const char* key, const char* value);
/* A fixed value of a model input, copied. */
TRAINRT_API trainrt_status trainrt_trainer_options_set_input(trainrt_trainer_options* options,
                                                             const trainrt_array* input);
TRAINRT_API trainrt_status trainrt_trainer_options_free(trainrt_trainer_options* options);

/* `options` may be NULL and can be freed afterwards. Trainers of one module share its moments: use
   one after the other, with the same optimizer. */
TRAINRT_API trainrt_status trainrt_trainer_create(trainrt_module* module,
                                                  trainrt_trainer_options* options,
                                                  trainrt_trainer** trainer);
TRAINRT_API trainrt_status trainrt_trainer_free(trainrt_trainer* trainer);

/* Forward, backward and update on one batch: the model's inputs by name and `target` (or
   `target/OUTPUT`). The first step checks and plans; what stands in the way is
   TRAINRT_ERROR_UNSUPPORTED with all problems. `step` may be NULL. */
TRAINRT_API trainrt_status trainrt_trainer_step(trainrt_trainer* trainer,
                                                const trainrt_array* batch, int64_t count,
                                                trainrt_step* step);
/* Loss and metrics in eval mode. */
TRAINRT_API trainrt_status trainrt_trainer_evaluate(trainrt_trainer* trainer,
                                                    const trainrt_array* batch, int64_t count,
                                                    trainrt_evaluation** evaluation);
/* Outputs in eval mode; needs no target. */
TRAINRT_API trainrt_status trainrt_trainer_predict(trainrt_trainer* trainer,
                                                   const trainrt_array* batch, int64_t count,
                                                   trainrt_arrays** outputs);

/* Mean loss over the samples. */
TRAINRT_API trainrt_status trainrt_evaluation_loss(trainrt_evaluation* evaluation, double* loss);
TRAINRT_API trainrt_status trainrt_evaluation_samples(trainrt_evaluation* evaluation,
                                                      int64_t* samples);
/* accuracy, top5, mae or perplexity; TRAINRT_ERROR_USAGE when the losses do not give it. */
TRAINRT_API trainrt_status trainrt_evaluation_metric(trainrt_evaluation* evaluation,
                                                     const char* metric, double* value);
/* Adds the samples of another batch, so that the numbers are those of all together. */
TRAINRT_API trainrt_status trainrt_evaluation_add(trainrt_evaluation* evaluation,
                                                  trainrt_evaluation* more);
TRAINRT_API trainrt_status trainrt_evaluation_free(trainrt_evaluation* evaluation);

/* Updates done. */
TRAINRT_API trainrt_status trainrt_trainer_steps_done(trainrt_trainer* trainer, int64_t* steps);
/* Of the next update. */
TRAINRT_API trainrt_status trainrt_trainer_get_learning_rate(trainrt_trainer* trainer, double* lr);
/* Replaces rate and schedule from now on. */
TRAINRT_API trainrt_status trainrt_trainer_set_learning_rate(trainrt_trainer* trainer, double lr);
/* Where the run stands in its data; kept in checkpoints. */
TRAINRT_API trainrt_status trainrt_trainer_get_position(trainrt_trainer* trainer, int64_t* epoch,
                                                        int64_t* batch);
TRAINRT_API trainrt_status trainrt_trainer_set_position(trainrt_trainer* trainer, int64_t epoch,
                                                        int64_t batch);
/* Exchanges the weights and their moving average (option ema). */
TRAINRT_API trainrt_status trainrt_trainer_swap_ema(trainrt_trainer* trainer);
/* State, moments, step, position and random state; a run continues in the same bits. */
TRAINRT_API trainrt_status trainrt_trainer_save_checkpoint(trainrt_trainer* trainer,
                                                           const char* path);
TRAINRT_API trainrt_status trainrt_trainer_load_checkpoint(trainrt_trainer* trainer,
                                                           const char* path);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TRAINRT_TRAINRT_C_H_ */
