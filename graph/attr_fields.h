// The fields of every attribute struct with their names, and their text forms. Private to graph/.
#ifndef TRAINRT_GRAPH_ATTR_FIELDS_H_
#define TRAINRT_GRAPH_ATTR_FIELDS_H_

#include <string_view>
#include <tuple>
#include <type_traits>

#include "graph/attrs.h"

namespace trainrt {

template <typename S, typename T>
struct Field {
  std::string_view name;
  T S::*member;
};

template <typename S>
inline constexpr auto kFields = std::tuple<>();

template <>
inline constexpr auto kFields<InputAttrs> = std::tuple(Field{"name", &InputAttrs::name},
                                                       Field{"role", &InputAttrs::role},
                                                       Field{"dtype", &InputAttrs::dtype},
                                                       Field{"shape", &InputAttrs::shape});
template <>
inline constexpr auto kFields<ConstantAttrs> = std::tuple(Field{"value", &ConstantAttrs::value});
template <>
inline constexpr auto kFields<FillAttrs> = std::tuple(Field{"dtype", &FillAttrs::dtype},
                                                      Field{"shape", &FillAttrs::shape},
                                                      Field{"value", &FillAttrs::value});
template <>
inline constexpr auto kFields<ClipAttrs> = std::tuple(Field{"lo", &ClipAttrs::lo},
                                                      Field{"hi", &ClipAttrs::hi});
template <>
inline constexpr auto kFields<CastAttrs> = std::tuple(Field{"to", &CastAttrs::to});
template <>
inline constexpr auto kFields<RoundToAttrs> = std::tuple(
    Field{"mantissa", &RoundToAttrs::mantissa}, Field{"min_exponent", &RoundToAttrs::min_exponent},
    Field{"max", &RoundToAttrs::max}, Field{"overflow", &RoundToAttrs::overflow},
    Field{"rounding", &RoundToAttrs::rounding});
template <>
inline constexpr auto kFields<ShapeAttrs> = std::tuple(Field{"shape", &ShapeAttrs::shape});
template <>
inline constexpr auto kFields<PermAttrs> = std::tuple(Field{"perm", &PermAttrs::perm});
template <>
inline constexpr auto kFields<SliceAttrs> = std::tuple(Field{"starts", &SliceAttrs::starts},
                                                       Field{"steps", &SliceAttrs::steps},
                                                       Field{"sizes", &SliceAttrs::sizes},
                                                       Field{"shape", &SliceAttrs::shape});
template <>
inline constexpr auto kFields<AxisAttrs> = std::tuple(Field{"axis", &AxisAttrs::axis});
template <>
inline constexpr auto kFields<SplitAttrs> = std::tuple(Field{"axis", &SplitAttrs::axis},
                                                       Field{"sizes", &SplitAttrs::sizes});
template <>
inline constexpr auto kFields<PadAttrs> = std::tuple(Field{"before", &PadAttrs::before},
                                                     Field{"after", &PadAttrs::after},
                                                     Field{"mode", &PadAttrs::mode},
                                                     Field{"value", &PadAttrs::value},
                                                     Field{"shape", &PadAttrs::shape});
template <>
inline constexpr auto kFields<TriluAttrs> = std::tuple(Field{"upper", &TriluAttrs::upper},
                                                       Field{"k", &TriluAttrs::k});
template <>
inline constexpr auto kFields<GatherGradAttrs> =
    std::tuple(Field{"axis", &GatherGradAttrs::axis}, Field{"shape", &GatherGradAttrs::shape});
template <>
inline constexpr auto kFields<GatherNDAttrs> = std::tuple(Field{"batch_dims",
                                                                &GatherNDAttrs::batch_dims});
template <>
inline constexpr auto kFields<ScatterAttrs> =
    std::tuple(Field{"axis", &ScatterAttrs::axis}, Field{"reduction", &ScatterAttrs::reduction});
template <>
inline constexpr auto kFields<ReduceAttrs> = std::tuple(Field{"axes", &ReduceAttrs::axes},
                                                        Field{"keepdims", &ReduceAttrs::keepdims});
template <>
inline constexpr auto kFields<ArgAttrs> = std::tuple(Field{"axis", &ArgAttrs::axis},
                                                     Field{"keepdims", &ArgAttrs::keepdims},
                                                     Field{"last", &ArgAttrs::last});
template <>
inline constexpr auto kFields<CumAttrs> = std::tuple(Field{"axis", &CumAttrs::axis},
                                                     Field{"exclusive", &CumAttrs::exclusive},
                                                     Field{"reverse", &CumAttrs::reverse});
template <>
inline constexpr auto kFields<TopKAttrs> = std::tuple(Field{"axis", &TopKAttrs::axis},
                                                      Field{"k", &TopKAttrs::k},
                                                      Field{"largest", &TopKAttrs::largest});
template <>
inline constexpr auto kFields<MatMulAttrs> = std::tuple(Field{"trans_a", &MatMulAttrs::trans_a},
                                                        Field{"trans_b", &MatMulAttrs::trans_b},
                                                        Field{"relu", &MatMulAttrs::relu});
template <>
inline constexpr auto kFields<ConvAttrs> = std::tuple(Field{"strides", &ConvAttrs::strides},
                                                      Field{"dilations", &ConvAttrs::dilations},
                                                      Field{"pads_begin", &ConvAttrs::pads_begin},
                                                      Field{"pads_end", &ConvAttrs::pads_end},
                                                      Field{"group", &ConvAttrs::group},
                                                      Field{"shape", &ConvAttrs::shape},
                                                      Field{"relu", &ConvAttrs::relu});
template <>
inline constexpr auto kFields<PoolAttrs> = std::tuple(
    Field{"kernel", &PoolAttrs::kernel}, Field{"strides", &PoolAttrs::strides},
    Field{"dilations", &PoolAttrs::dilations}, Field{"pads_begin", &PoolAttrs::pads_begin},
    Field{"pads_end", &PoolAttrs::pads_end}, Field{"output", &PoolAttrs::output},
    Field{"count_include_pad", &PoolAttrs::count_include_pad},
    Field{"column_major", &PoolAttrs::column_major}, Field{"shape", &PoolAttrs::shape});
template <>
inline constexpr auto kFields<InterpolateAttrs> = std::tuple(
    Field{"axis", &InterpolateAttrs::axis}, Field{"in_size", &InterpolateAttrs::in_size},
    Field{"out_size", &InterpolateAttrs::out_size}, Field{"taps", &InterpolateAttrs::taps},
    Field{"index", &InterpolateAttrs::index}, Field{"weight", &InterpolateAttrs::weight});
template <>
inline constexpr auto kFields<RoiAttrs> =
    std::tuple(Field{"mode", &RoiAttrs::mode}, Field{"height", &RoiAttrs::height},
               Field{"width", &RoiAttrs::width}, Field{"sampling_ratio", &RoiAttrs::sampling_ratio},
               Field{"scale", &RoiAttrs::scale}, Field{"half_pixel", &RoiAttrs::half_pixel});
template <>
inline constexpr auto kFields<NormAttrs> = std::tuple(Field{"axis", &NormAttrs::axis},
                                                      Field{"epsilon", &NormAttrs::epsilon},
                                                      Field{"activation", &NormAttrs::activation},
                                                      Field{"lo", &NormAttrs::lo},
                                                      Field{"hi", &NormAttrs::hi});
template <>
inline constexpr auto kFields<NormConvAttrs> = std::tuple(
    Field{"strides", &NormConvAttrs::strides}, Field{"dilations", &NormConvAttrs::dilations},
    Field{"pads_begin", &NormConvAttrs::pads_begin}, Field{"pads_end", &NormConvAttrs::pads_end},
    Field{"group", &NormConvAttrs::group}, Field{"epsilon", &NormConvAttrs::epsilon},
    Field{"activation", &NormConvAttrs::activation}, Field{"lo", &NormConvAttrs::lo},
    Field{"hi", &NormConvAttrs::hi});
template <>
inline constexpr auto kFields<GeluAttrs> = std::tuple(Field{"tanh", &GeluAttrs::tanh});
template <>
inline constexpr auto kFields<AttentionAttrs> = std::tuple(
    Field{"scale", &AttentionAttrs::scale}, Field{"causal", &AttentionAttrs::causal},
    Field{"token_major", &AttentionAttrs::token_major}, Field{"packed", &AttentionAttrs::packed},
    Field{"sequence_first", &AttentionAttrs::sequence_first});
template <>
inline constexpr auto kFields<RecurrentAttrs> =
    std::tuple(Field{"reverse", &RecurrentAttrs::reverse},
               Field{"linear_before_reset", &RecurrentAttrs::linear_before_reset});
template <>
inline constexpr auto kFields<LayoutAttrs> = std::tuple(Field{"layout", &LayoutAttrs::layout});
template <>
inline constexpr auto kFields<TransferAttrs> = std::tuple(Field{"to_host",
                                                                &TransferAttrs::to_host});
template <>
inline constexpr auto kFields<FusedAttrs> = std::tuple(Field{"program", &FusedAttrs::program});
template <>
inline constexpr auto kFields<LossAttrs> = std::tuple(Field{"class_axis", &LossAttrs::class_axis},
                                                      Field{"ignore_index",
                                                            &LossAttrs::ignore_index},
                                                      Field{"shape", &LossAttrs::shape});
template <>
inline constexpr auto kFields<CallAttrs> = std::tuple(Field{"function", &CallAttrs::function},
                                                      Field{"outputs", &CallAttrs::outputs});
template <>
inline constexpr auto kFields<DropoutAttrs> = std::tuple(Field{"ratio", &DropoutAttrs::ratio},
                                                         Field{"stream", &DropoutAttrs::stream});
template <>
inline constexpr auto kFields<RandomAttrs> = std::tuple(Field{"kind", &RandomAttrs::kind},
                                                        Field{"dtype", &RandomAttrs::dtype},
                                                        Field{"shape", &RandomAttrs::shape},
                                                        Field{"a", &RandomAttrs::a},
                                                        Field{"b", &RandomAttrs::b},
                                                        Field{"stream", &RandomAttrs::stream});
template <>
inline constexpr auto kFields<OptimizerAttrs> = std::tuple(
    Field{"kind", &OptimizerAttrs::kind}, Field{"weight_decay", &OptimizerAttrs::weight_decay},
    Field{"momentum", &OptimizerAttrs::momentum}, Field{"dampening", &OptimizerAttrs::dampening},
    Field{"beta1", &OptimizerAttrs::beta1}, Field{"beta2", &OptimizerAttrs::beta2},
    Field{"epsilon", &OptimizerAttrs::epsilon});

/// Calls f(name, field) for every field of an attribute struct, const or not.
template <typename A, typename F>
void for_each_field(A& attrs, F&& f) {
  std::apply([&](const auto&... field) { (f(field.name, attrs.*(field.member)), ...); },
             kFields<std::remove_const_t<A>>);
}

template <typename E>
inline constexpr std::string_view kEnumNames[1] = {};
template <>
inline constexpr std::string_view kEnumNames<InputRole>[] = {
    "data", "target", "parameter", "buffer", "optimizer_state", "gradient", "hyper", "rng"};
template <>
inline constexpr std::string_view kEnumNames<Layout>[] = {"plain", "nChw16c"};
template <>
inline constexpr std::string_view kEnumNames<Activation>[] = {"none", "relu", "clip"};
template <>
inline constexpr std::string_view kEnumNames<PadMode>[] = {"constant", "reflect", "edge", "wrap"};
template <>
inline constexpr std::string_view kEnumNames<Reduction>[] = {"none", "add", "mul", "max", "min"};
template <>
inline constexpr std::string_view kEnumNames<Overflow>[] = {"saturate", "infinity", "nan"};
template <>
inline constexpr std::string_view kEnumNames<Rounding>[] = {"nearest_even", "nearest_up", "up",
                                                            "down"};
template <>
inline constexpr std::string_view kEnumNames<RoiMode>[] = {"average", "max", "cell_max"};
template <>
inline constexpr std::string_view kEnumNames<RandomKind>[] = {"uniform", "normal"};
template <>
inline constexpr std::string_view kEnumNames<OptimizerKind>[] = {"sgd", "momentum", "nesterov",
                                                                 "adam", "adamw"};

template <typename E>
bool enum_in_range(E e) {
  return static_cast<size_t>(e) < std::size(kEnumNames<E>);
}

/// "…" with backslash escapes; what the parser of graph/text.cc reads back.
std::string quote(std::string_view text);

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_ATTR_FIELDS_H_
