#!/usr/bin/python3
"""A second reader of packed splits, written from format/FORMAT.md alone; it shares no code with the first.
Plain Python with numpy, xxhash and zstandard. Written to be read, not to be fast.

    second_reader.py SPLIT            checks every byte; one message and exit code 65 if invalid
    second_reader.py SPLIT --dump     the same, then prints JSON lines (as tests/programs/dump_set.c)
    second_reader.py SPLIT --npy FILE writes all tensors (n, ...) as stored; bf16 as u16
    second_reader.py SPLIT --shards   reads the shards alone, as if there were no index
    second_reader.py SPLIT --index FILE  writes the index that the shards give
"""
import json
import os
import re
import struct
import sys
import zlib

import numpy
import xxhash
import zstandard

HEADER, FOOTER, RECORD, BLOCK = 4096, 256, 64, 65536
BYTES = {"u8": 1, "u16": 2, "f16": 2, "bf16": 2, "f32": 4, "i32": 4, "i64": 8}
NUMPY = {"u8": "<u1", "u16": "<u2", "f16": "<f2", "bf16": "<u2", "f32": "<f4"}
FEATURES = {b"zstd", b"variable-size", b"wide-labels"}
FILTERS = ["none", "shuffle", "table", "delta"]
NEWEST = 1  # version


class Wrong(Exception):
    pass


def want(condition, sentence, *values):
    if not condition:
        raise Wrong(sentence % values)


def align(value, to):
    return (value + to - 1) // to * to


def xxh(data):
    return xxhash.xxh3_64_intdigest(bytes(data))


def xxh128(data):
    return xxhash.xxh3_128_digest(bytes(data))


def zero(data):
    return not any(data)


# ---- metadata ------------------------------------------------------------------------------------

ESCAPED = re.compile(rb"(?:[\x21-\x24\x26-\x7e]|%[0-9A-F]{2})*\Z")
NUMBER = re.compile(rb"(?:0|[1-9][0-9]*)\Z")


def unescape(word, where):
    want(ESCAPED.match(word), "%s: bad escape in %r", where, word)
    out = bytearray()
    at = 0
    while at < len(word):
        if word[at] == 0x25:
            value = int(word[at + 1 : at + 3], 16)
            want(value and (not 0x20 < value < 0x7F or value == 0x25), "%s: needless escape", where)
            out.append(value)
            at += 3
        else:
            out.append(word[at])
            at += 1
    return bytes(out)


def number(word, limit, where):
    want(NUMBER.match(word) and int(word) <= limit, "%s: bad number %r", where, word)
    return int(word)


class Field:
    def __init__(self, name, kind, dtype, width):
        self.name, self.kind, self.dtype, self.width, self.classes = name, kind, dtype, width, []
        self.bytes = width * BYTES[dtype]
        self.wide = self.bytes > 16


class Metadata:
    """The text, parsed and checked."""

    ORDER = ["required", "optional", "split", "sample", "shards", "generation", "compression",
             "table", "mean", "std", "transform", "field", "provenance"]
    ONCE = {"split", "sample", "shards", "compression", "mean", "std"}

    def __init__(self, text):
        want(len(text) <= 64 << 20 and text.endswith(b"\n"), "metadata: too long or cut")
        self.text = text
        self.required, self.optional, self.tables, self.transforms = [], [], [], []
        self.fields, self.provenance, self.hashed = [], [], b""
        self.level = self.filter = self.split = self.dtype = self.items = None
        self.mean, self.std, self.generations = [], [], []
        lines = text[:-1].split(b"\n")
        want(lines[0] in [b"ffpack-metadata %d" % v for v in range(NEWEST + 1)],
             "metadata: version line is %r", lines[0])
        self.version = int(lines[0][16:])
        rank, seen, pending = 0, set(), 0
        for line in lines[1:]:
            where = "metadata line %r" % line[:60]
            if pending:
                want(line.startswith(b"class "), "%s: wanted a class", where)
                self.fields[-1].classes.append(unescape(line[6:], where))
                self.hashed += line + b"\n"
                pending -= 1
                continue
            if line.startswith(b"x-"):
                continue
            word, *values = line.split(b" ")
            word = word.decode("latin-1")
            want(word in self.ORDER, "%s: unknown word", where)
            want(self.ORDER.index(word) >= rank, "%s: out of order", where)
            rank = self.ORDER.index(word)
            want(word not in self.ONCE or word not in seen, "%s: twice", where)
            seen.add(word)
            if word in ("mean", "std", "transform"):
                self.hashed += line + b"\n"
            pending = getattr(self, "line_" + word)(values, where) or 0
        want(not pending, "metadata: classes are missing")
        want({"split", "sample", "shards"} <= seen, "metadata: a line is missing")
        self.check(seen)

    @staticmethod
    def named(values, names, where):
        want(len(values) == len(names), "%s: wanted %s", where, names)
        out = []
        for value, name in zip(values, names):
            head = name.encode() + b"="
            want(value.startswith(head), "%s: wanted %s=", where, name)
            out.append(value[len(head) :])
        return out

    @staticmethod
    def choice(word, words, where):
        want(word.decode("latin-1") in words, "%s: %r is unknown", where, word)
        return word.decode()

    def line_required(self, values, where):
        want(len(values) == 1, "%s: wanted one name", where)
        name = unescape(values[0], where)
        want(name in FEATURES, "needs the feature %r, which this reader lacks", name)
        self.required.append(name)

    def line_optional(self, values, where):
        want(len(values) == 1, "%s: wanted one name", where)
        self.optional.append(unescape(values[0], where))

    def line_split(self, values, where):
        want(len(values) == 1, "%s: wanted one name", where)
        self.split = unescape(values[0], where)

    def line_sample(self, values, where):
        names = ["dtype", "layout", "channels", "height", "width", "variable", "alignment"]
        d, l, c, h, w, v, a = self.named(values, names, where)
        self.dtype = self.choice(d, ["u8", "u16", "f16", "bf16", "f32"], where)
        self.layout = self.choice(l, ["chw", "hwc"], where)
        self.channels = number(c, 4096, where)
        self.height, self.width = number(h, 1 << 20, where), number(w, 1 << 20, where)
        self.variable = number(v, 1, where)
        self.alignment = number(a, 4096, where)
        want(self.channels and self.height and self.width, "%s: empty shape", where)
        want(self.alignment in (64, 4096), "%s: alignment", where)

    def line_shards(self, values, where):
        i, s, b = self.named(values, ["items", "per_shard", "per_block"], where)
        self.items, self.per_shard, self.per_block = (number(x, 1 << 40, where) for x in (i, s, b))
        want(self.items and self.per_shard and self.per_block, "%s: zero", where)
        want(self.per_shard % self.per_block == 0, "%s: no multiple", where)
        self.count_shards(where)

    def line_generation(self, values, where):
        i, s, d = self.named(values, ["items", "shards", "id"], where)
        want(re.match(rb"[0-9a-f]{32}\Z", d), "%s: id", where)
        items = number(i, 1 << 40, where)
        before = self.generations[-1] if self.generations else (0, 0, b"")
        want(self.version >= 1 and before[0] < items < self.items, "%s: items", where)
        shards = before[1] + (items - before[0] - 1) // self.per_shard + 1
        want(number(s, 1000000, where) == shards, "%s: shards", where)
        self.generations.append((items, shards, bytes.fromhex(d.decode())))
        self.count_shards(where)

    def count_shards(self, where):
        items, shards, _ = self.generations[-1] if self.generations else (0, 0, b"")
        self.shards = shards + (self.items - items - 1) // self.per_shard + 1
        want(self.shards <= 1000000, "%s: too many shards", where)

    def place(self, k):
        """Of shard k: generation, first position, number of positions, items of the generation."""
        ends = self.generations + [(self.items, self.shards, b"")]
        g = next(i for i, (_, shards, _) in enumerate(ends) if k < shards)
        begin, shards, _ = ends[g - 1] if g else (0, 0, b"")
        first = begin + (k - shards) * self.per_shard
        return g, first, min(self.per_shard, ends[g][0] - first), range(begin, ends[g][0])

    def view(self, items, generations, provenance, sides, classes):
        """The text that an earlier generation would have."""
        out, fields, left = [], iter(classes), 0
        for line in self.text.split(b"\n"):
            if line.startswith(b"ffpack-metadata ") or line.startswith(b"x-"):
                continue
            if line.startswith(b"generation "):
                if generations:
                    out.append(line)
                generations -= generations > 0
            elif line.startswith(b"provenance "):
                if provenance:
                    out.append(line)
                provenance -= provenance > 0
            elif line.startswith(b"shards "):
                out.append(re.sub(rb"items=[0-9]+", b"items=%d" % items, line))
            elif line.startswith(b"field "):
                left = next(fields, 0)
                kept = left and b" kind=class " in line
                out.append(re.sub(rb"classes=[0-9]+$", b"classes=%d" % left, line) if kept else line)
                left = left if kept else 1 << 32
            elif line.startswith(b"class "):
                if left:
                    out.append(line)
                left -= left > 0
            elif line.startswith(b"sample ") and self.variable:
                out.append(re.sub(rb"height=[0-9]+ width=[0-9]+", b"height=%d width=%d" % sides, line))
            else:
                out.append(line)
        return out

    def continues(self, older):
        """Whether `older` is the generation that this one names."""
        g = len(older.generations)
        want(g < len(self.generations) and self.generations[g][2] == xxh128(older.text),
             "metadata: names no generation of this set")
        want(older.height <= self.height and older.width <= self.width, "metadata: sides shrank")
        shape = (older.items, g, len(older.provenance), (older.height, older.width), [len(f.classes) for f in older.fields])
        want(all(len(a.classes) <= len(b.classes) for a, b in zip(older.fields, self.fields)), "metadata: classes are missing")
        want(older.view(*shape) == self.view(*shape), "metadata: generations differ")

    def line_compression(self, values, where):
        want(len(values) == 3 and values[0] == b"zstd", "%s: unknown compression", where)
        level, name = self.named(values[1:], ["level", "filter"], where)
        self.level = number(level, 22, where)
        self.filter = self.choice(name, FILTERS, where)

    def line_table(self, values, where):
        digits = 512 * BYTES[self.dtype]
        want(len(values) == 1 and re.match(rb"[0-9a-f]{%d}\Z" % digits, values[0]), "%s", where)
        self.tables.append(bytes.fromhex(values[0].decode()))

    def floats(self, values, where):
        want(len(values) == self.channels, "%s: wanted a value a channel", where)
        want(all(re.match(rb"[0-9a-f]{8}\Z", v) for v in values), "%s: not 8 digits", where)
        out = [v.decode() for v in values]
        numbers = [struct.unpack(">f", bytes.fromhex(v))[0] for v in out]
        want(all(numpy.isfinite(n) for n in numbers), "%s: not finite", where)
        return out, numbers

    def line_mean(self, values, where):
        self.mean, _ = self.floats(values, where)

    def line_std(self, values, where):
        self.std, numbers = self.floats(values, where)
        want(all(n > 0 for n in numbers), "%s: not above 0", where)

    def line_transform(self, values, where):
        want(len(values) == 1, "%s: wanted one text", where)
        self.transforms.append(unescape(values[0], where))

    def line_field(self, values, where):
        n, k, d, w, c = self.named(values, ["name", "kind", "dtype", "width", "classes"], where)
        kind = self.choice(k, ["class", "multi-hot", "soft", "vector", "none"], where)
        dtype = self.choice(d, list(BYTES), where)
        width, classes = number(w, 1 << 24, where), number(c, 1 << 24, where)
        want({"class": width == 1 and dtype in ("i32", "i64"),
              "multi-hot": width >= 1 and dtype == "u8" and classes in (0, width),
              "soft": width >= 1 and dtype == "f32" and classes in (0, width),
              "vector": width >= 1,
              "none": width == 0}[kind], "%s: does not fit its kind", where)
        name = unescape(n, where)
        want(all(name != f.name for f in self.fields), "%s: a second of this name", where)
        self.fields.append(Field(name, kind, dtype, width))
        want(len(self.fields) <= 256, "more than 256 fields")
        return classes

    def line_provenance(self, values, where):
        want(len(values) == 2, "%s: wanted key and value", where)
        self.provenance.append([unescape(v, where) for v in values])

    def check(self, seen):
        want(("mean" in seen) == ("std" in seen), "metadata: mean without std")
        want(bool(self.tables) == (self.filter == "table"), "metadata: filter and table disagree")
        want(not self.tables or len(self.tables) == self.channels, "metadata: number of tables")
        for feature, used in ((b"zstd", self.level is not None), (b"variable-size", self.variable),
                              (b"wide-labels", any(f.wide for f in self.fields))):
            want(not used or feature in self.required, "metadata: %r is not required", feature)
        want(self.payload(self.height, self.width) <= 1 << 36, "metadata: samples too large")

    # Sizes.
    def tensor(self, h, w):
        return self.channels * h * w * BYTES[self.dtype]

    def wide_places(self, h, w):
        """(field, offset after the tensor's begin) of wide fields, and the payload's size."""
        at, out = self.tensor(h, w), []
        for field in self.fields:
            if field.wide:
                at = align(at, 16)
                out.append((field, at))
                at += field.bytes
        return out, at

    def payload(self, h, w):
        return self.wide_places(h, w)[1]

    def row_places(self):
        at, out = 0, []
        for field in self.fields:
            if not field.wide:
                out.append((field, at))
                at += align(field.bytes, 8)
        return out, at


# ---- structures ----------------------------------------------------------------------------------

RECORD_FIELDS = struct.Struct("<QQQQQQIIIHH")
FRAME_FIELDS = struct.Struct("<QQQQQQIIII")
ROW_FIELDS = struct.Struct("<QQQQQQI12s")


class Record:
    def __init__(self, data, where):
        (self.item, self.offset, self.bytes, self.checksum, self.source, self.key_offset,
         self.height, self.width, self.shard, self.key_bytes, reserved) = RECORD_FIELDS.unpack(data)
        want(reserved == 0, "%s: reserved bytes", where)

    def pack(self, key_offset):
        return RECORD_FIELDS.pack(self.item, self.offset, self.bytes, self.checksum, self.source,
                                  key_offset, self.height, self.width, self.shard,
                                  self.key_bytes, 0)


def sealed(data, magic, magic_at, used, where):
    want(data[magic_at : magic_at + 8] == magic, "%s: wrong magic", where)
    version = struct.unpack_from("<I", data, magic_at + 8)[0]
    want(version <= NEWEST, "%s: version %d", where, version)
    want(struct.unpack_from("<Q", data, len(data) - 8)[0] == xxh(data[:-8]), "%s: checksum", where)
    want(zero(data[used:-8]), "%s: reserved bytes are not zero", where)
    return version


def sections(data, at, count):
    return [struct.unpack_from("<QQQ", data, at + 24 * i) for i in range(count)]


def undo_delta(data, planes, rows, length):
    array = numpy.frombuffer(data, numpy.uint8).reshape(planes, rows, length)
    return numpy.cumsum(array, axis=1, dtype=numpy.uint64).astype(numpy.uint8).tobytes()


class Shard:
    """A whole shard, every byte checked: .metadata, .records, .rows, .keys, .payloads."""

    def __init__(self, folder, k):
        self.name = "shard-%06d.ffs" % k
        path = os.path.join(folder, self.name)
        with open(path, "rb") as file:
            self.data = data = file.read()
        want(len(data) >= HEADER + FOOTER, "%s: too short", self.name)
        self.header(k)
        self.footer(k)
        self.sections()
        self.metadata = Metadata(self.section[4])
        m = self.metadata
        want((m.level is not None) == self.compressed, "%s: compression disagrees", self.name)
        want(k < m.shards, "%s: is one too many", self.name)
        g, first, positions, self.range = m.place(k)
        want((self.generation, self.first, self.positions) == (g, first, positions)
             and g == len(m.generations) and self.version == m.version,
             "%s: generation, positions or version", self.name)
        self.records = [Record(self.section[0][i * RECORD : (i + 1) * RECORD],
                               "%s record %d" % (self.name, i)) for i in range(self.count)]
        _, row = m.row_places()
        want(len(self.section[1]) == row * self.count, "%s: bytes of labels", self.name)
        self.rows = [self.section[1][i * row : (i + 1) * row] for i in range(self.count)]
        self.cut_keys()
        slots = self.frames() if self.compressed else self.raw_slots()
        self.payloads = []
        for i, (record, slot) in enumerate(zip(self.records, slots)):
            where = "%s slot %d" % (self.name, i)
            payload = slot[: record.bytes]
            want(len(payload) == record.bytes and xxh(payload) == record.checksum,
                 "%s: checksum of the sample", where)
            self.check_labels(payload, self.rows[i], record, where)
            self.payloads.append(payload)

    def header(self, k):
        h = self.data[:HEADER]
        self.version = sealed(h, b"FFSHARD\n", 8, 64, self.name + " header")
        self.compressed = h[:4] == struct.pack("<I", 0x184D2A50)
        prefix = struct.pack("<II", 0x184D2A50, 4088) if self.compressed else b"ffpack\r\n"
        want(h[:8] == prefix, "%s: prefix", self.name)
        found, self.generation, reserved, self.first, self.positions = struct.unpack_from(
            "<IIIQQ", h, 20)
        want(found == k, "%s: holds shard %d", self.name, found)
        want(not reserved and self.positions, "%s: header fields", self.name)
        self.metadata_id = h[48:64]

    def footer(self, k):
        data, end = self.data, len(self.data)
        if self.compressed:
            rows, descriptor, magic = struct.unpack("<IBI", data[-9:])
            want(magic == 0x8F92EAB1 and descriptor == 0, "%s: no seek table at the end", self.name)
            self.table_bytes = 8 + 8 * rows + 9
            end -= self.table_bytes
            want(end >= HEADER + FOOTER, "%s: seek table too long", self.name)
            self.seek_rows = rows
        self.footer_at = end - FOOTER
        f = data[self.footer_at : end]
        want(sealed(f, b"FFSFOOT\n", 0, 184, self.name + " footer") == self.version,
             "%s: footer of another version", self.name)
        self.identity = struct.unpack_from("<Q", f, 248)[0]
        (number_, self.count, self.samples_end, self.payload_bytes, header, table_bytes,
         table_sum) = struct.unpack_from("<IQQQQQQ", f, 12)
        want(number_ == k, "%s: footer of shard %d", self.name, number_)
        want(f[40:48] == data[4088:4096], "%s: footer of another header", self.name)
        want(self.count <= min(self.positions, 2**32 - 1), "%s: too many samples", self.name)
        if self.compressed:
            want(table_bytes == self.table_bytes and table_sum == xxh(data[end:]),
                 "%s: seek table's checksum", self.name)
        else:
            want(table_bytes == 0 and table_sum == 0, "%s: a raw shard with a seek table", self.name)
        self.section_table = sections(f, 64, 5)

    def sections(self):
        data, self.section = self.data, []
        want(HEADER <= self.samples_end <= self.footer_at, "%s: samples end", self.name)
        at = self.samples_end + (8 if self.compressed else 0)
        for i, (offset, size, checksum) in enumerate(self.section_table):
            want(offset == align(at, 64) and offset + size <= self.footer_at,
                 "%s: section %d is not in its place", self.name, i)
            want(zero(data[at:offset]), "%s: padding before section %d", self.name, i)
            content = data[offset : offset + size]
            want(xxh(content) == checksum, "%s: checksum of section %d", self.name, i)
            self.section.append(content)
            at = offset + size
        want(self.footer_at == align(at, 64) and zero(data[at : self.footer_at]),
             "%s: footer is not in its place", self.name)
        want(len(self.section[0]) == RECORD * self.count, "%s: bytes of records", self.name)
        want(xxh128(self.section[4]) == self.metadata_id, "%s: header names other metadata",
             self.name)

    def cut_keys(self):
        at, self.keys = 0, []
        for i, record in enumerate(self.records):
            want(record.key_offset == at and record.key_bytes <= 4096, "%s: key %d", self.name, i)
            self.keys.append(self.section[2][at : at + record.key_bytes])
            at += record.key_bytes
        want(at == len(self.section[2]), "%s: bytes of keys", self.name)

    def check_record(self, i, offset):
        r, m = self.records[i], self.metadata
        where = "%s record %d" % (self.name, i)
        fits = (1 <= r.height <= m.height and 1 <= r.width <= m.width if m.variable
                else (r.height, r.width) == (m.height, m.width))
        want(fits, "%s: shape %d x %d", where, r.height, r.width)
        want(r.bytes == m.payload(r.height, r.width), "%s: bytes", where)
        want(r.offset == offset, "%s: at %d, wanted %d", where, r.offset, offset)
        want(r.item in self.range and r.shard == int(self.name[6:-4]), "%s: item or shard", where)
        return align(r.bytes, m.alignment)

    def raw_slots(self):
        want(not self.section[3], "%s: frames in a raw shard", self.name)
        at, slots = HEADER, []
        for i in range(self.count):
            size = self.check_record(i, at)
            want(at + size <= self.samples_end, "%s: slot %d", self.name, i)
            slots.append(self.data[at : at + size])
            want(zero(slots[-1][self.records[i].bytes :]), "%s: padding of slot %d", self.name, i)
            at += size
        want(at == self.samples_end and self.payload_bytes == at - HEADER, "%s: sums", self.name)
        return slots

    def frames(self):
        m, data, table = self.metadata, self.data, self.section[3]
        want(len(table) % 64 == 0 and len(table) // 64 + 2 == self.seek_rows,
             "%s: frames and seek table", self.name)
        at, payload_at, slot, out = HEADER, 0, 0, []
        seek = [(HEADER, 0)]
        for i in range(len(table) // 64):
            where = "%s frame %d" % (self.name, i)
            (offset, compressed, payload, payload_bytes, filtered_bytes, checksum, first, count,
             kind, reserved) = FRAME_FIELDS.unpack(table[64 * i : 64 * i + 64])
            want(not reserved and kind < 4 and count, "%s: fields", where)
            want((offset, payload, first) == (at, payload_at, slot), "%s: not in its place", where)
            want(at + compressed <= self.samples_end and slot + count <= self.count,
                 "%s: too long", where)
            want(FILTERS[kind] == m.filter or (kind == 1 and m.filter == "table"),
                 "%s: filter", where)
            frame = data[at : at + compressed]
            want(xxh(frame) == checksum, "%s: checksum", where)
            want(zstandard.get_frame_parameters(frame).content_size == filtered_bytes,
                 "%s: content size", where)
            content = self.decompress(frame, where)
            want(len(content) == filtered_bytes < 2**32 and compressed < 2**32, "%s: size", where)
            used = 0
            for s in range(slot, slot + count):
                size = self.check_record(s, payload_at)
                used = self.undo(content, used, s, FILTERS[kind], out, where)
                payload_at += size
            want(used == filtered_bytes and payload_at == payload + payload_bytes,
                 "%s: sizes do not add up", where)
            at += compressed
            slot += count
            seek.append((compressed, filtered_bytes))
        want((at, payload_at, slot) == (self.samples_end, self.payload_bytes, self.count),
             "%s: frames do not add up", self.name)
        tail = self.footer_at + FOOTER - at
        seek.append((tail, 0))
        want(data[at : at + 8] == struct.pack("<II", 0x184D2A50, tail - 8), "%s: tail", self.name)
        wanted = struct.pack("<II", 0x184D2A5E, 8 * len(seek) + 9)
        wanted += b"".join(struct.pack("<II", *row) for row in seek)
        wanted += struct.pack("<IBI", len(seek), 0, 0x8F92EAB1)
        want(data[self.footer_at + FOOTER :] == wanted, "%s: seek table", self.name)
        return out

    def decompress(self, frame, where):
        decompressor = zstandard.ZstdDecompressor().decompressobj()
        try:
            content = decompressor.decompress(frame)
        except zstandard.ZstdError as problem:
            raise Wrong("%s: %s" % (where, problem))
        want(not decompressor.unused_data, "%s: bytes after the zstd frame", where)
        return content

    def undo(self, content, used, slot, kind, out, where):
        m, r = self.metadata, self.records[slot]
        c, h, w, b = m.channels, r.height, r.width, BYTES[m.dtype]
        n = c * h * w
        planes, length = (c, w) if m.layout == "chw" else (1, w * c)
        size = n if kind == "table" else n * b
        part = content[used : used + size]
        want(len(part) == size, "%s: too short", where)
        if kind == "shuffle":
            tensor = numpy.frombuffer(part, numpy.uint8).reshape(b, n).T.tobytes()
        elif kind == "delta":
            tensor = undo_delta(part, planes, h, length * b)
        elif kind == "table":
            index = numpy.frombuffer(undo_delta(part, planes, h, length), numpy.uint8)
            tables = numpy.frombuffer(b"".join(m.tables), numpy.uint8).reshape(c, 256, b)
            channel = (numpy.arange(n) // (h * w)) if m.layout == "chw" else numpy.arange(n) % c
            tensor = tables[channel, index].tobytes()
        else:
            tensor = part
        rest = r.bytes - n * b
        out.append(tensor + content[used + size : used + size + rest])
        return used + size + rest

    def check_labels(self, payload, row, record, where):
        m = self.metadata
        places, _ = m.row_places()
        for field, at in places:
            end = at + field.bytes
            want(zero(row[end : align(end, 8)]), "%s: padding of labels", where)
            self.check_label(field, row[at:end], where)
        at = m.tensor(record.height, record.width)
        for field, begin in m.wide_places(record.height, record.width)[0]:
            want(zero(payload[at:begin]), "%s: padding of wide labels", where)
            self.check_label(field, payload[begin : begin + field.bytes], where)
            at = begin + field.bytes

    @staticmethod
    def check_label(field, data, where):
        if field.kind == "class":
            value = struct.unpack("<i" if field.dtype == "i32" else "<q", data)[0]
            want(value >= -1 and (not field.classes or value < len(field.classes)),
                 "%s: class %d", where, value)
        if field.kind == "multi-hot":
            want(all(x <= 1 for x in data), "%s: multi-hot", where)


# ---- the set -------------------------------------------------------------------------------------


def newest_text(folder):
    """The metadata of the shard with the highest number: of the newest generation."""
    names = [re.match(r"shard-(\d{6,})\.ffs\Z", name) for name in os.listdir(folder)]
    return Shard(folder, max([int(n[1]) for n in names if n], default=0)).section[4]


def index_text(folder):
    with open(os.path.join(folder, "index.ffx"), "rb") as file:
        data = file.read()
    want(len(data) >= HEADER, "index.ffx: too short")
    offset, length, _ = sections(data, 84, 1)[0]
    want(offset + length <= len(data), "index.ffx: its metadata is cut")
    return data[offset : offset + length]


class Split:
    """The set of the metadata `text`: the index's, or that of the newest generation of shards."""

    def __init__(self, folder, text=None):
        self.metadata = Metadata(text or newest_text(folder))
        self.shards, of_generation = [], {}
        for k in range(self.metadata.shards):
            shard = Shard(folder, k)
            g, own = shard.generation, shard.section[4]
            want(g == self.metadata.place(k)[0] and of_generation.setdefault(g, own) == own,
                 "%s: of another dataset", shard.name)
            if g == len(self.metadata.generations):
                want(own == self.metadata.text, "%s: of another dataset", shard.name)
            self.shards.append(shard)
        for g in range(len(self.metadata.generations)):
            self.metadata.continues(Metadata(of_generation[g]))
        # (item, shard, slot) in the order of numbers.
        self.order = sorted((r.item, k, i) for k, s in enumerate(self.shards)
                            for i, r in enumerate(s.records))
        want(self.order, "not one sample")
        want(len({o[0] for o in self.order}) == len(self.order), "an item is there twice")

    def ids(self):
        content, source = xxhash.xxh3_128(), xxhash.xxh3_128()
        for _, k, i in self.order:
            s = self.shards[k]
            r, key = s.records[i], s.keys[i]
            named = struct.pack("<I", len(key)) + key
            content.update(struct.pack("<QII", r.checksum, r.height, r.width) + s.rows[i] + named)
            source.update(named + struct.pack("<Q", r.source))
        return content.digest(), xxh128(self.metadata.hashed), source.digest()

    def index(self):
        """The bytes that index.ffx must have."""
        base, bases = 0, []
        for s in self.shards:
            bases.append(base)
            base += len(s.section[2])
        rows = b"".join(ROW_FIELDS.pack(len(s.data), s.footer_at, s.identity, s.first, s.positions,
                                        s.count, s.generation, bytes(12)) for s in self.shards)
        parts = [self.metadata.text, rows, b"", b"", b"".join(s.section[2] for s in self.shards)]
        parts[2] = b"".join(self.shards[k].records[i].pack(
            self.shards[k].records[i].key_offset + bases[k]) for _, k, i in self.order)
        parts[3] = b"".join(self.shards[k].rows[i] for _, k, i in self.order)
        body, table = b"", []
        for part in parts:
            body += bytes(-len(body) % 64)
            table.append((HEADER + len(body), len(part), 0))
            body += part
        body += bytes(-len(body) % 64)
        sums = b"".join(struct.pack("<Q", xxh(body[at : at + BLOCK]))
                        for at in range(0, len(body), BLOCK))
        table.append((HEADER + len(body), len(sums), xxh(sums)))
        body += sums
        body += bytes(-len(body) % 64)
        m = self.metadata
        header = b"FFINDEX\n" + struct.pack("<IIQQI", m.version, len(self.shards),
                                            HEADER + len(body), len(self.order),
                                            len(m.generations))
        header += b"".join(self.ids()) + b"".join(struct.pack("<QQQ", *t) for t in table)
        header += bytes(HEADER - 8 - len(header))
        return header + struct.pack("<Q", xxh(header)) + body

    def read_index(self, folder):
        """Reads index.ffx as a reader without shards does, then compares with the shards."""
        with open(os.path.join(folder, "index.ffx"), "rb") as file:
            data = file.read()
        want(len(data) >= HEADER, "index.ffx: too short")
        sealed(data[:HEADER], b"FFINDEX\n", 0, 228, "index.ffx header")
        shards, size, count, _ = struct.unpack_from("<IQQI", data, 12)
        want(size == len(data), "index.ffx: %d bytes, wanted %d", len(data), size)
        table, at = sections(data, 84, 6), HEADER
        for i, (offset, length, checksum) in enumerate(table):
            want(offset == align(at, 64) and offset + length <= size and zero(data[at:offset]),
                 "index.ffx: section %d is not in its place", i)
            want(i == 5 or checksum == 0, "index.ffx: section %d has a checksum", i)
            at = offset + length
        want(size == align(at, 64) and zero(data[at:]), "index.ffx: its end")
        part = [data[o : o + n] for o, n, _ in table]
        want(xxh(part[5]) == table[5][2], "index.ffx: checksum of the checksums")
        for i, begin in enumerate(range(HEADER, table[5][0], BLOCK)):
            block = data[begin : min(begin + BLOCK, table[5][0])]
            want(part[5][8 * i : 8 * i + 8] == struct.pack("<Q", xxh(block)),
                 "index.ffx: checksum of block %d", i)
        m = Metadata(part[0])
        want(m.shards == shards and len(part[1]) == 64 * shards, "index.ffx: number of shards")
        want(len(part[2]) == RECORD * count and len(part[3]) == m.row_places()[1] * count,
             "index.ffx: number of samples")
        want(data == self.index(), "index.ffx: is not what the shards give")

    def sample(self, number_):
        _, k, i = self.order[number_]
        s = self.shards[k]
        r = s.records[i]
        labels = {}
        for field, at in self.metadata.row_places()[0]:
            labels[field.name] = s.rows[i][at : at + field.bytes]
        for field, at in self.metadata.wide_places(r.height, r.width)[0]:
            labels[field.name] = s.payloads[i][at : at + field.bytes]
        tensor = s.payloads[i][: self.metadata.tensor(r.height, r.width)]
        return r, s.keys[i], [labels[f.name] for f in self.metadata.fields], tensor

    def dump(self, out):
        m = self.metadata
        content, transform, source = self.ids()
        line = {"line": "set", "samples": len(self.order), "shards": len(self.shards),
                "index_bytes": len(self.index()), "content_id": content.hex(),
                "transform_id": transform.hex(), "source_id": source.hex(), "split": m.split.hex(),
                "dtype": m.dtype, "layout": m.layout, "channels": m.channels, "height": m.height,
                "width": m.width, "variable": m.variable, "alignment": m.alignment,
                "items": m.items, "per_shard": m.per_shard, "per_block": m.per_block,
                "mean": m.mean, "std": m.std, "transforms": [t.hex() for t in m.transforms],
                "required": [t.hex() for t in m.required],
                "optional": [t.hex() for t in m.optional],
                "provenance": [[k.hex(), v.hex()] for k, v in m.provenance],
                "fields": [{"name": f.name.hex(), "classes": [c.hex() for c in f.classes],
                            "kind": f.kind, "dtype": f.dtype, "width": f.width}
                           for f in m.fields]}
        if m.level is not None:
            line.update(level=m.level, filter=m.filter)
        if m.tables:
            line["table_crc32"] = zlib.crc32(b"".join(m.tables))
        print(json.dumps(line), file=out)
        for s in self.shards:
            print(json.dumps({"line": "shard", "name": s.name, "bytes": len(s.data),
                              "samples": s.count, "first": s.first, "positions": s.positions}),
                  file=out)
        for i in range(len(self.order)):
            r, key, labels, tensor = self.sample(i)
            print(json.dumps({"line": "sample", "number": i, "item": r.item, "shard": r.shard,
                              "offset": r.offset, "bytes": r.bytes, "height": r.height,
                              "width": r.width, "checksum": "%016x" % r.checksum,
                              "source": "%016x" % r.source, "key": key.hex(),
                              "tensor_crc32": zlib.crc32(tensor),
                              "labels": [v.hex() for v in labels]}), file=out)

    def array(self):
        m = self.metadata
        want(not m.variable, "samples of several sizes do not fit one array")
        shape = ((m.channels, m.height, m.width) if m.layout == "chw"
                 else (m.height, m.width, m.channels))
        return numpy.stack([numpy.frombuffer(self.sample(i)[3], NUMPY[m.dtype]).reshape(shape)
                            for i in range(len(self.order))])


def main(arguments):
    folder, *rest = arguments
    try:
        alone = "--shards" in rest or "--index" in rest
        split = Split(folder, None if alone else index_text(folder))
        if not alone:
            split.read_index(folder)
        if "--index" in rest:
            with open(rest[rest.index("--index") + 1], "wb") as file:
                file.write(split.index())
        if "--npy" in rest:
            numpy.save(rest[rest.index("--npy") + 1], split.array())
        if "--dump" in rest:
            split.dump(sys.stdout)
    except (Wrong, struct.error, zstandard.ZstdError) as problem:
        print("second_reader: %s: %s" % (folder, problem), file=sys.stderr)
        return 65
    except OSError as problem:
        print("second_reader: %s" % problem, file=sys.stderr)
        return 74
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
