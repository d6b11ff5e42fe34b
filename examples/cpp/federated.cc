// Federated averaging: clients train on data of their own, a server averages their weights.
//   federated MODEL.onnx TRAIN.npz VAL.npz
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

#include "examples/cpp/digits.h"
#include "trainrt/data.h"
#include "trainrt/flat.h"
#include "trainrt/module.h"
#include "trainrt/optimizer.h"

namespace {

using trainrt::Module;
using trainrt::Tensor;
using trainrt::TensorMap;

constexpr int kClients = 4, kRounds = 5;

/// What goes over the wire: all parameters in one row, then the running statistics.
std::vector<double> read_weights(const Module& module) {
  std::vector<double> values(static_cast<size_t>(trainrt::flat_size(module)));
  trainrt::get_flat(module, values);
  for (const Tensor& buffer : module.buffers()) {
    for (float v : buffer.data<float>()) values.push_back(v);
  }
  return values;
}

void write_weights(Module& module, const std::vector<double>& values) {
  std::span<const double> rest(values);
  const auto size = static_cast<size_t>(trainrt::flat_size(module));
  trainrt::set_flat(module, rest.first(size));
  rest = rest.subspan(size);
  for (Tensor buffer : module.buffers()) {  // a tensor shares the module's bytes
    for (float& v : buffer.data<float>()) {
      v = static_cast<float>(rest.front());
      rest = rest.subspan(1);
    }
  }
}

struct Client {
  Client(const char* model, TensorMap own, unsigned seed)
      : module(model), optimizer(module, "adamw:lr=2e-3"), data(std::move(own)), random(seed) {
    module.attach_loss({"cross_entropy"});
  }
  /// One pass over its data, from the weights of the server.
  void train(const std::vector<double>& weights) {
    write_weights(module, weights);
    optimizer.reset_state();
    for (const TensorMap& batch : digits::shuffled(data, 32, random)) {
      module.train_step(batch, optimizer);
    }
  }

  Module module;
  trainrt::Optimizer optimizer;
  TensorMap data;
  std::mt19937 random;
};

double accuracy(const Module& module, const TensorMap& val) {
  Module eval = module;
  eval.eval();
  const double share = digits::accuracy(eval.forward({val.at("x")})[0], val.at("target"));
  eval.train();
  return share;
}

void run(const char* model, const char* train_file, const char* val_file) {
  const TensorMap train = trainrt::load_npz(train_file), val = trainrt::load_npz(val_file);

  // Every client has more of some digits than of others, and not as much data as the next one.
  std::vector<std::vector<int64_t>> shards(kClients);
  const std::vector<int64_t> target = train.at("target").to_ints();
  for (size_t i = 0; i < target.size(); ++i) {
    const bool mixed = i % 3 == 0;
    shards[static_cast<size_t>(mixed ? (i / 3) % kClients : target[i] % kClients)].push_back(
        static_cast<int64_t>(i));
  }
  std::vector<Client> clients;
  for (size_t k = 0; k < kClients; ++k) {
    clients.emplace_back(model, digits::take(train, shards[k]), static_cast<unsigned>(k));
    std::printf("client %zu: %zu samples\n", k, shards[k].size());
  }

  Module server(model);
  std::printf("round 0: accuracy %.4f\n", accuracy(server, val));
  for (int round = 1; round <= kRounds; ++round) {
    const std::vector<double> weights = read_weights(server);
    std::vector<double> average(weights.size());
    double alone = 0;
    for (size_t k = 0; k < kClients; ++k) {
      clients[k].train(weights);
      const double share =
          static_cast<double>(shards[k].size()) / static_cast<double>(target.size());
      const std::vector<double> own = read_weights(clients[k].module);
      for (size_t i = 0; i < own.size(); ++i) average[i] += share * own[i];
      alone += accuracy(clients[k].module, val) / kClients;
    }
    write_weights(server, average);
    std::printf("round %d: clients %.4f, accuracy %.4f\n", round, alone, accuracy(server, val));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: federated MODEL.onnx TRAIN.npz VAL.npz\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], argv[3]);
  } catch (const trainrt::Error& error) {
    std::fprintf(stderr, "federated: %s\n", error.what());
    return 1;
  }
}
