// Every row of the tables is a test case, and every op with a rule has a row.
#include "tests/autodiff/gradcheck.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <set>

#include "autodiff/rule.h"

namespace trainrt::test {
namespace {

class RowCase final : public Catch::ITestInvoker {
 public:
  RowCase(Row row, bool shared) : row_(std::move(row)), shared_(shared) {}
  void invoke() const override { check_gradient(row_, shared_); }

 private:
  Row row_;
  bool shared_;
};

bool has_equal_shapes(const Row& row) {
  Rng rng(1);
  std::vector<Shape> shapes;
  for (const Operand& operand : row.operands) {
    if (operand.differentiable) shapes.push_back(operand.make(rng).shape());
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (shapes[i] == shapes[j]) return true;
    }
  }
  return false;
}

void register_row(const Row& row, bool shared) {
  const std::string name = "gradient of " + std::string(op_info(row.op).name) + ": " + row.name +
                           (shared ? ", one value as both operands" : "");
  const Catch::AutoReg registration(Catch::Detail::make_unique<RowCase>(row, shared),
                                    CATCH_INTERNAL_LINEINFO, Catch::StringRef(),
                                    Catch::NameAndTags{name, "[gradcheck]"});
}

const bool kRegistered = [] {
  for (const Row& row : all_rows()) {
    register_row(row, false);
    if (row.shareable && has_equal_shapes(row)) register_row(row, true);
  }
  return true;
}();

constexpr std::array kOps = {
#define OP(name, min_in, max_in, outputs, attrs) Op::k##name,
#include "graph/op_list.def"
#undef OP
};

TEST_CASE("every op has exactly one gradient row") {
  REQUIRE(kRegistered);
  std::array<int, kOpCount> rows{};
  for (const auto& list :
       {trainrt::elementwise_rules(), trainrt::shape_rules(), trainrt::reduction_rules(),
        trainrt::linear_rules(), trainrt::norm_rules(), trainrt::recurrent_rules(),
        trainrt::other_rules()}) {
    for (const GradRow& row : list) ++rows[static_cast<size_t>(row.op)];
  }
  for (Op op : kOps) {
    INFO(op_info(op).name);
    CHECK(rows[static_cast<size_t>(op)] == 1);
    const GradRow& row = grad_row(op);
    CHECK(row.op == op);
    CHECK((row.rule != nullptr) == (row.kind == GradKind::kRule));
  }
}

TEST_CASE("every rule has a row in the gradient check, and nothing else has") {
  std::set<Op> checked;
  for (const Row& row : all_rows()) checked.insert(row.op);
  for (Op op : kOps) {
    INFO(op_info(op).name);
    CHECK(checked.contains(op) == (grad_row(op).kind == GradKind::kRule));
  }
}

TEST_CASE("names of gradient check rows are distinct within an op") {
  std::set<std::pair<Op, std::string>> seen;
  for (const Row& row : all_rows()) {
    INFO(op_info(row.op).name << ": " << row.name);
    CHECK(seen.emplace(row.op, row.name).second);
  }
}

}  // namespace
}  // namespace trainrt::test
