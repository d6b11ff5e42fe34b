// Turns training-mode nodes into their inference form. Private to the frontend.
#ifndef TRAINRT_FRONTEND_INFERENCE_FORM_H_
#define TRAINRT_FRONTEND_INFERENCE_FORM_H_

namespace onnx {
class ModelProto;
}

namespace trainrt {

/// BatchNormalization nodes of which only Y is read lose their statistics outputs and
/// `training_mode`; Dropout nodes lose their `training_mode` input. Any consumer of the file then
/// computes what eval mode computes here; train mode does not depend on what the file says.
void to_inference_form(onnx::ModelProto& model);

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_INFERENCE_FORM_H_
