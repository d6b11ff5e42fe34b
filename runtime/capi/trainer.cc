// Training with fused steps.
#include <algorithm>

#include "runtime/capi/arguments.h"
#include "runtime/capi/objects.h"

using namespace trainrt::capi;  // NOLINT: the functions below are its face

trainrt_status trainrt_trainer_create(trainrt_module* module, trainrt_trainer_options* options,
                                      trainrt_trainer** trainer) {
  return guarded([&] {
    clear_result(trainer, "trainer");
    const trainrt::TrainerOptions given = options == nullptr
                                              ? trainrt::TrainerOptions()
                                              : use<TrainerOptionsObject>(options)->options;
    const auto m = use<ModuleObject>(module);
    give(trainer, std::make_shared<TrainerObject>(*m, given));
  });
}

trainrt_status trainrt_trainer_free(trainrt_trainer* trainer) {
  return free_handle<TrainerObject>(trainer);
}

trainrt_status trainrt_trainer_step(trainrt_trainer* trainer, const trainrt_array* batch,
                                    int64_t count, trainrt_step* step) {
  return guarded([&] {
    const auto t = use<TrainerObject>(trainer);
    const trainrt::StepResult result = t->trainer.step(tensor_map(batch, count));
    if (step != nullptr) *step = {result.loss, result.lr, result.step, result.updated};
  });
}

trainrt_status trainrt_trainer_evaluate(trainrt_trainer* trainer, const trainrt_array* batch,
                                        int64_t count, trainrt_evaluation** evaluation) {
  return guarded([&] {
    clear_result(evaluation, "evaluation");
    const auto t = use<TrainerObject>(trainer);
    const trainrt::EvalResult result = t->trainer.evaluate(tensor_map(batch, count));
    const auto e = std::make_shared<EvaluationObject>();
    e->samples = result.samples;
    e->loss_sum = result.loss * static_cast<double>(std::max<int64_t>(result.samples, 1));
    e->metrics = result.metrics;
    give(evaluation, e);
  });
}

trainrt_status trainrt_trainer_predict(trainrt_trainer* trainer, const trainrt_array* batch,
                                       int64_t count, trainrt_arrays** outputs) {
  return guarded([&] {
    clear_result(outputs, "outputs");
    const auto t = use<TrainerObject>(trainer);
    const trainrt::Outputs result = t->trainer.predict(tensor_map(batch, count));
    give(outputs, std::make_shared<ArraysObject>(trainrt::StateDict(result.begin(), result.end())));
  });
}

trainrt_status trainrt_trainer_steps_done(trainrt_trainer* trainer, int64_t* steps) {
  return guarded([&] {
    check_pointer(steps, "steps");
    *steps = use<TrainerObject>(trainer)->trainer.steps_done();
  });
}

trainrt_status trainrt_trainer_get_learning_rate(trainrt_trainer* trainer, double* lr) {
  return guarded([&] {
    check_pointer(lr, "lr");
    *lr = use<TrainerObject>(trainer)->trainer.learning_rate();
  });
}

trainrt_status trainrt_trainer_set_learning_rate(trainrt_trainer* trainer, double lr) {
  return guarded([&] { use<TrainerObject>(trainer)->trainer.set_learning_rate(lr); });
}

trainrt_status trainrt_trainer_get_position(trainrt_trainer* trainer, int64_t* epoch,
                                            int64_t* batch) {
  return guarded([&] {
    check_pointer(epoch, "epoch");
    check_pointer(batch, "batch");
    const auto t = use<TrainerObject>(trainer);
    *epoch = t->trainer.position().epoch;
    *batch = t->trainer.position().batch;
  });
}

trainrt_status trainrt_trainer_set_position(trainrt_trainer* trainer, int64_t epoch,
                                            int64_t batch) {
  return guarded([&] {
    const auto t = use<TrainerObject>(trainer);
    if (epoch < 0 || batch < 0) {
      throw CallError(TRAINRT_ERROR_ARGUMENT, "epoch and batch must be 0 or more");
    }
    trainrt::Position position = t->trainer.position();
    position.epoch = epoch;
    position.batch = batch;
    t->trainer.set_position(position);
  });
}

trainrt_status trainrt_trainer_swap_ema(trainrt_trainer* trainer) {
  return guarded([&] { use<TrainerObject>(trainer)->trainer.swap_ema(); });
}

trainrt_status trainrt_trainer_save_checkpoint(trainrt_trainer* trainer, const char* path) {
  return guarded(
      [&] { use<TrainerObject>(trainer)->trainer.save_checkpoint(text_argument(path, "path")); });
}

trainrt_status trainrt_trainer_load_checkpoint(trainrt_trainer* trainer, const char* path) {
  return guarded(
      [&] { use<TrainerObject>(trainer)->trainer.load_checkpoint(text_argument(path, "path")); });
}
