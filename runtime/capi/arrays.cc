// Results: arrays, problems, evaluations.
#include <algorithm>

#include "runtime/capi/arguments.h"
#include "runtime/capi/objects.h"

using namespace trainrt::capi;  // NOLINT: the functions below are its face

trainrt_status trainrt_arrays_count(trainrt_arrays* arrays, int64_t* count) {
  return guarded([&] {
    check_pointer(count, "count");
    *count = static_cast<int64_t>(use<ArraysObject>(arrays)->arrays.size());
  });
}

trainrt_status trainrt_arrays_get(trainrt_arrays* arrays, int64_t index, trainrt_array* array) {
  return guarded([&] {
    check_pointer(array, "array");
    const auto a = use<ArraysObject>(arrays);
    check_index(index, a->arrays.size(), "arrays");
    const auto& [name, tensor] = a->arrays[static_cast<size_t>(index)];
    describe(name, tensor, true, array);
  });
}

trainrt_status trainrt_arrays_find(trainrt_arrays* arrays, const char* name, trainrt_array* array) {
  return guarded([&] {
    check_pointer(array, "array");
    const std::string wanted = text_argument(name, "name");
    const auto a = use<ArraysObject>(arrays);
    std::string names;
    for (const auto& [own, tensor] : a->arrays) {
      if (own == wanted) return describe(own, tensor, true, array);
      names += (names.empty() ? "" : ", ") + own;
    }
    throw trainrt::Error(trainrt::ErrorCode::kUsage,
                         "there is no array '" + wanted + "'; those are " + names);
  });
}

trainrt_status trainrt_arrays_free(trainrt_arrays* arrays) {
  return free_handle<ArraysObject>(arrays);
}

trainrt_status trainrt_problems_count(trainrt_problems* problems, int64_t* count) {
  return guarded([&] {
    check_pointer(count, "count");
    *count = use<ProblemsObject>(problems)->problems.size();
  });
}

trainrt_status trainrt_problems_get(trainrt_problems* problems, int64_t index,
                                    trainrt_problem* problem) {
  return guarded([&] {
    check_pointer(problem, "problem");
    const auto p = use<ProblemsObject>(problems);
    check_index(index, static_cast<size_t>(p->problems.size()), "problems");
    p->problems.read(index, problem);
  });
}

trainrt_status trainrt_problems_free(trainrt_problems* problems) {
  return free_handle<ProblemsObject>(problems);
}

trainrt_status trainrt_evaluation_loss(trainrt_evaluation* evaluation, double* loss) {
  return guarded([&] {
    check_pointer(loss, "loss");
    const auto e = use<EvaluationObject>(evaluation);
    *loss = e->loss_sum / static_cast<double>(std::max<int64_t>(e->samples, 1));
  });
}

trainrt_status trainrt_evaluation_samples(trainrt_evaluation* evaluation, int64_t* samples) {
  return guarded([&] {
    check_pointer(samples, "samples");
    *samples = use<EvaluationObject>(evaluation)->samples;
  });
}

trainrt_status trainrt_evaluation_metric(trainrt_evaluation* evaluation, const char* metric,
                                         double* value) {
  return guarded([&] {
    check_pointer(value, "value");
    const std::string name = text_argument(metric, "metric");
    *value = use<EvaluationObject>(evaluation)->metrics.value(name);
  });
}

trainrt_status trainrt_evaluation_add(trainrt_evaluation* evaluation, trainrt_evaluation* more) {
  return guarded([&] {
    // One lock at a time: both may be the same.
    const auto [loss_sum, samples, metrics] = [&] {
      const auto m = use<EvaluationObject>(more);
      return std::make_tuple(m->loss_sum, m->samples, m->metrics);
    }();
    const auto e = use<EvaluationObject>(evaluation);
    e->loss_sum += loss_sum;
    e->samples += samples;
    e->metrics += metrics;
  });
}

trainrt_status trainrt_evaluation_free(trainrt_evaluation* evaluation) {
  return free_handle<EvaluationObject>(evaluation);
}
