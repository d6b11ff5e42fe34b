#include "frontend/listing.h"

#include <algorithm>
#include <sstream>

#include "graph/types.h"

namespace trainrt {
namespace {

constexpr int kShown = 16;  // entries of a list

template <typename List>
void write_list(std::ostream& out, const List& list) {
  out << "[";
  for (int i = 0; i < std::min<int>(list.size(), kShown); ++i) {
    out << (i > 0 ? "," : "") << list.Get(i);
  }
  out << (list.size() > kShown ? ",…]" : "]");
}

std::string shortened(const std::string& s) { return s.size() > 60 ? s.substr(0, 60) + "…" : s; }

class Listing {
 public:
  explicit Listing(const ImportedModel& model) : m_(model) {}

  std::string run() {
    for (const auto& [domain, version] : m_.opsets) {
      out_ << "opset " << (domain.empty() ? "ai.onnx" : domain) << " " << version << "\n";
    }
    for (const Port& p : m_.inputs) port("input", p);
    for (const ImportedWeight& w : m_.weights) {
      if (!w.stored.value.defined() || (!w.is_float && !w.initializer)) continue;
      out_ << (w.use == WeightUse::kParameter ? "parameter"
               : w.use == WeightUse::kBuffer  ? "buffer"
               : w.use == WeightUse::kTied    ? "tied"
                                              : "constant")
           << " " << w.info.name << ":" << to_string(TensorType{w.info.dtype, w.info.shape})
           << "\n";
    }
    graph(m_.graph, 0);
    for (const Port& p : m_.outputs) port("output", p);
    return out_.str();
  }

 private:
  void port(const char* kind, const Port& p) {
    static constexpr const char* kKinds[] = {"", "sequence of ", "optional ",
                                             "optional sequence of "};
    out_ << kind << " " << p.name << ":" << kKinds[static_cast<size_t>(p.kind)]
         << dtype_name(p.dtype) << (p.has_shape ? to_string(p) : "") << "\n";
  }

  std::string name(int32_t value) const {
    if (value < 0) return "_";
    const ImportedValue& v = m_.values[static_cast<size_t>(value)];
    if (v.weight < 0) return v.name;
    const ImportedWeight& w = m_.weights[static_cast<size_t>(v.weight)];
    if (w.initializer || w.is_float || !w.stored.value.defined()) return w.info.name;
    const Tensor& t = w.stored.value;  // a small constant reads best in its place
    if (t.size() > kShown) return w.info.name;
    std::string text;
    if (t.dtype() == DType::kUInt64) return w.info.name;
    for (int64_t i : t.to_ints()) text += (text.empty() ? "" : ",") + std::to_string(i);
    return t.rank() == 0 ? text : "{" + text + "}";
  }

  void list(const std::vector<int32_t>& values) {
    for (size_t i = 0; i < values.size(); ++i) out_ << (i > 0 ? ", " : "") << name(values[i]);
  }

  void attribute(const ImportedAttr& a) {
    const onnx::AttributeProto& p = *a.proto;
    out_ << " " << a.name << "=";
    switch (p.type()) {
      case onnx::AttributeProto::FLOAT:
        out_ << p.f();
        break;
      case onnx::AttributeProto::INT:
        out_ << p.i();
        break;
      case onnx::AttributeProto::STRING:
        out_ << '"' << shortened(p.s()) << '"';
        break;
      case onnx::AttributeProto::FLOATS:
        write_list(out_, p.floats());
        break;
      case onnx::AttributeProto::INTS:
        write_list(out_, p.ints());
        break;
      case onnx::AttributeProto::STRINGS:
        write_list(out_, p.strings());
        break;
      case onnx::AttributeProto::TENSOR: {
        const auto slot = m_.slots.find(&p.t());
        const Stored* s =
            slot == m_.slots.end() ? nullptr : &m_.stored[static_cast<size_t>(slot->second)];
        const bool known = s != nullptr && s->value.defined();
        out_ << (known ? to_string(TensorType{s->value.dtype(), s->value.shape()}) : "tensor");
        break;
      }
      default:
        out_ << "…";
    }
  }

  void graph(const ImportedGraph& g, int depth) {
    const std::string indent(static_cast<size_t>(depth) * 2, ' ');
    for (const ImportedNode& n : g.nodes) {
      out_ << indent;
      list(n.outputs);
      out_ << " = " << (n.domain.empty() ? "" : n.domain + "::") << n.op << "(";
      list(n.inputs);
      out_ << ")";
      for (const ImportedAttr& a : n.attrs) {
        if (!a.graph) attribute(a);
      }
      if (!n.proto->name().empty()) out_ << "  // " << n.name;
      if (!n.needed) out_ << "  (not needed)";
      out_ << "\n";
      for (const ImportedAttr& a : n.attrs) {
        if (!a.graph) continue;
        out_ << indent << "  " << a.name << "(";
        list(a.graph->inputs);
        out_ << "):\n";
        graph(*a.graph, depth + 2);
        out_ << indent << "    return ";
        list(a.graph->outputs);
        out_ << "\n";
      }
    }
  }

  const ImportedModel& m_;
  std::ostringstream out_;
};

}  // namespace

std::string list_model(const ImportedModel& model) { return Listing(model).run(); }

}  // namespace trainrt
