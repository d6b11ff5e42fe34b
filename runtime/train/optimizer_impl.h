// What the files of the optimizer share.
#ifndef TRAINRT_RUNTIME_TRAIN_OPTIMIZER_IMPL_H_
#define TRAINRT_RUNTIME_TRAIN_OPTIMIZER_IMPL_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "runtime/session.h"
#include "trainrt/optimizer.h"

namespace trainrt {

/// The states behind handles, which must be parameters of this session and differ; throws
/// Error(kUsage) naming what is wrong. `where` begins the message.
ParameterStates states_of(const Session& session, const std::vector<Parameter>& params,
                          const std::string& where);

/// The only session that the handles belong to, and their states in the file's order; throws
/// Error(kUsage). Null without handles.
std::pair<Session*, ParameterStates> common_session(const std::vector<Parameter>& params,
                                                    const std::string& where);

/// A group after its checks.
struct ResolvedGroup {
  OptimizerAttrs attrs;
  double lr = 0;
  ParameterStates params;
};

struct Optimizer::Impl {
  std::shared_ptr<Session> session;
  OptimizerAttrs attrs;  // of the text, with its rate in `lr`
  double lr = 0;
  std::string name;
  std::vector<ParamGroup> groups;
  int64_t steps = 0;

  Impl(const Module& module, const std::string& text);

  /// Fills in what a group leaves to the optimizer; throws Error(kUsage) for settings that it does
  /// not have.
  void complete(ParamGroup& group, const std::string& where) const;
  /// Throws Error(kUsage) for groups that make no sense.
  std::vector<ResolvedGroup> resolve(const std::vector<ParamGroup>& list) const;
  void set_groups(std::vector<ParamGroup> list);
  /// Writes what was resolved back into a group's settings.
  static void write_settings(ResolvedGroup& from, ParamGroup& to);
  /// No moments and no updates.
  void reset(ParameterState& parameter);
};

/// A tensor of one element, as state dicts hold numbers.
Tensor number(double value);
Tensor count(int64_t value);

/// Reads a state dict name by name and collects what is wrong.
class StateReader {
 public:
  StateReader(const StateDict& state, std::string what);

  /// The entry, if it has this type and shape; else notes a fault and returns an undefined tensor.
  Tensor take(const std::string& name, DType dtype, const Shape& shape);
  bool has(const std::string& name) const;
  void fault(const std::string& text);
  /// Throws Error(kInput) with all faults, entries that were not taken among them.
  void finish();

 private:
  std::string what_, faults_;
  std::map<std::string, Tensor> entries_;
};

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_TRAIN_OPTIMIZER_IMPL_H_
