"""Plain writers of the files that other loaders write: TFRecords, MDS, LitData, .beton, parquet. Each has a place where a test can break them."""
import gzip
import json
import os
import struct

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# ---- TFRecords ---------------------------------------------------------------------------------------

def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def message(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(value, packed=True):
    """bytes, text, whole numbers, floats, or lists of them"""
    values = value if isinstance(value, list) else [value]
    if values and isinstance(values[0], float):
        return message(2, message(1, struct.pack("<%df" % len(values), *values)))
    if values and isinstance(values[0], int):
        return message(3, message(1, b"".join(map(varint, values))) if packed else b"".join(varint(8) + varint(v) for v in values))
    return message(1, b"".join(message(1, v.encode() if isinstance(v, str) else v) for v in values))


def example(features, packed=True):
    return message(1, b"".join(message(1, message(1, key.encode()) + message(2, feature(value, packed))) for key, value in features.items()))


def record(data):
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))


def write_tfrecord(path, examples, packed=True):
    data = b"".join(record(e if isinstance(e, bytes) else example(e, packed)) for e in examples)
    with gzip.open(path, "wb") if path.endswith(".gz") else open(path, "wb") as file:
        file.write(data)


# ---- chunks ------------------------------------------------------------------------------------------

def pil(mode, width, height, pixels):
    return struct.pack("<III", width, height, len(mode)) + mode.encode() + pixels


def chunk(samples, sizes, config=b""):
    """samples: lists of the columns' bytes; sizes: the columns' fixed sizes, or None"""
    rows = []
    for values in samples:
        variable = [len(v) for v, size in zip(values, sizes) if size is None]
        rows.append(struct.pack("<%dI" % len(variable), *variable) + b"".join(values))
    at = 4 + 4 * (len(rows) + 1) + len(config)
    offsets = [at]
    for row in rows:
        offsets.append(offsets[-1] + len(row))
    return struct.pack("<%dI" % (len(rows) + 2), len(rows), *offsets) + config + b"".join(rows)


WIDTHS = {"int": 8, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "float32": 4}


def write_mds(folder, columns, shards, compression=None, change=None):
    """columns: {name: encoding}; shards: [[{name: bytes}]]; change(index) edits the index before it is written."""
    import zstandard
    os.makedirs(folder, exist_ok=True)
    names = sorted(columns)
    sizes = [WIDTHS.get(columns[name]) for name in names]
    entries = []
    for i, samples in enumerate(shards):
        data = chunk([[sample[name] for name in names] for sample in samples], sizes, b'{"format": "mds"}')
        base, packed = "shard.%05d.mds" % i, None
        entries.append({"column_encodings": [columns[n] for n in names], "column_names": names, "column_sizes": sizes, "compression": compression,
                        "format": "mds", "hashes": [], "raw_data": {"basename": base, "bytes": len(data), "hashes": {}}, "samples": len(samples),
                        "size_limit": 1 << 26, "version": 2, "zip_data": None})
        if compression:
            packed = zstandard.compress(data) if compression.startswith("zstd") else gzip.compress(data)
            base += "." + compression.split(":")[0]
            entries[-1]["zip_data"] = {"basename": base, "bytes": len(packed), "hashes": {}}
        with open(os.path.join(folder, base), "wb") as file:
            file.write(packed or data)
    index = {"shards": entries, "version": 2}
    if change:
        change(index)
    with open(os.path.join(folder, "index.json"), "w") as file:
        json.dump(index, file)


LEAF = {"type": None, "context": None, "children_spec": []}


def write_litdata(folder, formats, chunks, keys=None, compression=None, change=None):
    """formats: the leaves' serializers; keys: of a dict, or None for a tuple; chunks: [[values]]"""
    import zstandard
    os.makedirs(folder, exist_ok=True)
    node = {"type": "builtins.dict" if keys else "builtins.tuple", "context": json.dumps(keys or None), "children_spec": [LEAF] * len(formats)}
    entries = []
    for i, samples in enumerate(chunks):
        data = chunk(samples, [None] * len(formats))
        name = "chunk-0-%d.%sbin" % (i, compression + "." if compression else "")
        with open(os.path.join(folder, name), "wb") as file:
            file.write(zstandard.compress(data) if compression else data)
        entries.append({"chunk_bytes": len(data), "chunk_size": len(samples), "dim": None, "filename": name})
    index = {"chunks": entries, "config": {"chunk_bytes": 1 << 26, "chunk_size": None, "compression": compression, "data_format": formats,
                                           "data_spec": json.dumps([1, node]), "encryption": None, "item_loader": "PyTreeLoader"}, "updated_at": "1"}
    if change:
        change(index)
    with open(os.path.join(folder, "index.json"), "w") as file:
        json.dump(index, file)


# ---- .beton ------------------------------------------------------------------------------------------

PAGE = 1 << 21
TYPES = {"float": (0, "<d"), "int": (1, "<q"), "image": (2, None), "bytes": (3, None)}


def write_beton(path, fields, rows, shuffle=None, version=2, cut=0):
    """fields: {name: type}; rows: [{name: value}], an image ("jpg", bytes) or ("raw", width, height, pixels); shuffle reorders the allocation table."""
    place = (24 + len(fields) * 1041 + len(rows) * 64 + PAGE - 1) // PAGE * PAGE
    pages, table, metadata = b"", [], b""
    alignment = max(8 if kind in ("float", "int") else 1 for kind in fields.values())
    for i, row in enumerate(rows):
        data = b""
        for name, kind in fields.items():
            value = row[name]
            if kind in ("float", "int"):
                data += b"\0" * (-len(data) % 8) + struct.pack(TYPES[kind][1], value)
                continue
            content = value if kind == "bytes" else value[-1]
            table.append(struct.pack("<QQQ", i, place + len(pages), len(content)))
            if kind == "bytes":
                data += struct.pack("<QQ", place + len(pages), len(content))
            else:
                width, height = (5, 7) if value[0] == "jpg" else value[1:3]
                data += struct.pack("<BHHQ", 0 if value[0] == "jpg" else 1, width, height, place + len(pages))
            pages += content
        metadata += data + b"\0" * (-len(data) % alignment)
    if shuffle:
        shuffle(table)
    head = b"".join(struct.pack("<B16s1024s", TYPES[kind][0], name.encode(), b"") for name, kind in fields.items())
    end = place + (len(pages) + PAGE - 1) // PAGE * PAGE
    data = struct.pack("<HHIQQ", version, len(fields), PAGE, len(rows), end) + head + metadata
    data = data.ljust(place, b"\0") + pages
    data = data.ljust(end, b"\0") + b"".join(table)
    with open(path, "wb") as file:
        file.write(data[:len(data) - cut])


# ---- parquet -----------------------------------------------------------------------------------------

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12


def thrift(*fields):
    """A struct of (number, type, value) in the compact protocol; a list's value is (type, [values])."""
    out, last = b"", 0
    for number, kind, value in fields:
        out += bytes([(number - last) << 4 | kind]) + thrift_value(kind, value)
        last = number
    return out + b"\0"


def thrift_value(kind, value):
    if kind in (I32, I64):
        return varint(value << 1 ^ value >> 63)
    if kind == BINARY:
        value = value.encode() if isinstance(value, str) else value
        return varint(len(value)) + value
    if kind == LIST:
        return bytes([0xF0 | value[0]]) + varint(len(value[1])) + b"".join(thrift_value(value[0], v) for v in value[1])
    return value


def page(levels, most, data, codec=0, compress=None, encoding=0, values=None):
    """A page of version 1: a run of one for each level"""
    body = b"".join(b"\2" + bytes([level]) for level in levels)
    body = (struct.pack("<I", len(body)) + body if most else b"") + data
    packed = compress(body) if compress else body
    head = thrift((1, I32, 0), (2, I32, len(body)), (3, I32, len(packed)),
                  (5, STRUCT, thrift((1, I32, len(levels) if values is None else values), (2, I32, encoding), (3, I32, 3), (4, I32, 3))))
    return head + packed


def write_parquet(path, rows, names=None, codec=0, compress=None, encoding=0, repetition=1, label_type=2, values=None, more=0, footer=None):
    """rows: [(bytes or None, label or None)], an image None is null, "" a path alone; label a whole number or, for label_type 6, bytes"""
    def plain(value):
        return struct.pack("<I", len(value)) + value if isinstance(value, bytes) else struct.pack("<q", value)
    images = [(2 if isinstance(image, bytes) else 1 if image == "" else 0, image) for image, _ in rows]
    labels = [(0 if label is None else 1, label) for _, label in rows]
    paths = [(0 if image is None else 1, None) for image, _ in rows]
    data, chunks = b"PAR1", []
    for column, (kind, levels, most) in {"image.bytes": (6, images, 2), "image.path": (6, paths, 2), "label": (label_type, labels, 1)}.items():
        begin = len(data)
        data += page([level for level, _ in levels], most, b"".join(plain(v) for level, v in levels if level == most), codec, compress, encoding,
                     values if column == "image.bytes" else None)
        meta = thrift((1, I32, kind), (2, LIST, (I32, [0, 3])), (3, LIST, (BINARY, column.split("."))), (4, I32, codec), (5, I64, len(rows)),
                      (6, I64, len(data) - begin), (7, I64, len(data) - begin + more), (9, I64, begin))
        chunks.append(thrift((2, I64, begin), (3, STRUCT, meta)))
    schema = [thrift((4, BINARY, "schema"), (5, I32, 2)), thrift((3, I32, 1), (4, BINARY, "image"), (5, I32, 2)),
              thrift((1, I32, 6), (3, I32, repetition), (4, BINARY, "bytes")), thrift((1, I32, 6), (3, I32, 1), (4, BINARY, "path"), (6, I32, 0)),
              thrift((1, I32, label_type), (3, I32, 1), (4, BINARY, "label"), *[(6, I32, 0)] * (label_type == 6))]
    metadata = []
    if names is not None:
        value = json.dumps({"info": {"features": {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}}})
        metadata = [thrift((1, BINARY, "huggingface"), (2, BINARY, value))]
    end = thrift((1, I32, 2), (2, LIST, (STRUCT, schema)), (3, I64, len(rows)),
                 (4, LIST, (STRUCT, [thrift((1, LIST, (STRUCT, chunks)), (2, I64, len(data)), (3, I64, len(rows)))])), (5, LIST, (STRUCT, metadata)))
    end = footer(end) if footer else end
    with open(path, "wb") as file:
        file.write(data + end + struct.pack("<I", len(end)) + b"PAR1")
