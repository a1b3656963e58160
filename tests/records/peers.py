"""Small sets of images written by the loaders whose formats ffpack reads, each with what the loader itself reads back: NAME/... and
NAME.truth, lines "key<TAB>label<TAB>mode<TAB>WIDTHxHEIGHT<TAB>pixels in hexadecimal", or a JPEG's bytes decoded by Pillow.

Usage: PYTHON peers.py PEER FOLDER SEED      PEER: streaming, litdata, ffcv, tfrecord, parquet; PYTHON has it from PyPI

The sets below peers/ are those of seed 1, made by mosaicml-streaming 0.13.0, litdata 0.2.61, ffcv 1.0.2, pyarrow 17.0.0 and tfrecord
1.14.6, which has the protobuf classes of TensorFlow; those of ffcv are compressed with xz."""
import io
import json
import os
import random
import shutil
import sys
import tempfile

from PIL import Image


def pictures(rng, count):
    """Smooth images of different sizes."""
    found = []
    for _ in range(count):
        small = Image.frombytes("RGB", (3, 3), bytes(rng.randrange(256) for _ in range(27)))
        found.append(small.resize((rng.randint(6, 12), rng.randint(6, 12)), Image.BILINEAR))
    return found


def encoded(picture, form):
    out = io.BytesIO()
    picture.save(out, form)
    return out.getvalue()


def write_truth(path, rows):
    """rows: (key, label, image of Pillow)"""
    with open(path + ".truth", "w") as file:
        for key, label, picture in rows:
            file.write("\t".join([key, str(label), picture.mode, "%dx%d" % picture.size, picture.tobytes().hex()]) + "\n")


def streaming(folder, rng):
    import numpy
    from streaming import MDSWriter, StreamingDataset
    names = ["zebra", "ant", "bee"]
    for name, columns, compression in (("mds-jpeg", {"image": "jpeg", "label": "int", "id": "str"}, None),
                                       ("mds-png-zstd", {"image": "png", "label": "str"}, "zstd:7"),
                                       ("mds-pil", {"picture": "pil", "y": "uint8", "weight": "float32"}, None),
                                       ("mds-bytes", {"x": "bytes", "y": "str_int"}, None),
                                       ("mds-array", {"image": "ndarray:uint8:9,11,3", "label": "int"}, None),
                                       ("mds-arrays", {"img": "ndarray", "score": "float32", "y": "int16"}, "gz")):
        place = os.path.join(folder, name)
        image, label = [c for c in columns if c in ("image", "picture", "x", "img")][0], [c for c in columns if c in ("label", "y")][0]
        with MDSWriter(out=place, columns=columns, compression=compression, size_limit=1200, hashes=["sha1"]) as writer:
            for i, picture in enumerate(pictures(rng, 7)):
                if columns[image] == "ndarray:uint8:9,11,3":
                    picture = numpy.asarray(picture.resize((11, 9)))
                elif columns[image] == "ndarray":  # channels first and last, and one channel
                    picture = (numpy.asarray(picture), numpy.asarray(picture).transpose(2, 0, 1).copy(), numpy.asarray(picture)[:, :, 1].copy())[i % 3]
                sample = {image: encoded(picture, "PNG") if columns[image] == "bytes" else picture,
                          label: names[i % 3] if columns[label] == "str" else i % 5}
                writer.write({**{"id": "x%d" % i, "weight": 0.5, "score": 0.25}, **sample})
        copy = os.path.join(tempfile.mkdtemp(), name)  # where Streaming unpacks shards
        shutil.copytree(place, copy)
        dataset = StreamingDataset(local=copy, shuffle=False, batch_size=1)
        keys = [((shard.zip_data or shard.raw_data).basename, i) for shard in dataset.shards for i in range(shard.samples)]
        rows = []
        for number, key in enumerate(keys):
            sample = dataset[number]
            picture = sample[image]
            if isinstance(picture, bytes):
                picture = Image.open(io.BytesIO(picture))
            elif isinstance(picture, numpy.ndarray):
                picture = Image.fromarray(picture.transpose(1, 2, 0) if picture.shape[0] == 3 else picture)
            rows.append(("%s:%d" % key, sample[label], picture.convert("RGB")))
        write_truth(place, rows)
        shutil.rmtree(os.path.dirname(copy))


def take(item):
    return item


def litdata(folder, rng):
    from litdata import StreamingDataset, optimize
    for name, compression in (("litdata-dict", None), ("litdata-zstd", "zstd")):
        place = os.path.join(folder, name)
        samples = [{"image": picture, "label": i % 4, "caption": "a picture"} for i, picture in enumerate(pictures(rng, 7))]
        optimize(fn=take, inputs=samples, output_dir=place, chunk_size=3, num_workers=1, compression=compression)
        with open(os.path.join(place, "index.json")) as file:
            chunks = json.load(file)["chunks"]
        keys = ["%s:%d" % (c["filename"], i) for c in chunks for i in range(c["chunk_size"])]
        copy = os.path.join(tempfile.mkdtemp(), name)  # where LitData unpacks chunks
        shutil.copytree(place, copy)
        write_truth(place, [(key, int(s["label"]), s["image"].convert("RGB")) for key, s in zip(keys, StreamingDataset(copy))])
        shutil.rmtree(os.path.dirname(copy))


def ffcv(folder, rng):
    import numpy
    from ffcv.fields import IntField, RGBImageField
    from ffcv.reader import Reader
    from ffcv.writer import DatasetWriter
    for name, options in (("ffcv-raw", {"write_mode": "raw"}), ("ffcv-jpg", {"write_mode": "jpg", "jpeg_quality": 90}),
                          ("ffcv-mixed", {"write_mode": "proportion", "compress_probability": 0.5})):
        path = os.path.join(folder, name + ".beton")
        images = pictures(rng, 7)
        numpy.random.seed(3)
        samples = [(numpy.array(picture), i % 4) for i, picture in enumerate(images)]
        DatasetWriter(path, {"image": RGBImageField(**options), "label": IntField()}, num_workers=2, page_size=1 << 21).from_indexed_dataset(samples, chunksize=2)
        reader = Reader(path)
        sizes = {int(entry["ptr"]): int(entry["size"]) for entry in reader.alloc_table}
        data = numpy.fromfile(path, "u1")
        rows = []
        for i, row in enumerate(reader.metadata):
            field, label = row["f0"], int(row["f1"])
            stored = data[int(field["data_ptr"]):][:sizes[int(field["data_ptr"])]].tobytes()
            size = int(field["width"]), int(field["height"])
            picture = Image.open(io.BytesIO(stored)) if field["mode"] == 0 else Image.frombytes("RGB", size, stored)
            rows.append(("%s:%d" % (os.path.basename(path), i), label, picture.convert("RGB")))
        write_truth(os.path.join(folder, name), rows)


def tfrecord(folder, rng):
    import tfrecord as package
    path = os.path.join(folder, "examples.tfrecord")
    writer = package.TFRecordWriter(path)
    names = ["zebra", "ant", "bee"]
    for i, picture in enumerate(pictures(rng, 7)):
        writer.write({"image/encoded": (encoded(picture, "PNG" if i % 2 else "JPEG"), "byte"), "image/class/label": (i % 5, "int"),
                      "image/class/text": (names[i % 3].encode(), "byte"), "image/object/bbox/xmin": ([0.5, 0.25], "float")})
    writer.close()
    description = {"image/encoded": "byte", "image/class/label": "int"}
    rows = []
    for i, sample in enumerate(package.tfrecord_loader(path, None, description)):
        rows.append(("examples.tfrecord:%d" % i, int(sample["image/class/label"][0]), Image.open(io.BytesIO(bytes(sample["image/encoded"]))).convert("RGB")))
    write_truth(os.path.join(folder, "examples"), rows)


def parquet(folder, rng):
    """As the library datasets writes images: a struct of bytes and path, and the features in the metadata."""
    import pyarrow
    import pyarrow.parquet
    names = ["zebra", "ant", "bee"]
    for name, classes, options in (("parquet-hf", True, {}), ("parquet-zstd-v2", True, {"compression": "zstd", "data_page_version": "2.0", "row_group_size": 3}),
                                   ("parquet-gzip-small", False, {"compression": "gzip", "data_page_size": 500, "write_batch_size": 1}),
                                   ("parquet-plain", False, {"compression": "none", "use_dictionary": False, "store_schema": False}),
                                   ("parquet-snappy-bmp", False, {"row_group_size": 4, "write_page_checksum": True}),  # bytes that snappy copies
                                   ("parquet-dictionary", True, {"data_page_version": "2.0", "compression": "snappy", "row_group_size": 5})):
        images, label, rows = pictures(rng, 9), [], []
        for i, picture in enumerate(images):
            label.append(i % 3 if classes else names[i % 3])
            rows.append(("%s.parquet:%d" % (name, i), names[i % 3], picture))
        if name == "parquet-dictionary":  # the same few images
            rows = [(key, one, images[i % 2]) for i, (key, one, _) in enumerate(rows)]
        if name == "parquet-snappy-bmp":
            rows = [(key, one, picture.quantize(3).convert("RGB").resize((40, 30), Image.NEAREST)) for key, one, picture in rows]
        form = "BMP" if name == "parquet-snappy-bmp" else "PNG"
        storage = pyarrow.array([{"bytes": encoded(picture, form), "path": None if i % 4 else "x%d.png" % i} for i, (_, _, picture) in enumerate(rows)],
                                pyarrow.struct({"bytes": pyarrow.binary(), "path": pyarrow.string()}))
        table = pyarrow.table({"caption": pyarrow.array(["a"] * len(rows)), "image": storage, "label": pyarrow.array(label), "score": pyarrow.array([0.5] * len(rows)),
                               "boxes": pyarrow.array([[1, 2]] * len(rows))})
        if classes:
            features = {"caption": {"dtype": "string", "_type": "Value"}, "image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
            table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
        path = os.path.join(folder, name + ".parquet")
        pyarrow.parquet.write_table(table, path, **options)
        for row, found in zip(rows, pyarrow.parquet.read_table(path).to_pylist()):
            with Image.open(io.BytesIO(found["image"]["bytes"])) as opened:
                assert opened.convert("RGB").tobytes() == row[2].tobytes() and found["label"] in (row[1], names.index(row[1]))
        write_truth(os.path.join(folder, name), rows)


if __name__ == "__main__":
    os.makedirs(sys.argv[2], exist_ok=True)
    {"streaming": streaming, "litdata": litdata, "ffcv": ffcv, "tfrecord": tfrecord, "parquet": parquet}[sys.argv[1]](sys.argv[2], random.Random(int(sys.argv[3])))
