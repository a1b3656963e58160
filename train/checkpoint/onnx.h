/* A trained model as an ONNX file (onnx.proto of opset 17, which every runtime of 2022 and later
 * reads): "images" [N, channels, height, width] f32, normalized as the training images were, to
 * "logits" [N, classes] f32. Initializers are the parameters, in f32, by torchvision's names;
 * dropout is left out. The operators are torch's: a GELU is its erf form, an average pool that
 * does not cover the image two matrix products.
 *
 * Thread rule: the model's thread. */
#ifndef FF_TRAIN_ONNX_H
#define FF_TRAIN_ONNX_H

#include "format/safetensors.h"
#include "train/net/model.h"

/* Appends the whole file. `facts`: its metadata_props, among them how this program evaluates: after
 * `transforms` the short side becomes `resize`, the centre `crop`, height x width, is cut out
 * ("" = not), and logits are the mean of so many `views`. FF_USAGE where it would exceed protobuf's
 * 2 GiB; FF_IO, FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_onnx_write(struct ff_file *file, ff_model *model,
                                    const ff_safetensors_fact *facts, size_t fact_count,
                                    ff_error *error);

#endif
