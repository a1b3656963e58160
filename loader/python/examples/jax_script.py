"""JAX: a small convolutional net, its step compiled. Batches are made on the CPU; JAX takes them to its device.

    python jax_script.py --data packed
"""
import argparse
import functools

import jax
import jax.numpy as jnp

import ffload


def initial(key, channels, classes, width=32):
    keys = jax.random.split(key, 3)
    normal = lambda key, shape, fan_in: jax.random.normal(key, shape) * (2 / fan_in) ** 0.5
    return [normal(keys[0], (width, channels, 3, 3), 9 * channels), normal(keys[1], (2 * width, width, 3, 3), 9 * width),
            normal(keys[2], (2 * width, classes), 2 * width)]


def forward(weights, images):
    """images: [N, C, H, W]; returns [N, classes]."""
    x = images
    for kernel in weights[:2]:
        x = jax.nn.relu(jax.lax.conv_general_dilated(x, kernel, (2, 2), "SAME"))
    return x.mean((2, 3)) @ weights[2]


def loss_of(weights, images, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(forward(weights, images)), labels[:, None], 1).mean()


@functools.partial(jax.jit, donate_argnums=0)
def step(weights, images, labels, lr):
    loss, gradients = jax.value_and_grad(loss_of)(weights, images, labels)
    return [w - lr * g for w, g in zip(weights, gradients)], loss


@jax.jit
def count_right(weights, images, labels):
    return (forward(weights, images).argmax(1) == labels).sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="packed", help="a packed set with train/ and val/")
    parser.add_argument("--augment", default="crop=4,flip")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()

    dataset = ffload.Dataset(args.data + "/train")
    train = ffload.Loader(dataset, args.batch, augment=args.augment, drop_last=True, as_="jax")
    val = ffload.Loader(args.data + "/val", args.batch, shuffle=False, as_="jax")
    seen = len(ffload.Dataset(args.data + "/val"))

    channels = dataset.shape[0] if dataset.layout == "chw" else dataset.shape[2]
    weights = initial(jax.random.PRNGKey(0), channels, len(dataset.classes))
    for epoch in range(args.epochs):
        for images, labels in train:
            weights, loss = step(weights, images, labels, args.lr)
        right = sum(count_right(weights, images, labels) for images, labels in val)
        print(f"epoch {epoch + 1}: loss {loss:.4f}, accuracy {right / seen:.4f}", flush=True)


if __name__ == "__main__":
    main()
