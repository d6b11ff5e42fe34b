#ifndef TRAINRT_KERNELS_CUDA_DEVICE_RECURRENT_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_RECURRENT_H_

namespace trainrt::cuda {

/// One step of a layer: rows of one batch. Gates are i o f g (Lstm) or z r n q (Gru).
struct CellArguments {
  const void* x;          // pre-activations of this step [batch, 4 or 3 hidden]
  const void* product;    // h' R^T of it
  const void* product_n;  // Gru with the reset first: q Rn^T
  const void* bias;       // Gru
  const void* h;          // the state before
  const void* c;          // Lstm: the cell before
  void* y;
  void* c_out;
  void* gates;
  void* q;  // Gru with the reset first: r h'
  long long batch, hidden;
};

/// One step back. dh is the sum of what came back through the state: `through`, and products.
struct CellGradArguments {
  const void* dy;
  const void* dc_given;  // Lstm: of the cells of this step; null: none
  const void* gates;
  const void* h;  // the state before
  const void* c;  // Lstm: the cell of this step, and the one before
  const void* c_before;
  const void* back[2];  // products of the step behind; null: none
  const void* dq;       // Gru with the reset first
  void* through;        // Gru: dh that passes by the gates
  void* dc;             // Lstm
  void* dx;
  void* d_zr;  // Gru: gradients of the recurrent parts of the gates
  void* d_n;
  void* q;  // Gru with the reset first: of this step
  long long batch, hidden;
  int linear;  // Gru: the reset gate scales the product
};

/// out = the sum of what is there.
struct CellSumArguments {
  const void* terms[3];
  void* out;
  long long size;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_RECURRENT_H_
