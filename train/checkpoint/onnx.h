/* A trained model as an ONNX file (onnx.proto of opset 17, which every runtime of 2022 and later
 * reads): "images" [N, channels, height, width] f32, normalized as the training images were, to
 * "logits" [N, classes] f32. Initializers are the parameters, in f32, by torchvision's names;
 * dropout is left out. The operators follow torch: GELU is written in its erf form, and an average
 * pool that does not cover the image as two matrix products.
 *
 * Thread rule: the model's thread. */
#ifndef FF_TRAIN_ONNX_H
#define FF_TRAIN_ONNX_H

#include "format/weights/safetensors.h"
#include "train/net/model.h"

/* Appends the whole file to `file`. `facts`: its metadata_props. They record, among others, how
 * this program evaluates: after `transforms` the short side is resized to `resize`, the centre
 * `crop`, height x width, is cut out ("" = not), and logits are the mean of `views` views. FF_USAGE
 * if the file would exceed protobuf's 2 GiB; FF_IO, FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_onnx_write(struct ff_file *file, ff_model *model,
                                    const ff_safetensors_fact *facts, size_t fact_count,
                                    ff_error *error);

#endif
