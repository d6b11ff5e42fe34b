// A graph that holds every op and every attribute struct, most with settings off their defaults.
#ifndef TRAINRT_TESTS_GRAPH_EVERY_OP_H_
#define TRAINRT_TESTS_GRAPH_EVERY_OP_H_

namespace trainrt {

inline constexpr char kEveryOp[] = R"(
forward:
%x = Input() name="x" shape=[2,3]
%x1 = Input() name="x 1\x0a\"" shape=[3]
%xd = Input() name="xd" dtype=float64 shape=[2,3]
%img = Input() name="img" shape=[2,4,6,6]
%w = Input() name="w" role=parameter shape=[8,2,3,3]
%seq4 = Input() name="seq4" shape=[2,1,8]
%seq3 = Input() name="seq3" shape=[2,1,6]
%wl = Input() name="wl" role=parameter shape=[8,2]
%wg = Input() name="wg" role=parameter shape=[6,2]
%bg = Input() name="bg" role=parameter shape=[6]
%qkv = Input() name="qkv" shape=[1,2,3,4,2]
%heads = Input() name="heads" shape=[1,2,3,4]
%mask = Input() name="mask" shape=[3,3]
%h0 = Input() name="h0" shape=[1,2]
%ids = Input() name="ids" role=target dtype=int64 shape=[2]
%rng = Input() name="rng" role=rng dtype=int64 shape=[2]
%run = Input() name="run" role=buffer shape=[4]
%rois = Input() name="rois" shape=[3,4]
%images = Input() name="images" dtype=int64 shape=[3]
%lr = Input() name="hyper" role=hyper dtype=float64 shape=[2]
%p = Input() name="p" role=parameter shape=[2,3]
%m = Input() name="m" role=optimizer_state shape=[2,3]
%v = Input() name="v" role=optimizer_state shape=[2,3]
%store = Input() name="p" role=gradient shape=[2,3]
%c1 = Constant() value=float32[2,3]{1,-0,nan,inf,-inf,1e-45}
%c2 = Constant() value=bool[2]{1,0}
%c3 = Constant() value=int64[1]{-9223372036854775808}
%c4 = Constant() value=uint8[3]{0,7,255}
%c5 = Constant() value=float64[]{0.1}
%c6 = Constant() value=uint64[2]{18446744073709551615,0}
%c7 = Constant() value=int32[0,3]{}
%one = Fill() value=1
%z = Fill() dtype=int64 shape=[2,3] value=3
%u = Fill() dtype=uint32 shape=[2] value=1
%z2 = Fill() dtype=int64 shape=[2,1]

%e0 = Neg(%x)
%e1 = Abs(%x)
%e2 = Sign(%x)
%e3 = Exp(%x)
%e4 = Log(%x)
%e5 = Sqrt(%x)
%e6 = Reciprocal(%x)
%e7 = Sin(%x)
%e8 = Cos(%x)
%e9 = Tan(%x)
%e10 = Asin(%x)
%e11 = Acos(%x)
%e12 = Atan(%x)
%e13 = Sinh(%x)
%e14 = Cosh(%x)
%e15 = Asinh(%x)
%e16 = Acosh(%x)
%e17 = Atanh(%x)
%e18 = Tanh(%x)
%e19 = Sigmoid(%x)
%e20 = Softplus(%x)
%e21 = Erf(%x)
%e22 = Relu(%x)
%e23 = Floor(%x)
%e24 = Ceil(%x)
%e25 = Round(%x)
%e25a = Gelu(%x) tanh=true
%e25b = Silu(%x)
%e26 = Clip(%x) lo=-0.5 hi=6
%e27 = Not(%c2)
%e28 = BitwiseNot(%z)
%e29 = IsNaN(%x)
%e30 = Identity(%x)
%e31 = StopGradient(%x)
%e32 = Cast(%x) to=float64
%e33 = BitCast(%x) to=int32
%e34 = RoundTo(%x) mantissa=3 min_exponent=-6 max=448 overflow=nan rounding=up

%b0 = Add(%x, %x1)
%b1 = Sub(%x, %x1)
%b2 = Mul(%x, %one)
%b3 = Div(%x, %x1)
%b41 = ChainMul(%x, %x1)
%b42 = ChainDiv(%x, %x1)
%b4 = Pow(%x, %x1)
%b5 = Mod(%z, %z)
%b6 = Fmod(%x, %x1)
%b7 = Max(%x, %x1)
%b8 = Min(%x, %x1)
%b9 = Equal(%x, %x1)
%b10 = Less(%x, %x1)
%b11 = LessEqual(%x, %x1)
%b12 = Greater(%x, %x1)
%b13 = GreaterEqual(%x, %x1)
%b14 = And(%b9, %b10)
%b15 = Or(%b9, %b10)
%b16 = Xor(%b9, %b10)
%b17 = BitwiseAnd(%z, %z)
%b18 = BitwiseOr(%z, %z)
%b19 = BitwiseXor(%z, %z)
%b20 = ShiftLeft(%u, %u)
%b21 = ShiftRight(%u, %u)
%b22 = Where(%b9, %x, %x1)
%f0, %f1 = Fused(%x, %x1) program="Add($0, $1); Mul(%0, 0.5); ReduceSum(%1) axes=[0]; return %1, %2"

%s0 = Reshape(%x) shape=[3,2]
%s1 = Transpose(%x) perm=[1,0]
%s2 = Expand(%x) shape=[4,2,3]
%s3 = Slice(%x) starts=[1,2] steps=[-1,-2] sizes=[2,2]
%s4 = Concat(%x, %x) axis=1
%s5, %s6 = Split(%x) axis=1 sizes=[1,2]
%s7 = Pad(%x) before=[0,1] after=[-1,2] mode=reflect
%s8 = Trilu(%x) upper=true k=-1
%s9 = Gather(%x, %ids) axis=1
%s10 = GatherElements(%x, %z) axis=1
%s11 = GatherND(%x, %z2) batch_dims=1
%s12 = ScatterElements(%x, %z, %x) axis=1 reduction=add
%s13 = ScatterND(%x, %z2, %x) reduction=max
%s14 = Reorder(%img) layout=nChw16c
%s15 = Transfer(%img) to_host=true

%r0 = ReduceSum(%x) axes=[0,1]
%r1 = ReduceMean(%x) axes=[1] keepdims=true
%r2 = ReduceMax(%x) axes=[0]
%r3 = ReduceMin(%x) axes=[0]
%r4 = ReduceProd(%x) axes=[0]
%r5 = ArgMax(%x) axis=1 keepdims=true last=true
%r6 = ArgMin(%x) axis=1
%r7 = CumSum(%x) axis=1 exclusive=true reverse=true
%r8 = CumProd(%x) axis=1
%r9, %r10 = TopK(%x) axis=1 k=2 largest=false

%l0 = MatMul(%x, %x) trans_b=true
%l1 = Det(%l0)
%l2 = Cofactor(%l0)
%y = Conv(%img, %w) strides=[2,1] dilations=[1,2] pads_begin=[1,0] pads_end=[0,1] group=2
%mp = MaxPool(%img) kernel=[2,2] strides=[2,2] dilations=[1,1] pads_begin=[0,1] pads_end=[0,0] output=[3,4]
%mi = MaxPoolIndices(%img) kernel=[2,2] strides=[2,2] dilations=[1,1] pads_begin=[0,0] pads_end=[0,0] output=[3,3] column_major=true
%ap = AveragePool(%img) kernel=[2,2] strides=[2,2] dilations=[1,2] pads_begin=[0,0] pads_end=[0,0] output=[3,2] count_include_pad=true
%ip = Interpolate(%img) axis=2 in_size=6 out_size=2 taps=2 index=[0,1,4,5] weight=[0.5,0.5,0.25,0.75]
%roi = RoiPool(%img, %rois, %images) mode=max height=2 width=3 sampling_ratio=2 scale=0.5 half_pixel=true

%n0 = Softmax(%x) axis=1
%n1 = LogSoftmax(%x) axis=1
%n2, %n3, %n4 = LayerNorm(%x, %x1, %x1) axis=1 epsilon=0.001
%n5, %n6, %n7 = BatchNorm(%img, %run, %run)
%n8, %n9 = RmsNorm(%x, %x1) axis=1
%n10, %n11, %n12 = BatchNorm(%img, %run, %run, %img) activation=relu
%n13, %n14, %n15 = BatchNorm(%img, %run, %run) activation=clip lo=-1 hi=6
%na0 = BatchNormApply(%img, %run, %run, %n6, %n7)
%na1 = BatchNormApply(%img, %run, %run, %n11, %n12, %img) activation=relu
%nc0, %nc1, %nc2 = NormConv(%img, %run, %run, %w) strides=[2,1] dilations=[1,2] pads_begin=[1,0] pads_end=[0,1] group=2 activation=clip hi=6
%at0, %at1 = Attention(%qkv) scale=0.5 causal=true token_major=true packed=true
%at2, %at3 = Attention(%heads, %heads, %heads, %mask)
%ly, %lc, %lg = Lstm(%seq4, %wl, %h0, %h0) reverse=true
%gy, %gq = Gru(%seq3, %wg, %bg, %h0) linear_before_reset=true
%ce = CrossEntropy(%x, %ids) ignore_index=1
%nll = NllLoss(%n1, %ids)
%do = Dropout(%x, %rng) ratio=0.25 stream=1
%rn = Random(%rng) kind=normal shape=[2,3] b=2 stream=2

backward:
%g0 = ReluGrad(%x, %e22)
%g1 = ClipGrad(%x, %x) hi=6
%g2 = SliceGrad(%s3) starts=[1,2] steps=[-1,-2] sizes=[2,2] shape=[2,3]
%g3 = PadGrad(%s7) before=[0,1] after=[-1,2] mode=reflect shape=[2,3]
%g4 = GatherGrad(%s9, %ids) axis=1 shape=[2,3]
%g5 = ConvDataGrad(%y, %w) strides=[2,1] dilations=[1,2] pads_begin=[1,0] pads_end=[0,1] group=2 shape=[2,4,6,6]
%g6 = ConvWeightGrad(%img, %y) strides=[2,1] dilations=[1,2] pads_begin=[1,0] pads_end=[0,1] group=2 shape=[8,2,3,3]
%g7 = MaxPoolGrad(%mp, %img) kernel=[2,2] strides=[2,2] dilations=[1,1] pads_begin=[0,1] pads_end=[0,0] output=[3,4]
%g8 = AveragePoolGrad(%ap) kernel=[2,2] strides=[2,2] dilations=[1,2] pads_begin=[0,0] pads_end=[0,0] output=[3,2] count_include_pad=true shape=[2,4,6,6]
%g9 = InterpolateGrad(%ip) axis=2 in_size=6 out_size=2 taps=2 index=[0,1,4,5] weight=[0.5,0.5,0.25,0.75]
%g10 = SoftmaxGrad(%x, %n0) axis=1
%g11 = LogSoftmaxGrad(%x, %n1) axis=1
%g12, %g13, %g14 = LayerNormGrad(%x, %x, %n3, %n4, %x1) axis=1 epsilon=0.001
%g15 = LayerNormGrad(%x, %x, %n3, %n4) axis=1
%g16, %g17, %g18 = BatchNormGrad(%img, %img, %run, %n6, %n7)
%lg0, %lg1, %lg2, %lg3 = LstmGrad(%ly, %wl, %h0, %h0, %ly, %lc, %lg, %lc) reverse=true
%gg0, %gg1, %gg2, %gg3 = GruGrad(%gy, %wg, %h0, %gy, %gq) linear_before_reset=true
%g22 = GeluGrad(%x, %x) tanh=true
%g23 = SiluGrad(%x, %x)
%g24, %g25 = RmsNormGrad(%x, %x, %n9, %x1) axis=1
%g26, %g27, %g28, %g29 = BatchNormGrad(%img, %img, %run, %n6, %n7, %n10) activation=relu
%ng0, %ng1, %ng2, %ng3 = NormConvGrad(%y, %img, %run, %run, %nc1, %nc2, %w) strides=[2,1] dilations=[1,2] pads_begin=[1,0] pads_end=[0,1] group=2 activation=clip hi=6
%g30 = AttentionGrad(%at0, %qkv, %at0, %at1) scale=0.5 causal=true token_major=true packed=true
%g31, %g32, %g33 = AttentionGrad(%at2, %heads, %heads, %heads, %at2, %at3, %mask)
%g19 = CrossEntropyGrad(%ce, %x, %ids) ignore_index=1
%g20 = NllLossGrad(%nll, %ids) shape=[2,3]
%g21 = RoiPoolGrad(%roi, %img, %rois, %images) mode=max height=2 width=3 sampling_ratio=2 scale=0.5 half_pixel=true
%call0, %call1 = Call(%x, %ids) function=7 outputs=[0,1,3,7,0]
%hook0 = Hook(%g0, %x) function=8 outputs=[0,2,2,3]

update:
%a0 = Assign(%run, %n6)
%a1 = AssignAdd(%store, %g0)
%a2, %a3, %a4 = OptimizerUpdate(%p, %g0, %lr, %one, %m, %v) kind=adamw weight_decay=0.01 beta2=0.99
return y=%y
return loss=%ce role=loss
return "a name"=%g0 role=gradient
return run=%a0 role=state
)";

}  // namespace trainrt

#endif  // TRAINRT_TESTS_GRAPH_EVERY_OP_H_
