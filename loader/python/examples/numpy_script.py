"""NumPy alone: softmax regression on the pixels. Batches are arrays; neither torch nor anything else is needed.

    python numpy_script.py --data packed
"""
import argparse

import numpy

import ffload


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="packed", help="a packed set with train/ and val/")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.01)
    args = parser.parse_args()

    train = ffload.Loader(args.data + "/train", args.batch, augment="flip", drop_last=True, as_="numpy")
    val = ffload.Loader(args.data + "/val", args.batch, shuffle=False, as_="numpy")
    with ffload.Dataset(args.data + "/train") as dataset:
        weights = numpy.zeros((numpy.prod(dataset.shape), len(dataset.classes)), "float32")

    for epoch in range(args.epochs):
        for images, labels in train:
            pixels = images.reshape(len(images), -1)
            scores = pixels @ weights
            scores = numpy.exp(scores - scores.max(1, keepdims=True))
            scores /= scores.sum(1, keepdims=True)
            scores[numpy.arange(len(labels)), labels] -= 1 # the gradient of the loss
            weights -= args.lr / len(labels) * (pixels.T @ scores)
        right = sum(((images.reshape(len(images), -1) @ weights).argmax(1) == labels).sum() for images, labels in val)
        seen = len(ffload.Dataset(args.data + "/val"))
        print(f"epoch {epoch + 1}: accuracy {right / seen:.4f}", flush=True)


if __name__ == "__main__":
    main()
